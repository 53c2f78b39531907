/* DALI's index of a shard, as its wds2idx makes it (version v1.2): `train-0.idx` beside
 * `train-0.tar`, a line a sample, four words a member: extension as stored, offset, size, name as
 * stored. With it fn.readers.webdataset need not read the tar first.
 *
 * Source: nvidia/dali, tools/wds2idx.py and dali/operators/reader/loader/webdataset_loader.cc. */
#ifndef SHUFFLEFS_CHECK_IDX_H
#define SHUFFLEFS_CHECK_IDX_H

#include "problems.h"

#include "../core/shards.h"

#include <stdint.h>

struct check_idx {
    uint64_t written, equal, refused; /* shards */
};

/* Walks each shard and writes its index: all of its members, whatever `fields=` says. One that is
 * there and equal stays as it is. A new one has a temporary name until it is whole. Shards that
 * DALI would misread are refused, as are those that are not whole, with CHECK_NO_IDX in `problems`
 * saying why; so are those whose index cannot be written. Returns 0, or a negative errno, reported,
 * when a shard cannot be read or there is no memory. */
int check_idx_write(const struct shard_list *shards, struct check_problems *problems,
                    struct check_idx *idx);

#endif
