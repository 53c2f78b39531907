/* .control/status: what the mount is and has done, as JSON. Owns nothing; jansson writes the text.
 */
#include "control.h"

#include "../core/version.h"

#include <jansson.h>
#include <string.h>

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *left_out(const struct index *index)
{
    json_t *kinds = json_object();

    for (int p = 0; p < INDEX_PROBLEM_KINDS; p++)
        if (index->problems[p])
            json_object_set_new(kinds, index_problem_name((enum index_problem)p),
                                number(index->problems[p]));
    return kinds;
}

/* Paths may hold any byte, JSON may not: a byte that is no UTF-8 becomes '?'. */
static json_t *path_key_set(json_t *object, const char *path, json_t *value)
{
    if (json_object_set(object, path, value)) {
        char *ascii = strdup(path);
        for (char *c = ascii; c && *c; c++)
            if (*c & 0x80)
                *c = '?';
        if (ascii)
            json_object_set(object, ascii, value);
        free(ascii);
    }
    json_decref(value);
    return object;
}

static json_t *errors(const struct control *control)
{
    const struct index *index = control->dataset->index;
    json_t *shards = json_object();

    for (size_t i = 0; i < index->shard_count; i++)
        if (reader_errors(control->reader, i))
            path_key_set(shards, index->shards[i].path, number(reader_errors(control->reader, i)));
    return shards;
}

static json_t *bad_shards(const struct index *index)
{
    json_t *shards = json_object();

    for (size_t i = 0; i < index->shard_count; i++)
        if (index->shards[i].complaint)
            path_key_set(shards, index->shards[i].path, json_string(index->shards[i].complaint));
    return shards;
}

#define READERS_MOST 64

static json_t *readers(struct readahead *readahead)
{
    struct follow_reader list[READERS_MOST];
    size_t count = readahead ? readahead_readers(readahead, list, READERS_MOST) : 0;
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            array,
            json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "path", list[i].path, "epoch",
                      (json_int_t)list[i].epoch, "rank", (json_int_t)list[i].rank, "world",
                      (json_int_t)list[i].world, "position", (json_int_t)list[i].position, "length",
                      (json_int_t)list[i].length, "samples_per_s", list[i].rate, "idle_s",
                      (double)list[i].idle_ns / 1e9));
    return array;
}

char *status_text(const struct control *control, size_t *bytes)
{
    const struct dataset *dataset = control->dataset;
    const struct config *config = dataset->config;
    const struct index *index = dataset->index;
    struct counters *counters = &control->serve->counters;
    struct readahead *readahead = control->serve->readahead;
    struct readahead_figures ahead = {0};
    json_t *root = json_object();
    char *text, *ended;

    if (readahead)
        ahead = readahead_figures(readahead);
    json_object_set_new(root, "version", json_string(SHUFFLEFS_VERSION));
    json_object_set_new(root, "fingerprint", json_string(dataset->fingerprint));
    json_object_set_new(root, "samples", number(index->sample_count));
    json_object_set_new(root, "members", number(index->member_count));
    json_object_set_new(root, "member_bytes", number(index->bytes));
    json_object_set_new(root, "shards", number(index->shard_count));
    json_object_set_new(root, "left_out", left_out(index));
    json_object_set_new(root, "bad_shards", bad_shards(index));
    json_object_set_new(root, "label", json_string(labels_source_name(dataset->labels.source)));
    json_object_set_new(root, "classes", number(dataset->labels.class_count));
    json_object_set_new(root, "epoch", number(epochs_of_all(control->epochs)));
    json_object_set_new(root, "world", number(config->world));
    json_object_set_new(root, "seed", number(config->order.seed));
    json_object_set_new(root, "order", json_string(order_kind_name(config->order.kind)));
    json_object_set_new(root, "remainder", json_string(plan_remainder_name(config->remainder)));
    json_object_set_new(
        root, "padding",
        number(plan_padding(index->sample_count, config->world, config->remainder)));
    json_object_set_new(
        root, "dropped",
        number(plan_dropped(index->sample_count, config->world, config->remainder)));
    json_object_set_new(root, "readers", readers(readahead));
    json_object_set_new(root, "switches", number(atomic_load(&counters->switches)));
    json_object_set_new(root, "reads", number(atomic_load(&counters->reads)));
    json_object_set_new(root, "bytes", number(atomic_load(&counters->bytes)));
    json_object_set_new(root, "pushed_files", number(ahead.files));
    json_object_set_new(root, "pushed", number(ahead.bytes));
    json_object_set_new(root, "pushed_unread", number(ahead.ahead));
    json_object_set_new(root, "failed_ahead", number(ahead.unread));
    json_object_set_new(root, "refused_writes", number(atomic_load(&counters->refused_writes)));
    json_object_set_new(root, "undone_stores", number(atomic_load(&counters->undone_stores)));
    json_object_set_new(root, "errors", errors(control));
    text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    if (!text)
        return NULL;
    *bytes = strlen(text) + 1;
    ended = realloc(text, *bytes + 1);
    if (!ended) {
        free(text);
        return NULL;
    }
    memcpy(ended + *bytes - 1, "\n", 2);
    return ended;
}
