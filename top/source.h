/* Reads the status of a mount, again and again, and never waits for the mount.
 *
 * Each reading is made by a child process: whoever asks a file system that hangs hangs with it, and
 * a thread that does keeps its process from ending. A child that never gets its answer is left
 * behind; it ends with its parent, or when the kernel lets it go.
 *
 * For one thread, in a process without others. Children are not waited for: source_open() sets
 * SIGCHLD to be ignored. */
#ifndef SHUFFLEFS_SOURCE_H
#define SHUFFLEFS_SOURCE_H

#include <stddef.h>

struct source;

/* `path` is of a mount or of anything in it; it is looked at by the first reading. 0, or a negative
 * errno. */
int source_open(struct source **out, const char *path);
void source_close(struct source *source); /* NULL is fine */

/* Starts a reading; one that is under way goes on. 0, or a negative errno. */
int source_ask(struct source *source);

/* Becomes readable when source_take() has something to do; -1: no reading is under way. */
int source_fd(const struct source *source);

/* 1: the reading is there, and `*text` belongs to the source until the next source_ask(). 0: not
 * yet. Or a negative errno, as which it failed: -ENODEV: the path is in no shufflefs mount. */
int source_take(struct source *source, const char **text, size_t *size);

/* The mount's path, absolute; before the first reading is there, the path as it was given. */
const char *source_mount(const struct source *source);

#endif
