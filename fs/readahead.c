/* Reads ahead. Owns the pushers and the scout; what to push, fs/follow.c says. */
#include "readahead.h"

#include "listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PUSHERS 16
/* Pushers at work while reads come from the page cache: more would take the readers' processors. */
#define PUSHERS_WARM 2
/* A read that takes longer, on average, comes from storage, which likes many at once. Nanoseconds.
 */
#define SLOW_READ_NS 300000
/* One store. A larger file is pushed in such pieces, up to the second number; the kernel's own
 * read-ahead does the rest. */
#define STORE_BYTES ((size_t)1 << 20)
#define FILE_BYTES  ((uint64_t)64 << 20)

struct readahead {
    struct fuse_session *session;
    struct view *view;
    struct reader *reader;
    struct names *names;
    pthread_t pushers[PUSHERS], scout;
    unsigned started; /* pushers */
    atomic_int scout_thread;
    atomic_bool stopping;
    atomic_ullong files, bytes, unread;
    atomic_ullong read_ns; /* a moving average of what a file's read takes */
    pthread_mutex_t lock;  /* guards all below; held for arithmetic alone */
    pthread_cond_t to_push, to_name;
    struct follow *follow;
    unsigned working; /* pushers that push */
    unsigned waiting; /* pushers that wait for something to push */
    bool scout_waits;
};

static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static unsigned pushers_allowed(const struct readahead *readahead)
{
    return atomic_load_explicit(&readahead->read_ns, memory_order_relaxed) > SLOW_READ_NS
               ? PUSHERS
               : PUSHERS_WARM;
}

/* Stores bytes of a file. False when the kernel does not have the inode, or the mount is gone. */
static bool store(struct readahead *readahead, uint64_t inode, uint64_t at, char *bytes,
                  size_t size)
{
    struct fuse_bufvec vector = FUSE_BUFVEC_INIT(size);

    vector.buf[0].mem = bytes;
    return fuse_lowlevel_notify_store(readahead->session, (fuse_ino_t)inode, (off_t)at, &vector,
                                      0) == 0;
}

/* Whether the kernel has the inode: an empty store tells, for a microsecond. */
static bool is_known(struct readahead *readahead, uint64_t inode)
{
    char none = 0;
    return store(readahead, inode, 0, &none, 0);
}

static void push_member(struct readahead *readahead, uint64_t member, bool distrust, char *buffer)
{
    uint64_t inode = VIEW_MEMBER_INODE + member, done = 0;

    if ((names_has(readahead->names, member) && !distrust) || !is_known(readahead, inode))
        return;
    while (done < FILE_BYTES && !atomic_load(&readahead->stopping)) {
        uint64_t before = now_ns(), took, average;
        ssize_t got = reader_read_ahead(readahead->reader, member, buffer, STORE_BYTES, done);
        if (got < 0)
            atomic_fetch_add(&readahead->unread, 1);
        if (got <= 0)
            break;
        took = now_ns() - before;
        average = atomic_load_explicit(&readahead->read_ns, memory_order_relaxed);
        atomic_store_explicit(&readahead->read_ns, average - average / 16 + took / 16,
                              memory_order_relaxed);
        if (!store(readahead, inode, done, buffer, (size_t)got))
            return;
        done += (uint64_t)got;
        if ((size_t)got < STORE_BYTES)
            break;
    }
    if (done) {
        names_want(readahead->names, member);
        atomic_fetch_add_explicit(&readahead->files, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&readahead->bytes, done, memory_order_relaxed);
    }
}

static void push_sample(struct readahead *readahead, const struct follow_push *push, char *buffer)
{
    const struct dataset *dataset = view_dataset(readahead->view);
    const struct index *index = dataset->index;
    struct order *order = epochs_get(view_epochs(readahead->view), push->epoch);
    uint64_t sample;

    if (!order)
        return;
    sample = order_sample(order, plan_global(&push->plan, push->position));
    epochs_put(view_epochs(readahead->view), order);
    for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++) {
        unsigned bit = index->members[m].field < 62 ? index->members[m].field : 62;
        if (push->fields >> bit & 1)
            push_member(readahead, m, push->distrust, buffer);
    }
    if (push->fields >> 63 && dataset->makes_cls && dataset->labels.of[sample] != LABELS_MISSING)
        store(readahead, VIEW_LABEL_INODE + sample, 0, buffer,
              dataset_label_text(dataset, sample, buffer));
}

static void *be_pusher(void *context)
{
    struct readahead *readahead = context;
    char *buffer = malloc(STORE_BYTES);
    struct follow_push push;

    pthread_mutex_lock(&readahead->lock);
    while (buffer && !atomic_load(&readahead->stopping)) {
        if (readahead->working >= pushers_allowed(readahead) ||
            !follow_next_push(readahead->follow, &push)) {
            readahead->waiting++;
            pthread_cond_wait(&readahead->to_push, &readahead->lock);
            readahead->waiting--;
            continue;
        }
        readahead->working++;
        if (readahead->waiting && readahead->working < pushers_allowed(readahead))
            pthread_cond_signal(&readahead->to_push);
        pthread_mutex_unlock(&readahead->lock);
        push_sample(readahead, &push, buffer);
        pthread_mutex_lock(&readahead->lock);
        readahead->working--;
    }
    pthread_mutex_unlock(&readahead->lock);
    free(buffer);
    return NULL;
}

/* The scout. */

/* Lists the folder from one position to another. Returns up to where the kernel took the names. */
static uint64_t list_names(int folder, const struct follow_names *names)
{
    char buffer[32768];
    uint64_t reached = names->start;
    long got;

    if (lseek(folder, listing_offset(names->start), SEEK_SET) < 0)
        return names->start;
    while (reached < names->end &&
           (got = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
            reached = listing_position(entry->d_off);
            at += entry->d_reclen;
        }
    }
    return reached;
}

static uint64_t look_up(struct readahead *readahead, const struct follow_names *names)
{
    int root = names_open_root(readahead->names), folder = -1;
    uint64_t reached = names->start;
    struct stat status;

    if (root >= 0)
        folder = openat(root, names->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Another inode: `current` has moved on. */
    if (folder >= 0 && fstat(folder, &status) == 0 && status.st_ino == names->folder)
        reached = list_names(folder, names);
    if (folder >= 0)
        close(folder);
    if (root >= 0)
        close(root);
    return reached;
}

static void *be_scout(void *context)
{
    struct readahead *readahead = context;
    struct follow_names names;
    uint64_t reached;

    atomic_store(&readahead->scout_thread, (int)syscall(SYS_gettid));
    pthread_mutex_lock(&readahead->lock);
    while (!atomic_load(&readahead->stopping)) {
        if (!follow_next_names(readahead->follow, &names)) {
            readahead->scout_waits = true;
            pthread_cond_wait(&readahead->to_name, &readahead->lock);
            readahead->scout_waits = false;
            continue;
        }
        pthread_mutex_unlock(&readahead->lock);
        reached = look_up(readahead, &names);
        pthread_mutex_lock(&readahead->lock);
        follow_named(readahead->follow, &names, reached);
        pthread_cond_signal(&readahead->to_push);
    }
    pthread_mutex_unlock(&readahead->lock);
    return NULL;
}

static int start_threads(struct readahead *readahead)
{
    int fault = pthread_create(&readahead->scout, NULL, be_scout, readahead);

    if (fault)
        return -fault;
    while (!fault && readahead->started < PUSHERS) {
        fault = pthread_create(&readahead->pushers[readahead->started], NULL, be_pusher, readahead);
        readahead->started += !fault;
    }
    /* Fewer pushers than wanted are slower, not wrong. */
    if (readahead->started)
        return 0;
    readahead_stop(readahead);
    return -fault;
}

static void release(struct readahead *readahead)
{
    pthread_cond_destroy(&readahead->to_push);
    pthread_cond_destroy(&readahead->to_name);
    pthread_mutex_destroy(&readahead->lock);
    follow_close(readahead->follow);
    free(readahead);
}

int readahead_open(struct readahead **out, struct fuse_session *session, struct view *view,
                   struct reader *reader, struct names *names, uint64_t reader_bytes,
                   uint64_t total_bytes)
{
    struct readahead *readahead = calloc(1, sizeof *readahead);
    int fault;

    if (!readahead)
        return -ENOMEM;
    readahead->session = session;
    readahead->view = view;
    readahead->reader = reader;
    readahead->names = names;
    pthread_mutex_init(&readahead->lock, NULL);
    pthread_cond_init(&readahead->to_push, NULL);
    pthread_cond_init(&readahead->to_name, NULL);
    fault = follow_open(&readahead->follow, view_dataset(view)->index, view_epochs(view),
                        reader_bytes, total_bytes);
    atomic_store(&readahead->stopping, reader_bytes == 0);
    if (!fault && reader_bytes)
        fault = start_threads(readahead);
    if (fault) {
        release(readahead);
        return fault;
    }
    *out = readahead;
    return 0;
}

void readahead_stop(struct readahead *readahead)
{
    if (atomic_exchange(&readahead->stopping, true))
        return;
    pthread_mutex_lock(&readahead->lock);
    pthread_cond_broadcast(&readahead->to_push);
    pthread_cond_broadcast(&readahead->to_name);
    pthread_mutex_unlock(&readahead->lock);
    for (unsigned i = 0; i < readahead->started; i++)
        pthread_join(readahead->pushers[i], NULL);
    pthread_join(readahead->scout, NULL);
}

void readahead_close(struct readahead *readahead)
{
    if (readahead)
        release(readahead);
}

/* Events: noted under the lock, which also wakes who has work now. */

static bool begin_event(struct readahead *readahead)
{
    if (atomic_load_explicit(&readahead->stopping, memory_order_relaxed))
        return false;
    pthread_mutex_lock(&readahead->lock);
    follow_at(readahead->follow, now_ns());
    return true;
}

static void end_event(struct readahead *readahead)
{
    if (readahead->waiting && readahead->working < pushers_allowed(readahead))
        pthread_cond_signal(&readahead->to_push);
    if (readahead->scout_waits)
        pthread_cond_signal(&readahead->to_name);
    pthread_mutex_unlock(&readahead->lock);
}

void readahead_listed(struct readahead *readahead, const struct view_node *folder, uint64_t end)
{
    if (!begin_event(readahead))
        return;
    follow_listed(readahead->follow, folder, end);
    end_event(readahead);
}

void readahead_looked(struct readahead *readahead, const struct view_node *folder,
                      uint64_t position)
{
    if (!begin_event(readahead))
        return;
    follow_looked(readahead->follow, folder, position);
    end_event(readahead);
}

void readahead_read(struct readahead *readahead, uint64_t member, bool again)
{
    if (!begin_event(readahead))
        return;
    follow_read(readahead->follow, member, again);
    end_event(readahead);
}

void readahead_read_label(struct readahead *readahead, uint64_t sample)
{
    if (!begin_event(readahead))
        return;
    follow_read_label(readahead->follow, sample);
    end_event(readahead);
}

void readahead_left(struct readahead *readahead, uint64_t folder)
{
    if (!begin_event(readahead))
        return;
    follow_left(readahead->follow, folder);
    end_event(readahead);
}

bool readahead_is_scout(const struct readahead *readahead, pid_t thread)
{
    return atomic_load_explicit(&readahead->scout_thread, memory_order_relaxed) == thread;
}

struct readahead_figures readahead_figures(struct readahead *readahead)
{
    struct readahead_figures figures = {
        .files = atomic_load(&readahead->files),
        .bytes = atomic_load(&readahead->bytes),
        .unread = atomic_load(&readahead->unread),
    };

    pthread_mutex_lock(&readahead->lock);
    figures.ahead = follow_bytes_ahead(readahead->follow);
    pthread_mutex_unlock(&readahead->lock);
    return figures;
}

size_t readahead_readers(struct readahead *readahead, struct follow_reader *readers, size_t room)
{
    size_t count;

    pthread_mutex_lock(&readahead->lock);
    count = follow_readers(readahead->follow, now_ns(), readers, room);
    pthread_mutex_unlock(&readahead->lock);
    return count;
}
