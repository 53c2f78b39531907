/* Asks getopt_long() and says what is wrong. Owns nothing. */
#include "command_line.h"

#include "config.h"
#include "report.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

int command_line_next(int count, char **arguments, const char *letters, const struct option *known)
{
    int option;

    /* getopt would name arguments[0], which may be a path or no program at all. */
    opterr = 0;
    option = getopt_long(count, arguments, letters, known, NULL);
    if (option == '?' || option == ':') {
        /* A letter may stand anywhere in its argument, which is then not yet behind us. */
        const char letter[] = {'-', (char)optopt, '\0'};
        report_error(option == ':' ? "%s needs a value"
                                   : "%s: there is no such option, or it takes no value",
                     optopt > 0 && optopt < COMMAND_LINE_FIRST ? letter : arguments[optind - 1]);
        option = '?';
    }
    return option;
}

bool command_line_number(const char *option, const char *text, uint64_t least, uint64_t most,
                         uint64_t *value)
{
    if (config_number(text, strlen(text), most, value) && *value >= least)
        return true;
    report_error("%s %s: not a number from %" PRIu64 " to %" PRIu64, option, text, least, most);
    return false;
}
