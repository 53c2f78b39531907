/* The GPU that is none: see fake_cuda.h. */
#include "fake_cuda.h"

#include "../../loader/pixels.h"
#include "../../loader/resize_job.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THINGS_MOST = 4096 };

enum kind { COPY, CONVERT, RESIZE, RECORD, WAIT, CALL };

struct event {
    int device;
    unsigned number; /* in the order in which the loader made them, from 1 */
    uint64_t recorded, done;
    unsigned uses; /* in queues, and its owner's */
};

struct op {
    enum kind kind;
    struct op *next;
    void *to;
    const void *from;
    size_t bytes;
    struct pixels_job job;
    struct resize_job resize;
    struct event *event;
    uint64_t number; /* of the event's records */
    void (*work)(void *);
};

struct stream {
    int device;
    struct op *first, **last;
};

struct memory {
    void *at;
    size_t bytes;
    int device; /* -1: pinned */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all that follows but `how` */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_t engine;
static bool quit;
static struct fake_cuda how; /* while it runs: read only */
static struct stream defaults[FAKE_CUDA_DEVICES];
static struct stream *streams[THINGS_MOST];
static struct memory memories[THINGS_MOST];
static unsigned events, events_made;
static void (*side_wait)(void); /* for work that is in no stream */
static unsigned dice;
static atomic_uint misuses;
static atomic_ullong calls, taken;
static atomic_bool failed;
static atomic_int contexts;
/* A thread's contexts: device + 1 of each that was pushed; below all, its device. */
enum { DEPTH_MOST = 8 };
static _Thread_local int own_device, depth, pushed[DEPTH_MOST];

/* An error to give in place of the call. */
static int fault(void)
{
    uint64_t number = atomic_fetch_add(&calls, 1) + 1;

    if (!how.fail_at || number < how.fail_at || (number > how.fail_at && !how.fail_on))
        return 0;
    atomic_store(&failed, true);
    return how.fail_with ? how.fail_with : FAKE_CUDA_ERROR;
}

static int current(void)
{
    return depth ? pushed[depth - 1] : own_device;
}

static int misuse(void)
{
    atomic_fetch_add(&misuses, 1);
    return 1; /* cudaErrorInvalidValue */
}

static unsigned roll(void)
{
    dice = dice * 1664525u + 1013904223u;
    return dice >> 8;
}

static void drop_event(struct event *event)
{
    if (--event->uses)
        return;
    free(event);
    events--;
}

/* Under the lock: the head of a queue that can be worked on, of a stream that chance picks. */
static struct stream *pick(void)
{
    struct stream *found = NULL;
    unsigned count = 0;

    for (int i = 0; i < THINGS_MOST + FAKE_CUDA_DEVICES; i++) {
        struct stream *stream = i < FAKE_CUDA_DEVICES ? &defaults[i]
                                                      : streams[i - FAKE_CUDA_DEVICES];

        if (!stream || !stream->first)
            continue;
        if (stream->first->kind == WAIT && stream->first->event->done < stream->first->number)
            continue;
        if (roll() % ++count == 0)
            found = stream;
    }
    return found;
}

/* Under the lock: does one piece of this device's memory (-1: pinned) hold all of it? */
static bool holds(const void *at, size_t bytes, int device)
{
    for (int i = 0; i < THINGS_MOST; i++) {
        const struct memory *memory = &memories[i];
        const uint8_t *start = memory->at, *from = at;

        if (start && memory->device == device && from >= start &&
            from + bytes <= start + memory->bytes)
            return true;
    }
    return false;
}

bool fake_cuda_holds(const void *at, size_t bytes, int device)
{
    bool fits;

    pthread_mutex_lock(&lock);
    fits = holds(at, bytes, device);
    pthread_mutex_unlock(&lock);
    return fits;
}

/* No weight is of a pixel that is not there. */
static bool fits_table(const struct resize_table *table, uint32_t pixels, int device)
{
    if (table->used > table->taps || table->used > pixels ||
        !fake_cuda_holds(table->weights, (size_t)table->count * table->taps * 2, device) ||
        !fake_cuda_holds(table->starts, table->count * sizeof(int32_t), device))
        return false;
    for (uint32_t i = 0; i < table->count; i++)
        if (table->starts[i] < 0 || (uint32_t)table->starts[i] > pixels - table->used)
            return false;
    return true;
}

/* What a picture's resize reads and writes, which is known once the stream is there. */
static bool fits_device(const struct resize_picture *picture, int device)
{
    const struct resize_table *columns = &picture->columns, *rows = &picture->rows;
    size_t row = picture->stride, bytes = (size_t)picture->source_rows * row;

    return picture->source_rows && columns->count && rows->count &&
           fits_table(columns, (uint32_t)(row / 3), device) &&
           fits_table(rows, picture->source_rows, device) &&
           fake_cuda_holds(picture->source, bytes - row + 1, device) &&
           fake_cuda_holds(picture->between, resize_column_items(picture) * 3 * sizeof(int16_t),
                           device) &&
           fake_cuda_holds(picture->out, resize_row_items(picture), device);
}

static void work_on(const struct op *op, int device)
{
    if (how.late_us) {
        struct timespec late = {0, (long)(dice >> 4) % (long)how.late_us * 1000L};

        nanosleep(&late, NULL);
    }
    if (op->kind == COPY)
        memcpy(op->to, op->from, op->bytes);
    else if (op->kind == CONVERT)
        pixels_do_job(&op->job);
    else if (op->kind == RESIZE) {
        for (uint32_t i = 0; i < op->resize.count; i++)
            if (!fits_device(&op->resize.pictures[i], device)) {
                misuse();
                return;
            }
        resize_do_job(&op->resize);
    } else if (op->kind == CALL)
        op->work(op->to);
}

static void *engine_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct stream *stream = pick();
        struct op *op;

        if (!stream) {
            if (quit)
                break;
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        op = stream->first;
        if (op->kind != RECORD && op->kind != WAIT) {
            pthread_mutex_unlock(&lock);
            work_on(op, stream->device);
            pthread_mutex_lock(&lock);
        }
        if (op->kind == RECORD && op->event->done < op->number)
            op->event->done = op->number;
        if (op->event)
            drop_event(op->event);
        stream->first = op->next;
        if (!stream->first)
            stream->last = &stream->first;
        free(op);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static struct stream *stream_of(void *handle)
{
    return (uintptr_t)handle <= 2 ? &defaults[current()] : handle;
}

/* Under the lock. */
static void enqueue(struct stream *stream, const struct op *what)
{
    struct op *op = malloc(sizeof *op);

    *op = *what;
    op->next = NULL;
    if (op->event)
        op->event->uses++;
    *stream->last = op;
    stream->last = &op->next;
    pthread_cond_broadcast(&changed);
}

static void enqueue_one(void *handle, const struct op *op)
{
    pthread_mutex_lock(&lock);
    enqueue(stream_of(handle), op);
    pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static void drain(struct stream *stream)
{
    while (stream->first)
        pthread_cond_wait(&changed, &lock);
}

static void drain_all(void)
{
    for (int i = 0; i < FAKE_CUDA_DEVICES; i++)
        drain(&defaults[i]);
    for (int i = 0; i < THINGS_MOST; i++)
        while (streams[i] && streams[i]->first)
            pthread_cond_wait(&changed, &lock);
}

static int device_count(int *count)
{
    int error = fault();

    if (error)
        return error;
    if (how.devices < -1)
        return CUDA_OLD_DRIVER;
    if (how.devices < 0)
        return CUDA_NO_DEVICE;
    *count = how.devices ? how.devices : FAKE_CUDA_DEVICES;
    return 0;
}

static int device_get(int *device)
{
    int error = fault();

    if (!error)
        *device = current();
    return error;
}

static int context_take(int device, void **context)
{
    int error = fault();

    if (error)
        return error;
    atomic_fetch_add(&contexts, 1);
    *context = &defaults[device];
    return 0;
}

static int context_give(int device)
{
    (void)device;
    atomic_fetch_sub(&contexts, 1);
    return fault();
}

static int context_push(void *context)
{
    int error = fault();

    if (error)
        return error;
    if (!context || depth == DEPTH_MOST)
        return misuse();
    pushed[depth++] = ((struct stream *)context)->device;
    return 0;
}

/* Pops with an error, too. */
static int context_pop(void)
{
    int error = fault();

    if (!depth)
        return misuse();
    depth--;
    return error;
}

static int device_wait(void)
{
    int error = fault();

    if (error)
        return error;
    pthread_mutex_lock(&lock);
    drain_all();
    pthread_mutex_unlock(&lock);
    if (side_wait)
        side_wait();
    return 0;
}

static int kernel_check(void)
{
    return fault();
}

static int take(void **memory, size_t bytes, int device)
{
    int error = fault();

    if (error)
        return error;
    *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!*memory)
        return CUDA_OUT_OF_MEMORY;
    memset(*memory, 0xa5, bytes);
    atomic_fetch_add(&taken, 1);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < THINGS_MOST; i++)
        if (!memories[i].at) {
            memories[i] = (struct memory){*memory, bytes, device};
            break;
        }
    pthread_mutex_unlock(&lock);
    return 0;
}

/* Under the lock: is there work that reads or writes this memory? */
static bool in_use(const struct memory *memory)
{
    const uint8_t *start = memory->at, *behind = start + memory->bytes;

    for (int i = 0; i < THINGS_MOST; i++)
        for (const struct op *op = streams[i] ? streams[i]->first : NULL; op; op = op->next) {
            const uint8_t *to = op->kind == CONVERT ? op->job.planes : op->to;
            const uint8_t *from = op->kind == CONVERT  ? op->job.rgb
                                  : op->kind == RESIZE ? (const void *)op->resize.pictures
                                                       : op->from;

            if (op->kind != CALL &&
                ((to >= start && to < behind) || (from >= start && from < behind)))
                return true;
        }
    return false;
}

/* Memory goes when the work on it is done, and goes with an error too. Stricter than CUDA: who
 * gives it back has to have waited for that, unless waiting failed. */
static int give(void *memory)
{
    int error = fault(), found = 0;

    if (side_wait)
        side_wait();
    pthread_mutex_lock(&lock);
    for (int i = 0; i < THINGS_MOST; i++)
        if (memories[i].at == memory && in_use(&memories[i]) && !atomic_load(&failed))
            misuse();
    drain_all();
    for (int i = 0; i < THINGS_MOST; i++)
        if (memories[i].at == memory) {
            memset(memory, 0x5a, memories[i].bytes);
            memories[i].at = NULL;
            found = 1;
        }
    pthread_mutex_unlock(&lock);
    if (!found)
        return misuse();
    free(memory);
    return error;
}

static int host_take(void **memory, size_t bytes)
{
    return take(memory, bytes, -1);
}

static int device_take(void **memory, size_t bytes)
{
    return take(memory, bytes, current());
}

static struct stream *make_stream(int device)
{
    struct stream *stream = calloc(1, sizeof *stream);

    stream->device = device;
    stream->last = &stream->first;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < THINGS_MOST; i++)
        if (!streams[i]) {
            streams[i] = stream;
            break;
        }
    pthread_mutex_unlock(&lock);
    return stream;
}

static void unmake_stream(struct stream *stream)
{
    pthread_mutex_lock(&lock);
    drain(stream);
    for (int i = 0; i < THINGS_MOST; i++)
        if (streams[i] == stream)
            streams[i] = NULL;
    pthread_mutex_unlock(&lock);
    free(stream);
}

static int stream_make(void **stream)
{
    int error = fault();

    if (!error)
        *stream = make_stream(current());
    return error;
}

static int stream_end(void *stream)
{
    int error = fault();

    unmake_stream(stream);
    return error;
}

static struct event *make_event(int device)
{
    struct event *event = calloc(1, sizeof *event);

    event->device = device;
    event->uses = 1;
    pthread_mutex_lock(&lock);
    events++;
    pthread_mutex_unlock(&lock);
    return event;
}

static int event_make(void **event)
{
    int error = fault();

    if (!error) {
        struct event *made = make_event(current());

        pthread_mutex_lock(&lock);
        made->number = ++events_made;
        pthread_mutex_unlock(&lock);
        *event = made;
    }
    return error;
}

static int event_end(void *event)
{
    int error = fault();

    pthread_mutex_lock(&lock);
    drop_event(event);
    pthread_mutex_unlock(&lock);
    return error;
}

/* Under the lock. */
static void record(struct stream *stream, struct event *event)
{
    struct op op = {.kind = RECORD, .event = event, .number = ++event->recorded};

    enqueue(stream, &op);
}

static void wait_for(struct stream *stream, struct event *event)
{
    struct op op = {.kind = WAIT, .event = event, .number = event->recorded};

    enqueue(stream, &op);
}

static int event_record(void *event, void *stream)
{
    int error = fault();

    if (error)
        return error;
    if (((struct event *)event)->device != stream_of(stream)->device)
        return misuse();
    pthread_mutex_lock(&lock);
    record(stream_of(stream), event);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int stream_wait(void *stream, void *event)
{
    int error = fault();

    if (error || how.no_stream_waits)
        return error;
    pthread_mutex_lock(&lock);
    wait_for(stream_of(stream), event);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int stream_finish(void *stream)
{
    int error = fault();

    if (!error)
        fake_cuda_finish(stream);
    if (!error && side_wait)
        side_wait();
    return error;
}

static int event_finish(void *handle)
{
    struct event *event = handle;
    uint64_t number;
    int error = fault();

    if (error || how.no_event_waits ||
        (how.no_waits_for_event && event->number == how.no_waits_for_event))
        return error;
    pthread_mutex_lock(&lock);
    number = event->recorded;
    while (event->done < number)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    if (side_wait)
        side_wait();
    return 0;
}

static int copy(void *to, const void *from, size_t bytes, void *stream, bool pinned)
{
    struct op op = {.kind = COPY, .to = to, .from = from, .bytes = bytes};
    bool fits;
    int error = fault(), device;

    if (error)
        return error;
    pthread_mutex_lock(&lock);
    device = stream_of(stream)->device;
    fits = holds(to, bytes, device) && holds(from, bytes, pinned ? -1 : device);
    if (fits)
        enqueue(stream_of(stream), &op);
    pthread_mutex_unlock(&lock);
    return fits ? 0 : misuse();
}

static int copy_in(void *device, const void *pinned, size_t bytes, void *stream)
{
    return copy(device, pinned, bytes, stream, true);
}

static int copy_within(void *to, const void *from, size_t bytes, void *stream)
{
    return copy(to, from, bytes, stream, false);
}

static int resize(const struct resize_job *job, void *stream)
{
    struct op op = {.kind = RESIZE, .resize = *job};
    bool fits;
    int error = fault();

    if (error)
        return error;
    pthread_mutex_lock(&lock);
    fits = stream_of(stream)->device == current() && job->column_items && job->row_items &&
           holds(job->pictures, job->count * sizeof *job->pictures, current());
    if (fits)
        enqueue(stream_of(stream), &op);
    pthread_mutex_unlock(&lock);
    return fits ? 0 : misuse();
}

static int convert(const struct pixels_job *job, void *stream)
{
    struct op op = {.kind = CONVERT, .job = *job};
    size_t values = (size_t)job->images * job->pixels * 3;
    size_t element = job->format == PIXELS_FLOAT32 ? 4 : 2;
    bool fits;
    int error = fault();

    if (error)
        return error;
    pthread_mutex_lock(&lock);
    fits = stream_of(stream)->device == current() && holds(job->rgb, values, current()) &&
           holds(job->planes, values * element, current()) && (uintptr_t)job->planes % 16 == 0 &&
           (uintptr_t)job->rgb % 4 == 0;
    if (fits)
        enqueue(stream_of(stream), &op);
    pthread_mutex_unlock(&lock);
    return fits ? 0 : misuse();
}

static const char *error_name(int error)
{
    return error == CUDA_OUT_OF_MEMORY ? "cudaErrorMemoryAllocation"
           : error == CUDA_OLD_DRIVER  ? "cudaErrorInsufficientDriver"
           : error == CUDA_NO_DEVICE   ? "cudaErrorNoDevice"
                                       : "cudaErrorFake";
}

static const char *error_text(int error)
{
    (void)error;
    return "a fault of the fake";
}

static const struct cuda_table table = {
    .device_count = device_count,
    .device_get = device_get,
    .context_take = context_take,
    .context_give = context_give,
    .context_push = context_push,
    .context_pop = context_pop,
    .device_wait = device_wait,
    .kernel_check = kernel_check,
    .host_take = host_take,
    .host_give = give,
    .device_take = device_take,
    .device_give = give,
    .stream_make = stream_make,
    .stream_end = stream_end,
    .stream_wait = stream_wait,
    .stream_finish = stream_finish,
    .event_make = event_make,
    .event_end = event_end,
    .event_record = event_record,
    .event_finish = event_finish,
    .copy_in = copy_in,
    .copy_within = copy_within,
    .convert = convert,
    .resize = resize,
    .error_name = error_name,
    .error_text = error_text,
};

void fake_cuda_begin(const struct fake_cuda *wanted)
{
    how = *wanted;
    quit = false;
    dice = 1;
    events_made = 0;
    own_device = 0;
    atomic_store(&contexts, 0);
    for (int i = 0; i < FAKE_CUDA_DEVICES; i++)
        defaults[i] = (struct stream){.device = i, .last = &defaults[i].first};
    atomic_store(&calls, 0);
    atomic_store(&misuses, 0);
    atomic_store(&failed, false);
    pthread_create(&engine, NULL, engine_main, NULL);
    cuda_table_replace(&table);
}

unsigned fake_cuda_end(void)
{
    unsigned left;

    cuda_table_replace(NULL);
    pthread_mutex_lock(&lock);
    drain_all();
    quit = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(engine, NULL);
    left = events + (unsigned)atomic_load(&contexts) + (unsigned)depth;
    for (int i = 0; i < THINGS_MOST; i++)
        left += (memories[i].at != NULL) + (streams[i] != NULL);
    return left;
}

uint64_t fake_cuda_calls(void)
{
    return atomic_load(&calls);
}

bool fake_cuda_failed(void)
{
    return atomic_load(&failed);
}

uint64_t fake_cuda_taken(void)
{
    return atomic_load(&taken);
}

unsigned fake_cuda_misuses(void)
{
    return atomic_load(&misuses);
}

void fake_cuda_side(void (*wait)(void))
{
    side_wait = wait;
}

void fake_cuda_set_device(int device)
{
    own_device = device;
}

void *fake_cuda_stream(int device)
{
    return make_stream(device);
}

void fake_cuda_end_stream(void *stream)
{
    unmake_stream(stream);
}

void fake_cuda_do(void *stream, void (*work)(void *argument), void *argument)
{
    struct op op = {.kind = CALL, .to = argument, .work = work};

    enqueue_one(stream, &op);
}

void fake_cuda_join(void *stream, void *other)
{
    struct event *event = make_event(stream_of(other)->device);

    pthread_mutex_lock(&lock);
    record(stream_of(other), event);
    wait_for(stream_of(stream), event);
    drop_event(event);
    pthread_mutex_unlock(&lock);
}

void fake_cuda_finish(void *stream)
{
    pthread_mutex_lock(&lock);
    drain(stream_of(stream));
    pthread_mutex_unlock(&lock);
}
