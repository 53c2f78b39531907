/* Messages for people: one line each, made where the fault is seen.
 *
 * Lines go to standard error until report_to_file() or report_to_syslog() moves them; a daemon
 * moves them once its mount answers. Every line is `PROGRAM: text`. All functions may be called
 * from any thread; the three that move the output are for the main thread. */
#ifndef SHUFFLEFS_REPORT_H
#define SHUFFLEFS_REPORT_H

#include <stdbool.h>

/* The name before the colon. `name` is kept, not copied. */
void report_program(const char *name);

/* The fault that ends what was asked for. */
void report_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Something a user must know, with which the program goes on. */
void report_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What a user may want to know (a mount's start and end); standard error only with report_verbose.
 */
void report_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_verbose(bool on);

/* Appends to the file at `path`, with the time before each line. 0, or a negative errno (reported).
 */
int report_to_file(const char *path);
void report_to_syslog(void);

/* Tests read messages through this: `sink` gets each line without its newline; NULL restores. */
void report_to_sink(void (*sink)(const char *line, void *context), void *context);

#endif
