/* What a READ is answered with: a member's bytes, a made label, a list, a stream, a control file's
 * frozen text. Notes what was read, for the read-ahead and the status. Any thread. */
#ifndef SHUFFLEFS_ANSWER_H
#define SHUFFLEFS_ANSWER_H

#include "serve.h"

#include <sys/types.h>

/* Lists and streams are worked out before they are used: their size is part of what stat shows. 0
 * or -ENOMEM. */
int answer_prepare(struct serve *serve, struct view_node *node);

/* Up to `size` bytes of an inode, from byte `from` on. Returns how many, less than `size` only at
 * its end; or a negative errno. */
ssize_t answer_read(struct serve *serve, uint64_t inode, char *buffer, size_t size, uint64_t from);

#endif
