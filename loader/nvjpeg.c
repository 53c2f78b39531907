/* A batch in chunks: as many pictures as the memory to decode in has room for, whole, each beside
 * what its column pass makes of it. A chunk is decoded by one call; where that fails, by two of
 * half of it, and so on down to the picture that is to blame. */
#include "nvjpeg.h"

#include "cuda_state.h"
#include "nvjpeg_table.h"
#include "region.h"
#include "resize_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_MOST = 256, ALIGNMENT = 256 };

struct nvjpeg {
    struct cuda *cuda;
    const struct nvjpeg_table *table;
    void *handle, *header;
    void *event;
    void *device, *pinned; /* what was taken */
    uint8_t *pictures;     /* on the device: decoded, and between the passes */
    uint8_t *tables;       /* on the device: what the kernels are to do; staged first */
    uint8_t *staged;
    size_t pictures_bytes, tables_bytes;
    struct region *own_device, *own_pinned; /* nvJPEG's */

    pthread_mutex_t lock;    /* guards all that follows: one decoding at a time */
    struct resizer *resizer; /* of which only the axes are used */
    void *state;
    bool fresh; /* it has decoded nothing yet, and so holds no memory to speak of */
    int begun;  /* how many it is ready to decode at once */
    size_t count, pictures_used, tables_used; /* of the chunk */
    struct kept *kept[CHUNK_MOST];
    const unsigned char *bytes[CHUNK_MOST];
    size_t sizes[CHUNK_MOST];
    struct nvjpeg_image images[CHUNK_MOST];
};

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* nvJPEG's allocators. A stream's order needs no care: all its calls are made for one stream, with
 * a wait between any two. */
static int own_take(void *context, void **memory, size_t bytes, void *stream)
{
    (void)stream;
    *memory = region_take(context, bytes);
    return *memory ? 0 : CUDA_OUT_OF_MEMORY;
}

static int own_give(void *context, void *memory, size_t bytes, void *stream)
{
    (void)bytes, (void)stream;
    return region_give(context, memory) ? 1 /* cudaErrorInvalidValue */ : 0;
}

/* Half of the device's memory for pictures, a sixteenth for tables, the rest nvJPEG's; pinned, a
 * sixteenth for tables, and an eighth nvJPEG's. */
static int take_memory(struct nvjpeg *nvjpeg, struct fault *fault)
{
    const struct cuda_table *table = nvjpeg->cuda->table;
    size_t bytes = nvjpeg->cuda->settings->config.decode_bytes / 16 / ALIGNMENT * ALIGNMENT;
    struct fault why;
    const char *call = "cudaMalloc";
    int error = table->device_take(&nvjpeg->device, 16 * bytes), code;

    if (error) {
        nvjpeg->device = NULL;
    } else {
        call = "cudaHostAlloc";
        error = table->host_take(&nvjpeg->pinned, 3 * bytes);
        if (error)
            nvjpeg->pinned = NULL;
    }
    if (error) {
        code = cuda_fault(table, call, error, &why);
        return fault_set(fault, cuda_give_up(nvjpeg->cuda, code, &why),
                         "GPU %d: no memory to decode in (config.decode_bytes): %zu MiB: %.400s",
                         nvjpeg->cuda->device, (16 * bytes) >> 20, why.text);
    }
    nvjpeg->pictures = nvjpeg->device;
    nvjpeg->pictures_bytes = 8 * bytes;
    nvjpeg->tables = nvjpeg->pictures + 8 * bytes;
    nvjpeg->tables_bytes = bytes;
    nvjpeg->staged = nvjpeg->pinned;
    if (region_open(&nvjpeg->own_device, nvjpeg->tables + bytes, 7 * bytes) ||
        region_open(&nvjpeg->own_pinned, nvjpeg->staged + bytes, 2 * bytes) ||
        resizer_open(&nvjpeg->resizer, RESIZE_FASTEST))
        return fault_set(fault, -ENOMEM, "no memory for the decoder");
    return cuda_check(nvjpeg->cuda, "cudaEventCreateWithFlags", table->event_make(&nvjpeg->event),
                      fault);
}

/* A text for a call that has failed; 0: it has not. */
static bool failed(const char *call, int status, struct fault *why)
{
    char text[64];

    if (!status)
        return false;
    nvjpeg_status_text(status, text, sizeof text);
    fault_set(why, 0, "%s: %s", call, text);
    return true;
}

/* The engine that is made for it, or else the GPU's own cores. False: neither, and why. */
static bool start(struct nvjpeg *nvjpeg, struct fault *why)
{
    const struct nvjpeg_table *table = nvjpeg->table;
    struct nvjpeg_memory device = {own_take, own_give, nvjpeg->own_device};
    struct nvjpeg_memory pinned = {own_take, own_give, nvjpeg->own_pinned};
    const unsigned flags = NVJPEG_BITSTREAM_STRICT | NVJPEG_UPSAMPLING_WITH_INTERPOLATION;
    int status = table->create(NVJPEG_HARDWARE, &device, &pinned, flags, &nvjpeg->handle);

    if (status)
        status = table->create(NVJPEG_GPU_HYBRID, &device, &pinned, flags, &nvjpeg->handle);
    if (failed("nvjpegCreateExV2", status, why)) {
        nvjpeg->handle = NULL;
        return false;
    }
    status = table->header_make(nvjpeg->handle, &nvjpeg->header);
    if (failed("nvjpegJpegStreamCreate", status, why)) {
        nvjpeg->header = NULL;
        return false;
    }
    status = table->state_make(nvjpeg->handle, &nvjpeg->state);
    if (failed("nvjpegJpegStateCreate", status, why)) {
        nvjpeg->state = NULL;
        return false;
    }
    nvjpeg->fresh = true;
    return true;
}

int nvjpeg_open(struct nvjpeg **out, struct cuda *cuda, struct fault *why, struct fault *fault)
{
    const struct nvjpeg_table *table = nvjpeg_table(why);
    struct nvjpeg *nvjpeg;
    int error;

    *out = NULL;
    if (!table)
        return 0;
    nvjpeg = calloc(1, sizeof *nvjpeg);
    if (!nvjpeg)
        return fault_set(fault, -ENOMEM, "no memory for the decoder");
    nvjpeg->cuda = cuda;
    nvjpeg->table = table;
    pthread_mutex_init(&nvjpeg->lock, NULL);
    error = take_memory(nvjpeg, fault);
    if (!error && start(nvjpeg, why)) {
        *out = nvjpeg;
        return 0;
    }
    nvjpeg_end(nvjpeg);
    nvjpeg_free(nvjpeg);
    return error;
}

static void complain(const struct nvjpeg *nvjpeg, const char *call, int status)
{
    char text[64];

    if (!status || atomic_load(&nvjpeg->cuda->broken))
        return;
    nvjpeg_status_text(status, text, sizeof text);
    fprintf(stderr, "shuffleload: closing a loader of GPU %d: %s: %s\n", nvjpeg->cuda->device, call,
            text);
}

void nvjpeg_end(struct nvjpeg *nvjpeg)
{
    const struct nvjpeg_table *table = nvjpeg->table;
    struct cuda *cuda = nvjpeg->cuda;

    if (nvjpeg->state)
        complain(nvjpeg, "nvjpegJpegStateDestroy", table->state_end(nvjpeg->state));
    if (nvjpeg->header)
        complain(nvjpeg, "nvjpegJpegStreamDestroy", table->header_end(nvjpeg->header));
    if (nvjpeg->handle)
        complain(nvjpeg, "nvjpegDestroy", table->destroy(nvjpeg->handle));
    if (nvjpeg->event)
        cuda_complain(cuda, "cudaEventDestroy", cuda->table->event_end(nvjpeg->event));
    if (nvjpeg->pinned)
        cuda_complain(cuda, "cudaFreeHost", cuda->table->host_give(nvjpeg->pinned));
    if (nvjpeg->device)
        cuda_complain(cuda, "cudaFree", cuda->table->device_give(nvjpeg->device));
}

void nvjpeg_free(struct nvjpeg *nvjpeg)
{
    if (!nvjpeg)
        return;
    region_close(nvjpeg->own_device);
    region_close(nvjpeg->own_pinned);
    resizer_close(nvjpeg->resizer);
    pthread_mutex_destroy(&nvjpeg->lock);
    free(nvjpeg);
}

/* The host waits until all that the stream was given is done. */
static int barrier(struct nvjpeg *nvjpeg, struct fault *fault)
{
    struct cuda *cuda = nvjpeg->cuda;
    int error = cuda_check(cuda, "cudaEventRecord",
                           cuda->table->event_record(nvjpeg->event, cuda->stream), fault);

    if (!error)
        error = cuda_check(cuda, "cudaEventSynchronize", cuda->table->event_finish(nvjpeg->event),
                           fault);
    return error;
}

static void leave(struct kept *kept, enum kept_state state, const char *call, int status)
{
    struct fault why;

    kept->state = state;
    if (!failed(call, status, &why))
        fault_set(&why, 0, "%s", call);
    snprintf(kept->why, sizeof kept->why, "%.*s", (int)sizeof kept->why - 1, why.text);
}

static bool is_supported(struct nvjpeg *nvjpeg, struct kept *kept)
{
    const struct nvjpeg_table *table = nvjpeg->table;
    int unsupported = 0;
    int status = table->header_read(nvjpeg->handle, kept->bytes, kept->size, nvjpeg->header);

    if (status) {
        leave(kept, KEPT_REFUSED, "nvjpegJpegStreamParseHeader", status);
        return false;
    }
    status = table->supported(nvjpeg->handle, nvjpeg->header, &unsupported);
    if (status || unsupported)
        leave(kept, KEPT_REFUSED,
              status ? "nvjpegDecodeBatchedSupported" : "nvJPEG's batches do not take this kind",
              status);
    return !status && !unsupported;
}

/* Adds a picture that waits to the chunk. False: the chunk is full. What can be in no chunk is left
 * to the host. */
static bool add(struct nvjpeg *nvjpeg, struct kept *kept, uint8_t *row)
{
    const struct sl_config *config = &nvjpeg->cuda->settings->config;
    const struct crop_plan *plan = &kept->plan;
    struct resize_axis *columns = resizer_columns(nvjpeg->resizer);
    struct resize_axis *rows = resizer_rows(nvjpeg->resizer);
    struct resize_picture *picture = (struct resize_picture *)(void *)nvjpeg->staged;
    size_t fixed = aligned(CHUNK_MOST * sizeof *picture), decoded, between, table, number;

    if (resize_axis_set(columns, plan->x, plan->x + plan->width, kept->width, plan->full_width,
                        plan->left, config->width, RESIZE_BITS_COLUMNS) ||
        resize_axis_set(rows, plan->y, plan->y + plan->height, kept->height, plan->full_height,
                        plan->top, config->height, RESIZE_BITS_ROWS)) {
        leave(kept, KEPT_TOO_LARGE, "no memory for its resize", 0);
        return true;
    }
    decoded = aligned((size_t)kept->width * (size_t)kept->height * 3);
    between = aligned((size_t)(rows->last - rows->first) * (size_t)config->width * 3 *
                      sizeof *picture->between);
    table = resize_table_bytes(columns) + resize_table_bytes(rows);
    if (decoded + between > nvjpeg->pictures_bytes || fixed + table > nvjpeg->tables_bytes) {
        leave(kept, KEPT_TOO_LARGE, "too large for config.decode_bytes", 0);
        return true;
    }
    if (!nvjpeg->count) {
        nvjpeg->pictures_used = 0;
        nvjpeg->tables_used = fixed;
    }
    if (nvjpeg->count == CHUNK_MOST ||
        decoded + between > nvjpeg->pictures_bytes - nvjpeg->pictures_used ||
        table > nvjpeg->tables_bytes - nvjpeg->tables_used)
        return false;
    if (!is_supported(nvjpeg, kept))
        return true;

    number = nvjpeg->count++;
    picture += number;
    nvjpeg->kept[number] = kept;
    nvjpeg->bytes[number] = kept->bytes;
    nvjpeg->sizes[number] = kept->size;
    memset(&nvjpeg->images[number], 0, sizeof nvjpeg->images[number]);
    nvjpeg->images[number].channel[0] = nvjpeg->pictures + nvjpeg->pictures_used;
    nvjpeg->images[number].pitch[0] = (size_t)kept->width * 3;
    *picture = (struct resize_picture){
        .source = nvjpeg->pictures + nvjpeg->pictures_used +
                  ((size_t)rows->first * (size_t)kept->width + (size_t)columns->first) * 3,
        .stride = (size_t)kept->width * 3,
        .between = (int16_t *)(void *)(nvjpeg->pictures + nvjpeg->pictures_used + decoded),
        .out = row,
        .source_rows = (uint32_t)(rows->last - rows->first),
        .mirror = plan->flip,
    };
    nvjpeg->pictures_used += decoded + between;
    resize_table_fill(&picture->columns, columns, nvjpeg->staged + nvjpeg->tables_used,
                      nvjpeg->tables + nvjpeg->tables_used);
    nvjpeg->tables_used += resize_table_bytes(columns);
    resize_table_fill(&picture->rows, rows, nvjpeg->staged + nvjpeg->tables_used,
                      nvjpeg->tables + nvjpeg->tables_used);
    nvjpeg->tables_used += resize_table_bytes(rows);
    return true;
}

/* Drops all memory that nvJPEG has for decoding. A nvjpegStatus_t. */
static int renew(struct nvjpeg *nvjpeg)
{
    int status = nvjpeg->state ? nvjpeg->table->state_end(nvjpeg->state) : 0;

    nvjpeg->state = NULL;
    nvjpeg->begun = 0;
    if (!status)
        status = nvjpeg->table->state_make(nvjpeg->handle, &nvjpeg->state);
    if (status)
        nvjpeg->state = NULL;
    nvjpeg->fresh = !status;
    return status;
}

/* Decodes some of the chunk's by one call, and waits for it. *status is nvJPEG's; an error CUDA's.
 */
static int attempt(struct nvjpeg *nvjpeg, size_t first, size_t count, int *status,
                   struct fault *fault)
{
    const struct nvjpeg_table *table = nvjpeg->table;

    *status = nvjpeg->state ? 0 : renew(nvjpeg);
    if (!*status && nvjpeg->begun != (int)count) {
        nvjpeg->begun = 0;
        *status = table->batched_begin(nvjpeg->handle, nvjpeg->state, (int)count,
                                       nvjpeg->cuda->settings->config.workers, NVJPEG_OUTPUT_RGBI);
    }
    if (!*status) {
        nvjpeg->begun = (int)count;
        *status = table->batched(nvjpeg->handle, nvjpeg->state, nvjpeg->bytes + first,
                                 nvjpeg->sizes + first, nvjpeg->images + first,
                                 nvjpeg->cuda->stream);
    }
    if (*status)
        nvjpeg->begun = 0;
    else
        nvjpeg->fresh = false;
    return barrier(nvjpeg, fault);
}

/* Puts the kernels behind what was decoded. */
static int resize(struct nvjpeg *nvjpeg, size_t first, size_t count, struct fault *fault)
{
    const struct resize_picture *staged = (const struct resize_picture *)(void *)nvjpeg->staged;
    const struct resize_picture *seen = (const struct resize_picture *)(void *)nvjpeg->tables;
    struct resize_job job = {.pictures = seen + first, .count = (uint32_t)count};
    int error;

    resize_job_measure(&job, staged + first);
    error = cuda_check(nvjpeg->cuda, "the resize kernels' launch",
                       nvjpeg->cuda->table->resize(&job, nvjpeg->cuda->stream), fault);
    for (size_t i = first; i < first + count && !error; i++)
        nvjpeg->kept[i]->state = KEPT_DECODED;
    return error;
}

/* Decodes some of the chunk's, or leaves those to the host that nvJPEG does not decode. Places in
 * the chunk are each picture's own, so those that were decoded before may still be read. */
static int run(struct nvjpeg *nvjpeg, size_t first, size_t count, struct fault *fault)
{
    int status, error = attempt(nvjpeg, first, count, &status, fault);

    /* Whether there is room must not depend on what was decoded before. */
    if (!error && status == NVJPEG_ALLOCATOR_FAILURE && !nvjpeg->fresh) {
        status = renew(nvjpeg);
        if (!status)
            error = attempt(nvjpeg, first, count, &status, fault);
    }
    if (error)
        return error;
    if (!status)
        return resize(nvjpeg, first, count, fault);
    if (count == 1) {
        leave(nvjpeg->kept[first],
              status == NVJPEG_ALLOCATOR_FAILURE ? KEPT_TOO_LARGE : KEPT_REFUSED,
              "nvjpegDecodeBatched", status);
        return 0;
    }
    if (status == NVJPEG_ALLOCATOR_FAILURE)
        (void)renew(nvjpeg); /* attempt() tries that again, and tells */
    error = run(nvjpeg, first, count / 2, fault);
    return error ? error : run(nvjpeg, first + count / 2, count - count / 2, fault);
}

static int run_chunk(struct nvjpeg *nvjpeg, struct fault *fault)
{
    struct cuda *cuda = nvjpeg->cuda;
    int error = cuda_check(
        cuda, "cudaMemcpyAsync",
        cuda->table->copy_in(nvjpeg->tables, nvjpeg->staged, nvjpeg->tables_used, cuda->stream),
        fault);

    return error ? error : run(nvjpeg, 0, nvjpeg->count, fault);
}

/* From row *at on. */
static int next_chunk(struct nvjpeg *nvjpeg, uint8_t *rows, struct kept *kept, size_t count,
                      size_t *at, struct fault *fault)
{
    /* The last chunk's pictures and tables may still be read. */
    int error = barrier(nvjpeg, fault);

    nvjpeg->count = 0;
    for (; *at < count && !error; ++*at)
        if (kept[*at].state == KEPT_WAITING &&
            !add(nvjpeg, &kept[*at], rows + *at * nvjpeg->cuda->row_bytes))
            break;
    if (!error && nvjpeg->count)
        error = run_chunk(nvjpeg, fault);
    return error;
}

int nvjpeg_decode(struct nvjpeg *nvjpeg, uint8_t *rows, struct kept *kept, size_t count,
                  struct fault *fault)
{
    size_t at = 0;
    int error;

    while (at < count && kept[at].state != KEPT_WAITING)
        at++;
    if (at == count)
        return 0;
    pthread_mutex_lock(&nvjpeg->lock);
    error = cuda_enter(nvjpeg->cuda, fault);
    if (!error) {
        while (at < count && !error)
            error = next_chunk(nvjpeg, rows, kept, count, &at, fault);
        error = cuda_leave(nvjpeg->cuda, error, fault);
    }
    pthread_mutex_unlock(&nvjpeg->lock);
    return error;
}
