/* One set of test functions, two runners: Criterion's, and with -DPLAIN_RUNNER a plain loop in one
 * process for the sanitizers and valgrind (Criterion 2.4.1 crashes under TSan and hides
 * LeakSanitizer's exit code).
 *
 * A test file includes this and uses Test(), cr_assert(), cr_assert_eq(), cr_assert_str_eq() and
 * cr_skip_test() only. */
#ifndef SHUFFLEFS_UNIT_H
#define SHUFFLEFS_UNIT_H

#ifndef PLAIN_RUNNER

#include <criterion/criterion.h>

#else

#include <string.h>

struct unit_test {
    const char *suite, *name;
    void (*run)(void);
    struct unit_test *next;
};

void unit_add(struct unit_test *test);
/* Prints the fault and ends the running test. */
void unit_fail(const char *file, int line, const char *what, const char *format, ...)
    __attribute__((noreturn, format(printf, 4, 5)));
void unit_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#define Test(suite_, name_, ...)                                                                   \
    static void suite_##_##name_##_run(void);                                                      \
    __attribute__((constructor)) static void suite_##_##name_##_add(void)                          \
    {                                                                                              \
        static struct unit_test test = {#suite_, #name_, suite_##_##name_##_run, NULL};            \
        unit_add(&test);                                                                           \
    }                                                                                              \
    static void suite_##_##name_##_run(void)

#define cr_assert(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition))                                                                          \
            unit_fail(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                            \
    } while (0)
#define cr_assert_eq(a, b, ...)     cr_assert((a) == (b), ##__VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) cr_assert(strcmp((a), (b)) == 0, ##__VA_ARGS__)
#define cr_skip_test(...)           unit_skip(__VA_ARGS__)

#endif
#endif
