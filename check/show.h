/* What came of a check, for people and for programs. */
#ifndef SHUFFLEFS_CHECK_SHOW_H
#define SHUFFLEFS_CHECK_SHOW_H

#include "check.h"

#include <stdio.h>

/* A handful of lines, and some for each kind of problem. */
void check_show_text(FILE *to, const struct check_request *request,
                     const struct check_result *result);

/* One JSON object on standard output (its keys are in shufflefs-check(1)). With request->samples
 * all members are read for their sha256. Returns 0, or a negative errno, reported: no memory, or a
 * member that cannot be read. */
int check_show_json(const struct check_request *request, const struct check_result *result);

#endif
