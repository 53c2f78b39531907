/* The command line of shufflefs-check. */
#ifndef SHUFFLEFS_CHECK_OPTIONS_H
#define SHUFFLEFS_CHECK_OPTIONS_H

#include "check.h"

enum check_command { CHECK_GO, CHECK_HELP, CHECK_VERSION, CHECK_USAGE, CHECK_FAULT };

extern const char check_usage[];

/* Fills `request`, which check_request_close() frees in any case. CHECK_USAGE (a mistake on the
 * command line, in an option or the configuration file) and CHECK_FAULT (no such shard) are
 * reported. */
enum check_command check_options(struct check_request *request, int count, char **arguments);
void check_request_close(struct check_request *request);

#endif
