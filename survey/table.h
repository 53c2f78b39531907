/* How an epoch divides over worlds of several sizes: what is repeated, what is dropped. */
#ifndef SHUFFLEFS_SURVEY_TABLE_H
#define SHUFFLEFS_SURVEY_TABLE_H

#include "survey.h"

struct survey_split {
    uint64_t world;
    uint64_t shortest, longest; /* ranks, in samples */
    uint64_t reads;             /* of all ranks */
    uint64_t padding, dropped;  /* samples */
};

/* Most rows: worlds 1, 2, 4, ... up to PLAN_WORLD_MAX, and one that is no power of two. */
#define SURVEY_SPLITS_MAX 34

/* The split of an epoch of `places` that `after` of were read before, over worlds 1, 2, 4, ... up
 * to `world`, which is the last row. Returns how many. */
size_t survey_split(uint64_t places, uint64_t after, uint64_t world, const struct plan_deal *deal,
                    struct survey_split *splits);

/* The first `most` places, in rising order, that are read more than once; at most all of them.
 * Returns how many were found: fewer than there are where ranks without an overlap are too many to
 * go through. */
size_t survey_repeats(uint64_t places, uint64_t after, uint64_t world, const struct plan_deal *deal,
                      uint64_t *repeats, size_t most);

/* To standard output, as text or JSON. 0 or a negative errno, reported. */
int survey_table(const struct survey *survey);

#endif
