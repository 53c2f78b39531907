/* The command line of `shufflefs-bench read`. */
#ifndef SHUFFLEFS_READ_OPTIONS_H
#define SHUFFLEFS_READ_OPTIONS_H

#include "reading.h"
#include "source.h"
#include "split.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define READ_STEPS_MAX   32
#define READ_READERS_MAX 1024

struct read_options {
    char **paths; /* in the arguments */
    size_t path_count;
    size_t baseline; /* index of a path */
    unsigned rounds, warm_up;
    unsigned readers[READ_STEPS_MAX]; /* a sweep */
    size_t steps;
    struct split split;
    bool processes, at_once;
    bool cold, fixed, count_listing, list_only, busy;
    enum source_order order;
    uint64_t seed;
    int64_t work_ns, ns_most; /* ns_most: INT64_MAX without a limit */
    uint64_t samples_most;    /* UINT64_MAX without a limit */
    unsigned parts;
    bool json, help;
    const char *svg; /* NULL: none */
};

/* Reads the arguments behind the subcommand's name, which is arguments[0]; paths are moved to their
 * end. False when they are no good (reported). With --help, `help` is set and nothing else counts.
 */
bool read_options_parse(struct read_options *options, int count, char **arguments);

void read_options_help(void);

#endif
