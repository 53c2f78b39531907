/* Which fields of the samples appear, and under which names: `fields=jpg/jpeg/png:cls`.
 *
 * Alternatives, parted by '/', all appear under the first one's name; a sample that has several
 * keeps the one that stands first in the list. A sample that lacks a named field altogether is left
 * out and counted. */
#ifndef SHUFFLEFS_FIELDS_H
#define SHUFFLEFS_FIELDS_H

#include "index.h"

#include <stdbool.h>

/* Rewrites `index` in place, before anybody else reads it. `text` as core/config.h checked it;
 * NULL: nothing to do. `observer` (NULL: none) is told of each sample left out, by its key and
 * where its first member is. Returns 0, -ENOMEM, or -ENODATA, reported, when no sample has all
 * fields (naming which one is rarest). */
int fields_apply(struct index *index, const char *text, const struct index_observer *observer);

/* The member that stands for the sample where one file does (rank-R.list): the first of `fields=`,
 * else the first image by a well-known extension, else the first field in archive order. `text` as
 * above. */
uint64_t fields_primary(const struct index *index, const char *text, uint64_t sample);

/* Warns when samples differ in their fields, so that a path listed in one epoch may be missing in
 * the next; names how many and the `fields=` that mends it. With `makes_cls` every sample has a
 * made cls besides. Returns whether they differ. */
bool fields_warn_uneven(const struct index *index, bool makes_cls);

#endif
