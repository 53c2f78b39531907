/* The header of a tar's plainest members, for walks that would spend their time elsewhere on
 * millions of them: ustar's or GNU's own form, a file or folder, all that counts said in this one
 * block and in one way only. A PAX header may stand before it that tells of nothing but times, as
 * WebDataset's writer, Python's tarfile and GNU tar leave one before every member. Whatever is
 * written otherwise is libarchive's to read (core/walk.c); and what is taken here is what
 * libarchive makes of it: tests/fuzz/fuzz_walk.c compares.
 *
 * Sources: POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar's src/tar.h; libarchive 3.6's
 * archive_read_support_format_tar.c. Private to core/. */
#ifndef SHUFFLEFS_PLAIN_HEADER_H
#define SHUFFLEFS_PLAIN_HEADER_H

#include <stdbool.h>
#include <stddef.h>
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

/* Whether the INDEX_HEADER_BYTES at `block` are the header of PAX records for the member behind
 * them, which all stand in the one block that follows; then `size` is how many bytes these take. */
bool plain_header_is_pax(const char *block, size_t *size);

/* Whether `size` bytes of PAX records are well-formed and say when, and nothing else. */
bool plain_header_only_times(const char *records, size_t size);

#endif
