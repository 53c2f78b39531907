/* How far a long piece of work has come: one line on standard error, where that is a terminal;
 * where it is none, nothing.
 *
 *     packing  45 %  3,600 of 8,000  1,234/s  0:03 left
 *
 * It is drawn by whoever reports work done, at most ten times a second, and taken away at the end
 * and before each message (core/report.c sees to that). One line at a time in a
 * process. */
#ifndef SHUFFLEFS_PROGRESS_H
#define SHUFFLEFS_PROGRESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum progress_unit { PROGRESS_ITEMS, PROGRESS_BYTES };

struct progress {
    const char *label;
    uint64_t total, from; /* `from`: done before the clock began */
    enum progress_unit unit;
    bool terminal;
    uint64_t start_ns;
    _Atomic uint64_t done;
    _Atomic uint64_t next_ns; /* when it may be drawn again */
};

/* Work of `total` items or bytes, of which `done` were done before. `label` is kept, not copied.
 * The struct is the caller's, until progress_close(). */
void progress_open(struct progress *progress, const char *label, uint64_t total, uint64_t done,
                   enum progress_unit unit);

/* `count` more are done. Any thread. */
void progress_add(struct progress *progress, uint64_t count);

/* Takes the line away. No progress_add() may be under way. */
void progress_close(struct progress *progress);

/* Takes the line away for a message; the next progress_add() may draw it again. Any thread. */
void progress_clear(void);

/* The line's text, without any control sequence: at most `columns` characters. `now_ns` is the
 * clock's (core/clock.h). Returns its length. */
size_t progress_text(const struct progress *progress, uint64_t now_ns, unsigned columns, char *text,
                     size_t room);

#endif
