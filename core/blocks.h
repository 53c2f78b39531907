/* The blocks of order=block: runs of neighbouring samples of one shard that are read from storage
 * at once, and what a window of them does to the batches.
 *
 * Blocks are cut greedily by the bytes that they take in the shard's file, from the first member's
 * header to the end of the last one, in the order of the samples: a sample that would make a block
 * larger than `block=` starts the next one, as does a new shard. A sample larger than that is a
 * block alone. Pure: any thread. */
#ifndef SHUFFLEFS_BLOCKS_H
#define SHUFFLEFS_BLOCKS_H

#include "index.h"
#include "order.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct basis;
struct labels;

/* 8 bytes a block. */
struct blocks {
    uint64_t *starts; /* block -> its first sample; starts[count] = samples. Owned */
    uint64_t count;
};

/* Cuts the whole index by `bytes`, 1 or more. O(members). 0 or -ENOMEM. */
int blocks_open(struct blocks *blocks, const struct index *index, uint64_t bytes);
void blocks_close(struct blocks *blocks); /* zeroed is fine */

/* The block that `sample` is in. O(log blocks). `starts` and `count` as in struct blocks, or of
 * other runs of samples, such as shards, of which some may be empty. */
uint64_t blocks_of(const uint64_t *starts, uint64_t count, uint64_t sample);

/* The bytes of the shard's file that the samples [first, end), of one shard, take: from `*from` on,
 * headers included, up to `*to`. O(members). */
void blocks_extent(const struct index *index, uint64_t first, uint64_t end, uint64_t *from,
                   uint64_t *to);

/* What the blocks do to the classes in a batch of a single rank (or of all ranks together, which is
 * the same places of the global order). */
#define BLOCKS_BATCH 256

struct blocks_quality {
    bool known;      /* false: no labels, or a single class; all else is 0 then */
    uint64_t batch;  /* samples of the batch: BLOCKS_BATCH, or all there are */
    double entropy;  /* of the classes in a batch, expected, in nats: of this order */
    double shuffled; /* the same of a full shuffle */
    double ratio;    /* entropy / shuffled: 1 is as good as a full shuffle */
    double classes, classes_shuffled; /* different classes in a batch, expected */
    uint64_t window; /* the smallest that comes within BLOCKS_NEAR of a full shuffle; 0: none does,
                        as too few blocks make a batch: smaller blocks or fewer streams do */
};

/* A ratio from here on is as good as a full shuffle's: within 5 %. */
#define BLOCKS_NEAR 0.95

/* Works it out for order=block with the options of `spec`, whose blocks `basis` has. Batches are
 * drawn as the order would, some dozens for each window that is looked at, from a generator with a
 * fixed seed: equal arguments give equal answers, whatever seed and epoch, and the
 * window that is named passes when it is asked for. The figures are true to about 1 %.
 * Time is O(blocks), once, and some 40 ms of batches. Returns 0, -ENOMEM, or -EINVAL: not
 * order=block.
 */
int blocks_window(const struct basis *basis, const struct labels *labels,
                  const struct order_spec *spec, struct blocks_quality *out);

/* What a user has to know of it, in words: that batches are poorer in classes than BLOCKS_NEAR of a
 * full shuffle's, and which window would do. False: there is nothing to say. */
#define BLOCKS_WARNING 320
bool blocks_warning(const struct blocks_quality *quality, const struct order_spec *spec,
                    char text[BLOCKS_WARNING]);

#endif
