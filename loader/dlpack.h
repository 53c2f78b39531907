/* DLPack's structs, as their binary interface is fixed: dlpack.h of github.com/dmlc/dlpack at 1.0,
 * and the older struct without a version, which most consumers still take. Nothing but layout. */
#ifndef SHUFFLELOAD_DLPACK_H
#define SHUFFLELOAD_DLPACK_H

#include <stdint.h>

enum dlpack_device { DLPACK_CPU = 1, DLPACK_CUDA = 2, DLPACK_CUDA_HOST = 3 /* pinned */ };
enum dlpack_code { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4 };

#define DLPACK_MAJOR       1
#define DLPACK_MINOR       0
#define DLPACK_FLAG_COPIED ((uint64_t)2)

struct dlpack_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t dimensions;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } type;
    int64_t *shape, *strides; /* in elements */
    uint64_t byte_offset;
};

/* DLManagedTensor */
struct dlpack_plain {
    struct dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct dlpack_plain *self);
};

/* DLManagedTensorVersioned */
struct dlpack_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct dlpack_versioned *self);
    uint64_t flags;
    struct dlpack_tensor tensor;
};

#endif
