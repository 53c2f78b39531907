/* Endings of shards' names. For core/, shards_base_name() of core/shards.h, and pack/. Pure: any
 * thread. */
#ifndef SHUFFLEFS_SHARD_NAME_H
#define SHUFFLEFS_SHARD_NAME_H

#include <stdbool.h>

/* Whether `name` is `ending` with something before it. */
bool shard_name_ends(const char *name, const char *ending);

/* Whether `name` is a compressed tar's, as `.tar.gz` and `.tgz` are. */
bool shard_name_is_packed(const char *name);

#endif
