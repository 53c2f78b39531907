/* How many shards, samples and bytes each rank, or each part of a rank, reads in an epoch: what a
 * node would have to hold, and how many files a worker has open. */
#ifndef SHUFFLEFS_SURVEY_TOUCH_H
#define SHUFFLEFS_SURVEY_TOUCH_H

#include "survey.h"

/* To standard output, as text or JSON. 0 or a negative errno, reported. */
int survey_touch(const struct survey *survey);

#endif
