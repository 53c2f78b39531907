/* What a window of blocks does to the classes in a batch, and which window would do: batches drawn
 * as order=block draws them, and counted. Owns a row of blocks while it works; never lays out an
 * epoch. */
#include "blocks.h"

#include "basis.h"
#include "labels.h"
#include "order_block.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Set these draws apart from each other. */
#define USE_ROW     0x726f77
#define USE_BATCHES 0x62617463686573
#define TRIALS      96

/* A batch: labels in order, so that equal ones stand together. */
struct batch {
    int64_t labels[BLOCKS_BATCH];
    size_t count;
};

/* Sums over batches. */
struct sum {
    double entropy, classes;
};

static int compare(const void *a, const void *b)
{
    const int64_t *one = a, *other = b;

    return (*one > *other) - (*one < *other);
}

static void add_batch(struct sum *sum, struct batch *batch)
{
    qsort(batch->labels, batch->count, sizeof *batch->labels, compare);
    for (size_t i = 0, run; i < batch->count; i += run) {
        double share;
        for (run = 1; i + run < batch->count && batch->labels[i + run] == batch->labels[i]; run++)
            ;
        share = (double)run / (double)batch->count;
        sum->entropy -= share * log(share);
        sum->classes += 1;
    }
}

/* Samples without a label count for nothing. */
static void take(struct batch *batch, const struct labels *labels, uint64_t sample)
{
    if (labels->of[sample] != LABELS_MISSING)
        batch->labels[batch->count++] = labels->of[sample];
}

/* `count` different numbers of [from, to), none less likely than another one: Floyd's way (Bentley
 * and Floyd, "A sample of brilliance", 1987). */
static void choose(struct draw *draw, uint64_t from, uint64_t to, size_t count, uint64_t *chosen)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t top = to - count + i, at = from + draw_below(draw, top - from + 1);
        for (size_t k = 0; k < i; k++)
            if (chosen[k] == at)
                at = top;
        chosen[i] = at;
    }
}

/* The pool that has place `at` of the row: of few in a stream, or of many. */
static void pool_of(const struct block_row *row, const struct block_pools *pools, uint64_t at,
                    uint64_t *from, uint64_t *to)
{
    uint64_t low = 0, high = pools->pools;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        block_pool_at(row, pools, middle, from, to);
        if (*from <= at)
            low = middle;
        else
            high = middle;
    }
    block_pool_at(row, pools, low, from, to);
}

/* Adds what a stream gives to a batch: its places [first, first + count). */
static void take_stream(struct batch *batch, const struct labels *labels,
                        const struct block_row *row, const struct block_pools *pools,
                        uint64_t first, size_t count, struct draw *draw)
{
    uint64_t at = pools->start + first, from, to, chosen[BLOCKS_BATCH];

    while (count) {
        size_t here = count;
        pool_of(row, pools, at, &from, &to);
        if (here > to - at)
            here = (size_t)(to - at);
        choose(draw, from, to, here, chosen);
        for (size_t i = 0; i < here; i++)
            take(batch, labels, block_row_sample(row, chosen[i]));
        at += here;
        count -= here;
    }
}

/* What is measured on: the row does not depend on streams and windows. */
struct ground {
    struct block_row row;
    const struct labels *labels;
    size_t size; /* of a batch */
};

/* Batches that start anywhere in an epoch of this window and these streams. */
static struct sum measure(struct ground *ground, uint64_t streams, uint64_t window)
{
    uint64_t n = ground->row.basis->samples, size = ground->size;
    struct sum sum = {0};
    struct batch batch;
    struct draw draw;

    ground->row.streams = streams;
    draw_seed(&draw, 0, 0, USE_BATCHES);
    for (int trial = 0; trial < TRIALS; trial++) {
        uint64_t start = draw_below(&draw, n - size + 1);
        batch.count = 0;
        /* The streams that the batch meets, each at most once. */
        for (uint64_t g = start; g < start + size && g < start + streams; g++) {
            struct block_pools pools = block_pools_of(&ground->row, g % streams, window);
            size_t count = (size_t)((start + size - 1 - g) / streams + 1);
            take_stream(&batch, ground->labels, &ground->row, &pools, g / streams, count, &draw);
        }
        add_batch(&sum, &batch);
    }
    sum.entropy /= TRIALS;
    sum.classes /= TRIALS;
    return sum;
}

static bool is_near(double entropy, double shuffled)
{
    return entropy >= BLOCKS_NEAR * shuffled;
}

/* The smallest window that passes, of 1 to all blocks; 0: none. Larger windows are no worse, but
 * for what the drawing varies. */
static uint64_t find_window(struct ground *ground, uint64_t streams, double shuffled)
{
    uint64_t low = 0, high = ground->row.basis->block_count; /* low fails, high passes */

    if (!is_near(measure(ground, streams, high).entropy, shuffled))
        return 0;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (is_near(measure(ground, streams, middle).entropy, shuffled))
            high = middle;
        else
            low = middle;
    }
    return high;
}

int blocks_window(const struct basis *basis, const struct labels *labels,
                  const struct order_spec *spec, struct blocks_quality *out)
{
    uint64_t n = basis->order.samples;
    struct ground ground = {.labels = labels, .size = n < BLOCKS_BATCH ? (size_t)n : BLOCKS_BATCH};
    struct sum shuffled, now;
    struct draw draw;
    int fault;

    *out = (struct blocks_quality){0};
    if (spec->kind != ORDER_BLOCK || !basis->order.blocks || !spec->streams || !spec->window)
        return -EINVAL;
    if (!labels || !labels->of || labels->class_count < 2 || n == 0)
        return 0;
    draw_seed(&draw, 0, 0, USE_ROW);
    fault = block_row_open(&ground.row, &basis->order, spec->streams, &draw);
    if (fault)
        return fault;
    /* One stream with a window of all blocks is a full shuffle. */
    shuffled = measure(&ground, 1, basis->order.block_count);
    now = measure(&ground, spec->streams, spec->window);
    *out = (struct blocks_quality){
        .known = true,
        .batch = ground.size,
        .entropy = now.entropy,
        .shuffled = shuffled.entropy,
        .ratio = shuffled.entropy > 0 ? now.entropy / shuffled.entropy : 1,
        .classes = now.classes,
        .classes_shuffled = shuffled.classes,
        .window = find_window(&ground, spec->streams, shuffled.entropy),
    };
    block_row_close(&ground.row);
    return 0;
}

bool blocks_warning(const struct blocks_quality *quality, const struct order_spec *spec,
                    char text[BLOCKS_WARNING])
{
    int used;

    if (!quality->known || is_near(quality->entropy, quality->shuffled))
        return false;
    used = snprintf(text, BLOCKS_WARNING,
                    "order=block: with window=%llu and streams=%llu a batch of %llu has samples of "
                    "%.0f classes, where a full shuffle has %.0f; ",
                    (unsigned long long)spec->window, (unsigned long long)spec->streams,
                    (unsigned long long)quality->batch, quality->classes,
                    quality->classes_shuffled);
    if (quality->window)
        snprintf(text + used, BLOCKS_WARNING - (size_t)used,
                 "window=%llu would come within 5 %% of its entropy",
                 (unsigned long long)quality->window);
    else
        snprintf(text + used, BLOCKS_WARNING - (size_t)used,
                 "no window mends that: smaller blocks (block=) or fewer streams (streams=) do");
    return true;
}
