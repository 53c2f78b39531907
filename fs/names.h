/* Names in the kernel's cache: keeps one of each read member alive, and takes away those that a
 * switch left behind.
 *
 * The kernel drops a FUSE inode, and the pages of its file with it, when the last name that leads
 * to it goes. A switch of `current` takes away names; so each member that was read is given one
 * more, in a folder that is never listed to anybody else (the keeper's folder), by listing that
 * folder through the mount itself. That costs about 3 us a member, on a thread of its own, and no
 * request waits for it but the write that switches.
 *
 * The thread reaches the mount through a private detached clone of it (open_tree), made for each
 * walk and closed after it: so the mount point is never busy because of it, and `umount` ends the
 * mount. Where that is not allowed (no privilege, an old kernel), it opens the mount point itself,
 * and then only while a switch is answered.
 *
 * Notifications to the kernel wait for locks that the kernel holds while it waits for an answer of
 * ours: so they are sent from this thread alone, never from a handler. */
#ifndef SHUFFLEFS_NAMES_H
#define SHUFFLEFS_NAMES_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "view.h"

#include <stdbool.h>
#include <stdint.h>

struct names;

/* Starts the thread. `mountpoint` is absolute and copied; `members` of the data set. 0, -ENOMEM or
 * -EAGAIN. */
int names_open(struct names **out, struct fuse_session *session, struct view *view,
               const char *mountpoint);

/* Ends the thread once what it does is done. Handlers must still run, for it may be waiting for
 * one. */
void names_stop(struct names *names);
/* After names_stop(), while the session still exists: what was asked for since is answered EIO.
 * NULL is fine. */
void names_close(struct names *names);

/* A member was read: give it a name. Any thread, never waits. */
void names_want(struct names *names, uint64_t member);

/* The kernel dropped a member's inode: a name that it had is gone. Any thread, never waits. */
void names_forget(struct names *names, uint64_t member);

/* The listing of the keeper's folder: the next member from `from` on that shall get a name; it is
 * then taken to have it. False: none. */
bool names_next(struct names *names, uint64_t from, uint64_t *member);

/* Answers `request` (a write of `size` bytes) once the kernel has dropped the dentries
 * `folder`/NAME for all of `name_list` (as view_move() made it; owned by this from here on, NULL:
 * none to drop). */
void names_drop(struct names *names, fuse_req_t request, size_t size, uint64_t folder,
                char *name_list, size_t name_bytes);

/* Takes a member's pages out of the kernel's cache: something was stored in them. Any thread, never
 * waits. */
void names_invalidate(struct names *names, uint64_t inode);

#endif
