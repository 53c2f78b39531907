/* The permutations: which sample stands at which place of an epoch's global order.
 *
 * An order is a pure function (spec, n, epoch) -> position -> sample: no file, no clock, no state
 * but the table that order_open() works out. Equal arguments give equal orders on every machine.
 *
 *   torch        torch.utils.data.DistributedSampler(shuffle=True), torch 2.7 and later:
 * torch.randperm(n) with a generator seeded with seed + epoch. Sources:
 * aten/src/ATen/core/MT19937RNGEngine.h, aten/src/ATen/native/TensorFactories.cpp (randperm_cpu),
 * torch/utils/data/distributed.py. sequential   shuffle=False: the identity.
 *
 * Only the low 32 bits of seed + epoch reach torch's generator: so it is there, so it is here. */
#ifndef SHUFFLEFS_ORDER_H
#define SHUFFLEFS_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum order_kind { ORDER_TORCH, ORDER_SEQUENTIAL };

struct order_spec {
    enum order_kind kind;
    uint64_t seed; /* below 2^63 */
};

/* The largest data set and the largest epoch: arithmetic on positions never overflows below it. */
#define ORDER_SAMPLES_MAX ((uint64_t)1 << 62)
#define ORDER_EPOCH_MAX   (((uint64_t)1 << 63) - 1)

struct order;

/* "torch", "sequential". order_kind_from: false when there is no such order. */
const char *order_kind_name(enum order_kind kind);
bool order_kind_from(const char *name, enum order_kind *kind);

/* The version of an order's definition: part of the fingerprint, raised when its output changes. */
unsigned order_version(enum order_kind kind);

/* Works out the order of `n` samples (n <= ORDER_SAMPLES_MAX) in `epoch`. Returns 0, -ENOMEM when
 * the table does not fit, or -EINVAL (n or epoch out of range); nothing is reported. Time is O(n):
 * about 20 ms for 1.28 M samples. */
int order_open(struct order **out, const struct order_spec *spec, uint64_t n, uint64_t epoch);
void order_close(struct order *order); /* NULL is fine */

uint64_t order_samples(const struct order *order);
size_t order_bytes(const struct order *order); /* memory it holds */

/* The sample at `position` < n. Any thread, any number at once. */
uint64_t order_sample(const struct order *order, uint64_t position);

/* The position of `sample` < n. The first call builds the inverse table (O(n) time, as much memory
 * again); any thread. Returns 0 or -ENOMEM. */
int order_position(struct order *order, uint64_t sample, uint64_t *position);

/* torch's generator by itself, for tests and for the orders above it. */
struct order_mt19937 {
    uint32_t state[624];
    unsigned next;
};
void order_mt19937_seed(struct order_mt19937 *generator, uint64_t seed);
uint32_t order_mt19937_next(struct order_mt19937 *generator);

/* torch's `random64() % bound` and `random() % bound` choice for a table of n entries: which
 * algorithm randperm(n) takes. True from UINT32_MAX / 20 up. */
bool order_is_large(uint64_t n);

#endif
