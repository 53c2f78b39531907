/* A shard's file while it is walked. Owns the descriptor and the buffer; never parses what
 * libarchive parses. */
#include "shard_file.h"

#include <archive.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK INDEX_HEADER_BYTES
/* Where a header says the member's size. */
#define SIZE_OFFSET 124
#define SIZE_LENGTH 12

int shard_file_open(struct shard_file **out, struct index_shard *shard)
{
    struct shard_file *file = calloc(1, sizeof *file);
    struct stat status;

    *out = file;
    if (!file)
        return -ENOMEM;
    file->fd = open(shard->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (file->fd < 0 || fstat(file->fd, &status))
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -EINVAL;
    shard->size = file->size = (uint64_t)status.st_size;
    shard->modified = status.st_mtim;
    shard->device = status.st_dev;
    shard->inode = status.st_ino;
    return 0;
}

void shard_file_close(struct shard_file *file)
{
    if (file && file->fd >= 0)
        close(file->fd);
    free(file);
}

static la_ssize_t on_read(struct archive *archive, void *context, const void **buffer)
{
    struct shard_file *file = context;
    ssize_t got;

    do
        got = pread(file->fd, file->buffer, sizeof file->buffer, (off_t)file->offset);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        file->fault = errno;
        archive_set_error(archive, errno, "read");
        return -1;
    }
    file->offset += (uint64_t)got;
    file->filled = (uint64_t)got;
    *buffer = file->buffer;
    return got;
}

static la_int64_t on_skip(struct archive *archive, void *context, la_int64_t request)
{
    struct shard_file *file = context;
    uint64_t left = file->size > file->offset ? file->size - file->offset : 0;
    uint64_t step = (uint64_t)request < left ? (uint64_t)request : left;

    (void)archive;
    file->offset += step;
    file->filled = 0;
    return (la_int64_t)step;
}

int shard_file_archive(struct shard_file *file, uint64_t from, struct archive **out)
{
    struct archive *archive = archive_read_new();
    int result;

    *out = archive;
    if (!archive)
        return -ENOMEM;
    file->offset = from;
    file->filled = 0;
    /* Tar alone, and no filter: within a compressed shard, offsets would count in the unpacked
     * stream. */
    archive_read_support_format_tar(archive);
    result = archive_read_open2(archive, file, NULL, on_read, on_skip, NULL);
    if (result != ARCHIVE_OK && !file->fault && file->size > 0 && archive_errno(archive) == ENOMEM)
        return -ENOMEM;
    return -file->fault;
}

/* A number as tars write it: octal digits with blanks and NULs around, or binary with the top bit
 * of its first byte set. libarchive takes anything else for 0, and what follows would be other
 * members' blocks. */
static bool is_number(const char *field, size_t length)
{
    bool digits = false;

    if ((unsigned char)field[0] & 0x80)
        return true;
    for (size_t i = 0; i < length; i++) {
        if (field[i] >= '0' && field[i] <= '7')
            digits = true;
        else if (field[i] != ' ' && field[i] != '\0')
            return false;
    }
    return digits;
}

int shard_file_header(struct shard_file *file, uint64_t offset, uint16_t *check)
{
    uint64_t at = offset - BLOCK, start = file->offset - file->filled;
    char block[BLOCK];
    const char *header = block;

    /* Mostly it is still in the buffer. */
    if (at >= start && offset <= file->offset)
        header = file->buffer + (at - start);
    else if (pread(file->fd, block, sizeof block, (off_t)at) != (ssize_t)sizeof block)
        return -EIO;
    *check = index_header_check(header);
    return is_number(header + SIZE_OFFSET, SIZE_LENGTH);
}

bool shard_file_only_zeros(struct shard_file *file, uint64_t from)
{
    static const char zeros[BLOCK];
    ssize_t got;

    file->filled = 0;
    while ((got = pread(file->fd, file->buffer, sizeof file->buffer, (off_t)from)) > 0) {
        for (ssize_t i = 0; i < got; i += BLOCK)
            if (memcmp(file->buffer + i, zeros, (size_t)(got - i < BLOCK ? got - i : BLOCK)) != 0)
                return false;
        from += (uint64_t)got;
    }
    if (got < 0)
        file->fault = errno;
    return true;
}

const char *shard_file_compression(struct shard_file *file, char *name, size_t room)
{
    struct archive *archive = archive_read_new();
    const char *found = NULL;

    if (!archive)
        return NULL;
    archive_read_support_filter_gzip(archive);
    archive_read_support_filter_bzip2(archive);
    archive_read_support_filter_xz(archive);
    archive_read_support_filter_lzma(archive);
    archive_read_support_filter_zstd(archive);
    archive_read_support_filter_lz4(archive);
    archive_read_support_filter_compress(archive);
    archive_read_support_format_raw(archive);
    file->offset = 0;
    /* Opening chooses the filters, from the first bytes. */
    if (archive_read_open2(archive, file, NULL, on_read, on_skip, NULL) == ARCHIVE_OK &&
        archive_filter_count(archive) > 1) {
        snprintf(name, room, "%s", archive_filter_name(archive, 0));
        found = name;
    }
    archive_read_free(archive);
    return found;
}
