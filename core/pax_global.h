/* PAX global headers (`g`) that say of all members behind them what libarchive takes from each
 * one's own header: a path, a size, a link's target, a map of holes. POSIX, GNU tar and Python's
 * tarfile, so WebDataset, let them count. Most global headers hold a comment, as of `git archive`,
 * and are nothing to tell of. Private to core/. */
#ifndef SHUFFLEFS_PAX_GLOBAL_H
#define SHUFFLEFS_PAX_GLOBAL_H

#include "shard_file.h"

/* Whether such a header stands among those of extended kinds from byte `from` up to `end`, where a
 * member's own is. Looks at no more of one than its first PAX_GLOBAL_MOST bytes. `file->fault` may
 * be set then. */
#define PAX_GLOBAL_MOST 4096
bool pax_global_matters(struct shard_file *file, uint64_t from, uint64_t end);

#endif
