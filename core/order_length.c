/* Batches of samples of similar length (core/order.h defines the order). Owns the group that is
 * being sorted. */
#include "order_table.h"

#include "draw.h"

#include <errno.h>
#include <stdlib.h>

#define GROUP_BUCKETS 64
#define USE_LENGTH    0x6c656e677468 /* "length": sets this order's draws apart from others' */

struct item {
    uint64_t length;
    uint64_t place; /* within the group */
    uint64_t sample;
};

static int compare(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->length != y->length)
        return x->length < y->length ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static void swap(struct order_table *table, uint64_t i, uint64_t j)
{
    uint64_t kept = order_table_get(table, i);

    order_table_put(table, i, order_table_get(table, j));
    order_table_put(table, j, kept);
}

/* Shuffles places [from, from + count): Fisher and Yates, from the front. */
static void shuffle(struct order_table *table, struct draw *draw, uint64_t from, uint64_t count)
{
    for (uint64_t i = 0; i + 1 < count; i++)
        swap(table, from + i, from + i + draw_below(draw, count - i));
}

static void shuffle_buckets(struct order_table *table, struct draw *draw, uint64_t buckets,
                            uint64_t size)
{
    for (uint64_t i = 0; i + 1 < buckets; i++) {
        uint64_t other = i + draw_below(draw, buckets - i);
        for (uint64_t k = 0; other != i && k < size; k++)
            swap(table, i * size + k, other * size + k);
    }
}

static void sort_group(struct order_table *table, const uint64_t *lengths, struct item *items,
                       uint64_t from, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t sample = order_table_get(table, from + i);
        items[i] = (struct item){.length = lengths[sample], .place = i, .sample = sample};
    }
    qsort(items, count, sizeof *items, compare);
    for (uint64_t i = 0; i < count; i++)
        order_table_put(table, from + i, items[i].sample);
}

int order_fill_length(struct order_table *table, const struct order_spec *spec,
                      const struct order_basis *basis, uint64_t epoch)
{
    uint64_t n = basis->samples, size = spec->bucket, buckets, whole, group;
    struct item *items;
    struct draw draw;

    if (!basis->lengths || size == 0)
        return -EINVAL;
    buckets = n / size;
    whole = buckets * size;
    group = buckets < GROUP_BUCKETS ? whole : GROUP_BUCKETS * size;
    items = calloc(group ? group : 1, sizeof *items);
    if (!items)
        return -ENOMEM;
    draw_seed(&draw, spec->seed, epoch, USE_LENGTH);
    for (uint64_t i = 0; i < n; i++)
        order_table_put(table, i, i);
    shuffle(table, &draw, 0, n);
    for (uint64_t from = 0; from < whole; from += group)
        sort_group(table, basis->lengths, items, from, whole - from < group ? whole - from : group);
    free(items);
    shuffle_buckets(table, &draw, buckets, size);
    for (uint64_t bucket = 0; bucket < buckets; bucket++)
        shuffle(table, &draw, bucket * size, size);
    return 0;
}
