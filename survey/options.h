/* The command line of shufflefs-order. */
#ifndef SHUFFLEFS_SURVEY_OPTIONS_H
#define SHUFFLEFS_SURVEY_OPTIONS_H

#include "survey.h"

enum survey_command { SURVEY_GO, SURVEY_HELP, SURVEY_VERSION, SURVEY_USAGE, SURVEY_FAULT };

extern const char survey_usage[];

/* Fills `request`, which survey_request_close() frees in any case. SURVEY_USAGE (a mistake on the
 * command line, in an option or the configuration file) and SURVEY_FAULT (no such shard) are
 * reported. */
enum survey_command survey_options(struct survey_request *request, int count, char **arguments);
void survey_request_close(struct survey_request *request);

#endif
