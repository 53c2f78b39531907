/* A tar as a stream of samples, by libarchive. */
#include "tarstream.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* One request of FUSE is 1 MiB at most; larger reads gain nothing, smaller ones lose. */
    READ_BYTES = 1 << 20,
    CLS_MOST = 64,
    BLOCK = 512,
};

struct tarstream {
    const struct settings *settings;
    char *path;
    int fd;
    bool seekable;  /* a regular file */
    bool begun;     /* something was read */
    bool ended;     /* libarchive may not be asked again */
    int stop;       /* an eventfd: readable once stopped */
    int read_error; /* of the last read that failed */
    uint8_t *buffer;
    const uint8_t *bytes; /* instead of a file */
    size_t bytes_size;
    struct archive *archive; /* NULL: to be opened before the next header */
    uint64_t base;           /* of the tar as it stands in the file: where `archive` was opened; */
    uint64_t read;           /* what it was given since; */
    uint64_t end;            /* where the last member's blocks end, from `base` on */
    const uint8_t *kept;     /* what it was given last, and is given again when it is opened anew */
    size_t kept_size;
    bool again;
    struct archive_entry *pending; /* a header that was read and not yet used; libarchive's */
    char key[PATH_MAX];
};

static la_ssize_t on_read(struct archive *archive, void *context, const void **buffer)
{
    struct tarstream *stream = context;
    ssize_t got;

    if (stream->again) {
        stream->again = false;
        stream->read = stream->kept_size;
        *buffer = stream->kept;
        return (la_ssize_t)stream->kept_size;
    }
    if (!stream->seekable) {
        struct pollfd wait[2] = {{.fd = stream->stop, .events = POLLIN},
                                 {.fd = stream->fd, .events = POLLIN}};

        while (poll(wait, 2, -1) < 0 && errno == EINTR)
            continue;
        if (wait[0].revents) {
            stream->read_error = ECANCELED;
            archive_set_error(archive, ECANCELED, "stopped");
            return -1;
        }
    }
    do
        got = read(stream->fd, stream->buffer, READ_BYTES);
    while (got < 0 && errno == EINTR);
    stream->begun = true;
    if (got < 0) {
        stream->read_error = errno;
        archive_set_error(archive, errno, "%s", fault_meaning(errno));
        return -1;
    }
    *buffer = stream->kept = stream->buffer;
    stream->kept_size = (size_t)got;
    stream->read += (uint64_t)got;
    return got;
}

static la_int64_t on_skip(struct archive *archive, void *context, la_int64_t request)
{
    struct tarstream *stream = context;
    off_t now, end;

    (void)archive;
    /* A seek is only worth its price, and the loss of read-ahead, for what is large. */
    if (!stream->seekable || request < 4 * (la_int64_t)READ_BYTES)
        return 0;
    now = lseek(stream->fd, 0, SEEK_CUR);
    end = lseek(stream->fd, 0, SEEK_END);
    /* Never past the end: a tar cut short would look whole. */
    if (now < 0 || end < now || end - now < request) {
        if (now >= 0)
            lseek(stream->fd, now, SEEK_SET);
        return 0;
    }
    if (lseek(stream->fd, now + request, SEEK_SET) < 0)
        return 0;
    stream->read += (uint64_t)request;
    return request;
}

static int begin(struct tarstream *stream, struct fault *fault)
{
    struct archive *archive = archive_read_new();
    int result;

    if (!archive)
        return fault_file(fault, -ENOMEM, stream->path);
    archive_read_support_format_tar(archive);
    /* Without those that may start other programs. */
    archive_read_support_filter_gzip(archive);
    archive_read_support_filter_bzip2(archive);
    archive_read_support_filter_xz(archive);
    archive_read_support_filter_zstd(archive);
    archive_read_support_filter_lz4(archive);
    stream->read_error = 0;
    stream->read = stream->end = 0;
    if (stream->bytes) {
        stream->read = stream->bytes_size - stream->base;
        result = archive_read_open_memory(archive, stream->bytes + stream->base, stream->read);
    } else {
        archive_read_set_read_callback(archive, on_read);
        archive_read_set_skip_callback(archive, on_skip);
        archive_read_set_callback_data(archive, stream);
        result = archive_read_open1(archive);
    }
    if (result == ARCHIVE_OK) {
        stream->archive = archive;
        return 0;
    }
    result = stream->read_error ? -stream->read_error : -EBADMSG;
    fault_set(fault, result, stream->read_error ? "%s: %s" : "%s is no tar: %s", stream->path,
              archive_error_string(archive));
    archive_read_free(archive);
    return result;
}

/* NULL: no memory, and the fault says so. */
static struct tarstream *make(const char *path, const struct settings *settings,
                              struct fault *fault)
{
    struct tarstream *stream = calloc(1, sizeof *stream);

    if (stream) {
        stream->settings = settings;
        stream->fd = -1;
        stream->path = strdup(path);
        stream->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (stream->path && stream->stop >= 0)
            return stream;
    }
    tarstream_close(stream);
    fault_file(fault, -ENOMEM, path);
    return NULL;
}

int tarstream_open(struct tarstream **out, const char *path, const struct settings *settings,
                   struct fault *fault)
{
    struct tarstream *stream = make(path, settings, fault);
    struct stat stat_;

    if (!stream)
        return -ENOMEM;
    stream->buffer = malloc(READ_BYTES);
    if (!stream->buffer) {
        tarstream_close(stream);
        return fault_file(fault, -ENOMEM, path);
    }
    /* Without blocking, as a fifo may have no writer yet; reads wait in poll(). */
    stream->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (stream->fd < 0 || fstat(stream->fd, &stat_)) {
        int error = fault_file(fault, -errno, path);

        tarstream_close(stream);
        return error;
    }
    stream->seekable = S_ISREG(stat_.st_mode);
    if (stream->seekable)
        posix_fadvise(stream->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    *out = stream;
    return 0;
}

int tarstream_open_bytes(struct tarstream **out, const void *bytes, size_t size,
                         const struct settings *settings, struct fault *fault)
{
    struct tarstream *stream = make("(memory)", settings, fault);

    if (!stream)
        return -ENOMEM;
    stream->bytes = bytes;
    stream->bytes_size = size;
    stream->seekable = true;
    *out = stream;
    return 0;
}

void tarstream_close(struct tarstream *stream)
{
    if (!stream)
        return;
    archive_read_free(stream->archive);
    if (stream->fd >= 0)
        close(stream->fd);
    if (stream->stop >= 0)
        close(stream->stop);
    free(stream->path);
    free(stream->buffer);
    free(stream);
}

int tarstream_rewind(struct tarstream *stream, struct fault *fault)
{
    uint64_t value;

    if (!stream->seekable && stream->begun)
        return fault_set(fault, -ESPIPE, "%s cannot be read from its start again", stream->path);
    if (stream->fd >= 0 && stream->seekable && lseek(stream->fd, 0, SEEK_SET) < 0)
        return fault_file(fault, -errno, stream->path);
    archive_read_free(stream->archive);
    stream->archive = NULL;
    stream->pending = NULL;
    stream->begun = stream->ended = stream->again = false;
    stream->base = 0;
    while (read(stream->stop, &value, sizeof value) > 0)
        continue;
    return 0;
}

void tarstream_stop(struct tarstream *stream)
{
    uint64_t one = 1;

    while (write(stream->stop, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

static int broken(struct tarstream *stream, const char *member, struct fault *fault)
{
    const char *text = archive_error_string(stream->archive);
    int error = stream->read_error ? -stream->read_error : -EBADMSG;

    return fault_set(fault, error, "%s: %s%s%s after byte %lld", stream->path,
                     text ? text : "damaged", member ? " in " : "", member ? member : "",
                     (long long)archive_filter_bytes(stream->archive, -1));
}

/* Its bytes stand elsewhere in the tar, or nowhere. */
static bool is_link(struct archive_entry *entry)
{
    return (archive_entry_hardlink(entry) && archive_entry_size(entry) == 0) ||
           archive_entry_symlink(entry) || archive_entry_filetype(entry) == AE_IFLNK;
}

/* libarchive ends at one zero block, and a tar at two (POSIX): behind a single one that more
 * follows it is opened anew. 1, 0: it was the end, or an error. Not within what is compressed:
 * there what follows is not known. */
static int pass_lone_block(struct tarstream *stream, struct fault *fault)
{
    uint64_t position = (uint64_t)archive_filter_bytes(stream->archive, 0);
    uint64_t left = stream->read > position ? stream->read - position : 0;

    /* libarchive takes a second zero block where there is one, and has looked whether more is
     * there.
     */
    if (archive_filter_count(stream->archive) > 1 || position - stream->end != BLOCK ||
        left < BLOCK)
        return 0;
    if (stream->seekable && stream->fd >= 0) {
        if (lseek(stream->fd, (off_t)(stream->base + position), SEEK_SET) < 0)
            return fault_file(fault, -errno, stream->path);
    } else if (!stream->bytes) {
        if (left > stream->kept_size)
            return fault_set(fault, -EBADMSG,
                             "%s: a lone zero block after byte %" PRIu64 ", and more behind it",
                             stream->path, stream->base + position);
        stream->kept += stream->kept_size - left;
        stream->kept_size = left;
        stream->again = true;
    }
    archive_read_free(stream->archive);
    stream->archive = NULL;
    stream->base += position;
    return begin(stream, fault) ?: 1;
}

/* Where the blocks of the member end that was read last; its size does not tell where it is sparse.
 */
static void note_end(struct tarstream *stream)
{
    if (archive_read_data_skip(stream->archive) >= ARCHIVE_WARN)
        stream->end = (uint64_t)archive_filter_bytes(stream->archive, 0);
}

/* Makes `pending` the next file or link with a name of a sample. 1, 0: the end, or an error. */
static int next_member(struct tarstream *stream, struct fault *fault)
{
    while (!stream->pending) {
        struct archive_entry *entry;
        const char *name;
        int result = stream->ended ? ARCHIVE_EOF
                                   : archive_read_next_header(stream->archive, &entry);

        if (result == ARCHIVE_EOF) {
            int more = stream->ended ? 0 : pass_lone_block(stream, fault);
            if (more == 1)
                continue;
            stream->ended = true;
            return more;
        }
        /* A warning leaves an entry that can be read: a name in another character set. */
        if (result == ARCHIVE_RETRY)
            continue;
        if (result < ARCHIVE_WARN)
            return broken(stream, NULL, fault);
        name = archive_entry_pathname(entry);
        if (name && (archive_entry_filetype(entry) == AE_IFREG || is_link(entry)) &&
            !sample_is_litter(name) && *sample_extension(name, false))
            stream->pending = entry;
        else
            note_end(stream);
    }
    return 1;
}

static const char *clean_name(const char *name)
{
    while (strncmp(name, "./", 2) == 0)
        name += 2;
    return name;
}

/* The bytes of the pending member; it may have fewer than its header says, where the tar is cut. */
static int read_content(struct tarstream *stream, uint8_t *to, size_t size, const char *name,
                        struct fault *fault)
{
    size_t have = 0;

    while (have < size) {
        la_ssize_t got = archive_read_data(stream->archive, to + have, size - have);

        /* Nothing is tried again: of a sparse member whose blocks are out of order libarchive says
         * ARCHIVE_RETRY for ever. */
        if (got <= 0)
            return broken(stream, name, fault);
        have += (size_t)got;
    }
    return 0;
}

static int take_content(struct tarstream *stream, const struct tarstream_memory *memory,
                        const char *name, uint64_t size, struct sample *sample, struct fault *fault)
{
    uint8_t *to;

    sample_set_name(sample, name);
    if (is_link(stream->pending)) {
        sample->error = -ENOTSUP;
        return 0;
    }
    if (size > stream->settings->config.file_most) {
        sample->error = -EFBIG;
        return 0;
    }
    if (!memory->take)
        return 0;
    to = memory->take(memory->context, size);
    if (!to)
        return -ECANCELED;
    sample->bytes = to;
    sample->size = size;
    return read_content(stream, to, size, name, fault);
}

int tarstream_next(struct tarstream *stream, const struct tarstream_memory *memory,
                   struct sample *sample, struct fault *fault)
{
    bool begun = false, content = false, labelled = false;
    int error;

    memset(sample, 0, sizeof *sample);
    sample->label = SL_NO_LABEL;
    if (!stream->archive) {
        error = begin(stream, fault);
        if (error)
            return error;
    }
    for (;;) {
        const char *name, *extension;
        size_t length;
        int64_t size;

        error = next_member(stream, fault);
        if (error < 0)
            return error;
        if (error == 0)
            return content;
        name = clean_name(archive_entry_pathname(stream->pending));
        extension = sample_extension(name, false);
        length = (size_t)(extension - name);
        if (!begun || strncmp(stream->key, name, length) != 0 || stream->key[length]) {
            if (content)
                return 1; /* what is pending starts the next sample */
            if (length >= sizeof stream->key)
                return fault_set(fault, -EBADMSG, "%s: a name of %zu bytes", stream->path, length);
            memcpy(stream->key, name, length);
            stream->key[length] = '\0';
            begun = true;
            labelled = false;
            sample->label = SL_NO_LABEL;
        }
        size = archive_entry_size(stream->pending);
        if (size < 0)
            return fault_set(fault, -EBADMSG, "%s: %s has no size", stream->path, name);
        if (!labelled && size <= CLS_MOST && strcasecmp(extension, "cls") == 0) {
            uint8_t text[CLS_MOST];

            error = read_content(stream, text, (size_t)size, name, fault);
            labelled = true;
            if (is_link(stream->pending))
                sample->error = -ENOTSUP;
            sample_parse_label((const char *)text, (size_t)size, &sample->label);
        } else if (!content && settings_takes(stream->settings, extension)) {
            error = take_content(stream, memory, name, (uint64_t)size, sample, fault);
            content = true;
        }
        if (error < 0)
            return error;
        note_end(stream);
        stream->pending = NULL;
    }
}
