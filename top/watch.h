/* Watches a mount: reads its status again and again, and shows what came of it. */
#ifndef SHUFFLEFS_WATCH_H
#define SHUFFLEFS_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct watch {
    const char *path;  /* the mount, or anything in it */
    double interval_s; /* between snapshots; 0, with a count of 1: one snapshot, no rates */
    uint64_t count;    /* reports; 0: until the mount or the user ends it */
    bool json;         /* one object a line */
    bool screen;       /* takes the terminal; else reports come one below the other */
    bool keys;         /* somebody can press them: standard input and output are terminals */
    bool utf8;         /* the output takes it */
};

/* Watches until the count is reached, `q` is pressed, a signal comes, or the mount is gone; a fault
 * is reported. 0; a negative errno; or the number of the signal, which the caller should end by:
 * the terminal is restored by then. For the main thread; sets handlers for signals and leaves
 * them. */
int watch_run(const struct watch *watch);

#endif
