/* A shard's file while it is walked: a cursor over it that libarchive reads through, and what
 * libarchive does not tell. Private to core/. One thread a file. */
#ifndef SHUFFLEFS_SHARD_FILE_H
#define SHUFFLEFS_SHARD_FILE_H

#include "record.h"
#include "shard_read.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is read at once of small members; larger ones gain nothing. */
#define SHARD_FILE_BUFFER (64 * 1024)

struct archive;

struct shard_file {
    struct shard_read read;
    int fault;       /* errno of a read that failed, EIO of one that ended early; 0: none */
    uint64_t offset; /* of what libarchive is given next */
    uint64_t start;  /* of what the buffer holds */
    size_t filled;   /* bytes of it */
    char buffer[SHARD_FILE_BUFFER];
};

/* Opens the shard's file (index_shard_file()) and notes its size, time and inode there. Returns 0
 * or a negative errno, reported by the caller. `*out` is freed by shard_file_close(), NULL
 * accepted. */
int shard_file_open(struct shard_file **out, struct index_shard *shard);
void shard_file_close(struct shard_file *file);

/* libarchive's view of a tar that starts at byte `from`: it counts from there. Freed by
 * archive_read_free(), and good until the next one is made. Returns 0 or a negative errno. */
int shard_file_archive(struct shard_file *file, uint64_t from, struct archive **archive);

/* `size` bytes from byte `from` on: mostly still in the buffer, good until libarchive reads on, or
 * read into `scratch`. NULL with `fault` set where that fails. */
const char *shard_file_bytes(struct shard_file *file, uint64_t from, size_t size, char *scratch);

/* What is in the block before a member's data. */
enum shard_file_header {
    SHARD_FILE_GOOD,
    SHARD_FILE_NO_SIZE,    /* a header in which the size is no number */
    SHARD_FILE_OTHER_KIND, /* a header of a kind that is no plain file's */
    SHARD_FILE_NO_HEADER,  /* no header, as a map of holes stands between */
    SHARD_FILE_FAULT,      /* `fault` is set */
};

/* Looks at the block before byte `offset`, where a member's data starts. GOOD: gives
 * index_header_check() of it. */
enum shard_file_header shard_file_header(struct shard_file *file, uint64_t offset, uint16_t *check);

/* The INDEX_HEADER_BYTES from byte `from` on, good until something else is asked for. NULL: the
 * file has no more, or `fault` is set. */
const char *shard_file_block(struct shard_file *file, uint64_t from);

/* Whether all bytes from `from` on are zero. */
bool shard_file_only_zeros(struct shard_file *file, uint64_t from);

/* libarchive's view of what is compressed in the file, as one stream of bytes; the filters are
 * chosen by the first bytes. 1; 0, nothing that it knows (`*archive` is NULL then); -EBADMSG,
 * compressed, but nothing of it can be read: archive_error_string() says why; or another negative
 * errno. `*archive` is freed by archive_read_free(). */
int shard_file_stream(struct shard_file *file, struct archive **archive);

/* The compression of what is no tar as it stands, by libarchive's own filters; NULL: none it knows.
 * Of several, one in the other, the inmost. */
const char *shard_file_compression(struct shard_file *file, char *name, size_t room);

#endif
