/* Durations by their highest eight bits. Owns no memory. */
#include "histogram.h"

#include <math.h>

enum { SUB_BITS = 7, SUB_BUCKETS = 1 << SUB_BITS };

/* A value keeps its highest SUB_BITS + 1 bits; `shift` is how many it loses. As the highest bit is
 * always set, the buckets of one shift follow those of the shift before without a gap. */
static unsigned bucket_of(uint64_t ns)
{
    const uint64_t last = (UINT64_C(1) << HISTOGRAM_BITS) - 1;
    unsigned shift;

    if (ns < SUB_BUCKETS)
        return (unsigned)ns;
    if (ns > last)
        ns = last;
    shift = 63 - SUB_BITS - (unsigned)__builtin_clzll(ns);
    return shift * SUB_BUCKETS + (unsigned)(ns >> shift);
}

static uint64_t highest_of(unsigned bucket)
{
    unsigned shift = bucket < 2 * SUB_BUCKETS ? 0 : bucket / SUB_BUCKETS - 1;

    return ((uint64_t)(bucket - shift * SUB_BUCKETS + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t ns)
{
    histogram->buckets[bucket_of(ns)]++;
    histogram->count++;
    if (ns > histogram->most)
        histogram->most = ns;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    into->count += from->count;
    if (from->most > into->most)
        into->most = from->most;
}

uint64_t histogram_quantile(const struct histogram *histogram, double quantile)
{
    uint64_t wanted = (uint64_t)ceil(quantile * (double)histogram->count), seen = 0;

    if (wanted < 1)
        wanted = 1;
    /* What was clamped into the last bucket is longer than its bounds say. */
    for (unsigned i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
        seen += histogram->buckets[i];
        if (seen >= wanted)
            return highest_of(i) < histogram->most ? highest_of(i) : histogram->most;
    }
    return histogram->most;
}
