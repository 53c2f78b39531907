/* Every call of CUDA's runtime that the loader makes, as one table of functions: the back end knows
 * CUDA by it alone, includes no header of CUDA, and is built and tested where there is none.
 * cuda_runtime.cu has the true table; tests put one in its place that finishes late, in another
 * order, or fails.
 *
 * Numbers are CUDA's (cudaError_t; 0: done), streams and events its pointers. Any thread. */
#ifndef SHUFFLELOAD_CUDA_TABLE_H
#define SHUFFLELOAD_CUDA_TABLE_H

#include "fault.h"
#include "pixels_body.h"
#include "resize_body.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The two stream numbers that CUDA gives names to (cudaStreamLegacy, cudaStreamPerThread). */
#define CUDA_STREAM_LEGACY ((void *)1)

/* Those of cudaError_t that are told apart. */
enum {
    CUDA_OUT_OF_MEMORY = 2,  /* cudaErrorMemoryAllocation */
    CUDA_OLD_DRIVER = 35,    /* cudaErrorInsufficientDriver: none, or too old a one */
    CUDA_NO_DEVICE = 100,    /* cudaErrorNoDevice */
    CUDA_WRONG_DEVICE = 101, /* cudaErrorInvalidDevice */
    CUDA_NO_IMAGE = 209,     /* cudaErrorNoKernelImageForDevice */
};

struct cuda_table {
    int (*device_count)(int *count);
    int (*device_get)(int *device); /* the calling thread's current one */

    /* A device's primary context, which is made where it is not there yet, and stays until it was
     * given back as often as it was taken. Pushed, it is the calling thread's until it is popped;
     * then the thread has what it had before, be that nothing. (cudaSetDevice() there and back
     * would make a context on the device that a thread merely has by default.) */
    int (*context_take)(int device, void **context);
    int (*context_give)(int device);
    int (*context_push)(void *context);
    int (*context_pop)(void);

    /* All that follow are of the current device. */
    int (*device_wait)(void); /* all work on it, of all streams */

    int (*kernel_check)(void); /* is there code of the kernels for this device? */

    /* Memory. Pinned memory can be read by every device; it is not cleared. */
    int (*host_take)(void **memory, size_t bytes);
    int (*host_give)(void *memory);
    int (*device_take)(void **memory, size_t bytes);
    int (*device_give)(void *memory);

    /* Streams of their own (none waits for the legacy default stream, nor it for them), and events
     * that time nothing. */
    int (*stream_make)(void **stream);
    int (*stream_end)(void *stream);
    int (*stream_wait)(void *stream, void *event); /* what follows waits for what was recorded */
    int (*stream_finish)(void *stream);            /* the calling thread waits for all of it */
    int (*event_make)(void **event);
    int (*event_end)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_finish)(void *event); /* the calling thread waits, without using its core */

    /* Work on a stream; returns before it is done. */
    int (*copy_in)(void *device, const void *pinned, size_t bytes, void *stream);
    int (*copy_within)(void *to, const void *from, size_t bytes, void *stream);
    int (*convert)(const struct pixels_job *job, void *stream);
    int (*resize)(const struct resize_job *job, void *stream); /* pictures: on the device */

    const char *(*error_name)(int error);
    const char *(*error_text)(int error);
};

/* CUDA's own; NULL where the library was built without (CUDA=0, or no nvcc). */
const struct cuda_table *cuda_runtime_table(void);

/* What loaders opened from here on use: that, or what was put in its place. */
const struct cuda_table *cuda_table(void);
void cuda_table_replace(const struct cuda_table *table); /* NULL: CUDA's own again */

/* From the moment on that the process exits, no call of CUDA may be made: its runtime may have been
 * taken down. cuda_exit_watch() has to be called after the runtime's first use. */
void cuda_exit_watch(void);
bool cuda_exiting(void);

/* "CALL: cudaErrorX (N): CUDA's text", and the errno that the error comes nearest to. */
int cuda_fault(const struct cuda_table *table, const char *call, int error, struct fault *fault);

#ifdef __cplusplus
}
#endif
#endif
