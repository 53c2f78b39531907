/* A JPEG of a batch that a worker has kept for the GPU to decode, and what became of it. In the
 * slot, one a row: written by the worker of the row, and by the one that settles the batch. */
#ifndef SHUFFLELOAD_KEPT_H
#define SHUFFLELOAD_KEPT_H

#include "crop.h"

#include <stddef.h>
#include <stdint.h>

enum kept_state {
    KEPT_NOT = 0,   /* the host has decoded it, or it is bad */
    KEPT_WAITING,   /* for the device */
    KEPT_DECODED,   /* its row is on the device, or will be, on the loader's stream */
    KEPT_TOO_LARGE, /* left to the host: the memory to decode in is too small for it */
    KEPT_REFUSED,   /* likewise: nvJPEG does not decode it */
};

struct kept {
    enum kept_state state;
    const uint8_t *bytes; /* in the slot's room for files */
    size_t size;
    int width, height;
    struct crop_plan plan;
    char why[80]; /* it was left to the host */
};

#endif
