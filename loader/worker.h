/* What one thread needs to make rows, and making one: reading a sample, decoding it, writing its
 * row. No lock; a worker belongs to one thread. */
#ifndef SHUFFLELOAD_WORKER_H
#define SHUFFLELOAD_WORKER_H

#include "backend.h"
#include "catalog.h"
#include "image.h"
#include "sample.h"
#include "settings.h"
#include "slots.h"
#include "tally.h"

#include <stdbool.h>

struct worker {
    const struct settings *settings;
    const struct backend *backend;
    void *state;
    struct image_decoder *decoder; /* NULL: bytes */
    struct image_times image_times;
    uint8_t *buffer;     /* of a file; NULL for streams */
    size_t buffer_bytes; /* address space */
    uint8_t *pixels;     /* an image on its way to floats */
    struct tally tally;  /* since it was last added up */
    bool waited;         /* the last read waited for storage */
    /* The first bad sample since the owner last cleared `troubled`. */
    bool troubled;
    uint64_t bad_row;
    char last_bad[512];
    /* The last picture that was not left to the device, though it should have been. */
    bool fell_back;
    char last_fallback[512];
    struct image_recipe recipe;
};

/* `reads`: it reads files itself. 0 or -ENOMEM. */
int worker_open(struct worker *worker, const struct settings *settings,
                const struct backend *backend, void *state, bool reads, struct fault *fault);
void worker_close(struct worker *worker);

/* Reads sample `number` of a catalog into the worker's buffer. */
void worker_read(struct worker *worker, const struct catalog *catalog, uint64_t number,
                 struct sample *sample);

/* Writes row `row` of the slot: content, label, name, status. `position` is the sample's in the
 * global order. Where the device decodes, a plain JPEG's content is kept in its place. */
void worker_write(struct worker *worker, struct slot *slot, uint64_t row,
                  const struct sample *sample, uint64_t epoch, uint64_t position);

/* Writes the content and the status of a row whose JPEG was kept, and left to the host since. */
void worker_decode_left(struct worker *worker, struct slot *slot, uint64_t row);

#endif
