/* The nvJPEG that is none: see fake_nvjpeg.h. */
#include "fake_nvjpeg.h"

#include "fake_cuda.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

enum { MAGIC_HANDLE = 0x4e564a, MAGIC_STATE, MAGIC_HEADER };

struct handle {
    int magic;
    struct nvjpeg_memory device, pinned;
};

struct state {
    int magic, begun;
    struct handle *handle;
    void *room, *pinned;
    size_t room_bytes;
};

struct header {
    int magic, width;
};

/* One picture on its way. */
struct job {
    struct job *next;
    const unsigned char *bytes;
    size_t size;
    uint64_t hash;
    int width, height;
    unsigned char *pixels;
    struct nvjpeg_image to;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the queue */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job *first, **last;
static bool quit;
static pthread_t engine;
static struct fake_nvjpeg how; /* while it runs: read only */
static atomic_uint things, misuses, batches, pictures, largest;
static atomic_ullong calls;
static atomic_bool failed;

static int fault(void)
{
    uint64_t number = atomic_fetch_add(&calls, 1) + 1;

    if (!how.fail_at || number < how.fail_at || (number > how.fail_at && !how.fail_on))
        return 0;
    atomic_store(&failed, true);
    return how.fail_with ? how.fail_with : NVJPEG_EXECUTION_FAILED;
}

static int misuse(void)
{
    atomic_fetch_add(&misuses, 1);
    return 2; /* NVJPEG_STATUS_INVALID_PARAMETER */
}

static uint64_t hash_of(const unsigned char *bytes, size_t size)
{
    uint64_t hash = 14695981039346656037u;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

/* --- libjpeg --- */

struct errors {
    struct jpeg_error_mgr manager;
    jmp_buf leave;
};

static void leave(j_common_ptr common)
{
    longjmp(((struct errors *)(void *)common->err)->leave, 1);
}

/* Strictly: a warning is a fault. */
static void leave_at_warning(j_common_ptr common, int level)
{
    if (level < 0)
        leave(common);
}

/* The whole picture, or its size alone (`pixels` NULL). False: it is none. */
static bool decode(const unsigned char *bytes, size_t size, int *width, int *height,
                   unsigned char **pixels)
{
    struct jpeg_decompress_struct libjpeg;
    struct errors errors;
    unsigned char *volatile made = NULL;

    libjpeg.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = leave;
    errors.manager.emit_message = leave_at_warning;
    if (setjmp(errors.leave)) {
        jpeg_destroy_decompress(&libjpeg);
        free(made);
        return false;
    }
    jpeg_create_decompress(&libjpeg);
    jpeg_mem_src(&libjpeg, bytes, size);
    jpeg_read_header(&libjpeg, TRUE);
    *width = (int)libjpeg.image_width;
    *height = (int)libjpeg.image_height;
    if (pixels) {
        libjpeg.out_color_space = JCS_RGB;
        jpeg_start_decompress(&libjpeg);
        made = malloc((size_t)*width * (size_t)*height * 3);
        while (libjpeg.output_scanline < libjpeg.output_height) {
            JSAMPROW row = made + (size_t)libjpeg.output_scanline * (size_t)*width * 3;

            jpeg_read_scanlines(&libjpeg, &row, 1);
        }
        jpeg_finish_decompress(&libjpeg);
        *pixels = made;
    }
    jpeg_destroy_decompress(&libjpeg);
    return true;
}

/* --- The engine --- */

static void write_job(struct job *job)
{
    size_t row = (size_t)job->width * 3;

    if (how.late_us) {
        struct timespec late = {0, (long)(job->hash % how.late_us) * 1000L};

        nanosleep(&late, NULL);
    }
    if (hash_of(job->bytes, job->size) != job->hash)
        misuse();
    for (int y = 0; y < job->height; y++)
        memcpy(job->to.channel[0] + (size_t)y * job->to.pitch[0], job->pixels + (size_t)y * row,
               row);
    free(job->pixels);
}

static void *engine_main(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        struct job *job = first;

        if (!job) {
            if (quit)
                break;
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        write_job(job);
        pthread_mutex_lock(&lock);
        first = job->next;
        if (!first)
            last = &first;
        free(job);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void wait_for_all(void)
{
    pthread_mutex_lock(&lock);
    while (first)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

/* --- The table --- */

static int property(int which, int *value)
{
    *value = which == 0 ? 13 : 0;
    return fault();
}

static int create(int backend, struct nvjpeg_memory *device, struct nvjpeg_memory *pinned,
                  unsigned flags, void **handle)
{
    struct handle *made;
    int status = fault();

    if (status)
        return status;
    if (flags & ~(unsigned)(NVJPEG_BITSTREAM_STRICT | NVJPEG_UPSAMPLING_WITH_INTERPOLATION))
        return misuse();
    if (backend == NVJPEG_HARDWARE && how.no_hardware)
        return NVJPEG_ARCH_MISMATCH;
    made = calloc(1, sizeof *made);
    *made = (struct handle){MAGIC_HANDLE, *device, *pinned};
    atomic_fetch_add(&things, 1);
    *handle = made;
    return 0;
}

static int end(void *thing, int magic)
{
    int status = fault();

    if (!thing || *(int *)thing != magic)
        return misuse();
    *(int *)thing = 0;
    free(thing);
    atomic_fetch_sub(&things, 1);
    return status;
}

static int destroy(void *handle)
{
    return end(handle, MAGIC_HANDLE);
}

static int state_make(void *handle, void **state)
{
    struct state *made;
    int status = fault();

    if (status)
        return status;
    made = calloc(1, sizeof *made);
    made->magic = MAGIC_STATE;
    made->handle = handle;
    atomic_fetch_add(&things, 1);
    *state = made;
    return made->handle->magic == MAGIC_HANDLE ? 0 : misuse();
}

static void give_room(struct state *state)
{
    struct handle *handle = state->handle;

    if (state->room &&
        handle->device.give(handle->device.context, state->room, state->room_bytes, NULL))
        misuse();
    if (state->pinned && handle->pinned.give(handle->pinned.context, state->pinned, 64, NULL))
        misuse();
    state->room = state->pinned = NULL;
    state->room_bytes = 0;
}

static int state_end(void *state)
{
    give_room(state);
    return end(state, MAGIC_STATE);
}

static int header_make(void *handle, void **header)
{
    struct header *made;
    int status = fault();

    (void)handle;
    if (status)
        return status;
    made = calloc(1, sizeof *made);
    made->magic = MAGIC_HEADER;
    atomic_fetch_add(&things, 1);
    *header = made;
    return 0;
}

static int header_end(void *header)
{
    return end(header, MAGIC_HEADER);
}

static int header_read(void *handle, const unsigned char *bytes, size_t size, void *header)
{
    struct header *read = header;
    int status = fault(), height;

    if (status)
        return status;
    if (((struct handle *)handle)->magic != MAGIC_HANDLE || read->magic != MAGIC_HEADER)
        return misuse();
    return decode(bytes, size, &read->width, &height, NULL) ? 0 : NVJPEG_BAD_JPEG;
}

static int supported(void *handle, void *header, int *unsupported)
{
    const struct header *read = header;
    int status = fault();

    (void)handle;
    *unsupported = how.unsupported_width && read->width == how.unsupported_width;
    return status;
}

static int batched_begin(void *handle, void *state, int count, int threads, int output)
{
    struct state *on = state;
    int status = fault();

    if (status)
        return status;
    if (on->magic != MAGIC_STATE || on->handle != handle || count < 1 || threads < 1 ||
        output != NVJPEG_OUTPUT_RGBI)
        return misuse();
    on->begun = count;
    return 0;
}

/* It grows with what it is given, beside what it has, and is kept: so whether there is room hangs
 * on what came before. Written to, as by a kernel. */
static int grow(struct state *state, size_t bytes)
{
    struct handle *handle = state->handle;
    void *room;

    if (bytes <= state->room_bytes)
        return 0;
    if (handle->device.take(handle->device.context, &room, bytes, NULL))
        return NVJPEG_ALLOCATOR_FAILURE;
    give_room(state);
    state->room = room;
    state->room_bytes = bytes;
    if (!fake_cuda_holds(state->room, bytes, 0))
        return misuse();
    memset(state->room, 0xee, bytes);
    if (handle->pinned.take(handle->pinned.context, &state->pinned, 64, NULL)) {
        state->pinned = NULL;
        return NVJPEG_ALLOCATOR_FAILURE;
    }
    if (!fake_cuda_holds(state->pinned, 64, -1))
        return misuse();
    memset(state->pinned, 0xdd, 64);
    return 0;
}

static void drop(struct job *job)
{
    while (job) {
        struct job *next = job->next;

        free(job->pixels);
        free(job);
        job = next;
    }
}

/* Decoded already, so that a fault shows now; written later. */
static int make_job(struct job **job, const unsigned char *bytes, size_t size,
                    const struct nvjpeg_image *image)
{
    struct job *made = calloc(1, sizeof *made);

    *job = made;
    made->bytes = bytes;
    made->size = size;
    made->hash = hash_of(bytes, size);
    made->to = *image;
    if (!decode(bytes, size, &made->width, &made->height, &made->pixels))
        return NVJPEG_BAD_JPEG;
    if (how.broken_width && made->width == how.broken_width)
        return NVJPEG_EXECUTION_FAILED;
    if (image->pitch[0] < (size_t)made->width * 3 ||
        !fake_cuda_holds(image->channel[0], image->pitch[0] * (size_t)made->height, 0))
        return misuse();
    return 0;
}

static int batched(void *handle, void *state, const unsigned char *const *bytes,
                   const size_t *sizes, struct nvjpeg_image *images, void *stream)
{
    struct state *on = state;
    struct job *jobs = NULL, **end_of_jobs = &jobs;
    unsigned count = (unsigned)on->begun;
    size_t pixels = 0;
    int status = fault();

    if (status)
        return status;
    if (on->magic != MAGIC_STATE || on->handle != handle || !count || !stream)
        return misuse();
    for (unsigned i = 0; i < count && !status; i++) {
        int width = 0, height = 0;

        status = decode(bytes[i], sizes[i], &width, &height, NULL) ? 0 : NVJPEG_BAD_JPEG;
        pixels += (size_t)width * (size_t)height;
    }
    if (!status && how.bytes_a_pixel)
        status = grow(on, pixels * how.bytes_a_pixel);
    for (unsigned i = 0; i < count && !status; i++) {
        status = make_job(end_of_jobs, bytes[i], sizes[i], &images[i]);
        end_of_jobs = &(*end_of_jobs)->next;
    }
    if (status) {
        drop(jobs);
        return status;
    }
    atomic_fetch_add(&batches, 1);
    atomic_fetch_add(&pictures, count);
    if (count > atomic_load(&largest))
        atomic_store(&largest, count);
    pthread_mutex_lock(&lock);
    *last = jobs;
    last = end_of_jobs;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return 0;
}

static const struct nvjpeg_table table = {
    .property = property,
    .create = create,
    .destroy = destroy,
    .state_make = state_make,
    .state_end = state_end,
    .header_make = header_make,
    .header_end = header_end,
    .header_read = header_read,
    .supported = supported,
    .batched_begin = batched_begin,
    .batched = batched,
};

void fake_nvjpeg_begin(const struct fake_nvjpeg *wanted)
{
    how = *wanted;
    quit = false;
    first = NULL;
    last = &first;
    atomic_store(&things, 0);
    atomic_store(&misuses, 0);
    atomic_store(&batches, 0);
    atomic_store(&pictures, 0);
    atomic_store(&largest, 0);
    atomic_store(&calls, 0);
    atomic_store(&failed, false);
    pthread_create(&engine, NULL, engine_main, NULL);
    fake_cuda_side(wait_for_all);
    nvjpeg_table_replace(&table);
}

unsigned fake_nvjpeg_end(void)
{
    nvjpeg_table_replace(NULL);
    fake_cuda_side(NULL);
    pthread_mutex_lock(&lock);
    quit = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    pthread_join(engine, NULL);
    return atomic_load(&things);
}

uint64_t fake_nvjpeg_calls(void)
{
    return atomic_load(&calls);
}

bool fake_nvjpeg_failed(void)
{
    return atomic_load(&failed);
}

unsigned fake_nvjpeg_misuses(void)
{
    return atomic_load(&misuses);
}

unsigned fake_nvjpeg_batches(void)
{
    return atomic_load(&batches);
}

unsigned fake_nvjpeg_pictures(void)
{
    return atomic_load(&pictures);
}

unsigned fake_nvjpeg_largest(void)
{
    return atomic_load(&largest);
}

const struct nvjpeg_table *fake_nvjpeg_table(void)
{
    return &table;
}
