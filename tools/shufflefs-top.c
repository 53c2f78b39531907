/* shufflefs-top: watches a mount. Owns nothing but its arguments. */
#include "../core/command_line.h"
#include "../core/output.h"
#include "../core/report.h"
#include "../core/version.h"
#include "../top/terminal.h"
#include "../top/watch.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_FAULT = 1, EXIT_USAGE = 2 };

#define INTERVAL_LEAST 0.05
#define INTERVAL_MOST  86400.0

static const char usage[] =
    "usage: shufflefs-top MOUNTPOINT [OPTION]...\n"
    "\n"
    "Watches a shufflefs mount: who reads what, how fast and how far, and what went wrong. On a\n"
    "terminal it refreshes; where output is no terminal, or TERM is unset or dumb, it prints a "
    "report\n"
    "each interval. On any terminal, q ends it.\n"
    "\n"
    "  --once          one report, as plain text\n"
    "  --json          one JSON object a report, one a line: the status and its rates\n"
    "  --interval S    seconds between snapshots (1); 0, with --once or -n 1: one snapshot, no "
    "rates\n"
    "  -n COUNT        ends after so many reports\n"
    "  -h, --help      this help        -V, --version   the version\n";

enum { ONCE = 256, JSON, INTERVAL };

static const struct option options[] = {
    {"once", no_argument, NULL, ONCE},
    {"json", no_argument, NULL, JSON},
    {"interval", required_argument, NULL, INTERVAL},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {0},
};

static bool take_interval(const char *text, double *seconds)
{
    char *end;

    *seconds = strtod(text, &end);
    if (end != text && !*end && isfinite(*seconds) &&
        (*seconds == 0 || (*seconds >= INTERVAL_LEAST && *seconds <= INTERVAL_MOST)))
        return true;
    report_error("--interval %s: not 0, nor a number of seconds from %g to %.0f", text,
                 INTERVAL_LEAST, INTERVAL_MOST);
    return false;
}

static bool take_count(const char *text, uint64_t *count)
{
    *count = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || c - text >= 12) {
            *count = 0;
            break;
        }
        *count = *count * 10 + (uint64_t)(*c - '0');
    }
    if (!*count)
        report_error("-n %s: not a number of reports from 1 to 999999999999", text);
    return *count > 0;
}

static bool take_option(struct watch *watch, bool *once, int option)
{
    switch (option) {
    case ONCE:
        *once = true;
        return true;
    case JSON:
        watch->json = true;
        return true;
    case INTERVAL:
        return take_interval(optarg, &watch->interval_s);
    case 'n':
        return take_count(optarg, &watch->count);
    default:
        return false; /* reported */
    }
}

static bool check(const struct watch *watch, bool once, int words, char **arguments)
{
    if (words < 1)
        report_error("no mount point given; `shufflefs-top --help` tells more");
    else if (words > 1)
        report_error("%s: one mount point at a time", arguments[1]);
    else if (once && watch->count > 1)
        report_error("--once and -n %llu: give one of them", (unsigned long long)watch->count);
    else if (watch->interval_s == 0 && !once && watch->count != 1)
        report_error("--interval 0 needs --once or -n 1");
    else
        return true;
    return false;
}

/* A program that a signal ends should end by it, so that the shell knows. */
static int end_by(int number)
{
    signal(number, SIG_DFL);
    raise(number);
    return 128 + number;
}

int main(int count, char **arguments)
{
    struct watch watch = {.interval_s = 1};
    bool once = false;
    int option, result;

    output_open();
    report_program("shufflefs-top");
    setlocale(LC_CTYPE, "");
    while ((option = command_line_next(count, arguments, ":n:hV", options)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            return output_end() ? EXIT_FAULT : 0;
        }
        if (option == 'V') {
            printf("shufflefs-top %s\n", SHUFFLEFS_VERSION);
            return output_end() ? EXIT_FAULT : 0;
        }
        if (!take_option(&watch, &once, option))
            return EXIT_USAGE;
    }
    if (!check(&watch, once, count - optind, arguments + optind))
        return EXIT_USAGE;
    watch.path = arguments[optind];
    watch.count = once ? 1 : watch.count;
    watch.screen = !once && !watch.json && terminal_is_there();
    watch.keys = !once && terminal_has_keys();
    watch.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    result = watch_run(&watch);
    if (result > 0)
        return end_by(result);
    return result ? EXIT_FAULT : 0;
}
