/* The permutations. Owns each order's table and its inverse; never reads a file, a clock or another
 * order. */
#include "order.h"

#include "order_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

struct order {
    struct order_spec spec;
    uint64_t samples, places;
    /* Of orders that compute: where in the endless concatenation this epoch starts. */
    uint64_t number, first; /* in which permutation (modulo 2^64), and at which place of it */
    struct feistel feistel;
    uint64_t key;               /* of permutation `number` */
    struct order_table forward; /* place -> sample; of orders that have a table */
    pthread_mutex_t lock;       /* guards the making of `inverse` */
    struct order_table inverse; /* sample -> its first place, or `places`; made at first use, read
                                   without the lock once `inverted` */
    atomic_bool inverted;
};

static const struct {
    const char *name;
    enum order_kind kind;
    unsigned version;
    bool fixed;         /* all epochs are alike */
    bool draws;         /* with replacement: each epoch anew, no permutation is there */
    order_filler *fill; /* NULL: it computes */
} kinds[ORDER_KINDS] = {
    {"torch", ORDER_TORCH, 1, false, false, order_fill_torch},
    {"sequential", ORDER_SEQUENTIAL, 1, true, false, NULL},
    {"contiguous", ORDER_CONTIGUOUS, 1, true, false, NULL},
    {"weighted", ORDER_WEIGHTED, 1, false, true, order_fill_weighted},
    {"resampled", ORDER_RESAMPLED, 1, false, true, order_fill_resampled},
    {"block", ORDER_BLOCK, 1, false, false, order_fill_block},
    {"feistel", ORDER_FEISTEL, 1, false, false, NULL},
    {"length", ORDER_LENGTH, 1, false, false, order_fill_length},
};

const char *order_kind_name(enum order_kind kind)
{
    return kinds[kind].name;
}

bool order_kind_from(const char *name, enum order_kind *kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            *kind = kinds[i].kind;
            return true;
        }
    }
    return false;
}

unsigned order_version(enum order_kind kind)
{
    return kinds[kind].version;
}

bool order_is_fixed(enum order_kind kind)
{
    return kinds[kind].fixed;
}

bool order_draws(enum order_kind kind)
{
    return kinds[kind].draws;
}

int order_table_open(struct order_table *table, uint64_t count, uint64_t limit)
{
    bool narrow = limit <= (uint64_t)UINT32_MAX + 1;
    size_t bytes;

    *table = (struct order_table){.count = count};
    if (__builtin_mul_overflow(count, narrow ? sizeof(uint32_t) : sizeof(uint64_t), &bytes))
        return -ENOMEM;
    if (narrow)
        table->narrow = malloc(bytes ? bytes : 1);
    else
        table->wide = malloc(bytes ? bytes : 1);
    return table->narrow || table->wide ? 0 : -ENOMEM;
}

void order_table_close(struct order_table *table)
{
    free(table->narrow);
    free(table->wide);
    *table = (struct order_table){0};
}

size_t order_table_bytes(const struct order_table *table)
{
    return table->count * (table->narrow ? sizeof(uint32_t) : sizeof(uint64_t));
}

uint64_t order_spec_places(const struct order_spec *spec, uint64_t samples)
{
    return spec->epoch_samples ? spec->epoch_samples : samples;
}

/* Copies the part of the concatenation that is this epoch, one permutation after the other. */
static int concatenate(struct order *order, const struct order_basis *basis)
{
    uint64_t number = order->number, from = order->first, done = 0;
    struct order_table one;
    int fault = order_table_open(&one, order->samples, order->samples);

    for (; !fault && done < order->places; number++, from = 0) {
        fault = kinds[order->spec.kind].fill(&one, &order->spec, basis, number);
        for (; !fault && from < order->samples && done < order->places; from++)
            order_table_put(&order->forward, done++, order_table_get(&one, from));
    }
    order_table_close(&one);
    return fault;
}

static int fill(struct order *order, const struct order_basis *basis, uint64_t epoch)
{
    int fault;

    if (!kinds[order->spec.kind].fill)
        return 0;
    fault = order_table_open(&order->forward, order->places, order->samples);
    if (fault)
        return fault;
    if (order->places == order->samples || kinds[order->spec.kind].draws)
        return kinds[order->spec.kind].fill(&order->forward, &order->spec, basis, epoch);
    return concatenate(order, basis);
}

/* The permutations' number counts modulo 2^64. */
static void start(struct order *order, uint64_t epoch)
{
    wide place = (wide)epoch * order->places;

    order->number = (uint64_t)(place / order->samples);
    order->first = (uint64_t)(place % order->samples);
    if (order->spec.kind == ORDER_FEISTEL) {
        order->feistel = feistel_make(order->samples);
        order->key = feistel_key(order->spec.seed, order->number);
    }
}

int order_open(struct order **out, const struct order_spec *spec, const struct order_basis *basis,
               uint64_t epoch)
{
    uint64_t places = order_spec_places(spec, basis->samples);
    struct order *order;
    int fault;

    if (basis->samples > ORDER_SAMPLES_MAX || places > ORDER_SAMPLES_MAX ||
        epoch > ORDER_EPOCH_MAX || (places && !basis->samples) ||
        (spec->kind == ORDER_BLOCK && (!basis->blocks || !spec->streams || !spec->window)))
        return -EINVAL;
    order = calloc(1, sizeof *order);
    if (!order)
        return -ENOMEM;
    order->spec = *spec;
    order->samples = basis->samples;
    order->places = places;
    if (order->samples)
        start(order, epoch);
    pthread_mutex_init(&order->lock, NULL);
    fault = fill(order, basis, epoch);
    if (fault)
        order_close(order);
    else
        *out = order;
    return fault;
}

void order_close(struct order *order)
{
    if (!order)
        return;
    order_table_close(&order->forward);
    order_table_close(&order->inverse);
    pthread_mutex_destroy(&order->lock);
    free(order);
}

uint64_t order_places(const struct order *order)
{
    return order->places;
}

size_t order_bytes(const struct order *order)
{
    return sizeof *order + order_table_bytes(&order->forward) +
           (atomic_load(&order->inverted) ? order_table_bytes(&order->inverse) : 0);
}

static uint64_t key_of(const struct order *order, uint64_t number)
{
    return number == order->number ? order->key : feistel_key(order->spec.seed, number);
}

static uint64_t compute_sample(const struct order *order, uint64_t place)
{
    uint64_t number = order->number;

    place += order->first;
    if (place >= order->samples) {
        number += place / order->samples;
        place %= order->samples;
    }
    if (order->spec.kind == ORDER_FEISTEL)
        return feistel_sample(&order->feistel, key_of(order, number), place);
    return place;
}

/* Called for every name that is listed or looked up: a table is asked first. */
uint64_t order_sample(const struct order *order, uint64_t place)
{
    if (order->forward.narrow)
        return order->forward.narrow[place];
    if (order->forward.wide)
        return order->forward.wide[place];
    return compute_sample(order, place);
}

/* Of two permutations after each other, from `first` on: the second one has every sample. */
static int compute_place(const struct order *order, uint64_t sample, uint64_t *place)
{
    bool feistel = order->spec.kind == ORDER_FEISTEL;
    uint64_t there = feistel ? feistel_place(&order->feistel, order->key, sample) : sample;

    if (there >= order->first) {
        *place = there - order->first;
    } else {
        if (feistel)
            there = feistel_place(&order->feistel, key_of(order, order->number + 1), sample);
        *place = there + (order->samples - order->first);
    }
    return *place < order->places ? 0 : -ENOENT;
}

static int invert(struct order *order)
{
    int fault = 0;

    pthread_mutex_lock(&order->lock);
    if (!atomic_load(&order->inverted)) {
        fault = order_table_open(&order->inverse, order->samples, order->places + 1);
        for (uint64_t i = 0; !fault && i < order->samples; i++)
            order_table_put(&order->inverse, i, order->places);
        for (uint64_t i = order->places; !fault && i > 0; i--)
            order_table_put(&order->inverse, order_table_get(&order->forward, i - 1), i - 1);
        atomic_store(&order->inverted, !fault);
    }
    pthread_mutex_unlock(&order->lock);
    return fault;
}

int order_place_of(struct order *order, uint64_t sample, uint64_t *place)
{
    int fault = 0;

    if (!kinds[order->spec.kind].fill)
        return compute_place(order, sample, place);
    if (!atomic_load_explicit(&order->inverted, memory_order_acquire))
        fault = invert(order);
    if (fault)
        return fault;
    *place = order_table_get(&order->inverse, sample);
    return *place < order->places ? 0 : -ENOENT;
}
