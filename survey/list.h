/* The samples that ranks read, one a line or as JSON, written as they are worked out: nothing is
 * kept but the order itself. */
#ifndef SHUFFLEFS_SURVEY_LIST_H
#define SHUFFLEFS_SURVEY_LIST_H

#include "survey.h"

/* To standard output. 0 or a negative errno, reported. */
int survey_list(const struct survey *survey);

#endif
