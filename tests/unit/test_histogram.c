/* Histograms: quantiles held against sorted values. */
#include "unit.h"

#include "../../measure/histogram.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 20000 };

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Values over many powers of two, as latencies are. */
static uint64_t value_of(uint64_t i)
{
    uint64_t mixed = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    mixed ^= mixed >> 29;
    return (mixed & 0xffffff) >> (i % 24);
}

Test(histogram, quantiles_are_never_too_low_and_less_than_a_hundredth_too_high)
{
    static const double quantiles[] = {0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 0.99999, 1};
    struct histogram *histogram = calloc(1, sizeof *histogram);
    uint64_t *values = calloc(COUNT, sizeof *values);

    cr_assert(histogram && values);
    for (uint64_t i = 0; i < COUNT; i++) {
        values[i] = value_of(i);
        histogram_add(histogram, values[i]);
    }
    qsort(values, COUNT, sizeof *values, by_value);
    cr_assert_eq(histogram->count, COUNT);
    cr_assert_eq(histogram->most, values[COUNT - 1]);
    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
        double place = quantiles[i] * COUNT;
        size_t rank = (size_t)place + ((double)(size_t)place < place);
        uint64_t exact = values[rank ? rank - 1 : 0];
        uint64_t got = histogram_quantile(histogram, quantiles[i]);
        cr_assert(got >= exact);
        cr_assert(got <= exact + exact / 128);
    }
    free(values);
    free(histogram);
}

Test(histogram, small_values_are_exact)
{
    struct histogram *histogram = calloc(1, sizeof *histogram);

    cr_assert(histogram);
    for (uint64_t ns = 0; ns < 256; ns++)
        histogram_add(histogram, ns);
    for (uint64_t ns = 0; ns < 256; ns++)
        cr_assert_eq(histogram_quantile(histogram, (double)(ns + 1) / 256), ns);
    free(histogram);
}

Test(histogram, a_merge_is_as_if_all_had_been_added_to_one)
{
    struct histogram *all = calloc(3, sizeof *all);

    cr_assert(all);
    for (uint64_t i = 0; i < COUNT; i++) {
        histogram_add(&all[0], value_of(i));
        histogram_add(&all[1 + i % 2], value_of(i));
    }
    histogram_merge(&all[1], &all[2]);
    cr_assert_eq(memcmp(&all[0], &all[1], sizeof *all), 0);
    free(all);
}

Test(histogram, what_is_longer_than_its_range_still_counts)
{
    struct histogram *histogram = calloc(1, sizeof *histogram);

    cr_assert(histogram);
    cr_assert_eq(histogram_quantile(histogram, 0.5), 0);
    histogram_add(histogram, 1000);
    histogram_add(histogram, UINT64_MAX);
    histogram_add(histogram, (UINT64_C(1) << HISTOGRAM_BITS) + 1);
    cr_assert_eq(histogram->count, 3);
    cr_assert_eq(histogram_quantile(histogram, 1), UINT64_MAX);
    cr_assert(histogram_quantile(histogram, 0.3) >= 1000);
    cr_assert(histogram_quantile(histogram, 0.3) < 1008);
    free(histogram);
}
