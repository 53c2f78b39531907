/* Names in the kernel's cache. Owns one thread, its queue, and two bits a member; never holds a
 * lock that a handler takes while it waits for the kernel. */
#include "names.h"

#include "../core/report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A walk starts when so many members wait for a name, or the first of them for so long. */
#define WALK_MEMBERS  2048
#define WALK_DELAY_NS 50000000L

struct job {
    fuse_req_t request; /* to answer when done; NULL: an invalidation of `inode` */
    size_t size;
    uint64_t inode; /* the folder, or the member to invalidate */
    char *names;
    size_t bytes;
    struct job *next;
};

struct names {
    struct fuse_session *session;
    struct view *view;
    char *mountpoint;
    pthread_t thread;
    atomic_ulong *wanted; /* bit a member: it was read, and shall have a name */
    atomic_ulong *kept;   /* bit a member: it was given one */
    uint64_t words;
    atomic_ullong waiting; /* members wanted and not kept, about */
    bool can_clone;        /* the thread's own */
    pthread_mutex_t lock;  /* guards the queue and `stopping`; never held over a system call */
    pthread_cond_t wake;
    struct job *first, **last;
    bool stopping;
};

#define BITS (8 * sizeof(unsigned long))

static unsigned long bit(uint64_t member)
{
    return 1ul << (member % BITS);
}

/* A detached clone of the mount, or -1 with errno. */
static int clone_mount(const char *path)
{
#ifdef SYS_open_tree
    return (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
#else
    (void)path;
    errno = ENOSYS;
    return -1;
#endif
}

/* The keeper's folder, or -1. Whatever else is mounted there by now does not have its name. */
static int open_keeper(struct names *names, bool answering)
{
    int root = -1, keeper;

    if (names->can_clone) {
        root = clone_mount(names->mountpoint);
        if (root < 0 && (errno == EPERM || errno == ENOSYS || errno == EINVAL))
            names->can_clone = false;
    }
    if (root < 0 && answering)
        root = open(names->mountpoint, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -1;
    keeper = openat(root, view_keeper_name(names->view), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    close(root);
    return keeper;
}

/* Lists the keeper's folder: each entry that the kernel takes from it is a name alive. */
static void walk(struct names *names, bool answering)
{
    char buffer[32768];
    int keeper;

    atomic_store(&names->waiting, 0);
    keeper = open_keeper(names, answering);
    if (keeper < 0) {
        if (!names->can_clone)
            atomic_store(&names->waiting, 1); /* they wait for the next switch */
        return;
    }
    while (syscall(SYS_getdents64, keeper, buffer, sizeof buffer) > 0)
        ;
    close(keeper);
}

static void drop(struct names *names, const struct job *job)
{
    for (const char *name = job->names; name && name < job->names + job->bytes;) {
        size_t length = strlen(name);
        int fault = fuse_lowlevel_notify_inval_entry(names->session, job->inode, name, length);
        /* ENOENT: the kernel did not have it. */
        if (fault && fault != -ENOENT && fault != -ENOTCONN && fault != -ENODEV)
            report_error("current/%s: the kernel did not drop it: %s", name, strerror(-fault));
        name += length + 1;
    }
}

static void run(struct names *names, struct job *job)
{
    if (job->request) {
        if (atomic_load(&names->waiting))
            walk(names, true);
        drop(names, job);
        fuse_reply_write(job->request, job->size);
    } else {
        fuse_lowlevel_notify_inval_inode(names->session, job->inode, 0, 0);
    }
    free(job->names);
    free(job);
}

/* Waits for a job, or for members that wait for names. NULL: none of the first; *stop: end. */
static struct job *next_job(struct names *names, bool *stop)
{
    struct timespec until;
    bool timed_out = false;
    struct job *job;

    pthread_mutex_lock(&names->lock);
    while (!names->first && !names->stopping && !timed_out &&
           atomic_load(&names->waiting) < WALK_MEMBERS) {
        if (names->can_clone && atomic_load(&names->waiting)) {
            clock_gettime(CLOCK_MONOTONIC, &until);
            until.tv_nsec += WALK_DELAY_NS;
            if (until.tv_nsec >= 1000000000L) {
                until.tv_nsec -= 1000000000L;
                until.tv_sec++;
            }
            timed_out = pthread_cond_timedwait(&names->wake, &names->lock, &until) == ETIMEDOUT;
        } else {
            pthread_cond_wait(&names->wake, &names->lock);
        }
    }
    job = names->first;
    if (job) {
        names->first = job->next;
        if (!names->first)
            names->last = &names->first;
    }
    *stop = !job && names->stopping;
    pthread_mutex_unlock(&names->lock);
    return job;
}

static void *work(void *context)
{
    struct names *names = context;
    bool stop = false;

    while (!stop) {
        struct job *job = next_job(names, &stop);
        if (job)
            run(names, job);
        else if (!stop && names->can_clone)
            walk(names, false);
        else if (!stop)
            atomic_store(&names->waiting, 1); /* they wait for the next switch */
    }
    return NULL;
}

static int start(struct names *names)
{
    pthread_condattr_t attributes;
    int fault;

    pthread_mutex_init(&names->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&names->wake, &attributes);
    pthread_condattr_destroy(&attributes);
    fault = pthread_create(&names->thread, NULL, work, names);
    if (fault) {
        pthread_cond_destroy(&names->wake);
        pthread_mutex_destroy(&names->lock);
    }
    return -fault;
}

static void release(struct names *names)
{
    free(names->mountpoint);
    free(names->wanted);
    free(names->kept);
    free(names);
}

int names_open(struct names **out, struct fuse_session *session, struct view *view,
               const char *mountpoint)
{
    struct names *names = calloc(1, sizeof *names);
    int fault;

    if (!names)
        return -ENOMEM;
    names->session = session;
    names->view = view;
    names->mountpoint = strdup(mountpoint);
    names->words = view_dataset(view)->index->member_count / BITS + 1;
    names->wanted = calloc(names->words, sizeof *names->wanted);
    names->kept = calloc(names->words, sizeof *names->kept);
    names->last = &names->first;
    names->can_clone = true;
    fault = names->mountpoint && names->wanted && names->kept ? start(names) : -ENOMEM;
    if (fault) {
        release(names);
        return fault;
    }
    *out = names;
    return 0;
}

void names_stop(struct names *names)
{
    pthread_mutex_lock(&names->lock);
    names->stopping = true;
    pthread_cond_signal(&names->wake);
    pthread_mutex_unlock(&names->lock);
    pthread_join(names->thread, NULL);
}

void names_close(struct names *names)
{
    if (!names)
        return;
    while (names->first) { /* came after the stop: the kernel hears of the end by itself */
        struct job *job = names->first;
        names->first = job->next;
        if (job->request)
            fuse_reply_err(job->request, EIO);
        free(job->names);
        free(job);
    }
    pthread_cond_destroy(&names->wake);
    pthread_mutex_destroy(&names->lock);
    release(names);
}

void names_want(struct names *names, uint64_t member)
{
    atomic_ulong *word = &names->wanted[member / BITS];
    unsigned long long before;

    /* Most reads are of members that are long known: look before writing. */
    if (atomic_load_explicit(word, memory_order_relaxed) & bit(member))
        return;
    if (atomic_fetch_or(word, bit(member)) & bit(member))
        return;
    before = atomic_fetch_add(&names->waiting, 1);
    if (before == 0 || before == WALK_MEMBERS - 1) {
        pthread_mutex_lock(&names->lock);
        pthread_cond_signal(&names->wake);
        pthread_mutex_unlock(&names->lock);
    }
}

void names_forget(struct names *names, uint64_t member)
{
    atomic_fetch_and(&names->wanted[member / BITS], ~bit(member));
    atomic_fetch_and(&names->kept[member / BITS], ~bit(member));
}

bool names_next(struct names *names, uint64_t from, uint64_t *member)
{
    unsigned long above = ~0ul << (from % BITS);

    for (uint64_t word = from / BITS; word < names->words; word++, above = ~0ul) {
        unsigned long open = atomic_load(&names->wanted[word]) & ~atomic_load(&names->kept[word]) &
                             above;
        if (!open)
            continue;
        *member = word * BITS + (unsigned)__builtin_ctzl(open);
        atomic_fetch_or(&names->kept[word], bit(*member));
        return true;
    }
    return false;
}

static void queue(struct names *names, const struct job *wanted)
{
    struct job *job = malloc(sizeof *job);

    if (!job) {
        if (wanted->request)
            fuse_reply_err(wanted->request, ENOMEM);
        free(wanted->names);
        return;
    }
    *job = *wanted;
    pthread_mutex_lock(&names->lock);
    *names->last = job;
    names->last = &job->next;
    pthread_cond_signal(&names->wake);
    pthread_mutex_unlock(&names->lock);
}

void names_drop(struct names *names, fuse_req_t request, size_t size, uint64_t folder,
                char *name_list, size_t name_bytes)
{
    queue(names, &(struct job){.request = request,
                               .size = size,
                               .inode = folder,
                               .names = name_list,
                               .bytes = name_bytes});
}

void names_invalidate(struct names *names, uint64_t inode)
{
    queue(names, &(struct job){.inode = inode});
}
