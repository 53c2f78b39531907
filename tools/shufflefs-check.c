/* shufflefs-check: are these shards sound, is the split even, does this node agree. Owns nothing:
 * all is in check/. */
#include "../check/options.h"
#include "../check/show.h"
#include "../core/output.h"
#include "../core/report.h"
#include "../core/version.h"

#include <stdio.h>

enum { EXIT_FOUND = 1, EXIT_USAGE = 2 };

static int check(const struct check_request *request)
{
    struct check_result result;
    int fault = check_run(request, &result);
    bool sound = false;

    if (!fault) {
        sound = check_is_sound(request, &result);
        if (request->json)
            fault = check_show_json(request, &result);
        else
            /* The lengths have standard output for themselves. */
            check_show_text(check_lengths_to_output(request) ? stderr : stdout, request, &result);
    }
    check_close(&result);
    if (output_end())
        fault = -1;
    return fault || !sound ? EXIT_FOUND : 0;
}

int main(int count, char **arguments)
{
    struct check_request request;
    int code = 0;

    output_open();
    report_program("shufflefs-check");
    switch (check_options(&request, count, arguments)) {
    case CHECK_GO:
        code = check(&request);
        break;
    case CHECK_HELP:
        fputs(check_usage, stdout);
        code = output_end() ? EXIT_FOUND : 0;
        break;
    case CHECK_VERSION:
        printf("shufflefs-check %s\n", SHUFFLEFS_VERSION);
        code = output_end() ? EXIT_FOUND : 0;
        break;
    case CHECK_USAGE:
        code = EXIT_USAGE;
        break;
    case CHECK_FAULT:
        code = EXIT_FOUND;
        break;
    }
    check_request_close(&request);
    return code;
}
