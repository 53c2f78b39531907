/* rank-R.tar: a rank's epoch as one tar stream, made while it is read.
 *
 * Members are POSITION/KEY.EXT, a sample's fields in archive order (the made cls last), then two
 * zero blocks. Headers are ustar (POSIX.1-1988: name and prefix, octal numbers); before a member
 * whose name or size that cannot hold stands a PAX header (POSIX.1-2001, `x`), and only there.
 * Names are bytes: where they are no UTF-8, the PAX header says hdrcharset=BINARY. Mode 0444, owner
 * 0, a fixed time: the same bytes on every node. */
#ifndef SHUFFLEFS_STREAM_H
#define SHUFFLEFS_STREAM_H

#include "view.h"

#include "../core/reader.h"

/* Makes the node ready to be read, and its size known: O(n), about 0.1 us a sample; more than once
 * is fine, from any thread. 0 or -ENOMEM. */
int stream_prepare(struct view *view, struct view_node *node);

/* Of a prepared node: copies up to `size` bytes from byte `from` on. Returns how many (0: past the
 * end); -EIO when a member's shard cannot be read or trusted, or -ENOMEM. */
ssize_t stream_read(struct view *view, struct reader *reader, const struct view_node *node,
                    char *buffer, size_t size, uint64_t from);

/* The same for a read that nobody waits for: faults are nobody's yet, and shards may be read around
 * the page cache. */
struct stream_room {
    char *buffer;  /* where the bytes go; best at the start of a page */
    char *scratch; /* as reader_read_ahead() wants it */
    size_t scratch_bytes;
    struct batch *batch; /* as of reader_read_pieces() */
};
ssize_t stream_read_ahead(struct view *view, struct reader *reader, const struct view_node *node,
                          struct stream_room room, size_t size, uint64_t from);

#endif
