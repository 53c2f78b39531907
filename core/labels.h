/* Each sample's class, as a number.
 *
 *   cls       the text of its `cls` member, without white space around it
 *   dir       the folder it stands in within the tar: the last component before the base name
 *   shard     the whole base name of its shard, without its ending (one tar a class)
 *   json:KEY  a value of its `json` member (core/json_labels.h)
 *   none      no labels
 *   auto      decided once for the whole data set: cls if any sample has a cls text, else dir if
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

/* Of more classes than that (captions, say) the names are not kept: they may take as much memory as
 * all keys. */
#define LABELS_NAMES_MAX ((uint64_t)1 << 20)

struct labels {
    enum config_label source; /* never auto */
    char *source_text;        /* "cls", "json:meta.label". Owned */
    int64_t *of;              /* sample -> label or LABELS_MISSING; NULL when source is none */
    bool named;               /* classes were texts and are numbered */
    uint64_t class_count;     /* different labels */
    int64_t least, most;      /* labels; 0 and class_count - 1 where they are named */
    char *names;       /* of named classes, a NUL after each, in their order; NULL: not kept */
    uint64_t *name_at; /* class -> offset in `names` */
};

/* Fills `labels` from the index and drops index->class_texts. `key` is that of json, else NULL.
 * Samples without a label where others have one are counted as INDEX_NO_LABEL and warned of in a
 * line that names the first one. Returns 0, -ENOMEM, or -ENODATA, reported, when the source asked
 * for gives no sample a label. */
int labels_open(struct labels *labels, struct index *index, enum config_label wanted,
                const char *key);
void labels_close(struct labels *labels);

/* The text of a named class, in byte order of the texts; NULL: classes are integers, or there are
 * more than LABELS_NAMES_MAX. */
const char *labels_class_name(const struct labels *labels, uint64_t class);

#endif
