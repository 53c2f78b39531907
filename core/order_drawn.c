/* Draws with replacement, as torch.multinomial makes more than one of them on the CPU. Owns
 * nothing.
 *
 * aten/src/ATen/native/cpu/MultinomialKernel.cpp: the weights, as double, are summed up from the
 * first to the last, each sum is divided by the total, the last one is set to 1. A draw is a
 * uniform number of 53 bits from [0, 1), and the first sample whose sum is not below it. The order
 * of these operations is part of the result: no -ffast-math. torch stops at 2^24 weights; there is
 * no such limit here. */
#include "order_table.h"

#include "mt19937.h"

#include <errno.h>

/* at::uniform_real_distribution<double>: the low 53 bits of random64(). */
static double uniform(struct mt19937 *generator)
{
    return (double)(mt19937_next64(generator) & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

/* How many draws are looked up side by side: a lookup waits for memory at almost every step,
 * several wait at once. 300 ns a draw one by one, of 1.28 million weights; 60 ns so. */
#define LANES 16

/* The first of `n` sums that is not below each `u`; the last one is 1, so there is one. */
static void find(const double *cumulative, uint64_t n, const double *u, const double **found)
{
    for (int lane = 0; lane < LANES; lane++)
        found[lane] = cumulative;
    while (n > 1) {
        uint64_t half = n / 2;
        for (int lane = 0; lane < LANES; lane++)
            found[lane] += found[lane][half - 1] < u[lane] ? half : 0;
        n -= half;
    }
}

int order_fill_weighted(struct order_table *table, const struct order_spec *spec,
                        const struct order_basis *basis, uint64_t epoch)
{
    struct mt19937 generator;
    const double *found[LANES];
    double u[LANES] = {0};

    if (!basis->cumulative)
        return -EINVAL;
    mt19937_seed(&generator, spec->seed + epoch);
    for (uint64_t i = 0; i < table->count; i += LANES) {
        uint64_t left = table->count - i, lanes = left < LANES ? left : LANES;
        for (uint64_t lane = 0; lane < lanes; lane++)
            u[lane] = uniform(&generator);
        find(basis->cumulative, basis->samples, u, found);
        for (uint64_t lane = 0; lane < lanes; lane++)
            order_table_put(table, i + lane, (uint64_t)(found[lane] - basis->cumulative));
    }
    return 0;
}

/* Sum k of n equal weights is k / n, rounded: k ones add up exactly, up to 2^53. u * n may be
 * rounded to either side of the k that is looked for. */
uint64_t order_resampled_index(double u, uint64_t n)
{
    double count = (double)n;
    uint64_t k = (uint64_t)(u * count);

    if (k > n - 1)
        k = n - 1;
    while (k > 0 && (double)k / count >= u)
        k--;
    while (k + 1 < n && (double)(k + 1) / count < u)
        k++;
    return k;
}

int order_fill_resampled(struct order_table *table, const struct order_spec *spec,
                         const struct order_basis *basis, uint64_t epoch)
{
    struct mt19937 generator;

    if (basis->samples > ORDER_RESAMPLED_MAX)
        return -EINVAL;
    mt19937_seed(&generator, spec->seed + epoch);
    for (uint64_t i = 0; i < table->count; i++)
        order_table_put(table, i, order_resampled_index(uniform(&generator), basis->samples));
    return 0;
}
