/* Texts of errors. */
#include "fault.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int fault_set(struct fault *fault, int code, const char *format, ...)
{
    va_list arguments;

    if (!fault)
        return code;
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, one line up */
    vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
    return code;
}

const char *fault_meaning(int code)
{
    /* strerror() may give text that another thread's call overwrites; this one is static. */
    const char *text = strerrordesc_np(code < 0 ? -code : code);

    return text ? text : "unknown error";
}

int fault_file(struct fault *fault, int code, const char *path)
{
    enum { SHOWN = 200 };
    size_t length = strlen(path);

    /* Of a long path both ends, or it would leave no room for what is wrong. */
    if (length > 2 * SHOWN)
        return fault_set(fault, code, "%.*s...%s: %s", SHOWN, path, path + length - SHOWN,
                         fault_meaning(code));
    return fault_set(fault, code, "%s: %s", path, fault_meaning(code));
}
