/* Readings of .control/status by children. Owns the pipe to the child, and what came through it.
 *
 * Through the pipe come a struct head, the mount's path, and the status. */
#include "asker.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define STATUS_MOST (64u << 20)
#define READ_BYTES  (64u << 10)

struct head {
    int32_t fault;      /* a negative errno; then nothing follows */
    uint32_t path_size; /* with its zero byte */
};

struct asker {
    char path[PATH_MAX]; /* as it was given, then the mount's */
    bool found;          /* it is the mount's */
    int fd;              /* from the child; -1: none */
    char *bytes;
    size_t size, room;
};

int asker_open(struct asker **out, const char *path)
{
    struct asker *asker = calloc(1, sizeof *asker);

    *out = NULL;
    if (!asker)
        return -ENOMEM;
    if (strlen(path) >= sizeof asker->path) {
        free(asker);
        return -ENAMETOOLONG;
    }
    memcpy(asker->path, path, strlen(path) + 1);
    asker->fd = -1;
    signal(SIGCHLD, SIG_IGN);
    *out = asker;
    return 0;
}

static void stop(struct asker *asker)
{
    if (asker->fd >= 0)
        close(asker->fd);
    asker->fd = -1;
}

void asker_close(struct asker *asker)
{
    if (!asker)
        return;
    stop(asker);
    free(asker->bytes);
    free(asker);
}

int asker_fd(const struct asker *asker)
{
    return asker->fd;
}

const char *asker_mount(const struct asker *asker)
{
    return asker->path;
}

/* ---- in the child ---- */

static int open_status(const char *root)
{
    char path[PATH_MAX + 32];
    struct statfs fs;
    int fd;

    snprintf(path, sizeof path, "%s/.control/status", root);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -errno;
    if (fstatfs(fd, &fs) == 0 && fs.f_type == FUSE_SUPER_MAGIC)
        return fd;
    close(fd);
    return -ENODEV;
}

/* Goes up from `path` to the root of its file system and opens the status there. */
static int find_status(const char *path, char root[PATH_MAX])
{
    struct stat stat_here;
    dev_t device = 0;

    if (!realpath(path, root))
        return -errno;
    for (bool first = true;; first = false) {
        int fd;
        char *slash = strrchr(root, '/');
        if (stat(root, &stat_here))
            return -errno;
        if (first)
            device = stat_here.st_dev;
        if (stat_here.st_dev != device)
            return -ENODEV;
        fd = open_status(root);
        if (fd >= 0 || (fd != -ENOENT && fd != -ENOTDIR && fd != -ENODEV))
            return fd;
        if (!slash[1])
            return -ENODEV;
        slash[slash == root] = '\0';
    }
}

/* Reads to the end; the kernel may have cached another size than the text has now. */
static int read_all(int fd, char **bytes, size_t *size)
{
    size_t room = 0;

    for (*bytes = NULL, *size = 0;;) {
        ssize_t got;
        if (*size == room) {
            char *more = realloc(*bytes, room += READ_BYTES);
            if (!more)
                return -ENOMEM;
            *bytes = more;
        }
        got = read(fd, *bytes + *size, room - *size);
        if (got < 0)
            return -errno;
        if (!got)
            return 0;
        *size += (size_t)got;
        if (*size > STATUS_MOST)
            return -EFBIG;
    }
}

static bool send_all(int to, const void *bytes, size_t size)
{
    for (const char *at = bytes; size;) {
        ssize_t sent = write(to, at, size);
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

static void answer(const struct asker *asker, int to)
{
    char root[PATH_MAX], *bytes = NULL;
    struct head head = {0};
    size_t size = 0;
    int fd;

    memcpy(root, asker->path, sizeof root);
    fd = asker->found ? open_status(root) : find_status(asker->path, root);
    head.fault = fd < 0 ? fd : read_all(fd, &bytes, &size);
    /* Closed before anything is sent: closing asks the mount, too. */
    if (fd >= 0)
        close(fd);
    head.path_size = (uint32_t)strlen(root) + 1;
    if (send_all(to, &head, sizeof head) && !head.fault && send_all(to, root, head.path_size))
        send_all(to, bytes, size);
    free(bytes);
}

static void be_child(const struct asker *asker, int to, pid_t parent)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGPIPE};

    /* A resized terminal must not interrupt what waits for the mount. */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        answer(asker, to);
}

/* ---- in the parent ---- */

int asker_ask(struct asker *asker)
{
    pid_t parent = getpid(), child;
    int ends[2];

    if (asker->fd >= 0)
        return 0;
    if (pipe2(ends, O_CLOEXEC))
        return -errno;
    asker->size = 0;
    child = fork();
    if (child < 0) {
        int fault = -errno;
        close(ends[0]);
        close(ends[1]);
        return fault;
    }
    if (!child) {
        close(ends[0]);
        be_child(asker, ends[1], parent);
        _exit(0);
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    asker->fd = ends[0];
    return 0;
}

static int take_whole(struct asker *asker, const char **text, size_t *size)
{
    struct head head;
    size_t skip = sizeof head;

    /* A child that was killed says nothing. */
    if (asker->size < sizeof head)
        return -EIO;
    memcpy(&head, asker->bytes, sizeof head);
    if (head.fault)
        return head.fault;
    if (head.path_size > sizeof asker->path || asker->size - skip < head.path_size)
        return -EIO;
    memcpy(asker->path, asker->bytes + skip, head.path_size);
    asker->path[head.path_size - 1] = '\0';
    asker->found = true;
    skip += head.path_size;
    *text = asker->bytes + skip;
    *size = asker->size - skip;
    return 1;
}

int asker_take(struct asker *asker, const char **text, size_t *size)
{
    for (;;) {
        ssize_t got;
        if (asker->room - asker->size < READ_BYTES) {
            char *more = realloc(asker->bytes, asker->size + 2 * READ_BYTES);
            if (!more)
                return -ENOMEM;
            asker->bytes = more;
            asker->room = asker->size + 2 * READ_BYTES;
        }
        got = read(asker->fd, asker->bytes + asker->size, asker->room - asker->size);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got < 0) {
            int fault = -errno;
            stop(asker);
            return fault;
        }
        if (!got)
            break;
        asker->size += (size_t)got;
    }
    stop(asker);
    return take_whole(asker, text, size);
}
