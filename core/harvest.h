/* What the walk over one shard gathers: samples, their members, keys, fields and labels' texts, in
 * arrays that grow. Private to core/. One thread a harvest; it starts as {0}. */
#ifndef SHUFFLEFS_HARVEST_H
#define SHUFFLEFS_HARVEST_H

#include "record.h"

#include <stdbool.h>
#include <stddef.h>

#define HARVEST_FIELDS_MAX UINT16_MAX
#define HARVEST_TEXT_MAX   255

/* What one shard holds; members' `field` counts in the harvest's own `fields`, in the order they
 * were met. */
struct harvest {
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
    bool unsorted;       /* a key is less than the one before it */
    bool any_text;       /* a sample had a cls text: then `texts` holds one for each */
    size_t key_at;       /* where the current sample's key stands in `keys` */
    char text[HARVEST_TEXT_MAX + 1]; /* the current sample's cls */
    char *first_problem; /* a line about the first problem worth a warning; NULL: none */
};

/* A field of the sample `key` was met: begins that sample unless it is the current one, and gives
 * the field's number. Returns 1; 0 when the sample has that field already; -EOVERFLOW: too many
 * fields; -ENOMEM. */
int harvest_field(struct harvest *harvest, const char *key, const char *field, uint16_t *number);

/* Adds a member to the current sample. 0, -EOVERFLOW: too many, or -ENOMEM. */
int harvest_member(struct harvest *harvest, const struct index_member *member);

/* The current sample ends, as its shard does. 0 or -ENOMEM. */
int harvest_end(struct harvest *harvest);

/* Tells of each sample whose key an earlier one has, by its number and key; of sorted keys there is
 * none, and nothing is looked at. 0 or -ENOMEM. */
int harvest_find_split(const struct harvest *harvest,
                       void (*tell)(void *context, size_t sample, const char *key), void *context);

/* Forgets what was gathered, but keeps its memory. */
void harvest_clear(struct harvest *harvest);

/* Moves what `scratch` gathered to `result`, in arrays of just the size, and empties `scratch` but
 * for its memory, for the next shard: to grow arrays anew for each one costs as much as the walk. 0
 * or -ENOMEM; then both still have to be closed. */
int harvest_take(struct harvest *result, struct harvest *scratch);

void harvest_close(struct harvest *harvest);

/* A copy of `bytes` bytes, of just the size, at *`to`. 0 or -ENOMEM. */
int harvest_copy(void *to, const void *from, size_t bytes);

/* Makes room for `need` elements of `size` bytes at *`array`, at least doubling. 0 or -ENOMEM. */
int harvest_grow(void *array, size_t *room, size_t need, size_t size);

#endif
