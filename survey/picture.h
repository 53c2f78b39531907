/* A picture of orders as SVG: along what the job reads, the sample that is read. A full shuffle is
 * even grey; what stays together shows as lines and boxes. */
#ifndef SHUFFLEFS_SURVEY_PICTURE_H
#define SHUFFLEFS_SURVEY_PICTURE_H

#include "survey.h"

/* Writes request->picture; `-` is standard output. The same request gives the same bytes. 0 or a
 * negative errno, reported. */
int survey_picture(const struct survey *survey);

#endif
