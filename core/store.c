/* Where the saved index stands, and who writes it. Owns the lock and the new file until it is kept;
 * knows nothing of the file's form. */
#include "store.h"

#include "cache.h"
#include "clock.h"
#include "report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

/* Of a folder for many: each version of the form has its own files, so that two versions on two
 * nodes do not replace each other's. */
#define SUFFIX                ".index"
#define VERSION_TEXT_(number) ".v" #number
#define VERSION_TEXT(number)  VERSION_TEXT_(number)
#define NEW                   ".new"
/* Labels that are kept beside an index (core/json_saved.c). */
#define LABELS ".labels"
/* Without progress for so long, another writer is not waited for: it may be stopped, or its node
 * gone with the lock. Large shards on slow storage take seconds each. */
#define PATIENCE_NS (30 * UINT64_C(1000000000))
#define POLL_NS     (20 * 1000 * 1000)
#define BEAT_NS     UINT64_C(1000000000)
/* More than any writer beats. */
#define BEATS_MOST ((uint64_t)1 << 40)
/* Saved indexes kept of shards whose names begin alike: some shards of a data set, all of them, an
 * earlier version. */
#define SIBLINGS_MOST 8
#define STEM_MOST     40
/* Seconds: 60 days. */
#define FORGOTTEN_S (60 * 86400)
#define KIN_BYTES   17 /* 16 digits and a '-' */

struct store {
    char *path, *fresh; /* the saved index, and the new one */
    char *folder, *kin; /* of a folder for many: it, and how the names of kin begin; else NULL */
    int fd;             /* of the new one, with its lock; -1 */
    atomic_uint_fast64_t beat_at, beats;
    bool silent; /* why there is no saved index was said */
};

static void add(XXH3_state_t *hash, const char *text, size_t length)
{
    XXH3_64bits_update(hash, text, length);
    XXH3_64bits_update(hash, "", 1);
}

/* Shards are kin when the first ones stand in one folder and their names are alike up to the first
 * digit: `train-000000.tar` and `train-000003.tar`. */
static size_t kin_length(const char *path)
{
    const char *base = basename(path);
    return (size_t)(base - path) + strcspn(base, "0123456789");
}

/* FOLDER/KIN-LIST-STEM.v1.index, where KIN is a hash of what kin share, LIST of all paths; STEM is
 * for people. */
static int name_file(struct store *store, const struct shard_list *shards)
{
    const char *first = shards->paths[0], *base = basename(first);
    size_t kin = kin_length(first), stem = strcspn(base, "0123456789");
    char text[STEM_MOST + 1] = "";
    XXH3_state_t *hash = XXH3_createState();
    uint64_t all;

    if (!hash)
        return -ENOMEM;
    XXH3_64bits_reset(hash);
    for (size_t i = 0; i < shards->count; i++)
        add(hash, shards->paths[i], strlen(shards->paths[i]));
    all = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    for (size_t i = 0; i < stem && i < STEM_MOST; i++)
        text[i] = (char)((unsigned char)base[i] > ' ' && base[i] != 0x7f ? base[i] : '_');
    if (asprintf(&store->kin, "%016llx-", (unsigned long long)XXH3_64bits(first, kin)) < 0) {
        store->kin = NULL;
        return -ENOMEM;
    }
    if (asprintf(&store->path, "%s/%s%016llx-%s" VERSION_TEXT(SAVED_VERSION) SUFFIX, store->folder,
                 store->kin, (unsigned long long)all, text) < 0) {
        store->path = NULL;
        return -ENOMEM;
    }
    return 0;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int find_place(struct store *store, const char *wanted, const struct shard_list *shards)
{
    int fault = 0;

    if (!wanted) {
        fault = cache_folder("index", &store->folder);
        if (fault == -ENOENT)
            report_warning("index: no HOME for a cache folder, so the index is kept in memory "
                           "alone; index=PATH names a place");
        else if (fault && fault != -ENOMEM)
            report_warning("index: %s: %s; the index is kept in memory alone", store->folder,
                           strerror(-fault));
    } else if (is_folder(wanted)) {
        store->folder = strdup(wanted);
        fault = store->folder ? 0 : -ENOMEM;
    }
    if (fault)
        return fault;
    if (store->folder) {
        fault = name_file(store, shards);
    } else {
        /* Of a link the file that it leads to is replaced, where there is one. */
        store->path = wanted ? realpath(wanted, NULL) : NULL;
        if (wanted && !store->path)
            store->path = strdup(wanted);
        fault = store->path ? 0 : -ENOMEM;
    }
    if (!fault && asprintf(&store->fresh, "%s" NEW, store->path) < 0) {
        store->fresh = NULL;
        fault = -ENOMEM;
    }
    return fault;
}

int store_open(struct store **out, const char *wanted, const struct shard_list *shards)
{
    struct store *store;
    int fault;

    *out = NULL;
    if ((wanted && strcmp(wanted, STORE_NONE) == 0) || shards->count == 0)
        return 0;
    store = calloc(1, sizeof *store);
    if (!store)
        return -ENOMEM;
    store->fd = -1;
    fault = find_place(store, wanted, shards);
    if (fault)
        store_close(store);
    else
        *out = store;
    return fault == -ENOMEM ? fault : 0;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    if (store->fd >= 0 && store->fresh) {
        /* Before the lock goes, or a new one of somebody else's would be removed. */
        unlink(store->fresh);
        close(store->fd);
    }
    free(store->path);
    free(store->fresh);
    free(store->folder);
    free(store->kin);
    free(store);
}

const char *store_path(const struct store *store)
{
    return store->path;
}

static void warn(struct store *store, const char *path, const char *why, const char *then)
{
    if (!store->silent)
        report_warning("index: %s: %s; %s", path, why, then);
    store->silent = true;
}

/* NULL: it is not there, or is no use; said in a line unless it is not there. */
static struct saved *load(struct store *store, const char *path)
{
    struct saved *saved = NULL;
    int fault = saved_open(&saved, path);

    switch (-fault) {
    case 0:
    case ENOENT:
        break;
    case EINVAL:
        warn(store, path, "not an index of this program, so it is not replaced",
             "the index is kept in memory alone");
        break;
    case EPROTONOSUPPORT:
        warn(store, path, "an index of another version of this program, so it is not replaced",
             "the index is kept in memory alone");
        break;
    case EBADMSG:
        report_warning("index: %s: damaged, made anew", path);
        break;
    default:
        warn(store, path, strerror(-fault), "the index is made anew");
    }
    return saved;
}

struct kin {
    char *path;
    struct timespec modified;
};

static bool ends_in(const char *name, const char *ending)
{
    size_t length = strlen(name), last = strlen(ending);

    return length > last && strcmp(name + length - last, ending) == 0;
}

static bool is_kin(const struct store *store, const char *name)
{
    return strncmp(name, store->kin, KIN_BYTES) == 0 && ends_in(name, SUFFIX);
}

static int latest_first(const void *a, const void *b)
{
    const struct timespec *x = &((const struct kin *)a)->modified;
    const struct timespec *y = &((const struct kin *)b)->modified;

    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? 1 : -1;
    return x->tv_nsec < y->tv_nsec ? 1 : -(x->tv_nsec > y->tv_nsec);
}

static void free_kin(struct kin *kin, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(kin[i].path);
    free(kin);
}

/* The saved indexes of kin, the latest first. Faults mean fewer: nothing hangs on them. */
static size_t list_kin(const struct store *store, struct kin **out)
{
    DIR *folder = opendir(store->folder);
    struct kin *list = NULL;
    struct dirent *entry;
    size_t count = 0, room = 0;

    while (folder && (entry = readdir(folder))) {
        struct stat status;
        if (!is_kin(store, entry->d_name) || harvest_grow(&list, &room, count + 1, sizeof *list))
            continue;
        if (asprintf(&list[count].path, "%s/%s", store->folder, entry->d_name) < 0)
            continue;
        if (lstat(list[count].path, &status) == 0 && S_ISREG(status.st_mode))
            list[count++].modified = status.st_mtim;
        else
            free(list[count].path);
    }
    if (folder)
        closedir(folder);
    if (count)
        qsort(list, count, sizeof *list, latest_first);
    *out = list;
    return count;
}

struct saved *store_load(struct store *store)
{
    struct saved *saved = load(store, store->path);
    struct kin *kin;
    size_t count;

    if (saved || !store->folder || access(store->path, F_OK) == 0)
        return saved;
    count = list_kin(store, &kin);
    for (size_t i = 0; i < count && !saved; i++)
        if (saved_open(&saved, kin[i].path))
            saved = NULL;
    free_kin(kin, count);
    return saved;
}

/* The lock of the open file: of one byte far behind what is ever written. */
static int lock(int fd)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_SETLK, &whole) ? -errno : 0;
}

static bool is_still(int fd, const char *path)
{
    struct stat mine, there;

    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

/* What a writer that lives changes now and then. */
static uint64_t pulse(int fd)
{
    struct stat status;
    uint64_t beats = 0;

    if (fstat(fd, &status))
        return 0;
    if (pread(fd, &beats, sizeof beats, 0) != (ssize_t)sizeof beats)
        beats = 0;
    return beats ^ ((uint64_t)status.st_size << 32) ^ (uint64_t)status.st_mtim.tv_nsec ^
           ((uint64_t)status.st_mtim.tv_sec << 20);
}

/* Waits for the lock of `fd`. 0, -ETIMEDOUT, or what the lock says. */
static int wait_for(struct store *store, int fd)
{
    uint64_t last = 0, since = 0;
    int fault;

    while ((fault = lock(fd)) == -EAGAIN || fault == -EACCES) {
        uint64_t now = clock_now_ns(), beats = pulse(fd);
        struct timespec pause = {.tv_nsec = POLL_NS};
        if (!since)
            report_info("index: %s: another process makes it; waiting for that", store->path);
        if (!since || beats != last)
            since = now;
        last = beats;
        if (now - since > PATIENCE_NS)
            return -ETIMEDOUT;
        nanosleep(&pause, NULL);
    }
    return fault;
}

/* Whether this is what a writer leaves when it is killed: nothing, its beats, or an index. */
static bool is_ours(int fd)
{
    uint64_t first = 0;
    ssize_t got = pread(fd, &first, sizeof first, 0);

    return got == 0 || (got == (ssize_t)sizeof first &&
                        (first < BEATS_MOST || memcmp(&first, "shufflef", sizeof first) == 0));
}

enum store_turn store_begin(struct store *store)
{
    int fd, fault;

    if (store->silent)
        return STORE_WITHOUT;
    fd = open(store->fresh, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0644);
    if (fd < 0) {
        bool place = errno == ENOENT || errno == EACCES || errno == EROFS;
        warn(store, place ? store->path : store->fresh, strerror(errno), "the index is not saved");
        return STORE_WITHOUT;
    }
    fault = wait_for(store, fd);
    if (fault) {
        close(fd);
        if (fault == -ETIMEDOUT)
            warn(store, store->fresh, "another process makes it, and did not get on for 30 s",
                 "the index is not saved");
        else
            warn(store, store->fresh, strerror(-fault), "no locks here, so the index is not saved");
        return STORE_WITHOUT;
    }
    if (!is_still(fd, store->fresh)) {
        close(fd);
        return STORE_CHANGED;
    }
    if (!is_ours(fd)) {
        close(fd);
        warn(store, store->fresh, "not a file of this program's, so it is not replaced",
             "the index is not saved");
        return STORE_WITHOUT;
    }
    store->fd = fd;
    /* A killed writer's remains would look like an index. */
    if (ftruncate(fd, 0))
        warn(store, store->fresh, strerror(errno), "the index is not saved");
    return store->silent ? STORE_WITHOUT : STORE_MINE;
}

void store_beat(struct store *store)
{
    uint64_t now, last;

    if (!store || store->fd < 0)
        return;
    now = clock_now_ns();
    last = atomic_load(&store->beat_at);
    if (now - last < BEAT_NS || !atomic_compare_exchange_strong(&store->beat_at, &last, now))
        return;
    last = atomic_fetch_add(&store->beats, 1) + 1;
    /* Nobody's loss where it fails: then others do not wait. */
    if (pwrite(store->fd, &last, sizeof last, 0) < 0)
        return;
}

static void remove_old_kin(struct store *store)
{
    struct kin *kin;
    size_t count = store->folder ? list_kin(store, &kin) : 0;

    for (size_t i = SIBLINGS_MOST; i < count; i++)
        if (strcmp(kin[i].path, store->path) != 0)
            unlink(kin[i].path);
    if (store->folder)
        free_kin(kin, count);
}

/* Data sets go, and their indexes stay: of a folder for many those that nobody has used for long.
 */
static void remove_forgotten(const struct store *store)
{
    DIR *folder = store->folder ? opendir(store->folder) : NULL;
    time_t now = time(NULL);
    struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        struct stat status;
        if ((ends_in(entry->d_name, SUFFIX) || ends_in(entry->d_name, LABELS)) &&
            fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode) && now - status.st_mtim.tv_sec > FORGOTTEN_S &&
            now - status.st_atim.tv_sec > FORGOTTEN_S)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
}

/* No fsync: after a power cut a file may be shorter or full of zeros, which its checksums tell. */
bool store_keep(struct store *store, const struct index *index, struct saved_shard *shards,
                const char *const *remarks)
{
    int fault = saved_write(store->fd, index, shards, remarks);

    if (!fault && rename(store->fresh, store->path))
        fault = -errno;
    /* Nobody shall write to what others have mapped. Their own fault where that is not taken. */
    if (!fault && fchmod(store->fd, 0444))
        report_info("index: %s: cannot be made read-only: %s", store->path, strerror(errno));
    if (fault) {
        warn(store, store->path, strerror(-fault), "the index is not saved");
        unlink(store->fresh);
    } else {
        remove_old_kin(store);
        remove_forgotten(store);
    }
    close(store->fd);
    store->fd = -1;
    return !fault;
}
