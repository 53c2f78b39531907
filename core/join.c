/* Puts harvests together into one index. Owns nothing for longer than a call; reads no shard. */
#include "join.h"

#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of all walks' fields, sorted, each once. Takes the strings' contents, not the
 * strings.
 */
static int join_fields(struct index *index, const struct harvest *harvests)
{
    size_t room = 0;

    for (size_t i = 0; i < index->shard_count; i++) {
        /* A walk's names differ from each other, so a new one is looked for among the earlier
         * shards' alone. */
        size_t sorted = index->field_count;
        for (size_t f = 0; f < harvests[i].field_count; f++) {
            const char *name = harvests[i].fields[f];
            if (sorted && bsearch(&name, index->fields, sorted, sizeof name, by_name))
                continue;
            if (harvest_grow(&index->fields, &room, index->field_count + 1, sizeof *index->fields))
                return -ENOMEM;
            index->fields[index->field_count] = strdup(name);
            if (!index->fields[index->field_count++])
                return -ENOMEM;
            if (strlen(name) > index->longest_field)
                index->longest_field = strlen(name);
        }
        if (index->field_count > sorted)
            qsort(index->fields, index->field_count, sizeof *index->fields, by_name);
    }
    if (index->field_count <= UINT16_MAX)
        return 0;
    report_error("the shards have %zu different extensions, more than %u; an extension is all that "
                 "follows the "
                 "first dot of a name",
                 index->field_count, UINT16_MAX);
    return -EOVERFLOW;
}

/* Appends shard `i`'s samples; its walk is freed as soon as it is copied, so that no more than one
 * copy lives long. */
static int join_shard(struct index *index, struct harvest *harvest, size_t i)
{
    uint16_t *numbers = malloc((harvest->field_count + 1) * sizeof *numbers);
    struct index_member *members = index->members + index->member_count;

    if (!numbers)
        return -ENOMEM;
    for (size_t f = 0; f < harvest->field_count; f++) {
        char **found = bsearch(&harvest->fields[f], index->fields, index->field_count,
                               sizeof *index->fields, by_name);
        numbers[f] = (uint16_t)(found - index->fields);
    }
    if (harvest->member_count)
        memcpy(members, harvest->members, harvest->member_count * sizeof *members);
    for (size_t m = 0; m < harvest->member_count; m++)
        members[m].field = numbers[members[m].field];
    free(numbers);
    index->shards[i].first_sample = index->sample_count;
    for (size_t s = 0; s < harvest->sample_count; s++) {
        size_t from = harvest->first[s];
        size_t to = s + 1 < harvest->sample_count ? harvest->first[s + 1] : harvest->member_count;
        index_sort_members(members + from, to - from);
        index->first[index->sample_count++] = (uint32_t)(index->member_count + from);
    }
    index->member_count += harvest->member_count;
    if (harvest->key_bytes)
        memcpy(index->keys + index->key_bytes, harvest->keys, harvest->key_bytes);
    index->key_bytes += harvest->key_bytes;
    index->bytes += harvest->bytes;
    for (int p = 0; p < INDEX_PROBLEM_KINDS; p++)
        index->problems[p] += harvest->problems[p];
    return 0;
}

static int allocate_tables(struct index *index, const struct harvest *harvests)
{
    uint64_t samples = 0, members = 0, keys = 0;
    size_t texts = 0;
    bool any_text = false;

    for (size_t i = 0; i < index->shard_count; i++) {
        samples += harvests[i].sample_count;
        members += harvests[i].member_count;
        keys += harvests[i].key_bytes;
        texts += harvests[i].any_text ? harvests[i].text_bytes : harvests[i].sample_count;
        any_text |= harvests[i].any_text;
    }
    if (members > INDEX_MEMBERS_MAX) {
        report_error("the shards have %llu members, more than %llu", (unsigned long long)members,
                     (unsigned long long)INDEX_MEMBERS_MAX);
        return -EOVERFLOW;
    }
    index->members = malloc(members * sizeof *index->members + 1);
    index->first = malloc((samples + 1) * sizeof *index->first);
    index->keys = malloc(keys + 1);
    index->key_marks = malloc((samples / INDEX_KEY_STEP + 1) * sizeof *index->key_marks);
    if (any_text)
        index->class_texts = malloc(texts + 1);
    if (!index->members || !index->first || !index->keys || !index->key_marks ||
        (any_text && !index->class_texts))
        return -ENOMEM;
    return 0;
}

/* Appends shard `i`'s class texts, where the data set has any; returns what bytes they take. */
static size_t join_texts(struct index *index, const struct harvest *harvest, size_t at)
{
    if (!index->class_texts)
        return 0;
    if (harvest->any_text)
        memcpy(index->class_texts + at, harvest->texts, harvest->text_bytes);
    else
        memset(index->class_texts + at, 0, harvest->sample_count);
    return harvest->any_text ? harvest->text_bytes : harvest->sample_count;
}

/* Where the things of the next shard start. */
static void mark_part(const struct index *index, size_t text_at, struct saved_shard *part)
{
    part->first_sample = index->sample_count;
    part->first_member = index->member_count;
    part->key_at = index->key_bytes;
    part->text_at = text_at;
}

int join_harvests(struct index *index, struct harvest *harvests, struct saved_shard *parts)
{
    size_t texts = 0;
    int fault = join_fields(index, harvests);

    if (!fault)
        fault = allocate_tables(index, harvests);
    for (size_t i = 0; !fault && i < index->shard_count; i++) {
        struct harvest *harvest = &harvests[i];
        mark_part(index, texts, &parts[i]);
        parts[i].bytes = harvest->bytes;
        memcpy(parts[i].problems, harvest->problems, sizeof parts[i].problems);
        fault = join_shard(index, harvest, i);
        if (!fault)
            texts += join_texts(index, harvest, texts);
        harvest_close(harvest);
        *harvest = (struct harvest){0};
    }
    if (fault)
        return fault;
    mark_part(index, texts, &parts[index->shard_count]);
    index->first[index->sample_count] = (uint32_t)index->member_count;
    index->shards[index->shard_count].first_sample = index->sample_count;
    index_mark_keys(index);
    return 0;
}
