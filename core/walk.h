/* One pass over one tar: what index_open() runs for each shard, several at once.
 * Private to core/.
 *
 * The walk reads headers, and the bytes of `cls` members; it skips everything else by position. It
 * follows the rules of core/index.h for keys, fields and problems. One thread a walk. */
#ifndef SHUFFLEFS_WALK_H
#define SHUFFLEFS_WALK_H

#include "harvest.h"

/* Walks `shard->path`; fills `harvest` (which starts as {0}, or was emptied) and the rest of
 * `shard`: size, times, hash, complaint. Returns 0 (whatever the tar is like: problems are in
 * `harvest`), or a negative errno, reported: cannot be opened, read, or too much of something.
 * `observer` (NULL: none) is told of what is met, under the shard's `number`. */
int walk_shard(struct harvest *harvest, struct index_shard *shard, size_t number,
               const struct index_observer *observer);

/* The same with every header read by libarchive: what walk_shard() has to agree with, which takes
 * the plainest ones by itself (core/plain_header.h). For tests. */
int walk_shard_by_libarchive(struct harvest *harvest, struct index_shard *shard, size_t number,
                             const struct index_observer *observer);

#endif
