/* Which fields appear. Owns nothing: rewrites the index that it is given. */
#include "fields.h"

#include "report.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const image_fields[] = {"jpg", "jpeg", "png", "webp", "ppm",  "pgm",
                                           "pbm", "pnm",  "bmp", "tif",  "tiff", "gif",
                                           "jp2", "avif", "jxl", "heic", "heif", "jpe"};

/* For each field of the index: which group of `fields=` it belongs to (-1: none), its place there,
 * and the number of the field that it appears as. */
struct choice {
    int *group, *place;
    uint16_t *shown;
    int groups;
};

static int64_t field_number(const struct index *index, const char *name, size_t length)
{
    for (size_t f = 0; f < index->field_count; f++)
        if (strncmp(index->fields[f], name, length) == 0 && index->fields[f][length] == '\0')
            return (int64_t)f;
    return -1;
}

static void choice_free(struct choice *choice)
{
    free(choice->group);
    free(choice->place);
    free(choice->shown);
}

/* The number under which a group appears: its first name's, which no shard may have, and then is
 * added. */
static int shown_number(struct index *index, const char *name, size_t length, uint16_t *number)
{
    int64_t found = field_number(index, name, length);
    char **larger;

    if (found < 0) {
        larger = reallocarray(index->fields, index->field_count + 1, sizeof *larger);
        if (!larger)
            return -ENOMEM;
        index->fields = larger;
        larger[index->field_count] = strndup(name, length);
        if (!larger[index->field_count])
            return -ENOMEM;
        found = (int64_t)index->field_count++;
    }
    *number = (uint16_t)found;
    return 0;
}

static int choose(struct index *index, const char *text, struct choice *choice)
{
    size_t most = index->field_count + strlen(text) + 1;
    int fault = 0;

    choice->group = calloc(most, sizeof *choice->group);
    choice->place = calloc(most, sizeof *choice->place);
    choice->shown = calloc(most, sizeof *choice->shown);
    if (!choice->group || !choice->place || !choice->shown)
        return -ENOMEM;
    for (size_t f = 0; f < most; f++)
        choice->group[f] = -1;
    for (const char *group = text; !fault; choice->groups++) {
        size_t group_length = strcspn(group, ":");
        uint16_t shown = 0;
        int place = 0;
        for (const char *name = group; !fault; name += strcspn(name, "/:") + 1, place++) {
            size_t length = strcspn(name, "/:");
            int64_t field;
            if (place == 0)
                fault = shown_number(index, name, length, &shown);
            field = field_number(index, name, length);
            if (!fault && field >= 0) {
                choice->group[field] = choice->groups;
                choice->place[field] = place;
                choice->shown[field] = shown;
            }
            if (name[length] != '/')
                break;
        }
        if (group[group_length] == '\0') {
            choice->groups++;
            break;
        }
        group += group_length + 1;
    }
    return fault;
}

/* Where the rewriting stands: everything moves towards the start. */
struct cursor {
    uint64_t sample, member;
    char *key, *text;
    uint64_t *lacking; /* group -> samples that lack it */
    int64_t *best;     /* group -> the member chosen, while one sample is looked at */
    const struct index_observer *observer;
};

/* Chooses one member for each group. False when one has none. */
static bool choose_members(const struct index *index, const struct choice *choice, uint64_t from,
                           uint64_t to, struct cursor *cursor)
{
    bool whole = true;

    for (int g = 0; g < choice->groups; g++)
        cursor->best[g] = -1;
    for (uint64_t m = from; m < to; m++) {
        uint16_t field = index->members[m].field;
        int g = choice->group[field];
        if (g < 0)
            continue;
        if (cursor->best[g] < 0 ||
            choice->place[field] < choice->place[index->members[cursor->best[g]].field])
            cursor->best[g] = (int64_t)m;
    }
    for (int g = 0; g < choice->groups; g++) {
        if (cursor->best[g] < 0) {
            cursor->lacking[g]++;
            whole = false;
        }
    }
    return whole;
}

static void keep_sample(struct index *index, const struct choice *choice, uint64_t from,
                        uint64_t to, struct cursor *cursor)
{
    uint64_t start = cursor->member;

    for (uint64_t m = from; m < to; m++) {
        struct index_member member = index->members[m];
        int g = choice->group[member.field];
        if (g < 0 || cursor->best[g] != (int64_t)m)
            continue;
        member.field = choice->shown[member.field];
        index->bytes += member.size;
        index->members[cursor->member++] = member;
    }
    index_sort_members(index->members + start, cursor->member - start);
    index->first[cursor->sample++] = (uint32_t)start;
}

static void move_text(char **to, const char *from, size_t bytes)
{
    memmove(*to, from, bytes);
    *to += bytes;
}

static void rewrite(struct index *index, const struct choice *choice, struct cursor *cursor)
{
    const char *key = index->keys, *text = index->class_texts;
    uint64_t count = index->sample_count, from = 0;
    size_t shard = 0;

    index->bytes = 0;
    for (uint64_t s = 0; s < count; s++) {
        uint64_t to = index->first[s + 1];
        size_t key_bytes = strlen(key) + 1, text_bytes = text ? strlen(text) + 1 : 0;

        while (shard < index->shard_count && index->shards[shard].first_sample == s)
            index->shards[shard++].first_sample = cursor->sample;
        if (choose_members(index, choice, from, to, cursor)) {
            keep_sample(index, choice, from, to, cursor);
            move_text(&cursor->key, key, key_bytes);
            if (text)
                move_text(&cursor->text, text, text_bytes);
        } else {
            index->problems[INDEX_FIELD_MISSING]++;
            if (cursor->observer && cursor->observer->problem)
                cursor->observer->problem(cursor->observer->context, shard - 1, INDEX_FIELD_MISSING,
                                          key, index->members[from].offset);
        }
        key += key_bytes;
        text = text ? text + text_bytes : NULL;
        from = to;
    }
    while (shard <= index->shard_count)
        index->shards[shard++].first_sample = cursor->sample;
    index->sample_count = cursor->sample;
    index->member_count = cursor->member;
    index->first[cursor->sample] = (uint32_t)cursor->member;
    index->key_bytes = (uint64_t)(cursor->key - index->keys);
    index_mark_keys(index);
}

/* A group's text within `fields=`. */
static const char *group_text(const char *text, int group, int *length)
{
    while (group--)
        text += strcspn(text, ":") + 1;
    *length = (int)strcspn(text, ":");
    return text;
}

static int report_result(const struct index *index, const char *text, const struct choice *choice,
                         const struct cursor *cursor, uint64_t before)
{
    int worst = 0, length;
    const char *name;

    for (int g = 1; g < choice->groups; g++)
        if (cursor->lacking[g] > cursor->lacking[worst])
            worst = g;
    name = group_text(text, worst, &length);
    if (index->sample_count == 0) {
        report_error("fields=%s: no sample has all of them; %llu of %llu lack%s %.*s", text,
                     (unsigned long long)cursor->lacking[worst], (unsigned long long)before,
                     cursor->lacking[worst] == 1 ? "s" : "", length, name);
        return -ENODATA;
    }
    if (index->sample_count < before)
        report_warning("fields=%s: %llu of %llu samples left out; %llu lack%s %.*s", text,
                       (unsigned long long)(before - index->sample_count),
                       (unsigned long long)before, (unsigned long long)cursor->lacking[worst],
                       cursor->lacking[worst] == 1 ? "s" : "", length, name);
    return 0;
}

/* Field numbers stand in name order, and a name that was added (a group whose first name no shard
 * has) stands last: give every field its place again. */
static int sort_fields(struct index *index)
{
    uint16_t *place = malloc((index->field_count + 1) * sizeof *place);
    char **sorted = malloc((index->field_count + 1) * sizeof *sorted);

    if (!place || !sorted) {
        free(place);
        free(sorted);
        return -ENOMEM;
    }
    for (size_t f = 0; f < index->field_count; f++) {
        size_t before = 0;
        for (size_t g = 0; g < index->field_count; g++)
            before += strcmp(index->fields[g], index->fields[f]) < 0;
        place[f] = (uint16_t)before;
        sorted[before] = index->fields[f];
    }
    for (uint64_t m = 0; m < index->member_count; m++)
        index->members[m].field = place[index->members[m].field];
    for (uint64_t s = 0; s < index->sample_count; s++)
        index_sort_members(index->members + index->first[s], index->first[s + 1] - index->first[s]);
    memcpy(index->fields, sorted, index->field_count * sizeof *sorted);
    free(sorted);
    free(place);
    return 0;
}

static void find_longest(struct index *index, const struct choice *choice)
{
    index->longest_field = 0;
    for (size_t f = 0; f < index->field_count; f++)
        if (choice->group[f] >= 0 && strlen(index->fields[choice->shown[f]]) > index->longest_field)
            index->longest_field = strlen(index->fields[choice->shown[f]]);
}

int fields_apply(struct index *index, const char *text, const struct index_observer *observer)
{
    struct choice choice = {0};
    struct cursor cursor = {.key = index->keys, .text = index->class_texts, .observer = observer};
    uint64_t before = index->sample_count;
    size_t fields = index->field_count;
    int fault;

    if (!text)
        return 0;
    fault = choose(index, text, &choice);
    cursor.lacking = calloc((size_t)choice.groups + 1, sizeof *cursor.lacking);
    cursor.best = calloc((size_t)choice.groups + 1, sizeof *cursor.best);
    if (!fault && (!cursor.lacking || !cursor.best))
        fault = -ENOMEM;
    if (!fault) {
        rewrite(index, &choice, &cursor);
        find_longest(index, &choice);
        fault = report_result(index, text, &choice, &cursor, before);
    }
    if (!fault && index->field_count > fields)
        fault = sort_fields(index);
    free(cursor.lacking);
    free(cursor.best);
    choice_free(&choice);
    return fault;
}

uint64_t fields_primary(const struct index *index, const char *text, uint64_t sample)
{
    uint64_t from = index->first[sample], to = index->first[sample + 1], earliest = from;
    int64_t member;

    if (text) {
        member = index_find_field(index, sample, text, strcspn(text, "/:"));
        return member < 0 ? from : (uint64_t)member;
    }
    for (size_t i = 0; i < sizeof image_fields / sizeof *image_fields; i++) {
        member = index_find_field(index, sample, image_fields[i], strlen(image_fields[i]));
        if (member >= 0)
            return (uint64_t)member;
    }
    for (uint64_t m = from; m < to; m++)
        if (index->members[m].offset < index->members[earliest].offset)
            earliest = m;
    return earliest;
}

static bool is_image(const char *name)
{
    for (size_t i = 0; i < sizeof image_fields / sizeof *image_fields; i++)
        if (strcmp(name, image_fields[i]) == 0)
            return true;
    return false;
}

/* Adds `name` to `text`, cut when there is no room: it is advice. */
static void add_name(char *text, size_t room, const char *between, const char *name)
{
    size_t used = strlen(text);
    if (used + strlen(between) + strlen(name) + 1 < room)
        snprintf(text + used, room - used, "%s%s", used ? between : "", name);
}

/* What tells a sample apart from its label: the image extensions; where there is none, the field
 * that most samples have. */
static void mark_contents(const struct index *index, const uint64_t *samples, bool *contents)
{
    size_t most = index->field_count;
    bool any = false;

    for (size_t f = 0; f < index->field_count; f++) {
        contents[f] = samples[f] && is_image(index->fields[f]);
        any |= contents[f];
        if (samples[f] && strcmp(index->fields[f], "cls") != 0 &&
            (most == index->field_count || samples[f] > samples[most]))
            most = f;
    }
    if (!any && most < index->field_count)
        contents[most] = true;
}

/* Of the samples that have contents, how many there are, and how many have each field. */
static uint64_t count_among(const struct index *index, const bool *contents, uint64_t *among)
{
    uint64_t kept = 0;

    for (uint64_t s = 0; s < index->sample_count; s++) {
        bool has = false;
        for (uint64_t m = index->first[s]; m < index->first[s + 1]; m++)
            has |= contents[index->members[m].field];
        kept += has;
        for (uint64_t m = index->first[s]; has && m < index->first[s + 1]; m++)
            among[index->members[m].field]++;
    }
    return kept;
}

/* The `fields=` with which all samples that are left have the same fields: their contents, and what
 * all of them have besides. Returns how many are left. */
static uint64_t advise(const struct index *index, const uint64_t *samples, bool makes_cls,
                       char *text, size_t room)
{
    bool *contents = calloc(index->field_count + 1, sizeof *contents);
    uint64_t *among = calloc(index->field_count + 1, sizeof *among), kept = 0;

    *text = '\0';
    if (contents && among) {
        mark_contents(index, samples, contents);
        kept = count_among(index, contents, among);
        for (size_t f = 0; f < index->field_count; f++)
            if (contents[f])
                add_name(text, room, "/", index->fields[f]);
        for (size_t f = 0; f < index->field_count; f++)
            if (!contents[f] && kept && among[f] == kept &&
                !(makes_cls && strcmp(index->fields[f], "cls") == 0))
                add_name(text, room, ":", index->fields[f]);
        if (makes_cls && kept)
            add_name(text, room, ":", "cls");
    }
    free(contents);
    free(among);
    return kept;
}

bool fields_warn_uneven(const struct index *index, bool makes_cls)
{
    uint64_t *samples = calloc(index->field_count + 1, sizeof *samples), kept;
    char advice[512], without[64] = "";
    size_t rarest = index->field_count;

    if (!samples)
        return false;
    for (uint64_t m = 0; m < index->member_count; m++)
        samples[index->members[m].field]++;
    for (size_t f = 0; f < index->field_count; f++)
        if (samples[f] && samples[f] < index->sample_count &&
            !(makes_cls && strcmp(index->fields[f], "cls") == 0) &&
            (rarest == index->field_count || samples[f] < samples[rarest]))
            rarest = f;
    if (rarest < index->field_count) {
        kept = advise(index, samples, makes_cls, advice, sizeof advice);
        if (kept < index->sample_count)
            snprintf(without, sizeof without, ", and leaves out %llu sample%s",
                     (unsigned long long)(index->sample_count - kept),
                     index->sample_count - kept == 1 ? "" : "s");
        report_warning("samples differ in their fields (%llu of %llu %s '%s'), so a path of one "
                       "epoch may be missing in the next%s%s%s%s",
                       (unsigned long long)samples[rarest], (unsigned long long)index->sample_count,
                       samples[rarest] == 1 ? "has" : "have", index->fields[rarest],
                       kept ? "; fields=" : "", kept ? advice : "", kept ? " mends that" : "",
                       kept ? without : "");
    }
    free(samples);
    return rarest < index->field_count;
}
