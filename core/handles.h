/* A bounded set of open shards: two descriptors of each, through the page cache and around it,
 * which are always the same file. Private to core/. Any thread. */
#ifndef SHUFFLEFS_HANDLES_H
#define SHUFFLEFS_HANDLES_H

#include "index.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Enough around the page cache on any storage that has it. */
#define HANDLES_ALIGN_MOST 4096

struct handles;

/* An open file. It does not change but for what says so. */
struct handle {
    int fd;
    dev_t device;
    ino_t inode;
    /* Around the page cache: what offsets, lengths and memory are multiples of, at the least. */
    unsigned align;
    unsigned users; /* reads under way. Guarded by handles.lock */
    bool kept;      /* its slot has it; else its last user closes it. Guarded by handles.lock */
};

/* Raises the soft limit of open files to the hard one, and keeps at most that many open, less some
 * for everybody else, or `most_open` when that is not 0. `index` outlives it. 0 or -ENOMEM. */
int handles_open(struct handles **out, const struct index *index, size_t most_open);
void handles_close(struct handles *handles); /* NULL is fine; none may be in use */

/* A handle of shard number `shard`, through the page cache, good until handles_release(). *fresh:
 * it was opened for this. 0 or a negative errno. */
int handles_take(struct handles *handles, size_t shard, struct handle **out, bool *fresh);

/* One around the page cache, of the very file that `through` has open, whatever has its name by
 * now: a sample must not come from two files. -EINVAL: its file system has no O_DIRECT. */
int handles_take_around(struct handles *handles, size_t shard, const struct handle *through,
                        struct handle **out);

/* A handle that showed a fault is used no more, so that the next read opens the path again, also
 * while others still read by this one: the shard may have been put back, or its file system mounted
 * anew. */
void handles_release(struct handles *handles, size_t shard, struct handle *handle, bool faulty);

#endif
