/* Each sample's class, as a number.
 *
 *   cls    the text of its `cls` member, without white space around it
 *   dir    the folder it stands in within the tar: the last component before the base name
 *   none   no labels
 *   auto   decided once for the whole data set: cls if any sample has a cls text, else dir if
 * samples stand in at least two different folders, else none
 *
 * When every class is a decimal integer (of 64 bits), labels are those integers; else classes are
 * numbered from 0 in byte order of their texts. Read-only once opened: any thread. */
#ifndef SHUFFLEFS_LABELS_H
#define SHUFFLEFS_LABELS_H

#include "config.h"
#include "index.h"

#include <stdbool.h>
#include <stdint.h>

#define LABELS_MISSING INT64_MIN

struct labels {
    enum config_label source; /* never auto */
    int64_t *of;              /* sample -> label or LABELS_MISSING; NULL when source is none */
    bool named;               /* classes were texts and are numbered */
    uint64_t class_count;     /* different labels */
};

/* Fills `labels` from the index and drops index->class_texts. Samples without a label where others
 * have one are counted as INDEX_NO_LABEL and warned of. Returns 0, -ENOMEM, or -ENODATA, reported,
 * when the source asked for gives no sample a label. */
int labels_open(struct labels *labels, struct index *index, enum config_label wanted);
void labels_close(struct labels *labels);

const char *labels_source_name(enum config_label source);

#endif
