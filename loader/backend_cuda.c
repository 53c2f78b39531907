/* Batches on a GPU.
 *
 * A slot has two halves. Workers write rows of bytes into its pinned half. Once a batch is
 * complete, its worker starts copies of it on the loader's own stream, and behind them the kernel
 * that makes planes of floats (images that stay bytes are copied to where they belong). The event
 * `ready` stands behind that: batch_wait() makes a consumer's stream wait for it. The slot is given
 * back while all of this, and the consumer's own work, may still be to come; so whoever writes its
 * next batch's first row waits until the copies are done, and all that consumers' streams had to do
 * with it. That, and not the depth of any queue, is what keeps a batch as it is.
 *
 * The first fault that CUDA reports ends it: from then on no batch becomes ready, and each call
 * tells of that fault. No call of CUDA is made once the process exits; a child of fork() never gets
 * here. Owns the stream, the events, the device's memory; every other thread's current device is as
 * it was when a function returns. */
#include "backend.h"
#include "cuda_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_ALIGNMENT = 256 };

/* A stream that has to do with a batch. */
struct cuda_user {
    void *stream;
    void *event;   /* kept for the slot's later batches; NULL: not made yet */
    bool recorded; /* behind all that uses the batch */
};

struct cuda_slot {
    atomic_bool busy;             /* its last batch may still be read, on either side */
    void *copied;                 /* events: the pinned half was read; */
    void *ready;                  /* all is there */
    uint8_t *data, *bytes, *mask; /* bytes: what the kernel reads; NULL: there is none */
    int64_t *labels, *lengths;

    pthread_mutex_t lock; /* guards what follows; held while a worker waits for the users */
    struct cuda_user *users;
    size_t user_count, user_room;
};

struct cuda {
    const struct cuda_table *table;
    const struct settings *settings;
    int device;
    void *stream;
    void *memory;
    bool quiet;            /* all work was waited for; while it is closed */
    struct pixels_job job; /* what is the same in all of them */
    size_t row_bytes;      /* of a row in pinned memory */
    size_t slot_count;
    struct cuda_slot *slots;

    atomic_int broken;    /* an errno, once CUDA has reported a fault */
    pthread_mutex_t lock; /* guards its text */
    struct fault fault;
};

/* The first fault stays; all later calls give it. */
static int give_up(struct cuda *cuda, int code, const struct fault *fault)
{
    pthread_mutex_lock(&cuda->lock);
    if (!atomic_load(&cuda->broken)) {
        cuda->fault = *fault;
        atomic_store(&cuda->broken, code);
    }
    pthread_mutex_unlock(&cuda->lock);
    return code;
}

static int check_broken(struct cuda *cuda, struct fault *fault)
{
    int code = atomic_load(&cuda->broken);

    if (!code)
        return 0;
    pthread_mutex_lock(&cuda->lock);
    if (fault)
        *fault = cuda->fault;
    pthread_mutex_unlock(&cuda->lock);
    return code;
}

/* 0, or what a call of the table's gave, as an errno with its text. */
static int check(struct cuda *cuda, const char *call, int error, struct fault *fault)
{
    struct fault mine;
    int code;

    if (!error)
        return 0;
    code = cuda_fault(cuda->table, call, error, &mine);
    if (fault)
        *fault = mine;
    return give_up(cuda, code, &mine);
}

static int say_exiting(struct fault *fault)
{
    return fault_set(fault, -ECANCELED, "the process exits: no GPU is used any more");
}

/* Every function that calls CUDA begins and ends with these two: they make the loader's device the
 * thread's, to which a default stream's number belongs, and give the caller its own back. */
static int enter(struct cuda *cuda, int *before, struct fault *fault)
{
    int error;

    if (cuda_exiting())
        return say_exiting(fault);
    error = check_broken(cuda, fault);
    if (!error)
        error = check(cuda, "cudaGetDevice", cuda->table->device_get(before), fault);
    if (!error && *before != cuda->device)
        error = check(cuda, "cudaSetDevice", cuda->table->device_set(cuda->device), fault);
    return error;
}

static int leave(struct cuda *cuda, int before, int error, struct fault *fault)
{
    int more = 0;

    if (before != cuda->device)
        more = check(cuda, "cudaSetDevice", cuda->table->device_set(before), error ? NULL : fault);
    return error ? error : more;
}

/* Which GPU, and whether it can be used at all: -ENODEV if not. The thread's device is set. */
static int find_device(struct cuda *cuda, int *before, struct fault *fault)
{
    const struct cuda_table *table = cuda->table;
    int wanted = cuda->settings->config.device, count = 0, error;

    error = table->device_count(&count);
    if (error) {
        cuda_fault(table, "cudaGetDeviceCount", error, fault);
        return -ENODEV;
    }
    if (count < 1)
        return fault_set(fault, -ENODEV, "there is no GPU");
    error = table->device_get(before);
    if (error) {
        cuda_fault(table, "cudaGetDevice", error, fault);
        return -ENODEV;
    }
    cuda->device = wanted == SL_DEVICE_AUTO ? *before : SL_DEVICE_INDEX(wanted);
    if (cuda->device >= count)
        return fault_set(fault, -ENODEV, "config.device is GPU %d: there %s %d, counted from 0",
                         cuda->device, count == 1 ? "is" : "are", count);
    error = table->device_set(cuda->device);
    if (error) {
        cuda_fault(table, "cudaSetDevice", error, fault);
        return -ENODEV;
    }
    error = table->kernel_check();
    if (error) {
        cuda_fault(table, "cudaFuncGetAttributes", error, fault);
        (void)table->device_set(*before); /* it has worked before, and the fault is told already */
        return -ENODEV;
    }
    return 0;
}

/* Hands out the next piece of the device's memory; without memory, only counts. */
static void *piece(uint8_t *memory, size_t *at, size_t bytes)
{
    void *start = memory ? memory + *at : NULL;

    *at += (bytes + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
    return start;
}

static size_t lay_out(const struct cuda *cuda, struct cuda_slot *slot, uint8_t *memory)
{
    const struct settings *settings = cuda->settings;
    size_t rows = settings->config.batch_size, at = 0, element;

    element = settings_element_bytes(settings->config.output);
    if (settings->images) {
        slot->data = piece(memory, &at, rows * settings->pixels * element);
        if (element > 1)
            slot->bytes = piece(memory, &at, rows * settings->pixels);
    } else {
        slot->data = piece(memory, &at, rows * cuda->row_bytes);
        if (settings->config.mask)
            slot->mask = piece(memory, &at, rows * cuda->row_bytes);
        slot->lengths = piece(memory, &at, rows * sizeof *slot->lengths);
    }
    slot->labels = piece(memory, &at, rows * sizeof *slot->labels);
    return at;
}

static int take_all(struct cuda *cuda, struct fault *fault)
{
    const struct cuda_table *table = cuda->table;
    struct cuda_slot probe = {0};
    size_t bytes = lay_out(cuda, &probe, NULL);
    int error = check(cuda, "cudaStreamCreateWithFlags", table->stream_make(&cuda->stream), fault);

    if (error)
        return error;
    error = table->device_take(&cuda->memory, bytes * cuda->slot_count);
    if (error) {
        struct fault why;
        int code = cuda_fault(table, "cudaMalloc", error, &why);

        cuda->memory = NULL;
        return fault_set(fault, give_up(cuda, code, &why),
                         "GPU %d: no memory for %zu batches: %zu MiB: %.400s", cuda->device,
                         cuda->slot_count, (bytes * cuda->slot_count) >> 20, why.text);
    }
    for (size_t i = 0; i < cuda->slot_count && !error; i++) {
        struct cuda_slot *slot = &cuda->slots[i];

        lay_out(cuda, slot, (uint8_t *)cuda->memory + i * bytes);
        error = check(cuda, "cudaEventCreateWithFlags", table->event_make(&slot->copied), fault);
        if (!error)
            error = check(cuda, "cudaEventCreateWithFlags", table->event_make(&slot->ready), fault);
    }
    return error;
}

/* What goes wrong at the end has nobody else to be told to. */
static void complain(const struct cuda *cuda, const char *call, int error)
{
    struct fault why;

    if (!error || atomic_load(&cuda->broken))
        return;
    cuda_fault(cuda->table, call, error, &why);
    fprintf(stderr, "shuffleload: closing a loader of GPU %d: %s\n", cuda->device, why.text);
}

/* Nothing of the loader's memory is read or written on the device any more: waits for all of the
 * device's work, as freeing memory does anyway. */
static void make_quiet(struct cuda *cuda)
{
    if (!cuda->quiet)
        complain(cuda, "cudaDeviceSynchronize", cuda->table->device_wait());
    cuda->quiet = true;
}

static void give_all(struct cuda *cuda)
{
    const struct cuda_table *table = cuda->table;

    make_quiet(cuda);
    for (size_t i = 0; i < cuda->slot_count; i++) {
        struct cuda_slot *slot = &cuda->slots[i];

        if (slot->copied)
            complain(cuda, "cudaEventDestroy", table->event_end(slot->copied));
        if (slot->ready)
            complain(cuda, "cudaEventDestroy", table->event_end(slot->ready));
        for (size_t user = 0; user < slot->user_room; user++)
            if (slot->users[user].event)
                complain(cuda, "cudaEventDestroy", table->event_end(slot->users[user].event));
    }
    if (cuda->stream)
        complain(cuda, "cudaStreamDestroy", table->stream_end(cuda->stream));
    if (cuda->memory)
        complain(cuda, "cudaFree", table->device_give(cuda->memory));
}

/* The device of the calling thread while a loader is closed, which has to go on after any fault. */
static void set_device(const struct cuda *cuda, int device)
{
    complain(cuda, "cudaSetDevice", cuda->table->device_set(device));
}

static void cuda_close(void *state)
{
    struct cuda *cuda = state;

    if (!cuda_exiting() && cuda->stream) {
        int before = cuda->device;

        complain(cuda, "cudaGetDevice", cuda->table->device_get(&before));
        set_device(cuda, cuda->device);
        give_all(cuda);
        set_device(cuda, before);
    }
    for (size_t i = 0; i < cuda->slot_count; i++) {
        free(cuda->slots[i].users);
        pthread_mutex_destroy(&cuda->slots[i].lock);
    }
    free(cuda->slots);
    pthread_mutex_destroy(&cuda->lock);
    free(cuda);
}

static void fill_job(struct cuda *cuda)
{
    const struct sl_config *config = &cuda->settings->config;

    cuda->job.pixels = (uint32_t)(cuda->settings->pixels / 3);
    cuda->job.format = config->output == SL_FLOAT32_NCHW   ? PIXELS_FLOAT32
                       : config->output == SL_FLOAT16_NCHW ? PIXELS_FLOAT16
                                                           : PIXELS_BFLOAT16;
    memcpy(cuda->job.mean, config->mean, sizeof cuda->job.mean);
    memcpy(cuda->job.deviation, config->deviation, sizeof cuda->job.deviation);
}

static int cuda_open(void **state, const struct settings *settings, struct fault *fault)
{
    struct cuda *cuda;
    int before = 0, error;

    if (!cuda_table())
        return fault_set(fault, -ENODEV, "this library was built without CUDA");
    if (settings->pixels * 5 + settings->row_bytes * 2 >
        (SIZE_MAX >> 3) / settings->config.batch_size / settings->slots)
        return fault_set(fault, -ENOMEM, "%llu batches of %llu rows of %zu bytes are too much",
                         (unsigned long long)settings->slots,
                         (unsigned long long)settings->config.batch_size, settings->row_bytes);
    cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return fault_set(fault, -ENOMEM, "no memory for the back end");
    cuda->table = cuda_table();
    cuda->settings = settings;
    cuda->row_bytes = settings->images ? settings->pixels : settings->row_bytes;
    pthread_mutex_init(&cuda->lock, NULL);
    cuda->slots = calloc(settings->slots, sizeof *cuda->slots);
    if (!cuda->slots) {
        cuda_close(cuda);
        return fault_set(fault, -ENOMEM, "no memory for the back end");
    }
    cuda->slot_count = settings->slots;
    for (size_t i = 0; i < cuda->slot_count; i++)
        pthread_mutex_init(&cuda->slots[i].lock, NULL);
    fill_job(cuda);
    error = find_device(cuda, &before, fault);
    if (!error) {
        cuda_exit_watch();
        error = take_all(cuda, fault);
        error = leave(cuda, before, error, fault);
    }
    if (error) {
        cuda_close(cuda);
        return error;
    }
    *state = cuda;
    return 0;
}

static void *cuda_memory_take(void *state, size_t bytes, struct fault *fault)
{
    struct cuda *cuda = state;
    void *memory = NULL;
    int before, error;

    if (bytes > backend_memory_available())
        return NULL;
    error = enter(cuda, &before, fault);
    if (error)
        return NULL;
    error = check(cuda, "cudaHostAlloc", cuda->table->host_take(&memory, bytes), fault);
    error = leave(cuda, before, error, fault);
    if (!error) {
        memset(memory, 0, bytes);
        return memory;
    }
    if (memory)
        complain(cuda, "cudaFreeHost", cuda->table->host_give(memory));
    return NULL;
}

static void cuda_memory_give(void *state, void *memory, size_t bytes)
{
    struct cuda *cuda = state;
    int before = cuda->device;

    (void)bytes;
    if (cuda_exiting())
        return;
    complain(cuda, "cudaGetDevice", cuda->table->device_get(&before));
    set_device(cuda, cuda->device);
    make_quiet(cuda);
    complain(cuda, "cudaFreeHost", cuda->table->host_give(memory));
    set_device(cuda, before);
}

static bool cuda_rows_are_pixels(const void *state)
{
    (void)state;
    return true;
}

static void cuda_write_row(void *state, const uint8_t *rgb, void *row)
{
    const struct cuda *cuda = state;

    memcpy(row, rgb, cuda->row_bytes);
}

static void cuda_describe(void *state, size_t number, struct sl_batch *batch)
{
    const struct cuda *cuda = state;
    const struct cuda_slot *slot = &cuda->slots[number];

    batch->device = SL_DEVICE_CUDA(cuda->device);
    batch->data = slot->data;
    batch->mask = slot->mask;
    batch->device_labels = slot->labels;
    batch->device_lengths = slot->lengths;
}

/* Under the slot's lock: until nothing reads its last batch any more. */
static int wait_for_users(struct cuda *cuda, struct cuda_slot *slot, struct fault *fault)
{
    int error = check(cuda, "cudaEventSynchronize", cuda->table->event_finish(slot->copied), fault);

    for (size_t i = 0; i < slot->user_count && !error; i++)
        if (slot->users[i].recorded)
            error = check(cuda, "cudaEventSynchronize",
                          cuda->table->event_finish(slot->users[i].event), fault);
    return error;
}

static int cuda_row_begin(void *state, size_t number, struct fault *fault)
{
    struct cuda *cuda = state;
    struct cuda_slot *slot = &cuda->slots[number];
    int error = check_broken(cuda, fault);

    if (error || !atomic_load_explicit(&slot->busy, memory_order_acquire))
        return error;
    if (cuda_exiting())
        return say_exiting(fault);
    /* The other workers that come meanwhile wait for this one. */
    pthread_mutex_lock(&slot->lock);
    if (atomic_load_explicit(&slot->busy, memory_order_acquire))
        error = wait_for_users(cuda, slot, fault);
    if (!error) {
        slot->user_count = 0;
        atomic_store_explicit(&slot->busy, false, memory_order_release);
    }
    pthread_mutex_unlock(&slot->lock);
    return error;
}

static int copy_in(struct cuda *cuda, void *to, const void *from, size_t bytes, struct fault *fault)
{
    if (!to || !from || !bytes)
        return 0;
    return check(cuda, "cudaMemcpyAsync", cuda->table->copy_in(to, from, bytes, cuda->stream),
                 fault);
}

static int convert(struct cuda *cuda, const struct cuda_slot *slot, uint64_t count,
                   struct fault *fault)
{
    struct pixels_job job = cuda->job;

    if (!slot->bytes || !count)
        return 0;
    job.rgb = slot->bytes;
    job.planes = slot->data;
    job.images = (uint32_t)count;
    return check(cuda, "the kernel's launch", cuda->table->convert(&job, cuda->stream), fault);
}

static int cuda_batch_ready(void *state, size_t number, const struct sl_batch *batch,
                            const struct backend_arrays *arrays, struct fault *fault)
{
    struct cuda *cuda = state;
    struct cuda_slot *slot = &cuda->slots[number];
    size_t bytes = batch->count * cuda->row_bytes;
    int before, error = enter(cuda, &before, fault);

    if (error)
        return error;
    atomic_store_explicit(&slot->busy, true, memory_order_release);
    error = copy_in(cuda, slot->bytes ? slot->bytes : slot->data, arrays->data, bytes, fault);
    if (!error)
        error = copy_in(cuda, slot->mask, arrays->mask, bytes, fault);
    if (!error)
        error = copy_in(cuda, slot->labels, arrays->labels, batch->count * sizeof *slot->labels,
                        fault);
    if (!error)
        error = copy_in(cuda, slot->lengths, arrays->lengths, batch->count * sizeof *slot->lengths,
                        fault);
    if (!error)
        error = check(cuda, "cudaEventRecord",
                      cuda->table->event_record(slot->copied, cuda->stream), fault);
    if (!error)
        error = convert(cuda, slot, batch->count, fault);
    if (!error)
        error = check(cuda, "cudaEventRecord", cuda->table->event_record(slot->ready, cuda->stream),
                      fault);
    return leave(cuda, before, error, fault);
}

/* Under the slot's lock: the stream's entry, with its event. */
static struct cuda_user *find_user(struct cuda *cuda, struct cuda_slot *slot, void *stream,
                                   struct fault *fault)
{
    struct cuda_user *user;

    for (size_t i = 0; i < slot->user_count; i++)
        if (slot->users[i].stream == stream)
            return &slot->users[i];
    if (slot->user_count == slot->user_room) {
        size_t room = slot->user_room ? 2 * slot->user_room : 2;
        struct fault none;

        user = realloc(slot->users, room * sizeof *user);
        if (!user) {
            give_up(cuda, fault_set(&none, -ENOMEM, "no memory for a batch's streams"), &none);
            if (fault)
                *fault = none;
            return NULL;
        }
        memset(user + slot->user_room, 0, (room - slot->user_room) * sizeof *user);
        slot->users = user;
        slot->user_room = room;
    }
    user = &slot->users[slot->user_count];
    if (!user->event &&
        check(cuda, "cudaEventCreateWithFlags", cuda->table->event_make(&user->event), fault)) {
        user->event = NULL;
        return NULL;
    }
    slot->user_count++;
    user->stream = stream;
    user->recorded = false;
    return user;
}

static int cuda_batch_wait(void *state, size_t number, void *stream, struct fault *fault)
{
    struct cuda *cuda = state;
    struct cuda_slot *slot = &cuda->slots[number];
    int before, error = enter(cuda, &before, fault);

    if (error)
        return error;
    if (stream == SL_STREAM_HOST) {
        error = check(cuda, "cudaEventSynchronize", cuda->table->event_finish(slot->ready), fault);
    } else {
        pthread_mutex_lock(&slot->lock);
        if (!find_user(cuda, slot, stream, fault))
            error = check_broken(cuda, NULL);
        pthread_mutex_unlock(&slot->lock);
        if (!error)
            error = check(cuda, "cudaStreamWaitEvent",
                          cuda->table->stream_wait(stream, slot->ready), fault);
    }
    return leave(cuda, before, error, fault);
}

static int record(struct cuda *cuda, struct cuda_user *user, struct fault *fault)
{
    int error = check(cuda, "cudaEventRecord", cuda->table->event_record(user->event, user->stream),
                      fault);

    user->recorded = !error;
    return error;
}

static int cuda_batch_used(void *state, size_t number, void *stream, struct fault *fault)
{
    struct cuda *cuda = state;
    struct cuda_slot *slot = &cuda->slots[number];
    struct cuda_user *user;
    int before, error;

    if (stream == SL_STREAM_HOST)
        return 0;
    error = enter(cuda, &before, fault);
    if (error)
        return error;
    pthread_mutex_lock(&slot->lock);
    user = find_user(cuda, slot, stream, fault);
    error = user ? record(cuda, user, fault) : check_broken(cuda, NULL);
    pthread_mutex_unlock(&slot->lock);
    return leave(cuda, before, error, fault);
}

static int cuda_batch_used_by_all(void *state, size_t number, struct fault *fault)
{
    struct cuda *cuda = state;
    struct cuda_slot *slot = &cuda->slots[number];
    int before, error = enter(cuda, &before, fault);

    if (error)
        return error;
    pthread_mutex_lock(&slot->lock);
    for (size_t i = 0; i < slot->user_count && !error; i++)
        error = record(cuda, &slot->users[i], fault);
    pthread_mutex_unlock(&slot->lock);
    return leave(cuda, before, error, fault);
}

const struct backend backend_cuda = {
    .name = "CUDA",
    .open = cuda_open,
    .close = cuda_close,
    .memory_take = cuda_memory_take,
    .memory_give = cuda_memory_give,
    .rows_are_pixels = cuda_rows_are_pixels,
    .write_row = cuda_write_row,
    .describe = cuda_describe,
    .row_begin = cuda_row_begin,
    .batch_ready = cuda_batch_ready,
    .batch_wait = cuda_batch_wait,
    .batch_used = cuda_batch_used,
    .batch_used_by_all = cuda_batch_used_by_all,
};
