/* The batches' memory: a fixed number of slots in one arena, and what happens within a slot. A slot
 * is filled row by row by workers, settled once, and then the caller's until it is released. Which
 * slot is whose, the pipeline knows. */
#ifndef SHUFFLELOAD_SLOTS_H
#define SHUFFLELOAD_SLOTS_H

#include "backend.h"
#include "sample.h"
#include "settings.h"
#include "tally.h"

#include <stdatomic.h>
#include <stdbool.h>

struct sl_loader;

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_SETTLING, SLOT_READY, SLOT_HELD };

struct slot {
    struct sl_batch batch;    /* what the caller sees; first, so that a batch tells its slot */
    struct sl_loader *loader; /* whose it is, for functions that get the batch alone */
    enum slot_state state;    /* guarded by the pipeline's lock */
    uint64_t done;            /* rows written; guarded by the pipeline's lock */
    /* Of a held one, guarded by the pipeline's lock: tensors made of it that are alive, and whether
     * the caller has given it back. Held it is while either has it. */
    uint64_t tensors;
    bool released;
    /* The first bad row so far, and why; guarded by the pipeline's lock. */
    uint64_t bad_row;
    char bad_text[512];
    int error; /* what sl_next() returns in its place */
    struct fault fault;

    uint8_t *data, *mask;
    int64_t *labels, *lengths;
    int32_t *statuses;
    uint64_t *positions;
    const char **names;
    char *name_text; /* SAMPLE_NAME_ROOM a row */

    /* Where JPEGs are decoded on the device (else NULL), a row each: what was kept, and which row
     * there it is (backend_arrays). The files' room is address space: only as much is used as the
     * largest batch so far has needed. */
    struct kept *kept;
    int32_t *sources;
    uint8_t *files;
    size_t files_bytes;
    atomic_size_t files_used;
};

struct slots {
    const struct settings *settings;
    const struct backend *backend;
    void *state; /* the back end's */
    void *arena;
    size_t arena_bytes;
    size_t count;
    struct slot *slots;
};

/* 0, or -ENOMEM with a text that says how much was asked for. */
int slots_open(struct slots *slots, const struct settings *settings, const struct backend *backend,
               void *state, struct fault *fault);
void slots_close(struct slots *slots);

/* Readies a slot for batch `number`. */
void slots_begin(struct slots *slots, struct slot *slot, uint64_t epoch, uint64_t number);

/* Keeps a file's bytes until its batch is settled. Several workers at once. NULL: no room. */
const uint8_t *slots_keep_file(struct slot *slot, const uint8_t *bytes, size_t size);

/* Once all `asked` rows are written: replaces, leaves out or refuses the bad ones, and fills in the
 * batch. One thread, without a lock. */
void slots_settle(struct slots *slots, struct slot *slot, uint64_t asked, uint64_t after,
                  struct tally *tally);

#endif
