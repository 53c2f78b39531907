/* Figures of one sequence. Owns counts, and the order of use of blocks that are kept. */
#include "quality.h"

#include "../core/blocks.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

static const struct {
    const char *name, *title;
} figures_told[QUALITY_FIGURES] = {
    [QUALITY_SAMPLE_ENTROPY] = {"sample_entropy", "entropy of sample differences, bits"},
    [QUALITY_SHARD_ENTROPY] = {"shard_entropy", "entropy of shard differences, bits"},
    [QUALITY_RUN_MEAN] = {"shard_run_mean", "run of one shard, mean"},
    [QUALITY_RUN_LONGEST] = {"shard_run_longest", "run of one shard, longest"},
    [QUALITY_SAME_BLOCK] = {"same_block", "neighbours out of one block, share"},
    [QUALITY_CLASSES] = {"batch_classes", "classes in a batch, mean"},
    [QUALITY_CLASS_ENTROPY] = {"batch_class_entropy", "entropy of a batch's classes, bits"},
    [QUALITY_SEEKS] = {"seeks", "seeks of an epoch"},
    [QUALITY_BLOCK_READS] = {"block_reads", "blocks read in an epoch"},
};

const char *quality_name(enum quality_figure figure)
{
    return figures_told[figure].name;
}

const char *quality_title(enum quality_figure figure)
{
    return figures_told[figure].title;
}

/* Bits of the distribution that `total` things in bins have. */
static double entropy(const uint64_t *counts, uint64_t bins, uint64_t total)
{
    double bits = 0;

    for (uint64_t i = 0; i < bins; i++)
        if (counts[i])
            bits -= (double)counts[i] * log2((double)counts[i] / (double)total);
    return bits / (double)total;
}

/* Differences modulo `range`, in bins. */
struct differences {
    uint64_t range, bins;
    uint64_t counts[QUALITY_BINS];
};

static void differences_open(struct differences *differences, uint64_t range)
{
    memset(differences, 0, sizeof *differences);
    differences->range = range;
    differences->bins = range < QUALITY_BINS ? range : QUALITY_BINS;
}

static void differences_add(struct differences *differences, uint64_t from, uint64_t to)
{
    uint64_t difference = to >= from ? to - from : to + differences->range - from;

    differences->counts[(uint64_t)((wide)difference * differences->bins / differences->range)]++;
}

#define NOWHERE UINT32_MAX

/* The blocks that are kept, the latest used at the head: what a reader with a pool would read. */
struct kept {
    uint64_t room, held;
    uint32_t head, tail;
    uint32_t *before, *after; /* of each block; before[b] == b: not kept */
};

static int kept_open(struct kept *kept, uint64_t blocks, uint64_t room)
{
    *kept = (struct kept){.room = room, .head = NOWHERE, .tail = NOWHERE};
    kept->before = calloc(blocks, sizeof *kept->before);
    kept->after = calloc(blocks, sizeof *kept->after);
    if (!kept->before || !kept->after)
        return -ENOMEM;
    for (uint64_t b = 0; b < blocks; b++)
        kept->before[b] = (uint32_t)b;
    return 0;
}

static void kept_close(struct kept *kept)
{
    free(kept->before);
    free(kept->after);
}

static void kept_take(struct kept *kept, uint32_t block)
{
    uint32_t before = kept->before[block], after = kept->after[block];

    if (before == NOWHERE)
        kept->head = after;
    else
        kept->after[before] = after;
    if (after == NOWHERE)
        kept->tail = before;
    else
        kept->before[after] = before;
    kept->before[block] = block;
    kept->held--;
}

static void kept_clear(struct kept *kept)
{
    while (kept->held)
        kept_take(kept, kept->tail);
}

/* True: it was not there and is read. */
static bool kept_use(struct kept *kept, uint32_t block)
{
    bool missed = kept->before[block] == block;

    if (kept->head == block)
        return false;
    if (!missed)
        kept_take(kept, block);
    else if (kept->held == kept->room)
        kept_take(kept, kept->tail);
    kept->before[block] = NOWHERE;
    kept->after[block] = kept->head;
    if (kept->head == NOWHERE)
        kept->tail = block;
    else
        kept->before[kept->head] = block;
    kept->head = block;
    kept->held++;
    return missed;
}

/* What neighbours in the ranks' sequences have in common. */
struct neighbours {
    const struct quality_space *space;
    struct differences samples, shards;
    struct kept kept;
    uint64_t reads, pairs, runs, run, longest, seeks, same_block, block_reads;
    uint64_t sample, shard, block; /* the last ones */
};

static void begin_rank(struct neighbours *neighbours)
{
    neighbours->run = 0;
    if (neighbours->space->block_first)
        kept_clear(&neighbours->kept);
}

static void add_block(struct neighbours *neighbours, uint64_t sample, bool first)
{
    const struct quality_space *space = neighbours->space;
    uint64_t block;

    if (!space->block_first)
        return;
    block = blocks_of(space->block_first, space->block_count, sample);
    neighbours->same_block += !first && block == neighbours->block;
    neighbours->block_reads += kept_use(&neighbours->kept, (uint32_t)block);
    neighbours->block = block;
}

static void add_read(struct neighbours *neighbours, uint64_t sample)
{
    const struct quality_space *space = neighbours->space;
    uint64_t shard = blocks_of(space->shard_first, space->shard_count, sample);
    bool first = neighbours->run == 0, same = !first && shard == neighbours->shard;

    neighbours->reads++;
    neighbours->runs += !same;
    neighbours->run = same ? neighbours->run + 1 : 1;
    if (neighbours->run > neighbours->longest)
        neighbours->longest = neighbours->run;
    neighbours->seeks += !same || sample != neighbours->sample + 1;
    if (!first) {
        neighbours->pairs++;
        differences_add(&neighbours->samples, neighbours->sample, sample);
        differences_add(&neighbours->shards, neighbours->shard, shard);
    }
    add_block(neighbours, sample, first);
    neighbours->sample = sample;
    neighbours->shard = shard;
}

static void tell_neighbours(const struct neighbours *neighbours, double *figures)
{
    if (neighbours->reads < 2 || !neighbours->pairs)
        return;
    figures[QUALITY_SAMPLE_ENTROPY] = entropy(neighbours->samples.counts, neighbours->samples.bins,
                                              neighbours->pairs);
    figures[QUALITY_SEEKS] = (double)neighbours->seeks;
    if (neighbours->space->shard_count > 1) {
        figures[QUALITY_SHARD_ENTROPY] = entropy(neighbours->shards.counts, neighbours->shards.bins,
                                                 neighbours->pairs);
        figures[QUALITY_RUN_MEAN] = (double)neighbours->reads / (double)neighbours->runs;
        figures[QUALITY_RUN_LONGEST] = (double)neighbours->longest;
    }
    if (!neighbours->space->block_first)
        return;
    figures[QUALITY_SAME_BLOCK] = (double)neighbours->same_block / (double)neighbours->pairs;
    figures[QUALITY_BLOCK_READS] = (double)neighbours->block_reads;
}

/* A lookup of `sequence`, the `number`th of it. */
static uint64_t look_up(const struct quality_sequence *sequence, const struct plan *plan,
                        uint64_t position, uint64_t number)
{
    if (sequence->progress && number % QUALITY_STEP == QUALITY_STEP - 1)
        progress_add(sequence->progress, QUALITY_STEP);
    return sequence->sample(sequence->context, plan_global(plan, position));
}

static void open_rank(const struct quality_sequence *sequence, uint64_t rank, struct plan *plan)
{
    plan_open(
        plan, sequence->places,
        &(struct plan_share){.rank = rank, .world = sequence->world, .after = sequence->after},
        &sequence->deal);
}

static int measure_neighbours(const struct quality_space *space,
                              const struct quality_sequence *sequence, double *figures)
{
    struct neighbours *neighbours = calloc(1, sizeof *neighbours);
    struct plan plan;
    int fault = 0;

    if (!neighbours)
        return -ENOMEM;
    neighbours->space = space;
    differences_open(&neighbours->samples, space->samples);
    differences_open(&neighbours->shards, space->shard_count);
    if (space->block_first)
        fault = kept_open(&neighbours->kept, space->block_count, space->pool);
    for (uint64_t rank = 0; !fault && rank < sequence->world; rank++) {
        open_rank(sequence, rank, &plan);
        begin_rank(neighbours);
        for (uint64_t p = 0; p < plan.length; p++)
            add_read(neighbours, look_up(sequence, &plan, p, neighbours->reads));
    }
    if (!fault)
        tell_neighbours(neighbours, figures);
    kept_close(&neighbours->kept);
    free(neighbours);
    return fault;
}

/* Classes of the batch under way. */
struct batch {
    uint64_t *counts;  /* of each class */
    uint32_t *classes; /* those that are there */
    uint64_t present, labelled, size;
};

struct batches {
    uint64_t count;
    double classes, bits; /* sums */
};

static int batch_open(struct batch *batch, const struct quality_space *space, uint64_t most)
{
    uint64_t present = most < space->class_count ? most : space->class_count;

    *batch = (struct batch){0};
    batch->counts = calloc((size_t)space->class_count + 1, sizeof *batch->counts);
    batch->classes = calloc(present + 1, sizeof *batch->classes);
    return batch->counts && batch->classes ? 0 : -ENOMEM;
}

static void batch_close(struct batch *batch)
{
    free(batch->counts);
    free(batch->classes);
}

static void batch_add(struct batch *batch, uint32_t class)
{
    batch->size++;
    if (class == QUALITY_NO_CLASS)
        return;
    if (batch->counts[class]++ == 0)
        batch->classes[batch->present++] = class;
    batch->labelled++;
}

static void batch_end(struct batch *batch, struct batches *batches)
{
    double bits = 0;

    batches->count++;
    batches->classes += (double)batch->present;
    for (uint64_t i = 0; i < batch->present; i++) {
        double share = (double)batch->counts[batch->classes[i]] / (double)batch->labelled;
        bits -= share * log2(share);
        batch->counts[batch->classes[i]] = 0;
    }
    batches->bits += bits;
    batch->present = batch->labelled = batch->size = 0;
}

/* Ranks in turn, as the job reads; uneven ranks are passed over where they have ended. */
static int measure_batches(const struct quality_space *space,
                           const struct quality_sequence *sequence, double *figures)
{
    struct batches batches = {0};
    struct batch batch;
    struct plan plan;
    uint64_t longest, reads = 0;
    int fault = batch_open(&batch, space, sequence->batch);

    open_rank(sequence, sequence->deal.runs ? sequence->world - 1 : 0, &plan);
    longest = plan.length;
    for (uint64_t p = 0; !fault && p < longest; p++) {
        for (uint64_t rank = 0; rank < sequence->world; rank++) {
            if (sequence->world > 1)
                open_rank(sequence, rank, &plan);
            if (p >= plan.length)
                continue;
            batch_add(&batch, space->classes[look_up(sequence, &plan, p, reads++)]);
            if (batch.size == sequence->batch)
                batch_end(&batch, &batches);
        }
    }
    if (!fault && batch.size && !batches.count)
        batch_end(&batch, &batches);
    if (batches.count) {
        figures[QUALITY_CLASSES] = batches.classes / (double)batches.count;
        figures[QUALITY_CLASS_ENTROPY] = batches.bits / (double)batches.count;
    }
    batch_close(&batch);
    return fault;
}

int quality_measure(const struct quality_space *space, const struct quality_sequence *sequence,
                    double *figures)
{
    int fault;

    for (int f = 0; f < QUALITY_FIGURES; f++)
        figures[f] = NAN;
    fault = measure_neighbours(space, sequence, figures);
    if (!fault && space->classes)
        fault = measure_batches(space, sequence, figures);
    return fault;
}
