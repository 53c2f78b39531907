/* Which folders were read to their end, to notice one that is read again: a forgotten set_epoch,
 * the field's best-known silent fault. Remembers a folder by its path and epoch, so that it is
 * known again after the kernel forgot its inode; the last PASSES_MOST of them. Pure. */
#ifndef SHUFFLEFS_PASSES_H
#define SHUFFLEFS_PASSES_H

#include <stdbool.h>
#include <stdint.h>

#define PASSES_MOST 1024

struct passes {
    uint64_t count; /* ever entered */
    struct passes_folder {
        uint64_t hash; /* of path and epoch; 0: none */
        bool repeated;
    } folders[PASSES_MOST];
};

/* The folder was read to its end. */
void passes_finish(struct passes *passes, const char *path, uint64_t epoch);
/* Whether it was. */
bool passes_are_finished(const struct passes *passes, const char *path, uint64_t epoch);
/* It is being read again. True the first time that this is said of it. */
bool passes_repeat(struct passes *passes, const char *path, uint64_t epoch);

#endif
