/* Makes shards for the unit tests: a folder of its own for each test, tars by libarchive's writer,
 * damage by hand. */
#ifndef SHUFFLEFS_UNIT_SHARD_H
#define SHUFFLEFS_UNIT_SHARD_H

#include "../../core/shards.h"

#include <stddef.h>

/* A new empty folder; the list of shards in it starts empty. */
struct shard_folder {
    char path[64];
    struct shard_list shards;
};

void folder_make(struct shard_folder *folder);
void folder_remove(struct shard_folder *folder);

/* Writes NAME in the folder and lists it. `members` is NAME=CONTENT pairs ended by NULL: "a.jpg",
 * "bytes", ... A name that ends in '/' is a folder; content "->TARGET" a symbolic link, "=>TARGET"
 * a hard link, "|" a fifo, "~" a sparse file. `format` is libarchive's name, or "gzip" for a
 * compressed ustar. */
void folder_add_tar(struct shard_folder *folder, const char *name, const char *format,
                    const char *const *members);

/* Writes bytes as they are. */
void folder_add_bytes(struct shard_folder *folder, const char *name, const void *bytes,
                      size_t size);

/* Adds a plain member to a tar that is being written. */
struct archive;
void shard_put(struct archive *archive, const char *name, const void *bytes, size_t size);

/* The bytes of a file in the folder, allocated. */
char *folder_read(const struct shard_folder *folder, const char *name, size_t *size);

/* What was reported since the last call with `text` NULL, which starts the watch; the last line
 * that holds `text`, or NULL. report_stop() ends it. */
const char *report_watch(const char *text);
void report_stop(void);

#endif
