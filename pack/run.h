/* A run from the command line to the last rename. */
#ifndef SHUFFLEFS_PACK_RUN_H
#define SHUFFLEFS_PACK_RUN_H

#include "counts.h"
#include "options.h"

#include "../core/record.h"

struct pack_summary {
    struct pack_counts counts; /* of all shards, earlier runs' included */
    uint64_t shards;
    uint64_t taken_up;  /* of these, finished by an earlier run */
    uint64_t oversized; /* shards that one sample alone makes larger than the limit */
    uint64_t left_out[INDEX_PROBLEM_KINDS];
    double seconds;
};

/* Packs. 0 or a negative errno, reported. SIGINT, SIGTERM and SIGHUP end it, unless they were
 * ignored: the temporary file is removed, finished shards stay for the next run to take up, and
 * *signal is the signal, with -EINTR. For the main thread. */
int pack_run(const struct pack_options *options, struct pack_summary *summary, int *signal);

#endif
