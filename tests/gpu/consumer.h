/* What a training loop does with a batch, as far as gpu-check needs it: a kernel that takes its
 * time, and copies back. consumer.cu does it on a GPU, consumer_fake.c on the one that is none. All
 * return 0 or a cudaError_t; the device is the calling thread's. */
#ifndef SHUFFLEFS_GPU_CONSUMER_H
#define SHUFFLEFS_GPU_CONSUMER_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Before all others, and at the end. */
int consumer_begin(void);
int consumer_end(void);

int consumer_name(char *name, size_t size);
int consumer_stream_make(void **stream);
int consumer_stream_end(void *stream);
/* All processors of the device are busy for so long, from when the stream gets there. */
int consumer_busy(void *stream, unsigned microseconds);
/* Behind what is on the stream; returns when it is there. */
int consumer_copy_out(void *host, const void *device, size_t bytes, void *stream);
int consumer_finish(void *stream);

#ifdef __cplusplus
}
#endif
#endif
