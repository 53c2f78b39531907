/* A configuration made whole: defaults filled in, ranges checked, strings copied, sizes worked out.
 * Whatever reads settings trusts them. */
#ifndef SHUFFLELOAD_SETTINGS_H
#define SHUFFLELOAD_SETTINGS_H

#include "fault.h"
#include "shuffleload.h"

#include <stdbool.h>
#include <stddef.h>

/* The library's; rules.mk has it too. */
#define SETTINGS_VERSION "0.1.0"

/* Of the global order: positions are added and multiplied, and below this nothing overflows. */
#define SETTINGS_POSITION_MOST ((uint64_t)1 << 62)

enum { SETTINGS_FIELDS_MAX = 16, SETTINGS_ALIGNMENT = 64 };

struct settings {
    struct sl_config config;                 /* its path is ours */
    bool images;                             /* or bytes */
    char *field_text;                        /* ours: what `fields` points into */
    const char *fields[SETTINGS_FIELDS_MAX]; /* in lower case; none: any but cls and json */
    size_t field_count;
    size_t pixels;    /* values in a row of an image: width * height * 3 */
    size_t row_bytes; /* of a row that the caller gets; bytes: the stride */
    uint64_t slots;   /* batches that exist at once */
};

/* 0; -EINVAL with a text that names the member and its value; -ENOMEM. */
int settings_make(struct settings *settings, const struct sl_config *config, struct fault *fault);
void settings_free(struct settings *settings);

/* Of one value of a batch's content. */
size_t settings_element_bytes(enum sl_output output);

/* Is a file of this extension (any case, no dot) a sample's content? */
bool settings_takes(const struct settings *settings, const char *extension);

#endif
