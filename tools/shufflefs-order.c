/* shufflefs-order: the order of an epoch without a mount, and what it is like. Owns nothing: all is
 * in survey/. */
#include "../core/output.h"
#include "../core/report.h"
#include "../core/version.h"
#include "../survey/compare.h"
#include "../survey/list.h"
#include "../survey/options.h"
#include "../survey/picture.h"
#include "../survey/table.h"
#include "../survey/touch.h"

#include <stdio.h>

enum { EXIT_FAULT = 1, EXIT_USAGE = 2 };

static int answer(const struct survey *survey)
{
    int fault;

    switch (survey->request->mode) {
    case SURVEY_LIST:
        return survey_list(survey);
    case SURVEY_TABLE:
        return survey_table(survey);
    case SURVEY_SHARDS:
        return survey_touch(survey);
    case SURVEY_QUALITY:
        fault = survey_compare(survey);
        return fault || !survey->request->picture ? fault : survey_picture(survey);
    case SURVEY_PICTURE:
        return survey_picture(survey);
    }
    return -1;
}

static int run(const struct survey_request *request)
{
    struct survey survey;
    int fault = survey_open(&survey, request);

    if (fault)
        return EXIT_FAULT;
    fault = answer(&survey);
    survey_close(&survey);
    if (output_end())
        fault = -1;
    return fault ? EXIT_FAULT : 0;
}

int main(int count, char **arguments)
{
    struct survey_request request;
    int code = 0;

    output_open();
    report_program("shufflefs-order");
    switch (survey_options(&request, count, arguments)) {
    case SURVEY_GO:
        code = run(&request);
        break;
    case SURVEY_HELP:
        fputs(survey_usage, stdout);
        code = output_end() ? EXIT_FAULT : 0;
        break;
    case SURVEY_VERSION:
        printf("shufflefs-order %s\n", SHUFFLEFS_VERSION);
        code = output_end() ? EXIT_FAULT : 0;
        break;
    case SURVEY_USAGE:
        code = EXIT_USAGE;
        break;
    case SURVEY_FAULT:
        code = EXIT_FAULT;
        break;
    }
    survey_request_close(&request);
    return code;
}
