/* Which folders were read to their end, and in which field of their samples, to notice one that is
 * read again: a forgotten set_epoch, the best-known silent fault in training. All labels first and
 * then all pictures is one pass over each. Remembers a folder by its path and epoch, and where that
 * was resumed, so that it is known again after the kernel forgot its inode; the last PASSES_MOST of
 * them. Pure. */
#ifndef SHUFFLEFS_PASSES_H
#define SHUFFLEFS_PASSES_H

#include "epochs.h"

#include <stdbool.h>
#include <stdint.h>

#define PASSES_MOST 2048

struct passes {
    uint64_t count;               /* ever entered */
    uint64_t hashes[PASSES_MOST]; /* of path, epoch, where it was resumed, and field; 0: none */
};

/* `field` is a bit of struct follow_push's. The folder was read to its end. */
void passes_finish(struct passes *passes, const char *path, struct epochs_at at, uint64_t field);
/* Whether it was. */
bool passes_are_finished(const struct passes *passes, const char *path, struct epochs_at at,
                         uint64_t field);
/* It is read in no order, so that nothing is said of its passes; whether that was noted. */
void passes_no_order(struct passes *passes, const char *path, struct epochs_at at);
bool passes_have_no_order(const struct passes *passes, const char *path, struct epochs_at at);
/* It is being read again, in some field. True the first time that this is said of it. */
bool passes_repeat(struct passes *passes, const char *path, struct epochs_at at);

#endif
