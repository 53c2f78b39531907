/* What a mount counts: written by handlers, read by the status. Relaxed: each number by itself is
 * right. */
#ifndef SHUFFLEFS_COUNTERS_H
#define SHUFFLEFS_COUNTERS_H

#include "latency.h"

#include <stdatomic.h>

struct counters {
    atomic_ullong reads; /* READ requests for samples: what the page cache did not answer */
    atomic_ullong bytes; /* that they gave */
    atomic_ullong refused_writes; /* writes and stores to samples, answered EROFS */
    atomic_ullong
        undone_stores; /* of these, stores through a shared mapping, whose pages were dropped */
    atomic_ullong switches; /* of `current` */
    struct latency latency; /* of READs, until their answer */
};

#endif
