/* A compressed shard's bytes, one after the other. Private to core/.
 *
 * gzip is read by zlib, which compares its checksums (libarchive 3.6 does not); all else by
 * libarchive's filters: zstd, xz, lzma, lzip, lz4, bzip2, compress, also one in the other. Streams
 * one behind the other in a file are one. No state: any thread. */
#ifndef SHUFFLEFS_EXPAND_H
#define SHUFFLEFS_EXPAND_H

#include "shard_file.h"

#include <stddef.h>
#include <stdint.h>

enum expand_fault_kind {
    EXPAND_SOUND,
    /* The file ends too early: what came before that is right. */
    EXPAND_TRUNCATED,
    /* The stream contradicts itself. Most kinds have their checksum at the end, so nothing of it
     * can be trusted but whole gzip members before the fault. */
    EXPAND_CORRUPT,
    /* Something else stands behind the stream, which is whole. */
    EXPAND_TRAILING,
};

struct expand_fault {
    enum expand_fault_kind kind;
    uint64_t offset; /* in the compressed file */
    uint64_t sound;  /* unpacked bytes that can be trusted */
    char text[160];
};

/* Gives all bytes to `sink`, in pieces; an answer other than 0 of it (a negative errno) ends it.
 * Returns 0 with `fault` filled; that answer; or a negative errno: -EIO and the like, the file
 * cannot be read (`file->fault` is set), -ENOMEM. Nothing is reported. */
int expand(struct shard_file *file, int (*sink)(void *context, const void *bytes, size_t size),
           void *context, struct expand_fault *fault);

#endif
