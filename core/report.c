/* Messages for people. Owns the place they go to; never decides whether a program goes on or ends.
 */
#include "report.h"

#include "progress.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048

static const char *program = "shufflefs";
static atomic_bool verbose;

/* Guards where lines go: `log_fd`, `use_syslog`, `sink`, `sink_context`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = STDERR_FILENO;
static bool use_syslog;
static void (*sink)(const char *line, void *context);
static void *sink_context;

void report_program(const char *name)
{
    program = name;
}

void report_verbose(bool on)
{
    verbose = on;
}

static void put(int level, const char *text)
{
    char line[LINE_MAX_BYTES + 128], stamp[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    int length;

    pthread_mutex_lock(&lock);
    if (sink) {
        sink(text, sink_context);
    } else if (use_syslog) {
        syslog(level, "%s", text);
    } else {
        if (log_fd != STDERR_FILENO && localtime_r(&now, &parts))
            strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S%z ", &parts);
        if (log_fd == STDERR_FILENO)
            progress_clear();
        /* One write a line, so that lines of several programs do not mix. */
        length = snprintf(line, sizeof line, "%s%s: %s\n", stamp, program, text);
        if (length > 0 && write(log_fd, line, (size_t)length) < 0) {
            /* Nobody is left to tell. */
        }
    }
    pthread_mutex_unlock(&lock);
}

/* File names may hold any byte: a newline or an escape sequence in one must not forge a line or
 * move a terminal. */
static void make_printable(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c < 0x20 || *c == 0x7f)
            *c = '?';
}

static void __attribute__((format(printf, 3, 0)))
report(int level, const char *prefix, const char *format, va_list arguments)
{
    char text[LINE_MAX_BYTES];
    size_t used = strlen(prefix);

    memcpy(text, prefix, used + 1);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): the callers' va_start() */
    vsnprintf(text + used, sizeof text - used, format, arguments);
    make_printable(text);
    put(level, text);
}

void report_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report(LOG_ERR, "", format, arguments);
    va_end(arguments);
}

void report_warning(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    report(LOG_WARNING, "warning: ", format, arguments);
    va_end(arguments);
}

void report_info(const char *format, ...)
{
    va_list arguments;
    if (!verbose)
        return;
    va_start(arguments, format);
    report(LOG_INFO, "", format, arguments);
    va_end(arguments);
}

int report_to_file(const char *path)
{
    /* Without O_NONBLOCK, a pipe that nobody reads would hold the program up here. */
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644);
    int fault = errno;

    if (fd < 0) {
        report_error("log=%s: %s", path, strerror(fault));
        return -fault;
    }
    pthread_mutex_lock(&lock);
    if (log_fd != STDERR_FILENO)
        close(log_fd);
    log_fd = fd;
    use_syslog = false;
    pthread_mutex_unlock(&lock);
    return 0;
}

void report_to_syslog(void)
{
    pthread_mutex_lock(&lock);
    openlog(program, LOG_PID, LOG_DAEMON);
    use_syslog = true;
    pthread_mutex_unlock(&lock);
}

void report_to_sink(void (*to)(const char *line, void *context), void *context)
{
    pthread_mutex_lock(&lock);
    sink = to;
    sink_context = context;
    pthread_mutex_unlock(&lock);
}
