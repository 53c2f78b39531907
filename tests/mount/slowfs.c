/* slowfs [-o OPTION,...] FOLDER MOUNTPOINT: a folder, read-only, each READ of which takes its time,
 * as network storage does. Latency, not throughput: READS_AT_ONCE sleep side by side.
 *
 * delay_ms=N      each READ is answered N ms after it came
 * bandwidth=N     bytes a second of all READs together
 * drop_cache      each open drops what the page cache has of the file; kept otherwise, as NFS keeps
 * it direct_io       nothing is cached at all most_read=N     no READ is of more bytes: what is
 * read at once comes in several
 *
 * Two names in the mount's root are its own. `.reads` is the state: {"reads": N, "bytes": N,
 * "most": N}, the last the most READs that were ever under way at once. `.fail`, which a test puts
 * into FOLDER, lists what is wrong while it is listed, one a line, of a file by its base name (`*`:
 * of all):
 *
 *   NAME               reading it answers EIO
 *   NAME eio FROM TO   READs that touch its bytes from FROM up to TO answer EIO
 *   NAME short FROM    READs end before byte FROM, as if the file did
 *   NAME stale         everything that is asked of it answers ESTALE, as NFS does for a file that
 * its server has no more under that number
 *
 * SIGSTOP makes storage that hangs. */
#define FUSE_USE_VERSION 31
#include <fuse.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READS_AT_ONCE "64"
#define STATE         "/.reads"
#define SECOND        1000000000u

static struct {
    const char *folder;
    unsigned delay_ms;
    unsigned long bandwidth;
    int drop_cache, direct_io;
    unsigned most_read;
} options;

static int root;
static atomic_ullong reads, bytes_read;
static atomic_uint under_way, most;
static pthread_mutex_t wire_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t
    wire_free; /* when the last byte asked for so far is through. Guarded by wire_lock */

static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static void sleep_until(uint64_t when)
{
    struct timespec time = {(time_t)(when / SECOND), (long)(when % SECOND)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
        ;
}

/* When a READ of this size may be answered. */
static uint64_t due(size_t size)
{
    uint64_t now = now_ns(), through = now;

    if (options.bandwidth) {
        pthread_mutex_lock(&wire_lock);
        if (wire_free < now)
            wire_free = now;
        wire_free += size * (uint64_t)SECOND / options.bandwidth;
        through = wire_free;
        pthread_mutex_unlock(&wire_lock);
    }
    return through + options.delay_ms * (uint64_t)1000000;
}

static const char *below_root(const char *path)
{
    return path[1] ? path + 1 : ".";
}

/* What is wrong with a range of a file; 0, or a negative errno. `*size` is what is left of it. */
static int apply_line(const char *line, const char *name, size_t *size, off_t offset)
{
    char whose[256], what[16] = "";
    unsigned long long from = 0, to = 0;
    int words = sscanf(line, "%255s %15s %llu %llu", whose, what, &from, &to);

    if (words < 1 || (strcmp(whose, name) != 0 && strcmp(whose, "*") != 0))
        return 0;
    if (words == 1)
        return -EIO;
    if (strcmp(what, "stale") == 0)
        return -ESTALE;
    if (strcmp(what, "eio") == 0)
        return (unsigned long long)offset < to && offset + *size > from ? -EIO : 0;
    if (strcmp(what, "short") == 0 && offset + *size > from)
        *size = (unsigned long long)offset < from ? (size_t)(from - (unsigned long long)offset) : 0;
    return 0;
}

/* Asked at each READ, so that a test need not tell when it has written the file. */
static int apply_faults(const char *path, size_t *size, off_t offset)
{
    int fd = openat(root, ".fail", O_RDONLY | O_CLOEXEC), fault = 0;
    FILE *list = fd >= 0 ? fdopen(fd, "r") : NULL;
    char line[512];

    if (!list)
        return 0;
    while (!fault && fgets(line, sizeof line, list))
        fault = apply_line(line, strrchr(path, '/') + 1, size, offset);
    fclose(list);
    return fault;
}

/* Of what is no READ: whether all that is asked of the file fails. */
static bool is_stale(const char *path)
{
    size_t none = 0;

    return apply_faults(path, &none, 0) == -ESTALE;
}

static int on_getattr(const char *path, struct stat *status, struct fuse_file_info *file)
{
    (void)file;
    if (strcmp(path, STATE) == 0) {
        *status = (struct stat){.st_mode = S_IFREG | 0444, .st_nlink = 1};
        return 0;
    }
    if (is_stale(path))
        return -ESTALE;
    return fstatat(root, below_root(path), status, AT_SYMLINK_NOFOLLOW) ? -errno : 0;
}

static int on_readlink(const char *path, char *buffer, size_t size)
{
    ssize_t got = readlinkat(root, below_root(path), buffer, size - 1);

    if (got < 0)
        return -errno;
    buffer[got] = 0;
    return 0;
}

static int on_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
                      struct fuse_file_info *file, enum fuse_readdir_flags flags)
{
    int fd = openat(root, below_root(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;

    (void)offset;
    (void)file;
    (void)flags;
    if (!folder)
        return -errno;
    while ((entry = readdir(folder)))
        fill(buffer, entry->d_name, NULL, 0, 0);
    closedir(folder);
    return 0;
}

static int on_open(const char *path, struct fuse_file_info *file)
{
    int fd;

    if ((file->flags & O_ACCMODE) != O_RDONLY)
        return -EROFS;
    file->direct_io = options.direct_io || strcmp(path, STATE) == 0;
    file->keep_cache = !options.drop_cache;
    if (strcmp(path, STATE) == 0)
        return 0;
    /* Not the caller's flags: O_DIRECT is between it and this mount. */
    fd = openat(root, below_root(path), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    file->fh = (uint64_t)fd;
    return 0;
}

static int on_release(const char *path, struct fuse_file_info *file)
{
    if (strcmp(path, STATE) != 0)
        close((int)file->fh);
    return 0;
}

static int read_state(char *buffer, size_t size, off_t offset)
{
    char text[128];
    int length = snprintf(text, sizeof text, "{\"reads\": %llu, \"bytes\": %llu, \"most\": %u}\n",
                          atomic_load(&reads), atomic_load(&bytes_read), atomic_load(&most));

    if (offset >= length)
        return 0;
    if (size > (size_t)(length - offset))
        size = (size_t)(length - offset);
    memcpy(buffer, text + offset, size);
    return (int)size;
}

static void note_most(unsigned now)
{
    unsigned before = atomic_load(&most);

    while (before < now && !atomic_compare_exchange_weak(&most, &before, now))
        ;
}

static int on_read(const char *path, char *buffer, size_t size, off_t offset,
                   struct fuse_file_info *file)
{
    ssize_t got;

    if (strcmp(path, STATE) == 0)
        return read_state(buffer, size, offset);
    atomic_fetch_add(&reads, 1);
    note_most(atomic_fetch_add(&under_way, 1) + 1);
    sleep_until(due(size));
    got = apply_faults(path, &size, offset);
    if (got == 0) {
        got = pread((int)file->fh, buffer, size, offset);
        if (got < 0)
            got = -errno;
        else
            atomic_fetch_add(&bytes_read, (unsigned long long)got);
    }
    atomic_fetch_sub(&under_way, 1);
    return (int)got;
}

static void *on_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
    config->use_ino = 1;
    /* Reads ahead by the kernel count here; all are to reach a thread. */
    connection->max_background = 256;
    connection->congestion_threshold = 256;
    if (options.most_read)
        connection->max_read = options.most_read;
    return NULL;
}

static const struct fuse_operations operations = {
    .init = on_init,
    .getattr = on_getattr,
    .readlink = on_readlink,
    .readdir = on_readdir,
    .open = on_open,
    .read = on_read,
    .release = on_release,
};

#define OPTION(text, member)                                                                       \
    {                                                                                              \
        text, offsetof(__typeof__(options), member), 1                                             \
    }

static const struct fuse_opt known[] = {
    OPTION("delay_ms=%u", delay_ms),   OPTION("bandwidth=%lu", bandwidth),
    OPTION("drop_cache", drop_cache),  OPTION("direct_io", direct_io),
    OPTION("most_read=%u", most_read), FUSE_OPT_END,
};

/* The first word is FOLDER; all else is libfuse's. */
static int on_word(void *data, const char *word, int key, struct fuse_args *arguments)
{
    (void)data;
    (void)arguments;
    if (key != FUSE_OPT_KEY_NONOPT || options.folder)
        return 1;
    options.folder = word;
    return 0;
}

int main(int argc, char **argv)
{
    struct fuse_args arguments = FUSE_ARGS_INIT(argc, argv);
    int code;

    if (fuse_opt_parse(&arguments, &options, known, on_word) || !options.folder) {
        fputs("usage: slowfs [-f] [-o delay_ms=N,...] FOLDER MOUNTPOINT\n", stderr);
        return 2;
    }
    root = open(options.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        perror(options.folder);
        return 1;
    }
    fuse_opt_add_arg(&arguments, "-oro,fsname=slowfs,subtype=slowfs,max_threads=" READS_AT_ONCE
                                 ",max_idle_threads=" READS_AT_ONCE);
    if (options.most_read) { /* the kernel wants both to say so */
        char text[32];
        snprintf(text, sizeof text, "-omax_read=%u", options.most_read);
        fuse_opt_add_arg(&arguments, text);
    }
    code = fuse_main(arguments.argc, arguments.argv, &operations, NULL);
    fuse_opt_free_args(&arguments);
    close(root);
    return code;
}
