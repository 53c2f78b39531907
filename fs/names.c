/* Names in the kernel's cache. Owns two threads, their queues, and two bits a member; never holds a
 * lock while it waits for the kernel.
 *
 * The switcher answers writes that switch `current`: it moves the old folders to attics and sees to
 * it that the kernel has forgotten the old paths. The keeper gives names to members that were read,
 * and then empties the attics. */
#include "names.h"

#include "../core/report.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A walk starts when so many members wait for a name, or the first of them for so long. */
#define WALK_MEMBERS  2048
#define WALK_DELAY_NS 50000000L
/* Attics that wait to be emptied; with more, a switch waits for its names, so that they do not pile
 * up. */
#define ATTICS_MOST 16

struct job {
    fuse_req_t request; /* to answer when done; NULL: an invalidation of `inode` */
    size_t size;
    uint64_t inode;
    struct view_left *left;
    size_t count;
    struct job *next;
};

/* A folder that was moved away: where it is now. */
struct attic {
    uint64_t inode;
    char name[64];
};

struct names {
    struct fuse_session *session;
    struct view *view;
    char *mountpoint;
    pthread_t switcher, keeper;
    atomic_ulong *wanted; /* bit a member: it was read, and shall have a name */
    atomic_ulong *kept;   /* bit a member: it was given one */
    uint64_t words;
    atomic_ullong waiting; /* members wanted and not kept, about */
    atomic_bool can_clone;
    pthread_mutex_t lock; /* guards all below; never held over a system call */
    pthread_cond_t to_switcher, to_keeper;
    struct job *first, **last;
    struct attic attics[ATTICS_MOST];
    size_t attic_count;
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

/* The mount's root, or -1. Whatever else is mounted there by now has none of the names that are
 * looked for in it. */
static int open_root(struct names *names, bool answering)
{
    int root = -1;

    if (atomic_load(&names->can_clone)) {
        root = clone_mount(names->mountpoint);
        if (root < 0 && (errno == EPERM || errno == ENOSYS || errno == EINVAL))
            atomic_store(&names->can_clone, false);
    }
    if (root < 0 && answering)
        root = open(names->mountpoint, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root;
}

/* Lists the keeper's folder: each entry that the kernel takes from it is a name alive. */
static void walk(struct names *names, int root)
{
    char buffer[32768];
    int keeper;

    atomic_store(&names->waiting, 0);
    keeper = openat(root, view_keeper_name(names->view), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (keeper < 0)
        return;
    while (syscall(SYS_getdents64, keeper, buffer, sizeof buffer) > 0)
        ;
    close(keeper);
}

/* Has the kernel drop the dentry `name` in the folder `parent`, and all below it. */
static void drop_entry(struct names *names, uint64_t parent, const char *name)
{
    int fault = fuse_lowlevel_notify_inval_entry(names->session, parent, name, strlen(name));

    /* ENOENT: the kernel did not have it. The others: the mount has ended. */
    if (fault && fault != -ENOENT && fault != -ENOTCONN && fault != -ENODEV && fault != -EBADF)
        report_error("%s: the kernel did not drop this name: %s", name, strerror(-fault));
}

/* The switcher. */

/* Moves a folder that was left behind to an attic. Failing is fine: the names then go with the
 * entry. */
static void move_away(struct names *names, int root, const struct view_left *left)
{
    struct attic attic;
    struct stat status;
    char path[128];
    bool room;

    pthread_mutex_lock(&names->lock);
    room = names->attic_count < ATTICS_MOST;
    pthread_mutex_unlock(&names->lock);
    if (!room || !left->folder)
        return;
    view_attic_name(names->view, left->inode, attic.name);
    if (fstatat(root, attic.name, &status, AT_SYMLINK_NOFOLLOW))
        return;
    attic.inode = status.st_ino;
    snprintf(path, sizeof path, "%s/" VIEW_ATTIC_ENTRY, attic.name);
    /* Looked at for its effect. Whether it worked or not, what is in the attic must go again. */
    (void)!fstatat(root, path, &status, AT_SYMLINK_NOFOLLOW);
    pthread_mutex_lock(&names->lock);
    names->attics[names->attic_count++] = attic;
    pthread_cond_signal(&names->to_keeper);
    pthread_mutex_unlock(&names->lock);
}

static void run_switch(struct names *names, const struct job *job)
{
    int root = job->count ? open_root(names, true) : -1;

    /* Without a clone, the keeper cannot walk by itself: the members read so far get their names
     * now. */
    if (root >= 0 && !atomic_load(&names->can_clone))
        walk(names, root);
    for (size_t i = 0; i < job->count; i++) {
        if (root >= 0)
            move_away(names, root, &job->left[i]);
        /* Also after a move: a LOOKUP that was under way may have brought the old folder back. */
        drop_entry(names, VIEW_CURRENT_INODE, job->left[i].name);
    }
    if (root >= 0)
        close(root);
    fuse_reply_write(job->request, job->size);
}

static void free_job(struct job *job)
{
    free(job->left);
    free(job);
}

static struct job *next_job(struct names *names)
{
    struct job *job;

    pthread_mutex_lock(&names->lock);
    while (!names->first && !names->stopping)
        pthread_cond_wait(&names->to_switcher, &names->lock);
    job = names->first;
    if (job) {
        names->first = job->next;
        if (!names->first)
            names->last = &names->first;
    }
    pthread_mutex_unlock(&names->lock);
    return job;
}

static void *be_switcher(void *context)
{
    struct names *names = context;
    struct job *job;

    while ((job = next_job(names))) {
        if (job->request)
            run_switch(names, job);
        else
            fuse_lowlevel_notify_inval_inode(names->session, (fuse_ino_t)job->inode, 0, 0);
        free_job(job);
    }
    return NULL;
}

/* The keeper. */

/* Waits for an attic, or until members wait for names long enough. False: end. The lock is held. */
static bool wait_for_work(struct names *names)
{
    struct timespec until;

    for (;;) {
        bool walkable = atomic_load(&names->can_clone) && atomic_load(&names->waiting);
        if (names->stopping)
            return false;
        if (names->attic_count || (walkable && atomic_load(&names->waiting) >= WALK_MEMBERS))
            return true;
        if (!walkable) {
            pthread_cond_wait(&names->to_keeper, &names->lock);
            continue;
        }
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += WALK_DELAY_NS;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        if (pthread_cond_timedwait(&names->to_keeper, &names->lock, &until) == ETIMEDOUT)
            return !names->stopping;
    }
}

static void empty_attic(struct names *names, const struct attic *attic)
{
    drop_entry(names, attic->inode, VIEW_ATTIC_ENTRY);
    drop_entry(names, VIEW_ROOT_INODE, attic->name);
}

static void *be_keeper(void *context)
{
    struct names *names = context;
    struct attic attics[ATTICS_MOST];
    size_t count;
    int root;

    /* Never before those who read: what it does saves time later. */
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), 10);
    pthread_mutex_lock(&names->lock);
    while (wait_for_work(names)) {
        count = names->attic_count;
        memcpy(attics, names->attics, count * sizeof *attics);
        names->attic_count = 0;
        pthread_mutex_unlock(&names->lock);
        root = open_root(names, false);
        if (root >= 0) {
            walk(names, root);
            close(root);
        }
        for (size_t i = 0; i < count; i++)
            empty_attic(names, &attics[i]);
        pthread_mutex_lock(&names->lock);
    }
    pthread_mutex_unlock(&names->lock);
    return NULL;
}

static void wake_all(struct names *names, bool stop)
{
    pthread_mutex_lock(&names->lock);
    names->stopping |= stop;
    pthread_cond_signal(&names->to_switcher);
    pthread_cond_signal(&names->to_keeper);
    pthread_mutex_unlock(&names->lock);
}

static int start(struct names *names)
{
    pthread_condattr_t attributes;
    int fault;

    pthread_mutex_init(&names->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&names->to_switcher, NULL);
    pthread_cond_init(&names->to_keeper, &attributes);
    pthread_condattr_destroy(&attributes);
    fault = pthread_create(&names->switcher, NULL, be_switcher, names);
    if (fault)
        return -fault;
    fault = pthread_create(&names->keeper, NULL, be_keeper, names);
    if (fault) {
        wake_all(names, true);
        pthread_join(names->switcher, NULL);
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
    atomic_store(&names->can_clone, true);
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
    wake_all(names, true);
    pthread_join(names->switcher, NULL);
    pthread_join(names->keeper, NULL);
}

void names_close(struct names *names)
{
    if (!names)
        return;
    while (names->first) {
        struct job *job = names->first;
        names->first = job->next;
        if (job->request)
            fuse_reply_err(job->request, EIO);
        free_job(job);
    }
    pthread_cond_destroy(&names->to_switcher);
    pthread_cond_destroy(&names->to_keeper);
    pthread_mutex_destroy(&names->lock);
    release(names);
}

bool names_want(struct names *names, uint64_t member)
{
    atomic_ulong *word = &names->wanted[member / BITS];
    unsigned long long before;

    /* Most reads are of members that are long known: look before writing. */
    if (names_has(names, member) || (atomic_fetch_or(word, bit(member)) & bit(member)))
        return true;
    before = atomic_fetch_add(&names->waiting, 1);
    if (before == 0 || before == WALK_MEMBERS - 1)
        wake_all(names, false);
    return false;
}

bool names_has(const struct names *names, uint64_t member)
{
    return atomic_load_explicit(&names->wanted[member / BITS], memory_order_relaxed) & bit(member);
}

int names_open_root(struct names *names)
{
    return open_root(names, false);
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
        free(wanted->left);
        return;
    }
    *job = *wanted;
    pthread_mutex_lock(&names->lock);
    *names->last = job;
    names->last = &job->next;
    pthread_cond_signal(&names->to_switcher);
    pthread_mutex_unlock(&names->lock);
}

void names_drop(struct names *names, fuse_req_t request, size_t size, struct view_left *left,
                size_t count)
{
    queue(names, &(struct job){.request = request, .size = size, .left = left, .count = count});
}

void names_invalidate(struct names *names, uint64_t inode)
{
    queue(names, &(struct job){.inode = inode});
}
