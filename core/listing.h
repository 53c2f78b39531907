/* DALI's index of a shard (`train-0.idx` beside `train-0.tar`), as a list of where members should
 * be. It is believed nothing: core/walk.c looks at each member's header there, and walks the shard
 * as ever where the list does not account for every byte.
 *
 * Source of the form: nvidia/dali, tools/wds2idx.py. Its offsets are wrong behind GNU long names
 * (made by `tar --block-number`), and older versions have no names. Private to core/. One thread a
 * listing; it starts as {0}. */
#ifndef SHUFFLEFS_LISTING_H
#define SHUFFLEFS_LISTING_H

#include <stddef.h>
#include <stdint.h>

struct listing_member {
    uint64_t offset, size; /* of its data */
    const char *name;      /* as stored */
};

struct listing {
    struct listing_member *members; /* by offset */
    size_t count;
    char *text; /* what the names stand in */
};

/* Where the index of `shard` stands, allocated: `train-0.idx` beside `train-0.tar`; other names get
 * the ending besides their own. NULL: no memory. */
char *listing_path(const char *shard);

/* Reads the index beside `shard`. Returns 1; 0: there is none that says where members are, with
 * their names, or -ENOMEM. */
int listing_read(struct listing *listing, const char *shard);

/* The same from `size` bytes of text, allocated, which belong to the listing from now on and have
 * one byte of room behind. For listing_read() and for tests. */
int listing_parse(struct listing *listing, char *text, size_t size);

void listing_close(struct listing *listing);

#endif
