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
 * JPEGs that are decoded on the device (nvjpeg.c) come to their rows there before the batch is
 * ready, and are left out of the copies; rows that take their place are copied within the device.
 *
 * The first fault that CUDA reports ends it: from then on no slot is written to, no batch becomes
 * ready, and each call tells of that fault. No call of CUDA is made once the process exits; a child
 * of fork() never gets here. */
#include "cuda_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

static bool cuda_decodes(const void *state, struct fault *why)
{
    const struct cuda *cuda = state;

    if (!cuda->nvjpeg && why)
        *why = cuda->no_nvjpeg;
    return cuda->nvjpeg != NULL;
}

/* Where images' bytes are on the device. */
static uint8_t *rows_of(const struct cuda_slot *slot)
{
    return slot->bytes ? slot->bytes : slot->data;
}

static int cuda_decode(void *state, size_t number, struct kept *kept, size_t count,
                       struct fault *fault)
{
    const struct cuda *cuda = state;

    return cuda->nvjpeg
               ? nvjpeg_decode(cuda->nvjpeg, rows_of(&cuda->slots[number]), kept, count, fault)
               : 0;
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
    int error = cuda_check(cuda, "cudaEventSynchronize", cuda->table->event_finish(slot->copied),
                           fault);

    for (size_t i = 0; i < slot->user_count && !error; i++)
        if (slot->users[i].recorded)
            error = cuda_check(cuda, "cudaEventSynchronize",
                               cuda->table->event_finish(slot->users[i].event), fault);
    return error;
}

static int cuda_row_begin(void *state, size_t number, struct fault *fault)
{
    struct cuda *cuda = state;
    struct cuda_slot *slot = &cuda->slots[number];
    int error = cuda_check_broken(cuda, fault);

    if (error || !atomic_load_explicit(&slot->busy, memory_order_acquire))
        return error;
    error = cuda_enter(cuda, fault);
    if (error)
        return error;
    /* The other workers that come meanwhile wait for this one. */
    pthread_mutex_lock(&slot->lock);
    if (atomic_load_explicit(&slot->busy, memory_order_acquire))
        error = wait_for_users(cuda, slot, fault);
    if (!error) {
        slot->user_count = 0;
        atomic_store_explicit(&slot->busy, false, memory_order_release);
    }
    pthread_mutex_unlock(&slot->lock);
    return cuda_leave(cuda, error, fault);
}

static int copy_in(struct cuda *cuda, void *to, const void *from, size_t bytes, struct fault *fault)
{
    if (!to || !from || !bytes)
        return 0;
    return cuda_check(cuda, "cudaMemcpyAsync", cuda->table->copy_in(to, from, bytes, cuda->stream),
                      fault);
}

/* The host's rows to the device, those that stand together at once; and before them, rows of the
 * device that others take the place of. From front to back: a source stays as it is, or comes from
 * further back than its row. */
static int copy_rows(struct cuda *cuda, const struct cuda_slot *slot, size_t count,
                     const struct backend_arrays *arrays, struct fault *fault)
{
    uint8_t *rows = rows_of(slot);
    const uint8_t *data = arrays->data;
    const int32_t *sources = arrays->sources;
    size_t bytes = cuda->row_bytes;
    int error = 0;

    if (!sources)
        return copy_in(cuda, rows, data, count * bytes, fault);
    for (size_t row = 0; row < count && !error; row++)
        if (sources[row] >= 0 && (size_t)sources[row] != row)
            error = cuda_check(cuda, "cudaMemcpyAsync",
                               cuda->table->copy_within(rows + row * bytes,
                                                        rows + (size_t)sources[row] * bytes, bytes,
                                                        cuda->stream),
                               fault);
    for (size_t row = 0, end; row < count && !error; row = end) {
        end = row + 1;
        if (sources[row] >= 0)
            continue;
        while (end < count && sources[end] < 0)
            end++;
        error = copy_in(cuda, rows + row * bytes, data + row * bytes, (end - row) * bytes, fault);
    }
    return error;
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
    return cuda_check(cuda, "the kernel's launch", cuda->table->convert(&job, cuda->stream), fault);
}

static int cuda_batch_ready(void *state, size_t number, const struct sl_batch *batch,
                            const struct backend_arrays *arrays, struct fault *fault)
{
    struct cuda *cuda = state;
    struct cuda_slot *slot = &cuda->slots[number];
    size_t bytes = batch->count * cuda->row_bytes;
    int error = cuda_enter(cuda, fault);

    if (error)
        return error;
    atomic_store_explicit(&slot->busy, true, memory_order_release);
    error = copy_rows(cuda, slot, batch->count, arrays, fault);
    if (!error)
        error = copy_in(cuda, slot->mask, arrays->mask, bytes, fault);
    if (!error)
        error = copy_in(cuda, slot->labels, arrays->labels, batch->count * sizeof *slot->labels,
                        fault);
    if (!error)
        error = copy_in(cuda, slot->lengths, arrays->lengths, batch->count * sizeof *slot->lengths,
                        fault);
    if (!error)
        error = cuda_check(cuda, "cudaEventRecord",
                           cuda->table->event_record(slot->copied, cuda->stream), fault);
    if (!error)
        error = convert(cuda, slot, batch->count, fault);
    if (!error)
        error = cuda_check(cuda, "cudaEventRecord",
                           cuda->table->event_record(slot->ready, cuda->stream), fault);
    return cuda_leave(cuda, error, fault);
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
            cuda_give_up(cuda, fault_set(&none, -ENOMEM, "no memory for a batch's streams"), &none);
            if (fault)
                *fault = none;
            return NULL;
        }
        memset(user + slot->user_room, 0, (room - slot->user_room) * sizeof *user);
        slot->users = user;
        slot->user_room = room;
    }
    user = &slot->users[slot->user_count];
    if (!user->event && cuda_check(cuda, "cudaEventCreateWithFlags",
                                   cuda->table->event_make(&user->event), fault)) {
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
    int error = cuda_enter(cuda, fault);

    if (error)
        return error;
    if (stream == SL_STREAM_HOST) {
        error = cuda_check(cuda, "cudaEventSynchronize", cuda->table->event_finish(slot->ready),
                           fault);
    } else {
        pthread_mutex_lock(&slot->lock);
        if (!find_user(cuda, slot, stream, fault))
            error = cuda_check_broken(cuda, NULL);
        pthread_mutex_unlock(&slot->lock);
        if (!error)
            error = cuda_check(cuda, "cudaStreamWaitEvent",
                               cuda->table->stream_wait(stream, slot->ready), fault);
    }
    return cuda_leave(cuda, error, fault);
}

static int record(struct cuda *cuda, struct cuda_user *user, struct fault *fault)
{
    int error = cuda_check(cuda, "cudaEventRecord",
                           cuda->table->event_record(user->event, user->stream), fault);

    user->recorded = !error;
    return error;
}

static int cuda_batch_used(void *state, size_t number, void *stream, struct fault *fault)
{
    struct cuda *cuda = state;
    struct cuda_slot *slot = &cuda->slots[number];
    struct cuda_user *user;
    int error;

    if (stream == SL_STREAM_HOST)
        return 0;
    error = cuda_enter(cuda, fault);
    if (error)
        return error;
    pthread_mutex_lock(&slot->lock);
    user = find_user(cuda, slot, stream, fault);
    error = user ? record(cuda, user, fault) : cuda_check_broken(cuda, NULL);
    pthread_mutex_unlock(&slot->lock);
    return cuda_leave(cuda, error, fault);
}

static int cuda_batch_used_by_all(void *state, size_t number, struct fault *fault)
{
    struct cuda *cuda = state;
    struct cuda_slot *slot = &cuda->slots[number];
    int error = cuda_enter(cuda, fault);

    if (error)
        return error;
    pthread_mutex_lock(&slot->lock);
    for (size_t i = 0; i < slot->user_count && !error; i++)
        error = record(cuda, &slot->users[i], fault);
    pthread_mutex_unlock(&slot->lock);
    return cuda_leave(cuda, error, fault);
}

const struct backend backend_cuda = {
    .name = "CUDA",
    .open = cuda_state_open,
    .close = cuda_state_close,
    .memory_take = cuda_state_memory_take,
    .memory_give = cuda_state_memory_give,
    .rows_are_pixels = cuda_rows_are_pixels,
    .write_row = cuda_write_row,
    .decodes = cuda_decodes,
    .decode = cuda_decode,
    .describe = cuda_describe,
    .row_begin = cuda_row_begin,
    .batch_ready = cuda_batch_ready,
    .batch_wait = cuda_batch_wait,
    .batch_used = cuda_batch_used,
    .batch_used_by_all = cuda_batch_used_by_all,
};
