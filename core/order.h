/* The permutations: which sample stands at which place of an epoch's global order.
 *
 * An order is a pure function (spec, basis, epoch) -> place -> sample: no file, no clock, no state
 * but the table that order_open() works out. Equal arguments give equal orders on every machine.
 *
 * An epoch has as many places as the data set has samples, or spec.epoch_samples of them. Of an
 * order that is a permutation, epoch e then is places [eN, (e + 1)N) of the endless concatenation
 * of the permutations 0, 1, 2, ...: nothing is starved, whatever N is. An order that draws with
 * replacement draws N times anew in each epoch.
 *
 *   torch        torch.utils.data.DistributedSampler(shuffle=True), torch 2.7 and later:
 *                torch.randperm(n) with a generator seeded with seed + epoch. Sources:
 *                aten/src/ATen/native/TensorFactories.cpp (randperm_cpu),
 *                torch/utils/data/distributed.py
 *   sequential   shuffle=False: the identity
 *   contiguous   the identity too; it is dealt in unbroken runs (core/plan.h)
 *   weighted     torch.utils.data.WeightedRandomSampler(weights, N, replacement=True) with a
 *                generator seeded with seed + epoch: torch.multinomial's way of N > 1 draws (it
 *                draws a single one by another way, which is not here). Source:
 *                aten/src/ATen/native/cpu/MultinomialKernel.cpp
 *   resampled    the same with equal weights: torch.multinomial(torch.ones(n, dtype=torch.double),
 *                N, True). Their sums are known, so there is no table of weights. (Of float32 ones,
 *                torch.ones' default, torch rounds the sums to 24 bits: a few draws differ by one.)
 *   feistel      a permutation that is computed, both ways, in time and memory that do not depend
 *                on n: a Feistel network over pairs (core/order_feistel.c)
 *   length       batches of samples of similar length, for padding. The data set is permuted, and
 *                the first n - n % B places of that, B being spec.bucket, are cut into groups of 64
 *                buckets (the last group has what is left). Each group is sorted by length, equal
 *                ones by their place in the permutation, and cut into buckets of B. All buckets are
 *                shuffled, whole, and each is shuffled inside, so that no rank has its long samples
 *                always. The n % B places left over stay at the end. So bucket k is places
 *                [kB, (k + 1)B), a global batch; still so after G places where B divides G. In a
 *                concatenation that holds where B divides n and epoch_samples.
 *   block        for storage that is slow to seek: CorgiPile's two levels of shuffling over
 *                canonical streams. Blocks are runs of neighbouring samples of one shard
 *                (core/blocks.h). The blocks of the epoch are shuffled; the row of their samples is
 *                cut into `streams` runs, those of the even streams first, then those of the odd
 *                ones, and the first n % streams of the streams get one sample more. So a block is
 *                parted between two streams in at most streams - 1 places (and a large one over
 *                more), and these streams do not follow each other in turn. Each stream's blocks
 *                are cut into pools of at most `window` blocks, as even as can be, and each pool is
 *                shuffled whole. Place g is stream g % streams, its place g / streams. So a world
 *                that divides `streams` keeps each block, but for those parted, on one rank, and
 *                the order does not depend on the world.
 *
 * Only the low 32 bits of seed + epoch reach torch's generator: so it is there, so it is here. Of
 * feistel, length and block all bits of both count, and seed and epoch do not alias. */
#ifndef SHUFFLEFS_ORDER_H
#define SHUFFLEFS_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum order_kind {
    ORDER_TORCH,
    ORDER_SEQUENTIAL,
    ORDER_CONTIGUOUS,
    ORDER_WEIGHTED,
    ORDER_RESAMPLED,
    ORDER_BLOCK,
    ORDER_FEISTEL,
    ORDER_LENGTH,
    ORDER_KINDS
};

struct order_spec {
    enum order_kind kind;
    uint64_t seed;          /* below 2^63 */
    uint64_t epoch_samples; /* places of an epoch; 0: as many as the data set has samples */
    uint64_t block;         /* block: bytes of a block */
    uint64_t window;        /* block: blocks of a pool */
    uint64_t streams;       /* block: canonical streams */
    uint64_t bucket;        /* length: samples of a bucket, the global batch */
};

/* What orders know of the samples (core/basis.h makes it). Whoever opens an order with it keeps it
 * as long. */
struct order_basis {
    uint64_t samples;       /* n */
    const uint64_t *blocks; /* block -> its first sample; blocks[block_count] = samples; NULL: not
                               cut. Only for order=block */
    uint64_t block_count;
    const double *cumulative; /* weighted: the weights' running sums (core/weights.h) */
    const uint64_t *lengths;  /* length */
};

/* With replacement, samples beyond which torch's running sum of ones stands still. */
#define ORDER_RESAMPLED_MAX ((uint64_t)1 << 53)

/* The largest data set and the largest epoch: arithmetic on places never overflows below it. */
#define ORDER_SAMPLES_MAX ((uint64_t)1 << 62)
#define ORDER_EPOCH_MAX   (((uint64_t)1 << 63) - 1)

struct order;

/* "torch", "sequential", ... order_kind_from: false when there is no such order. */
const char *order_kind_name(enum order_kind kind);
bool order_kind_from(const char *name, enum order_kind *kind);

/* The version of an order's definition: part of the fingerprint, raised when its output changes. */
unsigned order_version(enum order_kind kind);

/* Every epoch has the same order, whatever the seed. */
bool order_is_fixed(enum order_kind kind);

/* It draws with replacement: an epoch has some samples several times and others not at all. */
bool order_draws(enum order_kind kind);

/* Works out the order of `epoch`. Returns 0, -ENOMEM when the table does not fit, or -EINVAL
 * (samples, places or epoch out of range, or spec or basis lack what the order needs); nothing is
 * reported. Time is O(n), for weighted and length O(n log n): of
 * 1.28 M samples about 10 ms, weighted 75, length 240. sequential, contiguous and feistel take
 * neither time nor memory for it. */
int order_open(struct order **out, const struct order_spec *spec, const struct order_basis *basis,
               uint64_t epoch);
void order_close(struct order *order); /* NULL is fine */

/* Places of an epoch. */
uint64_t order_spec_places(const struct order_spec *spec, uint64_t samples);
uint64_t order_places(const struct order *order);
size_t order_bytes(const struct order *order); /* memory it holds */

/* The sample at `place` < order_places(). Any thread, any number at once. */
uint64_t order_sample(const struct order *order, uint64_t place);

/* The first place at which `sample` stands. Where that is not computed, the first call builds the
 * inverse table (O(n) time, 4 or 8 bytes a sample); any thread. Returns 0, -ENOENT where the sample
 * is not in this epoch, or -ENOMEM. */
int order_place_of(struct order *order, uint64_t sample, uint64_t *place);

#endif
