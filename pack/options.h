/* What shufflefs-pack is asked for. */
#ifndef SHUFFLEFS_PACK_OPTIONS_H
#define SHUFFLEFS_PACK_OPTIONS_H

#include "pattern.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACK_THREADS_MAX 1024

enum pack_from { PACK_FROM_EITHER, PACK_FROM_TREE, PACK_FROM_SHARDS };
enum pack_label { PACK_LABEL_NONE, PACK_LABEL_LAST, PACK_LABEL_FIRST, PACK_LABEL_FILE };
enum pack_damaged { PACK_DAMAGED_KEEP, PACK_DAMAGED_SKIP, PACK_DAMAGED_STOP };
enum pack_limit { PACK_LIMIT_BYTES, PACK_LIMIT_SHARDS, PACK_LIMIT_SAMPLES };

struct pack_options {
    char **sources; /* in the arguments */
    size_t source_count;
    struct pack_pattern output;
    enum pack_from from;
    enum pack_limit limit;
    uint64_t limit_value; /* bytes of a tar; shards; samples of a shard */
    bool shuffled, keep_order;
    uint64_t seed;
    enum pack_label label;
    const char *label_file; /* with PACK_LABEL_FILE */
    const char *classes;    /* where to write the list of classes; NULL: nowhere */
    const char *index;      /* where their index is saved, or "none"; NULL: user's cache folder */
    int short_side;         /* 0: pictures keep their size */
    int quality;
    bool convert_png;
    enum pack_damaged damaged;
    bool mtime_given;
    uint64_t mtime; /* of every member, seconds */
    unsigned threads;
    bool force, json, verbose;
    bool help, version;
};

/* Fills `options` from a command line. With --help or --version nothing else counts. False when it
 * is no good, reported. */
bool pack_options_parse(struct pack_options *options, int count, char **arguments);

extern const char pack_usage[];

#endif
