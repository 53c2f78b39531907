/* Reads ranges of shards. Owns nothing; what is wrong with a shard, core/reader.c reports. */
#include "range.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define ENDS_EARLY "the shard ends early"

/* A shard whose inode changes under a read so often, one time after the other, is given up. */
#define CHANGES_MOST 8

/* NULL, or why the file is not the one that was indexed. */
static const char *look(const struct index_shard *shard, int fd, struct stat *status)
{
    if (fstat(fd, status))
        return strerror(errno);
    if ((uint64_t)status->st_size != shard->size)
        return "the shard's size changed since it was indexed";
    if (status->st_mtim.tv_sec != shard->modified.tv_sec ||
        status->st_mtim.tv_nsec != shard->modified.tv_nsec)
        return "the shard was modified since it was indexed";
    return NULL;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Fills `parts` from `offset` on. NULL, or why not. */
static const char *read_all(int fd, struct iovec *parts, int count, uint64_t offset)
{
    while (count) {
        ssize_t got = preadv(fd, parts, count, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return strerror(errno);
        if (got == 0)
            return ENDS_EARLY;
        offset += (uint64_t)got;
        while (count && (size_t)got >= parts->iov_len) {
            got -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count) {
            parts->iov_base = (char *)parts->iov_base + got;
            parts->iov_len -= (size_t)got;
        }
    }
    return NULL;
}

enum range_cached range_in_cache(const struct range_source *source, int fd, uint64_t offset,
                                 uint64_t size)
{
    /* struct cachestat_range and struct cachestat of linux/mman.h, Linux 6.5 */
    uint64_t range[2] = {offset, size};
    struct {
        uint64_t cached, dirty, writeback, evicted, recently_evicted;
    } pages;
    uint64_t count = (offset + size + PAGE_BYTES - 1) / PAGE_BYTES - offset / PAGE_BYTES;

    if (atomic_load_explicit(source->no_cachestat, memory_order_relaxed))
        return RANGE_UNKNOWN;
    if (syscall(451 /* cachestat */, fd, range, &pages, 0)) {
        /* EPERM is about one file's owner; the others are about the kernel. */
        if (errno != EPERM)
            atomic_store(source->no_cachestat, true);
        return RANGE_UNKNOWN;
    }
    return pages.cached == 0          ? RANGE_NOT_CACHED
           : pages.cached * 2 < count ? RANGE_PARTLY_CACHED
                                      : RANGE_CACHED;
}

bool range_goes_around(const struct range_source *source, size_t shard, int fd, uint64_t offset,
                       uint64_t size)
{
    if (source->never_around || atomic_load(&source->no_direct[shard]))
        return false;
    switch (range_in_cache(source, fd, offset, size)) {
    case RANGE_UNKNOWN:
        return source->around_if_unknown;
    case RANGE_CACHED:
        return false;
    case RANGE_NOT_CACHED:
    case RANGE_PARTLY_CACHED:
        break;
    }
    return true;
}

/* How far into the buffer byte `start` of the shard goes, for the range's level. */
static size_t lead(const struct range *range, uint64_t start)
{
    return range->level ? (PAGE_BYTES - (range->level - start) % PAGE_BYTES) % PAGE_BYTES : 0;
}

/* Reads a range through the cache. */
static const char *read_through(struct range *range, int fd)
{
    struct iovec parts[2] = {{range->header, INDEX_HEADER_BYTES}, {range->buffer, range->size}};

    range->data = range->buffer;
    if (!range->header) {
        range->data += lead(range, range->offset);
        parts[1].iov_base = range->data;
        return read_all(fd, parts + 1, 1, range->offset);
    }
    return read_all(fd, parts, 2, range->offset - INDEX_HEADER_BYTES);
}

static bool is_multiple(const struct range *range, unsigned align)
{
    return (range->offset | range->size | (uintptr_t)range->buffer) % align == 0;
}

/* Where a range lies around the page cache, and where its bytes go. False: it has to be read
 * through the cache after all, unless it is unfit. */
static bool aim(const struct range_source *source, struct range *range,
                const struct handle *through, struct range_half *half)
{
    uint64_t end;
    unsigned align;
    int fault = handles_take_around(source->handles, range->shard, through, &half->handle);

    if (fault) {
        if (fault == -EINVAL)
            atomic_store(&source->no_direct[range->shard], true);
        return false;
    }
    align = half->handle->align;
    range->unfit = range->exact && !is_multiple(range, align);
    if (range->unfit) {
        handles_release(source->handles, range->shard, half->handle, false);
        return false;
    }
    half->start = range->offset / align * align;
    end = (range->offset + range->size + align - 1) / align * align;
    half->size = (size_t)(end - half->start);
    half->to = range->buffer + lead(range, half->start) / align * align;
    range->data = half->to + (range->offset - half->start);
    return true;
}

/* Whether what was read is all of the range. */
static bool hit(const struct range_source *source, struct range *range,
                const struct range_half *half, ssize_t got)
{
    bool good = got >= 0 && (uint64_t)got >= range->offset + range->size - half->start;

    if (got == -EINVAL)
        atomic_store(&source->no_direct[range->shard], true);
    range->cut = got >= 0 && !good;
    if (range->cut)
        atomic_store(&source->cut_at[range->shard], half->start + (uint64_t)got);
    handles_release(source->handles, range->shard, half->handle, !good);
    return good;
}

/* Reads a range around the cache. False as of aim(), or it is cut: twice, as an answer may be short
 * for once. */
static bool read_around(const struct range_source *source, struct range *range,
                        const struct handle *through)
{
    bool good = false;

    range->cut = false;
    for (int tries = 0; !good && (tries == 0 || (tries == 1 && range->cut)); tries++) {
        struct range_half half;
        ssize_t got;
        if (!aim(source, range, through, &half))
            return false;
        got = pread(half.handle->fd, half.to, half.size, (off_t)half.start);
        good = hit(source, range, &half, got < 0 ? -errno : got);
    }
    return good;
}

/* Whether storage said lately that the shard ends before the range does, though it has its size.
 * Through the page cache such a range may be zeros: a file system over FUSE fills up what it got no
 * bytes for, if it asked for the size meanwhile. */
static bool is_doubtful(const struct range_source *source, const struct range *range)
{
    uint64_t cut = atomic_load(&source->cut_at[range->shard]);

    return cut && range->offset + range->size > cut;
}

/* Reads a doubtful range around the page cache, by way of memory of its own. */
static const char *read_beside(const struct range_source *source, struct range *range,
                               const struct handle *through)
{
    size_t before = range->header ? INDEX_HEADER_BYTES : 0;
    size_t room = (range->size + before + RANGE_SLACK + RANGE_ALIGN - 1) / RANGE_ALIGN *
                  RANGE_ALIGN;
    struct range whole = {.shard = range->shard,
                          .offset = range->offset - before,
                          .size = range->size + before,
                          .buffer = aligned_alloc(RANGE_ALIGN, room)};
    const char *why = whole.buffer ? NULL : strerror(ENOMEM);

    if (whole.buffer && read_around(source, &whole, through)) {
        if (range->header)
            memcpy(range->header, whole.data, before);
        memcpy(range->buffer, whole.data + before, range->size);
        range->data = range->buffer;
        atomic_store(&source->cut_at[range->shard], 0);
    } else if (whole.buffer) {
        why = whole.cut ? ENDS_EARLY : read_through(range, through->fd);
    }
    free(whole.buffer);
    return why;
}

/* The header of a member of which a later part is read. It was checked when the first part was; but
 * a file whose inode has changed since it was indexed, though not its size and time, may have been
 * written to and its time set back. */
static const char *check_header(const struct index_member *member, int fd)
{
    char header[INDEX_HEADER_BYTES];
    struct iovec part = {header, sizeof header};
    const char *why = read_all(fd, &part, 1, member->offset - sizeof header);

    return why || index_header_check(header) == member->header ? why : RANGE_HEADER_CHANGED;
}

/* Reads a range between two looks at the file, which must show the same file, and unchanged: what
 * is written meanwhile shows in one of its times, whatever the writer sets back, as nobody can set
 * back when an inode changed. Where that alone is another time (a new name, another mode, a time
 * that was set back), it is read again. */
const char *range_read(const struct range_source *source, struct range *range,
                       const struct handle *through, bool *around)
{
    const struct index_shard *shard = &source->index->shards[range->shard];
    struct stat before, after;

    for (int changes = 0; changes < CHANGES_MOST; changes++) {
        const char *why = look(shard, through->fd, &before);
        if (why)
            return why;
        range->unfit = range->cut = false; /* whatever an earlier try left */
        *around = *around && read_around(source, range, through);
        if (range->unfit)
            return "storage has coarser blocks";
        if (range->cut)
            return ENDS_EARLY;
        if (!*around)
            why = is_doubtful(source, range) ? read_beside(source, range, through)
                                             : read_through(range, through->fd);
        if (!why && range->part_of && !same_time(&before.st_ctim, &shard->changed))
            why = check_header(range->part_of, through->fd);
        if (!why)
            why = look(shard, through->fd, &after);
        if (why || same_time(&before.st_ctim, &after.st_ctim))
            return why;
    }
    return "the shard keeps changing";
}

bool range_begin(const struct range_source *source, struct range *range,
                 const struct handle *through, struct range_half *half)
{
    const struct index_shard *shard = &source->index->shards[range->shard];

    return !look(shard, through->fd, &half->before) && aim(source, range, through, half);
}

bool range_end(const struct range_source *source, struct range *range, const struct handle *through,
               const struct range_half *half, ssize_t got)
{
    const struct index_shard *shard = &source->index->shards[range->shard];
    struct stat after;

    return hit(source, range, half, got) &&
           !(range->part_of && !same_time(&half->before.st_ctim, &shard->changed)) &&
           !look(shard, through->fd, &after) && same_time(&half->before.st_ctim, &after.st_ctim);
}
