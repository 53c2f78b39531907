/* The folder of unpacked shards (see copies.h): names, locks, notes, and the copies that grow. What
 * goes when the folder is full is core/copies_room.c's. Owns the folder's descriptor and the pin.
 */
#include "copies_folder.h"

#include "clock.h"
#include "report.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define PART     ".part"
#define NOTE     ".info"
#define FIRST    "shufflefs-unpacked 1\n"
#define BASE_MAX 80
/* Of a copy that is compared with its checksum. */
#define PIECE ((size_t)1 << 20)
/* The folder's file system is asked for room in steps of this, as each counts the folder's files.
 */
#define STEP_MOST ((uint64_t)64 << 20)

struct copy {
    struct copies *copies;
    char name[COPIES_NAME], part[COPIES_FILE];
    int fd;
    uint64_t size, reserved;
    XXH3_state_t *sum;
    uint64_t sum_bytes; /* covered by `sum` */
};

void copies_name(char name[COPIES_NAME], const char *path, const char *base, uint64_t size,
                 const struct timespec *modified, ino_t inode)
{
    uint64_t numbers[4] = {size, (uint64_t)modified->tv_sec, (uint64_t)modified->tv_nsec,
                           (uint64_t)inode};
    XXH128_hash_t of_path = XXH3_128bits(path, strlen(path));
    XXH128_hash_t hash = XXH3_128bits_withSeed(numbers, sizeof numbers, of_path.low64);
    int used = snprintf(name, COPIES_NAME, "%016" PRIx64 "%016" PRIx64 "-",
                        hash.high64 ^ of_path.high64, hash.low64);

    for (int i = 0; i < BASE_MAX && base[i]; i++) {
        unsigned char c = (unsigned char)base[i];
        name[used++] = (char)(isalnum(c) || strchr("-_+=@", c) || (c == '.' && i) ? c : '_');
    }
    name[used] = '\0';
}

/* A note: its lines end with one that says so, as a file may be cut. */

static int write_note(struct copies *copies, const char *name, const struct copy_note *note,
                      XXH128_hash_t sum, const struct timespec *modified)
{
    char file[COPIES_FILE], fresh[COPIES_FILE], text[512];
    int length = snprintf(text, sizeof text,
                          FIRST "bytes %" PRIu64 "\nsum %016" PRIx64 "%016" PRIx64
                                "\nmodified %lld %ld\noffset %" PRIu64 "\nfault %s\nend\n",
                          note->bytes, sum.high64, sum.low64, (long long)modified->tv_sec,
                          modified->tv_nsec, note->offset, note->fault);
    int fault = 0, fd;

    copies_file(file, name, NOTE);
    copies_file(fresh, name, NOTE ".new");
    fd = openat(copies->folder, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    errno = ENOSPC; /* of a write that is short */
    if (write(fd, text, (size_t)length) != length || fdatasync(fd))
        fault = -errno;
    close(fd);
    if (!fault && renameat(copies->folder, fresh, copies->folder, file))
        fault = -errno;
    if (fault)
        unlinkat(copies->folder, fresh, 0);
    return fault;
}

struct full_note {
    struct copy_note note;
    XXH128_hash_t sum;
    struct timespec modified;
};

static bool read_note(struct copies *copies, const char *name, struct full_note *full)
{
    char file[COPIES_FILE], text[512], end[8] = "";
    uint64_t high, low;
    long long seconds;
    long ns;
    ssize_t length;
    int fd, used = 0;

    *full = (struct full_note){0};
    copies_file(file, name, NOTE);
    fd = openat(copies->folder, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length < 0)
        return false;
    text[length] = '\0';
    if (sscanf(text,
               FIRST "bytes %" SCNu64 " sum %16" SCNx64 "%16" SCNx64
                     " modified %lld %ld offset %" SCNu64 " fault%n",
               &full->note.bytes, &high, &low, &seconds, &ns, &full->note.offset, &used) != 6 ||
        !used)
        return false;
    full->sum = (XXH128_hash_t){.low64 = low, .high64 = high};
    full->modified = (struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = ns};
    /* The fault may be empty, and scanf skips what is. */
    if (text[used] != ' ')
        return false;
    text[strcspn(text + used, "\n") + (size_t)used] = '\0';
    snprintf(full->note.fault, sizeof full->note.fault, "%s", text + used + 1);
    used += (int)strlen(text + used) + 1;
    return used < length && sscanf(text + used, "%7s", end) == 1 && strcmp(end, "end") == 0;
}

/* Sums. */

static bool add_file(XXH3_state_t *sum, int fd, uint64_t bytes)
{
    char *piece = malloc(PIECE);
    uint64_t at = 0;

    while (piece && at < bytes) {
        size_t want = bytes - at < PIECE ? (size_t)(bytes - at) : PIECE;
        ssize_t got = pread(fd, piece, want, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        XXH3_128bits_update(sum, piece, (size_t)got);
        at += (uint64_t)got;
    }
    free(piece);
    return at == bytes;
}

static bool has_sum(int fd, const struct full_note *full)
{
    XXH3_state_t *sum = XXH3_createState();
    bool same = false;

    if (sum) {
        XXH3_128bits_reset(sum);
        same = add_file(sum, fd, full->note.bytes) &&
               XXH128_isEqual(XXH3_128bits_digest(sum), full->sum);
        XXH3_freeState(sum);
    }
    return same;
}

/* What is wrong with a copy, NULL: nothing. */
static const char *copy_fault(int fd, const struct full_note *full)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, full->modified};
    struct stat status;

    if (fstat(fd, &status))
        return strerror(errno);
    if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size != full->note.bytes)
        return "it is cut";
    if (status.st_mtim.tv_sec == full->modified.tv_sec &&
        status.st_mtim.tv_nsec == full->modified.tv_nsec) {
        /* On a read-only file system nothing is removed either. */
        times[1].tv_nsec = UTIME_OMIT;
        (void)futimens(fd, times);
        return NULL;
    }
    if (!has_sum(fd, full))
        return "its bytes are others than were unpacked";
    (void)futimens(fd, times);
    return NULL;
}

/* A copy that is there and right. `fault` says what is wrong with one that is there, NULL: nothing.
 */
static bool find(struct copies *copies, const char *name, struct copy_note *note,
                 const char **fault)
{
    struct full_note full;
    char file[COPIES_FILE];
    int fd;

    *fault = NULL;
    copies_file(file, name, COPIES_TAR);
    fd = openat(copies->folder, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    *fault = read_note(copies, name, &full) ? copy_fault(fd, &full)
                                            : "its note is missing or damaged";
    close(fd);
    *note = full.note;
    return !*fault;
}

bool copies_find(struct copies *copies, const char *name, struct copy_note *note)
{
    const char *fault;
    bool found = find(copies, name, note, &fault);
    char file[COPIES_FILE];

    copies_file(file, name, COPIES_TAR);
    if (fault)
        report_warning("%s/%s: %s; unpacked again", copies->path, file, fault);
    return found;
}

/* Copies that grow. */

/* A descriptor with the lock on `part`. Returns 0; -EBUSY, another one holds it, and *progress says
 * how far it is; or a negative errno. */
static int take_part(struct copies *copies, const char *part, int *out, struct stat *progress)
{
    for (;;) {
        int fault,
            fd = openat(copies->folder, part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            if (copies_is_still(copies, fd, part)) {
                *out = fd;
                return 0;
            }
            close(fd);
            continue;
        }
        fault = errno;
        if (fstat(fd, progress))
            *progress = (struct stat){0};
        close(fd);
        if (fault != EINTR)
            return fault == EWOULDBLOCK ? -EBUSY : -fault;
    }
}

static bool same_progress(const struct stat *a, const struct stat *b)
{
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_blocks == b->st_blocks &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* As take_part(), but waits while the other one gets on; -ETIMEDOUT: it does not. */
static int wait_for_part(struct copies *copies, const char *part, int *fd)
{
    struct stat before = {0}, now = {0};
    uint64_t since = clock_now_ns();
    int fault;

    while ((fault = take_part(copies, part, fd, &now)) == -EBUSY) {
        if (!same_progress(&before, &now)) {
            before = now;
            since = clock_now_ns();
        } else if (clock_now_ns() - since > copies->patience_ns) {
            return -ETIMEDOUT;
        }
        copies_pause();
    }
    return fault;
}

/* A part that is this process's alone: where there are no locks, or another one hangs. */
static int take_own_part(struct copies *copies, struct copy *copy)
{
    snprintf(copy->part, sizeof copy->part, "%.*s.%s" PART, COPIES_NAME, copy->name, copies->self);
    copy->fd = openat(copies->folder, copy->part,
                      O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (copy->fd < 0)
        return -errno;
    (void)flock(copy->fd, LOCK_EX | LOCK_NB); /* nobody else's; where there are none, none */
    return 0;
}

static void free_copy(struct copy *copy)
{
    if (copy->fd >= 0)
        close(copy->fd);
    XXH3_freeState(copy->sum);
    free(copy);
}

static int take_any_part(struct copies *copies, struct copy *copy, bool wait)
{
    struct stat progress;
    int fault;

    copies_file(copy->part, copy->name, PART);
    if (!copies->locks)
        return take_own_part(copies, copy);
    fault = wait ? wait_for_part(copies, copy->part, &copy->fd)
                 : take_part(copies, copy->part, &copy->fd, &progress);
    if (fault == -ETIMEDOUT) {
        report_warning("%s/%s: the process that unpacks it hangs; going on beside it", copies->path,
                       copy->part);
        return take_own_part(copies, copy);
    }
    return fault;
}

int copies_begin(struct copies *copies, const char *name, bool wait, struct copy **out,
                 struct copy_note *note)
{
    struct copy *copy = calloc(1, sizeof *copy);
    const char *wrong; /* said by copies_find() */
    int fault;

    if (!copy)
        return -ENOMEM;
    if (copies->read_only) {
        free(copy);
        return -EROFS;
    }
    *copy = (struct copy){.copies = copies, .fd = -1, .sum = XXH3_createState()};
    snprintf(copy->name, sizeof copy->name, "%s", name);
    fault = copy->sum ? take_any_part(copies, copy, wait) : -ENOMEM;
    if (fault) {
        free_copy(copy);
        return fault;
    }
    XXH3_128bits_reset(copy->sum);
    /* Whoever held the lock may have made it. */
    if (find(copies, name, note, &wrong)) {
        copy_abandon(copy);
        return 1;
    }
    if (ftruncate(copy->fd, 0)) {
        fault = -errno;
        copy_abandon(copy);
        return fault;
    }
    *out = copy;
    return 0;
}

uint64_t copy_size(const struct copy *copy)
{
    return copy->size;
}

/* Room for `size` more. The part is made as long as what is reserved, so that all count it. */
static int reserve(struct copy *copy, size_t size)
{
    struct copies *copies = copy->copies;
    uint64_t need = copy->size + size - copy->reserved, step = copies->most / 64, got;
    bool locked;
    int fault;

    if (step > STEP_MOST)
        step = STEP_MOST;
    locked = copies_lock(copies);
    fault = copies_make_room(copies, need, need > step ? need : step, locked, &got);
    if (!fault && ftruncate(copy->fd, (off_t)(copy->reserved + got)))
        fault = -errno;
    if (!fault)
        copy->reserved += got;
    copies_unlock(copies, locked);
    return fault;
}

int copy_write(struct copy *copy, const void *bytes, size_t size)
{
    int fault = copy->size + size > copy->reserved ? reserve(copy, size) : 0;

    while (!fault && size) {
        ssize_t put = pwrite(copy->fd, bytes, size, (off_t)copy->size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && (errno == ENOSPC || errno == EDQUOT)) {
            bool locked = copies_lock(copy->copies);
            fault = copies_remove_one(copy->copies, locked) ? 0 : -ENOSPC;
            copies_unlock(copy->copies, locked);
            continue;
        }
        if (put < 0)
            return -errno;
        XXH3_128bits_update(copy->sum, bytes, (size_t)put);
        bytes = (const char *)bytes + put;
        size -= (size_t)put;
        copy->size += (uint64_t)put;
    }
    return fault;
}

/* What stands in the part, ready to be named; `*sum` and `*modified` are what its note shall say.
 */
static int finish_part(struct copy *copy, const struct timespec *modified, uint64_t bytes,
                       XXH128_hash_t *sum, struct timespec *kept)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, *modified};
    struct stat status;

    if (bytes != copy->size) { /* its end is not to be trusted */
        XXH3_128bits_reset(copy->sum);
        if (!add_file(copy->sum, copy->fd, bytes))
            return -EIO;
    }
    *sum = XXH3_128bits_digest(copy->sum);
    if (ftruncate(copy->fd, (off_t)bytes) || futimens(copy->fd, times) || fdatasync(copy->fd) ||
        fstat(copy->fd, &status))
        return -errno;
    *kept = status.st_mtim; /* some file systems round it */
    return 0;
}

int copy_end(struct copy *copy, const struct timespec *modified, const struct copy_note *note)
{
    struct copies *copies = copy->copies;
    char file[COPIES_FILE];
    struct timespec kept = {0};
    XXH128_hash_t sum = {0};
    bool locked;
    int fault = finish_part(copy, modified, note->bytes, &sum, &kept);

    copies_file(file, copy->name, COPIES_TAR);
    if (!fault) {
        locked = copies_lock(copies);
        fault = write_note(copies, copy->name, note, sum, &kept);
        if (!fault && renameat(copies->folder, copy->part, copies->folder, file))
            fault = -errno;
        copies_unlock(copies, locked);
    }
    if (fault)
        unlinkat(copies->folder, copy->part, 0);
    free_copy(copy);
    return fault;
}

void copy_abandon(struct copy *copy)
{
    unlinkat(copy->copies->folder, copy->part, 0);
    free_copy(copy);
}
