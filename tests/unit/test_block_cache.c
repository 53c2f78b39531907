/* Where blocks are cut, and how they wait in memory: bounded, each let go once it was taken. */
#include "unit.h"

#include "shard.h"

#include "../../core/block_cache.h"
#include "../../core/draw.h"
#include "../../core/reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 30                     /* of a shard */
#define BYTES   1500                   /* of a sample: 2,048 with its header and padding */
#define BLOCK   8192                   /* four of them */
#define HELD    (BLOCK + READER_SLACK) /* what it takes in memory */

static struct shard_folder folder;
static struct index *set;
static struct blocks blocks;

/* `samples` samples, each `bytes` long, in a new shard. */
static void add_shard(const char *name, int samples, size_t bytes)
{
    char names[64][24], content[8192];
    const char *members[2 * 64 + 1] = {NULL};

    memset(content, 'x', bytes);
    content[bytes] = '\0';
    for (int i = 0; i < samples; i++) {
        snprintf(names[i], sizeof names[i], "%c%03d.jpg", name[0], i);
        members[2 * i] = names[i];
        members[2 * i + 1] = content;
    }
    folder_add_tar(&folder, name, "ustar", members);
}

static void begin(void)
{
    report_watch(NULL);
    folder_make(&folder);
}

static void cut(uint64_t bytes)
{
    cr_assert_eq(index_open(&set, &folder.shards, 1, "none"), 0);
    cr_assert_eq(blocks_open(&blocks, set, bytes), 0);
}

static void end(void)
{
    blocks_close(&blocks);
    index_close(set);
    folder_remove(&folder);
    report_stop();
}

static uint64_t extent_of(uint64_t block)
{
    uint64_t from, to;

    blocks_extent(set, blocks.starts[block], blocks.starts[block + 1], &from, &to);
    return to - from;
}

Test(block_cache, blocks_are_as_large_as_may_be_and_never_cross_shards)
{
    uint64_t from, to;

    begin();
    add_shard("a.tar", SAMPLES, BYTES);
    add_shard("b.tar", SAMPLES, BYTES);
    cut(BLOCK);
    cr_assert_eq(blocks.count, 16);
    cr_assert_eq(blocks.starts[0], 0);
    cr_assert_eq(blocks.starts[blocks.count], 2 * SAMPLES);
    for (uint64_t block = 0; block < blocks.count; block++) {
        uint64_t first = blocks.starts[block], after = blocks.starts[block + 1];
        cr_assert_eq(after - first, block % 8 == 7 ? 2 : 4);
        cr_assert_eq(index_shard_of(set, first), index_shard_of(set, after - 1));
        cr_assert(extent_of(block) <= BLOCK);
        blocks_extent(set, first, after, &from, &to);
        cr_assert_eq(from, set->members[set->first[first]].offset - INDEX_HEADER_BYTES);
        cr_assert_eq(to, set->members[set->first[after - 1]].offset + BYTES);
        for (uint64_t sample = first; sample < after; sample++)
            cr_assert_eq(blocks_of(blocks.starts, blocks.count, sample), block);
    }
    end();
}

Test(block_cache, a_sample_larger_than_a_block_is_a_block_and_is_not_held)
{
    struct block_cache *cache;
    struct held_block *held = NULL;
    uint64_t from, to;

    begin();
    add_shard("a.tar", 3, BYTES);
    cut(1);
    cr_assert_eq(blocks.count, 3);
    cr_assert_eq(block_cache_open(&cache, set, &blocks, 1, 1 << 20), 0);
    cr_assert(!block_cache_extent(cache, 1, &from, &to));
    cr_assert_eq(to - from, BYTES + INDEX_HEADER_BYTES);
    cr_assert_eq(block_cache_claim(cache, 1, true, &held), BLOCK_ALONE);
    block_cache_close(cache);
    end();
}

/* The link's bytes are the first member's: a block of both would be the whole shard. */
Test(block_cache, bytes_of_a_hard_link_do_not_stretch_a_block)
{
    char content[BYTES + 1];

    begin();
    memset(content, 'y', BYTES);
    content[BYTES] = '\0';
    folder_add_tar(&folder, "a.tar", "ustar",
                   (const char *const[]){"a.jpg", content, "b.jpg", content, "c.jpg", content,
                                         "d.jpg", "=>a.jpg", "e.jpg", content, NULL});
    cut(5000);
    cr_assert_eq(set->sample_count, 5);
    for (uint64_t block = 0; block < blocks.count; block++)
        cr_assert(extent_of(block) <= 5000, "block %llu", (unsigned long long)block);
    end();
}

static struct block_cache *open_cache(uint64_t block_bytes, uint64_t bytes)
{
    struct block_cache *cache = NULL;

    begin();
    add_shard("a.tar", SAMPLES, BYTES);
    add_shard("b.tar", SAMPLES, BYTES);
    cut(block_bytes);
    cr_assert_eq(block_cache_open(&cache, set, &blocks, block_bytes, bytes), 0);
    return cache;
}

/* As the reader does it. False: the sample is read by itself. */
static bool take(struct block_cache *cache, uint64_t sample, uint64_t bytes)
{
    struct held_block *held = block_cache_find(cache, sample);

    if (!held) {
        enum block_cache_answer answer = block_cache_claim(cache, sample, true, &held);
        if (answer == BLOCK_TO_READ) {
            held->data = held->memory;
            memset(held->data, (int)held->block, (size_t)(held->to - held->from));
            block_cache_landed(cache, held, true);
        } else if (answer != BLOCK_HELD) {
            return false;
        }
    }
    cr_assert_eq(held->block, blocks_of(blocks.starts, blocks.count, sample));
    cr_assert_eq(held->data[0], (char)held->block);
    cr_assert_eq(held->data[held->to - held->from - 1], (char)held->block);
    block_cache_release(cache, held, sample, bytes);
    return true;
}

Test(block_cache, each_block_is_read_once_and_goes_when_it_was_taken)
{
    struct block_cache *cache = open_cache(BLOCK, 1 << 20);

    for (uint64_t sample = 0; sample < 2 * SAMPLES; sample++)
        cr_assert(take(cache, sample, BYTES));
    cr_assert_eq(block_cache_figures(cache).read, 16);
    cr_assert_eq(block_cache_figures(cache).beside, 0);
    cr_assert(block_cache_figures(cache).held <= 8);
    block_cache_close(cache);
    end();
}

static uint64_t minutes;

static uint64_t now(void)
{
    return minutes * 60 * 1000000000;
}

/* The rest of its samples may be in the page cache, where nobody asks for them here: with room for
 * all, memory must not grow from epoch to epoch. */
Test(block_cache, a_block_that_nobody_came_for_in_minutes_goes_where_there_is_room_too)
{
    struct block_cache *cache = open_cache(BLOCK, 1 << 20);

    minutes = 1;
    block_cache_use_clock(cache, now);
    for (uint64_t sample = 0; sample < 2 * SAMPLES; sample += 4)
        cr_assert(take(cache, sample, BYTES));
    cr_assert_eq(block_cache_figures(cache).held, 15);
    minutes = 2;
    cr_assert(take(cache, 1, BYTES));
    minutes = 3;
    cr_assert_eq(block_cache_figures(cache).held, 15);
    minutes = 4;
    cr_assert_eq(block_cache_figures(cache).held, 1);
    cr_assert_eq(block_cache_figures(cache).bytes, HELD);
    minutes = 5;
    cr_assert_eq(block_cache_figures(cache).held, 0);
    cr_assert_eq(block_cache_figures(cache).bytes, 0);
    block_cache_close(cache);
    end();
}

/* In pieces and in any order, as streams are read: the last piece alone does not end it. */
Test(block_cache, a_sample_is_taken_when_all_its_bytes_were)
{
    struct block_cache *cache = open_cache(BLOCK, 1 << 20);

    for (int half = 0; half < 2; half++)
        for (uint64_t sample = 0; sample < 2 * SAMPLES; sample++) {
            cr_assert(take(cache, sample, BYTES / 2));
            if (half == 0 && sample == 2 * SAMPLES - 1)
                cr_assert_eq(block_cache_figures(cache).held, 16);
        }
    cr_assert_eq(block_cache_figures(cache).read, 16);
    cr_assert(block_cache_figures(cache).held <= 8);
    block_cache_close(cache);
    end();
}

Test(block_cache, no_more_is_held_than_the_limit_and_the_rest_goes_beside)
{
    struct block_cache *cache = open_cache(BLOCK, 3 * HELD);
    struct held_block *held = NULL;
    unsigned taken = 0;

    /* One sample of each block: none is through. */
    for (uint64_t sample = 0; sample < SAMPLES; sample += 4)
        taken += take(cache, sample, BYTES);
    cr_assert_eq(taken, 3);
    cr_assert_eq(block_cache_figures(cache).beside, 5);
    cr_assert(block_cache_figures(cache).bytes <= 3 * HELD);
    /* Once the three are through, there is room. */
    for (uint64_t sample = 0; sample < 12; sample++)
        cr_assert(take(cache, sample, BYTES));
    cr_assert(take(cache, SAMPLES, BYTES));
    cr_assert(block_cache_figures(cache).bytes <= 3 * HELD);
    /* And what may not be held goes beside at once. */
    cr_assert_eq(block_cache_claim(cache, SAMPLES + 4, false, &held), BLOCK_BESIDE);
    block_cache_close(cache);
    end();
}

/* Each is a sample of 2 KiB, and takes pages of its own. */
Test(block_cache, small_blocks_count_with_all_the_memory_that_they_take)
{
    const uint64_t each = READER_ALIGN + READER_SLACK;
    struct block_cache *cache = open_cache(2048, 3 * each);
    unsigned taken = 0;

    cr_assert_eq(blocks.count, 2 * SAMPLES);
    for (uint64_t sample = 0; sample < SAMPLES; sample++)
        taken += take(cache, sample, BYTES / 2);
    cr_assert_eq(taken, 3);
    cr_assert_eq(block_cache_figures(cache).bytes, 3 * each);
    block_cache_close(cache);
    end();
}

/* Blocks of 15 samples, without room: at most one in four reads of a block reads all of it. */
Test(block_cache, a_block_is_not_read_whole_for_every_sample_where_memory_is_short)
{
    struct block_cache *cache = open_cache(15 * 2048, 0);
    struct held_block *held = NULL;
    unsigned whole = 0;

    cr_assert_eq(blocks.count, 4);
    for (uint64_t sample = 0; sample < 15; sample++) {
        enum block_cache_answer answer = block_cache_claim(cache, sample, true, &held);
        cr_assert(answer == BLOCK_BESIDE || answer == BLOCK_ALONE);
        whole += answer == BLOCK_BESIDE;
    }
    cr_assert(whole >= 2 && whole <= 15 / 3, "%u times", whole);
    block_cache_close(cache);
    end();
}

Test(block_cache, a_block_that_cannot_be_read_is_left_to_its_samples)
{
    struct block_cache *cache = open_cache(15 * 2048, 1 << 20);
    struct held_block *held = NULL;

    cr_assert_eq(block_cache_claim(cache, 0, true, &held), BLOCK_TO_READ);
    block_cache_landed(cache, held, false);
    cr_assert_eq(block_cache_find(cache, 0), NULL);
    cr_assert_eq(block_cache_figures(cache).bytes, 0);
    cr_assert_eq(block_cache_figures(cache).read, 0);
    cr_assert_eq(block_cache_claim(cache, 1, true, &held), BLOCK_ALONE);
    block_cache_close(cache);
    end();
}

#define THREADS 6

static void *read_here_and_there(void *context)
{
    struct block_cache *cache = context;
    struct draw draw;

    draw_seed(&draw, (uint64_t)pthread_self(), 0, 0);
    for (int i = 0; i < 4000; i++)
        (void)take(cache, draw_below(&draw, (uint64_t)2 * SAMPLES), BYTES);
    return NULL;
}

Test(block_cache, many_threads_get_whole_blocks_and_the_limit_holds)
{
    struct block_cache *cache = open_cache(BLOCK, 5 * HELD);
    pthread_t threads[THREADS];

    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, read_here_and_there, cache), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    cr_assert(block_cache_figures(cache).bytes <= 5 * HELD);
    cr_assert(block_cache_figures(cache).read > 5);
    block_cache_close(cache);
    end();
}
