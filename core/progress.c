/* The progress line. Owns whether one is on the terminal; never writes anywhere else. */
#include "progress.h"

#include "clock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SECOND          UINT64_C(1000000000)
#define EVERY_NS        (SECOND / 10)
#define DEFAULT_COLUMNS 80
#define LINE_ROOM       256

/* Guards `shown`: whether a line stands on the terminal. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool shown;

static const char clear_line[] = "\r\033[K";

static void put(const char *text, size_t length)
{
    if (write(STDERR_FILENO, text, length) < 0) {
        /* Nobody is left to see it. */
    }
}

static void clear_locked(void)
{
    if (shown)
        put(clear_line, sizeof clear_line - 1);
    shown = false;
}

void progress_clear(void)
{
    pthread_mutex_lock(&lock);
    clear_locked();
    pthread_mutex_unlock(&lock);
}

void progress_open(struct progress *progress, const char *label, uint64_t total, uint64_t done,
                   enum progress_unit unit)
{
    const char *kind = getenv("TERM");

    progress->label = label;
    progress->total = total;
    progress->from = done;
    progress->unit = unit;
    progress->terminal = isatty(STDERR_FILENO) && kind && strcmp(kind, "dumb") != 0;
    progress->start_ns = clock_now_ns();
    atomic_init(&progress->done, done);
    atomic_init(&progress->next_ns, progress->start_ns + EVERY_NS);
}

/* 1,234,567 */
static void spell_items(double value, char *text, size_t room)
{
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%.0f", value);
    size_t used = 0;

    for (int i = 0; i < length && used + 2 < room; i++) {
        if (i && (length - i) % 3 == 0)
            text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = '\0';
}

static void spell(enum progress_unit unit, double value, char *text, size_t room)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t i = 0;

    if (unit == PROGRESS_ITEMS) {
        spell_items(value, text, room);
        return;
    }
    for (; value >= 1024 && i + 1 < sizeof units / sizeof *units; i++)
        value /= 1024;
    snprintf(text, room, "%.*f %s", i && value < 100 ? 1 : 0, value, units[i]);
}

size_t progress_text(const struct progress *progress, uint64_t now_ns, unsigned columns, char *text,
                     size_t room)
{
    uint64_t done = atomic_load(&progress->done), total = progress->total;
    double seconds = (double)(now_ns - progress->start_ns) / (double)SECOND;
    double rate = seconds > 0 ? (double)(done - progress->from) / seconds : 0;
    char so_far[32], all[32], speed[32], left[32] = "";
    size_t length;

    if (done > total)
        total = done;
    spell(progress->unit, (double)done, so_far, sizeof so_far);
    spell(progress->unit, (double)total, all, sizeof all);
    spell(progress->unit, rate, speed, sizeof speed);
    /* Not from the first moments, which say nothing of the rest. */
    if (rate > 0 && seconds >= 1) {
        double rest = (double)(total - done) / rate;
        unsigned whole = rest < 1e8 ? (unsigned)rest : 100000000;
        if (whole >= 3600)
            snprintf(left, sizeof left, "  %u:%02u:%02u left", whole / 3600, whole / 60 % 60,
                     whole % 60);
        else
            snprintf(left, sizeof left, "  %u:%02u left", whole / 60, whole % 60);
    }
    snprintf(text, room, "%s %3.0f %%  %s of %s  %s/s%s", progress->label,
             total ? 100 * ((double)done / (double)total) : 100, so_far, all, speed, left);
    length = strlen(text);
    if (length > columns) {
        length = columns;
        text[length] = '\0';
    }
    return length;
}

static unsigned terminal_columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
        return size.ws_col;
    return DEFAULT_COLUMNS;
}

static void draw(const struct progress *progress, uint64_t now)
{
    char line[LINE_ROOM], text[LINE_ROOM - 8];
    int length;

    /* A line that fills the last column would wrap. */
    progress_text(progress, now, terminal_columns() - 1, text, sizeof text);
    length = snprintf(line, sizeof line, "\r%s\033[K", text);
    pthread_mutex_lock(&lock);
    shown = true;
    put(line, (size_t)length);
    pthread_mutex_unlock(&lock);
}

void progress_add(struct progress *progress, uint64_t count)
{
    uint64_t now, next;

    atomic_fetch_add(&progress->done, count);
    if (!progress->terminal)
        return;
    now = clock_now_ns();
    next = atomic_load(&progress->next_ns);
    if (now >= next && atomic_compare_exchange_strong(&progress->next_ns, &next, now + EVERY_NS))
        draw(progress, now);
}

void progress_close(struct progress *progress)
{
    if (progress->terminal)
        progress_clear();
}
