/* The rounds: which path is listed and read when. All sides take turns, so that what else the
 * machine does meets them alike; every other round goes backwards, so that none always follows the
 * same one. */
#include "read.h"

#include "machine.h"
#include "plot.h"
#include "read_options.h"
#include "results.h"
#include "results_json.h"
#include "table.h"

#include "../core/output.h"
#include "../core/report.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DROP_CACHES "/proc/sys/vm/drop_caches"

enum { EXIT_FAULT = 1, EXIT_USAGE = 2 };

struct bench {
    struct read_options options;
    struct source *sources;
    const struct source **all; /* pointers to `sources`, as reading_run() takes them */
    size_t source_count;
    bool *named; /* by source: its first failed file was reported */
    struct results results;
    struct reading *reading;
    struct reading_request request; /* but for `readers` */
    bool progress;                  /* on a terminal */
};

static int drop_caches(void)
{
    int file, fault = 0;

    sync(); /* Dirty pages cannot be dropped. */
    file = open(DROP_CACHES, O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, "3\n", 2) < 0)
        fault = -errno;
    if (file >= 0)
        close(file);
    if (fault)
        report_error("--cold: %s: %s", DROP_CACHES, strerror(-fault));
    return fault;
}

static void show_progress(const struct bench *bench, const char *what, unsigned round,
                          unsigned rounds)
{
    if (bench->progress)
        fprintf(stderr, "\r\033[K%s %u of %u", what, round, rounds);
}

static void end_progress(const struct bench *bench)
{
    if (bench->progress)
        fputs("\r\033[K", stderr);
}

static void report_failure(const struct reading_tally *tally)
{
    const struct members_cut *cut = &tally->cut;

    if (cut->lacks)
        report_error("%s: cut short: it ends at offset %llu, and %llu more byte%s %s expected of "
                     "the %s at offset %llu",
                     tally->failed, (unsigned long long)cut->offset, (unsigned long long)cut->lacks,
                     cut->lacks == 1 ? "" : "s", cut->lacks == 1 ? "was" : "were",
                     cut->header ? "header" : "member", (unsigned long long)cut->member);
    else
        report_error("%s: %s", tally->failed, strerror(tally->failure));
}

/* Names a source's first failed file, once. */
static void name_failure(struct bench *bench, size_t source, size_t pass_source, unsigned readers)
{
    for (unsigned r = 0; r < readers && !bench->named[source]; r++) {
        const struct reading_tally *tally = reading_tally(bench->reading, pass_source, r);
        if (tally->errors) {
            end_progress(bench);
            report_failure(tally);
            bench->named[source] = true;
        }
    }
}

/* Lists `count` sources (unless they are fixed) and reads them at the same time. */
static int one_pass(struct bench *bench, size_t first, size_t count, unsigned readers)
{
    const struct read_options *options = &bench->options;
    int fault = options->cold ? drop_caches() : 0;

    for (size_t i = first; !fault && !options->fixed && i < first + count; i++)
        fault = source_list(&bench->sources[i], options->order, options->seed);
    if (fault || options->list_only)
        return fault;
    bench->request.readers = readers;
    fault = reading_run(bench->reading, bench->all + first, count, &bench->request);
    if (fault) {
        report_error("%zu reader%s: %s", count * readers, count * readers == 1 ? "" : "s",
                     strerror(-fault));
        return fault;
    }
    for (size_t i = 0; i < count; i++)
        name_failure(bench, first + i, i, readers);
    return 0;
}

static int pass_at_once(struct bench *bench, size_t step)
{
    struct result *first = results_at(&bench->results, step, 0);
    int fault = one_pass(bench, 0, bench->source_count, first->readers);

    if (fault)
        return fault;
    for (size_t i = 0; i < bench->source_count; i++)
        result_add_round(first + i, bench->reading, i, false);
    result_add_round_of_all(first + bench->source_count, first, bench->source_count,
                            bench->reading);
    return 0;
}

static int pass_alone(struct bench *bench, size_t step, size_t source)
{
    struct result *result = results_at(&bench->results, step, source);
    int fault = one_pass(bench, source, 1, result->readers);

    if (fault)
        return fault;
    if (bench->options.list_only)
        result_add_listing(result);
    else
        result_add_round(result, bench->reading, 0, bench->options.count_listing);
    return 0;
}

static int one_round(struct bench *bench, unsigned round)
{
    size_t steps = bench->options.steps, count = bench->source_count;
    int fault = 0;

    for (size_t s = 0; !fault && s < steps; s++) {
        size_t step = round % 2 ? steps - 1 - s : s;
        if (bench->options.at_once)
            fault = pass_at_once(bench, step);
        for (size_t i = 0; !fault && !bench->options.at_once && i < count; i++)
            fault = pass_alone(bench, step, round % 2 ? count - 1 - i : i);
    }
    return fault;
}

static int warm_up(struct bench *bench)
{
    const struct read_options *options = &bench->options;
    unsigned readers = options->readers[0];
    int fault = 0;

    for (unsigned pass = 0; !fault && pass < options->warm_up; pass++) {
        show_progress(bench, "warm-up pass", pass + 1, options->warm_up);
        if (options->at_once)
            fault = one_pass(bench, 0, bench->source_count, readers);
        for (size_t i = 0; !fault && !options->at_once && i < bench->source_count; i++)
            fault = one_pass(bench, i, 1, readers);
    }
    return fault;
}

static int measure(struct bench *bench)
{
    int fault = warm_up(bench);

    for (unsigned round = 0; !fault && round < bench->options.rounds; round++) {
        show_progress(bench, "round", round + 1, bench->options.rounds);
        fault = one_round(bench, round);
    }
    end_progress(bench);
    return fault;
}

static size_t readers_most(const struct bench *bench)
{
    unsigned most = 0;

    for (size_t i = 0; i < bench->options.steps; i++)
        if (bench->options.readers[i] > most)
            most = bench->options.readers[i];
    return most * (bench->options.at_once ? bench->source_count : 1);
}

static int open_sources(struct bench *bench)
{
    const struct read_options *options = &bench->options;
    int fault = 0;

    bench->source_count = options->path_count;
    bench->sources = calloc(bench->source_count, sizeof *bench->sources);
    bench->all = calloc(bench->source_count, sizeof *bench->all);
    bench->named = calloc(bench->source_count, sizeof *bench->named);
    if (!bench->sources || !bench->all || !bench->named) {
        report_error("%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    for (size_t i = 0; !fault && i < bench->source_count; i++) {
        bench->all[i] = &bench->sources[i];
        fault = source_open(&bench->sources[i], options->paths[i]);
        if (!fault && options->fixed)
            fault = source_list(&bench->sources[i], options->order, options->seed);
    }
    return fault;
}

/* A stream has no samples to deal before it is read. True: usage is right. */
static bool check_streams(const struct bench *bench)
{
    const struct read_options *options = &bench->options;

    for (size_t i = 0; i < bench->source_count; i++) {
        if (bench->sources[i].kind != SOURCE_STREAM || options->split.kind == SPLIT_EACH)
            continue;
        for (size_t step = 0; step < options->steps; step++) {
            if (options->readers[step] > 1) {
                report_error("%s: one stream cannot be shared by %u readers; --split each lets "
                             "every reader read all of it",
                             bench->sources[i].given, options->readers[step]);
                return false;
            }
        }
    }
    return true;
}

static int open_all(struct bench *bench)
{
    const struct read_options *options = &bench->options;
    int fault;

    bench->progress = isatty(STDERR_FILENO);
    bench->request = (struct reading_request){.split = options->split,
                                              .samples_most = options->samples_most,
                                              .ns_most = options->ns_most,
                                              .work_ns = options->work_ns,
                                              .busy = options->busy,
                                              .parts = options->parts,
                                              .processes = options->processes};
    fault = results_open(&bench->results, bench->sources, bench->source_count, options->readers,
                         options->steps, options->rounds, options->at_once);
    bench->results.baseline = options->baseline;
    if (!fault)
        fault = reading_open(&bench->reading, readers_most(bench));
    if (fault)
        report_error("%zu reader%s: %s", readers_most(bench), readers_most(bench) == 1 ? "" : "s",
                     strerror(-fault));
    return fault;
}

static int print_json(const struct bench *bench, const struct machine *machine)
{
    json_t *root = results_to_json(&bench->options, machine, &bench->results);
    int fault = 0;

    if (!root || (json_dumpf(root, stdout, JSON_COMPACT) && !ferror(stdout))) {
        fault = -ENOMEM;
        report_error("--json: %s", strerror(ENOMEM));
    }
    putchar('\n');
    json_decref(root);
    return fault;
}

static int print(const struct bench *bench, const struct machine *machine)
{
    int fault = 0;

    if (bench->options.json)
        fault = print_json(bench, machine);
    else
        table_print(stdout, &bench->options, machine, &bench->results);
    return fault ? fault : output_end();
}

/* Fills `series` and the points behind it: steps a source. */
static void fill_series(const struct results *results, struct plot_series *series,
                        struct plot_point *points)
{
    for (size_t i = 0; i < results->each; i++) {
        struct plot_series *line = &series[i];
        const struct source *source = results_at(results, 0, i)->source;
        line->name = source ? source->given : "all";
        line->points = points + i * results->steps;
        for (size_t step = 0; step < results->steps; step++) {
            const struct result *result = results_at(results, step, i);
            struct spread spread = result_spread(result, FIGURE_SAMPLES_PER_S);
            if (isfinite(spread.median))
                points[i * results->steps + line->count++] = (struct plot_point){
                    result->readers, spread.median, spread.least, spread.most};
        }
    }
}

static int plot(const struct results *results, const char *path)
{
    struct plot_series *series = calloc(results->each, sizeof *series);
    struct plot_point *points = calloc(results->count, sizeof *points);
    FILE *file = series && points ? fopen(path, "we") : NULL;
    int fault = file ? 0 : -errno;

    if (file) {
        fill_series(results, series, points);
        plot_write(file, &(struct plot){.title = "shufflefs-bench read",
                                        .x_title = "readers",
                                        .y_title = "samples/s",
                                        .series = series,
                                        .count = results->each});
        if (ferror(file))
            fault = -EIO;
        if (fclose(file) && !fault)
            fault = -errno;
    }
    if (fault)
        report_error("--svg %s: %s", path, strerror(-fault));
    free(points);
    free(series);
    return fault;
}

/* True when all that was asked for was read; reports what was not. */
static bool all_read(const struct bench *bench)
{
    const struct results *results = &bench->results;
    bool read = true;

    for (size_t i = 0; i < results->count; i++) {
        const struct result *result = &results->items[i];
        double samples = 0, errors = 0;
        for (size_t k = 0; k < result->round_count; k++) {
            samples += result->rounds[k][FIGURE_SAMPLES];
            errors += result->rounds[k][FIGURE_ERRORS];
        }
        if (result->source && samples == 0 && errors == 0)
            report_error("%s: nothing to read", result->source->given);
        read = read && samples > 0 && errors == 0;
    }
    return read;
}

static int run(struct bench *bench)
{
    struct machine machine;

    machine_look(&machine); /* now: later, the load average is our own */
    if (bench->options.cold && (geteuid() != 0 || access(DROP_CACHES, W_OK) < 0)) {
        report_error("--cold: dropping the kernel's caches needs root");
        return EXIT_FAULT;
    }
    if (open_sources(bench))
        return EXIT_FAULT;
    if (!check_streams(bench))
        return EXIT_USAGE;
    if (open_all(bench) || measure(bench) || print(bench, &machine))
        return EXIT_FAULT;
    if (bench->options.svg && plot(&bench->results, bench->options.svg))
        return EXIT_FAULT;
    return all_read(bench) ? 0 : EXIT_FAULT;
}

static void close_all(struct bench *bench)
{
    results_close(&bench->results);
    reading_close(bench->reading);
    for (size_t i = 0; bench->sources && i < bench->source_count; i++)
        source_close(&bench->sources[i]);
    free(bench->named);
    free(bench->all);
    free(bench->sources);
}

int read_command(int count, char **arguments)
{
    struct bench bench = {0};
    int code;

    if (!read_options_parse(&bench.options, count, arguments))
        return EXIT_USAGE;
    if (bench.options.help) {
        read_options_help();
        return output_end() ? EXIT_FAULT : 0;
    }
    code = run(&bench);
    close_all(&bench);
    return code;
}
