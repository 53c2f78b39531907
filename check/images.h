/* Every picture of a data set decoded, by the loader's own code: what a training run would meet.
 *
 * Pictures are the members whose extension is a picture's (`jpg`, `left.png`). Their bytes are read
 * in the shards' order, one after the other, while other threads decode. Limits (pixels, scans,
 * bytes) are the loader's defaults. */
#ifndef SHUFFLEFS_CHECK_IMAGES_H
#define SHUFFLEFS_CHECK_IMAGES_H

#include "problems.h"

#include "../core/dataset.h"

struct check_images {
    uint64_t pictures, bytes;
    uint64_t jpeg, png, others; /* by what their bytes say */
    unsigned threads;
    double seconds;
};

/* Decodes with `threads` threads (0: as many as the cores that the process may use) and adds what
 * is wrong to `problems`. Returns 0 (whatever the pictures are like) or -ENOMEM, reported. */
int check_images(const struct dataset *dataset, unsigned threads, struct check_problems *problems,
                 struct check_images *images);

#endif
