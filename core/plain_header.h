/* The header of a tar's plainest members, for walks that would spend their time elsewhere on
 * millions of them: ustar's or GNU's own form, a file or folder, all that counts said in this one
 * block and in one way only. Whatever is written otherwise is libarchive's to read (core/walk.c);
 * and what is taken here is what libarchive makes of it: tests/fuzz/fuzz_walk.c compares.
 *
 * Sources: POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar's src/tar.h; libarchive 3.6's
 * archive_read_support_format_tar.c. Private to core/. */
#ifndef SHUFFLEFS_PLAIN_HEADER_H
#define SHUFFLEFS_PLAIN_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#define PLAIN_NAME_MOST 256

struct plain_header {
    char name[PLAIN_NAME_MOST + 1]; /* as stored, ustar's prefix before it; ASCII */
    uint64_t size;                  /* of the data behind it; below 2^33 */
    bool folder;                    /* no file, and of no size */
};

/* Whether the INDEX_HEADER_BYTES at `block` are such a header; then what it says is in `header`,
 * else that may hold anything. */
bool plain_header_read(struct plain_header *header, const char *block);

#endif
