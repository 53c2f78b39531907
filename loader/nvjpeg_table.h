/* Every call of nvJPEG that the loader makes, as one table of functions, as cuda_table.h has
 * CUDA's. The library is found at run time: nothing is linked, and no header of it is needed to
 * build. Tests put a table of their own in its place.
 *
 * Names and numbers are of nvjpeg.h 12.4 and 13.3, in which all that is here is the same. Functions
 * give a nvjpegStatus_t (0: done). Streams are CUDA's. Any thread; one at a time for each handle,
 * as nvJPEG wants it. */
#ifndef SHUFFLELOAD_NVJPEG_TABLE_H
#define SHUFFLELOAD_NVJPEG_TABLE_H

#include "fault.h"

#include <stddef.h>

enum nvjpeg_status {
    NVJPEG_BAD_JPEG = 3,
    NVJPEG_NOT_SUPPORTED = 4,
    NVJPEG_ALLOCATOR_FAILURE = 5,
    NVJPEG_EXECUTION_FAILED = 6,
    NVJPEG_ARCH_MISMATCH = 7,
};

enum {
    NVJPEG_GPU_HYBRID = 2, /* backends: Huffman decoding on the GPU, of more than 50 at once */
    NVJPEG_HARDWARE = 3,   /* an engine of its own */

    /* Flags: what breaks the standard is refused, so that the host can say how it is damaged; and
     * colours are made larger as libjpeg-turbo does it. */
    NVJPEG_BITSTREAM_STRICT = 1 << 2,
    NVJPEG_UPSAMPLING_WITH_INTERPOLATION = 1 << 5,

    NVJPEG_OUTPUT_RGBI = 5,
};

/* nvjpegImage_t; of interleaved RGB the first channel alone counts. */
struct nvjpeg_image {
    unsigned char *channel[4];
    size_t pitch[4];
};

/* nvjpegDevAllocatorV2_t, and nvjpegPinnedAllocatorV2_t alike: 0, or not done. */
struct nvjpeg_memory {
    int (*take)(void *context, void **memory, size_t bytes, void *stream);
    int (*give)(void *context, void *memory, size_t bytes, void *stream);
    void *context;
};

struct nvjpeg_table {
    int (*property)(int which, int *value); /* 0, 1, 2: the version's parts */
    int (*create)(int backend, struct nvjpeg_memory *device, struct nvjpeg_memory *pinned,
                  unsigned flags, void **handle);
    int (*destroy)(void *handle);
    int (*state_make)(void *handle, void **state);
    int (*state_end)(void *state);
    int (*header_make)(void *handle, void **header);
    int (*header_end)(void *header);
    int (*header_read)(void *handle, const unsigned char *bytes, size_t size, void *header);
    /* *unsupported: 0 where batched() can decode it. */
    int (*supported)(void *handle, void *header, int *unsupported);
    int (*batched_begin)(void *handle, void *state, int count, int threads, int output);
    int (*batched)(void *handle, void *state, const unsigned char *const *bytes,
                   const size_t *sizes, struct nvjpeg_image *images, void *stream);
};

/* How libraries are found: dlopen() and its kin, or a test's. */
struct nvjpeg_linker {
    void *(*open)(const char *name);
    void *(*symbol)(void *library, const char *name);
    const char *(*error)(void);
    void (*close)(void *library);
};

/* Fills the table from the library `name`; NULL: libnvjpeg.so.13 or .12. 0; -ENOENT: there is none;
 * -ENOTSUP: it is of another version, or lacks a function. */
int nvjpeg_load(struct nvjpeg_table *table, const char *name, const struct nvjpeg_linker *linker,
                struct fault *fault);

/* What loaders opened from here on use: nvJPEG as it was found the first time, by
 * SHUFFLELOAD_NVJPEG in the environment or else by its name, and kept to the end of the process; or
 * what was put in its place. NULL: it cannot be used, and why. */
const struct nvjpeg_table *nvjpeg_table(struct fault *why);
void nvjpeg_table_replace(const struct nvjpeg_table *table); /* NULL: nvJPEG's own again */

/* "NVJPEG_STATUS_X (N)". */
void nvjpeg_status_text(int status, char *text, size_t size);

#endif
