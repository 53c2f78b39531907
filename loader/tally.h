/* What is counted and timed: one table of members, so that adding is a loop and none is forgotten.
 * Workers count for themselves and add up under the pipeline's lock. Times in nanoseconds. */
#ifndef SHUFFLELOAD_TALLY_H
#define SHUFFLELOAD_TALLY_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct tally {
    uint64_t decoded, bytes, bad, replaced, skipped, damaged, cut, unlabelled;
    uint64_t device_decoded, fallbacks, fallbacks_kind, fallbacks_large, fallbacks_refused;
    uint64_t workers_ns;
    uint64_t wait_storage_ns, read_ns, decode_ns, resize_ns, normalise_ns;
    uint64_t wait_consumer_ns, idle_ns;
};

/* Adds `from` to `to` and clears it. */
void tally_move(struct tally *to, struct tally *from);

uint64_t tally_now(void);        /* the monotonic clock */
uint64_t tally_thread_now(void); /* CPU time of this thread */

/* How often this thread has let go of its core to wait for something. A core that another thread
 * took from it does not count, nor does the wait to get one back. */
uint64_t tally_thread_blocks(void);

#endif
