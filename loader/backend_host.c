/* Batches in host memory. */
#include "backend.h"
#include "pixels.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct host {
    enum sl_output output;
    size_t pixels; /* of an image, 3 values each */
    struct pixels_table table;
};

static int host_open(void **state, const struct settings *settings, struct fault *fault)
{
    struct host *host = calloc(1, sizeof *host);

    if (!host)
        return fault_set(fault, -ENOMEM, "no memory for the back end");
    host->output = settings->config.output;
    host->pixels = settings->pixels / 3;
    pixels_table_fill(&host->table, settings->config.mean, settings->config.deviation);
    *state = host;
    return 0;
}

static void host_close(void *state)
{
    free(state);
}

uint64_t backend_memory_available(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kib, sum = 0;
    bool found = false;

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1) {
            found = true;
            sum += kib;
        } else if (sscanf(line, "SwapFree: %llu kB", &kib) == 1) {
            sum += kib;
        }
    if (file)
        fclose(file);
    return found ? sum << 10 : UINT64_MAX;
}

static void *host_memory_take(void *state, size_t bytes, struct fault *fault)
{
    void *memory;

    (void)state;
    (void)fault;
    if (bytes > backend_memory_available())
        return NULL;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    /* Large pages where the kernel has them: a batch of floats is 150 MB. Then touched, so that
     * what is missing is missed now; where the kernel cannot (before 5.14) they are touched when
     * written to. */
    madvise(memory, bytes, MADV_HUGEPAGE);
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) && errno != EINVAL) {
        munmap(memory, bytes);
        return NULL;
    }
    return memory;
}

static void host_memory_give(void *state, void *memory, size_t bytes)
{
    (void)state;
    munmap(memory, bytes);
}

static bool host_rows_are_pixels(const void *state)
{
    return ((const struct host *)state)->output == SL_UINT8_NHWC;
}

static void host_write_row(void *state, const uint8_t *rgb, void *row)
{
    const struct host *host = state;

    if (host->output == SL_FLOAT32_NCHW)
        pixels_to_floats(row, rgb, host->pixels, &host->table);
    else if (host->output == SL_BFLOAT16_NCHW)
        pixels_to_bfloats(row, rgb, host->pixels, &host->table);
    else
        pixels_to_halves(row, rgb, host->pixels, &host->table);
}

static bool host_decodes(const void *state, struct fault *why)
{
    (void)state, (void)why;
    return false;
}

static int host_decode(void *state, size_t slot, struct kept *kept, size_t count,
                       struct fault *fault)
{
    (void)state, (void)slot, (void)kept, (void)count, (void)fault;
    return 0;
}

static void host_describe(void *state, size_t slot, struct sl_batch *batch)
{
    (void)state;
    (void)slot;
    batch->device = SL_DEVICE_HOST;
}

static int host_row_begin(void *state, size_t slot, struct fault *fault)
{
    (void)state, (void)slot, (void)fault;
    return 0;
}

static int host_batch_ready(void *state, size_t slot, const struct sl_batch *batch,
                            const struct backend_arrays *arrays, struct fault *fault)
{
    (void)state, (void)slot, (void)batch, (void)arrays, (void)fault;
    return 0;
}

/* Nothing on a stream can be at work with it without the caller's own doing. */
static int host_batch_stream(void *state, size_t slot, void *stream, struct fault *fault)
{
    (void)state, (void)slot, (void)stream, (void)fault;
    return 0;
}

static int host_batch_streams(void *state, size_t slot, struct fault *fault)
{
    return host_batch_stream(state, slot, NULL, fault);
}

const struct backend backend_host = {
    .name = "host",
    .open = host_open,
    .close = host_close,
    .memory_take = host_memory_take,
    .memory_give = host_memory_give,
    .rows_are_pixels = host_rows_are_pixels,
    .write_row = host_write_row,
    .decodes = host_decodes,
    .decode = host_decode,
    .describe = host_describe,
    .row_begin = host_row_begin,
    .batch_ready = host_batch_ready,
    .batch_wait = host_batch_stream,
    .batch_used = host_batch_stream,
    .batch_used_by_all = host_batch_streams,
};
