/* The command line of `shufflefs-bench load`. */
#ifndef SHUFFLEFS_LOAD_OPTIONS_H
#define SHUFFLEFS_LOAD_OPTIONS_H

#include "../loader/shuffleload.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOAD_STEPS_MAX 32

struct load_options {
    char **paths; /* in the arguments */
    size_t path_count;
    struct sl_config config;     /* but for path and workers */
    int workers[LOAD_STEPS_MAX]; /* a sweep; 0: as many as the library takes */
    size_t steps;
    unsigned rounds, warm_up;
    int64_t ns_most;       /* of a pass; INT64_MAX without a limit */
    uint64_t samples_most; /* of a pass; UINT64_MAX without a limit */
    uint64_t need;         /* samples/s that a consumer takes; 0: not given */
    bool stream, json, help;
    const char *svg; /* NULL: none */
};

/* Reads the arguments behind the subcommand's name, which is arguments[0]. False when they are no
 * good (reported). With --help, `help` is set and nothing else counts. */
bool load_options_parse(struct load_options *options, int count, char **arguments);

void load_options_help(void);

/* As --output has it. */
const char *load_options_output(enum sl_output output);

#endif
