/* The permutations. Owns each order's table and its inverse; never reads a file, a clock or another
 * order. */
#include "order.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* A table holds 4-byte samples while they fit, 8-byte ones beyond. */
struct table {
    uint32_t *narrow;
    uint64_t *wide;
};

struct order {
    struct order_spec spec;
    uint64_t samples;
    struct table forward; /* position -> sample; unused by orders that compute */
    pthread_mutex_t lock; /* guards the making of `inverse` */
    struct table
        inverse; /* sample -> position; made at first use, read without the lock once `inverted` */
    atomic_bool inverted;
};

static const struct {
    const char *name;
    enum order_kind kind;
    unsigned version;
} kinds[] = {
    {"torch", ORDER_TORCH, 1},
    {"sequential", ORDER_SEQUENTIAL, 1},
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

/* Matsumoto and Nishimura's MT19937, seeded as at::mt19937 is. */

#define MT_LENGTH 624
#define MT_SHIFT  397

void order_mt19937_seed(struct order_mt19937 *generator, uint64_t seed)
{
    uint32_t *state = generator->state;

    state[0] = (uint32_t)seed;
    for (uint32_t j = 1; j < MT_LENGTH; j++)
        state[j] = 1812433253u * (state[j - 1] ^ (state[j - 1] >> 30)) + j;
    generator->next = MT_LENGTH;
}

static uint32_t twist(uint32_t high, uint32_t low)
{
    uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
    return (mixed >> 1) ^ (low & 1 ? 0x9908b0dfu : 0);
}

static void refill(struct order_mt19937 *generator)
{
    uint32_t *state = generator->state;

    for (unsigned j = 0; j < MT_LENGTH - MT_SHIFT; j++)
        state[j] = state[j + MT_SHIFT] ^ twist(state[j], state[j + 1]);
    for (unsigned j = MT_LENGTH - MT_SHIFT; j < MT_LENGTH - 1; j++)
        state[j] = state[j + MT_SHIFT - MT_LENGTH] ^ twist(state[j], state[j + 1]);
    state[MT_LENGTH - 1] = state[MT_SHIFT - 1] ^ twist(state[MT_LENGTH - 1], state[0]);
    generator->next = 0;
}

uint32_t order_mt19937_next(struct order_mt19937 *generator)
{
    uint32_t y;

    if (generator->next == MT_LENGTH)
        refill(generator);
    y = generator->state[generator->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

static uint64_t next64(struct order_mt19937 *generator)
{
    uint64_t high = order_mt19937_next(generator);
    return high << 32 | order_mt19937_next(generator);
}

bool order_is_large(uint64_t n)
{
    return n >= UINT32_MAX / 20;
}

static bool fits_narrow(uint64_t n)
{
    return n <= (uint64_t)UINT32_MAX + 1;
}

static int table_allocate(struct table *table, uint64_t n)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, fits_narrow(n) ? sizeof(uint32_t) : sizeof(uint64_t), &bytes))
        return -ENOMEM;
    if (fits_narrow(n))
        table->narrow = malloc(bytes ? bytes : 1);
    else
        table->wide = malloc(bytes);
    return table->narrow || table->wide ? 0 : -ENOMEM;
}

static void table_free(struct table *table)
{
    free(table->narrow);
    free(table->wide);
}

static uint64_t table_get(const struct table *table, uint64_t i)
{
    return table->narrow ? table->narrow[i] : table->wide[i];
}

static void table_put(struct table *table, uint64_t i, uint64_t value)
{
    if (table->narrow)
        table->narrow[i] = (uint32_t)value;
    else
        table->wide[i] = value;
}

/* randperm_cpu of torch: two algorithms, one on each side of UINT32_MAX / 20. */
static void randperm(struct table *r, uint64_t n, struct order_mt19937 *generator)
{
    if (order_is_large(n)) {
        for (uint64_t i = 0; i < n; i++) {
            uint64_t z = next64(generator) % (i + 1);
            table_put(r, i, i);
            table_put(r, i, table_get(r, z));
            table_put(r, z, i);
        }
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        table_put(r, i, i);
    for (uint64_t i = 0; i + 1 < n; i++) {
        uint64_t z = i + order_mt19937_next(generator) % (uint32_t)(n - i);
        uint64_t kept = table_get(r, i);
        table_put(r, i, table_get(r, z));
        table_put(r, z, kept);
    }
}

int order_open(struct order **out, const struct order_spec *spec, uint64_t n, uint64_t epoch)
{
    struct order_mt19937 generator;
    struct order *order;
    int fault;

    if (n > ORDER_SAMPLES_MAX || epoch > ORDER_EPOCH_MAX)
        return -EINVAL;
    order = calloc(1, sizeof *order);
    if (!order)
        return -ENOMEM;
    order->spec = *spec;
    order->samples = n;
    pthread_mutex_init(&order->lock, NULL);
    if (spec->kind == ORDER_TORCH) {
        fault = table_allocate(&order->forward, n);
        if (fault) {
            order_close(order);
            return fault;
        }
        order_mt19937_seed(&generator, spec->seed + epoch);
        randperm(&order->forward, n, &generator);
    }
    *out = order;
    return 0;
}

void order_close(struct order *order)
{
    if (!order)
        return;
    table_free(&order->forward);
    table_free(&order->inverse);
    pthread_mutex_destroy(&order->lock);
    free(order);
}

uint64_t order_samples(const struct order *order)
{
    return order->samples;
}

size_t order_bytes(const struct order *order)
{
    size_t width = fits_narrow(order->samples) ? sizeof(uint32_t) : sizeof(uint64_t);
    size_t tables = (order->spec.kind == ORDER_TORCH) + (atomic_load(&order->inverted) ? 1u : 0u);
    return sizeof *order + tables * order->samples * width;
}

uint64_t order_sample(const struct order *order, uint64_t position)
{
    if (order->spec.kind == ORDER_SEQUENTIAL)
        return position;
    return table_get(&order->forward, position);
}

static int invert(struct order *order)
{
    int fault = 0;

    pthread_mutex_lock(&order->lock);
    if (!atomic_load(&order->inverted)) {
        fault = table_allocate(&order->inverse, order->samples);
        for (uint64_t i = 0; !fault && i < order->samples; i++)
            table_put(&order->inverse, table_get(&order->forward, i), i);
        atomic_store(&order->inverted, !fault);
    }
    pthread_mutex_unlock(&order->lock);
    return fault;
}

int order_position(struct order *order, uint64_t sample, uint64_t *position)
{
    int fault = 0;

    if (order->spec.kind == ORDER_SEQUENTIAL) {
        *position = sample;
        return 0;
    }
    if (!atomic_load_explicit(&order->inverted, memory_order_acquire))
        fault = invert(order);
    if (!fault)
        *position = table_get(&order->inverse, sample);
    return fault;
}
