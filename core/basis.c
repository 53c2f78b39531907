/* What orders know of the samples. Owns its tables; borrows the rest. */
#include "basis.h"

#include "fields.h"
#include "numbers.h"
#include "report.h"
#include "weights.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int check_window(const struct config *config, uint64_t places)
{
    if (config->deal.window <= places)
        return 0;
    report_error("window=%llu: an epoch has %llu sample%s", (unsigned long long)config->deal.window,
                 (unsigned long long)places, places == 1 ? "" : "s");
    return -EINVAL;
}

static int cut_blocks(struct basis *basis, const struct config *config, const struct index *index)
{
    int fault;

    if (!index) {
        report_error("order=block needs shards: blocks are cut by their bytes");
        return -EINVAL;
    }
    fault = blocks_open(&basis->blocks, index, config->order.block);
    basis->order.blocks = basis->blocks.starts;
    basis->order.block_count = basis->blocks.count;
    return fault;
}

static int check_draws(const struct config *config, uint64_t samples, uint64_t places)
{
    const char *name = order_kind_name(config->order.kind);

    if (!order_draws(config->order.kind))
        return 0;
    if (places == 1) {
        report_error("order=%s: an epoch of one sample: torch.multinomial makes a single draw by "
                     "another way, which is not here; epoch_samples=2 is the least",
                     name);
        return -EINVAL;
    }
    if (config->order.kind == ORDER_RESAMPLED && samples > ORDER_RESAMPLED_MAX) {
        report_error("order=%s: %" PRIu64 " samples; torch's sums of weights stand still after "
                     "%" PRIu64,
                     name, samples, ORDER_RESAMPLED_MAX);
        return -EINVAL;
    }
    return 0;
}

/* With length, epochs of another size than the data set may cut buckets in two. */
static void warn_of_cut_buckets(const struct config *config, uint64_t samples)
{
    uint64_t bucket = config->order.bucket, places = config->order.epoch_samples;

    if (places && places != samples && (samples % bucket || places % bucket))
        report_warning("order=length: %" PRIu64 " does not divide both the data set's %" PRIu64
                       " samples and epoch_samples=%" PRIu64 ": batches of %" PRIu64
                       " will straddle buckets",
                       bucket, samples, places, bucket);
}

static int balance(struct basis *basis, const struct config *config, const struct labels *labels)
{
    uint64_t unlabelled;
    int fault;

    if (!labels) {
        report_error("weights=balanced: there are no labels without shards");
        return -EINVAL;
    }
    if (!labels->of) {
        report_error("weights=balanced: no sample has a label%s",
                     config->label == CONFIG_LABEL_NONE ? " (label=none)" : "");
        return -EINVAL;
    }
    fault = weights_balance(labels, basis->order.samples, &basis->cumulative, &unlabelled);
    if (fault)
        return fault;
    if (unlabelled)
        report_warning("weights=balanced: %" PRIu64 " sample%s without a label: never drawn",
                       unlabelled, unlabelled == 1 ? "" : "s");
    return numbers_hash(basis->cumulative, basis->order.samples, &basis->hash);
}

static int open_weights(struct basis *basis, const struct config *config,
                        const struct labels *labels)
{
    int fault = strcmp(config->weights, "balanced") == 0
                    ? balance(basis, config, labels)
                    : numbers_read_weights(config->weights, basis->order.samples,
                                           &basis->cumulative, &basis->hash);

    if (!fault)
        weights_accumulate(basis->cumulative, basis->order.samples);
    basis->order.cumulative = basis->cumulative;
    return fault;
}

static int measure_sizes(struct basis *basis, const struct config *config,
                         const struct index *index)
{
    uint64_t samples = basis->order.samples;

    if (!index) {
        report_error("lengths=size: samples have no size without shards");
        return -EINVAL;
    }
    basis->lengths = calloc(samples ? samples : 1, sizeof *basis->lengths);
    if (!basis->lengths)
        return -ENOMEM;
    for (uint64_t i = 0; i < samples; i++)
        basis->lengths[i] = index->members[fields_primary(index, config->fields, i)].size;
    return numbers_hash(basis->lengths, samples, &basis->hash);
}

static int open_lengths(struct basis *basis, const struct config *config, const struct index *index)
{
    int fault = strcmp(config->lengths, "size") == 0
                    ? measure_sizes(basis, config, index)
                    : numbers_read_lengths(config->lengths, basis->order.samples, &basis->lengths,
                                           &basis->hash);

    basis->order.lengths = basis->lengths;
    return fault;
}

int basis_open(struct basis *basis, const struct config *config, uint64_t samples,
               const struct index *index, const struct labels *labels)
{
    int fault;

    *basis = (struct basis){.order = {.samples = samples},
                            .places = order_spec_places(&config->order, samples)};
    fault = config->order.kind == ORDER_BLOCK ? cut_blocks(basis, config, index) : 0;
    if (!fault)
        fault = check_window(config, basis->places);
    if (!fault)
        fault = check_draws(config, samples, basis->places);
    if (!fault && config->order.kind == ORDER_WEIGHTED)
        fault = open_weights(basis, config, labels);
    if (!fault && config->order.kind == ORDER_LENGTH) {
        fault = open_lengths(basis, config, index);
        if (!fault)
            warn_of_cut_buckets(config, samples);
    }
    if (fault)
        basis_close(basis);
    return fault;
}

void basis_close(struct basis *basis)
{
    blocks_close(&basis->blocks);
    free(basis->cumulative);
    free(basis->lengths);
    *basis = (struct basis){0};
}
