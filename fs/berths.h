/* What samples and pieces of streams are read into on their way to the page cache: berths, which
 * are lent while one is under way, and with which what is asked of storage at once. What was given
 * back last is lent first, as it is still in the processor's cache. Owns the memory; no lock, the
 * caller serialises all calls. */
#ifndef SHUFFLEFS_BERTHS_H
#define SHUFFLEFS_BERTHS_H

#include <stddef.h>

struct batch;

/* Most samples fit into a small room. All of these together lie in few huge pages, where the kernel
 * gives them: then storage fills one piece of memory for a sample, not one for each page. */
#define BERTH_SMALL_BYTES ((size_t)192 << 10)

struct berth {
    unsigned slot; /* its number, from 0 on */
    char *small;   /* BERTH_SMALL_BYTES, at the start of a page */
    char *chunk;   /* of the size that berths_open() was told, likewise */
};

struct berths;

/* `count` berths and batches. Memory is taken up as it is used. 0 or -ENOMEM. */
int berths_open(struct berths **out, unsigned count, size_t chunk_bytes);
void berths_close(struct berths *berths); /* NULL is fine; none may be lent */

/* A berth; there must be one: of `count`, less than all are lent. */
struct berth *berths_take(struct berths *berths);
void berths_give(struct berths *berths, struct berth *berth);
unsigned berths_taken(const struct berths *berths);

/* A batch (core/batch.h). NULL: all are lent. */
struct batch *berths_take_batch(struct berths *berths);
void berths_give_batch(struct berths *berths, struct batch *batch); /* NULL is fine */

#endif
