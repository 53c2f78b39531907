/* One sample's content as a source hands it on, and the words of sample names that all sources
 * share. */
#ifndef SHUFFLELOAD_SAMPLE_H
#define SHUFFLELOAD_SAMPLE_H

#include "shuffleload.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SAMPLE_NAME_ROOM = 256 };

struct sample {
    const uint8_t *bytes; /* the source's own, or the reader's buffer */
    size_t size;
    int64_t label; /* SL_NO_LABEL: none */
    int error;     /* 0, or a negative errno: no bytes then */
    bool lost;     /* `error` is none of the sample's: what it is on is gone */
    char name[SAMPLE_NAME_ROOM];
};

/* A path as a sample's name: its end where it is too long. */
void sample_set_name(struct sample *sample, const char *path);

/* Where the extension starts in a path: after the first dot of the base name, as WebDataset has it
 * (`last`: after the last one); the text's end when there is none. A dot at the base name's start
 * starts no extension. */
const char *sample_extension(const char *path, bool last);

/* The text of a .cls: an integer, perhaps with a '-' before it, and blanks around it. False: it is
 * none, or one that an int64 does not hold; its least is taken too, as SL_NO_LABEL. */
bool sample_parse_label(const char *text, size_t length, int64_t *label);

/* Litter that is never a sample: ._NAME, __NAME__, and names that start with a dot. */
bool sample_is_litter(const char *path);

#endif
