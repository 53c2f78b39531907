/* Command lines. Owns nothing. */
#include "options.h"

#include "../core/command_line.h"
#include "../core/config.h"
#include "../core/report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

bool options_number(const char *option, uint64_t least, uint64_t most, uint64_t *value)
{
    return command_line_number(option, optarg, least, most, value);
}

bool options_small(const char *option, unsigned least, unsigned most, unsigned *value)
{
    uint64_t number;

    if (!options_number(option, least, most, &number))
        return false;
    *value = (unsigned)number;
    return true;
}

bool options_read_time(const char *text, int64_t *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6},  {"s", 1e9},
                 {"", 1e9}, {"m", 6e10}, {"h", 3.6e12}};
    char *unit;
    double value;

    /* strtod() also takes blanks, signs, hexadecimal and `nan`. */
    if (strspn(text, "0123456789.") == 0 || text[0] == '.')
        return false;
    value = strtod(text, &unit);
    if ((size_t)(unit - text) != strspn(text, "0123456789."))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(unit, units[i].name) == 0) {
            value *= units[i].ns;
            if (!(value <= 1000 * 3.6e12))
                return false;
            *ns = (int64_t)(value + 0.5);
            return true;
        }
    }
    return false;
}

bool options_time(const char *option, const char *examples, int64_t *ns)
{
    if (options_read_time(optarg, ns) && *ns > 0)
        return true;
    report_error("%s %s: not a time, as %s", option, optarg, examples);
    return false;
}

bool options_take_all(int count, char **arguments, const struct option *known,
                      bool (*take)(void *context, int option), void *context, const bool *help)
{
    int option;

    optind = 1;
    while (!*help && (option = command_line_next(count, arguments, ":h", known)) != -1)
        if (option == '?' || !take(context, option))
            return false;
    return true;
}
