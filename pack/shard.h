/* One shard while it is written: a temporary file `.NAME.part` beside its place, and its rename.
 * One thread. */
#ifndef SHUFFLEFS_PACK_SHARD_H
#define SHUFFLEFS_PACK_SHARD_H

#include "pattern.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct pack_shard {
    const char *folder; /* for messages */
    int folder_fd;
    int fd; /* -1: none is being written */
    uint64_t number;
    char name[PACK_NAME_MAX], part[PACK_NAME_MAX + 8];
    uint64_t bytes, started; /* written; of these, on their way to storage */
};

/* What tells a finished file from every other. */
struct pack_identity {
    uint64_t bytes, inode;
    int64_t seconds;
    int32_t nanoseconds;
};

/* The temporary file's name of a shard; `part` has PACK_NAME_MAX + 8 bytes. */
void pack_shard_part(const char *name, char *part);

/* Each returns 0 or a negative errno, reported with file and offset; the file is then to be
 * abandoned. */
int pack_shard_begin(struct pack_shard *shard, const char *folder, int folder_fd,
                     const struct pack_pattern *pattern, uint64_t number);
int pack_shard_write(struct pack_shard *shard, const void *bytes, size_t size);

/* Writes the trailer and sees all of it to storage. */
int pack_shard_seal(struct pack_shard *shard, struct pack_identity *identity);
/* Gives it its name, and sees that to storage too. It is then no longer written. A file of that
 * name is replaced only with `force` (-EEXIST). */
int pack_shard_rename(struct pack_shard *shard, bool force);

/* The rename by itself: 0, or -1 with errno. */
int pack_shard_give_name(int folder_fd, const char *part, const char *name, bool force);

/* Removes the temporary file, if one is being written. */
void pack_shard_abandon(struct pack_shard *shard);

#endif
