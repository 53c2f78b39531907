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
/* Where it says what kind of member it is: those whose bytes are a file's. POSIX would have unknown
 * kinds taken for files, and libarchive does; but GNU tar's lists of names and pieces of other
 * volumes are none, and Python's tarfile, so WebDataset, leaves unknown kinds out. */
#define KIND_OFFSET 156
#define FILE_KINDS  "017S "
/* Where the sum of its bytes is, which counts as blanks in the sum. */
#define SUM_OFFSET 148
#define SUM_LENGTH 8

int shard_file_open(struct shard_file **out, struct index_shard *shard)
{
    struct shard_file *file = malloc(sizeof *file);
    struct stat status;

    *out = file;
    if (!file)
        return -ENOMEM;
    memset(file, 0, offsetof(struct shard_file, buffer));
    file->read.fd = open(index_shard_file(shard), O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (file->read.fd < 0 || fstat(file->read.fd, &status))
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -EINVAL;
    shard->size = file->read.size = (uint64_t)status.st_size;
    shard->modified = status.st_mtim;
    shard->changed = status.st_ctim;
    shard->device = status.st_dev;
    shard->inode = status.st_ino;
    return 0;
}

void shard_file_close(struct shard_file *file)
{
    if (file && file->read.fd >= 0)
        close(file->read.fd);
    free(file);
}

/* What the buffer holds from byte `from` on. */
static size_t held(const struct shard_file *file, uint64_t from)
{
    return from >= file->start && from < file->start + file->filled
               ? (size_t)(file->start + file->filled - from)
               : 0;
}

static ssize_t fill(struct shard_file *file, uint64_t from)
{
    ssize_t got = shard_read_some(&file->read, file->buffer, sizeof file->buffer, from);

    file->start = from;
    file->filled = got < 0 ? 0 : (size_t)got;
    if (got < 0)
        file->fault = errno;
    else if (got == 0 &&
             from < file->read.size) /* it is cut meanwhile, or its storage loses what it had */
        file->fault = EIO;
    return file->fault ? -1 : got;
}

/* Opened anew behind a lone zero block, libarchive mostly goes on in the same buffer. */
static la_ssize_t on_read(struct archive *archive, void *context, const void **buffer)
{
    struct shard_file *file = context;
    size_t size = held(file, file->offset);

    if (!size) {
        ssize_t got = fill(file, file->offset);
        if (got < 0) {
            archive_set_error(archive, file->fault, "read");
            return -1;
        }
        size = (size_t)got;
    }
    *buffer = file->buffer + (file->offset - file->start);
    file->offset += size;
    return (la_ssize_t)size;
}

static la_int64_t on_skip(struct archive *archive, void *context, la_int64_t request)
{
    struct shard_file *file = context;
    uint64_t left = file->read.size > file->offset ? file->read.size - file->offset : 0;
    uint64_t step = (uint64_t)request < left ? (uint64_t)request : left;

    (void)archive;
    file->offset += step;
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
    /* Tar alone, and no filter: within a compressed shard, offsets would count in the unpacked
     * stream. */
    archive_read_support_format_tar(archive);
    result = archive_read_open2(archive, file, NULL, on_read, on_skip, NULL);
    if (result != ARCHIVE_OK && !file->fault && file->read.size > 0 &&
        archive_errno(archive) == ENOMEM)
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

const char *shard_file_bytes(struct shard_file *file, uint64_t from, size_t size, char *scratch)
{
    ssize_t got;

    if (held(file, from) >= size)
        return file->buffer + (from - file->start);
    do
        got = pread(file->read.fd, scratch, size, (off_t)from);
    while (got < 0 && errno == EINTR);
    if (got == (ssize_t)size)
        return scratch;
    file->fault = got < 0 ? errno : EIO;
    return NULL;
}

/* Whether the sum is right: some writers added up signed bytes. */
static bool is_header(const char *block)
{
    char text[SUM_LENGTH + 1] = "";
    long unsigned_sum = 0, signed_sum = 0, sum;

    memcpy(text, block + SUM_OFFSET, SUM_LENGTH);
    for (int i = 0; i < BLOCK; i++) {
        char c = block[i];
        if (i >= SUM_OFFSET && i < SUM_OFFSET + SUM_LENGTH)
            c = ' ';
        unsigned_sum += (unsigned char)c;
        signed_sum += (signed char)c;
    }
    sum = strtol(text, NULL, 8);
    return sum == unsigned_sum || sum == signed_sum;
}

enum shard_file_header shard_file_header(struct shard_file *file, uint64_t offset, uint16_t *check)
{
    char scratch[BLOCK];
    const char *block = shard_file_bytes(file, offset - BLOCK, BLOCK, scratch);

    if (!block)
        return SHARD_FILE_FAULT;
    *check = index_header_check(block);
    if (is_number(block + SIZE_OFFSET, SIZE_LENGTH))
        /* strchr() finds the NUL, too, that was a file's kind before there were kinds. */
        return strchr(FILE_KINDS, block[KIND_OFFSET]) ? SHARD_FILE_GOOD : SHARD_FILE_OTHER_KIND;
    return is_header(block) ? SHARD_FILE_NO_SIZE : SHARD_FILE_NO_HEADER;
}

const char *shard_file_block(struct shard_file *file, uint64_t from)
{
    if (held(file, from) < BLOCK && fill(file, from) < BLOCK)
        return NULL;
    return file->buffer + (from - file->start);
}

bool shard_file_only_zeros(struct shard_file *file, uint64_t from)
{
    static const char zeros[BLOCK];

    while (held(file, from) || fill(file, from) > 0) {
        const char *bytes = file->buffer + (from - file->start);
        size_t size = held(file, from);
        for (size_t i = 0; i < size; i += BLOCK)
            if (memcmp(bytes + i, zeros, size - i < BLOCK ? size - i : BLOCK) != 0)
                return false;
        from += size;
    }
    return true;
}

int shard_file_stream(struct shard_file *file, struct archive **out)
{
    struct archive *archive = archive_read_new();
    int opened;

    *out = archive;
    if (!archive)
        return -ENOMEM;
    archive_read_support_filter_gzip(archive);
    archive_read_support_filter_bzip2(archive);
    archive_read_support_filter_xz(archive);
    archive_read_support_filter_lzma(archive);
    archive_read_support_filter_lzip(archive);
    archive_read_support_filter_zstd(archive);
    archive_read_support_filter_lz4(archive);
    archive_read_support_filter_compress(archive);
    /* Not format_empty: it takes a stream of which nothing can be read for one of nothing. */
    archive_read_support_format_raw(archive);
    file->offset = 0;
    opened = archive_read_open2(archive, file, NULL, on_read, on_skip, NULL);
    if (file->fault)
        return -file->fault;
    /* Opening asks each filter for its first byte. */
    if (opened != ARCHIVE_OK)
        return archive_errno(archive) == ENOMEM ? -ENOMEM : -EBADMSG;
    if (archive_filter_count(archive) > 1)
        return 1;
    archive_read_free(archive);
    *out = NULL;
    return 0;
}

const char *shard_file_compression(struct shard_file *file, char *name, size_t room)
{
    struct archive *archive;
    int found = shard_file_stream(file, &archive);

    if (found == 1)
        snprintf(name, room, "%s", archive_filter_name(archive, 0));
    else if (found == -EBADMSG)
        snprintf(name, room, "what its start does not tell");
    archive_read_free(archive);
    return found == 1 || found == -EBADMSG ? name : NULL;
}
