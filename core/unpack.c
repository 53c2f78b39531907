/* Compressed shards become copies: which they are, who unpacks which, and what users are told. Owns
 * the list of copies; the folder is core/copies.c's, and the streams are core/expand.c's. */
#include "unpack.h"

#include "cache.h"
#include "copies.h"
#include "expand.h"
#include "progress.h"
#include "report.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK INDEX_HEADER_BYTES
/* Where ustar, GNU and PAX headers say what they are. */
#define MAGIC_OFFSET 257
#define THREADS_MOST 32
/* Lines about single shards before the rest is only counted. */
#define WARNINGS_MOST 10

enum state {
    WAITING,  /* for its turn */
    BUSY,     /* another process unpacks it */
    NO_ROOM,  /* in the folder, as it was */
    FAILED,   /* left out */
    UNPACKED, /* has its copy */
};

/* One compressed shard. Its turn is one thread's. */
struct task {
    size_t shard;
    enum state state;
    bool made;    /* by this process, now */
    bool counted; /* as progress */
    bool fs_full; /* rather than the bound reached */
    char name[COPIES_NAME];
    struct index_shard original; /* as it was looked at; the path is the list's */
    uint64_t reached;            /* bytes unpacked when there was no more room */
    struct copy_note note;
};

struct unpack {
    const struct shard_list *list; /* the caller's, while it is opened */
    struct copies *copies;
    char **files; /* one a shard; NULL: nothing is compressed */
    size_t file_count;
    struct task *tasks;
    size_t count;
    bool *compressed; /* one a shard, while they are looked at */
    int round;        /* of unpack_some() */
    atomic_size_t next;
    atomic_int fault;
    atomic_uint warnings;
    struct progress progress; /* in bytes of the originals, while they are unpacked */
};

static void warn_of(struct unpack *unpack, const char *path, uint64_t offset, const char *fault,
                    const char *then)
{
    if (atomic_fetch_add(&unpack->warnings, 1) < WARNINGS_MOST)
        report_warning("%s: compressed byte %llu: %s; %s", path, (unsigned long long)offset, fault,
                       then);
}

/* What streams begin with that are met often: libarchive would unpack their first block to tell,
 * which takes 50 ms of bzip2, for each shard of each mount. */
static bool has_magic(const char *block, size_t size)
{
    static const struct {
        const char *bytes;
        size_t size;
    } magics[] = {{"\x1f\x8b\x08", 3},
                  {"BZh", 3},
                  {"\xfd"
                   "7zXZ\0",
                   6},
                  {"\x28\xb5\x2f\xfd", 4},
                  {"\x04\x22\x4d\x18", 4}};

    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (size > magics[i].size && memcmp(block, magics[i].bytes, magics[i].size) == 0)
            return true;
    return false;
}

static bool is_compressed(struct shard_file *file)
{
    char scratch[BLOCK], name[32];
    size_t size = file->read.size < BLOCK ? (size_t)file->read.size : BLOCK;
    const char *block = size ? shard_file_bytes(file, 0, size, scratch) : NULL;

    if (!block || (size == BLOCK && memcmp(block + MAGIC_OFFSET, "ustar", 5) == 0))
        return false;
    return has_magic(block, size) || shard_file_compression(file, name, sizeof name);
}

/* Whether shard `i` is compressed. What cannot be opened or read is the walk's to report. */
static bool look_at(const struct unpack *unpack, size_t i)
{
    struct index_shard shard = {.path = unpack->list->paths[i]};
    struct shard_file *file;
    bool compressed = shard_file_open(&file, &shard) == 0 && is_compressed(file);

    shard_file_close(file);
    return compressed;
}

static void *look_at_some(void *context)
{
    struct unpack *unpack = context;
    size_t i;

    while ((i = atomic_fetch_add(&unpack->next, 1)) < unpack->list->count)
        unpack->compressed[i] = look_at(unpack, i);
    return NULL;
}

/* Unpacking. */

static int put(void *copy, const void *bytes, size_t size)
{
    return copy_write(copy, bytes, size);
}

static bool is_unchanged(const struct shard_file *file, const struct index_shard *shard)
{
    struct stat status;

    return fstat(file->read.fd, &status) == 0 && (uint64_t)status.st_size == shard->size &&
           status.st_mtim.tv_sec == shard->modified.tv_sec &&
           status.st_mtim.tv_nsec == shard->modified.tv_nsec;
}

static int complain(const struct unpack *unpack, const struct task *task, const char *what,
                    int fault)
{
    report_warning("%s: cannot be unpacked into %s: %s%s", unpack->list->paths[task->shard],
                   copies_path(unpack->copies), what, fault ? strerror(-fault) : "");
    return 0;
}

/* The stream is through; its copy is `copy`, which this ends. */
static int end_copy(struct unpack *unpack, struct task *task, struct copy *copy,
                    const struct expand_fault *stream)
{
    const char *path = unpack->list->paths[task->shard];
    int fault;

    task->note = (struct copy_note){.bytes = stream->sound, .offset = stream->offset};
    snprintf(task->note.fault, sizeof task->note.fault, "%s", stream->text);
    if (stream->kind == EXPAND_CORRUPT && !stream->sound) {
        warn_of(unpack, path, stream->offset, stream->text, "nothing of it can be trusted");
        copy_abandon(copy);
        return 0;
    }
    fault = copy_end(copy, &task->original.modified, &task->note);
    if (fault)
        return complain(unpack, task, "", fault);
    task->state = UNPACKED;
    task->made = true;
    return 0;
}

/* Fills and ends `copy`. 0, or a negative errno that ends all, reported. */
static int fill_copy(struct unpack *unpack, struct task *task, struct copy *copy)
{
    struct index_shard shard = {.path = unpack->list->paths[task->shard]};
    struct expand_fault stream;
    struct shard_file *file;
    int fault = shard_file_open(&file, &shard);

    if (!fault)
        fault = expand(file, put, copy, &stream);
    if (fault && file && (file->fault || file->read.fd < 0)) {
        report_error("%s: offset %llu: %s", shard.path, (unsigned long long)file->offset,
                     strerror(-fault));
    } else if (fault == -EDQUOT || fault == -ENOSPC) {
        task->state = NO_ROOM;
        task->fs_full = fault == -ENOSPC;
        task->reached = copy_size(copy);
        fault = 0;
    } else if (fault == -ENOMEM) {
        report_error("no memory to unpack %s", shard.path);
    } else if (fault) {
        fault = complain(unpack, task, "", fault);
    } else if (!is_unchanged(file, &task->original)) {
        complain(unpack, task, "it changes while it is read", 0);
    } else {
        shard_file_close(file);
        return end_copy(unpack, task, copy, &stream);
    }
    shard_file_close(file);
    copy_abandon(copy);
    return fault;
}

/* One turn of one shard. 0, or a negative errno that ends all, reported. */
static int take_turn(struct unpack *unpack, struct task *task)
{
    bool wait = task->state == BUSY;
    struct copy *copy;
    int begun;

    task->state = FAILED;
    if (copies_find(unpack->copies, task->name, &task->note)) {
        task->state = UNPACKED;
        return 0;
    }
    begun = copies_begin(unpack->copies, task->name, wait, &copy, &task->note);
    if (begun == 1)
        task->state = UNPACKED;
    else if (begun == -EBUSY)
        task->state = BUSY;
    else if (begun == -EROFS)
        task->state = FAILED; /* said once, of the folder */
    else if (begun < 0)
        return complain(unpack, task, "", begun);
    return begun == 0 ? fill_copy(unpack, task, copy) : 0;
}

/* The state that has a turn in each round: two processes that begin together take different shards
 * first, and then wait for each other's. */
static const enum state turns[] = {WAITING, BUSY};

static void *unpack_some(void *context)
{
    struct unpack *unpack = context;
    size_t i;

    while (!atomic_load(&unpack->fault) &&
           (i = atomic_fetch_add(&unpack->next, 1)) < unpack->count) {
        struct task *task = &unpack->tasks[i];
        int fault = task->state == turns[unpack->round] ? take_turn(unpack, task) : 0;
        if (fault)
            atomic_store(&unpack->fault, fault);
        else if (task->state != WAITING && task->state != BUSY && !task->counted) {
            task->counted = true;
            progress_add(&unpack->progress, task->original.size);
        }
    }
    return NULL;
}

/* Runs `work` in up to `count` threads. This one works too, so that one that cannot be started is
 * no fault. */
static void run(struct unpack *unpack, void *(*work)(void *), size_t count)
{
    pthread_t others[THREADS_MOST];
    size_t started = 0;

    if (count > THREADS_MOST)
        count = THREADS_MOST;
    atomic_store(&unpack->next, 0);
    while (started + 1 < count && pthread_create(&others[started], NULL, work, unpack) == 0)
        started++;
    work(unpack);
    while (started)
        pthread_join(others[--started], NULL);
}

/* How much larger shards get here, by what was unpacked so far. */
static double growth(const struct unpack *unpack)
{
    double packed = 0, bytes = 0;

    for (size_t i = 0; i < unpack->count; i++) {
        if (unpack->tasks[i].state != UNPACKED)
            continue;
        packed += (double)unpack->tasks[i].original.size;
        bytes += (double)unpack->tasks[i].note.bytes;
    }
    return packed > 0 ? bytes / packed : 1;
}

/* What a shard needs: more than it reached. */
static double estimate(const struct task *task, double grows)
{
    double bytes = (double)task->original.size * grows;

    return bytes > (double)task->reached ? bytes : (double)task->reached;
}

static int by_original_size(const void *a, const void *b)
{
    const struct task *x = *(struct task *const *)a, *y = *(struct task *const *)b;

    if (x->original.size != y->original.size)
        return x->original.size < y->original.size ? -1 : 1;
    return x->shard < y->shard ? -1 : x->shard > y->shard;
}

/* For what there was no room: once more, one at a time and the smallest first. What took the room
 * may have been a shard that never fits, which gave it back. */
static int retry(struct unpack *unpack)
{
    struct task **order = calloc(unpack->count + 1, sizeof *order);
    size_t count = 0;
    double most = INFINITY;
    int fault = 0;

    if (!order)
        return -ENOMEM;
    for (size_t i = 0; i < unpack->count; i++)
        if (unpack->tasks[i].state == NO_ROOM)
            order[count++] = &unpack->tasks[i];
    qsort(order, count, sizeof *order, by_original_size);
    for (size_t i = 0; i < count && !fault; i++) {
        if ((double)order[i]->original.size * growth(unpack) >= most)
            continue;
        fault = take_turn(unpack, order[i]);
        if (order[i]->state == NO_ROOM)
            most = (double)order[i]->reached;
    }
    free(order);
    return fault;
}

/* A size for people. */
static void print_size(char text[32], double bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;

    while (bytes >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, 32, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}

/* One line about all for which there was no room. */
static void tell_of_room(const struct unpack *unpack)
{
    double grows = growth(unpack), need = 0, all = 0;
    char needed[32], total[32], most[32];
    const struct task *first = NULL;
    size_t count = 0;
    bool fs_full = false;

    for (size_t i = 0; i < unpack->count; i++) {
        const struct task *task = &unpack->tasks[i];
        all += task->state == UNPACKED ? (double)task->note.bytes : estimate(task, grows);
        if (task->state != NO_ROOM)
            continue;
        need += estimate(task, grows);
        fs_full |= task->fs_full;
        first = first ? first : task;
        count++;
    }
    if (!count)
        return;
    print_size(needed, need);
    print_size(total, all);
    print_size(most, (double)copies_most(unpack->copies));
    report_warning("%s%s: no room for %s: %zu compressed shard%s left out, which need%s about "
                   "%s or more (all %zu: %s); %s holds at most %s%s",
                   unpack->list->paths[first->shard], count > 1 ? " and others" : "",
                   count > 1 ? "their copies" : "its copy", count, count > 1 ? "s are" : " is",
                   count > 1 ? "" : "s", needed, unpack->count, total, copies_path(unpack->copies),
                   most,
                   fs_full ? ", and its file system is full: unpacked=DIR on another one helps"
                           : ": unpacked_size= (or unpacked=DIR on another file system) helps");
}

static void tell_of_faults(struct unpack *unpack)
{
    unsigned warned;

    for (size_t i = 0; i < unpack->count; i++) {
        const struct task *task = &unpack->tasks[i];
        if (task->state == UNPACKED && task->note.fault[0])
            warn_of(unpack, unpack->list->paths[task->shard], task->note.offset, task->note.fault,
                    "what comes before that is used");
    }
    warned = atomic_load(&unpack->warnings);
    if (warned > WARNINGS_MOST)
        report_warning("%u more compressed shards are cut or corrupt", warned - WARNINGS_MOST);
}

static int pin_all(struct unpack *unpack)
{
    const char **names = calloc(unpack->count + 1, sizeof *names);
    int fault;

    if (!names)
        return -ENOMEM;
    for (size_t i = 0; i < unpack->count; i++)
        names[i] = unpack->tasks[i].name;
    fault = copies_pin(unpack->copies, names, unpack->count);
    free(names);
    return fault;
}

/* Opens the folder. 1: it can be used; 0: it cannot, and a line said so; -ENOMEM. */
static int open_folder(struct unpack *unpack, const char *folder, uint64_t most,
                       unsigned patience_ms)
{
    char *own = NULL;
    int fault = folder ? 0 : cache_folder("unpacked", &own);

    if (!fault)
        fault = copies_open(&unpack->copies, folder ? folder : own, most, patience_ms);
    if (!fault)
        fault = pin_all(unpack);
    if (fault == -EROFS && unpack->copies) /* those that are there may be used */
        report_warning("%s: read-only: compressed shards that have no copy there are left out; "
                       "unpacked=DIR names another folder",
                       folder ? folder : own);
    else if (fault && fault != -ENOMEM)
        report_warning("%s: %s: %zu compressed shard%s left out; unpacked=DIR names another folder",
                       folder ? folder
                       : own  ? own
                              : "no folder for unpacked shards",
                       strerror(-fault), unpack->count, unpack->count > 1 ? "s are" : " is");
    free(own);
    if (fault == -ENOMEM)
        return fault;
    return !fault || (fault == -EROFS && unpack->copies);
}

/* The tasks: which shards are compressed. 0 or -ENOMEM. */
static int gather(struct unpack *unpack)
{
    size_t count = 0;

    for (size_t i = 0; i < unpack->list->count; i++)
        count += unpack->compressed[i];
    if (!count)
        return 0;
    unpack->tasks = calloc(count, sizeof *unpack->tasks);
    unpack->files = calloc(unpack->list->count, sizeof *unpack->files);
    if (!unpack->tasks || !unpack->files)
        return -ENOMEM;
    unpack->file_count = unpack->list->count;
    for (size_t i = 0; i < unpack->list->count; i++) {
        struct task *task = &unpack->tasks[unpack->count];
        char base[SHARDS_NAME];
        struct stat status;
        if (!unpack->compressed[i])
            continue;
        *task = (struct task){.shard = i};
        unpack->count++;
        if (stat(unpack->list->paths[i], &status)) {
            task->state = FAILED; /* the walk reports it */
            continue;
        }
        task->original.size = (uint64_t)status.st_size;
        task->original.modified = status.st_mtim;
        shards_base_name(base, unpack->list->paths[i]);
        if (strlen(base) > 4 && strcmp(base + strlen(base) - 4, ".tar") == 0)
            base[strlen(base) - 4] = '\0';
        copies_name(task->name, unpack->list->paths[i], base, task->original.size,
                    &task->original.modified, status.st_ino);
    }
    return 0;
}

/* Puts down where the copies are. 0 or -ENOMEM. */
static int put_files(struct unpack *unpack)
{
    for (size_t i = 0; i < unpack->count; i++) {
        const struct task *task = &unpack->tasks[i];
        if (task->state == UNPACKED && asprintf(&unpack->files[task->shard], "%s/%s.tar",
                                                copies_path(unpack->copies), task->name) < 0) {
            unpack->files[task->shard] = NULL;
            return -ENOMEM;
        }
    }
    return 0;
}

static int unpack_all(struct unpack *unpack)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t threads = cores > 1 ? (size_t)cores : 1;
    uint64_t bytes = 0;
    int fault;

    report_info("%s: %zu of %zu shards are compressed, and read from copies",
                copies_path(unpack->copies), unpack->count, unpack->list->count);
    for (size_t i = 0; i < unpack->count; i++)
        bytes += unpack->tasks[i].original.size;
    progress_open(&unpack->progress, "unpacking", bytes, 0, PROGRESS_BYTES);
    for (unpack->round = 0; unpack->round < (int)(sizeof turns / sizeof *turns); unpack->round++)
        run(unpack, unpack_some, unpack->count < threads ? unpack->count : threads);
    fault = atomic_load(&unpack->fault);
    if (!fault)
        fault = retry(unpack);
    progress_close(&unpack->progress);
    if (!fault)
        fault = put_files(unpack);
    if (!fault) {
        tell_of_faults(unpack);
        tell_of_room(unpack);
    }
    return fault;
}

int unpack_open(struct unpack **out, const struct shard_list *list, const char *folder,
                uint64_t most, unsigned patience_ms)
{
    struct unpack *unpack = calloc(1, sizeof *unpack);
    int fault = 0, usable = 0;

    *out = NULL;
    if (unpack) {
        unpack->list = list;
        unpack->compressed = calloc(list->count + 1, sizeof *unpack->compressed);
    }
    if (!unpack || !unpack->compressed) {
        fault = -ENOMEM;
    } else {
        run(unpack, look_at_some, list->count); /* which waits for storage, not for processors */
        fault = gather(unpack);
        free(unpack->compressed);
        unpack->compressed = NULL;
    }
    if (!fault && unpack->count && !(folder && strcmp(folder, "none") == 0))
        usable = open_folder(unpack, folder, most, patience_ms);
    if (usable < 0)
        fault = usable;
    else if (usable)
        fault = unpack_all(unpack);
    if (fault) {
        if (fault == -ENOMEM)
            report_error("no memory to unpack %zu shards", list->count);
        unpack_close(unpack);
        return fault;
    }
    unpack->list = NULL;
    *out = unpack;
    return 0;
}

void unpack_close(struct unpack *unpack)
{
    if (!unpack)
        return;
    for (size_t i = 0; unpack->files && i < unpack->file_count; i++)
        free(unpack->files[i]);
    free(unpack->files);
    free(unpack->tasks);
    free(unpack->compressed);
    copies_close(unpack->copies);
    free(unpack);
}

char **unpack_files(const struct unpack *unpack)
{
    return unpack->files;
}

void unpack_faults(const struct unpack *unpack,
                   void (*tell)(void *context, size_t shard, uint64_t offset), void *context)
{
    for (size_t i = 0; i < unpack->count; i++)
        if (unpack->tasks[i].note.fault[0])
            tell(context, unpack->tasks[i].shard, unpack->tasks[i].note.offset);
}

struct unpack_figures unpack_figures(const struct unpack *unpack)
{
    struct unpack_figures figures = {0};

    for (size_t i = 0; i < unpack->count; i++) {
        const struct task *task = &unpack->tasks[i];
        figures.left_out += task->state != UNPACKED;
        figures.faulty += task->note.fault[0] != '\0';
        if (task->state != UNPACKED)
            continue;
        figures.shards++;
        figures.made += task->made;
        figures.bytes += task->note.bytes;
    }
    return figures;
}
