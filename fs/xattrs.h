/* Extended attributes: where a sample's file comes from, and how long a rank is.
 *
 *   user.shufflefs.key, .shard, .offset, .label, .sample    on files of samples (offset: members
 * only; label: where one is) user.shufflefs.samples, .epoch                          on a rank's
 * folders and lists
 *
 * Any thread. */
#ifndef SHUFFLEFS_XATTRS_H
#define SHUFFLEFS_XATTRS_H

#include "view.h"

/* The value (no final NUL), allocated, and its length; -ENODATA: there is none of that name;
 * -ENOMEM. */
ssize_t xattrs_get(struct view *view, uint64_t inode, const char *name, char **value);

/* The names an inode has, each ended by a NUL: static. Returns the bytes of all. */
size_t xattrs_list(struct view *view, uint64_t inode, const char **list);

#endif
