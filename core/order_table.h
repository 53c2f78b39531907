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

/* Fills a table of basis->samples entries with the permutation of one epoch. 0 or -ENOMEM. */
typedef int order_filler(struct order_table *table, const struct order_spec *spec,
                         const struct order_basis *basis, uint64_t epoch);

order_filler order_fill_torch; /* core/order_torch.c */
order_filler order_fill_block; /* core/order_block.c */

/* True from UINT32_MAX / 20 up: which algorithm torch's randperm(n) takes. */
bool order_torch_is_large(uint64_t n);

#endif
