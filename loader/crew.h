/* The threads of a pipeline: workers that make rows, the feeder that reads a stream ahead of them,
 * and the asker that tells the kernel which files come next where storage is slow. They take and
 * finish work under the pipeline's lock, and know nothing of who wants the batches. */
#ifndef SHUFFLELOAD_CREW_H
#define SHUFFLELOAD_CREW_H

#include "fault.h"
#include "pipeline.h"

struct crew;

/* Starts the threads, all signals blocked in them; they wait until the pipeline runs. 0, or a
 * negative errno with its text, and no thread is left. */
int crew_start(struct crew **out, struct pipeline *pipeline, struct fault *fault);

/* Ends and joins them, after the reads under way. NULL is fine. */
void crew_stop(struct crew *crew);

#endif
