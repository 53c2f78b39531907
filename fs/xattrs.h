/* Extended attributes: where a sample's file comes from, and how long a rank is.
 *
 *   user.shufflefs.key, .shard, .sample, .offset, .label
 *                        on files of samples (offset: members only; label: where one is)
 *   user.shufflefs.samples, .epoch, .after
 *                        on a rank's folders, list and stream (after: where the epoch is resumed)
 *   user.shufflefs.samples, .epoch, .label
 *                        on a class's folder
 *
 * Any thread. */
#ifndef SHUFFLEFS_XATTRS_H
#define SHUFFLEFS_XATTRS_H

#include "view.h"

/* The value (no final NUL), allocated, and its length. On a fault *value is NULL: -ENODATA: there
 * is none of that name; -ENOMEM; -EFBIG (a class's samples: see shelf_take()). */
ssize_t xattrs_get(struct view *view, uint64_t inode, const char *name, char **value);

/* The names an inode has, each ended by a NUL: static. Returns the bytes of all. */
size_t xattrs_list(struct view *view, uint64_t inode, const char **list);

#endif
