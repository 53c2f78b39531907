/* Follows readers of streams (rank-R.tar) and says which pieces of them to push. Pure but for the
 * memory it owns: no thread, no lock, no FUSE; the caller serialises all calls.
 *
 * A stream is read in order, in READs of up to 1 MiB. A reader that starts at the start, or that
 * has read most of the last 2 MiB that it came, is trusted to go on: chunks of CHUNK_BYTES are
 * pushed ahead of it, as far as it has come (three times as far from the start), up to a bound. Of
 * what was pushed nothing more is seen; so the first page of every CHUNKS_A_MARK-th chunk, its
 * mark, is not pushed but kept here: the kernel asks for it when the reader comes by, and is
 * answered from memory. Reads here and there in a stream get nothing pushed; several of them, near
 * no reader, and those that are known must show anew that they go in order. */
#ifndef SHUFFLEFS_CHUNKS_H
#define SHUFFLEFS_CHUNKS_H

#include "view.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHUNK_BYTES      ((uint64_t)128 << 10)
#define CHUNKS_A_MARK    32
#define CHUNK_MARK_BYTES 4096

struct chunks;

/* At most `reader_bytes` are ahead of one reader, and `total_bytes` of all. */
int chunks_open(struct chunks **out, uint64_t reader_bytes, uint64_t total_bytes);
/* Every stream that is still followed is let go: see chunks_next_gone(). NULL is fine. */
void chunks_close(struct chunks *chunks);

/* A READ of a prepared stream, at a time in nanoseconds. True when a reader is followed that was
 * not before: the caller then sees to it that the node stays (view_hold) until chunks_next_gone()
 * gives it back. */
bool chunks_read(struct chunks *chunks, struct view_node *stream, uint64_t from, size_t size,
                 uint64_t now);

/* The reader's own READ gets these bytes, which have not been claimed: the pushes go on after them.
 */
void chunks_claim(struct chunks *chunks, const struct view_node *stream, uint64_t from,
                  size_t size);

/* Copies a mark's bytes, if they are kept: `size` bytes from byte `from` on. */
bool chunks_take_mark(struct chunks *chunks, const struct view_node *stream, uint64_t from,
                      size_t size, char *buffer);

/* One chunk to push: bytes [from, from + size) of the stream, but for the mark at its start. */
struct chunk {
    struct view_node *stream;
    uint64_t serial; /* of the reader it is for */
    uint64_t from;
    size_t size;
    bool marked; /* its first CHUNK_MARK_BYTES are a mark */
};

/* The next one; false: none now. `elsewhere`: bytes ahead of other readers. While it is being
 * pushed its stream is not given back. */
bool chunks_next(struct chunks *chunks, uint64_t elsewhere, struct chunk *chunk);
/* As follow_is_short() and follow_give_back(). */
bool chunks_is_short(const struct chunks *chunks);
bool chunks_give_back(struct chunks *chunks);
/* Times that a reader was not followed, for want of a place. */
uint64_t chunks_crowded(const struct chunks *chunks);
/* Whether there may be one. */
bool chunks_has_next(const struct chunks *chunks);
/* It was pushed, or not; `mark`: CHUNK_MARK_BYTES that are copied, or NULL. `gone`: the kernel does
 * not have the stream any more; nothing more is pushed for it. */
void chunks_done(struct chunks *chunks, const struct chunk *chunk, const char *mark, bool gone);

/* The stream is no more, or shows another epoch. */
void chunks_left(struct chunks *chunks, uint64_t inode);

/* The inode of a stream that is no longer followed, to be let go (view_forget); false: none. */
bool chunks_next_gone(struct chunks *chunks, uint64_t *inode);

/* Bytes claimed and not yet passed, to within a mark's distance. */
uint64_t chunks_bytes_ahead(const struct chunks *chunks);
/* The same of readers alone that pieces are pushed for: others have in it what they read
 * themselves. */
uint64_t chunks_bytes_pushed(const struct chunks *chunks);

#endif
