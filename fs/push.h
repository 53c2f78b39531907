/* Reads from the shards and puts what was read into the kernel's page cache, before it is asked
 * for: samples' files, and pieces of streams. Holds no lock; from the read-ahead's own threads
 * alone, never from a handler, since a store waits for locks that the kernel holds while it waits
 * for an answer of ours. */
#ifndef SHUFFLEFS_PUSH_H
#define SHUFFLEFS_PUSH_H

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

/* Most samples fit into a small room. All of these together lie in few huge pages, where the kernel
 * gives them: then storage fills one piece of memory for a sample, not one for each page. */
#define PUSH_SMALL_BYTES ((size_t)192 << 10)

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

/* A thread's memory, and its slot of the flights. */
struct push_room {
    unsigned slot;
    char *small; /* PUSH_SMALL_BYTES, aligned for the reader. Lent while there is work */
    char *read;  /* PUSH_STORE_BYTES + READER_SLACK, aligned for the reader */
    char *chunk; /* CHUNK_BYTES. Lent likewise */
};
/* Memory for `many` rooms of `each` bytes; NULL: there is none. free() it. */
char *push_rooms(size_t many, size_t each);
bool push_room_open(struct push_room *room);
void push_room_close(struct push_room *room);

/* Both are in the air when they are called (fs/flights.h), and not afterwards.
 *
 * A read that fails, or an inode that the kernel does not have, is no fault: nothing is pushed. */
void push_sample(struct push *push, const struct follow_push *what, struct push_room *room);

/* Drops the pages of a sample's files, to see whether somebody reads them; their bytes are kept for
 * that (flights_keep), so that nobody waits for storage who had them in the page cache. */
void push_probe(struct push *push, uint64_t sample, struct push_room *room);

/* Leaves the mark in room->chunk; returns whether the kernel has the stream. *read: whether the
 * bytes are there. */
bool push_chunk(struct push *push, const struct chunk *chunk, struct push_room *room, bool *read);

#endif
