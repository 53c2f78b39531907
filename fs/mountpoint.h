/* The place to mount at: what is there now, and whether one may mount. One thread. */
#ifndef SHUFFLEFS_MOUNTPOINT_H
#define SHUFFLEFS_MOUNTPOINT_H

#include <stdbool.h>
#include <sys/stat.h>

/* Resolves `path` to an absolute one (allocated in *absolute) and sees to it that it is an empty
 * folder on which this user may mount. A dead shufflefs mount there (its daemon was killed) is
 * taken away first. 0, or a negative errno, reported: it is missing, no folder, not empty, a live
 * mount, somebody else's dead one; or there is no /dev/fuse, or no right. */
int mountpoint_prepare(const char *path, char **absolute);

/* Whether `path`, absolute, lies in the mount point (as mountpoint_prepare() gave it), or will when
 * it is made: a mount there hides it. */
bool mountpoint_hides(const char *mountpoint, const char *path);

/* Ends the connection of a shufflefs mount at `path` whose daemon is gone, so that nobody waits for
 * answers; if nobody uses it, it is unmounted too. Needs privilege; silent without. */
void mountpoint_force(const char *path);

/* Lets the kernel read ahead up to `kilobytes` in files of the mount with this stat; its default of
 * 128 costs a round trip each. Needs privilege; silent without, for the mount works all the same.
 */
void mountpoint_read_ahead(const struct stat *root, unsigned kilobytes);

#endif
