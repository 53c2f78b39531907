/* The folder of unpacked shards: plain tars under names that say what they were made of, each with
 * a note of its size and checksum beside it. Private to core/.
 *
 *   NAME.tar    a copy. It gets this name when it is whole, so a process that is killed leaves none
 *   NAME.info   its size, checksum and time, and what was wrong with its original; named just
 * before
 *   *.part      one that grows. Its maker holds a lock on it: others wait for it while it grows,
 * and who meets one without a lock takes it over or sweeps it up pin-*       one a process that
 * uses copies: their names. Locked while the process lives lock        held for an instant by who
 * counts, pins, names or removes
 *
 * The folder may be shared, also by nodes: all locks are flock(2), which NFS carries to its server.
 * Where a file system has none, nothing is swept or removed, and two processes may each make the
 * same copy; the last one to name it stays. Whoever may write to the folder is trusted.
 *
 * Copies use at most a bound, in bytes; those that grow count as far as they have reserved. What
 * was not used for longest and is pinned by nobody goes first: by the time of last access, which is
 * set at each use whatever the mount options.
 *
 * Any thread. Nothing is reported but what a copy that is no longer right was. */
#ifndef SHUFFLEFS_COPIES_H
#define SHUFFLEFS_COPIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct copies;
struct copy; /* one that grows */

/* The longest NAME, with a NUL. */
#define COPIES_NAME 128

/* What a copy has to say of its original. */
struct copy_note {
    uint64_t bytes;  /* of the copy */
    uint64_t offset; /* of the fault in the original */
    char fault[160]; /* "": none */
};

/* Opens the folder, which is made where only it is missing. `most` bytes for copies; 0: half of
 * what they have and of what is free on the file system, so that as much is left to others as is
 * taken. Who waits for another process gives up when nothing happens for `patience_ms`. Sweeps up
 * what was left by processes that are gone. Returns 0 or a negative errno. */
int copies_open(struct copies **out, const char *path, uint64_t most, unsigned patience_ms);
/* Gives up its pins. NULL is fine. */
void copies_close(struct copies *copies);

const char *copies_path(const struct copies *copies);
uint64_t copies_most(const struct copies *copies);

/* The name of the copy of a file: from its path, size, time and inode, so that another state of it
 * has another name; `base` is what people shall recognise in it. */
void copies_name(char name[COPIES_NAME], const char *path, const char *base, uint64_t size,
                 const struct timespec *modified, ino_t inode);

/* Keeps `count` names, of copies that are there or will be, from being removed while this is open.
 * 0, or a negative errno: they may go. Before copies_find() and copies_begin(). */
int copies_pin(struct copies *copies, const char *const *names, size_t count);

/* True: there is a sound copy. Its size must be right, and its time; where the time is not (it was
 * copied, or written to), the whole of it is compared with its checksum. What is cut or changed is
 * warned of, once; copies_begin() makes it again. */
bool copies_find(struct copies *copies, const char *name, struct copy_note *note);

/* Begins a copy: 0; 1, there is one by now (as copies_find()); -EBUSY, another process makes it,
 * where `wait` is false; or a negative errno. Where that other process hangs, a second one is made
 * beside it. */
int copies_begin(struct copies *copies, const char *name, bool wait, struct copy **out,
                 struct copy_note *note);
/* Appends. 0; -EDQUOT, the bound is reached, and nothing may be removed; or a negative errno,
 * -ENOSPC where the file system is full in spite of what could be removed. */
int copy_write(struct copy *copy, const void *bytes, size_t size);
/* Bytes so far. */
uint64_t copy_size(const struct copy *copy);
/* Gives it its name, with the first `note->bytes` bytes of what was written and the time of its
 * original. 0 or a negative errno; it is gone then. */
int copy_end(struct copy *copy, const struct timespec *modified, const struct copy_note *note);
/* Takes it away. */
void copy_abandon(struct copy *copy);

#endif
