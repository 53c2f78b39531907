/* Members' bytes. Owns the shards' descriptors; never caches a byte (that is the page cache's job).
 */
#include "reader.h"

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
#include <sys/uio.h>
#include <unistd.h>

/* Descriptors left for everything that is not a shard. */
#define SPARE_FILES 128
#define LEAST_FILES 16

struct slot {
    int fd;         /* -1: closed. Guarded by reader.lock */
    unsigned users; /* reads under way. Guarded by reader.lock */
    uint64_t used;  /* when it was last taken, in takes. Guarded by reader.lock */
    atomic_ullong errors;
    atomic_bool complained; /* cleared by a read that succeeds */
};

struct reader {
    const struct index *index;
    struct slot *slots; /* one a shard */
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

int reader_open(struct reader **out, const struct index *index, size_t most_open)
{
    struct reader *reader = calloc(1, sizeof *reader);

    if (!reader)
        return -ENOMEM;
    reader->index = index;
    reader->most_open = most_open ? most_open : file_limit();
    reader->slots = calloc(index->shard_count + 1, sizeof *reader->slots);
    if (!reader->slots) {
        free(reader);
        return -ENOMEM;
    }
    for (size_t i = 0; i < index->shard_count; i++)
        reader->slots[i].fd = -1;
    pthread_mutex_init(&reader->lock, NULL);
    *out = reader;
    return 0;
}

void reader_close(struct reader *reader)
{
    if (!reader)
        return;
    for (size_t i = 0; i < reader->index->shard_count; i++)
        if (reader->slots[i].fd >= 0)
            close(reader->slots[i].fd);
    pthread_mutex_destroy(&reader->lock);
    free(reader->slots);
    free(reader);
}

/* Takes out the descriptor that was not used for longest; -1 when all are in use. The lock is held.
 */
static int evict(struct reader *reader)
{
    struct slot *oldest = NULL;
    int fd;

    for (size_t i = 0; i < reader->index->shard_count; i++) {
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
static int open_shard(struct reader *reader, size_t shard)
{
    for (;;) {
        int fd = open(reader->index->shards[shard].path,
                      O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
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
static int take(struct reader *reader, size_t shard)
{
    struct slot *slot = &reader->slots[shard];
    int fd, surplus = -1, fault = 0;

    pthread_mutex_lock(&reader->lock);
    slot->used = ++reader->takes;
    slot->users++;
    fd = slot->fd;
    pthread_mutex_unlock(&reader->lock);
    if (fd >= 0)
        return fd;
    fd = open_shard(reader, shard);
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
static void release(struct reader *reader, size_t shard, bool faulty)
{
    struct slot *slot = &reader->slots[shard];
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
    struct slot *slot = &reader->slots[shard];

    atomic_fetch_add(&slot->errors, 1);
    if (!atomic_exchange(&slot->complained, true))
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

static ssize_t read_checked(struct reader *reader, uint64_t member, void *buffer, size_t size,
                            uint64_t from, bool quietly)
{
    const struct index_member *at = &reader->index->members[member];
    uint64_t length = at->size, offset = at->offset + from;
    size_t shard = index_shard_of_member(reader->index, member);
    const char *why;
    int fd;

    if (from >= length)
        return 0;
    if (size > length - from)
        size = (size_t)(length - from);
    fd = take(reader, shard);
    if (fd < 0)
        return quietly ? -EIO : fail(reader, shard, offset, strerror(-fd));
    why = changed(&reader->index->shards[shard], fd);
    if (!why)
        why = read_member(fd, at, buffer, size, from);
    /* Asked again afterwards: a shard that is being rewritten must not slip through between the
     * two. */
    if (!why)
        why = changed(&reader->index->shards[shard], fd);
    release(reader, shard, why != NULL);
    if (why)
        return quietly ? -EIO : fail(reader, shard, offset, why);
    atomic_store_explicit(&reader->slots[shard].complained, false, memory_order_relaxed);
    return (ssize_t)size;
}

ssize_t reader_read(struct reader *reader, uint64_t member, void *buffer, size_t size,
                    uint64_t from)
{
    return read_checked(reader, member, buffer, size, from, false);
}

ssize_t reader_read_ahead(struct reader *reader, uint64_t member, void *buffer, size_t size,
                          uint64_t from)
{
    return read_checked(reader, member, buffer, size, from, true);
}

uint64_t reader_errors(const struct reader *reader, size_t shard)
{
    return atomic_load(&reader->slots[shard].errors);
}
