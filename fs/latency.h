/* How long READs take: a histogram of fixed size, four buckets for each doubling. Any thread. */
#ifndef SHUFFLEFS_LATENCY_H
#define SHUFFLEFS_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

/* From 1 us to 2^28 us, which is 268 s. */
#define LATENCY_BUCKETS 113

struct latency {
    atomic_ullong counts[LATENCY_BUCKETS];
    atomic_ullong most_ns;
};

void latency_add(struct latency *latency, uint64_t ns);
/* What a bucket's values are below, in microseconds. */
double latency_below_us(unsigned bucket);
/* What `share` (0 to 1) of the values are not above, in microseconds, to within a quarter and never
 * more than the greatest one; 0: there is none. */
double latency_percentile_us(const struct latency *latency, double share);

#endif
