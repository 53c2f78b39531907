/* order=block: what its definition promises, on blocks made up here; and which window makes
 * batches as mixed as a full shuffle's. */
#include "unit.h"

#include "../../core/basis.h"
#include "../../core/draw.h"
#include "../../core/order.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* Blocks of random lengths, `least` to `most` samples each. */
static void make_blocks(struct order_basis *basis, struct draw *draw, uint64_t count,
                        uint64_t least, uint64_t most)
{
    uint64_t *starts = calloc(count + 1, sizeof *starts);

    for (uint64_t i = 0; i < count; i++)
        starts[i + 1] = starts[i] + least + draw_below(draw, most - least + 1);
    *basis = (struct order_basis){.samples = starts[count], .blocks = starts, .block_count = count};
}

static void free_blocks(struct order_basis *basis)
{
    free((void *)basis->blocks);
}

static struct order *open_order(const struct order_basis *basis, uint64_t streams, uint64_t window,
                                uint64_t seed, uint64_t epoch)
{
    struct order_spec spec = {
        .kind = ORDER_BLOCK, .seed = seed, .streams = streams, .window = window};
    struct order *order = NULL;

    cr_assert_eq(order_open(&order, &spec, basis, epoch), 0);
    return order;
}

static uint64_t block_at(const struct order_basis *basis, const struct order *order, uint64_t place)
{
    return blocks_of(basis->blocks, basis->block_count, order_sample(order, place));
}

/* Runs a check over many shapes: fewer samples than streams, one block, more blocks than windows,
 * and all between. */
static void for_shapes(void (*check)(const struct order_basis *basis, uint64_t streams,
                                     uint64_t window, const struct order *order))
{
    struct draw draw;

    draw_seed(&draw, 17, 0, 0);
    for (int shape = 0; shape < 300; shape++) {
        struct order_basis basis;
        uint64_t streams = 1 + draw_below(&draw, shape % 3 ? 12 : 90);
        uint64_t window = 1 + draw_below(&draw, shape % 2 ? 4 : 20);
        struct order *order;
        make_blocks(&basis, &draw, 1 + draw_below(&draw, 60), 1, shape % 5 ? 9 : 1);
        order = open_order(&basis, streams, window, draw_next(&draw) >> 1, (uint64_t)shape);
        check(&basis, streams, window, order);
        order_close(order);
        free_blocks(&basis);
    }
}

static void check_permutation(const struct order_basis *basis, uint64_t streams, uint64_t window,
                              const struct order *order)
{
    unsigned char *seen = calloc(basis->samples, 1);

    (void)streams;
    (void)window;
    cr_assert_eq(order_places(order), basis->samples);
    for (uint64_t g = 0; g < basis->samples; g++) {
        cr_assert(order_sample(order, g) < basis->samples);
        cr_assert(!seen[order_sample(order, g)]++, "a sample stands at two places");
    }
    free(seen);
}

Test(block, each_sample_stands_at_one_place_whatever_the_shape)
{
    for_shapes(check_permutation);
}

/* Whether two blocks' places may be seen from one stream and not from others: counts the streams of
 * each block. */
static void check_streams(const struct order_basis *basis, uint64_t streams, uint64_t window,
                          const struct order *order)
{
    unsigned char *seen = calloc(basis->block_count * streams, 1);
    uint64_t parted = 0;

    (void)window;
    for (uint64_t g = 0; g < basis->samples; g++)
        seen[block_at(basis, order, g) * streams + g % streams] = 1;
    for (uint64_t block = 0; block < basis->block_count; block++) {
        uint64_t in = 0;
        for (uint64_t stream = 0; stream < streams; stream++)
            in += seen[block * streams + stream];
        cr_assert(in >= 1);
        parted += in - 1;
    }
    cr_assert(parted <= streams - 1, "%llu cuts for %llu streams", (unsigned long long)parted,
              (unsigned long long)streams);
    free(seen);
}

Test(block, a_block_stays_in_one_stream_but_where_streams_are_cut)
{
    for_shapes(check_streams);
}

/* The ranks of a world are sets of streams, if it divides them. */
static void check_ranks(const struct order_basis *basis, uint64_t streams, uint64_t window,
                        const struct order *order)
{
    (void)window;
    for (uint64_t world = 1; world <= streams; world++) {
        uint64_t parted = 0;
        if (streams % world)
            continue;
        for (uint64_t block = 0; block < basis->block_count; block++) {
            uint64_t ranks = 0;
            unsigned char seen[128] = {0};
            for (uint64_t g = 0; g < basis->samples; g++)
                if (block_at(basis, order, g) == block && !seen[g % world]) {
                    seen[g % world] = 1;
                    ranks++;
                }
            parted += ranks - 1;
        }
        cr_assert(parted <= streams - 1);
    }
}

Test(block, a_world_that_divides_the_streams_keeps_blocks_on_one_rank)
{
    for_shapes(check_ranks);
}

/* A stream's pools, seen from outside: from a pool's first place on, no other blocks come until all
 * its samples were read. A block that goes through several streams starts and ends a pool in each.
 */
static void check_pools(const struct order_basis *basis, uint64_t streams, uint64_t window,
                        const struct order *order)
{
    uint64_t *last = calloc(basis->block_count, sizeof *last);
    unsigned char *open = calloc(basis->block_count, 1);

    for (uint64_t stream = 0; stream < streams && stream < basis->samples; stream++) {
        uint64_t opened = 0, most = 0, touched = 0;
        for (uint64_t g = stream; g < basis->samples; g += streams)
            last[block_at(basis, order, g)] = g;
        for (uint64_t g = stream; g < basis->samples; g += streams) {
            uint64_t block = block_at(basis, order, g);
            touched += !open[block];
            opened += !open[block];
            open[block] = 1;
            most = opened > most ? opened : most;
            if (last[block] == g) {
                open[block] = 0;
                opened--;
            }
        }
        cr_assert(most <= window, "%llu blocks open at once, window %llu", (unsigned long long)most,
                  (unsigned long long)window);
        cr_assert(touched >= 1);
    }
    free(last);
    free(open);
}

Test(block, no_more_than_a_window_of_blocks_is_open_in_a_stream)
{
    for_shapes(check_pools);
}

Test(block, pools_are_as_even_as_can_be)
{
    struct order_basis basis;
    struct order *order;
    struct draw draw;
    uint64_t end = 0, pools = 0;

    /* Ten blocks of four in pools of at most four: 4, 3 and 3, not 4, 4 and 2. */
    draw_seed(&draw, 1, 0, 0);
    make_blocks(&basis, &draw, 10, 4, 4);
    order = open_order(&basis, 1, 4, 3, 0);
    for (uint64_t size = 4; end < 40; end += size * 4, size = 3, pools++) {
        uint64_t met[10] = {0};
        for (uint64_t g = end; g < end + size * 4; g++)
            met[block_at(&basis, order, g)]++;
        for (int block = 0; block < 10; block++)
            cr_assert(met[block] == 0 || met[block] == 4, "a pool ends elsewhere");
    }
    cr_assert_eq(pools, 3);
    order_close(order);
    free_blocks(&basis);
}

static bool equal(const struct order *a, const struct order *b, uint64_t n)
{
    for (uint64_t g = 0; g < n; g++)
        if (order_sample(a, g) != order_sample(b, g))
            return false;
    return true;
}

Test(block, epochs_and_seeds_differ_and_do_not_alias)
{
    const uint64_t cases[][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}, {UINT64_C(1) << 32, 0}, {2, 1}};
    struct order *orders[6], *again;
    struct order_basis basis;
    struct draw draw;

    draw_seed(&draw, 2, 0, 0);
    make_blocks(&basis, &draw, 40, 5, 9);
    for (int i = 0; i < 6; i++) {
        orders[i] = open_order(&basis, 4, 3, cases[i][0], cases[i][1]);
        for (int k = 0; k < i; k++)
            cr_assert(!equal(orders[i], orders[k], basis.samples), "cases %d and %d", i, k);
    }
    again = open_order(&basis, 4, 3, 1, 1);
    cr_assert(equal(again, orders[3], basis.samples));
    order_close(again);
    for (int i = 0; i < 6; i++)
        order_close(orders[i]);
    free_blocks(&basis);
}

/* Over many epochs, each sample stands as often in each eighth of the epoch. With 7 degrees of
 * freedom, chi-square is over 40 once in a million; 48 samples and a fixed seed leave no luck to
 * it. */
Test(block, every_sample_comes_as_often_in_every_part_of_an_epoch)
{
    enum { EPOCHS = 4000, PARTS = 8, SAMPLES = 48 };
    static unsigned counts[SAMPLES][PARTS];
    struct order_basis basis;
    struct draw draw;

    draw_seed(&draw, 3, 0, 0);
    make_blocks(&basis, &draw, 12, 4, 4);
    cr_assert_eq(basis.samples, SAMPLES);
    memset(counts, 0, sizeof counts);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        struct order *order = open_order(&basis, 4, 2, 5, epoch);
        for (uint64_t g = 0; g < SAMPLES; g++)
            counts[order_sample(order, g)][g * PARTS / SAMPLES]++;
        order_close(order);
    }
    for (int sample = 0; sample < SAMPLES; sample++) {
        double expected = (double)EPOCHS / PARTS, sum = 0;
        for (int part = 0; part < PARTS; part++)
            sum += (counts[sample][part] - expected) * (counts[sample][part] - expected) / expected;
        cr_assert(sum < 40, "sample %d: chi-square %.1f", sample, sum);
    }
    free_blocks(&basis);
}

/* The order of other versions, machines and nodes: order_version() rises when this changes. */
Test(block, the_definition_stays_what_it_is)
{
    struct order_basis basis;
    struct order *order;
    struct draw draw;
    XXH64_hash_t hash = 0;

    draw_seed(&draw, 4, 0, 0);
    make_blocks(&basis, &draw, 500, 1, 40);
    order = open_order(&basis, 16, 8, 42, 7);
    for (uint64_t g = 0; g < basis.samples; g++) {
        unsigned char bytes[8];
        for (int i = 0; i < 8; i++)
            bytes[i] = (unsigned char)(order_sample(order, g) >> (8 * i));
        hash = XXH64(bytes, sizeof bytes, hash);
    }
    cr_assert_eq(order_version(ORDER_BLOCK), 1);
    cr_assert_eq(hash, UINT64_C(0xe73f4ec56f39ae94), "the order's hash is %llx",
                 (unsigned long long)hash);
    order_close(order);
    free_blocks(&basis);
}

Test(block, an_order_without_blocks_is_refused)
{
    struct order_spec spec = {.kind = ORDER_BLOCK, .streams = 1, .window = 1};
    struct order *order = NULL;

    cr_assert_eq(order_open(&order, &spec, &(struct order_basis){.samples = 5}, 0), -EINVAL);
}

/* Quality. */

/* Entropy of the classes in the batches of an epoch, and the share of neighbours that are of one
 * block. */
struct met {
    double entropy, adjacent;
};

static struct met measure(const struct order_basis *basis, const int64_t *labels, uint64_t classes,
                          const struct order *order)
{
    uint64_t *counts = calloc(classes, sizeof *counts), batches = 0;
    struct met met = {0};

    for (uint64_t g = 0; g + BLOCKS_BATCH <= basis->samples; g += BLOCKS_BATCH, batches++) {
        memset(counts, 0, classes * sizeof *counts);
        for (uint64_t i = g; i < g + BLOCKS_BATCH; i++)
            counts[labels[order_sample(order, i)]]++;
        for (uint64_t c = 0; c < classes; c++) {
            double share = (double)counts[c] / BLOCKS_BATCH;
            met.entropy -= share > 0 ? share * log(share) : 0;
        }
    }
    met.entropy /= (double)batches;
    for (uint64_t g = 1; g < basis->samples; g++)
        met.adjacent += block_at(basis, order, g) == block_at(basis, order, g - 1);
    met.adjacent /= (double)(basis->samples - 1);
    free(counts);
    return met;
}

/* `count` blocks of `each` samples, their labels by `label_of` block and sample. */
struct made {
    struct basis basis;
    struct labels labels;
};

static int64_t one_class(uint64_t block, uint64_t sample)
{
    (void)sample;
    return (int64_t)(block / 4);
}

static int64_t mixed(uint64_t block, uint64_t sample)
{
    (void)block;
    return (int64_t)(draw_mix(sample) % 90);
}

static struct made make(uint64_t count, uint64_t each, int64_t (*label_of)(uint64_t, uint64_t))
{
    struct made made = {.labels = {.source = CONFIG_LABEL_CLS, .class_count = 2}};
    struct draw draw;

    draw_seed(&draw, 6, 0, 0);
    make_blocks(&made.basis.order, &draw, count, each, each);
    made.labels.of = calloc(count * each, sizeof *made.labels.of);
    for (uint64_t sample = 0; sample < count * each; sample++)
        made.labels.of[sample] = label_of(sample / each, sample);
    return made;
}

static void unmake(struct made *made)
{
    free(made->labels.of);
    free_blocks(&made->basis.order);
}

static struct blocks_quality quality_of(const struct made *made, uint64_t streams, uint64_t window)
{
    struct order_spec spec = {.kind = ORDER_BLOCK, .streams = streams, .window = window};
    struct blocks_quality quality;

    cr_assert_eq(blocks_window(&made->basis, &made->labels, &spec, &quality), 0);
    return quality;
}

/* What a user gets with blocks of 1 MiB of photographs (22 a block, 8,000 in all), one class a
 * shard and mixed. */
static void check_near_a_full_shuffle(int64_t (*label_of)(uint64_t, uint64_t))
{
    struct made made = make(360, 22, label_of);
    struct order_spec torch = {.kind = ORDER_TORCH};
    struct order *block = open_order(&made.basis.order, 64, 64, 0, 0), *full = NULL;
    struct met has, wants;
    struct blocks_quality quality = quality_of(&made, 64, 64);

    cr_assert_eq(order_open(&full, &torch, &made.basis.order, 0), 0);
    has = measure(&made.basis.order, made.labels.of, 90, block);
    wants = measure(&made.basis.order, made.labels.of, 90, full);
    cr_assert(has.entropy > 0.95 * wants.entropy, "%.3f, not %.3f", has.entropy, wants.entropy);
    cr_assert(has.adjacent < wants.adjacent + 0.05, "%.4f, not %.4f", has.adjacent, wants.adjacent);
    cr_assert(fabs(quality.entropy - has.entropy) < 0.02 * has.entropy);
    cr_assert(fabs(quality.shuffled - wants.entropy) < 0.02 * wants.entropy);
    order_close(block);
    order_close(full);
    unmake(&made);
}

Test(block, batches_are_nearly_as_mixed_as_a_full_shuffles)
{
    check_near_a_full_shuffle(one_class);
    check_near_a_full_shuffle(mixed);
}

/* Whatever window: what is expected of a batch is what batches of the order have. */
Test(block, the_expected_entropy_is_that_of_the_order)
{
    static const uint64_t shapes[][2] = {{1, 1},  {1, 7},  {1, 40}, {8, 1},
                                         {8, 12}, {64, 2}, {600, 1}};
    struct made made = make(360, 22, one_class);

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct blocks_quality quality = quality_of(&made, shapes[i][0], shapes[i][1]);
        double sum = 0;
        for (uint64_t epoch = 0; epoch < 8; epoch++) {
            struct order *order = open_order(&made.basis.order, shapes[i][0], shapes[i][1], 0,
                                             epoch);
            sum += measure(&made.basis.order, made.labels.of, 90, order).entropy / 8;
            order_close(order);
        }
        cr_assert(fabs(quality.entropy - sum) < 0.04 * sum,
                  "streams=%llu window=%llu: %.3f, not %.3f", (unsigned long long)shapes[i][0],
                  (unsigned long long)shapes[i][1], quality.entropy, sum);
    }
    unmake(&made);
}

Test(block, the_window_that_is_named_would_do_and_a_smaller_one_would_not)
{
    struct made made = make(360, 22, one_class);
    struct order_spec spec = {.kind = ORDER_BLOCK, .streams = 1, .window = 2};
    struct blocks_quality bad = quality_of(&made, 1, 2), good, less;
    char text[BLOCKS_WARNING], named[40];

    cr_assert(bad.known && bad.ratio < 0.7);
    cr_assert_eq(bad.batch, BLOCKS_BATCH);
    cr_assert(bad.classes < 20 && bad.classes_shuffled > 60);
    cr_assert(bad.window > 10 && bad.window < 360, "%llu", (unsigned long long)bad.window);
    good = quality_of(&made, 1, bad.window);
    less = quality_of(&made, 1, bad.window - 1);
    cr_assert(good.ratio >= BLOCKS_NEAR && good.window == bad.window);
    cr_assert(less.ratio < BLOCKS_NEAR && less.window == bad.window);
    snprintf(named, sizeof named, "window=%llu would", (unsigned long long)bad.window);
    cr_assert(blocks_warning(&bad, &spec, text) && strstr(text, named), "%s", text);
    cr_assert(!blocks_warning(&good, &spec, text));
    unmake(&made);
}

Test(block, mixed_shards_need_no_window)
{
    struct made made = make(360, 22, mixed);
    struct blocks_quality quality = quality_of(&made, 64, 1);

    cr_assert(quality.known && quality.ratio > 0.98 && quality.window == 1);
    unmake(&made);
}

/* Sixteen blocks of a class each over 4,096 streams: a batch meets 256 streams, a block's
 * sixteenth. */
Test(block, no_window_does_where_blocks_are_too_few_for_the_streams)
{
    struct made made = make(16, 1024, one_class);
    struct order_spec spec = {.kind = ORDER_BLOCK, .streams = 4096, .window = 64};
    struct blocks_quality quality = quality_of(&made, 4096, 64);
    char text[BLOCKS_WARNING];

    cr_assert(quality.known && quality.ratio < 0.5 && quality.window == 0);
    cr_assert(blocks_warning(&quality, &spec, text) && strstr(text, "no window"), "%s", text);
    unmake(&made);
}

Test(block, nothing_is_known_without_classes)
{
    struct made made = make(4, 10, one_class);
    struct order_spec spec = {.kind = ORDER_BLOCK, .streams = 1, .window = 1};
    struct blocks_quality quality;

    made.labels.class_count = 1;
    cr_assert(!quality_of(&made, 1, 1).known);
    cr_assert_eq(blocks_window(&made.basis, NULL, &spec, &quality), 0);
    cr_assert(!quality.known);
    spec.kind = ORDER_TORCH;
    cr_assert_eq(blocks_window(&made.basis, &made.labels, &spec, &quality), -EINVAL);
    unmake(&made);
}
