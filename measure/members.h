/* Counts the files in a tar while it is read as a stream: what makes a stream's samples a second
 * comparable to a folder's. Reads headers only, and only where they stand in the buffers it is
 * given; no I/O, no memory.
 *
 * Counts regular members. Counting ends, in silence, at the tar's end, at a header that cannot be
 * trusted, and behind a member whose size stands in a PAX header alone (over 8 GiB, by some
 * writers). */
#ifndef SHUFFLEFS_MEMBERS_H
#define SHUFFLEFS_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMBERS_HEADER 512

/* Zeroed at the start of a stream. */
struct members {
    uint64_t count;
    uint64_t skip; /* bytes from here to the next header */
    size_t held;   /* bytes of a header that a buffer's end cut */
    bool ended;
    unsigned char header[MEMBERS_HEADER];
};

/* Takes the next `length` bytes of the stream. */
void members_take(struct members *members, const void *bytes, size_t length);

#endif
