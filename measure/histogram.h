/* A histogram of durations in constant memory: 128 buckets for each power of two, so a quantile is
 * never too low and at most 1/128 too high. Below 256 ns each nanosecond has a bucket of its own.
 *
 * A zeroed histogram is an empty one. No function allocates, fails or locks: each reader fills its
 * own, and they are merged afterwards. */
#ifndef SHUFFLEFS_HISTOGRAM_H
#define SHUFFLEFS_HISTOGRAM_H

#include <stdint.h>

/* Longer durations (18 minutes) are counted in the last bucket; `most` stays exact. */
#define HISTOGRAM_BITS    40
#define HISTOGRAM_BUCKETS ((HISTOGRAM_BITS - 7 + 1) * 128)

struct histogram {
    uint64_t buckets[HISTOGRAM_BUCKETS];
    uint64_t count;
    uint64_t most; /* ns */
};

void histogram_add(struct histogram *histogram, uint64_t ns);

/* Adds all that `from` counted. */
void histogram_merge(struct histogram *into, const struct histogram *from);

/* The duration (ns) that a share `quantile` (0 to 1) of all is not above; 0 when there are none. */
uint64_t histogram_quantile(const struct histogram *histogram, double quantile);

#endif
