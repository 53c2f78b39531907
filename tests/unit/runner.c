/* The plain runner: all test functions in one process, one after the other. See unit.h. */
#define PLAIN_RUNNER 1
#include "unit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static struct unit_test *tests;
static jmp_buf leave;
enum { PASSED, FAILED, SKIPPED };

void unit_add(struct unit_test *test)
{
    test->next = tests;
    tests = test;
}

void unit_fail(const char *file, int line, const char *what, const char *format, ...)
{
    va_list arguments;

    printf("%s:%d: %s", file, line, what);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    longjmp(leave, FAILED);
}

void unit_skip(const char *format, ...)
{
    va_list arguments;

    printf("skipped: ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    longjmp(leave, SKIPPED);
}

int main(int count, char **arguments)
{
    unsigned counts[3] = {0};

    setvbuf(stdout, NULL, _IOLBF, 0);
    for (struct unit_test *volatile test = tests; test; test = test->next) {
        int result;
        if (count > 1 && strcmp(arguments[1], test->suite) != 0)
            continue;
        result = setjmp(leave);
        if (result == PASSED)
            test->run();
        counts[result]++;
        if (result == FAILED)
            printf("FAIL %s %s\n", test->suite, test->name);
    }
    printf("%u passed, %u failed, %u skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
    return counts[FAILED] != 0;
}
