/* .control: the texts of its files, and what a write to one means. */
#ifndef SHUFFLEFS_CONTROL_H
#define SHUFFLEFS_CONTROL_H

#include "serve.h"

struct control {
    const struct dataset *dataset;
    struct epochs *epochs;
    struct reader *reader;
    struct serve *serve; /* whose counters are shown */
    double started_s;    /* when the mount was made, by clock_now_s() */
};

/* A view_text_maker; `context` is a struct control. */
char *control_text(void *context, const char *name, enum view_kind kind, uint64_t rank,
                   uint64_t world, size_t *bytes);

/* What the `size` bytes at `text`, written to the control file `name`, ask for: `E` or `E after G`,
 * numbers in canonical spelling, one newline after them allowed. 0 or -EINVAL: bad text, or more
 * samples than an epoch has, or an order that cannot be resumed (the last two are reported). */
int control_parse(const struct dataset *dataset, const char *name, const char *text, size_t size,
                  struct epochs_at *at);

/* The status as JSON with a final newline, allocated. NULL: no memory. */
char *status_text(const struct control *control, size_t *bytes);

#endif
