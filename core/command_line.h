/* Options of a command line, by getopt_long(), with its complaints in the form of all others. For
 * the main thread. */
#ifndef SHUFFLEFS_COMMAND_LINE_H
#define SHUFFLEFS_COMMAND_LINE_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

/* What is a letter's own number stays below; a long option without a letter has one from here on.
 */
#define COMMAND_LINE_FIRST 256

/* The next option, as getopt_long() has it: `letters` as there, beginning with ':'. -1: there is
 * none left; '?': one that is not known, lacks its value or has one too many, reported. */
int command_line_next(int count, char **arguments, const char *letters, const struct option *known);

/* The decimal number `text`, an option's value, from `least` to `most`. False: it is none,
 * reported.
 */
bool command_line_number(const char *option, const char *text, uint64_t least, uint64_t most,
                         uint64_t *value);

#endif
