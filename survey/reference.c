/* Full shuffles, to hold an order's figures against. Owns the table of one. */
#include "../core/draw.h"
#include "../core/order_table.h"
#include "quality.h"

#include <errno.h>
#include <stdlib.h>

/* Places that are shuffled in all, so that figures of small epochs are means of many shuffles. */
#define PLACES_SHUFFLED ((uint64_t)1 << 20)
#define SHUFFLES_MOST   400
#define REFERENCE_SEED  0
#define REFERENCE_DRAWS UINT64_C(0x7265666572656e63) /* "referenc": no order draws for this */

/* Fisher and Yates, into `table` from place `at` on, as much as fits; `one` has room for a
 * permutation. */
static uint64_t shuffle(struct order_table *one, struct order_table *table, uint64_t at,
                        struct draw *draw)
{
    uint64_t n = one->count, fits = table->count - at < n ? table->count - at : n;

    for (uint64_t i = 0; i < n; i++)
        order_table_put(one, i, i);
    for (uint64_t i = 0; i < fits; i++) {
        uint64_t other = i + draw_below(draw, n - i), kept = order_table_get(one, i);
        order_table_put(table, at + i, order_table_get(one, other));
        order_table_put(one, other, kept);
    }
    return at + fits;
}

static uint64_t table_sample(const void *context, uint64_t place)
{
    return order_table_get(context, place);
}

static int add_shuffles(const struct quality_space *space, const struct quality_sequence *sequence,
                        struct order_table *one, struct order_table *table, uint64_t count,
                        double *sums)
{
    struct quality_sequence shuffled = *sequence;
    int fault = 0;

    shuffled.sample = table_sample;
    shuffled.context = table;
    shuffled.deal.runs = false;
    shuffled.deal.window = 0;
    for (uint64_t number = 0; !fault && number < count; number++) {
        double figures[QUALITY_FIGURES];
        struct draw draw;
        draw_seed(&draw, REFERENCE_SEED, number, REFERENCE_DRAWS);
        for (uint64_t at = 0; at < table->count;)
            at = shuffle(one, table, at, &draw);
        fault = quality_measure(space, &shuffled, figures);
        for (int f = 0; !fault && f < QUALITY_FIGURES; f++)
            sums[f] += figures[f];
    }
    return fault;
}

uint64_t quality_shuffles(const struct quality_sequence *sequence)
{
    uint64_t work = sequence->places + sequence->world;
    uint64_t count = (PLACES_SHUFFLED + work - 1) / work;

    return count < SHUFFLES_MOST ? count : SHUFFLES_MOST;
}

int quality_reference(const struct quality_space *space, const struct quality_sequence *sequence,
                      double *figures)
{
    uint64_t count = quality_shuffles(sequence);
    struct order_table one, table = {0};
    int fault = order_table_open(&one, space->samples, space->samples);

    for (int f = 0; f < QUALITY_FIGURES; f++)
        figures[f] = 0;
    if (!fault)
        fault = order_table_open(&table, sequence->places, space->samples);
    if (!fault)
        fault = add_shuffles(space, sequence, &one, &table, count, figures);
    for (int f = 0; f < QUALITY_FIGURES; f++)
        figures[f] /= (double)count;
    order_table_close(&one);
    order_table_close(&table);
    return fault;
}
