/* Counts the files in a tar while it is read as a stream: what makes a stream's samples a second
 * comparable to a folder's. Reads headers only, and only where they stand in the buffers it is
 * given; no I/O, no memory.
 *
 * Counts regular members, each once its data was read whole. Counting ends, in silence, at the
 * tar's end, at a header that cannot be trusted, and behind a member whose size stands in a PAX
 * header alone (over 8 GiB, by some writers). */
#ifndef SHUFFLEFS_MEMBERS_H
#define SHUFFLEFS_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMBERS_HEADER 512

/* Zeroed at the start of a stream. */
struct members {
    uint64_t count;
    uint64_t taken;  /* bytes of the stream */
    uint64_t skip;   /* bytes from here to the next header */
    uint64_t member; /* where in the stream the header of the member stands that is skipped */
    size_t padding;  /* bytes of `skip` that are behind the member's data */
    bool regular;    /* that member is still to be counted */
    size_t held;     /* bytes of a header that a buffer's end cut */
    bool ended;
    unsigned char header[MEMBERS_HEADER];
};

/* Takes the next `length` bytes of the stream. */
void members_take(struct members *members, const void *bytes, size_t length);

/* Where a stream ends that was cut, by which then bytes are missing. */
struct members_cut {
    uint64_t offset; /* of the stream's end */
    uint64_t lacks;  /* bytes, at least 1; 0: it was not cut */
    uint64_t member; /* offset of the header that lacks them, or whose member does */
    bool header;     /* they are the header's own */
};

/* At the end of the stream: was it cut, within a member's data or a header? A tar without blocks
 * that mark its end, or without the last member's padding, is whole. */
struct members_cut members_end(const struct members *members);

#endif
