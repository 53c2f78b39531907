/* The saved index of shards that were just packed, so that their first mount reads none of them. */
#ifndef SHUFFLEFS_PACK_SAVE_H
#define SHUFFLEFS_PACK_SAVE_H

#include "options.h"

#include <stdint.h>

/* Reads the headers of shards number 0 to `shards` - 1 and saves their index at options->index (as
 * the mount's `index=`; core/store.h). What goes wrong is warned of: the shards are good without.
 */
void pack_save_index(const struct pack_options *options, uint64_t shards);

#endif
