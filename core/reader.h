/* Members' bytes, from their shards, with a bounded set of open files.
 *
 * Bytes are read at the offsets the index knows, so a shard that is no longer the one that was
 * indexed is never read from: its members answer -EIO, the fault is reported once (again after a
 * while if it was mended between) and counted. What tells:
 *
 *   - its size and modification time, looked at before and after each read, as a writer may be at
 * work meanwhile. So must the time be at which its inode changed, which no writer can set back:
 * where that alone differs, the range is read once more
 *   - the member's own header, of 512 bytes, with each read of its first bytes; with each later
 * part too, unless the inode is as it was when the shard was walked
 *
 * What this cannot see: bytes overwritten under the same size and headers with the time set back.
 *
 * A file that is open stays what it was when another one gets its name, or it is removed: it goes
 * on answering, as all its bytes are those that were indexed. Once it is closed (too many are open,
 * or it shows a fault), what has the name by then is taken if it has the size, the time and, member
 * by member, the headers; so a shard that is put back, or whose file system is mounted anew
 * (ESTALE), works again with the next read, whatever its inode. Both ways of reading, around the
 * page cache and through it, always have the same file. Any thread.
 *
 * Where a range of a shard is in the page cache (cachestat(2) says so) it is copied from there;
 * where it is not, a read ahead goes around the page cache (O_DIRECT: half the processor's time,
 * and no second copy of bytes that are on their way into the cache as files), and a read that
 * somebody waits for drops the pages again that it brought in. */
#ifndef SHUFFLEFS_READER_H
#define SHUFFLEFS_READER_H

#include "blocks.h"
#include "index.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* When reads ahead go around the page cache. AUTO: by cachestat(2), and never where that is not
 * allowed (not owner of the shards) or unknown (Linux before 6.5). */
enum reader_direct { READER_DIRECT_AUTO, READER_DIRECT_ALWAYS, READER_DIRECT_NEVER };

struct reader;

/* `index` outlives the reader. Keeps at most `most_open` shards open, 0: as core/handles.h says. 0
 * or -ENOMEM. */
int reader_open(struct reader **out, const struct index *index, size_t most_open,
                enum reader_direct direct);
void reader_close(struct reader *reader); /* NULL is fine; no read may be under way */

/* For order=block, before the first read: a read of a sample whose block is not in the page cache
 * reads the whole block at once, around the page cache, and the block's other samples come from
 * memory (core/block_cache.h). Of blocks up to `block_bytes`, at most `bytes` wait in memory; where
 * that is full, or nothing goes around the page cache (`direct` says so, or the file system has no
 * O_DIRECT), the kernel is asked to read the block into the page cache. A block that cannot be read
 * costs only the samples of it that cannot. `blocks` outlives the reader. 0 or -ENOMEM. */
int reader_keep_blocks(struct reader *reader, const struct blocks *blocks, uint64_t block_bytes,
                       uint64_t bytes);

/* Up to `size` bytes of `member` from its byte `from`. Returns how many: less than `size` only
 * where the member ends, 0 at its end or past it; -EIO when the shard cannot be read or is not what
 * it was. */
ssize_t reader_read(struct reader *reader, uint64_t member, void *buffer, size_t size,
                    uint64_t from);

/* Buffers of reads ahead start at a multiple of READER_ALIGN bytes, and have READER_SLACK more than
 * what is to be read. */
#define READER_ALIGN 4096 /* a page */
#define READER_SLACK ((size_t)3 * READER_ALIGN)

/* Reads that nobody waits for: a fault is neither reported nor counted against the shard, as it is
 * nobody's before a reader meets it.
 *
 * reader_read_ahead: as reader_read(), at most `room` - READER_SLACK bytes in any case; *data is
 * where in `buffer` they are.
 *
 * reader_read_members: all bytes of some members of one sample in one read; data[i] is where those
 * of members[i] are. 0, -EIO, or -E2BIG: from the first to the last is more than there is room for.
 */
ssize_t reader_read_ahead(struct reader *reader, uint64_t member, char *buffer, size_t room,
                          uint64_t from, size_t size, char **data);
int reader_read_members(struct reader *reader, const uint64_t *members, size_t count, char *buffer,
                        size_t room, char **data);

/* One of several reads ahead, each of one sample. */
struct reader_piece {
    const uint64_t *members; /* at least one */
    size_t count;
    char *buffer;
    /* The members whole, as of reader_read_members(): room and data as there. Or, where `size` is
     * not 0: bytes [from, from + size) of the shard, which are the members' with their headers and
     * what fills their last blocks, as they lie there, to the start of `buffer` and nowhere else;
     * the headers among them are checked. */
    size_t room;
    char **data;
    uint64_t from;
    size_t size;
    /* Result: as of reader_read_members(). -EINVAL: bytes that cannot be read straight to their
     * place, from this storage or as blocks are kept. */
    int fault;
};

/* Several reads ahead. What storage is asked for, it is asked for at once, if `batch`
 * (core/batch.h) is not NULL; then all take as long as the slowest. */
struct batch;
void reader_read_pieces(struct reader *reader, struct batch *batch, struct reader_piece *pieces,
                        size_t count);

/* Reads of members of shard number `shard` that ended in -EIO, but for those ahead. */
uint64_t reader_errors(const struct reader *reader, size_t shard);

/* All reads of shards so far. */
struct reader_figures {
    uint64_t reads, bytes; /* that ended well; bytes asked for, not the padding */
    uint64_t direct_reads; /* of these, around the page cache */
    uint64_t failed;       /* reads ahead that ended in -EIO */
    uint64_t ns;           /* spent in all of them, added up over threads */
    /* Of order=block: blocks read whole into memory, and into the page cache; bytes that wait in
     * memory, and the most. */
    uint64_t blocks_read, blocks_beside, block_bytes, block_limit;
};
struct reader_figures reader_figures(const struct reader *reader);

/* What the last reads were like: whether they came from storage rather than from the page
 * cache (then many at once are better than few), and how long one took, on average. */
struct reader_mood {
    bool cold;
    uint64_t ns;
};
struct reader_mood reader_mood(const struct reader *reader);

#endif
