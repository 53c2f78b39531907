/* Names in the kernel's cache: keeps one of each read member alive, and takes away those that a
 * switch left behind.
 *
 * The kernel drops a FUSE inode, and the pages of its file with it, when the last name that leads
 * to it goes. A switch of `current` takes away names; so each member that was read is given one
 * more, in the keeper's folder, which is never listed to anybody else, by listing that folder
 * through the mount itself. That costs about 3 us a member, on a thread of its own.
 *
 * A switch is answered when no path through `current` leads to the old folder any more. To take the
 * folder's names away costs 1 us each, and 4 us where the inode goes with it: too long to wait for.
 * So the folder is moved out of the way first: a LOOKUP of another path (an attic) that is answered
 * with the same folder makes the kernel move it there, names and all, in no time (d_splice_alias in
 * fs/dcache.c). The attic is then emptied by another thread, at leisure, after the names that are
 * worth keeping were kept. Where the kernel will not move it, the switch waits for the names.
 *
 * The threads reach the mount through a private detached clone of it (open_tree), made for each
 * walk and closed after it: so the mount point is never busy because of it, and `umount` ends the
 * mount. Where that is not allowed (no privilege, an old kernel), the mount point itself is opened,
 * and then only while a switch is answered.
 *
 * Notifications to the kernel wait for locks that the kernel holds while it waits for an answer of
 * ours: so they are sent from these threads alone, never from a handler. */
#ifndef SHUFFLEFS_NAMES_H
#define SHUFFLEFS_NAMES_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "view.h"

#include <stdbool.h>
#include <stdint.h>

struct names;

/* Starts the threads. `mountpoint` is absolute and copied. 0, -ENOMEM or -EAGAIN. */
int names_open(struct names **out, struct fuse_session *session, struct view *view,
               const char *mountpoint);

/* Ends the threads once what they do is done. Handlers must still run, for they may be waiting for
 * one. */
void names_stop(struct names *names);
/* After names_stop(), while the session still exists: what was asked for since is answered EIO.
 * NULL is fine. */
void names_close(struct names *names);

/* A member was read, or its bytes were pushed: give it a name. Returns whether it was before, and
 * the kernel had not dropped its inode since. Any thread, never waits. */
bool names_want(struct names *names, uint64_t member);
/* The same without wanting. */
bool names_has(const struct names *names, uint64_t member);

/* The mount's root for a walk, by way of a private clone: a descriptor that the caller closes soon,
 * or -1 where clones are not allowed. */
int names_open_root(struct names *names);

/* The kernel dropped a member's inode: a name that it had is gone. Any thread, never waits. */
void names_forget(struct names *names, uint64_t member);

/* The listing of the keeper's folder: the next member from `from` on that shall get a name; it is
 * then taken to have it. False: none. */
bool names_next(struct names *names, uint64_t from, uint64_t *member);

/* Answers `request` (a write of `size` bytes) once no path through `current` leads to what a switch
 * left behind. `left` is as view_move() made it, owned by this from here on; NULL: nothing to do
 * but answer. Never waits. */
void names_drop(struct names *names, fuse_req_t request, size_t size, struct view_left *left,
                size_t count);

/* Takes a member's pages out of the kernel's cache: something was stored in them. Any thread, never
 * waits. */
void names_invalidate(struct names *names, uint64_t inode);

#endif
