/* Where the user's caches stand, and the reading of them: what can be made again, and is kept to
 * save the time. */
#ifndef SHUFFLEFS_CACHE_H
#define SHUFFLEFS_CACHE_H

#include <stddef.h>

/* The folder `name` within this program's own: $XDG_CACHE_HOME/shufflefs, else ~/.cache/shufflefs,
 * else, for root, /var/cache/shufflefs (the XDG Base Directory Specification; an XDG_CACHE_HOME
 * that is not absolute counts as unset). It and what it stands in are made, for the user alone,
 * where they are missing. `*path` is the caller's to free. Returns 0 or a negative errno, not
 * reported; -ENOENT: no variable says where, and the user is not root. `*path` then names what
 * could not be made, or is NULL. Any thread, as long as none changes the environment. */
int cache_folder(const char *name, char **path);

/* Reads exactly `bytes` of a file from byte `from` on. 0, -EBADMSG where the file ends early, or
 * another negative errno. Any thread. */
int cache_read(int fd, void *to, size_t bytes, size_t from);

#endif
