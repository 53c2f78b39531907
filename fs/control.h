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

/* The epoch that the `size` bytes at `text` ask for: a number in canonical spelling, one newline
 * after it allowed. 0 or -EINVAL. */
int control_parse(const char *text, size_t size, uint64_t *epoch);

/* The status as JSON with a final newline, allocated. NULL: no memory. */
char *status_text(const struct control *control, size_t *bytes);

#endif
