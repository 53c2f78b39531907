/* What the threads share: the epoch, which row is whose, and the batches on their way.
 *
 * A batch is a slot while it is made. Slots are given to batches in the epoch's order; workers take
 * rows in that order too, whichever batch they are in, so all work on the batch that is wanted
 * next. A catalog's samples are read by the workers themselves. A tar's are read by one thread of
 * its own, the feeder, into a ring, and a row can be taken once its sample is there. The worker
 * that writes a batch's last row settles the batch.
 *
 * Nothing of what a row becomes depends on who makes it or when. One lock guards everything that
 * moves between threads; nobody reads, decodes or copies under it. This module starts no thread and
 * delivers nothing: crew.h has the threads that work here, batches.h what the caller does. */
#ifndef SHUFFLELOAD_PIPELINE_H
#define SHUFFLELOAD_PIPELINE_H

#include "backend.h"
#include "catalog.h"
#include "place.h"
#include "ring.h"
#include "settings.h"
#include "slots.h"
#include "tally.h"
#include "tarstream.h"
#include "worker.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct pipeline {
    /* Set before the threads start, and never changed. */
    struct settings settings;
    struct place place;
    const struct backend *backend;
    void *state;
    struct slots slots;
    uint64_t opened_ns;
    uint64_t chunk;  /* rows that a worker takes at once */
    bool asks_ahead; /* the kernel is told of files to come when reads wait */

    /* The epoch: changed under the lock, and only while no worker is busy and the feeder is calm;
     * so those read it without the lock. */
    uint64_t epoch;
    struct place_epoch at;
    struct catalog *catalog;  /* or stream */
    struct tarstream *stream; /* the feeder's while `feeding` */

    pthread_mutex_t lock; /* guards all from here on */
    pthread_cond_t work;  /* there may be rows to take, or the end */
    pthread_cond_t ready; /* there may be a batch to deliver, or the end */
    pthread_cond_t room;  /* there may be room for the feeder and the one who asks ahead */
    pthread_cond_t calm;  /* nobody may be busy any more */
    bool quit;
    bool running; /* rows may be taken and fed */
    bool cancelled;
    bool feeding;       /* the feeder is reading */
    unsigned busy;      /* workers with rows */
    uint64_t total;     /* rows of the epoch; UINT64_MAX: not known yet */
    uint64_t assigned;  /* batches [0, assigned) have or had a slot */
    uint64_t delivered; /* batches [0, delivered) were handed out */
    uint64_t taken;     /* rows [0, taken) are a worker's or done */
    uint64_t fed;       /* rows [0, fed) of a stream are in the ring, or done */
    uint64_t passed;    /* samples of a stream passed over so far, of at.skip */
    uint64_t rows_delivered;
    uint64_t held;     /* batches the caller has */
    uint32_t *slot_of; /* of batch b, delivered <= b < assigned, at b % slots */
    struct ring ring;
    struct fed_row *rows; /* of a stream: row r at r % (slots * batch_size) */
    int source_error;     /* what ended the stream at `total`; 0: its end */
    struct fault source_fault;
    int error;          /* what sl_next() gives until the next epoch */
    struct fault fault; /* the last error's text; at first, why a GPU is not used */
    /* Pieces out of the ring at which the feeder, which waits for room, is to be woken: at each row
     * it would only fetch the next one. UINT64_MAX: it does not wait. */
    uint64_t wake_feeder_at;
    bool asker_waits;
    uint64_t ahead;       /* the kernel was asked for rows [0, ahead) */
    uint64_t ahead_until; /* and should be for [0, ahead_until) */

    struct tally tally;
    uint64_t batches_out, rows_out;
    uint64_t stream_read_ns, stream_wait_ns, consumer_wait_ns;
    uint64_t feed_waited_ns; /* for room, within the sample being fed */
    char last_bad[512], last_fallback[512];

    /* Where the device decodes: who decodes on the host what it leaves, whoever settles a batch. */
    pthread_mutex_t spare_lock; /* guards it; never taken under the other one */
    struct worker spare;
};

/* A row's sample from the feeder to a worker. */
struct fed_row {
    struct sample sample;
    bool has_piece;
    uint64_t piece; /* of the ring */
};

/* Settings, place and memory, without an epoch. On an error nothing is left to be closed. */
int pipeline_open(struct pipeline *pipeline, const struct sl_config *config, struct fault *fault);
/* Once no thread is left: closes files, and gives back what batches are not in. */
void pipeline_close_source(struct pipeline *pipeline);
/* The rest, too. */
void pipeline_close(struct pipeline *pipeline);

/* All that follow: under the lock. */

/* Rows that will be delivered: without the last batch where that is dropped. */
uint64_t pipeline_rows_wanted(const struct pipeline *pipeline);

/* Gives free slots to the next batches. */
void pipeline_assign(struct pipeline *pipeline);
/* A held slot that nobody has any more: free for the next batch. */
void pipeline_take_back(struct pipeline *pipeline, struct slot *slot);

/* The stream has ended, by an error or not: the number of rows is known from here on. */
void pipeline_end_stream(struct pipeline *pipeline, int error);

/* No row is taken or fed any more; a read that waits in the stream ends; who waits looks again. */
void pipeline_halt(struct pipeline *pipeline);
/* After that: until no thread is at work. */
void pipeline_wait_calm(struct pipeline *pipeline);

/* While all is calm: drops what was made of the epoch, but for batches that the caller holds. */
void pipeline_forget_epoch(struct pipeline *pipeline);

#endif
