/* One pass of libarchive over one tar: what index_open() runs for each shard, several at once.
 * Private to core/.
 *
 * The walk reads headers, and the bytes of `cls` members; it skips everything else by position. It
 * follows the rules of core/index.h for keys, fields and problems. One thread a walk. */
#ifndef SHUFFLEFS_WALK_H
#define SHUFFLEFS_WALK_H

#include "index.h"

#include <stdbool.h>

/* What one shard holds; members' `field` counts in the walk's own `fields`, in the order they were
 * met. */
struct walk {
    struct index_member *members; /* in archive order */
    size_t member_count, member_room;
    uint32_t *first; /* sample -> its first member, within this shard */
    size_t sample_count, first_room;
    char *keys; /* one a sample, a NUL after each */
    size_t key_bytes, key_room;
    char *texts; /* text of the cls member or "", one a sample; none unless any_text */
    size_t text_bytes, text_room;
    char **fields;
    size_t field_count, field_room;
    void *field_tree; /* tsearch over `fields` */
    uint64_t bytes;
    uint64_t problems[INDEX_PROBLEM_KINDS];
    uint16_t last_field; /* of the member before: the next one's is looked for behind it first */
    bool any_text;       /* a sample had a cls text: then `texts` holds one for each */
    char *first_problem; /* a line about the first problem worth a warning; NULL: none */
};

/* Walks `shard->path`; fills `walk` (which starts as {0}, or was emptied) and the rest of `shard`:
 * size, times, hash, complaint. Returns 0 (whatever the tar is like: problems are in `walk`), or a
 * negative errno, reported: cannot be opened, read, or too much of something. */
int walk_shard(struct walk *walk, struct index_shard *shard);
void walk_close(struct walk *walk);

/* Moves what `scratch` found to `result`, in arrays of just the size, and empties `scratch` but for
 * its memory, for the next shard: to grow arrays anew for each one costs as much as the walk. 0 or
 * -ENOMEM; then both still have to be closed. */
int walk_take(struct walk *result, struct walk *scratch);

/* Makes room for `need` elements of `size` bytes at *`array`, at least doubling. 0 or -ENOMEM. */
int walk_grow(void *array, size_t *room, size_t need, size_t size);

#endif
