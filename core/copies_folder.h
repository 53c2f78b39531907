/* The open folder of unpacked copies: what core/copies.c and core/copies_room.c share. Private to
 * them. */
#ifndef SHUFFLEFS_COPIES_FOLDER_H
#define SHUFFLEFS_COPIES_FOLDER_H

#include "copies.h"

#include <pthread.h>

#define COPIES_TAR ".tar"
/* The longest file name in the folder, with a NUL. */
#define COPIES_FILE 256

struct copies {
    char *path;
    int folder;
    int lock, pin;      /* descriptors; -1: none */
    char self[96];      /* this process among all on all nodes */
    char pin_file[128]; /* "": none */
    uint64_t most;
    uint64_t patience_ns;
    bool read_only;  /* what is there may be used, and nothing made */
    bool locks;      /* the file system has them */
    bool lock_hangs; /* who holds it does not let go: nobody waits again. Guarded by `mutex` */
    pthread_mutex_t
        mutex; /* with `lock`, which is the process's: over counting, pins, names, removing */
};

/* NAME and an ending. */
void copies_file(char file[COPIES_FILE], const char *name, const char *ending);

/* Before the next look at what somebody else is about to do. */
void copies_pause(void);

/* Whether the open file still has that name. */
bool copies_is_still(const struct copies *copies, int fd, const char *file);

/* Keeps all others, threads and processes, from the folder. False: of the threads alone, as there
 * are no locks or who holds this one hangs. */
bool copies_lock(struct copies *copies);
void copies_unlock(struct copies *copies, bool locked);

/* While locked: at least `need` and at most `want` bytes may be written; *got says how many.
 * Removes copies for that, where `locked`. 0, -EDQUOT, or a negative errno. */
int copies_make_room(struct copies *copies, uint64_t need, uint64_t want, bool locked,
                     uint64_t *got);
/* While locked: removes the copy that was not used for longest. False: none may be. */
bool copies_remove_one(struct copies *copies, bool locked);

#endif
