/* The size of each sample's picture, as a file of numbers for `lengths=` (core/numbers.h): a line a
 * sample, in the data set's own order, which is the numbering of shufflefs-order; width times
 * height in pixels.
 *
 * The picture is the member that fields_primary() names. Nothing is decoded: of each, the first few
 * KiB are read, and more only while the header goes on, as where an EXIF thumbnail or a colour
 * profile stands in it. JPEG and PNG are read, as the loader decodes no other. */
#ifndef SHUFFLEFS_CHECK_LENGTHS_H
#define SHUFFLEFS_CHECK_LENGTHS_H

#include "problems.h"

#include "../core/dataset.h"

#include <stdbool.h>

struct check_lengths {
    uint64_t samples, measured;
    uint64_t jpeg, png;         /* of those measured */
    uint64_t bytes;             /* that were read for it */
    uint64_t shortest, longest; /* pixels */
    unsigned threads;
    double seconds; /* without writing */
    bool written;   /* else it was reported why not, or some samples were not measured */
};

/* Standard output, in place of a file's name. */
#define CHECK_LENGTHS_STDOUT "-"

/* Whether `path` may be written: not where a file is there that holds anything but a number on its
 * first line, so that a forgotten name costs nobody a shard. Reported. */
bool check_lengths_may_write(const char *path);

/* Measures with `threads` threads (0: as many as the cores that the process may use) and writes
 * `path`: a file under a temporary name until it is whole, whatever is no file (a pipe, a device)
 * as it stands. Samples that cannot be measured are added to `problems`, and then nothing is
 * written: what was there stays. Returns 0, or a negative errno, reported: no memory, or the file
 * cannot be written. */
int check_lengths_write(const struct dataset *dataset, const char *path, unsigned threads,
                        struct check_problems *problems, struct check_lengths *lengths);

#endif
