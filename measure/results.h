/* What all passes gave, by PATH and by number of readers: figures of each round, their medians, and
 * ratios round by round. Knows nothing of how it is shown. */
#ifndef SHUFFLEFS_RESULTS_H
#define SHUFFLEFS_RESULTS_H

#include "histogram.h"
#include "reading.h"
#include "source.h"

#include <stddef.h>
#include <stdint.h>

/* Of one pass. What there is none of is NAN. */
enum figure {
    FIGURE_SAMPLES,
    FIGURE_BYTES,
    FIGURE_ERRORS,
    FIGURE_LIST_S,
    FIGURE_READ_S, /* from the first reader's start to the last one's end */
    FIGURE_SAMPLES_PER_S,
    FIGURE_BYTES_PER_S,
    FIGURE_WAIT_SHARE,       /* of the readers' time, spent waiting for data */
    FIGURE_WAIT_SHARE_LATER, /* the same without READING_START_NS */
    FIGURE_SLOWEST_FASTEST,  /* of the paths read at once: least samples_per_s divided by most */
    FIGURE_PARTS,            /* and on: samples_per_s of each part */
    FIGURES = FIGURE_PARTS + READING_PARTS_MAX,
};

struct result {
    const struct source *source; /* NULL: all, read at once */
    unsigned readers;            /* for each source */
    double (*rounds)[FIGURES];
    size_t round_count;
    struct histogram latency; /* of all rounds together */
};

struct results {
    struct result *items; /* steps of the sweep; in each, the sources in their order, then all */
    size_t count, steps, each; /* each: items a step */
    size_t source_count;
    size_t baseline; /* index of the source that ratios are to */
};

struct spread {
    double median, least, most; /* NAN where any round has none */
};

/* One item a step and source, and with `at_once` one for all sources together. `sources` is kept.
 * 0 or -ENOMEM; results_close() either way. */
int results_open(struct results *results, const struct source *sources, size_t source_count,
                 const unsigned *readers, size_t steps, size_t rounds, bool at_once);

struct result *results_at(const struct results *results, size_t step, size_t source);

/* Adds a round from the tallies of `readers` readers of one source. With `listing`, the time for
 * listing counts in the rates. */
void result_add_round(struct result *result, const struct reading *reading, size_t source,
                      bool listing);

/* Adds a round of sources `first` to `first` + `count` - 1, read at once; their own rounds first.
 */
void result_add_round_of_all(struct result *all, const struct result *first, size_t count,
                             const struct reading *reading);

/* Adds a round in which nothing was read. */
void result_add_listing(struct result *result);

struct spread result_spread(const struct result *result, enum figure figure);

/* `figure` of `result` divided by that of `base`, round by round. */
struct spread result_ratio(const struct result *result, const struct result *base,
                           enum figure figure);

void results_close(struct results *results);

#endif
