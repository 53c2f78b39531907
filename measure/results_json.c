/* JSON of results. A figure that there is none of is null. */
#include "results_json.h"

#include "../core/text.h"
#include "../core/version.h"

#include <limits.h>
#include <math.h>

static json_t *number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *count(double value)
{
    return isfinite(value) ? json_integer((json_int_t)value) : json_null();
}

static json_t *name(const char *text)
{
    char printable[PATH_MAX + 16];

    return json_string(text_name(printable, sizeof printable, text));
}

static json_t *machine_to_json(const struct machine *machine)
{
    return json_pack("{s:s, s:i, s:I, s:s, s:f}", "cpu", machine->cpu, "cores", machine->cores,
                     "memory_bytes", (json_int_t)machine->memory_bytes, "kernel", machine->kernel,
                     "load_average", machine->load);
}

static json_t *options_to_json(const struct read_options *options)
{
    char split[SPLIT_TEXT];
    json_t *root;

    split_print(&options->split, split);
    root = json_pack("{s:I, s:I, s:b, s:s, s:s, s:b, s:b, s:b, s:b, s:I}", "rounds",
                     (json_int_t)options->rounds, "warm_up", (json_int_t)options->warm_up, "cold",
                     options->cold, "order", options->order == SOURCE_AT_RANDOM ? "random" : "name",
                     "split", split, "processes", options->processes, "at_once", options->at_once,
                     "fixed", options->fixed, "count_listing", options->count_listing, "seed",
                     (json_int_t)options->seed);
    json_object_set_new(root, "busy", json_boolean(options->busy));
    json_object_set_new(root, "work_s", json_real((double)options->work_ns / 1e9));
    return root;
}

static json_t *source_to_json(const struct source *source)
{
    char system[64];

    machine_file_system(system, sizeof system, source->path);
    return json_pack("{s:o, s:o, s:s, s:I, s:s}", "path", name(source->given), "reads",
                     name(source->path), "kind", source_kind_name(source->kind), "names",
                     (json_int_t)source->count, "file_system", system);
}

static json_t *parts_to_json(const double *parts, unsigned part_count)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < part_count; i++)
        json_array_append_new(list, number(parts[i]));
    return list;
}

static json_t *spread_to_json(struct spread spread)
{
    return json_pack("{s:o, s:o, s:o}", "median", number(spread.median), "least",
                     number(spread.least), "most", number(spread.most));
}

static json_t *round_to_json(const double *round, unsigned parts)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "samples",
                     count(round[FIGURE_SAMPLES]), "bytes", count(round[FIGURE_BYTES]), "errors",
                     count(round[FIGURE_ERRORS]), "list_s", number(round[FIGURE_LIST_S]), "read_s",
                     number(round[FIGURE_READ_S]), "samples_per_s",
                     number(round[FIGURE_SAMPLES_PER_S]), "bytes_per_s",
                     number(round[FIGURE_BYTES_PER_S]), "wait_share",
                     number(round[FIGURE_WAIT_SHARE]), "wait_share_later",
                     number(round[FIGURE_WAIT_SHARE_LATER]), "parts_samples_per_s",
                     parts_to_json(round + FIGURE_PARTS, parts));
}

static void add_medians(json_t *root, const struct result *result, unsigned parts)
{
    static const struct {
        const char *key;
        enum figure figure;
    } figures[] = {
        {"list_s", FIGURE_LIST_S},
        {"read_s", FIGURE_READ_S},
        {"samples_per_s", FIGURE_SAMPLES_PER_S},
        {"bytes_per_s", FIGURE_BYTES_PER_S},
        {"wait_share", FIGURE_WAIT_SHARE},
        {"wait_share_later", FIGURE_WAIT_SHARE_LATER},
    };
    double medians[READING_PARTS_MAX];

    json_object_set_new(root, "samples", count(result_spread(result, FIGURE_SAMPLES).median));
    json_object_set_new(root, "bytes", count(result_spread(result, FIGURE_BYTES).median));
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        json_object_set_new(root, figures[i].key,
                            number(result_spread(result, figures[i].figure).median));
    for (unsigned i = 0; i < parts; i++)
        medians[i] = result_spread(result, FIGURE_PARTS + i).median;
    json_object_set_new(root, "parts_samples_per_s", parts_to_json(medians, parts));
}

static void add_latency(json_t *root, const struct histogram *latency)
{
    static const struct {
        const char *key;
        double quantile;
    } quantiles[] = {{"p50_us", 0.5}, {"p90_us", 0.9}, {"p99_us", 0.99}, {"p999_us", 0.999}};

    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
        double us = (double)histogram_quantile(latency, quantiles[i].quantile) / 1e3;
        json_object_set_new(root, quantiles[i].key, number(latency->count ? us : NAN));
    }
    json_object_set_new(root, "max_us", number(latency->count ? (double)latency->most / 1e3 : NAN));
}

static json_t *result_to_json(const struct results *results, const struct result *result,
                              unsigned parts)
{
    size_t step = (size_t)(result - results->items) / results->each;
    json_t *root = json_object(), *rounds = json_array();
    double errors = 0;

    for (size_t i = 0; i < result->round_count; i++) {
        errors += result->rounds[i][FIGURE_ERRORS];
        json_array_append_new(rounds, round_to_json(result->rounds[i], parts));
    }
    json_object_set_new(root, "path", result->source ? name(result->source->given) : json_null());
    json_object_set_new(root, "readers", json_integer(result->readers));
    json_object_set_new(root, "errors", count(errors));
    add_medians(root, result, parts);
    add_latency(root, &result->latency);
    if (result->source)
        json_object_set_new(
            root, "ratio",
            spread_to_json(result_ratio(result, results_at(results, step, results->baseline),
                                        FIGURE_SAMPLES_PER_S)));
    else
        json_object_set_new(root, "slowest_to_fastest",
                            spread_to_json(result_spread(result, FIGURE_SLOWEST_FASTEST)));
    json_object_set_new(root, "rounds", rounds);
    return root;
}

json_t *results_to_json(const struct read_options *options, const struct machine *machine,
                        const struct results *results)
{
    json_t *root = json_object(), *paths = json_array(), *list = json_array();
    unsigned parts = options->parts > 1 ? options->parts : 0;

    for (size_t i = 0; i < results->source_count; i++)
        json_array_append_new(paths, source_to_json(results->items[i].source));
    for (size_t i = 0; i < results->count; i++)
        json_array_append_new(list, result_to_json(results, &results->items[i], parts));
    json_object_set_new(root, "version", json_string(SHUFFLEFS_VERSION));
    json_object_set_new(root, "machine", machine_to_json(machine));
    json_object_set_new(root, "options", options_to_json(options));
    json_object_set_new(root, "paths", paths);
    json_object_set_new(root, "baseline", json_integer((json_int_t)results->baseline));
    json_object_set_new(root, "results", list);
    return root;
}
