/* torch.randperm. Owns nothing. */
#include "order_table.h"

#include "mt19937.h"

bool order_torch_is_large(uint64_t n)
{
    return n >= UINT32_MAX / 20;
}

/* randperm_cpu of torch: two algorithms, one on each side of UINT32_MAX / 20. */
int order_fill_torch(struct order_table *table, const struct order_spec *spec,
                     const struct order_basis *basis, uint64_t epoch)
{
    struct mt19937 generator;
    uint64_t n = basis->samples;

    mt19937_seed(&generator, spec->seed + epoch);
    if (order_torch_is_large(n)) {
        for (uint64_t i = 0; i < n; i++) {
            uint64_t z = mt19937_next64(&generator) % (i + 1);
            order_table_put(table, i, i);
            order_table_put(table, i, order_table_get(table, z));
            order_table_put(table, z, i);
        }
        return 0;
    }
    for (uint64_t i = 0; i < n; i++)
        order_table_put(table, i, i);
    for (uint64_t i = 0; i + 1 < n; i++) {
        uint64_t z = i + mt19937_next(&generator) % (uint32_t)(n - i);
        uint64_t kept = order_table_get(table, i);
        order_table_put(table, i, order_table_get(table, z));
        order_table_put(table, z, kept);
    }
    return 0;
}
