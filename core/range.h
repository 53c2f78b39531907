/* A range of a shard's bytes, through the page cache or around it, read between two looks at the
 * file: bytes of a file that changed since it was indexed are never given. Private to core/, for
 * core/reader.c. Any thread. */
#ifndef SHUFFLEFS_RANGE_H
#define SHUFFLEFS_RANGE_H

#include "handles.h"
#include "index.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define RANGE_HEADER_CHANGED "the member's header changed since it was indexed"

/* Buffers of ranges start at a multiple of RANGE_ALIGN bytes, a page, and have RANGE_SLACK more
 * than the range; where `exact` is set, neither holds. */
#define RANGE_ALIGN HANDLES_ALIGN_MOST
#define RANGE_SLACK ((size_t)3 * RANGE_ALIGN)

/* Where ranges come from; nothing in it is owned. */
struct range_source {
    const struct index *index;
    struct handles *handles;
    bool never_around, around_if_unknown; /* when cachestat(2) cannot tell */
    atomic_bool *no_direct;               /* of each shard: its file system has no O_DIRECT */
    atomic_ullong *cut_at; /* of each shard: where storage lately said it ends; or 0 */
    atomic_bool *no_cachestat;
};

struct range {
    size_t shard;
    uint64_t offset;
    size_t size;
    char *buffer;
    char *data; /* result: where in the buffer the first byte is */
    /* Of the shard: lies at the start of a page of memory, where storage allows that. So a store
     * into the page cache takes one page of ours for each of the file's, not parts of two. 0: none
     */
    uint64_t level;
    /* The bytes go to the buffer's start and nowhere else. Where storage cannot do that, nothing is
     * read, and `unfit` is set. */
    bool exact, unfit;
    bool cut; /* result: storage says that the file ends within the range */
    /* Of which the range is a later part, so that its header is not in it; NULL: it is. */
    const struct index_member *part_of;
    char *header; /* where the header before the offset goes, which is read too; NULL: nowhere */
};

/* How much of a range is in the page cache; CACHED: at least half. UNKNOWN where cachestat(2) is
 * not allowed (not owner of the shard), or is not there (Linux before 6.5). */
enum range_cached { RANGE_NOT_CACHED, RANGE_PARTLY_CACHED, RANGE_CACHED, RANGE_UNKNOWN };
enum range_cached range_in_cache(const struct range_source *source, int fd, uint64_t offset,
                                 uint64_t size);

/* Whether a range is better read around the page cache. */
bool range_goes_around(const struct range_source *source, size_t shard, int fd, uint64_t offset,
                       uint64_t size);

/* Reads a range of the file that `through` has open; around the page cache if *around, which tells
 * afterwards whether it was. NULL, or why not. */
const char *range_read(const struct range_source *source, struct range *range,
                       const struct handle *through, bool *around);

/* The same around the page cache in two halves, for reads that are asked for at once: what to read
 * where, and whether that was well. */
struct range_half {
    struct stat before;
    struct handle *handle;
    char *to;
    uint64_t start;
    size_t size;
};

/* False: it is to be read by range_read() instead, which says what is wrong with it. */
bool range_begin(const struct range_source *source, struct range *range,
                 const struct handle *through, struct range_half *half);
/* Of each that was begun; `got` as of pread(2), or a negative errno. False as above. */
bool range_end(const struct range_source *source, struct range *range, const struct handle *through,
               const struct range_half *half, ssize_t got);

#endif
