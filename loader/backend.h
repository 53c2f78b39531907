/* Where batches are made: the table of functions that a back end is. The host's is backend_host;
 * one for a GPU is one more such table, with slots in pinned memory, uint8 rows in them, and copies
 * and kernels started in batch_ready. Nothing else in the loader knows which one it works for. */
#ifndef SHUFFLELOAD_BACKEND_H
#define SHUFFLELOAD_BACKEND_H

#include "fault.h"
#include "settings.h"

#include <stddef.h>
#include <stdint.h>

struct backend {
    const char *name;

    /* Makes the state that all other functions get. 0 or a negative errno with its text. */
    int (*open)(void **state, const struct settings *settings, struct fault *fault);
    void (*close)(void *state);

    /* The arena: once at open, given back at close. Zeroed, its pages touched, aligned to a page.
     * NULL: not enough memory. */
    void *(*memory_take)(void *state, size_t bytes);
    void (*memory_give)(void *state, void *memory, size_t bytes);

    /* Does an image's row in the slot hold the rgb bytes themselves (then write_row is not called,
     * and the decoder writes into the slot)? */
    int (*rows_are_pixels)(const void *state);
    /* From rgb (width * height * 3) to a row in the slot. Several workers at once. */
    void (*write_row)(void *state, const uint8_t *rgb, void *row);

    /* The life of a batch in a slot. ready: all rows are written, by the worker that wrote the last
     * one; deliver: right before the caller gets it, in order; release: the caller gave it back, or
     * it is dropped after ready. 0 or a negative errno, which the caller of sl_next() gets. */
    int (*batch_ready)(void *state, size_t slot, struct sl_batch *batch);
    int (*batch_deliver)(void *state, size_t slot, struct sl_batch *batch);
    void (*batch_release)(void *state, size_t slot);
};

extern const struct backend backend_host;

#endif
