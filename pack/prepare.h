/* One sample -> its blocks of a tar: headers, bytes, padding. Pictures are made smaller on the way.
 */
#ifndef SHUFFLEFS_PACK_PREPARE_H
#define SHUFFLEFS_PACK_PREPARE_H

#include "counts.h"
#include "options.h"
#include "source.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Members larger than this are not held in memory, unless they are pictures that are worked on:
 * whoever writes the tar copies them from the source. */
#define PACK_STREAM_FROM ((uint64_t)4 << 20)
/* A picture's file that is larger counts as damaged: no camera makes it. */
#define PACK_PICTURE_MOST ((uint64_t)256 << 20)

struct pack_streamed {
    size_t at; /* in the bytes: behind this many come the member's, and its padding */
    const struct pack_member *member;
};

struct pack_prepared {
    uint8_t *bytes;
    size_t size, room;
    struct pack_streamed *streamed;
    size_t streamed_count, streamed_room;
    uint64_t tar_bytes; /* streamed ones included */
    struct pack_counts counts;
    char **damage; /* a line for each damaged picture, owned */
    size_t damage_count;
    bool left_out; /* for a damaged picture: nothing of it is written */
};

/* What a thread needs for it. */
struct pack_preparer;
int pack_preparer_open(struct pack_preparer **out, const struct pack_source *source,
                       const struct pack_options *options); /* 0 or -ENOMEM */
void pack_preparer_close(struct pack_preparer *preparer);   /* NULL is fine */

/* Fills `prepared`, which starts as {0} or was cleared. 0 or a negative errno, reported; -EBADMSG
 * is a damaged picture where that ends all. */
int pack_prepare(struct pack_preparer *preparer, uint64_t sample, struct pack_prepared *prepared);

/* Empties it for the next sample; memory is kept up to a size that many can have at once. */
void pack_prepared_clear(struct pack_prepared *prepared);
void pack_prepared_close(struct pack_prepared *prepared);

/* Bytes of memory that a sample takes while it is prepared, at most about. */
uint64_t pack_prepare_cost(const struct pack_source *source, const struct pack_options *options,
                           uint64_t sample);

#endif
