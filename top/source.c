/* Readings of .control/status by children. Owns the pipe to the child, and what came through it.
 *
 * Through the pipe come a struct head, the mount's path, and the status. */
#include "source.h"

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

struct source {
    char path[PATH_MAX]; /* as it was given, then the mount's */
    bool found;          /* it is the mount's */
    int fd;              /* from the child; -1: none */
    char *bytes;
    size_t size, room;
};

int source_open(struct source **out, const char *path)
{
    struct source *source = calloc(1, sizeof *source);

    *out = NULL;
    if (!source)
        return -ENOMEM;
    if (strlen(path) >= sizeof source->path) {
        free(source);
        return -ENAMETOOLONG;
    }
    memcpy(source->path, path, strlen(path) + 1);
    source->fd = -1;
    signal(SIGCHLD, SIG_IGN);
    *out = source;
    return 0;
}

static void stop(struct source *source)
{
    if (source->fd >= 0)
        close(source->fd);
    source->fd = -1;
}

void source_close(struct source *source)
{
    if (!source)
        return;
    stop(source);
    free(source->bytes);
    free(source);
}

int source_fd(const struct source *source)
{
    return source->fd;
}

const char *source_mount(const struct source *source)
{
    return source->path;
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

static void answer(const struct source *source, int to)
{
    char root[PATH_MAX], *bytes = NULL;
    struct head head = {0};
    size_t size = 0;
    int fd;

    memcpy(root, source->path, sizeof root);
    fd = source->found ? open_status(root) : find_status(source->path, root);
    head.fault = fd < 0 ? fd : read_all(fd, &bytes, &size);
    /* Closed before anything is sent: closing asks the mount, too. */
    if (fd >= 0)
        close(fd);
    head.path_size = (uint32_t)strlen(root) + 1;
    if (send_all(to, &head, sizeof head) && !head.fault && send_all(to, root, head.path_size))
        send_all(to, bytes, size);
    free(bytes);
}

static void be_child(const struct source *source, int to, pid_t parent)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGPIPE};

    /* A resized terminal must not interrupt what waits for the mount. */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        answer(source, to);
}

/* ---- in the parent ---- */

int source_ask(struct source *source)
{
    pid_t parent = getpid(), child;
    int ends[2];

    if (source->fd >= 0)
        return 0;
    if (pipe2(ends, O_CLOEXEC))
        return -errno;
    source->size = 0;
    child = fork();
    if (child < 0) {
        int fault = -errno;
        close(ends[0]);
        close(ends[1]);
        return fault;
    }
    if (!child) {
        close(ends[0]);
        be_child(source, ends[1], parent);
        _exit(0);
    }
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    source->fd = ends[0];
    return 0;
}

static int take_whole(struct source *source, const char **text, size_t *size)
{
    struct head head;
    size_t skip = sizeof head;

    /* A child that was killed says nothing. */
    if (source->size < sizeof head)
        return -EIO;
    memcpy(&head, source->bytes, sizeof head);
    if (head.fault)
        return head.fault;
    if (head.path_size > sizeof source->path || source->size - skip < head.path_size)
        return -EIO;
    memcpy(source->path, source->bytes + skip, head.path_size);
    source->path[head.path_size - 1] = '\0';
    source->found = true;
    skip += head.path_size;
    *text = source->bytes + skip;
    *size = source->size - skip;
    return 1;
}

int source_take(struct source *source, const char **text, size_t *size)
{
    for (;;) {
        ssize_t got;
        if (source->room - source->size < READ_BYTES) {
            char *more = realloc(source->bytes, source->size + 2 * READ_BYTES);
            if (!more)
                return -ENOMEM;
            source->bytes = more;
            source->room = source->size + 2 * READ_BYTES;
        }
        got = read(source->fd, source->bytes + source->size, source->room - source->size);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got < 0) {
            int fault = -errno;
            stop(source);
            return fault;
        }
        if (!got)
            break;
        source->size += (size_t)got;
    }
    stop(source);
    return take_whole(source, text, size);
}
