/* One pass: readers read what sources hold, and say how long it took them.
 *
 * A file is opened by its full path, as a loader does, asked for its size, read to that size into
 * the reader's one buffer in reads of 1 MiB at most, and closed. A stream is read to its end in
 * such reads. The clock is read once a file (twice with think time).
 *
 * Readers are threads, or processes. A reader that stands alone is the calling thread itself: a
 * process with one thread opens and reads files more cheaply, and that is what it is compared with.
 * Nothing here is printed: what failed is in the tallies. */
#ifndef SHUFFLEFS_READING_H
#define SHUFFLEFS_READING_H

#include "histogram.h"
#include "members.h"
#include "source.h"
#include "split.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READING_BYTES     (1 << 20)
#define READING_PARTS_MAX 16
/* The start of a pass that `later` leaves out, ns: a consumer waits for the very first sample
 * whatever reads ahead of it. */
#define READING_START_NS INT64_C(100000000)

struct reading_request {
    struct split split;    /* of each source's samples over its readers */
    unsigned readers;      /* for each source */
    uint64_t samples_most; /* of each source: its first ones, before they are dealt */
    int64_t ns_most;       /* each reader ends with the sample in which this is reached */
    int64_t work_ns;       /* what the consumer does with each sample before it wants the next */
    bool busy;             /* by computing; else it sleeps */
    unsigned parts;        /* 1 to READING_PARTS_MAX runs of each reader's share */
    bool processes;
};

struct reading_part {
    uint64_t samples;
    int64_t ns;
};

/* What one reader found. Times are CLOCK_MONOTONIC, ns. */
struct reading_tally {
    uint64_t samples, bytes; /* read whole; a stream's samples are the files in the tar */
    uint64_t errors;
    const char *failed;     /* the first that failed, in the source's `text`; NULL: none */
    int failure;            /* its errno; EBADMSG: a tar that was cut */
    struct members_cut cut; /* where, and what it lacks */
    int64_t start, end;
    int64_t waited_ns;       /* for data */
    int64_t later_waited_ns; /* the same, from READING_START_NS after `start` on */
    struct reading_part parts[READING_PARTS_MAX];
    struct histogram latency; /* open to close of each file; each read of a stream */
};

struct reading;

/* Room for as many readers as the largest pass has, over all its sources. 0 or -ENOMEM. */
int reading_open(struct reading **reading, size_t readers_most);

/* Reads all `sources` at the same time, each by its own readers; returns when the last has ended.
 * 0, or a negative errno when a reader could not be started or was killed. Tallies stay until the
 * next pass. */
int reading_run(struct reading *reading, const struct source *const *sources, size_t count,
                const struct reading_request *request);

/* Of reader `reader` of the pass's source `source`. */
const struct reading_tally *reading_tally(const struct reading *reading, size_t source,
                                          unsigned reader);

void reading_close(struct reading *reading);

#endif
