/* Threads that prepare samples ahead of the one that writes them, in the order of the plan.
 *
 * At most PACK_AHEAD samples for each thread, and about PACK_MEMORY bytes of all and
 * PACK_MEMORY_EACH more for each thread, are ready or in work; a sample that is larger than that is
 * prepared while no other is. */
#ifndef SHUFFLEFS_PACK_WORK_H
#define SHUFFLEFS_PACK_WORK_H

#include "plan.h"
#include "prepare.h"

#define PACK_AHEAD       64
#define PACK_MEMORY      ((uint64_t)64 << 20)
#define PACK_MEMORY_EACH ((uint64_t)16 << 20)

struct pack_work;

/* Starts options->threads threads, which prepare the samples from position `from` to the last. All
 * arguments outlive the work. Signals are blocked in the threads. 0 or a negative errno,
 * reported. */
int pack_work_open(struct pack_work **out, const struct pack_source *source,
                   const struct pack_plan *plan, const struct pack_options *options, uint64_t from);

/* Ends the threads: waits for the samples in work. NULL is fine. */
void pack_work_close(struct pack_work *work);

/* The next sample of the order, the writer's until it is given back; waits for it. 0; -ECANCELED
 * after pack_work_stop(); or the negative errno of the fault that a thread met and reported. One
 * caller, one sample at a time. */
int pack_work_take(struct pack_work *work, struct pack_prepared **prepared);
void pack_work_give_back(struct pack_work *work);

/* Any thread, any number of times. */
void pack_work_stop(struct pack_work *work);

#endif
