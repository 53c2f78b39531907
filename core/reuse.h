/* Which parts of a saved index are still right: by the shards' files as they are now.
 *
 * Private to core/. */
#ifndef SHUFFLEFS_REUSE_H
#define SHUFFLEFS_REUSE_H

#include "saved.h"

#include <stddef.h>

#define REUSE_NOTHING SIZE_MAX

/* For each of the index's shards (their paths are set) the number of the saved one with its base
 * name, or REUSE_NOTHING: of the same place first. `parts` has room for all. 0 or -ENOMEM. */
int reuse_match(const struct saved *saved, const struct index *index, size_t *parts);

/* Whether the saved index has just these shards, in this order, and can stand as it is. */
bool reuse_is_whole(const struct saved *saved, const struct index *index, const size_t *parts);

/* Looks at the shard's file: whether it has the saved size and times and some of its
 * members' headers are where they were, and the saved part is sound. Sets the shard's size, time,
 * device and inode. Marks as in saved_check_part(). Any thread. */
bool reuse_check(const struct saved *saved, size_t part, struct index_shard *shard,
                 uint64_t *key_marks);

#endif
