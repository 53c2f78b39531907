/* A mount's view of a test's shards, without a kernel. */
#ifndef SHUFFLEFS_UNIT_VIEWED_H
#define SHUFFLEFS_UNIT_VIEWED_H

#include "opened.h"

#include "../../fs/control.h"
#include "../../fs/view.h"

#include <stdint.h>

struct viewed {
    struct opened data;
    struct epochs *epochs;
    struct view *view;
    struct reader *reader;
    struct serve serve;
    struct control control;
};

/* Opens the view of what is in the folder of `viewed->data`, which opened_begin() began. */
void viewed_open(struct viewed *viewed, const char *options);
void viewed_end(struct viewed *viewed);

/* Follows a path from the root; its inode, or 0 where a name is not there. */
uint64_t viewed_walk(const struct viewed *viewed, const char *path);

#endif
