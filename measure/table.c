/* The table. Columns are as wide as any figure in practice; a longer one moves its line, no more.
 */
#include "table.h"

#include "../core/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void print_machine(FILE *file, const struct machine *machine)
{
    char memory[TEXT_NUMBER];

    text_number(memory, (double)machine->memory_bytes / (1 << 30));
    fprintf(file, "%s, %d core%s, %s GiB, Linux %s; load average %.1f\n", machine->cpu,
            machine->cores, machine->cores == 1 ? "" : "s", memory, machine->kernel, machine->load);
}

static void print_source(FILE *file, size_t number, const struct source *source)
{
    char given[256], path[256], system[64], count[TEXT_NUMBER];

    fprintf(file, "%zu  %s: ", number, text_name(given, sizeof given, source->given));
    if (strcmp(source->given, source->path) != 0 && source->kind == SOURCE_FOLDER)
        fprintf(file, "%s, ", text_name(path, sizeof path, source->path));
    machine_file_system(system, sizeof system, source->path);
    if (source->kind == SOURCE_STREAM)
        fprintf(file, "a stream, %s\n", system);
    else
        fprintf(file, "%s file%s, %s\n", text_count(count, source->count),
                source->count == 1 ? "" : "s", system);
}

static void print_method(FILE *file, const struct read_options *options)
{
    char split[SPLIT_TEXT];

    split_print(&options->split, split);
    fprintf(file, "%u round%s%s, %u warm-up pass%s, %s, %s order, ", options->rounds,
            options->rounds == 1 ? "" : "s", options->at_once ? ", all at once" : " in turn",
            options->warm_up, options->warm_up == 1 ? "" : "es", options->cold ? "cold" : "warm",
            options->order == SOURCE_AT_RANDOM ? "random" : "name");
    fprintf(file, "%s split %s; medians, latencies of all rounds\n",
            options->processes ? "processes," : "threads,", split);
}

static void print_name(FILE *file, const struct results *results, const struct result *result)
{
    size_t index = (size_t)(result - results->items) % results->each;

    if (result->source)
        fprintf(file, "%4zu", index + 1);
    else
        fprintf(file, "%4s", "all");
    fprintf(file, " %7u", result->readers);
}

/* `width` of the range: 0 at a line's end. */
static void print_spread(FILE *file, struct spread spread, int width)
{
    char median[TEXT_NUMBER], least[TEXT_NUMBER], most[TEXT_NUMBER], range[2 * TEXT_NUMBER + 8];

    snprintf(range, sizeof range, "(%s - %s)", text_number(least, spread.least),
             text_number(most, spread.most));
    fprintf(file, " %9s %-*s", text_number(median, spread.median), width, range);
}

static void print_latency(FILE *file, const struct histogram *latency)
{
    static const double quantiles[] = {0.5, 0.9, 0.99, 0.999};
    char text[TEXT_NUMBER];

    for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
        double us = (double)histogram_quantile(latency, quantiles[i]) / 1e3;
        fprintf(file, " %6s", text_number(text, latency->count ? us : NAN));
    }
    fprintf(file, " %7s", text_number(text, latency->count ? (double)latency->most / 1e3 : NAN));
}

static void print_share(FILE *file, double share)
{
    if (isfinite(share))
        fprintf(file, " %6.2f%%", 100 * share);
    else
        fprintf(file, " %7s", "-");
}

static void print_row(FILE *file, const struct read_options *options, const struct results *results,
                      const struct result *result)
{
    char text[TEXT_NUMBER];
    double list_s = result_spread(result, FIGURE_LIST_S).median;
    double errors = 0;

    for (size_t i = 0; i < result->round_count; i++)
        errors += result->rounds[i][FIGURE_ERRORS];
    print_name(file, results, result);
    fprintf(file, " %9s", text_number(text, result_spread(result, FIGURE_SAMPLES).median));
    fprintf(file, " %6s", text_number(text, result_spread(result, FIGURE_BYTES).median / 1e6));
    print_spread(file, result_spread(result, FIGURE_SAMPLES_PER_S), 19);
    fprintf(file, " %6s",
            text_number(text, result_spread(result, FIGURE_BYTES_PER_S).median / 1e6));
    print_latency(file, &result->latency);
    fprintf(file, " %7s", text_number(text, 1e3 * list_s));
    fprintf(file, " %6s", text_number(text, errors));
    if (options->work_ns) {
        print_share(file, result_spread(result, FIGURE_WAIT_SHARE).median);
        print_share(file, result_spread(result, FIGURE_WAIT_SHARE_LATER).median);
    }
    fputc('\n', file);
}

static void print_ratios(FILE *file, const struct results *results)
{
    const struct source *base = results->items[results->baseline].source;
    char given[256];

    fprintf(file, "\nsamples/s divided by those of %zu, %s, round by round\n%4s %7s %9s %s\n",
            results->baseline + 1, text_name(given, sizeof given, base->given), "path", "readers",
            "ratio", "(least - most)");
    for (size_t step = 0; step < results->steps; step++) {
        for (size_t i = 0; i < results->source_count; i++) {
            const struct result *result = results_at(results, step, i);
            if (i == results->baseline)
                continue;
            print_name(file, results, result);
            print_spread(file,
                         result_ratio(result, results_at(results, step, results->baseline),
                                      FIGURE_SAMPLES_PER_S),
                         0);
            fputc('\n', file);
        }
    }
}

static void print_parts(FILE *file, const struct results *results, unsigned parts)
{
    fprintf(file, "\nsamples/s of each part of a pass\n%4s %7s", "path", "readers");
    for (unsigned part = 0; part < parts; part++)
        fprintf(file, " %9u", part + 1);
    fputc('\n', file);
    for (size_t i = 0; i < results->count; i++) {
        print_name(file, results, &results->items[i]);
        for (unsigned part = 0; part < parts; part++) {
            char text[TEXT_NUMBER];
            struct spread spread = result_spread(&results->items[i], FIGURE_PARTS + part);
            fprintf(file, " %9s", text_number(text, spread.median));
        }
        fputc('\n', file);
    }
}

static void print_evenness(FILE *file, const struct results *results)
{
    fprintf(file, "\nslowest path divided by fastest path, read at once\n%12s %9s %s\n", "readers",
            "ratio", "(least - most)");
    for (size_t step = 0; step < results->steps; step++) {
        const struct result *all = results_at(results, step, results->source_count);
        fprintf(file, "%12u", all->readers);
        print_spread(file, result_spread(all, FIGURE_SLOWEST_FASTEST), 0);
        fputc('\n', file);
    }
}

void table_print(FILE *file, const struct read_options *options, const struct machine *machine,
                 const struct results *results)
{
    print_machine(file, machine);
    for (size_t i = 0; i < results->source_count; i++)
        print_source(file, i + 1, results->items[i].source);
    print_method(file, options);
    fprintf(file, "\n%4s %7s %9s %6s %9s %-19s %6s %6s %6s %6s %6s %7s %7s %6s%s\n", "path",
            "readers", "samples", "MB", "samples/s", "(least - most)", "MB/s", "p50 us", "p90",
            "p99", "p99.9", "max", "list ms", "errors", options->work_ns ? "  waited  >0.1 s" : "");
    for (size_t i = 0; i < results->count; i++)
        print_row(file, options, results, &results->items[i]);
    if (options->parts > 1 && !options->list_only)
        print_parts(file, results, options->parts);
    if (results->source_count > 1 && !options->list_only)
        print_ratios(file, results);
    if (options->at_once)
        print_evenness(file, results);
}
