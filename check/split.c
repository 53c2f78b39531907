/* How an epoch is dealt. Owns the bits while it counts. */
#include "split.h"

#include <errno.h>
#include <stdlib.h>

#define BITS 64

struct count {
    const struct order *order;
    uint64_t *places, *samples; /* a bit each: it was met */
};

/* Whether it is met for the first time. */
static bool is_new(uint64_t *bits, uint64_t i)
{
    uint64_t bit = (uint64_t)1 << (i % BITS);
    bool is_set = bits[i / BITS] & bit;

    bits[i / BITS] |= bit;
    return !is_set;
}

static void meet(struct check_split *split, struct count *count, uint64_t place)
{
    split->read++;
    if (is_new(count->places, place))
        split->unread--;
    else
        split->repeated++;
    split->distinct += is_new(count->samples, order_sample(count->order, place));
}

static int go_through(struct check_split *split, struct count *count, const struct config *config)
{
    split->unread = split->places;
    split->shortest = UINT64_MAX;
    for (uint64_t rank = 0; rank < split->world; rank++) {
        struct plan plan;
        if (!plan_open(&plan, split->places,
                       &(struct plan_share){.rank = rank, .world = split->world}, &config->deal))
            return -EINVAL;
        if (plan.length > split->longest) {
            split->longest = plan.length;
            split->longer_ranks = 0;
        }
        split->longer_ranks += plan.length == split->longest;
        if (plan.length < split->shortest)
            split->shortest = plan.length;
        for (uint64_t position = 0; position < plan.length; position++)
            meet(split, count, plan_global(&plan, position));
    }
    return 0;
}

static uint64_t last_batch(uint64_t length, uint64_t batch)
{
    return length == 0 ? 0 : length % batch ? length % batch : batch;
}

static bool leaves_one(const struct check_split *split, uint64_t batch)
{
    return batch > 1 &&
           (last_batch(split->longest, batch) == 1 || last_batch(split->shortest, batch) == 1);
}

bool check_split_ends_in_one(const struct check_split *split)
{
    return split->batch && leaves_one(split, split->batch);
}

static void deal_batches(struct check_split *split)
{
    uint64_t batch = split->batch;

    if (!batch)
        return;
    split->batches_most = (split->longest + batch - 1) / batch;
    split->batches_least = (split->shortest + batch - 1) / batch;
    split->last_of_longest = last_batch(split->longest, batch);
    split->last_of_shortest = last_batch(split->shortest, batch);
    if (!leaves_one(split, batch))
        return;
    for (uint64_t other = batch - 1; other > 1 && !split->better_batch; other--)
        if (!leaves_one(split, other))
            split->better_batch = other;
}

int check_split_make(struct check_split *split, const struct config *config,
                     const struct basis *basis, uint64_t batch)
{
    uint64_t samples = basis->order.samples, places = basis->places;
    struct order *order;
    struct count count = {0};
    int fault = order_open(&order, &config->order, &basis->order, config->epoch);

    *split = (struct check_split){.samples = samples,
                                  .places = places,
                                  .world = config->world,
                                  .epoch = config->epoch,
                                  .batch = batch,
                                  .once = places == samples && !order_draws(config->order.kind)};
    if (fault)
        return fault;
    count.order = order;
    count.places = calloc(places / BITS + 1, sizeof *count.places);
    count.samples = calloc(samples / BITS + 1, sizeof *count.samples);
    fault = count.places && count.samples ? go_through(split, &count, config) : -ENOMEM;
    free(count.places);
    free(count.samples);
    order_close(order);
    if (fault)
        return fault;
    split->padding = plan_padding(places, config->world, &config->deal);
    split->dropped = plan_dropped(places, config->world, &config->deal);
    split->right = split->repeated == split->padding && split->unread == split->dropped &&
                   split->read == places + split->padding - split->dropped &&
                   split->longest - split->shortest <= (config->deal.remainder == PLAN_KEEP) &&
                   (!split->once || split->distinct == samples - split->dropped);
    deal_batches(split);
    return 0;
}
