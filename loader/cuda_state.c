/* Opening and closing a loader's part of a GPU. No call of CUDA is made once the process exits:
 * then closing leaves what is the device's to the end of the process. */
#include "cuda_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_ALIGNMENT = 256 };

int cuda_give_up(struct cuda *cuda, int code, const struct fault *fault)
{
    pthread_mutex_lock(&cuda->lock);
    if (!atomic_load(&cuda->broken)) {
        cuda->fault = *fault;
        atomic_store(&cuda->broken, code);
    }
    pthread_mutex_unlock(&cuda->lock);
    return code;
}

int cuda_check_broken(struct cuda *cuda, struct fault *fault)
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

int cuda_check(struct cuda *cuda, const char *call, int error, struct fault *fault)
{
    struct fault mine;
    int code;

    if (!error)
        return 0;
    code = cuda_fault(cuda->table, call, error, &mine);
    if (fault)
        *fault = mine;
    return cuda_give_up(cuda, code, &mine);
}

int cuda_say_exiting(struct fault *fault)
{
    return fault_set(fault, -ECANCELED, "the process exits: no GPU is used any more");
}

int cuda_enter(struct cuda *cuda, struct fault *fault)
{
    int error;

    if (cuda_exiting())
        return cuda_say_exiting(fault);
    error = cuda_check_broken(cuda, fault);
    if (!error)
        error = cuda_check(cuda, "cuCtxPushCurrent", cuda->table->context_push(cuda->context),
                           fault);
    return error;
}

int cuda_leave(struct cuda *cuda, int error, struct fault *fault)
{
    int more = cuda_check(cuda, "cuCtxPopCurrent", cuda->table->context_pop(),
                          error ? NULL : fault);

    return error ? error : more;
}

/* -ENODEV, with what a call gave. */
static int unusable(const struct cuda *cuda, const char *call, int error, struct fault *fault)
{
    cuda_fault(cuda->table, call, error, fault);
    return -ENODEV;
}

/* Which GPU, and whether it can be used at all: -ENODEV if not. Else its context is pushed. */
static int find_device(struct cuda *cuda, struct fault *fault)
{
    const struct cuda_table *table = cuda->table;
    int wanted = cuda->settings->config.device, count = 0, error;

    error = table->device_count(&count);
    if (error)
        return unusable(cuda, "cudaGetDeviceCount", error, fault);
    if (count < 1)
        return fault_set(fault, -ENODEV, "there is no GPU");
    cuda->device = SL_DEVICE_INDEX(wanted);
    if (wanted == SL_DEVICE_AUTO) {
        error = table->device_get(&cuda->device);
        if (error)
            return unusable(cuda, "cudaGetDevice", error, fault);
    }
    if (cuda->device >= count)
        return fault_set(fault, -ENODEV, "config.device is GPU %d: there %s %d, counted from 0",
                         cuda->device, count == 1 ? "is" : "are", count);
    error = table->context_take(cuda->device, &cuda->context);
    if (error) {
        cuda->context = NULL;
        return unusable(cuda, "cuDevicePrimaryCtxRetain", error, fault);
    }
    error = table->context_push(cuda->context);
    if (error)
        return unusable(cuda, "cuCtxPushCurrent", error, fault);
    error = table->kernel_check();
    if (error) {
        unusable(cuda, "cudaFuncGetAttributes", error, fault);
        (void)table->context_pop(); /* the fault is told of already */
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
    int error = cuda_check(cuda, "cudaStreamCreateWithFlags", table->stream_make(&cuda->stream),
                           fault);

    if (error)
        return error;
    error = table->device_take(&cuda->memory, bytes * cuda->slot_count);
    if (error) {
        struct fault why;
        int code = cuda_fault(table, "cudaMalloc", error, &why);

        cuda->memory = NULL;
        return fault_set(fault, cuda_give_up(cuda, code, &why),
                         "GPU %d: no memory for %zu batches: %zu MiB: %.400s", cuda->device,
                         cuda->slot_count, (bytes * cuda->slot_count) >> 20, why.text);
    }
    for (size_t i = 0; i < cuda->slot_count && !error; i++) {
        struct cuda_slot *slot = &cuda->slots[i];

        lay_out(cuda, slot, (uint8_t *)cuda->memory + i * bytes);
        error = cuda_check(cuda, "cudaEventCreateWithFlags", table->event_make(&slot->copied),
                           fault);
        if (!error)
            error = cuda_check(cuda, "cudaEventCreateWithFlags", table->event_make(&slot->ready),
                               fault);
    }
    return error;
}

void cuda_complain(const struct cuda *cuda, const char *call, int error)
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
        cuda_complain(cuda, "cudaDeviceSynchronize", cuda->table->device_wait());
    cuda->quiet = true;
}

static void give_all(struct cuda *cuda)
{
    const struct cuda_table *table = cuda->table;

    make_quiet(cuda);
    if (cuda->nvjpeg)
        nvjpeg_end(cuda->nvjpeg);
    for (size_t i = 0; cuda->slots && i < cuda->slot_count; i++) {
        struct cuda_slot *slot = &cuda->slots[i];

        if (slot->copied)
            cuda_complain(cuda, "cudaEventDestroy", table->event_end(slot->copied));
        if (slot->ready)
            cuda_complain(cuda, "cudaEventDestroy", table->event_end(slot->ready));
        for (size_t user = 0; user < slot->user_room; user++)
            if (slot->users[user].event)
                cuda_complain(cuda, "cudaEventDestroy", table->event_end(slot->users[user].event));
    }
    if (cuda->stream)
        cuda_complain(cuda, "cudaStreamDestroy", table->stream_end(cuda->stream));
    if (cuda->memory)
        cuda_complain(cuda, "cudaFree", table->device_give(cuda->memory));
}

/* A loader has to be closed after any fault: these go on. Popped is what was pushed. */
static bool push(const struct cuda *cuda)
{
    int error = cuda->table->context_push(cuda->context);

    cuda_complain(cuda, "cuCtxPushCurrent", error);
    return !error;
}

static void pop(const struct cuda *cuda, bool pushed)
{
    if (pushed)
        cuda_complain(cuda, "cuCtxPopCurrent", cuda->table->context_pop());
}

void cuda_state_close(void *state)
{
    struct cuda *cuda = state;

    if (!cuda_exiting() && cuda->context) {
        bool pushed = push(cuda);

        give_all(cuda);
        pop(cuda, pushed);
        cuda_complain(cuda, "cuDevicePrimaryCtxRelease", cuda->table->context_give(cuda->device));
    }
    for (size_t i = 0; cuda->slots && i < cuda->slot_count; i++) {
        free(cuda->slots[i].users);
        pthread_mutex_destroy(&cuda->slots[i].lock);
    }
    free(cuda->slots);
    nvjpeg_free(cuda->nvjpeg);
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

int cuda_state_open(void **state, const struct settings *settings, struct fault *fault)
{
    struct cuda *cuda;
    int error;

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
        cuda_state_close(cuda);
        return fault_set(fault, -ENOMEM, "no memory for the back end");
    }
    cuda->slot_count = settings->slots;
    for (size_t i = 0; i < cuda->slot_count; i++)
        pthread_mutex_init(&cuda->slots[i].lock, NULL);
    fill_job(cuda);
    error = find_device(cuda, fault);
    if (!error) {
        cuda_exit_watch();
        error = take_all(cuda, fault);
        if (!error && settings->config.decode == SL_DECODE_DEVICE)
            error = nvjpeg_open(&cuda->nvjpeg, cuda, &cuda->no_nvjpeg, fault);
        error = cuda_leave(cuda, error, fault);
    }
    if (error) {
        cuda_state_close(cuda);
        return error;
    }
    *state = cuda;
    return 0;
}

void *cuda_state_memory_take(void *state, size_t bytes, struct fault *fault)
{
    struct cuda *cuda = state;
    void *memory = NULL;
    int error;

    if (bytes > backend_memory_available())
        return NULL;
    error = cuda_enter(cuda, fault);
    if (error)
        return NULL;
    error = cuda_check(cuda, "cudaHostAlloc", cuda->table->host_take(&memory, bytes), fault);
    error = cuda_leave(cuda, error, fault);
    if (!error) {
        memset(memory, 0, bytes);
        return memory;
    }
    if (memory)
        cuda_complain(cuda, "cudaFreeHost", cuda->table->host_give(memory));
    return NULL;
}

void cuda_state_memory_give(void *state, void *memory, size_t bytes)
{
    struct cuda *cuda = state;
    bool pushed;

    (void)bytes;
    if (cuda_exiting())
        return;
    pushed = push(cuda);
    make_quiet(cuda);
    cuda_complain(cuda, "cudaFreeHost", cuda->table->host_give(memory));
    pop(cuda, pushed);
}
