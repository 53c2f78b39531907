/* What shufflefs-order says of an order: splits and repeats by counting, figures of small sequences
 * by hand, kept blocks by a plain list, and a full shuffle by its closed forms. */
#include "unit.h"

#include "../../core/draw.h"
#include "../../survey/options.h"
#include "../../survey/quality.h"
#include "../../survey/table.h"

#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct plan_deal deals[] = {
    {.remainder = PLAN_PAD},
    {.remainder = PLAN_DROP},
    {.remainder = PLAN_KEEP},
    {.remainder = PLAN_PAD, .runs = true},
    {.remainder = PLAN_DROP, .runs = true},
    {.remainder = PLAN_KEEP, .runs = true},
    {.remainder = PLAN_PAD, .runs = true, .window = 3},
    {.remainder = PLAN_DROP, .runs = true, .window = 3},
    {.remainder = PLAN_KEEP, .runs = true, .window = 3},
};

#define PLACES 40

/* How often each place is read by all ranks, and the ranks' lengths. */
static void count_reads(uint64_t places, uint64_t after, uint64_t world,
                        const struct plan_deal *deal, unsigned *reads, struct survey_split *split)
{
    memset(reads, 0, PLACES * sizeof *reads);
    *split = (struct survey_split){.world = world, .shortest = UINT64_MAX};
    for (uint64_t rank = 0; rank < world; rank++) {
        struct plan plan;
        cr_assert(plan_open(&plan, places,
                            &(struct plan_share){.rank = rank, .world = world, .after = after},
                            deal));
        split->shortest = plan.length < split->shortest ? plan.length : split->shortest;
        split->longest = plan.length > split->longest ? plan.length : split->longest;
        split->reads += plan.length;
        for (uint64_t p = 0; p < plan.length; p++)
            reads[plan_global(&plan, p)]++;
    }
    for (uint64_t i = after; i < places; i++) {
        split->dropped += reads[i] == 0;
        split->padding += reads[i] > 1 ? reads[i] - 1 : 0;
    }
}

static void check_split(uint64_t places, uint64_t after, uint64_t world,
                        const struct plan_deal *deal)
{
    struct survey_split told[SURVEY_SPLITS_MAX], counted;
    uint64_t repeats[PLACES];
    unsigned reads[PLACES];
    size_t rows = survey_split(places, after, world, deal, told), found, next = 0;

    for (size_t i = 0; i < rows; i++) {
        cr_assert_eq(told[i].world, i + 1 < rows ? (uint64_t)1 << i : world);
        count_reads(places, after, told[i].world, deal, reads, &counted);
        cr_assert(memcmp(&told[i], &counted, sizeof counted) == 0,
                  "places %d after %d world %d, %s%s", (int)places, (int)after, (int)told[i].world,
                  plan_remainder_name(deal->remainder), deal->runs ? " in runs" : "");
    }
    cr_assert(rows == 1 || told[rows - 2].world < world);
    found = survey_repeats(places, after, world, deal, repeats, PLACES);
    for (uint64_t place = 0; place < places; place++)
        if (reads[place] > 1)
            cr_assert(next < found && repeats[next++] == place);
    cr_assert_eq(next, found);
    cr_assert_eq(survey_repeats(places, after, world, deal, repeats, 1), found ? 1 : 0);
}

Test(survey, splits_and_repeats_are_what_counting_finds)
{
    for (uint64_t places = 3; places <= PLACES; places += 1 + places / 8)
        for (uint64_t world = 1; world <= 45; world++)
            for (size_t d = 0; d < sizeof deals / sizeof *deals; d++)
                for (uint64_t after = 0; after <= (deals[d].runs ? 0 : places); after += 3)
                    check_split(places, after, world, &deals[d]);
}

Test(survey, the_largest_world_fits_the_table)
{
    struct survey_split told[SURVEY_SPLITS_MAX];

    cr_assert_eq(survey_split(10, 0, PLAN_WORLD_MAX, &deals[0], told), 33);
    cr_assert_eq(survey_split(10, 0, PLAN_WORLD_MAX - 1, &deals[0], told), 33);
    cr_assert_eq(survey_split(ORDER_SAMPLES_MAX, 0, 3, &deals[0], told), 3);
    cr_assert_eq(told[2].padding, 2);
}

static uint64_t listed(const void *context, uint64_t place)
{
    return ((const uint64_t *)context)[place];
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-9;
}

/* Two shards of four samples, a class each, blocks of two. */
static const uint64_t shard_first[] = {0, 4, 8}, block_first[] = {0, 2, 4, 6, 8};
static const uint32_t classes[] = {0, 0, 0, 0, 1, 1, 1, 1};
static const struct quality_space eight = {.samples = 8,
                                           .shard_first = shard_first,
                                           .shard_count = 2,
                                           .block_first = block_first,
                                           .block_count = 4,
                                           .pool = 1,
                                           .classes = classes,
                                           .class_count = 2};

static void measure(const uint64_t *samples, uint64_t places, uint64_t world, uint64_t batch,
                    double *figures)
{
    struct quality_sequence sequence = {
        .sample = listed, .context = samples, .places = places, .world = world, .batch = batch};

    cr_assert_eq(quality_measure(&eight, &sequence, figures), 0);
}

Test(quality, figures_of_small_sequences_are_those_by_hand)
{
    static const uint64_t straight[] = {0, 1, 2, 3, 4, 5, 6, 7}, mixed[] = {0, 4, 1, 5, 2, 6, 3, 7};
    double figures[QUALITY_FIGURES];

    measure(straight, 8, 1, 4, figures);
    cr_assert(near(figures[QUALITY_SAMPLE_ENTROPY], 0));
    /* Six times 0, once 1. */
    cr_assert(
        near(figures[QUALITY_SHARD_ENTROPY], -(6.0 / 7 * log2(6.0 / 7) + 1.0 / 7 * log2(1.0 / 7))));
    cr_assert(near(figures[QUALITY_RUN_MEAN], 4));
    cr_assert(near(figures[QUALITY_RUN_LONGEST], 4));
    cr_assert(near(figures[QUALITY_SAME_BLOCK], 4.0 / 7));
    cr_assert(near(figures[QUALITY_BLOCK_READS], 4));
    cr_assert(near(figures[QUALITY_CLASSES], 1));
    cr_assert(near(figures[QUALITY_CLASS_ENTROPY], 0));
    cr_assert(near(figures[QUALITY_SEEKS], 2));

    measure(mixed, 8, 1, 4, figures);
    /* +4 four times, -3 three times. */
    cr_assert(near(figures[QUALITY_SAMPLE_ENTROPY],
                   -(4.0 / 7 * log2(4.0 / 7) + 3.0 / 7 * log2(3.0 / 7))));
    cr_assert(near(figures[QUALITY_SHARD_ENTROPY], 0));
    cr_assert(near(figures[QUALITY_RUN_MEAN], 1));
    cr_assert(near(figures[QUALITY_SAME_BLOCK], 0));
    cr_assert(near(figures[QUALITY_BLOCK_READS], 8));
    cr_assert(near(figures[QUALITY_CLASSES], 2));
    cr_assert(near(figures[QUALITY_CLASS_ENTROPY], 1));
    cr_assert(near(figures[QUALITY_SEEKS], 8));

    /* Two ranks: each reads its shard in order, the job's batches are mixed all the same. */
    measure(mixed, 8, 2, 4, figures);
    cr_assert(near(figures[QUALITY_SAMPLE_ENTROPY], 0));
    cr_assert(near(figures[QUALITY_RUN_LONGEST], 4));
    cr_assert(near(figures[QUALITY_CLASSES], 2));
    cr_assert(near(figures[QUALITY_SEEKS], 2));
    cr_assert(near(figures[QUALITY_BLOCK_READS], 4));
}

Test(quality, a_batch_that_is_not_full_counts_only_where_none_is)
{
    static const uint64_t straight[] = {0, 1, 2, 3, 4, 5, 6, 7};
    double figures[QUALITY_FIGURES];

    measure(straight, 8, 1, 5, figures); /* 0 0 0 0 1, and 1 1 1 that is left out */
    cr_assert(near(figures[QUALITY_CLASSES], 2));
    measure(straight, 8, 1, 100, figures);
    cr_assert(near(figures[QUALITY_CLASSES], 2));
    cr_assert(near(figures[QUALITY_CLASS_ENTROPY], 1));
}

Test(quality, what_is_not_known_is_no_number)
{
    static const uint64_t straight[] = {0, 1, 2, 3}, ends[] = {0, 4};
    struct quality_space space = {.samples = 4, .shard_first = ends, .shard_count = 1};
    struct quality_sequence sequence = {
        .sample = listed, .context = straight, .places = 4, .world = 1, .batch = 2};
    double figures[QUALITY_FIGURES];

    cr_assert_eq(quality_measure(&space, &sequence, figures), 0);
    for (int f = 0; f < QUALITY_FIGURES; f++)
        cr_assert_eq(isnan(figures[f]), f != QUALITY_SAMPLE_ENTROPY && f != QUALITY_SEEKS);
    sequence.places = 1;
    cr_assert_eq(quality_measure(&space, &sequence, figures), 0);
    for (int f = 0; f < QUALITY_FIGURES; f++)
        cr_assert(isnan(figures[f]));
}

/* The blocks used last, by a list that is searched. */
static uint64_t reads_by_list(const uint64_t *samples, uint64_t count, const uint64_t *first,
                              uint64_t blocks, uint64_t pool)
{
    uint64_t kept[64], held = 0, reads = 0;

    for (uint64_t i = 0; i < count; i++) {
        uint64_t block = 0, at = 0;
        while (block + 1 < blocks && first[block + 1] <= samples[i])
            block++;
        while (at < held && kept[at] != block)
            at++;
        reads += at == held;
        if (at == held && held < pool)
            held++;
        at = at < pool ? at : pool - 1;
        memmove(kept + 1, kept, at * sizeof *kept);
        kept[0] = block;
    }
    return reads;
}

Test(quality, kept_blocks_are_those_used_last)
{
    uint64_t samples[600], first[41], ends[] = {0, 200};
    struct draw draw;

    draw_seed(&draw, 1, 2, 3);
    for (uint64_t b = 0; b <= 40; b++)
        first[b] = 5 * b;
    for (uint64_t i = 0; i < 600; i++)
        samples[i] = draw_below(&draw, 3) ? draw_below(&draw, 200) : i / 3;
    for (uint64_t pool = 1; pool <= 45; pool += 1 + pool / 4) {
        struct quality_space space = {.samples = 200,
                                      .shard_first = ends,
                                      .shard_count = 1,
                                      .block_first = first,
                                      .block_count = 40,
                                      .pool = pool};
        struct quality_sequence sequence = {
            .sample = listed, .context = samples, .places = 600, .world = 1, .batch = 1};
        double figures[QUALITY_FIGURES];
        cr_assert_eq(quality_measure(&space, &sequence, figures), 0);
        cr_assert_eq((uint64_t)figures[QUALITY_BLOCK_READS],
                     reads_by_list(samples, 600, first, 40, pool), "pool %d", (int)pool);
    }
}

/* Of n samples in equal classes, the share of batches that lack one: C(n - n/c, b) / C(n, b). */
static double expected_classes(double n, double count, double batch)
{
    double size = n / count, none = lgamma(n - size + 1) - lgamma(n - size - batch + 1) -
                                    lgamma(n + 1) + lgamma(n - batch + 1);

    return count * (1 - exp(none));
}

Test(quality, a_full_shuffle_is_what_its_closed_forms_say)
{
    enum { SAMPLES = 4000, SHARDS = 8, CLASSES = 40, BATCH = 64 };
    uint64_t ends[SHARDS + 1];
    uint32_t of[SAMPLES];
    struct quality_space space = {.samples = SAMPLES,
                                  .shard_first = ends,
                                  .shard_count = SHARDS,
                                  .classes = of,
                                  .class_count = CLASSES};
    /* How an order of runs is dealt is nothing to the shuffle beside it. */
    struct quality_sequence sequence = {
        .places = SAMPLES, .world = 1, .batch = BATCH, .deal = {.runs = true}};
    double figures[QUALITY_FIGURES], again[QUALITY_FIGURES];

    for (int s = 0; s <= SHARDS; s++)
        ends[s] = (uint64_t)s * SAMPLES / SHARDS;
    for (int i = 0; i < SAMPLES; i++)
        of[i] = (uint32_t)(i * CLASSES / SAMPLES);
    cr_assert_eq(quality_reference(&space, &sequence, figures), 0);
    cr_assert_eq(quality_shuffles(&sequence), ((1 << 20) + SAMPLES) / (SAMPLES + 1));
    cr_assert(fabs(figures[QUALITY_CLASSES] / expected_classes(SAMPLES, CLASSES, BATCH) - 1) <
              0.002);
    /* A run ends where the next sample is of another shard: in (n - n/s) of n - 1 cases. */
    cr_assert(fabs(figures[QUALITY_RUN_MEAN] * (1 - 1.0 / SHARDS) - 1) < 0.005);
    /* One of n - 1 next ones goes on, in all shards but for their last samples: one place an epoch.
     */
    cr_assert(fabs(SAMPLES - figures[QUALITY_SEEKS] - 1) < 0.3);
    /* log2 of the bins, less what few samples hide (Miller and Madow). */
    cr_assert(fabs(figures[QUALITY_SAMPLE_ENTROPY] - (10 - 1023 / (2 * log(2) * (SAMPLES - 1)))) <
              0.02);
    cr_assert(fabs(figures[QUALITY_SHARD_ENTROPY] - 3) < 0.01);
    cr_assert_eq(quality_reference(&space, &sequence, again), 0);
    for (int f = 0; f < QUALITY_FIGURES; f++)
        cr_assert(isnan(figures[f]) ? isnan(again[f]) : figures[f] == again[f]);
}

static enum survey_command read_options(struct survey_request *request, char **words)
{
    int count = 0;

    while (words[count])
        count++;
    optind = 0; /* GNU: begin anew */
    return survey_options(request, count, words);
}

Test(survey, orders_side_by_side_share_all_but_what_is_their_own)
{
    char *words[] = {"shufflefs-order",
                     "-n",
                     "10",
                     "--quality",
                     "--seed",
                     "7",
                     "--epoch",
                     "3",
                     "--world",
                     "2",
                     "--drop-last",
                     "--epoch-samples",
                     "9",
                     "--against",
                     "contiguous:window=2,seed=5",
                     "--against",
                     "torch:epoch=4",
                     NULL};
    struct survey_request request;

    cr_assert_eq(read_options(&request, words), SURVEY_GO);
    cr_assert_eq(request.order_count, 3);
    cr_assert_eq(request.mode, SURVEY_QUALITY);
    cr_assert_str_eq(request.orders[0].name, "torch");
    cr_assert_str_eq(request.orders[1].name, "contiguous:window=2,seed=5");
    for (int i = 0; i < 3; i++) {
        const struct config *config = &request.orders[i].config;
        cr_assert_eq(config->world, 2);
        cr_assert_eq(config->order.epoch_samples, 9);
        cr_assert_eq(config->deal.remainder, PLAN_DROP);
        cr_assert_eq(config->order.seed, i == 1 ? 5 : 7);
        cr_assert_eq(config->epoch, i == 2 ? 4 : 3);
        cr_assert_eq(config->deal.runs, i == 1);
        cr_assert_eq(config->deal.window, i == 1 ? 2 : 0);
    }
    survey_request_close(&request);
}

Test(survey, an_order_is_named_by_what_it_was_given)
{
    char *words[] = {"shufflefs-order", "-n5", "--order", "block", "--block", "3M", NULL};
    char *odd[] = {"shufflefs-order", "-n5", "--order", "block", "--block", "1500",
                   "--streams",       "4",   NULL};
    struct survey_request request;

    cr_assert_eq(read_options(&request, words), SURVEY_GO);
    cr_assert_str_eq(request.orders[0].name, "block:block=3M");
    survey_request_close(&request);
    cr_assert_eq(read_options(&request, odd), SURVEY_GO);
    cr_assert_str_eq(request.orders[0].name, "block:block=1500,streams=4");
    survey_request_close(&request);
}
