/* The consumer on the GPU that is none. With GPU_CHECK_SPOIL in the environment each copy out has a
 * wrong byte, with GPU_CHECK_FAIL=N call N of the loader fails: what gpu-check has to find. With
 * GPU_CHECK_NO_NVJPEG there is no nvJPEG. */
#include "consumer.h"

#include "../unit/fake_cuda.h"
#include "../unit/fake_nvjpeg.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct copy {
    void *to;
    const void *from;
    size_t bytes;
};

int consumer_begin(void)
{
    const char *fail = getenv("GPU_CHECK_FAIL");

    fake_cuda_begin(&(struct fake_cuda){.fail_at = fail ? strtoull(fail, NULL, 10) : 0});
    fake_nvjpeg_begin(&(struct fake_nvjpeg){.no_hardware = getenv("GPU_CHECK_NO_NVJPEG") != NULL,
                                            .fail_at = getenv("GPU_CHECK_NO_NVJPEG") ? 1 : 0,
                                            .fail_on = true});
    return 0;
}

int consumer_end(void)
{
    return fake_nvjpeg_end() || fake_nvjpeg_misuses() || fake_cuda_end() || fake_cuda_misuses()
               ? FAKE_CUDA_ERROR
               : 0;
}

int consumer_name(char *name, size_t size)
{
    snprintf(name, size, "none (a fake one)");
    return 0;
}

int consumer_stream_make(void **stream)
{
    *stream = fake_cuda_stream(0);
    return 0;
}

int consumer_stream_end(void *stream)
{
    fake_cuda_end_stream(stream);
    return 0;
}

static void take_time(void *argument)
{
    struct timespec *time = argument;

    nanosleep(time, NULL);
    free(time);
}

int consumer_busy(void *stream, unsigned microseconds)
{
    struct timespec *time = malloc(sizeof *time);

    if (!time)
        return CUDA_OUT_OF_MEMORY;
    *time = (struct timespec){microseconds / 1000000, (long)(microseconds % 1000000) * 1000};
    fake_cuda_do(stream, take_time, time);
    return 0;
}

static void copy(void *argument)
{
    const struct copy *wanted = argument;

    memcpy(wanted->to, wanted->from, wanted->bytes);
    if (getenv("GPU_CHECK_SPOIL") && wanted->bytes)
        ((uint8_t *)wanted->to)[wanted->bytes / 2] ^= 1;
}

int consumer_copy_out(void *host, const void *device, size_t bytes, void *stream)
{
    struct copy wanted = {host, device, bytes};

    fake_cuda_do(stream, copy, &wanted);
    fake_cuda_finish(stream);
    return 0;
}

int consumer_finish(void *stream)
{
    fake_cuda_finish(stream);
    return 0;
}
