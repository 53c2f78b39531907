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

/* What the machine can give, swap included; where it does not say, anything. The kernel promises
 * more than it has, and ends a process, not always the one that asked, when that is touched. */
static uint64_t memory_available(void)
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

static void *host_memory_take(void *state, size_t bytes)
{
    void *memory;

    (void)state;
    if (bytes > memory_available())
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

static int host_rows_are_pixels(const void *state)
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

static int host_batch(void *state, size_t slot, struct sl_batch *batch)
{
    (void)state;
    (void)slot;
    (void)batch;
    return 0;
}

static void host_release(void *state, size_t slot)
{
    (void)state;
    (void)slot;
}

const struct backend backend_host = {
    .name = "host",
    .open = host_open,
    .close = host_close,
    .memory_take = host_memory_take,
    .memory_give = host_memory_give,
    .rows_are_pixels = host_rows_are_pixels,
    .write_row = host_write_row,
    .batch_ready = host_batch,
    .batch_deliver = host_batch,
    .batch_release = host_release,
};
