/* How long an order takes to open, and to look up.
 *
 * usage: order-lookups ORDER N
 *
 * Blocks have 180 samples and buckets 256; weights and lengths are drawn. Prints
 * `OPEN_S BYTES NEXT_NS ANY_NS FIND_NS`: seconds until the order is there, bytes it holds then, and
 * nanoseconds for the sample at the next place, for the one at any place, and for the place of any
 * sample (once the first such question was answered). Exit status: 0, 1 when the order cannot be
 * made, 2 for wrong arguments.
 */
#include "../core/draw.h"
#include "../core/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LOOKUPS       (1 << 22)
#define BLOCK_SAMPLES 180

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* What an order may need to know of samples; false: no memory. */
static bool make_basis(struct order_basis *basis, enum order_kind kind, uint64_t count)
{
    uint64_t blocks = (count + BLOCK_SAMPLES - 1) / BLOCK_SAMPLES;
    uint64_t *numbers = NULL;
    double *sums = NULL;
    struct draw draw;

    *basis = (struct order_basis){.samples = count};
    draw_seed(&draw, 1, 0, 0);
    if (kind == ORDER_BLOCK || kind == ORDER_LENGTH)
        numbers = calloc(count + 1, sizeof *numbers);
    if (kind == ORDER_WEIGHTED)
        sums = calloc(count, sizeof *sums);
    for (uint64_t i = 0; numbers && i < count; i++)
        numbers[i] = kind == ORDER_LENGTH ? draw_below(&draw, 1000) : i * BLOCK_SAMPLES;
    for (uint64_t i = 0; sums && i < count; i++)
        sums[i] = (double)(i + 1) / (double)count;
    if (kind == ORDER_BLOCK && numbers) {
        numbers[blocks] = count;
        basis->blocks = numbers;
        basis->block_count = blocks;
    }
    basis->lengths = kind == ORDER_LENGTH ? numbers : NULL;
    basis->cumulative = sums;
    return (numbers != NULL) == (kind == ORDER_BLOCK || kind == ORDER_LENGTH) &&
           (sums != NULL) == (kind == ORDER_WEIGHTED);
}

static void measure(struct order *order, uint64_t count, double opened)
{
    uint64_t any[1024], sum = 0, place = 0;
    size_t bytes = order_bytes(order);
    double start, next, drawn;
    struct draw draw;

    draw_seed(&draw, 2, 0, 0);
    for (size_t i = 0; i < sizeof any / sizeof *any; i++)
        any[i] = draw_below(&draw, count);
    start = now();
    for (uint64_t i = 0, at = 0; i < LOOKUPS; i++, at = at + 1 < count ? at + 1 : 0)
        sum += order_sample(order, at);
    next = now();
    for (uint64_t i = 0; i < LOOKUPS; i++) {
        /* Another one each time round, at next to no cost. */
        place = any[i % 1024] ^ (i >> 10);
        sum += order_sample(order, place < count ? place : any[i % 1024]);
    }
    drawn = now();
    printf("%.9f %zu %.3f %.3f", opened, bytes, 1e9 * (next - start) / LOOKUPS,
           1e9 * (drawn - next) / LOOKUPS);
    order_place_of(order, 0, &place);
    start = now();
    for (uint64_t i = 0; i < LOOKUPS; i++) {
        place = any[i % 1024] ^ (i >> 10);
        order_place_of(order, place < count ? place : any[i % 1024], &place);
        sum += place;
    }
    printf(" %.3f\n", 1e9 * (now() - start) / LOOKUPS);
    /* Nothing is left out for want of a use. */
    if (sum == 1)
        fputs("\n", stderr);
}

int main(int count, char **arguments)
{
    struct order_spec spec = {.window = 64, .streams = 64, .block = 8 << 20, .bucket = 256};
    struct order_basis basis;
    struct order *order;
    uint64_t samples;
    double start;

    if (count != 3 || !order_kind_from(arguments[1], &spec.kind) ||
        (samples = strtoull(arguments[2], NULL, 10)) == 0 || samples > ORDER_SAMPLES_MAX) {
        fprintf(stderr, "usage: order-lookups ORDER N\n");
        return 2;
    }
    if (!make_basis(&basis, spec.kind, samples)) {
        fprintf(stderr, "order-lookups: no memory\n");
        return 1;
    }
    start = now();
    int fault = order_open(&order, &spec, &basis, 1);
    if (fault) {
        fprintf(stderr, "order-lookups: %s of %s: %s\n", arguments[1], arguments[2],
                strerror(-fault));
        return 1;
    }
    measure(order, samples, now() - start);
    order_close(order);
    free((void *)basis.blocks);
    free((void *)basis.lengths);
    free((void *)basis.cumulative);
    return 0;
}
