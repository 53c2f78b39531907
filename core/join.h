/* What the shards' walks, or parts of a saved index, gathered, put together into one index. Private
 * to core/. */
#ifndef SHUFFLEFS_JOIN_H
#define SHUFFLEFS_JOIN_H

#include "harvest.h"
#include "index.h"
#include "saved.h"

/* Fills `index`, whose shards are set, from one harvest a shard; each is closed as soon as it is
 * copied, so that no more than one copy lives long. `parts` (one a shard and one more) gets what a
 * saved index keeps of each: where its things start, its problems and bytes. 0, -ENOMEM, or
 * -EOVERFLOW, reported: too many members or fields. */
int join_harvests(struct index *index, struct harvest *harvests, struct saved_shard *parts);

#endif
