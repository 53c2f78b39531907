/* What every order promises, over many random sizes, seeds, epochs and epoch lengths; and what some
 * promise alone. */
#include "unit.h"

#include "../../core/draw.h"
#include "../../core/mt19937.h"
#include "../../core/order_table.h"
#include "../../core/plan.h"
#include "../../core/weights.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

#define CASES 150

/* A data set that every order can work on. */
struct ground {
    struct order_basis basis;
    double *weights; /* as they were given */
    double *cumulative;
    uint64_t *lengths;
};

static struct draw dice;

static void ground_make(struct ground *ground, uint64_t n)
{
    *ground = (struct ground){.weights = calloc(n + 1, sizeof(double)),
                              .cumulative = calloc(n + 1, sizeof(double)),
                              .lengths = calloc(n + 1, sizeof(uint64_t))};
    cr_assert(ground->weights && ground->cumulative && ground->lengths);
    for (uint64_t i = 0; i < n; i++) {
        ground->weights[i] = (double)(1 + draw_below(&dice, 1000)) / 7;
        ground->cumulative[i] = ground->weights[i];
        ground->lengths[i] = draw_below(&dice, 1000);
    }
    if (n)
        weights_accumulate(ground->cumulative, n);
    ground->basis = (struct order_basis){
        .samples = n, .cumulative = ground->cumulative, .lengths = ground->lengths};
}

static void ground_free(struct ground *ground)
{
    free(ground->weights);
    free(ground->cumulative);
    free(ground->lengths);
}

static bool is_tried(int kind)
{
    return kind != ORDER_BLOCK; /* it has its own tests */
}

static struct order_spec spec_of(int kind)
{
    return (struct order_spec){.kind = (enum order_kind)kind,
                               .seed = draw_next(&dice) >> 1,
                               .bucket = 1 + draw_below(&dice, 100)};
}

/* Mostly small, up to a million at times. */
static uint64_t any_size(void)
{
    uint64_t most[] = {4, 40, 400, 4000};

    return 1 + draw_below(&dice, draw_below(&dice, 50) ? most[draw_below(&dice, 4)] : 1000000);
}

static uint64_t any_epoch(void)
{
    return draw_below(&dice, 3) ? draw_below(&dice, 100) : draw_next(&dice) >> 1;
}

static struct order *open(const struct order_spec *spec, const struct order_basis *basis,
                          uint64_t epoch)
{
    struct order *order = NULL;

    cr_assert_eq(order_open(&order, spec, basis, epoch), 0, "%s of %llu",
                 order_kind_name(spec->kind), (unsigned long long)basis->samples);
    cr_assert_eq(order_places(order), order_spec_places(spec, basis->samples));
    return order;
}

/* How often each sample stands in the epoch. */
static uint32_t *count(const struct order *order, uint64_t samples, uint32_t *counts)
{
    if (!counts)
        counts = calloc(samples + 1, sizeof *counts);
    cr_assert(counts != NULL);
    for (uint64_t p = 0; p < order_places(order); p++) {
        uint64_t sample = order_sample(order, p);
        cr_assert(sample < samples);
        counts[sample]++;
    }
    return counts;
}

static void expect_once(const struct order *order, uint64_t samples)
{
    uint32_t *counts = count(order, samples, NULL);

    for (uint64_t i = 0; i < samples; i++)
        cr_assert_eq(counts[i], 1);
    free(counts);
}

Test(orders, an_epoch_of_the_data_set_has_each_sample_once_unless_it_draws)
{
    draw_seed(&dice, 1, 0, 0);
    for (int c = 0; c < CASES; c++) {
        struct ground ground;
        uint64_t n = any_size();

        ground_make(&ground, n);
        for (int kind = 0; kind < ORDER_KINDS; kind++) {
            if (!is_tried(kind))
                continue;
            struct order_spec spec = spec_of(kind);
            struct order *order = open(&spec, &ground.basis, any_epoch());
            if (order_draws(spec.kind))
                free(count(order, n, NULL));
            else
                expect_once(order, n);
            order_close(order);
        }
        ground_free(&ground);
    }
}

/* Epochs 0 to n / gcd - 1 of `places` each are whole permutations, one after the other. */
Test(orders, concatenated_epochs_have_each_sample_equally_often)
{
    draw_seed(&dice, 2, 0, 0);
    for (int c = 0; c < CASES; c++) {
        struct ground ground;
        uint64_t n = 1 + draw_below(&dice, 60), epochs = 1 + draw_below(&dice, 12);

        ground_make(&ground, n);
        for (int kind = 0; kind < ORDER_KINDS; kind++) {
            if (!is_tried(kind) || order_draws((enum order_kind)kind))
                continue;
            struct order_spec spec = spec_of(kind);
            uint32_t *counts = NULL;
            uint64_t times = 1 + draw_below(&dice, 4);
            /* `epochs` epochs that hold `times` permutations and a bit: those are cut off below. */
            spec.epoch_samples = (n * times + epochs - 1) / epochs;
            uint64_t left = n * times;
            counts = calloc(n, sizeof *counts);
            cr_assert(counts != NULL);
            for (uint64_t e = 0; e < epochs; e++) {
                struct order *order = open(&spec, &ground.basis, e);
                for (uint64_t p = 0; p < order_places(order) && left; p++, left--)
                    counts[order_sample(order, p)]++;
                order_close(order);
            }
            cr_assert_eq(left, 0);
            for (uint64_t i = 0; i < n; i++)
                cr_assert_eq(counts[i], times, "%s", order_kind_name(spec.kind));
            free(counts);
        }
        ground_free(&ground);
    }
}

/* The concatenation is the plain epochs' orders one after the other, whatever the epochs' length,
 * at its far end too, where the number of the permutation has gone past 2^64. */
Test(orders, a_concatenation_is_made_of_plain_epochs)
{
    static const uint64_t far[] = {0, 1, 5, 1000003, ORDER_EPOCH_MAX};

    draw_seed(&dice, 3, 0, 0);
    for (int c = 0; c < CASES; c++) {
        struct ground ground;
        uint64_t n = 1 + draw_below(&dice, 50), epoch = far[draw_below(&dice, 5)];

        ground_make(&ground, n);
        for (int kind = 0; kind < ORDER_KINDS; kind++) {
            if (!is_tried(kind) || order_draws((enum order_kind)kind))
                continue;
            struct order_spec spec = spec_of(kind), plain = spec;
            struct order *order, *one = NULL;
            uint64_t places = 1 + draw_below(&dice, 3 * n), number = 0;
            spec.epoch_samples = places;
            order = open(&spec, &ground.basis, epoch);
            for (uint64_t p = 0; p < places; p++) {
                wide at = (wide)epoch * places + p;
                uint64_t wanted = (uint64_t)(at / n);
                if (wanted > ORDER_EPOCH_MAX)
                    break; /* no epoch is so far */
                if (!one || wanted != number) {
                    order_close(one);
                    one = open(&plain, &ground.basis, number = wanted);
                }
                cr_assert_eq(order_sample(order, p), order_sample(one, (uint64_t)(at % n)), "%s",
                             order_kind_name(spec.kind));
            }
            order_close(one);
            order_close(order);
        }
        ground_free(&ground);
    }
}

Test(orders, place_of_is_the_first_place_of_a_sample)
{
    draw_seed(&dice, 4, 0, 0);
    for (int c = 0; c < CASES; c++) {
        struct ground ground;
        uint64_t n = 1 + draw_below(&dice, c % 10 ? 60 : 3000);

        ground_make(&ground, n);
        for (int kind = 0; kind < ORDER_KINDS; kind++) {
            if (!is_tried(kind))
                continue;
            struct order_spec spec = spec_of(kind);
            spec.epoch_samples = draw_below(&dice, 2) ? draw_below(&dice, 3 * n) : 0;
            struct order *order = open(&spec, &ground.basis, any_epoch());
            uint64_t places = order_places(order), place;
            uint64_t *first = calloc(n, sizeof *first);
            cr_assert(first != NULL);
            for (uint64_t p = places; p > 0; p--)
                first[order_sample(order, p - 1)] = p;
            for (uint64_t i = 0; i < n; i++) {
                int fault = order_place_of(order, i, &place);
                cr_assert_eq(fault, first[i] ? 0 : -ENOENT, "%s", order_kind_name(spec.kind));
                if (!fault)
                    cr_assert_eq(place, first[i] - 1, "%s", order_kind_name(spec.kind));
            }
            free(first);
            order_close(order);
        }
        ground_free(&ground);
    }
}

static uint64_t differing(const struct order_spec *a, uint64_t epoch_a, const struct order_spec *b,
                          uint64_t epoch_b, const struct order_basis *basis)
{
    struct order *one = open(a, basis, epoch_a), *two = open(b, basis, epoch_b);
    uint64_t differ = 0;

    for (uint64_t p = 0; p < order_places(one); p++)
        differ += order_sample(one, p) != order_sample(two, p);
    order_close(one);
    order_close(two);
    return differ;
}

Test(orders, epochs_and_seeds_differ_unless_the_order_is_fixed)
{
    struct ground ground;

    draw_seed(&dice, 5, 0, 0);
    ground_make(&ground, 1000);
    for (int kind = 0; kind < ORDER_KINDS; kind++) {
        if (!is_tried(kind))
            continue;
        for (int c = 0; c < 10; c++) {
            struct order_spec spec = spec_of(kind), other = spec;
            uint64_t epoch = draw_below(&dice, 1000), bit = draw_below(&dice, 30);
            uint64_t least = order_is_fixed(spec.kind) ? 0 : 900;
            other.seed ^= (uint64_t)1 << bit;
            cr_assert_eq(differing(&spec, epoch, &spec, epoch, &ground.basis), 0);
            cr_assert(differing(&spec, epoch, &spec, epoch ^ (uint64_t)1 << bit, &ground.basis) >=
                      least);
            cr_assert(differing(&spec, epoch, &other, epoch, &ground.basis) >= least);
            if (order_is_fixed(spec.kind))
                cr_assert_eq(differing(&spec, epoch, &other, epoch + 1, &ground.basis), 0);
        }
    }
    ground_free(&ground);
}

Test(orders, of_our_own_all_bits_of_seed_and_epoch_count_and_the_two_do_not_alias)
{
    static const int own[] = {ORDER_FEISTEL, ORDER_LENGTH};
    struct ground ground;

    draw_seed(&dice, 6, 0, 0);
    ground_make(&ground, 1000);
    for (int k = 0; k < 2; k++) {
        struct order_spec spec = spec_of(own[k]), other = spec;
        spec.seed = 5;
        for (int bit = 0; bit < 63; bit++) {
            uint64_t epoch = (uint64_t)1 << bit;
            cr_assert(differing(&spec, 0, &spec, epoch, &ground.basis) > 900);
            other.seed = spec.seed ^ (uint64_t)1 << bit;
            cr_assert(differing(&spec, 0, &other, 0, &ground.basis) > 900);
        }
        other.seed = 6;
        cr_assert(differing(&spec, 1, &other, 0, &ground.basis) > 900);
    }
    ground_free(&ground);
}

/* A permutation of n: how far counts[place][sample], over `epochs` of them, are from even, in
 * standard deviations of chi-square. Its degrees of freedom are (n - 1)^2, as rows and columns both
 * have a fixed sum. */
static double unevenness(const uint32_t *counts, uint64_t n, double epochs)
{
    double even = epochs / (double)n, sum = 0, free_ones = ((double)n - 1) * ((double)n - 1);

    for (uint64_t i = 0; i < n * n; i++)
        sum += (counts[i] - even) * (counts[i] - even) / even;
    return (sum * (double)(n - 1) / (double)n - free_ones) / sqrt(2 * free_ones);
}

static double measure_unevenness(int kind, uint64_t n, uint64_t epochs)
{
    struct order_spec spec = {.kind = (enum order_kind)kind, .seed = 77, .bucket = 3};
    struct ground ground;
    uint32_t *counts = calloc(n * n, sizeof *counts);
    double uneven;

    cr_assert(counts != NULL);
    ground_make(&ground, n);
    for (uint64_t e = 0; e < epochs; e++) {
        struct order *order = open(&spec, &ground.basis, e);
        for (uint64_t p = 0; p < n; p++)
            counts[p * n + order_sample(order, p)]++;
        order_close(order);
    }
    uneven = unevenness(counts, n, (double)epochs);
    ground_free(&ground);
    free(counts);
    return uneven;
}

Test(orders, of_small_data_sets_each_sample_stands_at_each_place_equally_often)
{
    double sum = 0;

    draw_seed(&dice, 7, 0, 0);
    for (uint64_t n = 2; n <= 50; n++) {
        double uneven = measure_unevenness(ORDER_FEISTEL, n, 4000);
        cr_assert(uneven < 6, "feistel, n %llu: %.1f", (unsigned long long)n, uneven);
        sum += uneven;
    }
    /* The mean of 49 of about one standard deviation each. */
    cr_assert(fabs(sum / 49) < 0.6, "%.2f", sum / 49);
    for (uint64_t n = 3; n <= 30; n += 9) {
        double uneven = measure_unevenness(ORDER_TORCH, n, 1000);
        cr_assert(uneven < 6, "torch, n %llu: %.1f", (unsigned long long)n, uneven);
    }
}

/* Of the length order what is left over is even too; inside whole buckets and over them also. */
Test(orders, length_puts_each_sample_at_each_place_equally_often)
{
    draw_seed(&dice, 8, 0, 0);
    for (uint64_t n = 4; n <= 32; n += 7) {
        double uneven = measure_unevenness(ORDER_LENGTH, n, 6000);
        cr_assert(uneven < 6, "length, n %llu: %.1f", (unsigned long long)n, uneven);
    }
}

Test(orders, feistel_makes_all_permutations_of_few_samples_equally_often)
{
    for (uint64_t n = 3; n <= 5; n++) {
        struct feistel feistel = feistel_make(n);
        uint64_t ways = n == 3 ? 6 : n == 4 ? 24 : 120, met = 0;
        uint32_t counts[3125] = {0};
        double sum = 0, even = 60000.0 / (double)ways;

        for (uint64_t e = 0; e < 60000; e++) {
            uint64_t key = feistel_key(11, e), code = 0;
            for (uint64_t p = 0; p < n; p++)
                code = code * n + feistel_sample(&feistel, key, p);
            counts[code]++;
        }
        for (size_t i = 0; i < 3125; i++) {
            met += counts[i] > 0;
            sum += counts[i] ? (counts[i] - even) * (counts[i] - even) / even : 0;
        }
        cr_assert_eq(met, ways);
        cr_assert((sum - (double)(ways - 1)) / sqrt(2 * (double)(ways - 1)) < 6, "n %llu: %.1f",
                  (unsigned long long)n, sum);
    }
}

/* A million samples, by hundreds of places and samples: where they go is even, and how far apart
 * neighbours end is as it is in a shuffle. */
Test(orders, feistel_of_a_million_is_even_over_places)
{
    enum { CELLS = 100 };
    const uint64_t n = 1000000;
    struct feistel feistel = feistel_make(n);
    static uint32_t cells[CELLS * CELLS], steps[CELLS];
    double sum = 0, even = (double)n / (CELLS * CELLS), apart = 0;
    uint64_t key = feistel_key(3, 4), before = 0;

    memset(cells, 0, sizeof cells);
    memset(steps, 0, sizeof steps);
    for (uint64_t p = 0; p < n; p++) {
        uint64_t sample = feistel_sample(&feistel, key, p);
        cells[p * CELLS / n * CELLS + sample * CELLS / n]++;
        steps[(sample + n - before) % n * CELLS / n]++;
        before = sample;
    }
    for (size_t i = 0; i < CELLS * CELLS; i++)
        sum += (cells[i] - even) * (cells[i] - even) / even;
    for (size_t i = 0; i < CELLS; i++)
        apart += (steps[i] - 10000.0) * (steps[i] - 10000.0) / 10000.0;
    cr_assert(fabs(sum - 99.0 * 99.0) / sqrt(2 * 99.0 * 99.0) < 5, "%.1f", sum);
    cr_assert(fabs(apart - 99) / sqrt(2 * 99.0) < 5, "%.1f", apart);
}

/* At any size up to the largest: there and back, in range, and no memory. */
Test(orders, feistel_is_a_bijection_of_any_size_without_a_table)
{
    draw_seed(&dice, 9, 0, 0);
    for (int bit = 0; bit <= 62; bit++) {
        for (int c = -2; c <= 2; c++) {
            uint64_t n = ((uint64_t)1 << bit) + (uint64_t)c;
            struct order_basis basis = {.samples = n};
            struct order_spec spec = {.kind = ORDER_FEISTEL, .seed = draw_next(&dice) >> 1};
            struct feistel feistel;
            struct order *order;
            if (n == 0 || n > ORDER_SAMPLES_MAX)
                continue;
            feistel = feistel_make(n);
            cr_assert(feistel.left * feistel.right >= n);
            cr_assert(n == 1 || feistel.left * feistel.right < 2 * n);
            if (draw_below(&dice, 2))
                spec.epoch_samples = 1 + draw_below(&dice, ORDER_SAMPLES_MAX);
            order = open(&spec, &basis, draw_next(&dice) >> 1);
            cr_assert(order_bytes(order) < 4096);
            for (int k = 0; k < 20; k++) {
                uint64_t place = draw_below(&dice, order_places(order)), back;
                uint64_t sample = order_sample(order, place);
                cr_assert(sample < n);
                if (place < n) {
                    /* Where an epoch ends before its first permutation does, or starts in the
                     * middle of one, the same sample may stand earlier. */
                    cr_assert_eq(order_place_of(order, sample, &back), 0);
                    cr_assert_eq(order_sample(order, back), sample);
                    cr_assert(back <= place);
                }
            }
            order_close(order);
        }
    }
}

/* Worlds to 512, any remainder, resumed anywhere: the union of all ranks' shares is the tail. */
Test(orders, ranks_of_a_resumed_epoch_read_its_tail)
{
    static const enum plan_remainder remainders[] = {PLAN_PAD, PLAN_DROP, PLAN_KEEP};

    draw_seed(&dice, 10, 0, 0);
    for (int c = 0; c < 2 * CASES; c++) {
        struct ground ground;
        uint64_t n = 1 + draw_below(&dice, 700), world = 1 + draw_below(&dice, c % 3 ? 8 : 512);
        int kind = (int)draw_below(&dice, ORDER_KINDS);

        if (!is_tried(kind))
            continue;
        ground_make(&ground, n);
        struct order_spec spec = spec_of(kind);
        spec.epoch_samples = draw_below(&dice, 2) ? 1 + draw_below(&dice, 2 * n) : 0;
        struct order *order = open(&spec, &ground.basis, any_epoch());
        uint64_t places = order_places(order), read = 0;
        uint64_t after = kind == ORDER_CONTIGUOUS ? 0 : draw_below(&dice, places + 1);
        struct plan_deal deal = {.remainder = remainders[c % 3], .runs = kind == ORDER_CONTIGUOUS};
        uint32_t *tail = calloc(n, sizeof *tail), *met = calloc(n, sizeof *met);
        cr_assert(tail && met);
        for (uint64_t p = after; p < places; p++)
            tail[order_sample(order, p)]++;
        for (uint64_t rank = 0; rank < world; rank++) {
            struct plan plan;
            cr_assert(plan_open(&plan, places,
                                &(struct plan_share){.rank = rank, .world = world, .after = after},
                                &deal));
            for (uint64_t k = 0; k < plan.length; k++, read++)
                met[order_sample(order, plan_global(&plan, k))]++;
        }
        uint64_t padding = plan_padding(places - after, world, &deal),
                 dropped = plan_dropped(places - after, world, &deal), over = 0, under = 0;
        cr_assert_eq(read, places - after + padding - dropped);
        for (uint64_t i = 0; i < n; i++) {
            over += met[i] > tail[i] ? met[i] - tail[i] : 0;
            under += met[i] < tail[i] ? tail[i] - met[i] : 0;
        }
        cr_assert_eq(over, padding);
        cr_assert_eq(under, dropped);
        free(tail);
        free(met);
        order_close(order);
        ground_free(&ground);
    }
}

/* A long tail: class k of 1,000 has a share of about 1 / (k + 1). Of a thousand classes one is past
 * 4 deviations with one seed in 16: this one is another. */
Test(orders, weighted_draws_each_class_by_its_share)
{
    enum { CLASSES = 1000, DRAWS = 1000000 };
    double *cumulative = calloc(CLASSES, sizeof *cumulative), total = 0;
    struct order_basis basis = {.samples = CLASSES, .cumulative = cumulative};
    struct order_spec spec = {.kind = ORDER_WEIGHTED, .epoch_samples = DRAWS};
    struct order *order;
    uint32_t *counts;

    cr_assert(cumulative != NULL);
    for (int i = 0; i < CLASSES; i++)
        total += cumulative[i] = 1.0 / (i + 1);
    weights_accumulate(cumulative, CLASSES);
    order = open(&spec, &basis, 0);
    counts = count(order, CLASSES, NULL);
    for (int i = 0; i < CLASSES; i++) {
        double share = 1.0 / (i + 1) / total;
        double deviation = sqrt(DRAWS * share * (1 - share));
        cr_assert(fabs(counts[i] - DRAWS * share) <= 4 * deviation, "class %d: %u, not %.0f", i,
                  counts[i], DRAWS * share);
    }
    order_close(order);
    free(counts);
    free(cumulative);
}

/* The first sum that is not below u, looked for one by one: torch's definition. */
static uint64_t first_not_below(const double *cumulative, uint64_t n, double u)
{
    for (uint64_t i = 0; i < n; i++)
        if (cumulative[i] >= u)
            return i;
    return n;
}

Test(orders, weighted_finds_the_first_sum_that_is_not_below_the_draw)
{
    draw_seed(&dice, 12, 0, 0);
    for (int c = 0; c < CASES; c++) {
        struct ground ground;
        struct mt19937 generator;
        struct order_spec spec = {.kind = ORDER_WEIGHTED, .seed = (uint64_t)c};
        uint64_t n = 1 + draw_below(&dice, 300);
        struct order *order;

        ground_make(&ground, n);
        /* Sums that stand still, as those of samples that weigh nothing. */
        for (uint64_t i = 0; i < n; i++)
            ground.cumulative[i] = draw_below(&dice, 3) ? ground.weights[i] : 0;
        ground.cumulative[draw_below(&dice, n)] = 1;
        weights_accumulate(ground.cumulative, n);
        spec.epoch_samples = 500;
        order = open(&spec, &ground.basis, 0);
        mt19937_seed(&generator, spec.seed);
        for (uint64_t p = 0; p < 500; p++) {
            double u = (double)(mt19937_next64(&generator) & ((UINT64_C(1) << 53) - 1)) / 0x1p53;
            cr_assert_eq(order_sample(order, p), first_not_below(ground.cumulative, n, u));
        }
        order_close(order);
        ground_free(&ground);
    }
}

/* A draw that is a sum to the last bit is that sum's. */
Test(orders, weighted_gives_a_draw_on_the_border_to_the_lower_sample)
{
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct order_spec spec = {.kind = ORDER_WEIGHTED, .seed = seed, .epoch_samples = 2};
        struct mt19937 generator;
        double cumulative[3] = {0, 0, 1};
        struct order_basis basis = {.samples = 3, .cumulative = cumulative};
        struct order *order;

        mt19937_seed(&generator, seed);
        cumulative[1] = (double)(mt19937_next64(&generator) & ((UINT64_C(1) << 53) - 1)) / 0x1p53;
        order = open(&spec, &basis, 0);
        cr_assert_eq(order_sample(order, 0), 1);
        order_close(order);
        cumulative[1] = nextafter(cumulative[1], 0);
        order = open(&spec, &basis, 0);
        cr_assert_eq(order_sample(order, 0), 2);
        order_close(order);
    }
}

/* Equal weights by the general way, with the table: the closed form gives the same, at the sums
 * themselves and next to them too. */
Test(orders, resampled_needs_no_table_of_weights)
{
    draw_seed(&dice, 13, 0, 0);
    for (int c = 0; c < 400; c++) {
        uint64_t n = 1 + draw_below(&dice, c % 20 ? 2000 : 100000);
        double *cumulative = calloc(n, sizeof *cumulative);

        cr_assert(cumulative != NULL);
        for (uint64_t i = 0; i < n; i++)
            cumulative[i] = 1;
        weights_accumulate(cumulative, n);
        for (int k = 0; k < 300; k++) {
            uint64_t i = draw_below(&dice, n);
            double sum = cumulative[i], before = nextafter(sum, 0), after = nextafter(sum, 2);
            double u = (double)(draw_next(&dice) >> 11) * 0x1p-53;
            uint64_t found = order_resampled_index(u, n);
            cr_assert_eq(order_resampled_index(sum, n), i);
            cr_assert_eq(order_resampled_index(before, n), i);
            if (i + 1 < n)
                cr_assert_eq(order_resampled_index(after, n), i + 1);
            cr_assert(cumulative[found] >= u && (found == 0 || cumulative[found - 1] < u));
        }
        cr_assert_eq(order_resampled_index(0, n), 0);
        cr_assert_eq(order_resampled_index(1 - 0x1p-53, n), n - 1);
        free(cumulative);
    }
}

Test(orders, resampled_is_weighted_with_equal_weights)
{
    double cumulative[1000];
    struct order_basis basis = {.samples = 1000, .cumulative = cumulative};
    struct order_spec weighted = {.kind = ORDER_WEIGHTED, .seed = 5, .epoch_samples = 5000},
                      resampled = weighted;

    for (int i = 0; i < 1000; i++)
        cumulative[i] = 3.25;
    weights_accumulate(cumulative, 1000);
    resampled.kind = ORDER_RESAMPLED;
    for (uint64_t epoch = 0; epoch < 20; epoch++)
        cr_assert_eq(differing(&weighted, epoch, &resampled, epoch, &basis), 0);
}

/* What a batch of `size` is padded to, over what is in it: over whole buckets of an epoch. */
static double waste(const struct order *order, const uint64_t *lengths, uint64_t size)
{
    uint64_t padded = 0, real = 0;

    for (uint64_t b = 0; (b + 1) * size <= order_places(order); b++) {
        uint64_t longest = 0;
        for (uint64_t p = b * size; p < (b + 1) * size; p++) {
            uint64_t length = lengths[order_sample(order, p)];
            longest = length > longest ? length : longest;
            real += length;
        }
        padded += longest * size;
    }
    return (double)padded / (double)real - 1;
}

/* Sums of 12 even draws are close to normal. */
static double normal(void)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += (double)(draw_next(&dice) >> 11) * 0x1p-53;
    return sum;
}

Test(orders, buckets_of_length_pad_little_where_a_shuffle_pads_much)
{
    const uint64_t n = 20000, size = 64;
    struct order_spec spec = {.kind = ORDER_LENGTH, .seed = 2, .bucket = size},
                      shuffle = {.kind = ORDER_TORCH, .seed = 2};
    struct ground ground;

    draw_seed(&dice, 14, 0, 0);
    ground_make(&ground, n);
    for (uint64_t i = 0; i < n; i++)
        ground.lengths[i] = (uint64_t)exp(6 + 0.6 * normal());
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        struct order *bucketed = open(&spec, &ground.basis, epoch),
                     *shuffled = open(&shuffle, &ground.basis, epoch);
        double little = waste(bucketed, ground.lengths, size),
               much = waste(shuffled, ground.lengths, size);
        cr_assert(little < 0.1 && much > 1.5, "%.3f and %.3f", little, much);
        order_close(bucketed);
        order_close(shuffled);
    }
    ground_free(&ground);
}

/* Worked out by the definition's words alone: groups of 64 buckets of the permutation, which itself
 * shows only through what is left over. Each group's buckets do not overlap in length, so over all
 * buckets a length is within at most as many buckets' ranges as there are groups. */
Test(orders, a_bucket_is_a_run_of_its_groups_sorted_lengths)
{
    draw_seed(&dice, 15, 0, 0);
    for (int c = 0; c < 40; c++) {
        uint64_t size = 1 + draw_below(&dice, 9), n = draw_below(&dice, 3000) + size;
        uint64_t buckets = n / size, groups = (buckets + 63) / 64;
        struct order_spec spec = {.kind = ORDER_LENGTH, .seed = (uint64_t)c, .bucket = size};
        struct ground ground;
        struct order *order;

        ground_make(&ground, n);
        for (uint64_t i = 0; i < n; i++)
            ground.lengths[i] = i * 7919 % 1000003; /* all different */
        order = open(&spec, &ground.basis, 0);
        for (int k = 0; k < 20; k++) {
            uint64_t at = draw_below(&dice, 1000003), within = 0;
            for (uint64_t b = 0; b < buckets; b++) {
                uint64_t least = UINT64_MAX, most = 0;
                for (uint64_t p = b * size; p < (b + 1) * size; p++) {
                    uint64_t length = ground.lengths[order_sample(order, p)];
                    least = length < least ? length : least;
                    most = length > most ? length : most;
                }
                within += least <= at && at <= most;
            }
            cr_assert(within <= groups);
        }
        order_close(order);
        ground_free(&ground);
    }
}

Test(orders, a_bucket_larger_than_the_data_set_is_one_bucket)
{
    struct order_spec spec = {.kind = ORDER_LENGTH, .seed = 2, .bucket = (uint64_t)1 << 31};
    struct ground ground;
    struct order *order;

    draw_seed(&dice, 16, 0, 0);
    ground_make(&ground, 100);
    order = open(&spec, &ground.basis, 0);
    expect_once(order, 100);
    order_close(order);
    ground_free(&ground);
}

/* So that a batch's ranks take turns at its long samples: in a bucket of two, dealt to two ranks,
 * each one has the longer sample about half the time. */
Test(orders, inside_a_bucket_lengths_are_in_no_order)
{
    const uint64_t n = 4000;
    struct order_spec spec = {.kind = ORDER_LENGTH, .seed = 2, .bucket = 2};
    struct ground ground;
    struct order *order;
    uint64_t first_is_longer = 0;

    draw_seed(&dice, 17, 0, 0);
    ground_make(&ground, n);
    for (uint64_t i = 0; i < n; i++)
        ground.lengths[i] = i;
    order = open(&spec, &ground.basis, 0);
    for (uint64_t p = 0; p < n; p += 2)
        first_is_longer += order_sample(order, p) > order_sample(order, p + 1);
    cr_assert(fabs((double)first_is_longer - 1000) < 5 * sqrt(500.0), "%llu",
              (unsigned long long)first_is_longer);
    order_close(order);
    ground_free(&ground);
}

Test(orders, what_an_order_needs_and_has_not_is_refused)
{
    struct order_basis none = {.samples = 10}, many = {.samples = ORDER_RESAMPLED_MAX + 1};
    uint64_t lengths[10] = {0};
    struct order_basis with_lengths = {.samples = 10, .lengths = lengths};
    struct order *order;

    cr_assert_eq(order_open(&order, &(struct order_spec){.kind = ORDER_WEIGHTED}, &none, 0),
                 -EINVAL);
    cr_assert_eq(
        order_open(&order, &(struct order_spec){.kind = ORDER_LENGTH, .bucket = 2}, &none, 0),
        -EINVAL);
    cr_assert_eq(order_open(&order, &(struct order_spec){.kind = ORDER_LENGTH}, &with_lengths, 0),
                 -EINVAL);
    cr_assert_eq(order_open(&order,
                            &(struct order_spec){.kind = ORDER_RESAMPLED, .epoch_samples = 5},
                            &many, 0),
                 -EINVAL);
}

static void expect_balance(const int64_t *of, uint64_t n, const double *expected, uint64_t without)
{
    struct labels labels = {.source = CONFIG_LABEL_CLS, .of = (int64_t *)of};
    double *weights;
    uint64_t unlabelled;

    cr_assert_eq(weights_balance(&labels, n, &weights, &unlabelled), 0);
    cr_assert_eq(unlabelled, without);
    for (uint64_t i = 0; i < n; i++)
        cr_assert_eq(weights[i], expected[i]);
    free(weights);
}

Test(orders, balanced_weighs_all_classes_alike_and_what_has_none_with_nothing)
{
    const int64_t of[] = {3, -5, 3, LABELS_MISSING, INT64_MAX, 3, LABELS_MISSING, -5};

    expect_balance(of, 8, (const double[]){1.0 / 3, 0.5, 1.0 / 3, 0, 1, 1.0 / 3, 0, 0.5}, 2);
    expect_balance(of, 1, (const double[]){1}, 0);
}
