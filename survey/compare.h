/* Orders side by side: their figures (survey/quality.h), each with its ratio to a full shuffle's.
 */
#ifndef SHUFFLEFS_SURVEY_COMPARE_H
#define SHUFFLEFS_SURVEY_COMPARE_H

#include "survey.h"

/* To standard output, as text or JSON. 0 or a negative errno, reported. */
int survey_compare(const struct survey *survey);

#endif
