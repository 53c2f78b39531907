/* The tables of an index, and how they are looked through. Owns them; never reads a shard. */
#include "index.h"

#include "saved.h"

#include <stdlib.h>
#include <string.h>

static int by_field(const void *a, const void *b)
{
    return (int)((const struct index_member *)a)->field -
           (int)((const struct index_member *)b)->field;
}

void index_sort_members(struct index_member *members, size_t count)
{
    if (count > 1)
        qsort(members, count, sizeof *members, by_field);
}

void index_mark_keys(struct index *index)
{
    const char *key = index->keys;

    for (uint64_t s = 0; s < index->sample_count; s++, key += strlen(key) + 1)
        if (s % INDEX_KEY_STEP == 0)
            index->key_marks[s / INDEX_KEY_STEP] = (uint64_t)(key - index->keys);
}

void index_drop_texts(struct index *index)
{
    if (!index->saved || index->class_texts != index->saved->texts)
        free(index->class_texts);
    index->class_texts = NULL;
}

void index_close(struct index *index)
{
    if (!index)
        return;
    for (size_t i = 0; index->shards && i < index->shard_count; i++) {
        free(index->shards[i].path);
        free(index->shards[i].file);
        free(index->shards[i].complaint);
    }
    for (size_t f = 0; f < index->field_count; f++)
        free(index->fields[f]);
    index_drop_texts(index);
    if (!index->saved) {
        free(index->members);
        free(index->first);
        free(index->keys);
    }
    saved_close(index->saved);
    free(index->shards);
    free(index->fields);
    free(index->key_marks);
    free(index->place);
    free(index);
}

const char *index_key(const struct index *index, uint64_t sample)
{
    const char *key = index->keys + index->key_marks[sample / INDEX_KEY_STEP];

    for (uint64_t skip = sample % INDEX_KEY_STEP; skip; skip--)
        key += strlen(key) + 1;
    return key;
}

/* Binary search: the last sample whose first member is not past this one. */
uint64_t index_sample_of(const struct index *index, uint64_t member)
{
    uint64_t low = 0, high = index->sample_count;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (index->first[middle] <= member)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Shards without samples share their first_sample with the next one: the last of them is the one
 * that has it. */
size_t index_shard_of(const struct index *index, uint64_t sample)
{
    size_t low = 0, high = index->shard_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (index->shards[middle].first_sample <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

size_t index_shard_of_member(const struct index *index, uint64_t member)
{
    size_t low = 0, high = index->shard_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (index->first[index->shards[middle].first_sample] <= member)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int64_t index_find_field(const struct index *index, uint64_t sample, const char *name,
                         size_t length)
{
    for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++) {
        const char *field = index->fields[index->members[m].field];
        if (strncmp(field, name, length) == 0 && field[length] == '\0')
            return (int64_t)m;
    }
    return -1;
}
