/* An nvJPEG that is none, behind the loader's table of its functions, on the GPU that is none: it
 * decodes by libjpeg. As the true one's hardware decoder it writes on a thread of its own, from the
 * call on, whatever its stream still has to do; and late, while its stream goes on: only who waits
 * for the stream on the host knows that it is done. It reads the files late, too. */
#ifndef SHUFFLEFS_UNIT_FAKE_NVJPEG_H
#define SHUFFLEFS_UNIT_FAKE_NVJPEG_H

#include "../../loader/nvjpeg_table.h"

#include <stdbool.h>
#include <stdint.h>

struct fake_nvjpeg {
    unsigned late_us;
    bool no_hardware; /* that back end is not there */
    /* Pictures of this width: not supported; and that by the batch's call. 0: none. */
    int unsupported_width, broken_width;
    size_t bytes_a_pixel; /* of its own memory, while it decodes and until the state's end */
    /* Call number `fail_at` (from 1; 0: none) gives `fail_with` (0: EXECUTION_FAILED); `fail_on`:
     * and so do all that follow. */
    uint64_t fail_at;
    bool fail_on;
    int fail_with;
};

/* After fake_cuda_begin(): starts it and puts its table in the place of nvJPEG's. */
void fake_nvjpeg_begin(const struct fake_nvjpeg *how);
/* Before fake_cuda_end(): ends it, and gives what nobody ended: handles, states, headers. */
unsigned fake_nvjpeg_end(void);

uint64_t fake_nvjpeg_calls(void);
bool fake_nvjpeg_failed(void);
/* Calls that nvJPEG would not have allowed, and files that were overwritten before they were read.
 */
unsigned fake_nvjpeg_misuses(void);
/* Batches that were decoded, pictures in them, and the most in one. */
unsigned fake_nvjpeg_batches(void);
unsigned fake_nvjpeg_pictures(void);
unsigned fake_nvjpeg_largest(void);

/* Its table, to be changed by a test. */
const struct nvjpeg_table *fake_nvjpeg_table(void);

#endif
