/* The order, the ends of shards, and the hash. Owns the order's table; never reads a file. */
#include "plan.h"

#include "../core/report.h"
#include "../core/version.h"
#include "header.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <xxhash.h>

/* Raised when the same files would be packed to other bytes. */
#define PACK_FORMAT 1

static void add_number(XXH3_state_t *state, uint64_t value)
{
    XXH3_128bits_update(state, &value, sizeof value);
}

static void add_text(XXH3_state_t *state, const char *text, size_t length)
{
    add_number(state, length);
    XXH3_128bits_update(state, text, length);
}

static void add_options(XXH3_state_t *state, const struct pack_options *options)
{
    add_number(state, PACK_FORMAT);
    add_text(state, SHUFFLEFS_VERSION, strlen(SHUFFLEFS_VERSION));
#ifdef LIBJPEG_TURBO_VERSION_NUMBER
    add_number(state, LIBJPEG_TURBO_VERSION_NUMBER);
#endif
    add_text(state, options->output.text, strlen(options->output.text));
    add_number(state, options->limit);
    add_number(state, options->limit_value);
    add_number(state, options->shuffled);
    add_number(state, options->seed);
    add_number(state, order_version(ORDER_TORCH));
    add_number(state, options->keep_order);
    add_number(state, (uint64_t)options->short_side);
    add_number(state, (uint64_t)options->quality);
    add_number(state, options->convert_png);
    add_number(state, options->damaged);
    add_number(state, options->mtime_given ? options->mtime : UINT64_MAX);
}

static int make_hash(struct pack_plan *plan, const struct pack_options *options)
{
    XXH3_state_t *state = XXH3_createState();
    XXH128_hash_t hash;

    if (!state)
        return -ENOMEM;
    XXH3_128bits_reset(state);
    add_options(state, options);
    for (size_t i = 0; i < plan->listing->count; i++) {
        const struct pack_member *member = &plan->listing->members[i];
        add_text(state, member->key, member->key_length);
        add_text(state, member->field, strlen(member->field));
        /* The spelling of the file's name does not reach the output: its letters' case, say. */
        add_number(state, member->size);
        add_number(state, (uint64_t)member->seconds);
        add_number(state, (uint64_t)member->nanoseconds);
        add_number(state, member->made ? member->number : 0);
    }
    hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(plan->hash, sizeof plan->hash, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
    return 0;
}

int pack_plan_open(struct pack_plan *plan, const struct pack_listing *listing,
                   const struct pack_options *options)
{
    struct order_basis basis = {.samples = listing->samples};
    struct order_spec spec = {.kind = options->shuffled ? ORDER_TORCH : ORDER_SEQUENTIAL,
                              .seed = options->seed};
    int fault;

    *plan = (struct pack_plan){
        .listing = listing,
        .limit = options->limit,
        .limit_value = options->limit_value,
    };
    if (plan->limit == PACK_LIMIT_SHARDS && plan->limit_value > listing->samples) {
        report_error("--shard-count %llu: there are %llu samples",
                     (unsigned long long)plan->limit_value, (unsigned long long)listing->samples);
        return -EINVAL;
    }
    fault = order_open(&plan->order, &spec, &basis, 0);
    if (!fault)
        fault = make_hash(plan, options);
    if (fault)
        report_error("the order of %llu samples: %s", (unsigned long long)listing->samples,
                     strerror(-fault));
    return fault;
}

void pack_plan_close(struct pack_plan *plan)
{
    order_close(plan->order);
    plan->order = NULL;
}

uint64_t pack_plan_sample(const struct pack_plan *plan, uint64_t position)
{
    return order_sample(plan->order, position);
}

/* number * samples / shards, without overflow. */
static uint64_t evened(uint64_t samples, uint64_t shards, uint64_t number)
{
    return (uint64_t)((unsigned __int128)samples * number / shards);
}

uint64_t pack_plan_end(const struct pack_plan *plan, uint64_t number, uint64_t first)
{
    uint64_t samples = plan->listing->samples;

    if (plan->limit == PACK_LIMIT_SHARDS)
        return evened(samples, plan->limit_value, number + 1);
    if (plan->limit == PACK_LIMIT_SAMPLES && plan->limit_value < samples - first)
        return first + plan->limit_value;
    return samples;
}

bool pack_plan_is_full(const struct pack_plan *plan, uint64_t bytes, uint64_t more)
{
    return plan->limit == PACK_LIMIT_BYTES && bytes > 0 &&
           bytes + more + PACK_TRAILER > plan->limit_value;
}
