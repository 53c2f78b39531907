/* The inside of core/order.h: tables of samples, and how each kind of order makes its own. */
#ifndef SHUFFLEFS_ORDER_TABLE_H
#define SHUFFLEFS_ORDER_TABLE_H

#include "order.h"

/* 4 bytes an entry while all values fit, 8 beyond. */
struct order_table {
    uint32_t *narrow;
    uint64_t *wide;
    uint64_t count;
};

/* Room for `count` values, each below `limit`. 0 or -ENOMEM. */
int order_table_open(struct order_table *table, uint64_t count, uint64_t limit);
void order_table_close(struct order_table *table);
size_t order_table_bytes(const struct order_table *table);

static inline uint64_t order_table_get(const struct order_table *table, uint64_t i)
{
    return table->narrow ? table->narrow[i] : table->wide[i];
}

static inline void order_table_put(struct order_table *table, uint64_t i, uint64_t value)
{
    if (table->narrow)
        table->narrow[i] = (uint32_t)value;
    else
        table->wide[i] = value;
}

/* Fills a table: with the permutation number `epoch`, of basis->samples entries; or, of an order
 * that draws, with the draws of that epoch, as many as the table has entries. 0, -ENOMEM, or
 * -EINVAL where the basis lacks what it needs. */
typedef int order_filler(struct order_table *table, const struct order_spec *spec,
                         const struct order_basis *basis, uint64_t epoch);

order_filler order_fill_torch;                          /* core/order_torch.c */
order_filler order_fill_weighted, order_fill_resampled; /* core/order_drawn.c */
order_filler order_fill_length;                         /* core/order_length.c */
order_filler order_fill_block;                          /* core/order_block.c */

/* The index of torch.multinomial's draw `u`, from [0, 1), among `n` equal weights. */
uint64_t order_resampled_index(double u, uint64_t n);

/* True from UINT32_MAX / 20 up: which algorithm torch's randperm(n) takes. */
bool order_torch_is_large(uint64_t n);

/* A permutation that is computed (core/order_feistel.c): of [0, n), n > 0, one for each key. */
struct feistel {
    uint64_t n;
    uint64_t left, right; /* the halves' sizes: n <= left * right < 2n, but for n = 1 */
    unsigned rounds;
};

struct feistel feistel_make(uint64_t n);
uint64_t feistel_key(uint64_t seed, uint64_t number); /* all bits of both count */
/* The sample at `place`, and the place of `sample`. */
uint64_t feistel_sample(const struct feistel *feistel, uint64_t key, uint64_t place);
uint64_t feistel_place(const struct feistel *feistel, uint64_t key, uint64_t sample);

#endif
