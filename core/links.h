/* What hard links point at: names of a shard's members so far, and where their bytes stand. Private
 * to core/.
 *
 * Only shards that have hard links need it, and only while they are walked: it takes about 50 bytes
 * a member. Names are kept as 128-bit hashes. One thread a table; it starts as {0}. */
#ifndef SHUFFLEFS_LINKS_H
#define SHUFFLEFS_LINKS_H

#include "record.h"

#include <stdbool.h>
#include <stddef.h>

struct link_target;

struct links {
    struct link_target *targets; /* by hash, open addressing; a power of two */
    size_t room, count;
    char *scratch; /* a name without its odd components */
    size_t scratch_room;
};

/* Puts down that `name` now stands for these bytes; NULL: for none that can be read. A name that
 * was put down before stands for the new ones from now on, as when tars are unpacked. Names are
 * alike that differ in `./`, `//`, `..` and a leading `/` alone, as keys are. 0 or -ENOMEM. */
int links_put(struct links *links, const char *name, const struct index_member *bytes);

/* Gives what `name` stands for: offset, header and size. Returns 1; 0: nothing; or -ENOMEM. */
int links_find(struct links *links, const char *name, struct index_member *bytes);

void links_close(struct links *links);

#endif
