/* Where blocks are cut. Owns the table of their starts; reads nothing but the index. */
#include "blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Extends an extent by the bytes of one sample. Members stand in name order, and a hard link's
 * bytes may be anywhere before it. */
static void extend(const struct index *index, uint64_t sample, uint64_t *from, uint64_t *to)
{
    for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++) {
        const struct index_member *at = &index->members[m];
        if (at->offset - INDEX_HEADER_BYTES < *from)
            *from = at->offset - INDEX_HEADER_BYTES;
        if (at->offset + at->size > *to)
            *to = at->offset + at->size;
    }
}

void blocks_extent(const struct index *index, uint64_t first, uint64_t end, uint64_t *from,
                   uint64_t *to)
{
    *from = UINT64_MAX;
    *to = 0;
    for (uint64_t sample = first; sample < end; sample++)
        extend(index, sample, from, to);
    if (*to == 0)
        *from = 0;
}

/* Notes the starts of one shard's blocks, where `starts` is not NULL. Returns how many. */
static uint64_t cut_shard(const struct index *index, size_t shard, uint64_t bytes, uint64_t *starts)
{
    uint64_t count = 0, from = UINT64_MAX, to = 0;

    for (uint64_t sample = index->shards[shard].first_sample;
         sample < index->shards[shard + 1].first_sample; sample++) {
        uint64_t wide_from = from, wide_to = to;
        extend(index, sample, &wide_from, &wide_to);
        if (count == 0 || wide_to - wide_from > bytes) {
            wide_from = UINT64_MAX;
            wide_to = 0;
            extend(index, sample, &wide_from, &wide_to);
            if (starts)
                starts[count] = sample;
            count++;
        }
        from = wide_from;
        to = wide_to;
    }
    return count;
}

int blocks_open(struct blocks *blocks, const struct index *index, uint64_t bytes)
{
    uint64_t count = 0;

    *blocks = (struct blocks){0};
    for (size_t shard = 0; shard < index->shard_count; shard++)
        count += cut_shard(index, shard, bytes, NULL);
    blocks->starts = calloc(count + 1, sizeof *blocks->starts);
    if (!blocks->starts)
        return -ENOMEM;
    for (size_t shard = 0; shard < index->shard_count; shard++)
        blocks->count += cut_shard(index, shard, bytes, blocks->starts + blocks->count);
    blocks->starts[blocks->count] = index->sample_count;
    return 0;
}

void blocks_close(struct blocks *blocks)
{
    free(blocks->starts);
    *blocks = (struct blocks){0};
}

uint64_t blocks_of(const uint64_t *starts, uint64_t count, uint64_t sample)
{
    uint64_t low = 0, high = count;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (starts[middle] <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}
