/* Reads from the shards and puts what was read into the kernel's page cache, before it is asked
 * for: samples' files, and pieces of streams. Holds no lock; from the read-ahead's own threads
 * alone, never from a handler, since a store waits for locks that the kernel holds while it waits
 * for an answer of ours. */
#ifndef SHUFFLEFS_PUSH_H
#define SHUFFLEFS_PUSH_H

#include "berths.h"
#include "chunks.h"
#include "flights.h"
#include "follow.h"
#include "names.h"

#include "../core/reader.h"

#include <stdatomic.h>
#include <stdbool.h>

/* One store. A larger file is pushed in such pieces, up to the second number; the kernel's own
 * read-ahead does the rest. */
#define PUSH_STORE_BYTES ((size_t)1 << 20)
#define PUSH_FILE_BYTES  ((uint64_t)64 << 20)

/* What is pushed from, and where to; what was pushed. */
struct push {
    struct fuse_session *session;
    struct view *view;
    struct reader *reader;
    struct names *names;
    struct flights *flights;
    atomic_bool stopping; /* nothing more is read or stored from here on */
    atomic_ullong files, bytes;
};

/* A thread's own memory. */
struct push_room {
    char *read; /* PUSH_STORE_BYTES + READER_SLACK, aligned for the reader */
};
bool push_room_open(struct push_room *room);
void push_room_close(struct push_room *room);

/* All are in the air when they are called (fs/flights.h), and not afterwards. `batch` as of
 * reader_read_pieces().
 *
 * A read that fails, or an inode that the kernel does not have, is no fault: nothing is pushed. */
#define PUSH_AT_ONCE 4
void push_samples(struct push *push, const struct follow_push *what, struct berth *const *berths,
                  size_t count, struct push_room *room, struct batch *batch);

/* Drops the pages of a sample's files, to see whether somebody reads them; their bytes are kept for
 * that (flights_keep), so that nobody waits for storage who had them in the page cache. */
void push_probe(struct push *push, uint64_t sample, struct push_room *room);

/* Leaves the mark in berth->chunk; returns whether the kernel has the stream. *read: whether the
 * bytes are there. */
bool push_chunk(struct push *push, const struct chunk *chunk, const struct berth *berth,
                struct batch *batch, bool *read);

#endif
