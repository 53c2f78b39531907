/* Members' bytes, from their shards, with a bounded set of open files.
 *
 * Bytes are read with pread at the offsets the index knows, so a shard that is no longer the one
 * that was indexed (size, modification time) is never read from: its members answer -EIO, the fault
 * is reported once a shard and counted. When the shard is as it was again, so are its members. Any
 * thread. */
#ifndef SHUFFLEFS_READER_H
#define SHUFFLEFS_READER_H

#include "index.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct reader;

/* `index` outlives the reader. Raises the soft limit of open files to the hard one, and keeps at
 * most that many, less some for everybody else, or `most_open` when that is not 0. 0 or -ENOMEM. */
int reader_open(struct reader **out, const struct index *index, size_t most_open);
void reader_close(struct reader *reader); /* NULL is fine; no read may be under way */

/* Up to `size` bytes of `member` from its byte `from`. Returns how many: less than `size` only
 * where the member ends, 0 at its end or past it; -EIO when the shard cannot be read or is not what
 * it was. */
ssize_t reader_read(struct reader *reader, uint64_t member, void *buffer, size_t size,
                    uint64_t from);

/* The same for a read that nobody waits for: a fault is neither reported nor counted, as it is
 * nobody's before a reader meets it. */
ssize_t reader_read_ahead(struct reader *reader, uint64_t member, void *buffer, size_t size,
                          uint64_t from);

/* Reads of members of shard number `shard` that ended in -EIO. */
uint64_t reader_errors(const struct reader *reader, size_t shard);

#endif
