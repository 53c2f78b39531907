/* Readers and the gate that they start from. Owns their tallies and buffers, in one mapping that
 * readers which are processes share. */
#include "reading.h"

#include "../core/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct reader {
    struct reading_tally tally;
    const struct source *source;
    const struct reading_request *request;
    unsigned number; /* among its source's readers */
    int gate;        /* a pipe's end: it is closed when all may start */
    /* How a pass is going; its own alone. */
    unsigned part;
    int64_t part_start;
    uint64_t part_samples; /* counted before this part */
    volatile unsigned computed;
    pthread_t thread;
    pid_t process;
    char buffer[READING_BYTES] __attribute__((aligned(4096)));
};

/* Of these at a time, between looks at the clock. */
#define COMPUTED_BYTES 4096

struct reading {
    struct reader *readers;
    size_t readers_most;
    unsigned readers_each; /* a source, in the latest pass */
};

/* Bytes read, or a negative errno; a file that ends before its size is -EIO. */
static int64_t read_file(const char *path, char *buffer)
{
    struct stat status;
    int64_t done = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return -errno;
    if (fstat(file, &status) < 0)
        done = -errno;
    while (done >= 0 && done < status.st_size) {
        int64_t left = status.st_size - done;
        ssize_t got = read(file, buffer, left < READING_BYTES ? (size_t)left : READING_BYTES);
        if (got > 0)
            done += got;
        else
            done = got ? -errno : -EIO;
    }
    close(file);
    return done;
}

static void fail(struct reading_tally *tally, const char *path, int error)
{
    if (!tally->errors++) {
        tally->failed = path;
        tally->failure = error;
    }
}

/* Counts a wait from `before` to `after`, and what of it lies after the start of the pass. */
static void count_wait(struct reading_tally *tally, int64_t before, int64_t after)
{
    int64_t later = tally->start + READING_START_NS;

    histogram_add(&tally->latency, (uint64_t)(after - before));
    tally->waited_ns += after - before;
    if (after > later)
        tally->later_waited_ns += after - (before > later ? before : later);
}

/* A consumer that computes goes over the bytes, again and again. */
static int64_t compute(struct reader *reader, size_t size, int64_t until)
{
    unsigned sum = 0;
    size_t at = 0;
    int64_t now;

    do {
        for (size_t end = at + COMPUTED_BYTES; at < end && at < size; at++)
            sum = sum * 31 + (unsigned char)reader->buffer[at];
        at = at < size ? at : 0;
        now = (int64_t)clock_now_ns();
    } while (now < until);
    reader->computed = sum;
    return now;
}

/* The consumer is at work until that for `samples`, of `size` bytes in all, is done; returns the
 * time then. */
static int64_t think(struct reader *reader, int64_t now, uint64_t samples, size_t size)
{
    const struct reading_request *request = reader->request;
    int64_t until = now + request->work_ns * (int64_t)samples;
    struct timespec deadline = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};

    if (!request->work_ns || !samples)
        return now;
    if (request->busy)
        return compute(reader, size < READING_BYTES ? size : READING_BYTES, until);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR)
        continue;
    return (int64_t)clock_now_ns();
}

/* Ends parts until the current one reaches past `done` of `all`. */
static void advance_part(struct reader *reader, uint64_t done, uint64_t all, int64_t now)
{
    struct reading_tally *tally = &reader->tally;

    while (reader->part < reader->request->parts &&
           (double)done * reader->request->parts >= (double)all * (reader->part + 1)) {
        struct reading_part *part = &tally->parts[reader->part++];
        part->samples = tally->samples - reader->part_samples;
        part->ns = now - reader->part_start;
        reader->part_samples = tally->samples;
        reader->part_start = now;
    }
}

static void read_files(struct reader *reader)
{
    const struct reading_request *request = reader->request;
    const struct source *source = reader->source;
    struct reading_tally *tally = &reader->tally;
    uint64_t n = source->count < request->samples_most ? source->count : request->samples_most;
    uint64_t share = split_length(&request->split, n, request->readers, reader->number);
    int64_t now = tally->start;

    for (uint64_t k = 0; k < share && now - tally->start < request->ns_most; k++) {
        const char *path =
            source->names[split_sample(&request->split, n, request->readers, reader->number, k)];
        int64_t before = now, got = read_file(path, reader->buffer);
        now = (int64_t)clock_now_ns();
        if (got < 0) {
            fail(tally, path, (int)-got);
        } else {
            tally->samples++;
            tally->bytes += (uint64_t)got;
            count_wait(tally, before, now);
            now = think(reader, now, 1, (size_t)got);
        }
        if (request->parts > 1)
            advance_part(reader, k + 1, share, now);
    }
    tally->end = now;
}

/* Returns 0 or a negative errno. */
static int read_members(struct reader *reader, int file, uint64_t size)
{
    const struct reading_request *request = reader->request;
    struct reading_tally *tally = &reader->tally;
    struct members members = {0};
    int64_t now = tally->start;
    ssize_t got = 1;

    while (got > 0 && now - tally->start < request->ns_most &&
           members.count < request->samples_most) {
        int64_t before = now;
        uint64_t more = members.count;
        got = read(file, reader->buffer, READING_BYTES);
        now = (int64_t)clock_now_ns();
        if (got <= 0)
            break;
        members_take(&members, reader->buffer, (size_t)got);
        count_wait(tally, before, now);
        tally->bytes += (uint64_t)got;
        tally->samples = members.count;
        now = think(reader, now, members.count - more, (size_t)got);
        advance_part(reader, tally->bytes, size, now);
    }
    tally->end = now;
    if (got < 0)
        return -errno;
    if (got == 0 && tally->bytes < size)
        return -EIO;
    if (got == 0)
        tally->cut = members_end(&members);
    return tally->cut.lacks ? -EBADMSG : 0;
}

static void read_stream(struct reader *reader)
{
    const char *path = reader->source->names[0];
    struct reading_tally *tally = &reader->tally;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    int fault;

    tally->end = tally->start;
    if (file >= 0 && fstat(file, &status) == 0)
        fault = read_members(reader, file, (uint64_t)status.st_size);
    else
        fault = -errno;
    if (fault)
        fail(tally, path, -fault);
    if (file >= 0)
        close(file);
}

static void *reader_run(void *context)
{
    struct reader *reader = context;
    char nothing;

    /* Else a sleep lasts up to 50 us too long. */
    if (reader->request->work_ns)
        prctl(PR_SET_TIMERSLACK, 1UL);
    while (reader->gate >= 0 && read(reader->gate, &nothing, 1) < 0 && errno == EINTR)
        continue;
    reader->tally.start = reader->part_start = (int64_t)clock_now_ns();
    if (reader->source->kind == SOURCE_STREAM)
        read_stream(reader);
    else
        read_files(reader);
    return NULL;
}

int reading_open(struct reading **out, size_t readers_most)
{
    struct reading *reading = calloc(1, sizeof *reading);

    *out = reading;
    if (!reading)
        return -ENOMEM;
    /* Populated: no reader pays for its pages while the clock runs. */
    reading->readers = mmap(NULL, readers_most * sizeof *reading->readers, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    reading->readers_most = readers_most;
    if (reading->readers != MAP_FAILED)
        return 0;
    free(reading);
    *out = NULL;
    return -ENOMEM;
}

static int start_thread(struct reader *reader, int open_end)
{
    (void)open_end;
    return -pthread_create(&reader->thread, NULL, reader_run, reader);
}

static int end_thread(struct reader *reader)
{
    return -pthread_join(reader->thread, NULL);
}

static int start_process(struct reader *reader, int open_end)
{
    pid_t parent = getpid(), child = fork();

    if (child < 0)
        return -errno;
    if (child == 0) {
        /* The gate opens when nobody holds its other end. A reader does not outlive the program. */
        close(open_end);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            reader_run(reader);
        _exit(0);
    }
    /* Not straight from fork(): both would write it, as the mapping is shared. */
    reader->process = child;
    return 0;
}

static int end_process(struct reader *reader)
{
    int status;

    while (waitpid(reader->process, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

/* Starts all but `own`, which the calling thread runs itself; NULL: it runs none. */
static int run_together(struct reading *reading, size_t count, bool processes, struct reader *own)
{
    int (*start)(struct reader *, int) = processes ? start_process : start_thread;
    int (*end)(struct reader *) = processes ? end_process : end_thread;
    size_t started = own ? 1 : 0, first = started;
    int gate[2], fault = 0;

    if (pipe2(gate, O_CLOEXEC) < 0)
        return -errno;
    for (; !fault && started < count; started += !fault) {
        reading->readers[started].gate = gate[0];
        fault = start(&reading->readers[started], gate[1]);
    }
    close(gate[1]);
    if (own && !fault)
        reader_run(own);
    for (size_t i = first; i < started; i++) {
        int ended = end(&reading->readers[i]);
        fault = fault ? fault : ended;
    }
    close(gate[0]);
    return fault;
}

int reading_run(struct reading *reading, const struct source *const *sources, size_t count,
                const struct reading_request *request)
{
    size_t readers = count * request->readers;

    if (!readers || readers > reading->readers_most || request->parts > READING_PARTS_MAX)
        return -EINVAL;
    reading->readers_each = request->readers;
    for (size_t i = 0; i < readers; i++) {
        struct reader *reader = &reading->readers[i];
        memset(reader, 0, offsetof(struct reader, buffer));
        reader->source = sources[i / request->readers];
        reader->request = request;
        reader->number = (unsigned)(i % request->readers);
        reader->gate = -1;
    }
    if (readers == 1 && !request->processes) {
        reader_run(reading->readers);
        return 0;
    }
    return run_together(reading, readers, request->processes,
                        request->processes ? NULL : reading->readers);
}

const struct reading_tally *reading_tally(const struct reading *reading, size_t source,
                                          unsigned reader)
{
    return &reading->readers[source * reading->readers_each + reader].tally;
}

void reading_close(struct reading *reading)
{
    if (!reading)
        return;
    munmap(reading->readers, reading->readers_most * sizeof *reading->readers);
    free(reading);
}
