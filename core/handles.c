/* A bounded set of open shards. Owns the descriptors; never reads a byte. */
#include "handles.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Descriptors left for everything that is not a shard. */
#define SPARE_FILES 128
#define LEAST_FILES 16

enum way { THROUGH_CACHE, AROUND_CACHE, WAYS };

struct slot {
    struct handle *handle; /* NULL: closed. Guarded by handles.lock */
    uint64_t used;         /* when it was last taken, in takes. Guarded by handles.lock */
};

struct handles {
    const struct index *index;
    struct slot *slots; /* WAYS a shard */
    size_t most_open;
    pthread_mutex_t lock; /* never held over a system call */
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

static size_t slot_count(const struct handles *handles)
{
    return handles->index->shard_count * WAYS;
}

int handles_open(struct handles **out, const struct index *index, size_t most_open)
{
    struct handles *handles = calloc(1, sizeof *handles);

    if (!handles)
        return -ENOMEM;
    handles->index = index;
    handles->most_open = most_open ? most_open : file_limit();
    handles->slots = calloc(slot_count(handles) + 1, sizeof *handles->slots);
    if (!handles->slots) {
        free(handles);
        return -ENOMEM;
    }
    pthread_mutex_init(&handles->lock, NULL);
    *out = handles;
    return 0;
}

static void close_handle(struct handle *handle)
{
    if (handle)
        close(handle->fd);
    free(handle);
}

void handles_close(struct handles *handles)
{
    if (!handles)
        return;
    for (size_t i = 0; i < slot_count(handles); i++)
        close_handle(handles->slots[i].handle);
    pthread_mutex_destroy(&handles->lock);
    free(handles->slots);
    free(handles);
}

/* Takes a slot's handle out, so that the next read opens the shard anew. Returns it when it is to
 * be closed, NULL when its last user will. The lock is held. */
static struct handle *let_go(struct handles *handles, struct slot *slot)
{
    struct handle *handle = slot->handle;

    slot->handle = NULL;
    handle->kept = false;
    handles->open--;
    return handle->users ? NULL : handle;
}

/* Takes out the handle that was not used for longest; NULL when all are in use. The lock is held.
 */
static struct handle *evict(struct handles *handles)
{
    struct slot *oldest = NULL;

    for (size_t i = 0; i < slot_count(handles); i++) {
        struct slot *slot = &handles->slots[i];
        if (slot->handle && slot->handle->users == 0 && (!oldest || slot->used < oldest->used))
            oldest = slot;
    }
    return oldest ? let_go(handles, oldest) : NULL;
}

/* open(2). Where the process has no descriptor left, whatever took them, another shard is closed
 * for it. Returns a descriptor or a negative errno. */
static int open_file(struct handles *handles, const char *path, int flags)
{
    for (;;) {
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags);
        int fault = errno;
        struct handle *victim;
        if (fd >= 0)
            return fd;
        if (fault != EMFILE && fault != ENFILE)
            return -fault;
        pthread_mutex_lock(&handles->lock);
        victim = evict(handles);
        pthread_mutex_unlock(&handles->lock);
        if (!victim)
            return -fault;
        close_handle(victim);
    }
}

/* Finer than HANDLES_ALIGN_MOST where the kernel says so (Linux 6.1). */
static unsigned alignment(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx status;

    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
        (status.stx_mask & STATX_DIOALIGN) && status.stx_dio_offset_align) {
        unsigned align = status.stx_dio_offset_align > status.stx_dio_mem_align
                             ? status.stx_dio_offset_align
                             : status.stx_dio_mem_align;
        if (align <= HANDLES_ALIGN_MOST)
            return align;
    }
#endif
    return HANDLES_ALIGN_MOST;
}

/* Opens the shard: by its name, or, around the page cache, what `through` has open. 0 or a negative
 * errno. */
static int open_handle(struct handles *handles, size_t shard, const struct handle *through,
                       struct handle **out)
{
    struct handle *handle = calloc(1, sizeof *handle);
    struct stat status;
    char again[40];
    int fault;

    if (!handle)
        return -ENOMEM;
    if (through) {
        snprintf(again, sizeof again, "/proc/self/fd/%d", through->fd);
        handle->fd = open_file(handles, again, O_DIRECT);
    } else {
        handle->fd = open_file(handles, index_shard_file(&handles->index->shards[shard]), 0);
    }
    fault = handle->fd < 0 ? handle->fd : fstat(handle->fd, &status) ? -errno : 0;
    if (!fault && through && (status.st_ino != through->inode || status.st_dev != through->device))
        fault = -ESTALE;
    if (fault) {
        if (handle->fd >= 0)
            close(handle->fd);
        free(handle);
        return fault;
    }
    handle->device = status.st_dev;
    handle->inode = status.st_ino;
    handle->align = through ? alignment(handle->fd) : 1;
    *out = handle;
    return 0;
}

static bool is_same_file(const struct handle *a, const struct handle *b)
{
    return a->inode == b->inode && a->device == b->device;
}

/* The slot's handle, if it has one, and one of the file that `through` has; counted as used. */
static struct handle *take_kept(struct handles *handles, struct slot *slot,
                                const struct handle *through)
{
    struct handle *handle, *old = NULL;

    pthread_mutex_lock(&handles->lock);
    slot->used = ++handles->takes;
    if (slot->handle && through && !is_same_file(slot->handle, through))
        old = let_go(handles, slot);
    handle = slot->handle;
    if (handle)
        handle->users++;
    pthread_mutex_unlock(&handles->lock);
    close_handle(old);
    return handle;
}

/* `through` as in handles_take_around(); NULL: through the cache. */
static int take(struct handles *handles, size_t shard, const struct handle *through,
                struct handle **out, bool *fresh)
{
    struct slot *slot = &handles->slots[shard * WAYS + (through ? AROUND_CACHE : THROUGH_CACHE)];
    struct handle *handle = take_kept(handles, slot, through), *surplus = NULL;
    int fault = 0;

    *fresh = !handle;
    if (!handle)
        fault = open_handle(handles, shard, through, &handle);
    if (fault)
        return fault;
    *out = handle;
    if (!*fresh)
        return 0;
    pthread_mutex_lock(&handles->lock);
    if (slot->handle &&
        is_same_file(slot->handle, handle)) { /* another thread opened it meanwhile */
        surplus = handle;
        *out = slot->handle;
    } else if (!slot->handle) {
        if (handles->open >= handles->most_open)
            surplus = evict(handles);
        slot->handle = handle;
        handle->kept = true;
        handles->open++;
    }
    (*out)->users++;
    pthread_mutex_unlock(&handles->lock);
    close_handle(surplus);
    return 0;
}

void handles_release(struct handles *handles, size_t shard, struct handle *handle, bool faulty)
{
    bool last;

    pthread_mutex_lock(&handles->lock);
    if (faulty && handle->kept) {
        for (int way = 0; way < WAYS; way++)
            if (handles->slots[shard * WAYS + (size_t)way].handle == handle)
                (void)let_go(handles, &handles->slots[shard * WAYS + (size_t)way]);
    }
    last = --handle->users == 0 && !handle->kept;
    pthread_mutex_unlock(&handles->lock);
    if (last)
        close_handle(handle);
}

int handles_take(struct handles *handles, size_t shard, struct handle **out, bool *fresh)
{
    return take(handles, shard, NULL, out, fresh);
}

int handles_take_around(struct handles *handles, size_t shard, const struct handle *through,
                        struct handle **out)
{
    bool fresh;

    return take(handles, shard, through, out, &fresh);
}
