/* The spelling of names. */
#include "grammar.h"

#include <stdio.h>
#include <string.h>

#define POSITION_DIGITS_LEAST 8

#define DIGITS "0123456789"
#define RANK   "rank-"
#define OF     "-of-"
#define AFTER  ".after-"
#define PART   ".part-"
#define BY     ".by-"

static const char *const suffixes[GRAMMAR_VIEWS] = {"", ".classes", ".keys", ".list", ".tar"};

void grammar_open(struct grammar *grammar, const struct dataset *dataset)
{
    uint64_t samples = dataset->index->sample_count, places = dataset->basis.places;

    *grammar = (struct grammar){.dataset = dataset};
    for (uint64_t most = (places > samples ? places : samples) - 1; most; most /= 10)
        grammar->position_digits++;
    if (grammar->position_digits < POSITION_DIGITS_LEAST)
        grammar->position_digits = POSITION_DIGITS_LEAST;
}

const char *grammar_suffix(enum grammar_view view)
{
    return suffixes[view];
}

static const char *parse_number(const char *text, uint64_t most, uint64_t *value)
{
    size_t digits = strspn(text, DIGITS);
    return config_number(text, digits, most, value) ? text + digits : NULL;
}

/* What follows `word` at the start of `name`; NULL: something else stands there. */
static const char *skip(const char *name, const char *word)
{
    size_t length = strlen(word);
    return strncmp(name, word, length) == 0 ? name + length : NULL;
}

const char *grammar_parse_rank(const struct grammar *grammar, const char *name, uint64_t *rank,
                               uint64_t *world)
{
    const char *rest = skip(name, RANK);

    name = rest ? parse_number(rest, PLAN_WORLD_MAX, rank) : NULL;
    if (!name)
        return NULL;
    *world = grammar->dataset->config->world;
    rest = skip(name, OF);
    if (rest)
        name = parse_number(rest, PLAN_WORLD_MAX, world);
    return name && *rank < *world ? name : NULL;
}

/* `K-of-M[.by-B]` */
static const char *parse_part(const char *name, struct plan_share *share)
{
    const char *run;

    share->run = 1;
    name = parse_number(name, PLAN_PARTS_MAX, &share->part);
    name = name ? skip(name, OF) : NULL;
    name = name ? parse_number(name, PLAN_PARTS_MAX, &share->parts) : NULL;
    if (!name || share->part >= share->parts)
        return NULL;
    run = skip(name, BY);
    if (!run)
        return name;
    name = parse_number(run, PLAN_RUN_MAX, &share->run);
    return share->run ? name : NULL;
}

const char *grammar_parse_share(const struct grammar *grammar, const char *name, bool resumable,
                                struct plan_share *share)
{
    const char *rest;

    *share = (struct plan_share){0};
    name = grammar_parse_rank(grammar, name, &share->rank, &share->world);
    rest = name && resumable ? skip(name, AFTER) : NULL;
    if (rest)
        name = parse_number(rest, ORDER_SAMPLES_MAX, &share->after);
    rest = name ? skip(name, PART) : NULL;
    return rest ? parse_part(rest, share) : name;
}

/* Appends a word and a number. */
static void spell(char *name, size_t *length, const char *word, uint64_t number)
{
    *length += (size_t)snprintf(name + *length, GRAMMAR_SHARE_BYTES - *length, "%s%llu", word,
                                (unsigned long long)number);
}

size_t grammar_share_name(const struct grammar *grammar, const struct plan_share *share, char *name)
{
    size_t length = 0;

    spell(name, &length, RANK, share->rank);
    if (share->world != grammar->dataset->config->world)
        spell(name, &length, OF, share->world);
    if (share->after)
        spell(name, &length, AFTER, share->after);
    if (share->parts) {
        spell(name, &length, PART, share->part);
        spell(name, &length, OF, share->parts);
        if (share->run > 1)
            spell(name, &length, BY, share->run);
    }
    return length;
}

/* The first dot ends a rank: neither its number nor its world has one. */
size_t grammar_resumed_name(const char *name, uint64_t after, char *to, size_t room)
{
    size_t rank = strcspn(name, ".");
    const char *rest = name + rank, *old = skip(rest, AFTER);
    char resumed[32] = "";

    if (old)
        rest = old + strspn(old, DIGITS);
    if (after)
        snprintf(resumed, sizeof resumed, AFTER "%llu", (unsigned long long)after);
    return (size_t)snprintf(to, room, "%.*s%s%s", (int)rank, name, resumed, rest);
}

bool grammar_parse_view(const char *suffix, enum grammar_view *view)
{
    for (int i = 0; i < GRAMMAR_VIEWS; i++) {
        if (strcmp(suffix, suffixes[i]) == 0) {
            *view = (enum grammar_view)i;
            return true;
        }
    }
    return false;
}

bool grammar_parse_epoch(const char *name, uint64_t *epoch)
{
    if (strncmp(name, "epoch-", 6) != 0)
        return false;
    name = parse_number(name + 6, ORDER_EPOCH_MAX, epoch);
    return name && *name == '\0';
}

/* The key as a part of a name: '/' and '.' would split it; cut so that the longest field still
 * fits. */
static size_t key_in_name(const struct grammar *grammar, uint64_t sample, char *to)
{
    const struct index *index = grammar->dataset->index;
    const char *key = index_key(index, sample);
    size_t most = GRAMMAR_NAME_BYTES - (size_t)grammar->position_digits - 2 - index->longest_field;
    size_t length = 0;

    for (; length < most && key[length]; length++)
        to[length] = (char)(key[length] == '/' || key[length] == '.' ? '_' : key[length]);
    return length;
}

size_t grammar_file_name(const struct grammar *grammar, enum grammar_view view, uint64_t position,
                         uint64_t sample, const char *field, char *name)
{
    size_t length = (size_t)grammar->position_digits, field_length = strlen(field);

    for (int i = grammar->position_digits - 1; i >= 0; i--, position /= 10)
        name[i] = (char)('0' + position % 10);
    if (view == GRAMMAR_KEYS) {
        name[length++] = '_';
        length += key_in_name(grammar, sample, name + length);
    }
    name[length++] = '.';
    memcpy(name + length, field, field_length + 1);
    return length + field_length;
}

bool grammar_parse_position(const struct grammar *grammar, const char *name, uint64_t *position)
{
    *position = 0;
    for (int i = 0; i < grammar->position_digits; i++) {
        if (name[i] < '0' || name[i] > '9')
            return false;
        *position = *position * 10 + (uint64_t)(name[i] - '0');
    }
    return true;
}

const char *grammar_parse_field(const struct grammar *grammar, enum grammar_view view,
                                uint64_t sample, const char *name)
{
    const char *rest = name + grammar->position_digits;
    char key[GRAMMAR_NAME_BYTES + 1];
    size_t length;

    if (view == GRAMMAR_KEYS) {
        if (*rest++ != '_')
            return NULL;
        length = key_in_name(grammar, sample, key);
        if (strncmp(rest, key, length) != 0)
            return NULL;
        rest += length;
    }
    return *rest == '.' ? rest + 1 : NULL;
}
