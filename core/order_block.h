/* The inside of order=block (core/order.h): where its pools are. For the order, and for who works
 * out what a window does (core/blocks.h). Private to core/. */
#ifndef SHUFFLEFS_ORDER_BLOCK_H
#define SHUFFLEFS_ORDER_BLOCK_H

#include "draw.h"
#include "order.h"

#include <stdint.h>

/* The blocks of an epoch, shuffled, one behind the other. Places in this row are counted in
 * samples. */
struct block_row {
    const struct order_basis *basis;
    uint64_t streams; /* 1.. */
    uint64_t *blocks; /* place among the blocks -> block. Owned */
    uint64_t *ends;   /* and where in the row that ends. Owned */
};

/* Shuffles the blocks. 0 or -ENOMEM. */
int block_row_open(struct block_row *row, const struct order_basis *basis, uint64_t streams,
                   struct draw *draw);
void block_row_close(struct block_row *row);

/* The sample at `place` of the row. O(log blocks). */
uint64_t block_row_sample(const struct block_row *row, uint64_t place);

/* One stream, and how its blocks are cut into pools. */
struct block_pools {
    uint64_t start, end;   /* the stream's part of the row */
    uint64_t first, count; /* places of its blocks: the first one, and how many it touches */
    uint64_t pools;        /* 0: it has no sample */
};
struct block_pools block_pools_of(const struct block_row *row, uint64_t stream, uint64_t window);
/* The part of the row that is pool number `pool` of them. */
void block_pool_at(const struct block_row *row, const struct block_pools *pools, uint64_t pool,
                   uint64_t *from, uint64_t *to);

#endif
