/* Batches' arrays as DLPack tensors, and how long a loader's memory stays for them.
 *
 * A tensor keeps its batch's slot from being filled again, and the loader's memory from being given
 * back: its deleter may be called after sl_close(), by any thread. So what sl_close() frees at once
 * is what tensors do not need (threads, files); the rest goes with the last of them. */
#ifndef SHUFFLELOAD_EXPORT_H
#define SHUFFLELOAD_EXPORT_H

#include "batches.h"

#include <stdbool.h>
#include <sys/types.h>

struct sl_loader {
    struct batches batches;
    pid_t owner;      /* the process that opened it */
    uint64_t tensors; /* alive; guarded by the pipeline's lock, as is the next */
    bool closed;      /* goes with the last tensor */
};

/* What sl_batch_export() does. */
int export_array(struct sl_loader *loader, const struct sl_batch *batch, enum sl_array array,
                 unsigned how, void *stream, void **tensor);

/* What sl_batch_wait() does. */
int export_wait(struct sl_loader *loader, const struct sl_batch *batch, void *stream);

/* The loader of a batch that it has made. */
struct sl_loader *export_loader_of(const struct sl_batch *batch);

/* Frees the loader, whose threads have ended, now or with its last tensor. */
void export_free_loader(struct sl_loader *loader);

#endif
