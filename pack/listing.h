/* What is to be packed: members, grouped into samples, in the order they are written when nothing
 * shuffles them. Made once from a folder or from shards, then read-only: any thread may read it. */
#ifndef SHUFFLEFS_PACK_LISTING_H
#define SHUFFLEFS_PACK_LISTING_H

#include "../core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A member's name in the tar is KEY.FIELD: the key as core/index.h has it, the field in lower case.
 */
struct pack_member {
    const char *key; /* `key_length` bytes, no NUL; the listing's, the index's, or in `path` */
    size_t key_length;
    const char *field; /* the listing's (pack_listing_field()) */
    char *path;        /* of a file, relative to SRC; owned by the listing; else NULL */
    uint64_t number;   /* of the index; of a made label: its value, an int64_t */
    uint64_t sequence; /* of the sample in its source, where one key may stand twice; else 0 */
    uint64_t size;     /* bytes */
    int64_t seconds;   /* modification time */
    int32_t nanoseconds;
    bool made; /* a label: its bytes are the number's digits */
};

struct pack_listing {
    struct pack_member *members;
    size_t count, room;
    uint64_t *first; /* sample -> its first member; first[samples] = count */
    uint64_t samples;
    uint64_t bytes;   /* of all members */
    void *fields;     /* names met so far: a tree of tsearch(3) */
    bool name_all;    /* every file that is left out has a line; else the first few */
    unsigned refused; /* faults that were reported and end it */
    uint64_t left_out[INDEX_PROBLEM_KINDS];
};

void pack_listing_close(struct pack_listing *listing); /* which starts as {0} */

/* The listing's own copy of a field's name, in lower case. NULL: no memory. */
const char *pack_listing_field(struct pack_listing *listing, const char *name);

/* Appends; on success `member->path` is the listing's. 0 or -ENOMEM. */
int pack_listing_add(struct pack_listing *listing, const struct pack_member *member);

/* A file that can be no sample's: counted, and named in a warning. */
void pack_listing_leave_out(struct pack_listing *listing, enum index_problem problem,
                            const char *name);

/* Room for one more line of many alike? After some, one line says that more are not named. */
bool pack_listing_may_name(const struct pack_listing *listing, uint64_t before);

/* Sorts by key, then field, in byte order (`keep_order`: samples in their own sequence) and groups.
 * A key that two samples have, and a name that two members have, are reported and end it. May be
 * called again after more members were added. 0, -ENOMEM, or -EEXIST. */
int pack_listing_settle(struct pack_listing *listing, bool keep_order);

/* What a field becomes when PNGs are converted: "png" at its end is then "jpg". Writes at most
 * INDEX_FIELD_MAX bytes and a NUL. */
void pack_listing_converted(const char *field, char *converted);

/* Would conversion give two members of a sample one name? Reported; 0 or -EEXIST. */
int pack_listing_check_converted(const struct pack_listing *listing);

#endif
