/* The rounds of `shufflefs-bench load`: paths and numbers of workers take turns, so that what else
 * the machine does meets them alike; every other round goes backwards. */
#include "load.h"

#include "load_options.h"
#include "load_results.h"
#include "machine.h"
#include "plot.h"

#include "../core/clock.h"
#include "../core/output.h"
#include "../core/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { EXIT_FAULT = 1, EXIT_USAGE = 2 };

static double cpu_now(void)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void fill_stages(struct load_pass *pass, const struct sl_stats *stats)
{
    const uint64_t ns[LOAD_STAGES] = {
        [LOAD_WAIT_STORAGE] = stats->wait_storage_ns,
        [LOAD_READ] = stats->read_ns,
        [LOAD_DECODE] = stats->decode_ns,
        [LOAD_RESIZE] = stats->resize_ns,
        [LOAD_NORMALISE] = stats->normalise_ns,
        [LOAD_OTHER] = stats->other_ns,
        [LOAD_WAIT_CONSUMER] = stats->wait_consumer_ns,
        [LOAD_IDLE] = stats->idle_ns,
    };

    for (int stage = 0; stage < LOAD_STAGES; stage++)
        pass->stages[stage] = (double)ns[stage] / 1e9;
    pass->workers_seconds = (double)stats->workers_ns / 1e9;
    pass->bytes = (double)stats->bytes;
    pass->bad = (double)stats->bad;
    pass->device_decoded = (double)stats->device_decoded;
    pass->fallbacks = (double)stats->fallbacks;
}

/* One epoch through a loader of its own: what sl_open() takes is timed apart. */
static int one_pass(const struct load_options *options, const char *path, int workers,
                    uint64_t epoch, struct load_pass *pass, int *workers_used)
{
    struct sl_config config = options->config;
    struct sl_stats stats = {.size = sizeof stats};
    struct sl_loader *loader;
    struct sl_batch *batch;
    double start = clock_now_s(), cpu, fed;
    int status;

    *pass = (struct load_pass){0};
    config.path = path;
    config.workers = workers;
    config.epoch += epoch;
    if (options->stream)
        config.source = SL_SOURCE_MOUNT_TAR;
    status = sl_open(&loader, &config);
    if (status) {
        report_error("%s", sl_error(NULL));
        return status;
    }
    pass->open_seconds = clock_now_s() - start;
    start = clock_now_s();
    cpu = cpu_now();
    while ((status = sl_next(loader, &batch, -1)) == 0 || status == SL_PARTIAL) {
        pass->samples += (double)batch->count;
        pass->batches++;
        pass->device = batch->device;
        status = sl_batch_wait(batch, SL_STREAM_HOST); /* on a GPU it counts once it is there */
        sl_release(loader, batch);
        if (status < 0)
            break;
        if (pass->samples >= (double)options->samples_most ||
            (clock_now_s() - start) * 1e9 >= (double)options->ns_most)
            break;
    }
    pass->seconds = clock_now_s() - start;
    pass->cpu_seconds = cpu_now() - cpu;
    pass->core_wait_seconds = machine_core_wait("sl-worker");
    if (pass->core_wait_seconds >= 0 && (fed = machine_core_wait("sl-feeder")) > 0)
        pass->core_wait_seconds += fed;
    sl_stats(loader, &stats);
    fill_stages(pass, &stats);
    *workers_used = (int)stats.workers;
    if (status < 0)
        report_error("%s", sl_error(loader));
    else if (stats.bad)
        report_warning("%s", stats.last_bad);
    sl_close(loader);
    return status < 0 ? status : 0;
}

static int measure(const struct load_options *options, struct load_result *results)
{
    size_t count = options->path_count * options->steps;
    bool progress = isatty(STDERR_FILENO);
    int error = 0;

    for (unsigned round = 0; !error && round < options->warm_up + options->rounds; round++)
        for (size_t i = 0; !error && i < count; i++) {
            size_t at = round % 2 ? count - 1 - i : i;
            struct load_result *result = &results[at];
            struct load_pass pass;

            if (progress)
                fprintf(stderr, "\r\033[Kround %u of %u, %zu of %zu", round + 1,
                        options->warm_up + options->rounds, i + 1, count);
            error = one_pass(options, result->path, options->workers[at % options->steps], round,
                             &pass, &result->workers);
            if (round >= options->warm_up)
                result->passes[result->count++] = pass;
        }
    if (progress)
        fputs("\r\033[K", stderr);
    return error;
}

static int plot(const struct load_options *options, const struct load_result *results)
{
    size_t steps = options->steps, count = options->path_count;
    struct plot_series *series = calloc(count, sizeof *series);
    struct plot_point *points = calloc(count * steps, sizeof *points);
    FILE *file = series && points ? fopen(options->svg, "we") : NULL;
    int fault = file ? 0 : -errno;

    for (size_t path = 0; file && path < count; path++) {
        series[path] = (struct plot_series){options->paths[path], points + path * steps, steps};
        for (size_t step = 0; step < steps; step++) {
            const struct load_result *result = &results[path * steps + step];
            struct load_spread rate = load_result_rate(result);

            points[path * steps + step] = (struct plot_point){result->workers, rate.median,
                                                              rate.least, rate.most};
        }
    }
    if (file) {
        plot_write(file, &(struct plot){.title = "shufflefs-bench load",
                                        .x_title = "workers",
                                        .y_title = "samples/s",
                                        .series = series,
                                        .count = count});
        if (ferror(file))
            fault = -EIO;
        if (fclose(file) && !fault)
            fault = -errno;
    }
    if (fault)
        report_error("--svg %s: %s", options->svg, strerror(-fault));
    free(points);
    free(series);
    return fault;
}

static int print(const struct load_options *options, const struct machine *machine,
                 const struct load_result *results)
{
    int fault = 0;

    if (options->json) {
        json_t *root = load_results_json(options, machine, results);

        if (!root || (json_dumpf(root, stdout, JSON_COMPACT) && !ferror(stdout))) {
            fault = -ENOMEM;
            report_error("--json: %s", strerror(ENOMEM));
        }
        putchar('\n');
        json_decref(root);
    } else {
        load_results_print(stdout, options, machine, results);
    }
    return fault ? fault : output_end();
}

/* True when all that was asked for was loaded, and all of it was good. */
static bool all_good(const struct load_options *options, const struct load_result *results)
{
    bool good = true;

    for (size_t i = 0; i < options->path_count * options->steps; i++)
        for (size_t k = 0; k < results[i].count; k++)
            good = good && results[i].passes[k].samples > 0 && results[i].passes[k].bad == 0;
    return good;
}

static int run(const struct load_options *options, struct load_result *results)
{
    struct machine machine;
    size_t count = options->path_count * options->steps;

    machine_look(&machine); /* now: later, the load average is our own */
    for (size_t i = 0; i < count; i++) {
        results[i].path = options->paths[i / options->steps];
        results[i].passes = calloc(options->rounds, sizeof *results[i].passes);
        if (!results[i].passes) {
            report_error("%u rounds: %s", options->rounds, strerror(ENOMEM));
            return EXIT_FAULT;
        }
    }
    if (measure(options, results) || print(options, &machine, results) ||
        (options->svg && plot(options, results)))
        return EXIT_FAULT;
    return all_good(options, results) ? 0 : EXIT_FAULT;
}

int load_command(int count, char **arguments)
{
    struct load_options options;
    struct load_result *results;
    int code = EXIT_FAULT;

    if (!load_options_parse(&options, count, arguments))
        return EXIT_USAGE;
    if (options.help) {
        load_options_help();
        return output_end() ? EXIT_FAULT : 0;
    }
    results = calloc(options.path_count * options.steps, sizeof *results);
    if (results)
        code = run(&options, results);
    else
        report_error("%zu paths: %s", options.path_count, strerror(ENOMEM));
    for (size_t i = 0; results && i < options.path_count * options.steps; i++)
        free(results[i].passes);
    free(results);
    return code;
}
