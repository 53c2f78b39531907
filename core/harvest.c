/* What the walk over one shard gathers. Owns the arrays; never reads a shard. */
#include "harvest.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

int harvest_grow(void *array, size_t *room, size_t need, size_t size)
{
    void **at = array;
    size_t wanted = *room ? *room * 2 : 64;
    void *larger;

    if (need <= *room)
        return 0;
    if (wanted < need)
        wanted = need;
    larger = reallocarray(*at, wanted, size);
    if (!larger)
        return -ENOMEM;
    *at = larger;
    *room = wanted;
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* The harvest's number of the field `name`. tsearch keeps a pointer into `fields`' strings; the
 * number stands behind the string's end, so that one allocation serves both. */
static int field_number(struct harvest *harvest, const char *name, uint16_t *number)
{
    size_t length = strlen(name);
    void **found;
    char *copy;

    /* Samples are alike: after `jpg` mostly comes the `cls` that came after it before. */
    for (size_t i = 0; i < 2 && i < harvest->field_count; i++) {
        *number = (uint16_t)((harvest->last_field + 1 + i) % harvest->field_count);
        if (strcmp(harvest->fields[*number], name) == 0)
            return 0;
    }
    found = tfind(name, &harvest->field_tree, by_text);
    if (found) {
        copy = *found;
        memcpy(number, copy + strlen(copy) + 1, sizeof *number);
        return 0;
    }
    if (harvest->field_count == HARVEST_FIELDS_MAX)
        return -EOVERFLOW;
    if (harvest_grow(&harvest->fields, &harvest->field_room, harvest->field_count + 1,
                     sizeof *harvest->fields))
        return -ENOMEM;
    copy = malloc(length + 1 + sizeof *number);
    if (!copy)
        return -ENOMEM;
    *number = (uint16_t)harvest->field_count;
    memcpy(copy, name, length + 1);
    memcpy(copy + length + 1, number, sizeof *number);
    if (!tsearch(copy, &harvest->field_tree, by_text)) {
        free(copy);
        return -ENOMEM;
    }
    harvest->fields[harvest->field_count++] = copy;
    return 0;
}

static int append_text(struct harvest *harvest, const char *text)
{
    size_t length = strlen(text) + 1;

    if (harvest_grow(&harvest->texts, &harvest->text_room, harvest->text_bytes + length, 1))
        return -ENOMEM;
    /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): harvest_grow() made room */
    memcpy(harvest->texts + harvest->text_bytes, text, length);
    harvest->text_bytes += length;
    return 0;
}

/* Puts down the cls text of the sample that ends here. Nothing is kept until a shard's first text
 * is met: then the samples before it get theirs, all empty. */
int harvest_end(struct harvest *harvest)
{
    int fault = 0;

    if (harvest->sample_count == 0)
        return 0;
    if (!harvest->any_text && harvest->text[0]) {
        harvest->any_text = true;
        for (size_t i = 0; !fault && i + 1 < harvest->sample_count; i++)
            fault = append_text(harvest, "");
    }
    if (!fault && harvest->any_text)
        fault = append_text(harvest, harvest->text);
    harvest->text[0] = '\0';
    return fault;
}

static int begin_sample(struct harvest *harvest, const char *key)
{
    size_t length = strlen(key) + 1;
    int fault = harvest_end(harvest);

    if (fault)
        return fault;
    if (harvest->sample_count && strcmp(key, harvest->keys + harvest->key_at) < 0)
        harvest->unsorted = true;
    if (harvest_grow(&harvest->first, &harvest->first_room, harvest->sample_count + 1,
                     sizeof *harvest->first) ||
        harvest_grow(&harvest->keys, &harvest->key_room, harvest->key_bytes + length, 1))
        return -ENOMEM;
    harvest->first[harvest->sample_count++] = (uint32_t)harvest->member_count;
    memcpy(harvest->keys + harvest->key_bytes, key, length);
    harvest->key_at = harvest->key_bytes;
    harvest->key_bytes += length;
    return 0;
}

/* Enters a hash; whether it was there. The table is of a power of two, and never full. */
static bool enter(uint64_t *table, size_t size, uint64_t hash)
{
    size_t at = hash & (size - 1);

    while (table[at] && table[at] != hash)
        at = (at + 1) & (size - 1);
    if (table[at])
        return true;
    table[at] = hash;
    return false;
}

/* 63 bits of a hash stand for a key: in one of 180,000 shards of 10 million samples, two are the
 * same by chance, and one remark is wrong. */
int harvest_find_split(const struct harvest *harvest,
                       void (*tell)(void *context, size_t sample, const char *key), void *context)
{
    const char *key = harvest->keys;
    size_t size = 2;
    uint64_t *table;

    if (!harvest->unsorted)
        return 0;
    while (size < 2 * harvest->sample_count)
        size *= 2;
    table = calloc(size, sizeof *table);
    if (!table)
        return -ENOMEM;
    for (size_t i = 0; i < harvest->sample_count; i++) {
        size_t length = strlen(key);
        if (enter(table, size, XXH3_64bits(key, length) | 1))
            tell(context, i, key);
        key += length + 1;
    }
    free(table);
    return 0;
}

static bool field_is_here(const struct harvest *harvest, uint16_t field)
{
    for (size_t i = harvest->first[harvest->sample_count - 1]; i < harvest->member_count; i++)
        if (harvest->members[i].field == field)
            return true;
    return false;
}

int harvest_field(struct harvest *harvest, const char *key, const char *field, uint16_t *number)
{
    int fault = 0;

    if (harvest->sample_count == 0 || strcmp(harvest->keys + harvest->key_at, key) != 0)
        fault = begin_sample(harvest, key);
    if (!fault)
        fault = field_number(harvest, field, number);
    if (fault)
        return fault;
    harvest->last_field = *number;
    return !field_is_here(harvest, *number);
}

int harvest_member(struct harvest *harvest, const struct index_member *member)
{
    if (harvest->member_count == INDEX_MEMBERS_MAX)
        return -EOVERFLOW;
    if (harvest_grow(&harvest->members, &harvest->member_room, harvest->member_count + 1,
                     sizeof *harvest->members))
        return -ENOMEM;
    harvest->members[harvest->member_count++] = *member;
    harvest->bytes += member->size;
    return 0;
}

static void leave_alone(void *node)
{
    (void)node;
}

int harvest_copy(void *to, const void *from, size_t bytes)
{
    void **array = to;

    *array = malloc(bytes + 1);
    if (!*array)
        return -ENOMEM;
    if (bytes)
        memcpy(*array, from, bytes);
    return 0;
}

/* Empty, with the arrays of `harvest`. */
static struct harvest emptied(const struct harvest *harvest)
{
    return (struct harvest){
        .members = harvest->members,
        .member_room = harvest->member_room,
        .first = harvest->first,
        .first_room = harvest->first_room,
        .keys = harvest->keys,
        .key_room = harvest->key_room,
        .texts = harvest->texts,
        .text_room = harvest->text_room,
    };
}

static void free_fields(struct harvest *harvest)
{
    tdestroy(harvest->field_tree, leave_alone);
    for (size_t i = 0; i < harvest->field_count; i++)
        free(harvest->fields[i]);
    free(harvest->fields);
}

void harvest_clear(struct harvest *harvest)
{
    free_fields(harvest);
    free(harvest->first_problem);
    *harvest = emptied(harvest);
}

int harvest_take(struct harvest *result, struct harvest *scratch)
{
    struct harvest kept = emptied(scratch);

    *result = *scratch;
    *scratch = kept;
    result->members = NULL;
    result->first = NULL;
    result->keys = NULL;
    result->texts = NULL;
    if (harvest_copy(&result->members, kept.members, result->member_count * sizeof *kept.members) ||
        harvest_copy(&result->first, kept.first, result->sample_count * sizeof *kept.first) ||
        harvest_copy(&result->keys, kept.keys, result->key_bytes) ||
        harvest_copy(&result->texts, kept.texts, result->text_bytes))
        return -ENOMEM;
    return 0;
}

void harvest_close(struct harvest *harvest)
{
    free_fields(harvest);
    free(harvest->members);
    free(harvest->first);
    free(harvest->keys);
    free(harvest->texts);
    free(harvest->first_problem);
}
