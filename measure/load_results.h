/* What the passes of `shufflefs-bench load` gave, and how it is told: as a table with a verdict, or
 * as JSON. */
#ifndef SHUFFLEFS_LOAD_RESULTS_H
#define SHUFFLEFS_LOAD_RESULTS_H

#include "load_options.h"
#include "machine.h"

#include <jansson.h>
#include <stdio.h>

/* Of the workers' time: they add up to all of it. */
enum load_stage {
    LOAD_WAIT_STORAGE,
    LOAD_READ,
    LOAD_DECODE,
    LOAD_RESIZE,
    LOAD_NORMALISE,
    LOAD_OTHER,
    LOAD_WAIT_CONSUMER,
    LOAD_IDLE,
    LOAD_STAGES,
};

struct load_pass {
    double samples, batches, bytes, bad;
    double seconds, open_seconds;
    double cpu_seconds; /* of the process, in the pass */
    double workers_seconds;
    double core_wait_seconds;   /* workers, or a stream's reader, were ready to run and had no core;
                                   below 0: not known */
    double stages[LOAD_STAGES]; /* seconds of workers */
    int device;                 /* batches were made on: as sl_batch has it */
    double device_decoded, fallbacks;
};

/* One PATH with one number of workers. */
struct load_result {
    const char *path;
    int workers; /* as they were: not 0 */
    struct load_pass *passes;
    size_t count;
};

struct load_spread {
    double median, least, most;
};

/* Samples a second over the passes; 0 where there is none. */
struct load_spread load_result_rate(const struct load_result *result);

/* `results`: path by path, in each the steps of the sweep. */
void load_results_print(FILE *file, const struct load_options *options,
                        const struct machine *machine, const struct load_result *results);
json_t *load_results_json(const struct load_options *options, const struct machine *machine,
                          const struct load_result *results);

/* Two or three sentences: what limits, and what to change. Writes to `text`, and returns the word
 * for the limit: storage, decoding, cores, consumer, pipeline. */
const char *load_results_verdict(const struct load_options *options, const struct machine *machine,
                                 const struct load_result *results, size_t path, char *text,
                                 size_t room);

#endif
