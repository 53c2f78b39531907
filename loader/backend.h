/* Where batches are made: the table of functions that a back end is, and the choice between the
 * two. backend_host makes them in the host's memory; backend_cuda has slots in pinned memory, and
 * copies and converts them on a GPU. Nothing else in the loader knows which one it works for. */
#ifndef SHUFFLELOAD_BACKEND_H
#define SHUFFLELOAD_BACKEND_H

#include "fault.h"
#include "kept.h"
#include "settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A slot's pinned or plain arrays, for a back end that copies them. Row i of the batch is row i of
 * `data`, or where sources[i] is not below 0 the row sources[i] that decode() has made on the
 * device. Each row that is such a source is its own; `sources` is NULL where nothing is decoded
 * there. */
struct backend_arrays {
    const void *data, *mask, *labels, *lengths;
    const int32_t *sources;
};

/* What fails returns a negative errno with its text in the fault. Slots are numbers from 0 to
 * settings->slots - 1. */
struct backend {
    const char *name;

    /* Makes the state that all other functions get. -ENODEV: there is no such device, or none that
     * can be used. */
    int (*open)(void **state, const struct settings *settings, struct fault *fault);
    void (*close)(void *state);

    /* The arena: once at open, given back at close. Zeroed, its pages touched, aligned to a page.
     * NULL: not enough memory. */
    void *(*memory_take)(void *state, size_t bytes, struct fault *fault);
    void (*memory_give)(void *state, void *memory, size_t bytes);

    /* Does an image's row in the slot hold the rgb bytes themselves (then write_row is not called,
     * and the decoder writes into the slot)? */
    bool (*rows_are_pixels)(const void *state);
    /* From rgb (width * height * 3) to a row in the slot. Several workers at once. */
    void (*write_row)(void *state, const uint8_t *rgb, void *row);

    /* Are JPEGs decoded on the device? Where not, though config.decode asks for it, `why` (may be
     * NULL) says the reason. */
    bool (*decodes)(const void *state, struct fault *why);
    /* All rows of a batch are written, but for those whose JPEG was kept: decodes these to their
     * rows on the device, where batch_ready finds them; or leaves some to the host, as their states
     * say then. Waits for the device. */
    int (*decode)(void *state, size_t slot, struct kept *kept, size_t count, struct fault *fault);

    /* Once a slot: what the caller gets of its memory, after the host's addresses are filled in. */
    void (*describe)(void *state, size_t slot, struct sl_batch *batch);

    /* The life of a batch in a slot.
     * row_begin: before each row is written, by the worker that writes it; waits while the last
     *   batch of this slot is still being read. With an error nothing may be written: it may be.
     * batch_ready: all rows are written; by the worker that wrote the last one. */
    int (*row_begin)(void *state, size_t slot, struct fault *fault);
    int (*batch_ready)(void *state, size_t slot, const struct sl_batch *batch,
                       const struct backend_arrays *arrays, struct fault *fault);

    /* What the caller of a held batch does, in any thread; all without the pipeline's lock.
     * batch_wait: what follows on the stream finds the batch there.
     * batch_used: what is on the stream by now uses the batch: it stays until that is done. Where
     *   that cannot be arranged, the slot is never written to again: row_begin fails.
     * batch_used_by_all: the same for each stream that batch_wait was called with. */
    int (*batch_wait)(void *state, size_t slot, void *stream, struct fault *fault);
    int (*batch_used)(void *state, size_t slot, void *stream, struct fault *fault);
    int (*batch_used_by_all)(void *state, size_t slot, struct fault *fault);
};

extern const struct backend backend_host, backend_cuda;

/* Opens the back end that the settings ask for. With SL_DEVICE_AUTO, and without a GPU that can be
 * used, that is the host: then `note` says why, as it does where pictures should be decoded on the
 * GPU and cannot be; else it is "". */
int backend_open(const struct backend **backend, void **state, const struct settings *settings,
                 struct fault *note, struct fault *fault);

/* What the machine can give, in bytes, swap included; where it does not say, UINT64_MAX. The kernel
 * promises more than it has, and ends a process, not always the one that asked, when that is
 * touched. */
uint64_t backend_memory_available(void);

#endif
