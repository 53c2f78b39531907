/* A place's batches, epoch by epoch: what the functions of the same names in shuffleload.h do. Owns
 * the pipeline and the crew that works on it. Threads: as there. */
#ifndef SHUFFLELOAD_BATCHES_H
#define SHUFFLELOAD_BATCHES_H

#include "crew.h"
#include "pipeline.h"

#include <stdint.h>

struct batches {
    struct pipeline pipeline;
    struct crew *crew;
    pthread_mutex_t seeking; /* one batches_seek() at a time; taken before the pipeline's lock */
};

/* On an error nothing is left to be closed, and the fault has its text. */
int batches_open(struct batches *batches, const struct sl_config *config, struct fault *fault);

/* Ends the threads and closes files; batches that were handed out stay as they are. */
void batches_stop(struct batches *batches);
/* After that: the memory. */
void batches_free(struct batches *batches);

int batches_seek(struct batches *batches, uint64_t epoch, uint64_t after);
int batches_next(struct batches *batches, struct sl_batch **out, int milliseconds);
/* Behind what is on the stream, or (`all`) on each stream that waited for the batch. */
int batches_release(struct batches *batches, const struct sl_batch *batch, bool all, void *stream);
void batches_cancel(struct batches *batches);

#endif
