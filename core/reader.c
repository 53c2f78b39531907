/* Members' bytes. Owns the shards' descriptors, two a shard: through the page cache, and around it.
 * Never caches a byte (that is the page cache's job). */
#include "reader.h"

#include "clock.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Descriptors left for everything that is not a shard. */
#define SPARE_FILES 128
#define LEAST_FILES 16

#define PAGE_BYTES 4096
/* A read ahead that takes longer, on average, comes from storage even where cachestat cannot tell.
 * Nanoseconds. */
#define SLOW_READ_NS 300000

enum way { THROUGH_CACHE, AROUND_CACHE, WAYS };

struct slot {
    int fd;         /* -1: closed. Guarded by reader.lock */
    unsigned users; /* reads under way. Guarded by reader.lock */
    uint64_t used;  /* when it was last taken, in takes. Guarded by reader.lock */
};

struct shard_state {
    atomic_ullong errors;
    atomic_bool complained; /* cleared by a read that succeeds */
    atomic_bool no_direct;  /* its file system has no O_DIRECT */
};

struct reader {
    const struct index *index;
    enum reader_direct direct;
    struct slot *slots; /* WAYS a shard */
    struct shard_state *shards;
    atomic_bool no_cachestat;
    atomic_ullong reads, bytes, direct_reads, failed, ns;
    atomic_ullong ahead_ns; /* a moving average of what a read takes */
    atomic_uint coldness;   /* a moving average of reads that found nothing in the cache; of 1024 */
    size_t most_open;
    pthread_mutex_t lock; /* never held over a system call but close() */
    size_t open;          /* guarded by lock */
    uint64_t takes;       /* guarded by lock */
};

static size_t file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit))
        return LEAST_FILES;
    if (limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    return limit.rlim_cur > SPARE_FILES + LEAST_FILES ? (size_t)limit.rlim_cur - SPARE_FILES
                                                      : LEAST_FILES;
}

static size_t slot_count(const struct reader *reader)
{
    return reader->index->shard_count * WAYS;
}

int reader_open(struct reader **out, const struct index *index, size_t most_open,
                enum reader_direct direct)
{
    struct reader *reader = calloc(1, sizeof *reader);

    if (!reader)
        return -ENOMEM;
    reader->index = index;
    reader->direct = direct;
    reader->most_open = most_open ? most_open : file_limit();
    reader->slots = calloc(slot_count(reader) + 1, sizeof *reader->slots);
    reader->shards = calloc(index->shard_count + 1, sizeof *reader->shards);
    if (!reader->slots || !reader->shards) {
        free(reader->slots);
        free(reader->shards);
        free(reader);
        return -ENOMEM;
    }
    for (size_t i = 0; i < slot_count(reader); i++)
        reader->slots[i].fd = -1;
    pthread_mutex_init(&reader->lock, NULL);
    *out = reader;
    return 0;
}

void reader_close(struct reader *reader)
{
    if (!reader)
        return;
    for (size_t i = 0; i < slot_count(reader); i++)
        if (reader->slots[i].fd >= 0)
            close(reader->slots[i].fd);
    pthread_mutex_destroy(&reader->lock);
    free(reader->slots);
    free(reader->shards);
    free(reader);
}

/* Takes out the descriptor that was not used for longest; -1 when all are in use. The lock is held.
 */
static int evict(struct reader *reader)
{
    struct slot *oldest = NULL;
    int fd;

    for (size_t i = 0; i < slot_count(reader); i++) {
        struct slot *slot = &reader->slots[i];
        if (slot->fd >= 0 && slot->users == 0 && (!oldest || slot->used < oldest->used))
            oldest = slot;
    }
    if (!oldest)
        return -1;
    fd = oldest->fd;
    oldest->fd = -1;
    reader->open--;
    return fd;
}

/* Opens it. Where the process has no descriptor left, whatever took them, another shard is closed
 * for it. */
static int open_shard(struct reader *reader, size_t shard, enum way way)
{
    for (;;) {
        int fd = open(reader->index->shards[shard].path, O_RDONLY | O_CLOEXEC | O_NOCTTY |
                                                             O_NONBLOCK |
                                                             (way == AROUND_CACHE ? O_DIRECT : 0));
        int fault = errno, victim;
        if (fd >= 0)
            return fd;
        if (fault != EMFILE && fault != ENFILE)
            return -fault;
        pthread_mutex_lock(&reader->lock);
        victim = evict(reader);
        pthread_mutex_unlock(&reader->lock);
        if (victim < 0)
            return -fault;
        close(victim);
    }
}

/* A descriptor of the shard, good until release(). */
static int take(struct reader *reader, size_t shard, enum way way)
{
    struct slot *slot = &reader->slots[shard * WAYS + way];
    int fd, surplus = -1, fault = 0;

    pthread_mutex_lock(&reader->lock);
    slot->used = ++reader->takes;
    slot->users++;
    fd = slot->fd;
    pthread_mutex_unlock(&reader->lock);
    if (fd >= 0)
        return fd;
    fd = open_shard(reader, shard, way);
    if (fd < 0)
        fault = -fd;
    pthread_mutex_lock(&reader->lock);
    if (fd >= 0 && slot->fd >= 0) { /* another thread opened it meanwhile */
        surplus = fd;
        fd = slot->fd;
    } else if (fd >= 0) {
        if (reader->open >= reader->most_open)
            surplus = evict(reader);
        slot->fd = fd;
        reader->open++;
    } else {
        slot->users--;
    }
    pthread_mutex_unlock(&reader->lock);
    if (surplus >= 0)
        close(surplus);
    return fd >= 0 ? fd : -fault;
}

/* A descriptor that showed a fault is closed with its last user, so that the next read opens the
 * path again: the shard may have been put back, or its file system mounted anew. */
static void release(struct reader *reader, size_t shard, enum way way, bool faulty)
{
    struct slot *slot = &reader->slots[shard * WAYS + way];
    int closing = -1;

    pthread_mutex_lock(&reader->lock);
    slot->users--;
    if (faulty && slot->users == 0 && slot->fd >= 0) {
        closing = slot->fd;
        slot->fd = -1;
        reader->open--;
    }
    pthread_mutex_unlock(&reader->lock);
    if (closing >= 0)
        close(closing);
}

static ssize_t fail(struct reader *reader, size_t shard, uint64_t offset, const char *why)
{
    struct shard_state *state = &reader->shards[shard];

    atomic_fetch_add(&state->errors, 1);
    if (!atomic_exchange(&state->complained, true))
        report_error("%s: offset %llu: %s; its samples answer EIO",
                     reader->index->shards[shard].path, (unsigned long long)offset, why);
    return -EIO;
}

/* NULL, or why the file is not the one that was indexed. */
static const char *changed(const struct index_shard *shard, int fd)
{
    struct stat status;

    if (fstat(fd, &status))
        return strerror(errno);
    if ((uint64_t)status.st_size != shard->size)
        return "the shard's size changed since it was indexed";
    if (status.st_mtim.tv_sec != shard->modified.tv_sec ||
        status.st_mtim.tv_nsec != shard->modified.tv_nsec)
        return "the shard was modified since it was indexed";
    return NULL;
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
            return "the shard ends early";
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

/* How much of a range of a file is in the page cache; CACHED: at least half. */
enum cached { NOT_CACHED, PARTLY_CACHED, CACHED, UNKNOWN };

static enum cached look_in_cache(struct reader *reader, int fd, uint64_t offset, uint64_t size)
{
    /* struct cachestat_range and struct cachestat of linux/mman.h, Linux 6.5 */
    uint64_t range[2] = {offset, size};
    struct {
        uint64_t cached, dirty, writeback, evicted, recently_evicted;
    } pages;
    uint64_t count = (offset + size + PAGE_BYTES - 1) / PAGE_BYTES - offset / PAGE_BYTES;

    if (atomic_load_explicit(&reader->no_cachestat, memory_order_relaxed))
        return UNKNOWN;
    if (syscall(451 /* cachestat */, fd, range, &pages, 0)) {
        /* EPERM is about one file's owner; the others are about the kernel. */
        if (errno != EPERM)
            atomic_store(&reader->no_cachestat, true);
        return UNKNOWN;
    }
    return pages.cached == 0 ? NOT_CACHED : pages.cached * 2 < count ? PARTLY_CACHED : CACHED;
}

static bool goes_around(struct reader *reader, size_t shard, int fd, uint64_t offset, uint64_t size)
{
    if (reader->direct == READER_DIRECT_NEVER || atomic_load(&reader->shards[shard].no_direct))
        return false;
    switch (look_in_cache(reader, fd, offset, size)) {
    case UNKNOWN:
        return reader->direct == READER_DIRECT_ALWAYS;
    case CACHED:
        return false;
    case NOT_CACHED:
    case PARTLY_CACHED:
        break;
    }
    return true;
}

static void count(struct reader *reader, uint64_t bytes, bool direct, uint64_t since)
{
    atomic_fetch_add_explicit(&reader->reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&reader->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&reader->direct_reads, direct, memory_order_relaxed);
    atomic_fetch_add_explicit(&reader->ns, clock_now_ns() - since, memory_order_relaxed);
}

static void learn(struct reader *reader, bool around, uint64_t took)
{
    uint64_t average = atomic_load_explicit(&reader->ahead_ns, memory_order_relaxed);
    unsigned cold = atomic_load_explicit(&reader->coldness, memory_order_relaxed);

    atomic_store_explicit(&reader->ahead_ns, average - average / 16 + took / 16,
                          memory_order_relaxed);
    atomic_store_explicit(&reader->coldness, cold - cold / 16 + (around ? 64 : 0),
                          memory_order_relaxed);
}

/* Reads that somebody waits for. */

/* Reads `size` bytes of a member; with its first byte comes its header, which must be the one that
 * was indexed: a shard rewritten in place under its old size and time is seen by that. */
static const char *read_member(int fd, const struct index_member *member, void *buffer, size_t size,
                               uint64_t from)
{
    char header[INDEX_HEADER_BYTES];
    struct iovec parts[2] = {{header, sizeof header}, {buffer, size}};
    const char *why;

    if (from > 0)
        return read_all(fd, parts + 1, 1, member->offset + from);
    why = read_all(fd, parts, 2, member->offset - sizeof header);
    if (!why && index_header_check(header) != member->header)
        why = "the member's header changed since it was indexed";
    return why;
}

ssize_t reader_read(struct reader *reader, uint64_t member, void *buffer, size_t size,
                    uint64_t from)
{
    const struct index_member *at = &reader->index->members[member];
    uint64_t length = at->size, offset = at->offset + from, since;
    size_t shard = index_shard_of_member(reader->index, member);
    const char *why;
    bool cold;
    int fd;

    if (from >= length)
        return 0;
    if (size > length - from)
        size = (size_t)(length - from);
    since = clock_now_ns();
    fd = take(reader, shard, THROUGH_CACHE);
    if (fd < 0)
        return fail(reader, shard, offset, strerror(-fd));
    cold = size >= PAGE_BYTES && reader->direct != READER_DIRECT_NEVER &&
           look_in_cache(reader, fd, offset, size) == NOT_CACHED;
    why = changed(&reader->index->shards[shard], fd);
    if (!why)
        why = read_member(fd, at, buffer, size, from);
    /* Asked again afterwards: a shard that is being rewritten must not slip through between the
     * two. */
    if (!why)
        why = changed(&reader->index->shards[shard], fd);
    /* Whole pages alone go: those at the ends may hold a neighbour, which is often read next. */
    if (!why && cold)
        posix_fadvise(fd, (off_t)offset, (off_t)size, POSIX_FADV_DONTNEED);
    release(reader, shard, THROUGH_CACHE, why != NULL);
    if (why)
        return fail(reader, shard, offset, why);
    count(reader, size, false, since);
    learn(reader, cold, clock_now_ns() - since);
    atomic_store_explicit(&reader->shards[shard].complained, false, memory_order_relaxed);
    return (ssize_t)size;
}

/* Reads ahead. */

/* One range of a shard; `data` is where in the buffer its first byte is. */
struct range {
    size_t shard;
    uint64_t offset;
    size_t size;
    char *buffer, *data;
};

static const char *read_through(struct reader *reader, struct range *range, int fd)
{
    struct iovec part = {range->buffer, range->size};
    const char *why = changed(&reader->index->shards[range->shard], fd);

    range->data = range->buffer;
    if (!why)
        why = read_all(fd, &part, 1, range->offset);
    return why ? why : changed(&reader->index->shards[range->shard], fd);
}

/* False: it has to be read through the cache after all. */
static bool read_around(struct reader *reader, struct range *range)
{
    const struct index_shard *shard = &reader->index->shards[range->shard];
    uint64_t start = range->offset / READER_ALIGN * READER_ALIGN;
    uint64_t end = (range->offset + range->size + READER_ALIGN - 1) / READER_ALIGN * READER_ALIGN;
    int fd = take(reader, range->shard, AROUND_CACHE);
    ssize_t got;
    bool good;

    if (fd < 0) {
        if (fd == -EINVAL)
            atomic_store(&reader->shards[range->shard].no_direct, true);
        return false;
    }
    range->data = range->buffer + (range->offset - start);
    good = !changed(shard, fd);
    if (good) {
        got = pread(fd, range->buffer, (size_t)(end - start), (off_t)start);
        if (got < 0 && errno == EINVAL)
            atomic_store(&reader->shards[range->shard].no_direct, true);
        good = got >= 0 && (uint64_t)got >= range->offset + range->size - start;
    }
    good = good && !changed(shard, fd);
    release(reader, range->shard, AROUND_CACHE, !good);
    return good;
}

static int read_range(struct reader *reader, struct range *range)
{
    uint64_t since = clock_now_ns(), took;
    int fd = take(reader, range->shard, THROUGH_CACHE);
    const char *why = fd < 0 ? "cannot be opened" : NULL;
    bool around = false;

    if (!why) {
        around = goes_around(reader, range->shard, fd, range->offset, range->size) &&
                 read_around(reader, range);
        if (!around)
            why = read_through(reader, range, fd);
        release(reader, range->shard, THROUGH_CACHE, why != NULL);
    }
    if (why) {
        atomic_fetch_add_explicit(&reader->failed, 1, memory_order_relaxed);
        return -EIO;
    }
    took = clock_now_ns() - since;
    learn(reader, around, took);
    count(reader, range->size, around, since);
    return 0;
}

ssize_t reader_read_ahead(struct reader *reader, uint64_t member, char *buffer, size_t room,
                          uint64_t from, size_t size, char **data)
{
    const struct index_member *at = &reader->index->members[member];
    size_t before = from == 0 ? INDEX_HEADER_BYTES : 0;
    struct range range = {.shard = index_shard_of_member(reader->index, member), .buffer = buffer};
    int fault;

    if (from >= at->size)
        return 0;
    if (size > at->size - from)
        size = (size_t)(at->size - from);
    if (size > room - READER_SLACK)
        size = room - READER_SLACK;
    range.offset = at->offset + from - before;
    range.size = size + before;
    fault = read_range(reader, &range);
    if (fault)
        return fault;
    if (before && index_header_check(range.data) != at->header)
        return -EIO;
    *data = range.data + before;
    return (ssize_t)size;
}

int reader_read_members(struct reader *reader, const uint64_t *members, size_t count, char *buffer,
                        size_t room, char **data)
{
    const struct index_member *all = reader->index->members;
    struct range range = {.buffer = buffer, .offset = UINT64_MAX};
    uint64_t end = 0;
    int fault;

    for (size_t i = 0; i < count; i++) {
        const struct index_member *at = &all[members[i]];
        if (at->offset - INDEX_HEADER_BYTES < range.offset)
            range.offset = at->offset - INDEX_HEADER_BYTES;
        if (at->offset + at->size > end)
            end = at->offset + at->size;
    }
    if (count == 0 || end - range.offset > room - READER_SLACK)
        return count ? -E2BIG : 0;
    range.shard = index_shard_of_member(reader->index, members[0]);
    range.size = (size_t)(end - range.offset);
    fault = read_range(reader, &range);
    if (fault)
        return fault;
    for (size_t i = 0; i < count; i++) {
        const struct index_member *at = &all[members[i]];
        data[i] = range.data + (at->offset - range.offset);
        if (index_header_check(data[i] - INDEX_HEADER_BYTES) != at->header)
            return -EIO;
    }
    return 0;
}

uint64_t reader_errors(const struct reader *reader, size_t shard)
{
    return atomic_load(&reader->shards[shard].errors);
}

struct reader_figures reader_figures(const struct reader *reader)
{
    return (struct reader_figures){
        .reads = atomic_load(&reader->reads),
        .bytes = atomic_load(&reader->bytes),
        .direct_reads = atomic_load(&reader->direct_reads),
        .failed = atomic_load(&reader->failed),
        .ns = atomic_load(&reader->ns),
    };
}

struct reader_mood reader_mood(const struct reader *reader)
{
    uint64_t ns = atomic_load_explicit(&reader->ahead_ns, memory_order_relaxed);
    unsigned coldness = atomic_load_explicit(&reader->coldness, memory_order_relaxed);

    return (struct reader_mood){.cold = coldness > 256 || ns > SLOW_READ_NS, .ns = ns};
}
