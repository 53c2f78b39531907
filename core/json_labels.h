/* Samples' classes out of their `json` members: the class texts of label=json:KEY.
 *
 * KEY names a value of the JSON object, with dots for objects within it: `meta.label` is
 * {"meta": {"label": ...}}. An integer is its decimal text, a string is the text itself. All else
 * is no label: the text is then "\xff" and a letter that says why, which no JSON string can be, as
 * these are UTF-8.
 *
 * The bytes are read once, in the shards' order, by several threads; what came of it is kept beside
 * the saved index (core/json_saved.h), so that the next mount reads none of them. */
#ifndef SHUFFLEFS_JSON_LABELS_H
#define SHUFFLEFS_JSON_LABELS_H

#include "index.h"
#include "reader.h"

#include <stddef.h>

/* Goes up with every change of what text a json member gives. */
#define JSON_LABELS_VERSION 1

/* Bytes of a longer text are no class's (core/harvest.h has the same bound for `cls`), and a longer
 * member is not parsed. */
#define JSON_LABELS_TEXT_MAX  255
#define JSON_LABELS_BYTES_MAX ((size_t)64 << 20)

/* Sets the index's class texts from its json members, in place of those of `cls`. Before fields are
 * left out (core/fields.h), which may be json. 0 or a negative errno, reported but for -ENOMEM:
 * a shard that cannot be read any more is one. */
int json_labels_apply(struct index *index, const char *key, enum reader_direct direct);

/* One member's text, at most JSON_LABELS_TEXT_MAX bytes and a NUL. Any thread. */
void json_labels_text(const char *json, size_t bytes, const char *key,
                      char text[JSON_LABELS_TEXT_MAX + 1]);

/* Why a text that json_labels_apply() made is no label: "its json has no such key"; NULL: it is
 * one. */
const char *json_labels_why_not(const char *text);

#endif
