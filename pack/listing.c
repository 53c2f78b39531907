/* The list of what is to be packed. Owns paths, field names and the order; never opens a file. */
#include "listing.h"

#include "../core/report.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMED_MOST 20 /* lines of one kind */

void pack_listing_close(struct pack_listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->members[i].path);
    free(listing->members);
    free(listing->first);
    tdestroy(listing->fields, free);
    *listing = (struct pack_listing){0};
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

const char *pack_listing_field(struct pack_listing *listing, const char *name)
{
    char *lower = strdup(name);
    void **found;

    if (!lower)
        return NULL;
    for (char *c = lower; *c; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + ('a' - 'A') : *c);
    found = tsearch(lower, &listing->fields, by_text);
    if (!found || *found != lower)
        free(lower);
    return found ? *found : NULL;
}

int pack_listing_add(struct pack_listing *listing, const struct pack_member *member)
{
    if (listing->count == listing->room) {
        size_t room = listing->room ? listing->room * 2 : 1024;
        struct pack_member *larger = reallocarray(listing->members, room, sizeof *larger);
        if (!larger)
            return -ENOMEM;
        listing->members = larger;
        listing->room = room;
    }
    listing->members[listing->count++] = *member;
    listing->bytes += member->size;
    return 0;
}

bool pack_listing_may_name(const struct pack_listing *listing, uint64_t before)
{
    if (listing->name_all || before < NAMED_MOST)
        return true;
    if (before == NAMED_MOST)
        report_warning("and more of these, counted but not named (--verbose names them)");
    return false;
}

void pack_listing_leave_out(struct pack_listing *listing, enum index_problem problem,
                            const char *name)
{
    if (pack_listing_may_name(listing, listing->left_out[problem]++))
        report_warning("left out: %s: %s", name, index_problem_name(problem));
}

static int compare_keys(const struct pack_member *a, const struct pack_member *b)
{
    size_t shorter = a->key_length < b->key_length ? a->key_length : b->key_length;
    int order = memcmp(a->key, b->key, shorter);

    if (order)
        return order;
    return (a->key_length > b->key_length) - (a->key_length < b->key_length);
}

static int by_sequence(const void *first, const void *second)
{
    const struct pack_member *a = first, *b = second;

    if (a->sequence != b->sequence)
        return a->sequence < b->sequence ? -1 : 1;
    return strcmp(a->field, b->field);
}

static int by_key(const void *first, const void *second)
{
    int order = compare_keys(first, second);
    return order ? order : by_sequence(first, second);
}

static const char *path_of(const struct pack_member *member)
{
    return member->path ? member->path : "in a shard";
}

/* Members are sorted by key: those that are alike stand side by side. */
static void refuse_twins(struct pack_listing *listing)
{
    for (size_t i = 1; i < listing->count; i++) {
        const struct pack_member *a = &listing->members[i - 1], *b = a + 1;
        if (compare_keys(a, b) != 0)
            continue;
        if (a->sequence == b->sequence && strcmp(a->field, b->field) != 0)
            continue;
        if (!pack_listing_may_name(listing, listing->refused++))
            continue;
        if (a->sequence != b->sequence)
            report_error("two samples have the key '%.*s' (numbers %llu and %llu of the shards)",
                         (int)a->key_length, a->key, (unsigned long long)a->sequence,
                         (unsigned long long)b->sequence);
        else
            report_error("two members would be '%.*s.%s': %s and %s", (int)a->key_length, a->key,
                         a->field, path_of(a), path_of(b));
    }
}

int pack_listing_settle(struct pack_listing *listing, bool keep_order)
{
    if (!listing->count)
        return 0;
    qsort(listing->members, listing->count, sizeof *listing->members, by_key);
    refuse_twins(listing);
    if (listing->refused)
        return -EEXIST;
    if (keep_order)
        qsort(listing->members, listing->count, sizeof *listing->members, by_sequence);
    free(listing->first);
    listing->first = malloc((listing->count + 1) * sizeof *listing->first);
    if (!listing->first)
        return -ENOMEM;
    listing->samples = 0;
    for (size_t i = 0; i < listing->count; i++)
        if (i == 0 || compare_keys(&listing->members[i - 1], &listing->members[i]) != 0)
            listing->first[listing->samples++] = i;
    listing->first[listing->samples] = listing->count;
    return 0;
}

void pack_listing_converted(const char *field, char *converted)
{
    size_t length = strlen(field);

    snprintf(converted, INDEX_FIELD_MAX + 1, "%s", field);
    if (length >= 3 && strcmp(field + length - 3, "png") == 0 &&
        (length == 3 || field[length - 4] == '.'))
        snprintf(converted + length - 3, sizeof "jpg", "jpg");
}

int pack_listing_check_converted(const struct pack_listing *listing)
{
    uint64_t faults = 0;
    char name[INDEX_FIELD_MAX + 1];

    for (uint64_t s = 0; s < listing->samples; s++) {
        for (uint64_t i = listing->first[s]; i < listing->first[s + 1]; i++) {
            const struct pack_member *member = &listing->members[i];
            pack_listing_converted(member->field, name);
            if (strcmp(name, member->field) == 0)
                continue;
            for (uint64_t j = listing->first[s]; j < listing->first[s + 1]; j++)
                if (strcmp(listing->members[j].field, name) == 0 &&
                    pack_listing_may_name(listing, faults++))
                    report_error("--convert-png: '%.*s.%s' is there already, beside its .%s",
                                 (int)member->key_length, member->key, name, member->field);
        }
    }
    return faults ? -EEXIST : 0;
}
