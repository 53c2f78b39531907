/* A histogram of times. */
#include "latency.h"

/* 1 us, in the unit of the buckets: a bucket's lower border is 2^(b/4) us, straight between powers
 * of two. */
static unsigned bucket_of(uint64_t ns)
{
    uint64_t quarters = ns / 250; /* of a microsecond */
    unsigned octave, bucket;

    if (quarters < 4)
        return 0;
    octave = 61 - (unsigned)__builtin_clzll(quarters);
    bucket = octave * 4 + (unsigned)(quarters >> octave & 3) + 1;
    return bucket < LATENCY_BUCKETS ? bucket : LATENCY_BUCKETS - 1;
}

double latency_below_us(unsigned bucket)
{
    return (double)((uint64_t)1 << bucket / 4) * (1 + bucket % 4 / 4.0);
}

void latency_add(struct latency *latency, uint64_t ns)
{
    unsigned long long most = atomic_load_explicit(&latency->most_ns, memory_order_relaxed);

    /* First, so that no percentile is above it. */
    while (ns > most && !atomic_compare_exchange_weak(&latency->most_ns, &most, ns))
        ;
    atomic_fetch_add_explicit(&latency->counts[bucket_of(ns)], 1, memory_order_relaxed);
}

double latency_percentile_us(const struct latency *latency, double share)
{
    uint64_t total = 0, seen = 0;
    double most;

    for (unsigned i = 0; i < LATENCY_BUCKETS; i++)
        total += atomic_load_explicit(&latency->counts[i], memory_order_relaxed);
    most = (double)atomic_load(&latency->most_ns) / 1e3;
    for (unsigned i = 0; i < LATENCY_BUCKETS && total; i++) {
        seen += atomic_load_explicit(&latency->counts[i], memory_order_relaxed);
        if ((double)seen >= share * (double)total)
            return latency_below_us(i) < most ? latency_below_us(i) : most;
    }
    return 0;
}
