/* The inside of fs/view.h, for its two files: names and inodes (view.c), and what a switch leaves
 * behind (view_switch.c). */
#ifndef SHUFFLEFS_VIEW_STATE_H
#define SHUFFLEFS_VIEW_STATE_H

#include "view.h"

#include <pthread.h>

struct view {
    const struct dataset *dataset;
    struct epochs *epochs;
    view_text_maker *make_text;
    void *text_context;
    struct grammar grammar;
    struct classes *classes; /* NULL: there are no labels */
    uid_t uid;
    gid_t gid;
    struct timespec changed; /* of the newest shard: every file shows it */
    char keeper_name[32], attic_prefix[32];
    struct view_node *fixed[VIEW_KEEPER_INODE + 1];
    pthread_mutex_t
        lock;          /* guards the trees, next_inode, and each node's `lookups` and `detached` */
    void *by_inode;    /* tsearch of nodes */
    void *by_spelling; /* tsearch of nodes that are not detached and are no control files */
    uint64_t next_inode;
};

/* The order of `by_spelling`: of struct view_node, by parent and name. */
int view_compare_spellings(const void *a, const void *b);

#endif
