/* Classes out of json members: reads them in runs, parses each with jansson, keeps a text a sample.
 * Owns the texts until the index has them; never looks at labels. */
#include "json_labels.h"

#include "config.h"
#include "harvest.h"
#include "json_saved.h"
#include "progress.h"
#include "report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Samples that a thread takes at a time. */
#define CHUNK 4096
/* Members that stand close to each other are read at once: so many of them, over gaps of at most so
 * many bytes (as much as is copied in the time of one more read), within so many bytes. */
#define RUN_MEMBERS 1024
#define GAP_MOST    (16 * 1024)
#define RUN_BYTES   ((size_t)1 << 20)
/* As in core/indexing.c: reads wait for storage more than for the processor. */
#define THREADS_LEAST 8
#define THREADS_MOST  32

#define NO_LABEL '\xff'

static const struct {
    char letter;
    const char *why;
} reasons[] = {
    {'m', "it has no json member"},
    {'b', "its json is broken"},
    {'o', "its json is no object"},
    {'k', "its json has no such key"},
    {'f', "the value is a number with a fraction"},
    {'t', "the value is true or false"},
    {'n', "the value is null"},
    {'a', "the value is an array"},
    {'d', "the value is an object"},
    {'e', "the value is an empty string"},
    {'z', "the value has a NUL in it"},
    {'l', "the value is longer than 255 bytes"},
    {'h', "its json is larger than 64 MiB"},
};

const char *json_labels_why_not(const char *text)
{
    if (text[0] != NO_LABEL)
        return NULL;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].letter == text[1])
            return reasons[i].why;
    return "it has none";
}

static void say_none(char *text, char letter)
{
    text[0] = NO_LABEL;
    text[1] = letter;
    text[2] = '\0';
}

static void take_string(const json_t *value, char *text)
{
    size_t length = json_string_length(value);

    if (length == 0) {
        say_none(text, 'e');
    } else if (length > JSON_LABELS_TEXT_MAX) {
        say_none(text, 'l');
    } else if (memchr(json_string_value(value), '\0', length)) {
        say_none(text, 'z');
    } else {
        memcpy(text, json_string_value(value), length);
        text[length] = '\0';
    }
}

/* With `inexact` the document's integers were read as reals, as one of them is larger than 64 bits:
 * those that a double holds exactly are still what they were. */
static void take_value(const json_t *value, bool inexact, char *text)
{
    double real;

    switch (json_typeof(value)) {
    case JSON_INTEGER:
        snprintf(text, JSON_LABELS_TEXT_MAX, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_STRING:
        take_string(value, text);
        break;
    case JSON_REAL:
        real = json_real_value(value);
        if (inexact && floor(real) == real && fabs(real) <= 9007199254740992.0)
            snprintf(text, JSON_LABELS_TEXT_MAX, "%.0f", real);
        else
            say_none(text, 'f');
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        say_none(text, 't');
        break;
    case JSON_NULL:
        say_none(text, 'n');
        break;
    case JSON_ARRAY:
        say_none(text, 'a');
        break;
    case JSON_OBJECT:
        say_none(text, 'd');
        break;
    }
}

static const json_t *follow(const json_t *value, const char *key)
{
    char name[CONFIG_LABEL_KEY_MAX + 1];

    while (value && *key) {
        size_t length = strcspn(key, ".");
        if (length > CONFIG_LABEL_KEY_MAX)
            return NULL;
        memcpy(name, key, length);
        name[length] = '\0';
        value = json_object_get(value, name);
        key += length + (key[length] == '.');
    }
    return value;
}

void json_labels_text(const char *json, size_t bytes, const char *key,
                      char text[JSON_LABELS_TEXT_MAX + 1])
{
    const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL;
    json_error_t error;
    json_t *root = json_loadb(json, bytes, flags, &error);
    bool inexact = false;
    const json_t *value;

    if (!root && json_error_code(&error) == json_error_numeric_overflow) {
        inexact = true;
        root = json_loadb(json, bytes, flags | JSON_DECODE_INT_AS_REAL, &error);
    }
    value = follow(root, key);
    if (!root)
        say_none(text, 'b');
    else if (!json_is_object(root))
        say_none(text, 'o');
    else if (!value)
        say_none(text, 'k');
    else
        take_value(value, inexact, text);
    json_decref(root);
}

/* The texts of one chunk, a NUL after each. */
struct chunk {
    char *texts;
    size_t bytes, room;
};

/* What the threads share: each takes the next chunk until none is left or one failed. */
struct crew {
    const struct index *index;
    const char *key;
    struct reader *reader;
    struct chunk *chunks;
    uint64_t chunk_count;
    int64_t field; /* the number of `json` among the index's; -1: no shard has one */
    struct progress progress;
    _Atomic uint64_t next;
    atomic_int fault;
};

/* A thread's own: the members of a run, where the bytes of those found are, and what they are read
 * into. */
struct scratch {
    uint64_t members[RUN_MEMBERS]; /* one a sample; UINT64_MAX: it has none */
    uint64_t found[RUN_MEMBERS];   /* those that are there */
    char *data[RUN_MEMBERS];
    char *buffer;
};

static int64_t json_of(const struct crew *crew, uint64_t sample)
{
    const struct index *index = crew->index;

    for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++)
        if ((int64_t)index->members[m].field == crew->field)
            return (int64_t)m;
    return -1;
}

static int add_text(struct chunk *chunk, const char *text)
{
    size_t bytes = strlen(text) + 1;

    if (harvest_grow(&chunk->texts, &chunk->room, chunk->bytes + bytes, 1))
        return -ENOMEM;
    memcpy(chunk->texts + chunk->bytes, text, bytes);
    chunk->bytes += bytes;
    return 0;
}

/* A large member, or one of a run that could not be read as one; here a fault is reported. */
static int read_alone(const struct crew *crew, uint64_t member, char *text)
{
    size_t size = crew->index->members[member].size;
    char *bytes;
    ssize_t got;

    if (size > JSON_LABELS_BYTES_MAX) {
        say_none(text, 'h');
        return 0;
    }
    bytes = malloc(size + 1);
    if (!bytes)
        return -ENOMEM;
    got = reader_read(crew->reader, member, bytes, size, 0);
    if (got >= 0)
        json_labels_text(bytes, (size_t)got, crew->key, text);
    free(bytes);
    return got < 0 ? (int)got : 0;
}

/* Of the samples from `sample` on, up to `end` or the shard's, how many stand in one run of members
 * that can be read at once: at least one. Those without a json are part of it. The members are
 * in `scratch`. */
static size_t find_run(const struct crew *crew, uint64_t sample, uint64_t end,
                       struct scratch *scratch)
{
    const struct index *index = crew->index;
    uint64_t from = 0, to = 0;
    size_t count = 0;

    for (; sample < end && count < RUN_MEMBERS; sample++, count++) {
        int64_t member = json_of(crew, sample);
        const struct index_member *at = &index->members[member < 0 ? 0 : member];
        scratch->members[count] = (uint64_t)member;
        if (member < 0)
            continue;
        if (to == 0)
            from = at->offset - INDEX_HEADER_BYTES;
        else if (at->offset - INDEX_HEADER_BYTES < to ||
                 at->offset - INDEX_HEADER_BYTES - to > GAP_MOST ||
                 at->offset + at->size - from > RUN_BYTES)
            break;
        to = at->offset + at->size;
    }
    return count;
}

static int read_run(const struct crew *crew, struct scratch *scratch, size_t count,
                    struct chunk *chunk)
{
    size_t found = 0;
    bool whole;
    int fault = 0;

    for (size_t i = 0; i < count; i++)
        if (scratch->members[i] != UINT64_MAX)
            scratch->found[found++] = scratch->members[i];
    whole = reader_read_members(crew->reader, scratch->found, found, scratch->buffer,
                                RUN_BYTES + READER_SLACK, scratch->data) == 0;
    for (size_t i = 0, at = 0; !fault && i < count; i++) {
        uint64_t member = scratch->members[i];
        char text[JSON_LABELS_TEXT_MAX + 1];
        if (member == UINT64_MAX) {
            say_none(text, 'm');
        } else if (whole) {
            json_labels_text(scratch->data[at++], crew->index->members[member].size, crew->key,
                             text);
        } else {
            fault = read_alone(crew, member, text);
        }
        if (!fault)
            fault = add_text(chunk, text);
    }
    return fault;
}

static int read_chunk(struct crew *crew, uint64_t number, struct scratch *scratch)
{
    const struct index *index = crew->index;
    uint64_t sample = number * CHUNK, end = sample + CHUNK;
    int fault = 0;

    if (end > index->sample_count)
        end = index->sample_count;
    while (!fault && sample < end) {
        uint64_t next = index->shards[index_shard_of(index, sample) + 1].first_sample;
        uint64_t until = next < end ? next : end;
        while (!fault && sample < until) {
            size_t count = find_run(crew, sample, until, scratch);
            fault = read_run(crew, scratch, count, &crew->chunks[number]);
            sample += count;
            progress_add(&crew->progress, count);
        }
    }
    return fault;
}

static void *work(void *context)
{
    struct crew *crew = context;
    struct scratch *scratch = malloc(sizeof *scratch);
    int fault = scratch && !posix_memalign((void **)&scratch->buffer, READER_ALIGN,
                                           RUN_BYTES + READER_SLACK)
                    ? 0
                    : -ENOMEM;
    uint64_t number;

    while (!fault && !atomic_load(&crew->fault) &&
           (number = atomic_fetch_add(&crew->next, 1)) < crew->chunk_count)
        fault = read_chunk(crew, number, scratch);
    if (fault)
        atomic_store(&crew->fault, fault);
    if (scratch)
        free(scratch->buffer);
    free(scratch);
    return NULL;
}

/* This thread works too, so that one that cannot be started is no fault. */
static int work_on_all(struct crew *crew)
{
    pthread_t others[THREADS_MOST];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t threads = cores > THREADS_LEAST ? (uint64_t)cores : THREADS_LEAST;
    unsigned started = 0;

    threads = threads > THREADS_MOST ? THREADS_MOST : threads;
    threads = threads > crew->chunk_count ? crew->chunk_count : threads;
    progress_open(&crew->progress, "reading labels", crew->index->sample_count, 0, PROGRESS_ITEMS);
    while (started + 1 < threads && pthread_create(&others[started], NULL, work, crew) == 0)
        started++;
    work(crew);
    while (started)
        pthread_join(others[--started], NULL);
    progress_close(&crew->progress);
    return atomic_load(&crew->fault);
}

static int join(const struct crew *crew, char **texts, size_t *bytes)
{
    size_t all = 0;

    for (uint64_t i = 0; i < crew->chunk_count; i++)
        all += crew->chunks[i].bytes;
    *texts = malloc(all + 1);
    if (!*texts)
        return -ENOMEM;
    *bytes = 0;
    for (uint64_t i = 0; i < crew->chunk_count; i++) {
        memcpy(*texts + *bytes, crew->chunks[i].texts, crew->chunks[i].bytes);
        *bytes += crew->chunks[i].bytes;
    }
    return 0;
}

static int read_all(const struct index *index, const char *key, enum reader_direct direct,
                    char **texts, size_t *bytes)
{
    struct crew crew = {.index = index, .key = key, .field = -1};
    int fault;

    for (size_t f = 0; f < index->field_count; f++)
        if (strcmp(index->fields[f], "json") == 0)
            crew.field = (int64_t)f;
    crew.chunk_count = (index->sample_count + CHUNK - 1) / CHUNK;
    crew.chunks = calloc(crew.chunk_count + 1, sizeof *crew.chunks);
    fault = crew.chunks ? reader_open(&crew.reader, index, 0, direct) : -ENOMEM;
    if (!fault)
        fault = work_on_all(&crew);
    if (!fault)
        fault = join(&crew, texts, bytes);
    for (uint64_t i = 0; crew.chunks && i < crew.chunk_count; i++)
        free(crew.chunks[i].texts);
    free(crew.chunks);
    reader_close(crew.reader);
    return fault;
}

int json_labels_apply(struct index *index, const char *key, enum reader_direct direct)
{
    char *texts = NULL;
    size_t bytes = 0;
    int fault = json_saved_load(index, key, &texts);

    if (fault == -ENOENT) {
        fault = read_all(index, key, direct, &texts, &bytes);
        if (!fault)
            json_saved_keep(index, key, texts, bytes);
    }
    if (fault) {
        free(texts);
        if (fault == -EIO)
            report_error("label=json:%s: the json members cannot be read", key);
        return fault;
    }
    index_drop_texts(index);
    index->class_texts = texts;
    return 0;
}
