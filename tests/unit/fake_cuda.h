/* A GPU that is none, behind the loader's table of CUDA functions: its own thread does the streams'
 * work, late, and of several streams in an order that chance decides. It allows what CUDA allows
 * and no more: work and events have to fit the device, memory that is given back is poisoned after
 * the work on it. It can fail at any call, and leave waits out. */
#ifndef SHUFFLEFS_UNIT_FAKE_CUDA_H
#define SHUFFLEFS_UNIT_FAKE_CUDA_H

#include "../../loader/cuda_table.h"

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_CUDA_DEVICES = 2, FAKE_CUDA_ERROR = 700 };

struct fake_cuda {
    int devices;      /* 0: two; -1: none; below that: no driver */
    unsigned late_us; /* each piece of work begins up to so much later */
    /* Call number `fail_at` (from 1; 0: none) gives `fail_with` (0: FAKE_CUDA_ERROR); `fail_on`:
     * and so do all that follow. */
    uint64_t fail_at;
    bool fail_on;
    int fail_with;
    /* Waits that are left out: of streams for events, of threads for events. */
    bool no_stream_waits, no_event_waits;
    unsigned no_waits_for_event; /* likewise of threads, for the loader's event of this number */
};

/* Starts it and puts its table in the place of CUDA's. */
void fake_cuda_begin(const struct fake_cuda *how);
/* Ends it, and gives what nobody gave back: memory, streams, events, contexts, and such
 * as the calling thread still has pushed. */
unsigned fake_cuda_end(void);

/* Calls so far, and whether one of them was made to fail. */
uint64_t fake_cuda_calls(void);
bool fake_cuda_failed(void);
/* Pieces of memory that were taken so far, pinned or on a device. */
uint64_t fake_cuda_taken(void);
/* Calls that CUDA would not have allowed. */
unsigned fake_cuda_misuses(void);

/* Work that is in no stream: who waits for an event, a stream or the device waits for it, too, by
 * calling this. NULL: there is none. */
void fake_cuda_side(void (*wait)(void));

/* Is all of it one piece of the device's memory (-1: pinned)? */
bool fake_cuda_holds(const void *at, size_t bytes, int device);

/* The calling thread's device. */
void fake_cuda_set_device(int device);

/* A consumer's: not counted, and never failing. */
void *fake_cuda_stream(int device);
void fake_cuda_end_stream(void *stream);
void fake_cuda_do(void *stream, void (*work)(void *argument), void *argument);
/* What follows on `stream` waits for what is on `other` by now. */
void fake_cuda_join(void *stream, void *other);
void fake_cuda_finish(void *stream);

#endif
