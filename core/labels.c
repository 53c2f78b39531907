/* Each sample's class as a number. Owns the table of labels, and named classes' texts. */
#include "labels.h"

#include "json_labels.h"
#include "report.h"
#include "shards.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *source_name(enum config_label source)
{
    static const char *const names[] = {
        [CONFIG_LABEL_AUTO] = "auto",   [CONFIG_LABEL_CLS] = "cls",   [CONFIG_LABEL_DIR] = "dir",
        [CONFIG_LABEL_SHARD] = "shard", [CONFIG_LABEL_JSON] = "json", [CONFIG_LABEL_NONE] = "none",
    };
    return names[source];
}

/* A class's text: a run of bytes within a key, the class texts, or a shard's path. */
struct span {
    const char *text;
    size_t length;
};

static struct span folder_of(const char *key)
{
    const char *end = strrchr(key, '/'), *start;

    if (!end)
        return (struct span){key, 0};
    for (start = end; start > key && start[-1] != '/'; start--)
        ;
    return (struct span){start, (size_t)(end - start)};
}

static int compare(struct span a, struct span b)
{
    size_t shorter = a.length < b.length ? a.length : b.length;
    int order = shorter ? memcmp(a.text, b.text, shorter) : 0;
    return order ? order : (a.length > b.length) - (a.length < b.length);
}

static int by_span(const void *a, const void *b)
{
    return compare(*(const struct span *)a, *(const struct span *)b);
}

/* Longer ones, with many leading zeros, are names. */
#define DIGITS_MOST 24

/* An optional '-' and decimal digits, of 64 bits. */
static bool to_integer(struct span span, int64_t *value)
{
    size_t sign = span.length && span.text[0] == '-' ? 1 : 0; /* bytes */
    uint64_t number = 0;

    if (span.length <= sign || span.length >= DIGITS_MOST)
        return false;
    for (size_t i = sign; i < span.length; i++) {
        unsigned digit = (unsigned)(unsigned char)span.text[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(number, UINT64_C(10), &number) ||
            __builtin_add_overflow(number, digit, &number))
            return false;
    }
    /* The least 64-bit number is LABELS_MISSING. */
    if (number > INT64_MAX)
        return false;
    *value = sign ? -(int64_t)number : (int64_t)number;
    return true;
}

/* A shard's base name without its ending, and without that of a compression. */
static struct span name_of(const struct index_shard *shard)
{
    char name[SHARDS_NAME];
    const char *dot;

    shards_base_name(name, shard->path);
    dot = strrchr(name, '.');
    return (struct span){basename(shard->path),
                         dot && dot > name ? (size_t)(dot - name) : strlen(name)};
}

/* Goes through all samples' texts in order. */
struct texts {
    const struct index *index;
    enum config_label source;
    const char *key, *text;
    uint64_t sample; /* of shards: the next one, */
    size_t shard;    /* the next shard, */
    struct span at;  /* and the text of the one before */
};

static struct texts texts_of(const struct index *index, enum config_label source)
{
    return (struct texts){
        .index = index, .source = source, .key = index->keys, .text = index->class_texts};
}

/* Of several shards that start with one sample the last one has it: the others have none. */
static struct span next_shard(struct texts *texts)
{
    const struct index *index = texts->index;

    while (texts->shard < index->shard_count &&
           index->shards[texts->shard].first_sample <= texts->sample)
        texts->at = name_of(&index->shards[texts->shard++]);
    texts->sample++;
    return texts->at;
}

/* Empty: the sample has none. */
static struct span next_text(struct texts *texts)
{
    bool json = texts->source == CONFIG_LABEL_JSON;
    struct span span;

    if (texts->source == CONFIG_LABEL_SHARD)
        return next_shard(texts);
    if (json || texts->source == CONFIG_LABEL_CLS) {
        if (!texts->text)
            return (struct span){"", 0};
        span = (struct span){texts->text, strlen(texts->text)};
        texts->text += span.length + 1;
        if (json && json_labels_why_not(span.text))
            span.length = 0;
        return span;
    }
    span = folder_of(texts->key);
    texts->key += strlen(texts->key) + 1;
    return span;
}

static bool has_two_folders(const struct index *index)
{
    struct texts texts = texts_of(index, CONFIG_LABEL_DIR);
    struct span first = {"", 0};

    for (uint64_t s = 0; s < index->sample_count; s++) {
        struct span span = next_text(&texts);
        if (s == 0)
            first = span;
        else if (compare(first, span) != 0)
            return true;
    }
    return false;
}

static bool has_texts(const struct index *index)
{
    struct texts texts = texts_of(index, CONFIG_LABEL_CLS);

    if (!index->class_texts)
        return false;
    for (uint64_t s = 0; s < index->sample_count; s++)
        if (next_text(&texts).length)
            return true;
    return false;
}

/* Integers stay as they are. False as soon as one is none. */
static bool take_integers(struct labels *labels, const struct index *index)
{
    struct texts texts = texts_of(index, labels->source);

    for (uint64_t s = 0; s < index->sample_count; s++) {
        struct span span = next_text(&texts);
        labels->of[s] = LABELS_MISSING;
        if (span.length && !to_integer(span, &labels->of[s]))
            return false;
    }
    return true;
}

static uint64_t keep_different(struct span *spans, uint64_t count)
{
    uint64_t kept = 0;

    qsort(spans, count, sizeof *spans, by_span);
    for (uint64_t i = 0; i < count; i++)
        if (kept == 0 || compare(spans[kept - 1], spans[i]) != 0)
            spans[kept++] = spans[i];
    return kept;
}

static int keep_names(struct labels *labels, const struct span *classes)
{
    size_t bytes = 0;

    if (labels->class_count > LABELS_NAMES_MAX)
        return 0;
    for (uint64_t i = 0; i < labels->class_count; i++)
        bytes += classes[i].length + 1;
    labels->names = malloc(bytes + 1);
    labels->name_at = malloc((labels->class_count + 1) * sizeof *labels->name_at);
    if (!labels->names || !labels->name_at)
        return -ENOMEM;
    bytes = 0;
    for (uint64_t i = 0; i < labels->class_count; i++) {
        memcpy(labels->names + bytes, classes[i].text, classes[i].length);
        labels->name_at[i] = bytes;
        bytes += classes[i].length + 1;
        labels->names[bytes - 1] = '\0';
    }
    return 0;
}

/* Neighbours often share a class, so most samples are settled by one comparison; and the list of
 * classes is made in rounds, each sorted and freed of repetitions, so that it stays as short as
 * there are classes. */
static int number_texts(struct labels *labels, const struct index *index)
{
    uint64_t room = 4096, count = 0, kept = 0;
    struct span *classes = malloc(room * sizeof *classes);
    struct texts texts = texts_of(index, labels->source);

    for (uint64_t s = 0; classes && s < index->sample_count; s++) {
        struct span span = next_text(&texts);
        if (!span.length || (count && compare(classes[count - 1], span) == 0) ||
            (kept && bsearch(&span, classes, kept, sizeof span, by_span)))
            continue;
        classes[count++] = span;
        if (count < room)
            continue;
        kept = count = keep_different(classes, count);
        if (kept > room / 2) {
            struct span *larger = reallocarray(classes, room *= 2, sizeof *classes);
            if (!larger)
                free(classes);
            classes = larger;
        }
    }
    if (!classes)
        return -ENOMEM;
    labels->class_count = keep_different(classes, count);
    labels->named = true;
    labels->most = (int64_t)labels->class_count - 1;
    if (keep_names(labels, classes)) {
        free(classes);
        return -ENOMEM;
    }
    texts = texts_of(index, labels->source);
    for (uint64_t s = 0; s < index->sample_count; s++) {
        struct span span = next_text(&texts);
        struct span *found = span.length ? bsearch(&span, classes, labels->class_count, sizeof span,
                                                   by_span)
                                         : NULL;
        labels->of[s] = found ? found - classes : LABELS_MISSING;
    }
    free(classes);
    return 0;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Classes mostly are 0 to some hundreds or thousands: one bit a class of the range. */
static int count_in_range(struct labels *labels, uint64_t samples, int64_t least, uint64_t range)
{
    uint64_t *seen = calloc(range / 64 + 1, sizeof *seen);

    if (!seen)
        return -ENOMEM;
    for (uint64_t s = 0; s < samples; s++) {
        if (labels->of[s] != LABELS_MISSING) {
            uint64_t place = (uint64_t)labels->of[s] - (uint64_t)least;
            labels->class_count += !(seen[place / 64] >> (place % 64) & 1);
            seen[place / 64] |= (uint64_t)1 << (place % 64);
        }
    }
    free(seen);
    return 0;
}

static int count_sorted(struct labels *labels, uint64_t samples)
{
    int64_t *sorted = malloc(samples * sizeof *sorted + 1);

    if (!sorted)
        return -ENOMEM;
    memcpy(sorted, labels->of, samples * sizeof *sorted);
    qsort(sorted, samples, sizeof *sorted, by_value);
    for (uint64_t s = 0; s < samples; s++)
        labels->class_count += sorted[s] != LABELS_MISSING &&
                               (s == 0 || sorted[s] != sorted[s - 1]);
    free(sorted);
    return 0;
}

static int count_classes(struct labels *labels, uint64_t samples)
{
    int64_t least = INT64_MAX, most = INT64_MIN;
    uint64_t range;

    for (uint64_t s = 0; s < samples; s++) {
        if (labels->of[s] == LABELS_MISSING)
            continue;
        least = labels->of[s] < least ? labels->of[s] : least;
        most = labels->of[s] > most ? labels->of[s] : most;
    }
    if (least > most)
        return 0;
    labels->least = least;
    labels->most = most;
    range = (uint64_t)most - (uint64_t)least;
    return range / 64 <= samples ? count_in_range(labels, samples, least, range)
                                 : count_sorted(labels, samples);
}

/* "; it is KEY in SHARD: REASON", as far as that is known. */
static void tell_first(const struct labels *labels, const struct index *index, char *text,
                       size_t room)
{
    struct texts texts = texts_of(index, labels->source);
    uint64_t sample = 0;
    const char *why = NULL;

    text[0] = '\0';
    while (sample < index->sample_count && labels->of[sample] != LABELS_MISSING)
        sample++;
    if (sample == index->sample_count || !index->keys)
        return;
    for (uint64_t s = 0; labels->source == CONFIG_LABEL_JSON && s <= sample; s++) {
        why = json_labels_why_not(texts.text);
        texts.text += strlen(texts.text) + 1;
    }
    snprintf(text, room, "; the first is %s in %s%s%s", index_key(index, sample),
             index->shards[index_shard_of(index, sample)].path, why ? ": " : "", why ? why : "");
}

static int report_result(const struct labels *labels, struct index *index)
{
    uint64_t missing = 0;
    char first[1024] = "";

    for (uint64_t s = 0; s < index->sample_count; s++)
        missing += labels->of[s] == LABELS_MISSING;
    if (missing)
        tell_first(labels, index, first, sizeof first);
    if (missing == index->sample_count) {
        report_error("label=%s: no sample has one%s", labels->source_text, first);
        return -ENODATA;
    }
    index->problems[INDEX_NO_LABEL] += missing;
    if (missing)
        report_warning("label=%s: %llu of %llu samples %s no label; %s no .cls%s",
                       labels->source_text, (unsigned long long)missing,
                       (unsigned long long)index->sample_count, missing == 1 ? "has" : "have",
                       missing == 1 ? "it shows" : "they show", first);
    return 0;
}

static int name_source(struct labels *labels, const char *key)
{
    bool json = labels->source == CONFIG_LABEL_JSON;

    if (asprintf(&labels->source_text, "%s%s%s", source_name(labels->source), json ? ":" : "",
                 json ? key : "") < 0) {
        labels->source_text = NULL;
        return -ENOMEM;
    }
    return 0;
}

int labels_open(struct labels *labels, struct index *index, enum config_label wanted,
                const char *key)
{
    int fault = 0;

    *labels = (struct labels){.source = wanted};
    if (wanted == CONFIG_LABEL_AUTO)
        labels->source = has_texts(index)         ? CONFIG_LABEL_CLS
                         : has_two_folders(index) ? CONFIG_LABEL_DIR
                                                  : CONFIG_LABEL_NONE;
    if (labels->source == CONFIG_LABEL_CLS && !index->class_texts) {
        report_error("label=cls: no sample has a cls member with a text");
        return -ENODATA;
    }
    fault = name_source(labels, key);
    if (!fault && labels->source != CONFIG_LABEL_NONE) {
        labels->of = malloc(index->sample_count * sizeof *labels->of);
        if (!labels->of)
            fault = -ENOMEM;
        else if (take_integers(labels, index))
            fault = count_classes(labels, index->sample_count);
        else
            fault = number_texts(labels, index);
    }
    if (!fault && labels->of)
        fault = report_result(labels, index);
    index_drop_texts(index);
    if (fault)
        labels_close(labels);
    return fault;
}

void labels_close(struct labels *labels)
{
    free(labels->of);
    free(labels->source_text);
    free(labels->names);
    free(labels->name_at);
    *labels = (struct labels){.source = CONFIG_LABEL_NONE};
}

const char *labels_class_name(const struct labels *labels, uint64_t class)
{
    return labels->names ? labels->names + labels->name_at[class] : NULL;
}
