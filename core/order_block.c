/* order=block: CorgiPile's two levels (Xu et al., "In-Database Machine Learning with CorgiPile",
 * SIGMOD 2022) over canonical streams. Owns the row of blocks while it fills a table. */
#include "order_block.h"

#include "order_table.h"

#include <errno.h>
#include <stdlib.h>

#define USE_BLOCK 0x626c6f636b /* "block": sets this order's draws apart from other orders' */

int block_row_open(struct block_row *row, const struct order_basis *basis, uint64_t streams,
                   struct draw *draw)
{
    uint64_t count = basis->block_count, end = 0;

    *row = (struct block_row){.basis = basis, .streams = streams};
    row->blocks = calloc(count + 1, sizeof *row->blocks);
    row->ends = calloc(count + 1, sizeof *row->ends);
    if (!row->blocks || !row->ends) {
        block_row_close(row);
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < count; i++)
        row->blocks[i] = i;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t z = i + draw_below(draw, count - i), block = row->blocks[z];
        row->blocks[z] = row->blocks[i];
        row->blocks[i] = block;
        end += basis->blocks[block + 1] - basis->blocks[block];
        row->ends[i] = end;
    }
    return 0;
}

void block_row_close(struct block_row *row)
{
    free(row->blocks);
    free(row->ends);
    row->blocks = row->ends = NULL;
}

/* The place of the block that has place `at` of the row. */
static uint64_t find(const struct block_row *row, uint64_t at)
{
    uint64_t low = 0, high = row->basis->block_count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (row->ends[middle] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint64_t start_of(const struct block_row *row, uint64_t i)
{
    return i ? row->ends[i - 1] : 0;
}

uint64_t block_row_sample(const struct block_row *row, uint64_t place)
{
    uint64_t i = find(row, place);

    return row->basis->blocks[row->blocks[i]] + (place - start_of(row, i));
}

/* How many of the streams below `bound` have their part of the row before this one's: those of the
 * even streams stand first, then those of the odd ones. */
static uint64_t streams_before(uint64_t stream, uint64_t bound)
{
    uint64_t half = stream / 2, even = (bound + 1) / 2, odd = bound / 2;

    if (stream % 2 == 0)
        return half < even ? half : even;
    return even + (half < odd ? half : odd);
}

struct block_pools block_pools_of(const struct block_row *row, uint64_t stream, uint64_t window)
{
    uint64_t n = row->basis->samples, length = n / row->streams, more = n % row->streams;
    struct block_pools pools = {
        .start = streams_before(stream, row->streams) * length + streams_before(stream, more),
    };

    pools.end = pools.start + length + (stream < more);
    if (pools.start == pools.end)
        return pools;
    pools.first = find(row, pools.start);
    pools.count = find(row, pools.end - 1) - pools.first + 1;
    pools.pools = (pools.count - 1) / window + 1;
    return pools;
}

/* Of `count` blocks in `pools` pools, the first count % pools have one more. */
static uint64_t blocks_before(const struct block_pools *pools, uint64_t pool)
{
    uint64_t each = pools->count / pools->pools, more = pools->count % pools->pools;

    return pool * each + (pool < more ? pool : more);
}

void block_pool_at(const struct block_row *row, const struct block_pools *pools, uint64_t pool,
                   uint64_t *from, uint64_t *to)
{
    *from = pool ? row->ends[pools->first + blocks_before(pools, pool) - 1] : pools->start;
    *to = pool + 1 < pools->pools ? row->ends[pools->first + blocks_before(pools, pool + 1) - 1]
                                  : pools->end;
}

/* Where in the global order the places of one stream stand. */
struct lane {
    struct order_table *table;
    uint64_t stream, streams;
};

static uint64_t lane_get(const struct lane *lane, uint64_t i)
{
    return order_table_get(lane->table, i * lane->streams + lane->stream);
}

static void lane_put(const struct lane *lane, uint64_t i, uint64_t sample)
{
    order_table_put(lane->table, i * lane->streams + lane->stream, sample);
}

/* Writes the row's places [from, to) to the lane from `at` on, in the row's order. `*i` is the
 * place of the block that has the first of them, and moves on. */
static void lay_out(const struct block_row *row, const struct lane *lane, uint64_t from,
                    uint64_t to, uint64_t at, uint64_t *i)
{
    while (from < to) {
        uint64_t start = start_of(row, *i), end = row->ends[*i];
        uint64_t sample = row->basis->blocks[row->blocks[*i]] + (from - start);
        for (; from < end && from < to; from++)
            lane_put(lane, at++, sample++);
        if (from == end)
            ++*i;
    }
}

static void shuffle(const struct lane *lane, uint64_t at, uint64_t count, struct draw *draw)
{
    for (uint64_t i = 0; i + 1 < count; i++) {
        uint64_t z = i + draw_below(draw, count - i), kept = lane_get(lane, at + i);
        lane_put(lane, at + i, lane_get(lane, at + z));
        lane_put(lane, at + z, kept);
    }
}

int order_fill_block(struct order_table *table, const struct order_spec *spec,
                     const struct order_basis *basis, uint64_t epoch)
{
    struct lane lane = {.table = table, .streams = spec->streams};
    struct block_row row;
    struct draw draw;
    int fault;

    draw_seed(&draw, spec->seed, epoch, USE_BLOCK);
    fault = block_row_open(&row, basis, spec->streams, &draw);
    if (fault)
        return fault;
    for (; lane.stream < spec->streams && lane.stream < basis->samples; lane.stream++) {
        struct block_pools pools = block_pools_of(&row, lane.stream, spec->window);
        uint64_t i = pools.first, from, to;
        for (uint64_t pool = 0; pool < pools.pools; pool++) {
            block_pool_at(&row, &pools, pool, &from, &to);
            lay_out(&row, &lane, from, to, from - pools.start, &i);
            shuffle(&lane, from - pools.start, to - from, &draw);
        }
    }
    block_row_close(&row);
    return 0;
}
