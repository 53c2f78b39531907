/* A compressed shard's bytes. Owns nothing but what it needs meanwhile; never looks into them. */
#include "expand.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define PIECE ((size_t)256 * 1024)
/* zlib's window, and 16: a gzip header before the stream. */
#define GZIP_WINDOW (15 + 16)
#define GZIP_MAGIC  0x1f

struct gzip {
    struct shard_file *file;
    z_stream stream;
    uint64_t read;  /* bytes of the file given to zlib or waiting for it */
    uint64_t given; /* unpacked bytes given to the sink */
    char *out;
    int (*sink)(void *context, const void *bytes, size_t size);
    void *context;
    struct expand_fault *fault;
};

/* Nothing is behind the fault. */
static int stop(struct gzip *gzip, enum expand_fault_kind kind, const char *text)
{
    gzip->fault->kind = kind;
    gzip->fault->offset = gzip->read - gzip->stream.avail_in;
    snprintf(gzip->fault->text, sizeof gzip->fault->text, "%s", text);
    return 0;
}

/* More input: 1; 0 at the file's end; or a negative errno. The file's buffer is ours meanwhile. */
static int refill(struct gzip *gzip)
{
    struct shard_file *file = gzip->file;
    ssize_t got;

    do
        got = pread(file->read.fd, file->buffer, sizeof file->buffer, (off_t)gzip->read);
    while (got < 0 && errno == EINTR);
    file->filled = 0;
    if (got < 0) {
        file->fault = errno;
        file->offset = gzip->read;
        return -file->fault;
    }
    gzip->read += (uint64_t)got;
    gzip->stream.next_in = (Bytef *)file->buffer;
    gzip->stream.avail_in = (uInt)got;
    return got > 0;
}

/* One gzip member. Returns 1: the file may have another; 0: `fault` is filled; a negative errno. */
static int inflate_member(struct gzip *gzip)
{
    z_stream *stream = &gzip->stream;
    int result = Z_OK;

    while (result != Z_STREAM_END) {
        size_t size;
        int more = stream->avail_in ? 1 : refill(gzip);
        if (more < 0)
            return more;
        if (!more) {
            gzip->fault->sound = gzip->given;
            return stop(gzip, EXPAND_TRUNCATED, "the gzip stream ends early");
        }
        stream->next_out = (Bytef *)gzip->out;
        stream->avail_out = PIECE;
        result = inflate(stream, Z_NO_FLUSH);
        if (result == Z_MEM_ERROR)
            return -ENOMEM;
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            return stop(gzip, EXPAND_CORRUPT, stream->msg ? stream->msg : zError(result));
        size = PIECE - stream->avail_out;
        if (size) {
            int answer = gzip->sink(gzip->context, gzip->out, size);
            if (answer)
                return answer;
            gzip->given += size;
        }
    }
    gzip->fault->sound = gzip->given;
    return 1;
}

/* What stands behind a member: 1, another one; 0, nothing, zeros (as tapes leave them), or
 * something else, which is put down; or a negative errno. */
static int next_member(struct gzip *gzip)
{
    z_stream *stream = &gzip->stream;

    for (;;) {
        int more = stream->avail_in ? 1 : refill(gzip);
        if (more <= 0)
            return more;
        if (*stream->next_in == GZIP_MAGIC)
            return inflateReset(stream) == Z_OK ? 1 : -EINVAL;
        if (*stream->next_in)
            return stop(gzip, EXPAND_TRAILING, "something else than gzip follows");
        stream->next_in++;
        stream->avail_in--;
    }
}

static int expand_gzip(struct gzip *gzip)
{
    int more = inflateInit2(&gzip->stream, GZIP_WINDOW) == Z_OK ? 1 : -ENOMEM;

    if (more < 0)
        return more;
    gzip->out = malloc(PIECE);
    if (!gzip->out)
        more = -ENOMEM;
    while (more == 1) {
        more = inflate_member(gzip);
        if (more == 1)
            more = next_member(gzip);
    }
    free(gzip->out);
    inflateEnd(&gzip->stream);
    return more;
}

/* libarchive has no number for it; the second one is liblzma's LZMA_BUF_ERROR. Where its words
 * should change, more is distrusted. */
static bool is_truncated(const struct shard_file *file, const char *text)
{
    return file->offset >= file->read.size && (strcasestr(text, "truncated") != NULL ||
                                               strstr(text, "No progress is possible") != NULL);
}

/* Behind the last stream of a kind, libarchive ignores what is there in silence (bzip2, lz4, lzma)
 * or takes all for corrupt (xz, zstd). Zeros are what tapes leave. As expand(). */
static int look_behind(struct shard_file *file, uint64_t from, struct expand_fault *fault)
{
    if (from < file->read.size && !shard_file_only_zeros(file, from) && !file->fault) {
        fault->kind = EXPAND_TRAILING;
        fault->offset = from;
        snprintf(fault->text, sizeof fault->text, "something else follows the compressed stream");
    }
    return -file->fault;
}

static int expand_archive(struct archive *archive, struct shard_file *file,
                          int (*sink)(void *context, const void *bytes, size_t size), void *context,
                          struct expand_fault *fault)
{
    struct archive_entry *entry;
    const void *bytes;
    const char *text;
    size_t size;
    la_int64_t at;
    uint64_t given = 0;
    int result = archive_read_next_header(archive, &entry);

    while (result == ARCHIVE_OK || result == ARCHIVE_WARN) {
        result = archive_read_data_block(archive, &bytes, &size, &at);
        if ((result == ARCHIVE_OK || result == ARCHIVE_WARN) && size) {
            int answer = sink(context, bytes, size);
            if (answer)
                return answer;
            given += size;
        }
    }
    if (file->fault)
        return -file->fault;
    if (result == ARCHIVE_EOF) {
        fault->sound = given;
        return look_behind(file, (uint64_t)archive_filter_bytes(archive, -1), fault);
    }
    if (archive_errno(archive) == ENOMEM)
        return -ENOMEM;
    text = archive_error_string(archive);
    text = text ? text : "cannot be unpacked";
    fault->kind = is_truncated(file, text) ? EXPAND_TRUNCATED : EXPAND_CORRUPT;
    fault->sound = fault->kind == EXPAND_TRUNCATED ? given : 0;
    fault->offset = (uint64_t)archive_filter_bytes(archive, -1);
    snprintf(fault->text, sizeof fault->text, "%s%s%s",
             fault->kind == EXPAND_TRUNCATED ? "the stream ends early (" : "", text,
             fault->kind == EXPAND_TRUNCATED ? ")" : "");
    return 0;
}

int expand(struct shard_file *file, int (*sink)(void *context, const void *bytes, size_t size),
           void *context, struct expand_fault *fault)
{
    struct archive *archive;
    int result = shard_file_stream(file, &archive);

    *fault = (struct expand_fault){0};
    if (result == 1 && archive_filter_count(archive) == 2 && /* the last one is the file itself */
        archive_filter_code(archive, 0) == ARCHIVE_FILTER_GZIP) {
        struct gzip state = {.file = file, .sink = sink, .context = context, .fault = fault};
        result = expand_gzip(&state);
    } else if (result == 1) {
        result = expand_archive(archive, file, sink, context, fault);
    } else if (result == -EBADMSG) {
        const char *text = archive_error_string(archive);
        fault->kind = EXPAND_CORRUPT;
        snprintf(fault->text, sizeof fault->text, "%s", text ? text : "cannot be unpacked");
        result = 0;
    } else if (result == 0) {
        fault->kind = EXPAND_CORRUPT;
        snprintf(fault->text, sizeof fault->text, "%s", "no stream of a known kind");
    }
    archive_read_free(archive);
    return result;
}
