/* What the command lines of shufflefs-bench's commands have in common, over getopt_long(). Each
 * function that returns false has reported why, naming option and value. The value of an option is
 * optarg. */
#ifndef SHUFFLEFS_OPTIONS_H
#define SHUFFLEFS_OPTIONS_H

#include "../core/command_line.h"

#include <stdbool.h>
#include <stdint.h>

/* Codes of options without a letter start here. */
#define OPTIONS_FIRST COMMAND_LINE_FIRST

bool options_number(const char *option, uint64_t least, uint64_t most, uint64_t *value);
bool options_small(const char *option, unsigned least, unsigned most, unsigned *value);

/* Reads `10`, `1.5ms`, `200us`, `3s`, `2m`: a number and ns, us, ms, s (also without a unit), m or
 * h, up to 1,000 hours. False when it is no such text. */
bool options_read_time(const char *text, int64_t *ns);
/* Such a time, over 0; `examples` ends the message. */
bool options_time(const char *option, const char *examples, int64_t *ns);

/* Gives each option in `known` (whose help is 'h') to take() until there is none left, it returns
 * false, or *help is set. Then optind is the first argument that is no option. */
bool options_take_all(int count, char **arguments, const struct option *known,
                      bool (*take)(void *context, int option), void *context, const bool *help);

#endif
