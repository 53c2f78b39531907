/* The spelling of names. */
#include "grammar.h"

#include <string.h>

#define POSITION_DIGITS_LEAST 8

static const char *const suffixes[GRAMMAR_VIEWS] = {"", ".keys", ".list", ".tar"};

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
    size_t digits = strspn(text, "0123456789");
    return config_number(text, digits, most, value) ? text + digits : NULL;
}

const char *grammar_parse_rank(const struct grammar *grammar, const char *name, uint64_t *rank,
                               uint64_t *world)
{
    if (strncmp(name, "rank-", 5) != 0)
        return NULL;
    name = parse_number(name + 5, PLAN_WORLD_MAX, rank);
    if (!name)
        return NULL;
    *world = grammar->dataset->config->world;
    if (strncmp(name, "-of-", 4) == 0)
        name = parse_number(name + 4, PLAN_WORLD_MAX, world);
    return name && *rank < *world ? name : NULL;
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
