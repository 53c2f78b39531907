/* A shard's file while it is walked: a cursor over it that libarchive reads through, and what
 * libarchive does not tell. Private to core/. One thread a file. */
#ifndef SHUFFLEFS_SHARD_FILE_H
#define SHUFFLEFS_SHARD_FILE_H

#include "record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* libarchive's default of 10 KiB made the walk five times slower on photographs; larger ones gain
 * nothing. */
#define SHARD_FILE_BUFFER (64 * 1024)

struct archive;

/* Where the last read ended is shard_file.c's own business; `size` and `fault` are for the caller.
 */
struct shard_file {
    int fd;
    int fault; /* errno of a read that failed, 0: none */
    uint64_t size, offset;
    uint64_t filled; /* bytes of the buffer that stand right before `offset` in the file */
    char buffer[SHARD_FILE_BUFFER];
};

/* Opens `shard->path` and notes its size, time and inode there. Returns 0 or a negative errno,
 * reported by the caller. `*out` is freed by shard_file_close(), NULL accepted. */
int shard_file_open(struct shard_file **out, struct index_shard *shard);
void shard_file_close(struct shard_file *file);

/* libarchive's view of a tar that starts at byte `from`: it counts from there. Freed by
 * archive_read_free(), and good until the next one is made. Returns 0 or a negative errno. */
int shard_file_archive(struct shard_file *file, uint64_t from, struct archive **archive);

/* The block before byte `offset`, which is where a member's data starts: its header. Returns 1 and
 * index_header_check() of it; 0 when the size in it is no number; or a negative errno. */
int shard_file_header(struct shard_file *file, uint64_t offset, uint16_t *check);

/* Whether all bytes from `from` on are zero. */
bool shard_file_only_zeros(struct shard_file *file, uint64_t from);

/* The compression of what is no tar as it stands, by libarchive's own filters; NULL: none it knows.
 */
const char *shard_file_compression(struct shard_file *file, char *name, size_t room);

#endif
