/* From the status's JSON to figures. Owns the parsed JSON of its snapshots. */
#include "snapshot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A slow reader whose files are cached is met at every 256th position only. */
#define MET_EVERY 256
#define IDLE_S    5

int snapshot_parse(struct snapshot *snapshot, const char *text, size_t size, double at)
{
    *snapshot = (struct snapshot){.root = json_loadb(text, size, 0, NULL), .at = at};
    if (json_is_object(snapshot->root))
        return 0;
    snapshot_close(snapshot);
    return -EINVAL;
}

void snapshot_close(struct snapshot *snapshot)
{
    json_decref(snapshot->root);
    *snapshot = (struct snapshot){0};
}

static double number(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

double snapshot_number(const struct snapshot *snapshot, const char *key)
{
    const char *dot = strchr(key, '.');
    char object[32];

    if (!dot)
        return number(json_object_get(snapshot->root, key));
    if ((size_t)(dot - key) >= sizeof object)
        return NAN;
    memcpy(object, key, (size_t)(dot - key));
    object[dot - key] = '\0';
    return snapshot_member(snapshot, object, dot + 1);
}

const char *snapshot_text(const struct snapshot *snapshot, const char *key)
{
    return json_string_value(json_object_get(snapshot->root, key));
}

double snapshot_sum(const struct snapshot *snapshot, const char *key)
{
    json_t *object = json_object_get(snapshot->root, key), *value;
    double sum = json_is_object(object) ? 0 : NAN;
    const char *member;

    json_object_foreach(object, member, value) if (json_is_number(value))
        sum += json_number_value(value);
    return sum;
}

double snapshot_member(const struct snapshot *snapshot, const char *key, const char *member)
{
    return number(json_object_get(json_object_get(snapshot->root, key), member));
}

/* Counts only grow while a mount lives. */
static bool is_restarted(const struct snapshot *before, const struct snapshot *now)
{
    static const char *const growing[] = {"uptime_s", "reads", "bytes", "pushed_files", "pushed"};
    const char *print = snapshot_text(before, "fingerprint");
    const char *print_now = snapshot_text(now, "fingerprint");

    if (print && print_now && strcmp(print, print_now) != 0)
        return true;
    for (size_t i = 0; i < sizeof growing / sizeof *growing; i++)
        if (snapshot_number(now, growing[i]) < snapshot_number(before, growing[i]))
            return true;
    return false;
}

/* By how much the count grew; without `before`, since the mount was made. */
static double growth(const struct snapshot *before, const struct snapshot *now, const char *key)
{
    double more = snapshot_number(now, key) - (before ? snapshot_number(before, key) : 0);

    return more >= 0 ? more : NAN;
}

static double divide(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

/* From 0 to 1: the counts of a status are not all of one moment. NAN stays. */
static double share(double value)
{
    return value < 0 ? 0 : value > 1 ? 1 : value;
}

struct rates snapshot_rates(const struct snapshot *before, const struct snapshot *now)
{
    struct rates rates = {.restarted = before && is_restarted(before, now)};
    bool told = !rates.restarted;
    double seconds = before && told ? now->at - before->at : NAN;
    double missing = told ? 0 : NAN; /* added to what only one and the same mount can tell */
    double reads = growth(before, now, "reads"), hits = growth(before, now, "hits");
    double storage_reads = growth(before, now, "storage.reads");

    rates.interval_s = seconds;
    rates.reads_per_s = divide(reads, seconds);
    rates.bytes_per_s = divide(growth(before, now, "bytes"), seconds);
    rates.hit_rate = share(divide(hits, hits + reads)) + missing;
    rates.storage_reads_per_s = divide(storage_reads, seconds);
    rates.storage_bytes_per_s = divide(growth(before, now, "storage.bytes"), seconds);
    rates.storage_direct_share = share(divide(growth(before, now, "storage.direct_reads"),
                                              storage_reads)) +
                                 missing;
    rates.storage_read_us = divide(growth(before, now, "storage.seconds") * 1e6, storage_reads) +
                            missing;
    rates.pushed_files_per_s = divide(growth(before, now, "pushed_files"), seconds);
    rates.pushed_bytes_per_s = divide(growth(before, now, "pushed"), seconds);
    rates.pushed_lost = growth(before, now, "pushed_lost") + missing;
    rates.failed_ahead = growth(before, now, "failed_ahead") + missing;
    rates.storage_failed = growth(before, now, "storage.failed") + missing;
    rates.errors = snapshot_sum(now, "errors") - (before ? snapshot_sum(before, "errors") : 0) +
                   missing;
    return rates;
}

static double reader_number(const json_t *reader, const char *key)
{
    return number(json_object_get(reader, key));
}

static bool is_same(const json_t *one, const json_t *other)
{
    static const char *const keys[] = {"path", "epoch", "rank", "world"};

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_equal(json_object_get(one, keys[i]), json_object_get(other, keys[i])) &&
            (json_object_get(one, keys[i]) || json_object_get(other, keys[i])))
            return false;
    return true;
}

/* Positions a second by two snapshots, for a status that does not tell. */
static double derived_rate(const struct snapshot *before, const struct snapshot *now,
                           const json_t *reader)
{
    json_t *earlier;
    size_t i;

    if (!before || is_restarted(before, now))
        return NAN;
    json_array_foreach(json_object_get(before->root, "readers"), i,
                       earlier) if (is_same(earlier, reader))
    {
        double passed = reader_number(reader, "position") - reader_number(earlier, "position");
        return passed >= 0 ? divide(passed, now->at - before->at) : NAN;
    }
    return NAN;
}

static struct top_reader describe(const struct snapshot *before, const struct snapshot *now,
                                  const json_t *value)
{
    const char *path = json_string_value(json_object_get(value, "path"));
    struct top_reader reader = {
        .value = value,
        .path = path ? path : "-",
        .epoch = reader_number(value, "epoch"),
        .position = reader_number(value, "position"),
        .length = reader_number(value, "length"),
        .samples_per_s = reader_number(value, "samples_per_s"),
        .bytes_per_s = reader_number(value, "bytes_per_s"),
        .idle_s = reader_number(value, "idle_s"),
        .hit_rate = share(reader_number(value, "hit_rate")),
        .wait_share = reader_number(value, "wait_share"),
        .random = json_is_false(json_object_get(value, "in_order")),
    };
    double left;

    if (isnan(reader.samples_per_s))
        reader.samples_per_s = derived_rate(before, now, value);
    /* `position` is the last one met, counted from 0. */
    reader.progress = share(divide(reader.position + 1, reader.length));
    left = reader.length - reader.position - 1;
    reader.eta_s = left <= 0 ? 0 : divide(left, reader.samples_per_s);
    reader.idle = reader.idle_s > IDLE_S &&
                  !(reader.idle_s * reader.samples_per_s < 4 * MET_EVERY &&
                    reader.samples_per_s > 0);
    if (reader.random)
        reader.progress = reader.eta_s = NAN;
    return reader;
}

static int compare_readers(const void *one, const void *other)
{
    const struct top_reader *a = one, *b = other;
    int by_path = strverscmp(a->path, b->path);

    if (a->idle != b->idle)
        return a->idle ? 1 : -1;
    return by_path ? by_path : (a->epoch > b->epoch) - (a->epoch < b->epoch);
}

size_t snapshot_readers(const struct snapshot *before, const struct snapshot *now,
                        struct top_reader **readers)
{
    json_t *array = json_object_get(now->root, "readers"), *value;
    size_t i, count = json_array_size(array), used = 0;

    *readers = count ? calloc(count, sizeof **readers) : NULL;
    if (!*readers)
        return 0;
    json_array_foreach(array, i, value) if (json_is_object(value))(*readers)[used++] = describe(
        before, now, value);
    qsort(*readers, used, sizeof **readers, compare_readers);
    return used;
}

static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *rates_to_json(const struct rates *rates)
{
    const struct {
        const char *key;
        double value;
    } figures[] = {
        {"reads_per_s", rates->reads_per_s},
        {"bytes_per_s", rates->bytes_per_s},
        {"hit_rate", rates->hit_rate},
        {"storage_reads_per_s", rates->storage_reads_per_s},
        {"storage_bytes_per_s", rates->storage_bytes_per_s},
        {"storage_direct_share", rates->storage_direct_share},
        {"storage_read_us", rates->storage_read_us},
        {"storage_failed", rates->storage_failed},
        {"pushed_files_per_s", rates->pushed_files_per_s},
        {"pushed_bytes_per_s", rates->pushed_bytes_per_s},
        {"pushed_lost", rates->pushed_lost},
        {"failed_ahead", rates->failed_ahead},
        {"errors", rates->errors},
    };
    json_t *object = json_object();

    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_object_set_new(object, figures[i].key, real(figures[i].value));
    return object;
}

json_t *snapshot_to_json(const struct snapshot *before, const struct snapshot *now,
                         const char *mount)
{
    struct rates rates = snapshot_rates(before, now);
    struct top_reader *readers;
    size_t count = snapshot_readers(before, now, &readers);
    json_t *list = json_array(), *object = rates_to_json(&rates), *name = json_string(mount);

    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            list, json_pack("{s:s, s:O?, s:O?, s:O?, s:o, s:o, s:o}", "path", readers[i].path,
                            "epoch", json_object_get(readers[i].value, "epoch"), "rank",
                            json_object_get(readers[i].value, "rank"), "world",
                            json_object_get(readers[i].value, "world"), "progress",
                            real(readers[i].progress), "samples_per_s",
                            real(readers[i].samples_per_s), "eta_s", real(readers[i].eta_s)));
    free(readers);
    json_object_set_new(object, "readers", list);
    /* A path that is no UTF-8 cannot stand in JSON. */
    return json_pack("{s:o, s:o, s:b, s:o, s:O}", "mount", name ? name : json_null(), "interval_s",
                     real(rates.interval_s), "restarted", rates.restarted, "rates", object,
                     "status", now->root);
}
