/* Figures of the loader, told. */
#include "load_results.h"

#include "../core/text.h"
#include "../core/version.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *const stage_names[LOAD_STAGES] = {
    "wait storage", "read", "decode", "resize", "normalise", "other", "wait consumer", "idle"};
static const char *const stage_keys[LOAD_STAGES] = {
    "wait_storage", "read", "decode", "resize", "normalise", "other", "wait_consumer", "idle"};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct load_spread load_result_rate(const struct load_result *result)
{
    double *rates = calloc(result->count + 1, sizeof *rates);
    struct load_spread spread = {0};

    for (size_t i = 0; rates && i < result->count; i++)
        rates[i] = result->passes[i].seconds > 0
                       ? result->passes[i].samples / result->passes[i].seconds
                       : 0;
    if (rates && result->count) {
        qsort(rates, result->count, sizeof *rates, compare);
        spread.least = rates[0];
        spread.most = rates[result->count - 1];
        spread.median = (rates[(result->count - 1) / 2] + rates[result->count / 2]) / 2;
    }
    free(rates);
    return spread;
}

/* All passes together. */
static struct load_pass sum_of(const struct load_result *result)
{
    struct load_pass sum = {0};

    for (size_t i = 0; i < result->count; i++) {
        const struct load_pass *pass = &result->passes[i];

        sum.samples += pass->samples;
        sum.batches += pass->batches;
        sum.bytes += pass->bytes;
        sum.bad += pass->bad;
        sum.device_decoded += pass->device_decoded;
        sum.fallbacks += pass->fallbacks;
        sum.seconds += pass->seconds;
        sum.open_seconds += pass->open_seconds;
        sum.cpu_seconds += pass->cpu_seconds;
        sum.workers_seconds += pass->workers_seconds;
        if (pass->core_wait_seconds < 0 || sum.core_wait_seconds < 0)
            sum.core_wait_seconds = -1;
        else
            sum.core_wait_seconds += pass->core_wait_seconds;
        for (int stage = 0; stage < LOAD_STAGES; stage++)
            sum.stages[stage] += pass->stages[stage];
    }
    return sum;
}

static double share(const struct load_pass *sum, enum load_stage stage)
{
    return sum->workers_seconds > 0 ? sum->stages[stage] / sum->workers_seconds : 0;
}

static const struct load_result *best_of(const struct load_options *options,
                                         const struct load_result *results, size_t path)
{
    const struct load_result *best = &results[path * options->steps];

    for (size_t step = 1; step < options->steps; step++) {
        const struct load_result *result = &results[path * options->steps + step];
        if (load_result_rate(result).median > load_result_rate(best).median)
            best = result;
    }
    return best;
}

static void add(char *text, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add(char *text, size_t room, const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, one line up */
    vsnprintf(text + length, room - length, format, arguments);
    va_end(arguments);
}

/* Seconds that workers took for what is no waiting. */
static double working_of(const struct load_pass *sum)
{
    return sum->workers_seconds * (1 - share(sum, LOAD_WAIT_STORAGE) -
                                   share(sum, LOAD_WAIT_CONSUMER) - share(sum, LOAD_IDLE));
}

/* The share of the workers' time that went by while no core was free for them. It is in all stages,
 * and a worker that waits for a stream whose reader has no core waits for a core, too. Where the
 * kernel does not tell: what workers took for work beyond the CPU time they got. */
static double core_wait(const struct load_pass *sum)
{
    double waited = sum->core_wait_seconds;

    if (waited < 0)
        waited = working_of(sum) - sum->cpu_seconds;
    if (sum->workers_seconds <= 0 || waited <= 0)
        return 0;
    return waited < sum->workers_seconds ? waited / sum->workers_seconds : 1;
}

/* More than this much of the workers' time in one place, and it is what limits. */
#define MUCH 0.3

static const char *cores_limit(const struct machine *machine, const struct load_result *result,
                               const struct load_pass *sum, char *text, size_t room)
{
    add(text, room,
        "Cores limit: %d worker%s on %d core%s got %.2f cores; other programs, or each other, "
        "had the rest, and %.0f %% of the workers' time went by without one. ",
        result->workers, result->workers == 1 ? "" : "s", machine->cores,
        machine->cores == 1 ? "" : "s", sum->seconds > 0 ? sum->cpu_seconds / sum->seconds : 0,
        100 * core_wait(sum));
    if (result->workers > machine->cores)
        add(text, room, "More workers than cores gain nothing. ");
    add(text, room, "Free the cores or add some.");
    return "cores";
}

static const char *find_limit(const struct machine *machine, const struct load_result *result,
                              const struct load_pass *sum, char *text, size_t room)
{
    double storage = share(sum, LOAD_WAIT_STORAGE) + share(sum, LOAD_READ);
    double making = share(sum, LOAD_DECODE) + share(sum, LOAD_RESIZE) + share(sum, LOAD_NORMALISE);
    double working = working_of(sum), waited = core_wait(sum);

    if (share(sum, LOAD_WAIT_CONSUMER) > MUCH) {
        add(text, room,
            "The consumer limits: workers waited %.0f %% of their time for batches to be released. "
            "Fewer workers would do, or more --prefetch.",
            100 * share(sum, LOAD_WAIT_CONSUMER));
        return "consumer";
    }
    /* On a busy machine reads take long too, and so does whoever answers them. */
    if (waited > MUCH && waited > share(sum, LOAD_WAIT_STORAGE) / 2)
        return cores_limit(machine, result, sum, text, room);
    if (storage > MUCH && storage > making / 2) {
        add(text, room,
            "Storage limits: of the workers' time %.0f %% went into waiting for reads and %.0f %% "
            "into copying. More workers keep more reads under way; a mount reads ahead by itself, "
            "and a tar or a mount's stream is read in large pieces.",
            100 * share(sum, LOAD_WAIT_STORAGE), 100 * share(sum, LOAD_READ));
        return "storage";
    }
    if (making <= MUCH) {
        add(text, room,
            "Neither storage nor decoding limits: workers spent %.0f %% of their time between "
            "samples. Samples are very small, or the passes too short to tell.",
            100 * (1 - making - storage));
        return "pipeline";
    }
    /* What workers took for work against the CPU time they got. */
    if (working > 0 && sum->cpu_seconds < 0.85 * working)
        return cores_limit(machine, result, sum, text, room);
    add(text, room,
        "Decoding limits: %.0f %% of the workers' time is decoding, %.0f %% resizing, %.0f %% "
        "normalising. ",
        100 * share(sum, LOAD_DECODE), 100 * share(sum, LOAD_RESIZE),
        100 * share(sum, LOAD_NORMALISE));
    if (result->workers < machine->cores)
        add(text, room, "%d cores are there for %d worker%s: more workers help.", machine->cores,
            result->workers, result->workers == 1 ? "" : "s");
    else
        add(text, room, "More cores help, or smaller images in the shards%s.",
            share(sum, LOAD_NORMALISE) > 0.1 ? ", or --output uint8 with normalising on the GPU"
                                             : "");
    return "decoding";
}

const char *load_results_verdict(const struct load_options *options, const struct machine *machine,
                                 const struct load_result *results, size_t path, char *text,
                                 size_t room)
{
    const struct load_result *best = best_of(options, results, path);
    struct load_pass sum = sum_of(best);
    double rate = load_result_rate(best).median;
    char shown[TEXT_NUMBER], need[TEXT_NUMBER];
    const char *limit;

    *text = '\0';
    if (sum.samples == 0) {
        if (sum.bad > 0)
            add(text, room,
                sum.bad == 1 ? "Nothing was loaded: the only sample was bad."
                             : "Nothing was loaded: all %.0f samples were bad.",
                sum.bad);
        else
            add(text, room, "Nothing was loaded.");
        return "nothing";
    }
    limit = find_limit(machine, best, &sum, text, room);
    if (sum.bad > 0)
        add(text, room, " %.0f %s bad and left out.", sum.bad,
            sum.bad == 1 ? "sample was" : "samples were");
    if (options->need) {
        double met = rate / (double)options->need;

        add(text, room, " Of the %s samples/s that are needed, %d worker%s give%s %s: %.0f %%%s",
            text_count(need, options->need), best->workers, best->workers == 1 ? "" : "s",
            best->workers == 1 ? "s" : "", text_number(shown, rate), 100 * met,
            met >= 1 ? ", so the training does not wait." : "; ");
        if (met < 1)
            add(text, room, "the training waits %.0f %% of its time.", 100 * (1 - met));
    }
    return limit;
}

static void print_pass_row(FILE *file, size_t path, const struct load_result *result)
{
    struct load_spread rate = load_result_rate(result);
    struct load_pass sum = sum_of(result);
    char median[TEXT_NUMBER], least[TEXT_NUMBER], most[TEXT_NUMBER], batches[TEXT_NUMBER],
        megabytes[TEXT_NUMBER], range[2 * TEXT_NUMBER + 8];
    double seconds = sum.seconds > 0 ? sum.seconds : 1;

    snprintf(range, sizeof range, "(%s - %s)", text_number(least, rate.least),
             text_number(most, rate.most));
    fprintf(file, "%4zu %7d %9s %-19s %9s %7s %6.2f %5.0f", path + 1, result->workers,
            text_number(median, rate.median), range, text_number(batches, sum.batches / seconds),
            text_number(megabytes, sum.bytes / seconds / 1e6), sum.cpu_seconds / seconds, sum.bad);
    for (int stage = 0; stage < LOAD_STAGES; stage++)
        fprintf(file, " %*.1f",
                (int)strlen(stage_names[stage]) > 5 ? (int)strlen(stage_names[stage]) : 5,
                100 * share(&sum, (enum load_stage)stage));
    fputc('\n', file);
}

/* "host", or the GPU's number: of all passes, which are on one. */
static const char *device_text(const struct load_result *results, char *text, size_t room)
{
    int device = results->count ? results->passes[0].device : SL_DEVICE_HOST;

    if (device == SL_DEVICE_HOST)
        return "host";
    snprintf(text, room, "%d", SL_DEVICE_INDEX(device));
    return text;
}

/* Where that is not what is always so. */
static void print_device(FILE *file, const struct load_options *options,
                         const struct load_result *results)
{
    double decoded = 0, fallbacks = 0;
    char text[16];

    if (options->config.device == SL_DEVICE_HOST)
        return;
    fprintf(file, ", device %s", device_text(results, text, sizeof text));
    if (options->config.decode != SL_DECODE_DEVICE)
        return;
    for (size_t i = 0; i < options->path_count * options->steps; i++) {
        struct load_pass sum = sum_of(&results[i]);

        decoded += sum.device_decoded;
        fallbacks += sum.fallbacks;
    }
    fprintf(file, " (decoded there %.0f, left to the host %.0f)", decoded, fallbacks);
}

void load_results_print(FILE *file, const struct load_options *options,
                        const struct machine *machine, const struct load_result *results)
{
    char memory[TEXT_NUMBER], name[256], verdict[2048];

    fprintf(file, "%s, %d core%s, %s GiB, Linux %s; load average %.1f\n", machine->cpu,
            machine->cores, machine->cores == 1 ? "" : "s",
            text_number(memory, (double)machine->memory_bytes / (1 << 30)), machine->kernel,
            machine->load);
    for (size_t path = 0; path < options->path_count; path++)
        fprintf(file, "%zu  %s\n", path + 1, text_name(name, sizeof name, options->paths[path]));
    fprintf(file, "%u round%s in turn, %u warm-up pass%s, batches of %llu, %s", options->rounds,
            options->rounds == 1 ? "" : "s", options->warm_up, options->warm_up == 1 ? "" : "es",
            (unsigned long long)options->config.batch_size,
            load_options_output(options->config.output));
    if (options->config.output != SL_BYTES)
        fprintf(file, " %d x %d", options->config.width ? options->config.width : 224,
                options->config.height ? options->config.height : 224);
    print_device(file, options, results);
    fprintf(file, "; libshuffleload %s\n\n%62s%% of the workers' time\n", sl_version(), "");
    fprintf(file, "%4s %7s %9s %-19s %9s %7s %6s %5s", "path", "workers", "samples/s",
            "(least - most)", "batches/s", "MB/s", "cores", "bad");
    for (int stage = 0; stage < LOAD_STAGES; stage++)
        fprintf(file, " %5s", stage_names[stage]);
    fputc('\n', file);
    for (size_t i = 0; i < options->path_count * options->steps; i++)
        print_pass_row(file, i / options->steps, &results[i]);
    fputc('\n', file);
    for (size_t path = 0; path < options->path_count; path++) {
        load_results_verdict(options, machine, results, path, verdict, sizeof verdict);
        if (options->path_count > 1)
            fprintf(file, "%zu: ", path + 1);
        fprintf(file, "%s\n", verdict);
    }
}

static json_t *result_to_json(const struct load_result *result)
{
    struct load_spread rate = load_result_rate(result);
    struct load_pass sum = sum_of(result);
    double seconds = sum.seconds > 0 ? sum.seconds : 1;
    char device[16];
    json_t *rounds = json_array(), *stages = json_object(), *root;

    for (size_t i = 0; i < result->count; i++)
        json_array_append_new(rounds, json_pack("{s:f, s:f, s:f, s:f}", "samples",
                                                result->passes[i].samples, "seconds",
                                                result->passes[i].seconds, "open_s",
                                                result->passes[i].open_seconds, "cpu_s",
                                                result->passes[i].cpu_seconds));
    for (int stage = 0; stage < LOAD_STAGES; stage++)
        json_object_set_new(stages, stage_keys[stage],
                            json_real(share(&sum, (enum load_stage)stage)));
    root = json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "workers", result->workers,
                     "samples_per_s", rate.median, "samples_per_s_least", rate.least,
                     "samples_per_s_most", rate.most, "batches_per_s", sum.batches / seconds,
                     "bytes_per_s", sum.bytes / seconds, "cores", sum.cpu_seconds / seconds, "bad",
                     sum.bad);
    json_object_set_new(root, "core_wait",
                        sum.core_wait_seconds < 0 ? json_null() : json_real(core_wait(&sum)));
    json_object_set_new(root, "device", json_string(device_text(result, device, sizeof device)));
    json_object_set_new(root, "device_decoded", json_real(sum.device_decoded));
    json_object_set_new(root, "fallbacks", json_real(sum.fallbacks));
    json_object_set_new(root, "shares", stages);
    json_object_set_new(root, "rounds", rounds);
    return root;
}

json_t *load_results_json(const struct load_options *options, const struct machine *machine,
                          const struct load_result *results)
{
    json_t *paths = json_array();
    char verdict[2048], name[PATH_MAX];
    json_t *root;

    for (size_t path = 0; path < options->path_count; path++) {
        json_t *steps = json_array();
        const char *limit = load_results_verdict(options, machine, results, path, verdict,
                                                 sizeof verdict);
        json_t *one = json_pack("{s:s, s:s, s:s}", "path",
                                text_name(name, sizeof name, options->paths[path]), "limit", limit,
                                "verdict", verdict);

        for (size_t step = 0; step < options->steps; step++)
            json_array_append_new(steps, result_to_json(&results[path * options->steps + step]));
        json_object_set_new(one, "steps", steps);
        if (options->need)
            json_object_set_new(one, "need_met",
                                json_real(load_result_rate(best_of(options, results, path)).median /
                                          (double)options->need));
        json_array_append_new(paths, one);
    }
    root = json_pack("{s:s, s:s, s:{s:s, s:i, s:I, s:s, s:f}, s:{s:I, s:s, s:I, s:I}}", "version",
                     SHUFFLEFS_VERSION, "library", sl_version(), "machine", "cpu", machine->cpu,
                     "cores", machine->cores, "memory_bytes", (json_int_t)machine->memory_bytes,
                     "kernel", machine->kernel, "load_average", machine->load, "options", "batch",
                     (json_int_t)options->config.batch_size, "output",
                     load_options_output(options->config.output), "rounds",
                     (json_int_t)options->rounds, "warm_up", (json_int_t)options->warm_up);
    if (options->need)
        json_object_set_new(root, "need_samples_per_s", json_integer((json_int_t)options->need));
    json_object_set_new(root, "paths", paths);
    return root;
}
