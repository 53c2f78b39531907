/* Blocks of order=block that were read whole and wait in memory until their samples are asked for:
 * bounded, and each let go once all of its samples were taken, or when nobody came for it for two
 * minutes. Reads nothing itself (core/reader.c does). Private to core/. Any thread; it waits for
 * nothing but a block that another thread is reading at that moment.
 *
 * Where there is no room, who asks is told to let the page cache have the block. A block is read
 * whole again only once a quarter of its samples were asked for since the last time: so where
 * memory is short, or somebody reads here and there, at most about five times the bytes are read
 * that are asked for. */
#ifndef SHUFFLEFS_BLOCK_CACHE_H
#define SHUFFLEFS_BLOCK_CACHE_H

#include "blocks.h"

#include <stdint.h>

struct block_cache;

/* A block in memory. Constant while it is held. */
struct held_block {
    size_t shard;
    uint64_t block;
    uint64_t from, to; /* bytes of the shard's file */
    char *memory;      /* READER_ALIGN-ed, READER_SLACK more than the bytes. Owned */
    char *data;        /* in it, where byte `from` is: set by who reads it */
    struct held_block_state *state;
};

enum block_cache_answer {
    BLOCK_HELD,    /* in memory: block_cache_release() gives it back */
    BLOCK_TO_READ, /* to be read by the caller, whom others wait for: block_cache_landed() */
    BLOCK_BESIDE,  /* worth reading whole, without room here */
    BLOCK_ALONE,   /* not worth it now: the sample alone */
};

/* At most `bytes` are held; blocks of more than `block_bytes` never. `index` and `blocks` outlive
 * it. 0 or -ENOMEM. */
int block_cache_open(struct block_cache **out, const struct index *index,
                     const struct blocks *blocks, uint64_t block_bytes, uint64_t bytes);
/* For tests: where it has the time from, in nanoseconds. Before anything is claimed. */
void block_cache_use_clock(struct block_cache *cache, uint64_t (*now)(void));
void block_cache_close(struct block_cache *cache); /* NULL is fine; nothing may be in use */

/* The block of `sample`, if it is in memory, or being read (then once it is): counts as asking for
 * it. NULL: neither. */
struct held_block *block_cache_find(struct block_cache *cache, uint64_t sample);
/* What to do about one that is not. `held` is set with BLOCK_HELD (another thread was faster) and
 * BLOCK_TO_READ. `may_hold` false: never BLOCK_TO_READ. Counts as asking for the sample. */
enum block_cache_answer block_cache_claim(struct block_cache *cache, uint64_t sample, bool may_hold,
                                          struct held_block **held);
/* It was read into `memory`, and stays in use by the caller; or it was not, and is gone. */
void block_cache_landed(struct block_cache *cache, struct held_block *held, bool good);
/* `bytes` of a member were copied out. A sample is taken once all bytes of one of its members are,
 * in whatever pieces: not everybody reads every field. */
void block_cache_release(struct block_cache *cache, struct held_block *held, uint64_t member,
                         uint64_t bytes);
/* The sample was found elsewhere, in the page cache. */
void block_cache_pass(struct block_cache *cache, uint64_t sample);

/* The bytes of the sample's block: false when it is too large to be read at once. */
bool block_cache_extent(const struct block_cache *cache, uint64_t sample, uint64_t *from,
                        uint64_t *to);

struct block_cache_figures {
    uint64_t read;         /* blocks that were read into memory */
    uint64_t beside;       /* and into the page cache, for want of room or of O_DIRECT */
    uint64_t held;         /* blocks in memory */
    uint64_t bytes, limit; /* of these, and the most */
};
/* Lets go of what was forgotten, too. */
struct block_cache_figures block_cache_figures(struct block_cache *cache);

#endif
