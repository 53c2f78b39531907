/* The folder of unpacked shards: its opening, pins, and what goes when it is full. Removes nothing
 * that has not this program's kind of name. */
#include "copies_folder.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define PIN         "pin-"
#define HASH_DIGITS 32

/* Copies and parts of the folder, or names that pins hold. */
struct entry {
    char *file;
    uint64_t bytes;
    struct timespec used;
};

struct entries {
    struct entry *list;
    size_t count, room;
};

static void close_entries(struct entries *entries)
{
    for (size_t i = 0; i < entries->count; i++)
        free(entries->list[i].file);
    free(entries->list);
    *entries = (struct entries){0};
}

static int add(struct entries *entries, const char *file, const struct stat *status)
{
    if (entries->count == entries->room) {
        size_t room = entries->room ? 2 * entries->room : 64;
        struct entry *list = realloc(entries->list, room * sizeof *list);
        if (!list)
            return -ENOMEM;
        entries->list = list;
        entries->room = room;
    }
    entries->list[entries->count] = (struct entry){.file = strdup(file)};
    if (!entries->list[entries->count].file)
        return -ENOMEM;
    if (status) {
        entries->list[entries->count].bytes = (uint64_t)status->st_size;
        entries->list[entries->count].used = status->st_atim;
    }
    entries->count++;
    return 0;
}

static bool ends_with(const char *file, const char *ending)
{
    size_t length = strlen(file), tail = strlen(ending);

    return length > tail && strcmp(file + length - tail, ending) == 0;
}

/* A name of ours: 32 digits and a hyphen. */
static bool is_ours(const char *file)
{
    for (int i = 0; i < HASH_DIGITS; i++)
        if (!isxdigit((unsigned char)file[i]))
            return false;
    return file[HASH_DIGITS] == '-';
}

/* Calls `look` for each file of the folder until it answers other than 0. */
static int each_file(const struct copies *copies, int (*look)(void *context, const char *file),
                     void *context)
{
    int fd = openat(copies->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), answer = 0;
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;

    if (!folder) {
        answer = -errno;
        if (fd >= 0)
            close(fd);
        return answer;
    }
    while (!answer && (entry = readdir(folder)))
        answer = look(context, entry->d_name);
    closedir(folder);
    return answer;
}

/* Takes the lock of a file; -1: its process lives, or it is gone. */
static int lock_of_dead(const struct copies *copies, const char *file)
{
    int fd = openat(copies->folder, file, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd >= 0 && (flock(fd, LOCK_EX | LOCK_NB) || !copies_is_still(copies, fd, file))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void remove_if_dead(const struct copies *copies, const char *file)
{
    int fd = lock_of_dead(copies, file);

    if (fd < 0)
        return;
    unlinkat(copies->folder, file, 0);
    close(fd);
}

/* A note without its copy: what names both holds the folder's lock, which is ours. */
static void remove_lone_note(const struct copies *copies, const char *file)
{
    char tar[COPIES_FILE];

    snprintf(tar, sizeof tar, "%.*s" COPIES_TAR, (int)(strlen(file) - strlen(".info")), file);
    if (faccessat(copies->folder, tar, F_OK, AT_SYMLINK_NOFOLLOW) && errno == ENOENT)
        unlinkat(copies->folder, file, 0);
}

static int sweep_file(void *context, const char *file)
{
    const struct copies *copies = context;

    if (strncmp(file, PIN, strlen(PIN)) == 0 && strcmp(file, copies->pin_file) != 0)
        remove_if_dead(copies, file);
    else if (!is_ours(file))
        return 0;
    else if (ends_with(file, ".part"))
        remove_if_dead(copies, file);
    else if (ends_with(file, ".info.new"))
        unlinkat(copies->folder, file, 0);
    else if (ends_with(file, ".info"))
        remove_lone_note(copies, file);
    return 0;
}

/* What counts. */
struct count {
    const struct copies *copies;
    struct entries *entries; /* copies alone; NULL: not wanted */
    uint64_t bytes;
};

static int count_file(void *context, const char *file)
{
    struct count *count = context;
    bool copy = is_ours(file) && ends_with(file, COPIES_TAR);
    struct stat status;

    if (!copy && !(is_ours(file) && ends_with(file, ".part")))
        return 0;
    if (fstatat(count->copies->folder, file, &status, AT_SYMLINK_NOFOLLOW) ||
        !S_ISREG(status.st_mode))
        return 0;
    count->bytes += (uint64_t)status.st_size;
    return copy && count->entries ? add(count->entries, file, &status) : 0;
}

static int count_files(const struct copies *copies, struct entries *entries, uint64_t *bytes)
{
    struct count count = {.copies = copies, .entries = entries};
    int fault = each_file(copies, count_file, &count);

    *bytes = count.bytes;
    return fault;
}

/* Pins. */

static int by_file(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->file, ((const struct entry *)b)->file);
}

static int by_use(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    if (x->used.tv_nsec != y->used.tv_nsec)
        return x->used.tv_nsec < y->used.tv_nsec ? -1 : 1;
    return by_file(a, b);
}

struct pins {
    const struct copies *copies;
    struct entries names;
};

/* The names in a pin whose process lives; else it goes. */
static int read_pin(void *context, const char *file)
{
    struct pins *pins = context;
    char line[COPIES_FILE];
    int fd, fault = 0;
    FILE *names;

    if (strncmp(file, PIN, strlen(PIN)) != 0)
        return 0;
    if (strcmp(file, pins->copies->pin_file) != 0)
        remove_if_dead(pins->copies, file);
    fd = openat(pins->copies->folder, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    names = fdopen(fd, "r");
    if (!names) {
        close(fd);
        return -ENOMEM;
    }
    while (!fault && fgets(line, sizeof line, names)) {
        line[strcspn(line, "\n")] = '\0';
        fault = add(&pins->names, line, NULL);
    }
    if (ferror(names))
        fault = -EIO;
    fclose(names);
    return fault;
}

int copies_pin(struct copies *copies, const char *const *names, size_t count)
{
    bool locked = copies_lock(copies);
    int fault = copies->pin < 0 ? -EROFS : 0;

    for (size_t i = 0; !fault && i < count; i++) {
        char line[COPIES_FILE];
        int length = snprintf(line, sizeof line, "%s" COPIES_TAR "\n", names[i]);
        errno = ENOSPC; /* of a write that is short */
        if (write(copies->pin, line, (size_t)length) != length)
            fault = -errno;
    }
    copies_unlock(copies, locked);
    return fault;
}

static void remove_copy(const struct copies *copies, const char *file)
{
    char note[COPIES_FILE];

    snprintf(note, sizeof note, "%.*s.info", (int)(strlen(file) - strlen(COPIES_TAR)), file);
    unlinkat(copies->folder, file, 0);
    unlinkat(copies->folder, note, 0);
}

/* Removes what was not used for longest, until `bytes` are freed. Returns how many were. */
static uint64_t remove_oldest(const struct copies *copies, struct entries *entries, uint64_t bytes)
{
    struct pins pins = {.copies = copies};
    uint64_t freed = 0;

    /* Where one pin cannot be read, nobody knows what may go. */
    if (each_file(copies, read_pin, &pins) == 0) {
        if (pins.names.count)
            qsort(pins.names.list, pins.names.count, sizeof *pins.names.list, by_file);
        if (entries->count)
            qsort(entries->list, entries->count, sizeof *entries->list, by_use);
        for (size_t i = 0; i < entries->count && freed < bytes; i++) {
            if (pins.names.count && bsearch(&entries->list[i], pins.names.list, pins.names.count,
                                            sizeof *pins.names.list, by_file))
                continue;
            remove_copy(copies, entries->list[i].file);
            freed += entries->list[i].bytes;
        }
    }
    close_entries(&pins.names);
    return freed;
}

int copies_make_room(struct copies *copies, uint64_t need, uint64_t want, bool locked,
                     uint64_t *got)
{
    struct entries entries = {0};
    uint64_t bytes;
    int fault = count_files(copies, &entries, &bytes);

    if (!fault && locked && bytes + need > copies->most) {
        each_file(copies, sweep_file, copies);
        close_entries(&entries);
        fault = count_files(copies, &entries, &bytes);
        if (!fault && bytes + need > copies->most)
            bytes -= remove_oldest(copies, &entries, bytes + need - copies->most);
    }
    close_entries(&entries);
    if (!fault && bytes + need > copies->most)
        fault = -EDQUOT;
    if (!fault)
        *got = bytes + want > copies->most ? copies->most - bytes : want;
    return fault;
}

bool copies_remove_one(struct copies *copies, bool locked)
{
    struct entries entries = {0};
    uint64_t bytes;
    bool removed = locked && count_files(copies, &entries, &bytes) == 0 &&
                   remove_oldest(copies, &entries, 1) > 0;

    close_entries(&entries);
    return removed;
}

/* Half of what is free, where the copies that are there count as free. */
static uint64_t default_most(const struct copies *copies)
{
    struct statvfs status;
    uint64_t bytes;

    if (fstatvfs(copies->folder, &status) || count_files(copies, NULL, &bytes))
        return 0;
    return ((uint64_t)status.f_bavail * status.f_frsize + bytes) / 2;
}

static void name_self(struct copies *copies)
{
    static atomic_uint opened;
    char host[65] = "";

    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-')
            *c = '_';
    snprintf(copies->self, sizeof copies->self, "%s-%d-%u", host, (int)getpid(),
             atomic_fetch_add(&opened, 1));
}

/* The lock and the pin. What cannot be made because nothing may be written there is none. */
static int open_lock(struct copies *copies)
{
    copies->lock = openat(copies->folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (copies->lock < 0) {
        copies->read_only = errno == EROFS || errno == EACCES || errno == EPERM;
        return copies->read_only ? 0 : -errno;
    }
    copies->locks = flock(copies->lock, LOCK_SH | LOCK_NB) == 0 || errno == EWOULDBLOCK;
    flock(copies->lock, LOCK_UN);
    return 0;
}

static int open_pin(struct copies *copies)
{
    bool locked = copies_lock(copies);
    int fault = 0;

    snprintf(copies->pin_file, sizeof copies->pin_file, PIN "%s", copies->self);
    /* A process of this number may have died and left its own. */
    copies->pin = openat(copies->folder, copies->pin_file,
                         O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (copies->pin < 0) {
        fault = -errno;
        copies->pin_file[0] = '\0';
    } else if (locked) {
        (void)flock(copies->pin, LOCK_EX | LOCK_NB);
        each_file(copies, sweep_file, copies);
    }
    copies_unlock(copies, locked);
    return fault;
}

int copies_open(struct copies **out, const char *path, uint64_t most, unsigned patience_ms)
{
    struct copies *copies = calloc(1, sizeof *copies);
    int fault = 0;

    if (!copies)
        return -ENOMEM;
    *copies = (struct copies){.path = strdup(path),
                              .folder = -1,
                              .lock = -1,
                              .pin = -1,
                              .patience_ns = patience_ms * (uint64_t)1000000};
    pthread_mutex_init(&copies->mutex, NULL);
    name_self(copies);
    if (!copies->path)
        fault = -ENOMEM;
    else if (mkdir(path, 0700) && errno != EEXIST && errno != EROFS && errno != EACCES)
        fault = -errno;
    else if ((copies->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        fault = -errno;
    if (!fault)
        fault = open_lock(copies);
    if (!fault && !copies->read_only)
        fault = open_pin(copies);
    if (fault) {
        copies_close(copies);
        return fault;
    }
    copies->most = most ? most : default_most(copies);
    *out = copies;
    return 0;
}

void copies_close(struct copies *copies)
{
    if (!copies)
        return;
    if (copies->pin >= 0)
        unlinkat(copies->folder, copies->pin_file, 0);
    if (copies->pin >= 0)
        close(copies->pin);
    if (copies->lock >= 0)
        close(copies->lock);
    if (copies->folder >= 0)
        close(copies->folder);
    pthread_mutex_destroy(&copies->mutex);
    free(copies->path);
    free(copies);
}

const char *copies_path(const struct copies *copies)
{
    return copies->path;
}

uint64_t copies_most(const struct copies *copies)
{
    return copies->most;
}
