/* Reads the status of a mount, again and again, and never waits for the mount.
 *
 * Each snapshot is made by a child process: whoever asks a file system that hangs hangs with it,
 * and a thread that does keeps its process from ending. A child that never gets its answer is left
 * behind; it ends with its parent, or when the kernel lets it go.
 *
 * For one thread, in a process without others. Children are not waited for: asker_open() sets
 * SIGCHLD to be ignored. */
#ifndef SHUFFLEFS_ASKER_H
#define SHUFFLEFS_ASKER_H

#include <stddef.h>

struct asker;

/* `path` is of a mount or of anything in it; it is looked at by the first snapshot. 0, or a
 * negative errno. */
int asker_open(struct asker **out, const char *path);
void asker_close(struct asker *asker); /* NULL is fine */

/* Starts a snapshot; one that is under way goes on. 0, or a negative errno. */
int asker_ask(struct asker *asker);

/* Becomes readable when asker_take() has something to do; -1: no snapshot is under way. */
int asker_fd(const struct asker *asker);

/* 1: the snapshot is there, and `*text` belongs to the asker until the next asker_ask(). 0: not
 * yet. Or a negative errno, as which it failed: -ENODEV: the path is in no shufflefs mount. */
int asker_take(struct asker *asker, const char **text, size_t *size);

/* The mount's path, absolute; before the first snapshot is there, the path as it was given. */
const char *asker_mount(const struct asker *asker);

#endif
