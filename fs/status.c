/* .control/status: what the mount is and has done, as JSON. Owns nothing; jansson writes the text.
 */
#include "control.h"

#include "memory.h"

#include "../core/clock.h"
#include "../core/version.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
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

/* One reader; its shares are left out while nothing is known of them. */
static json_t *reader(const struct follow_reader *seen)
{
    const struct plan_share *share = &seen->share;
    const struct pace *pace = &seen->pace;
    json_t *object = json_object();

    json_object_set_new(object, "path", json_string(seen->path));
    json_object_set_new(object, "epoch", number(seen->epoch));
    json_object_set_new(object, "rank", number(share->rank));
    json_object_set_new(object, "world", number(share->world));
    if (share->after)
        json_object_set_new(object, "after", number(share->after));
    if (share->parts) {
        json_object_set_new(object, "part", number(share->part));
        json_object_set_new(object, "parts", number(share->parts));
        json_object_set_new(object, "by", number(share->run));
    }
    json_object_set_new(object, "position", number(seen->position));
    json_object_set_new(object, "length", number(seen->length));
    json_object_set_new(object, "samples_per_s", json_real(pace->samples_per_s));
    json_object_set_new(object, "bytes_per_s", json_real(pace->bytes_per_s));
    json_object_set_new(object, "in_order", json_boolean(seen->in_order));
    json_object_set_new(object, "idle_s", json_real((double)seen->idle_ns / 1e9));
    if (pace->hit_rate >= 0)
        json_object_set_new(object, "hit_rate", json_real(pace->hit_rate));
    json_object_set_new(object, "wait_share", json_real(pace->wait_share));
    return object;
}

static json_t *readers(struct readahead *readahead)
{
    struct follow_reader list[READERS_MOST];
    size_t count = readahead ? readahead_readers(readahead, list, READERS_MOST) : 0;
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, reader(&list[i]));
    return array;
}

static json_t *read_latency(const struct latency *latency)
{
    json_t *object = json_object(), *buckets = json_array();

    json_object_set_new(object, "p50_us", json_real(latency_percentile_us(latency, 0.5)));
    json_object_set_new(object, "p90_us", json_real(latency_percentile_us(latency, 0.9)));
    json_object_set_new(object, "p99_us", json_real(latency_percentile_us(latency, 0.99)));
    json_object_set_new(object, "max_us", json_real((double)atomic_load(&latency->most_ns) / 1e3));
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        uint64_t count = atomic_load(&latency->counts[i]);
        if (count)
            json_array_append_new(buckets, json_pack("{s:f, s:I}", "below_us", latency_below_us(i),
                                                     "reads", (json_int_t)count));
    }
    json_object_set_new(object, "buckets", buckets);
    return object;
}

static json_t *storage(const struct reader_figures *figures)
{
    return json_pack("{s:I, s:I, s:I, s:f, s:I}", "reads", (json_int_t)figures->reads, "bytes",
                     (json_int_t)figures->bytes, "direct_reads", (json_int_t)figures->direct_reads,
                     "seconds", (double)figures->ns / 1e9, "failed", (json_int_t)figures->failed);
}

/* Null with other orders. */
static json_t *blocks(const struct blocks *cut, const struct reader_figures *figures)
{
    if (!cut->count)
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "count", (json_int_t)cut->count, "read",
                     (json_int_t)figures->blocks_read, "through_page_cache",
                     (json_int_t)figures->blocks_beside, "held_bytes",
                     (json_int_t)figures->block_bytes, "held_limit",
                     (json_int_t)figures->block_limit);
}

/* Of this many files pushed, one read again is worth a warning. */
#define LOST_SHARE 20

static json_t *warnings(const struct control *control, const struct readahead_figures *ahead)
{
    json_t *array = json_array();
    char text[256];

    if (control->dataset->uneven)
        json_array_append_new(array,
                              json_string("samples differ in their fields: a path of one epoch may "
                                          "be missing in the next; fields= mends that"));
    if (control->serve->blocks_warning[0])
        json_array_append_new(array, json_string(control->serve->blocks_warning));
    if (ahead->follow.repeated) {
        snprintf(text, sizeof text,
                 "an epoch was read again, %llu time%s: was .control written between epochs?",
                 (unsigned long long)ahead->follow.repeated,
                 ahead->follow.repeated == 1 ? "" : "s");
        json_array_append_new(array, json_string(text));
    }
    if (ahead->follow.lost > ahead->files / LOST_SHARE + LOST_SHARE) {
        snprintf(text, sizeof text,
                 "memory is short: %llu files were dropped from the page cache before they were "
                 "read again; this process may use %llu MiB",
                 (unsigned long long)ahead->follow.lost,
                 (unsigned long long)(memory_limit() >> 20));
        json_array_append_new(array, json_string(text));
    }
    if (ahead->follow.crowded)
        json_array_append_new(array,
                              json_string("so many readers at once that some are not followed: "
                                          "nothing is read ahead for these"));
    if (atomic_load(&control->serve->counters.undone_stores))
        json_array_append_new(array, json_string("somebody stores into samples through a shared "
                                                 "mapping; that is undone"));
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
    struct reader_figures shards = reader_figures(control->reader);
    struct unpack_figures unpacked = unpack_figures(dataset->unpack);
    struct epochs_at at = epochs_of_all(control->epochs);
    json_t *root = json_object();
    char *text, *ended;

    if (readahead)
        ahead = readahead_figures(readahead);
    json_object_set_new(root, "version", json_string(SHUFFLEFS_VERSION));
    json_object_set_new(root, "uptime_s", json_real(clock_now_s() - control->started_s));
    json_object_set_new(root, "fingerprint", json_string(dataset->fingerprint));
    json_object_set_new(root, "samples", number(index->sample_count));
    json_object_set_new(root, "members", number(index->member_count));
    json_object_set_new(root, "member_bytes", number(index->bytes));
    json_object_set_new(root, "shards", number(index->shard_count));
    json_object_set_new(root, "index", index->place ? json_string(index->place) : json_null());
    json_object_set_new(root, "shards_walked", number(index->walked));
    json_object_set_new(root, "left_out", left_out(index));
    json_object_set_new(root, "bad_shards", bad_shards(index));
    json_object_set_new(root, "unpacked_shards", number(unpacked.shards));
    json_object_set_new(root, "unpacked_bytes", number(unpacked.bytes));
    json_object_set_new(root, "label", json_string(dataset->labels.source_text));
    json_object_set_new(root, "classes", number(dataset->labels.class_count));
    json_object_set_new(root, "epoch", number(at.epoch));
    json_object_set_new(root, "after", number(at.after));
    json_object_set_new(root, "world", number(config->world));
    json_object_set_new(root, "seed", number(config->order.seed));
    json_object_set_new(root, "epoch_samples", number(dataset->basis.places));
    json_object_set_new(root, "order", json_string(order_kind_name(config->order.kind)));
    json_object_set_new(root, "remainder",
                        json_string(plan_remainder_name(config->deal.remainder)));
    json_object_set_new(root, "padding",
                        number(plan_padding(dataset->basis.places, config->world, &config->deal)));
    json_object_set_new(root, "dropped",
                        number(plan_dropped(dataset->basis.places, config->world, &config->deal)));
    json_object_set_new(root, "readers", readers(readahead));
    json_object_set_new(root, "switches", number(atomic_load(&counters->switches)));
    json_object_set_new(root, "reads", number(atomic_load(&counters->reads)));
    json_object_set_new(root, "bytes", number(atomic_load(&counters->bytes)));
    json_object_set_new(root, "pushed_files", number(ahead.files));
    json_object_set_new(root, "pushed", number(ahead.bytes));
    json_object_set_new(root, "pushed_unread", number(ahead.follow.ahead));
    json_object_set_new(root, "pushed_limit", number(ahead.limit));
    json_object_set_new(root, "pushed_lost", number(ahead.follow.lost));
    json_object_set_new(root, "failed_ahead", number(shards.failed));
    json_object_set_new(root, "hits", number(ahead.follow.hits));
    json_object_set_new(root, "read_latency", read_latency(&counters->latency));
    json_object_set_new(root, "storage", storage(&shards));
    json_object_set_new(root, "blocks", blocks(&dataset->basis.blocks, &shards));
    json_object_set_new(root, "repeated_epochs", number(ahead.follow.repeated));
    json_object_set_new(root, "refused_writes", number(atomic_load(&counters->refused_writes)));
    json_object_set_new(root, "undone_stores", number(atomic_load(&counters->undone_stores)));
    json_object_set_new(root, "errors", errors(control));
    json_object_set_new(root, "warnings", warnings(control, &ahead));
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
