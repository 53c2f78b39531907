/* Blocks that wait in memory. Owns them; never reads a file. */
#include "block_cache.h"

#include "clock.h"
#include "reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Blocks of which all samples were taken, kept for a moment: of a sample's fields some are asked
 * for after the others. */
#define SPENT_KEPT 8
/* A block that nobody came for so long may go when there is no room: its reader went away, or has
 * the rest of its samples from elsewhere. Nanoseconds. */
#define IDLE_NS ((uint64_t)30 * 1000000000)
/* And so long also where there is room: a loader that evaluates comes back, but samples that are in
 * the page cache are never asked for, and their block would wait for ever. */
#define AWAY_NS ((uint64_t)120 * 1000000000)
/* The same of a block that is spent. */
#define SPENT_NS ((uint64_t)2 * 1000000000)
/* A block is read whole again when one sample in so many was asked for since. */
#define AGAIN_PART 4
/* One read; Linux reads no more than 2 GiB at once. */
#define BLOCK_MOST ((uint64_t)1 << 30)

/* A block of the data set. */
struct place {
    struct held_block_state *state; /* NULL: not in memory */
    uint32_t asked; /* samples asked for since it was read whole, and one; 0: it never was */
};

enum phase { READING, HELD, FAILED };

/* All guarded by block_cache.lock. */
struct held_block_state {
    struct held_block block;
    enum phase phase;
    unsigned users;                          /* who reads it, copies out of it, or waits for it */
    uint64_t used;                           /* when it was last asked for, in ns */
    uint64_t left;                           /* samples that were not taken */
    struct held_block_state *before, *after; /* in its queue */
    uint32_t copied[];                       /* bytes that were copied out, by member */
};

/* Blocks in memory, the one used longest ago first: so none is looked for, however many there are.
 */
struct queue {
    struct held_block_state *first, *last;
};

struct block_cache {
    const struct index *index;
    const struct blocks *blocks;
    uint64_t block_bytes;
    uint64_t (*now)(void);
    pthread_mutex_t lock; /* guards all below; held for arithmetic alone */
    pthread_cond_t landed;
    struct place *places;
    struct queue wanted, spent; /* with samples left, and with none */
    uint64_t spent_count;
    struct block_cache_figures figures;
};

int block_cache_open(struct block_cache **out, const struct index *index,
                     const struct blocks *blocks, uint64_t block_bytes, uint64_t bytes)
{
    struct block_cache *cache = calloc(1, sizeof *cache);

    if (!cache)
        return -ENOMEM;
    cache->index = index;
    cache->blocks = blocks;
    cache->block_bytes = block_bytes < BLOCK_MOST ? block_bytes : BLOCK_MOST;
    cache->figures.limit = bytes;
    cache->now = clock_now_ns;
    cache->places = calloc(blocks->count + 1, sizeof *cache->places);
    pthread_mutex_init(&cache->lock, NULL);
    pthread_cond_init(&cache->landed, NULL);
    if (!cache->places) {
        block_cache_close(cache);
        return -ENOMEM;
    }
    *out = cache;
    return 0;
}

void block_cache_use_clock(struct block_cache *cache, uint64_t (*now)(void))
{
    cache->now = now;
}

static void free_state(struct held_block_state *state)
{
    if (state)
        free(state->block.memory);
    free(state);
}

static void free_queue(struct queue *queue)
{
    while (queue->first) {
        struct held_block_state *state = queue->first;
        queue->first = state->after;
        free_state(state);
    }
}

void block_cache_close(struct block_cache *cache)
{
    if (!cache)
        return;
    free_queue(&cache->wanted);
    free_queue(&cache->spent);
    pthread_cond_destroy(&cache->landed);
    pthread_mutex_destroy(&cache->lock);
    free(cache->places);
    free(cache);
}

static uint64_t block_of(const struct block_cache *cache, uint64_t sample)
{
    return blocks_of(cache->blocks->starts, cache->blocks->count, sample);
}

static uint64_t samples_of(const struct block_cache *cache, uint64_t block)
{
    return cache->blocks->starts[block + 1] - cache->blocks->starts[block];
}

bool block_cache_extent(const struct block_cache *cache, uint64_t sample, uint64_t *from,
                        uint64_t *to)
{
    uint64_t block = block_of(cache, sample);

    blocks_extent(cache->index, cache->blocks->starts[block], cache->blocks->starts[block + 1],
                  from, to);
    return *to - *from <= cache->block_bytes;
}

static void note_asked(struct block_cache *cache, uint64_t block)
{
    struct place *place = &cache->places[block];

    if (place->asked && place->asked < UINT32_MAX)
        place->asked++;
}

/* The queues. The lock is held. */

static struct queue *queue_of(struct block_cache *cache, const struct held_block_state *state)
{
    return state->left ? &cache->wanted : &cache->spent;
}

static void leave(struct block_cache *cache, struct held_block_state *state)
{
    struct queue *queue = queue_of(cache, state);

    *(state->before ? &state->before->after : &queue->first) = state->after;
    *(state->after ? &state->after->before : &queue->last) = state->before;
    state->before = state->after = NULL;
    cache->spent_count -= state->left == 0;
}

static void join_last(struct block_cache *cache, struct held_block_state *state)
{
    struct queue *queue = queue_of(cache, state);

    state->before = queue->last;
    *(queue->last ? &queue->last->after : &queue->first) = state;
    queue->last = state;
    cache->spent_count += state->left == 0;
}

/* What a block of so many bytes takes, also where that is less than a page. */
static size_t memory_of(uint64_t bytes)
{
    return (bytes + READER_SLACK + READER_ALIGN - 1) / READER_ALIGN * READER_ALIGN;
}

/* Takes a block that nobody uses out of what is held. The caller frees it, once the lock is given
 * up. */
static struct held_block_state *let_go(struct block_cache *cache, struct held_block_state *state)
{
    leave(cache, state);
    cache->places[state->block.block].state = NULL;
    cache->figures.held--;
    cache->figures.bytes -= memory_of(state->block.to - state->block.from);
    return state;
}

/* The block used longest ago of those that are spent, or else were not used for IDLE_NS; NULL:
 * none. Those in use are few. */
static struct held_block_state *find_victim(const struct block_cache *cache, bool only_spent)
{
    struct held_block_state *state = cache->spent.first;
    uint64_t now;

    while (state && state->users)
        state = state->after;
    if (state || only_spent)
        return state;
    now = cache->now();
    for (state = cache->wanted.first; state && now - state->used > IDLE_NS; state = state->after)
        if (state->users == 0)
            return state;
    return NULL;
}

/* One that nobody uses, and that nobody came for so long that it goes, room or not; NULL: none. */
static struct held_block_state *find_forgotten(const struct block_cache *cache)
{
    struct held_block_state *const ends[] = {cache->spent.first, cache->wanted.first};
    const uint64_t most[] = {SPENT_NS, AWAY_NS};
    uint64_t now = cache->now();

    for (int i = 0; i < 2; i++)
        if (ends[i] && ends[i]->users == 0 && now - ends[i]->used > most[i])
            return ends[i];
    return NULL;
}

/* One more user of what is in memory, once it is there. NULL: it could not be read. The lock is
 * held. */
static struct held_block *await(struct block_cache *cache, struct held_block_state *state)
{
    state->users++;
    state->used = cache->now();
    leave(cache, state);
    join_last(cache, state);
    while (state->phase == READING)
        pthread_cond_wait(&cache->landed, &cache->lock);
    if (state->phase == HELD)
        return &state->block;
    if (--state->users == 0)
        free_state(state);
    return NULL;
}

struct held_block *block_cache_find(struct block_cache *cache, uint64_t sample)
{
    uint64_t block = block_of(cache, sample);
    struct held_block *held = NULL;

    pthread_mutex_lock(&cache->lock);
    if (cache->places[block].state) {
        note_asked(cache, block);
        held = await(cache, cache->places[block].state);
    }
    pthread_mutex_unlock(&cache->lock);
    return held;
}

/* Room for `bytes` more: lets others go for it. What is to be freed is put in `gone`, as many as
 * there may be. False: there is none. The lock is held. */
#define GONE_MOST 64
static bool make_room(struct block_cache *cache, uint64_t bytes, struct held_block_state **gone,
                      size_t *gone_count)
{
    if (bytes > cache->figures.limit)
        return false;
    while (cache->figures.bytes > cache->figures.limit - bytes) {
        struct held_block_state *victim = NULL;
        if (*gone_count < GONE_MOST)
            victim = find_victim(cache, false);
        if (!victim)
            return false;
        gone[(*gone_count)++] = let_go(cache, victim);
    }
    return true;
}

/* Of a sample that has none, nothing is ever asked for. */
static bool has_bytes(const struct index *index, uint64_t sample)
{
    for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++)
        if (index->members[m].size)
            return true;
    return false;
}

/* A block to be read, of which no memory is there yet. NULL: no memory. */
static struct held_block_state *make_state(const struct block_cache *cache, uint64_t block,
                                           uint64_t from, uint64_t to)
{
    const uint32_t *first = cache->index->first;
    uint64_t start = cache->blocks->starts[block], end = cache->blocks->starts[block + 1];
    struct held_block_state *state = calloc(1, sizeof *state + (size_t)(first[end] - first[start]) *
                                                                   sizeof *state->copied);

    if (!state)
        return NULL;
    state->block = (struct held_block){
        .shard = index_shard_of(cache->index, start),
        .block = block,
        .from = from,
        .to = to,
        .memory = aligned_alloc(READER_ALIGN, memory_of(to - from)),
        .state = state,
    };
    for (uint64_t sample = start; sample < end; sample++)
        state->left += has_bytes(cache->index, sample);
    state->users = 1;
    if (state->block.memory)
        return state;
    free(state);
    return NULL;
}

/* The lock is held. `state` is used up if that is the answer. */
static enum block_cache_answer claim(struct block_cache *cache, uint64_t block,
                                     struct held_block_state *state, struct held_block **held,
                                     struct held_block_state **gone, size_t *gone_count)
{
    struct place *place = &cache->places[block];
    uint64_t bytes;

    if (place->state) {
        note_asked(cache, block);
        *held = await(cache, place->state);
        return *held ? BLOCK_HELD : BLOCK_ALONE;
    }
    if (place->asked && place->asked - 1 < samples_of(cache, block) / AGAIN_PART) {
        note_asked(cache, block);
        return BLOCK_ALONE;
    }
    place->asked = 2; /* this one */
    bytes = state ? memory_of(state->block.to - state->block.from) : 0;
    if (!state || !make_room(cache, bytes, gone, gone_count)) {
        cache->figures.beside++;
        return BLOCK_BESIDE;
    }
    state->used = cache->now();
    place->state = state;
    join_last(cache, state);
    cache->figures.held++;
    cache->figures.bytes += bytes;
    *held = &state->block;
    return BLOCK_TO_READ;
}

enum block_cache_answer block_cache_claim(struct block_cache *cache, uint64_t sample, bool may_hold,
                                          struct held_block **held)
{
    struct held_block_state *state = NULL, *gone[GONE_MOST];
    uint64_t from, to;
    size_t gone_count = 0;
    enum block_cache_answer answer;

    if (!block_cache_extent(cache, sample, &from, &to))
        return BLOCK_ALONE;
    if (may_hold)
        state = make_state(cache, block_of(cache, sample), from, to);
    pthread_mutex_lock(&cache->lock);
    answer = claim(cache, block_of(cache, sample), state, held, gone, &gone_count);
    pthread_mutex_unlock(&cache->lock);
    if (answer != BLOCK_TO_READ)
        free_state(state);
    while (gone_count)
        free_state(gone[--gone_count]);
    return answer;
}

void block_cache_landed(struct block_cache *cache, struct held_block *held, bool good)
{
    struct held_block_state *state = held->state;
    bool last = false;

    pthread_mutex_lock(&cache->lock);
    state->phase = good ? HELD : FAILED;
    cache->figures.read += good;
    if (!good) { /* those that wait for it free it, the last one */
        (void)let_go(cache, state);
        last = --state->users == 0;
    }
    pthread_cond_broadcast(&cache->landed);
    pthread_mutex_unlock(&cache->lock);
    if (last)
        free_state(state);
}

/* Whether all bytes of any member of the sample were copied out. The lock is held. */
static bool is_taken(const struct block_cache *cache, const struct held_block_state *state,
                     uint64_t sample)
{
    const struct index *index = cache->index;
    uint64_t base = index->first[cache->blocks->starts[state->block.block]];

    for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++)
        if (index->members[m].size && state->copied[m - base] >= index->members[m].size)
            return true;
    return false;
}

void block_cache_release(struct block_cache *cache, struct held_block *held, uint64_t member,
                         uint64_t bytes)
{
    struct held_block_state *state = held->state, *gone = NULL;
    uint64_t base = cache->index->first[cache->blocks->starts[held->block]];
    uint64_t sample = index_sample_of(cache->index, member);
    uint32_t *copied = &state->copied[member - base];

    pthread_mutex_lock(&cache->lock);
    state->users--;
    if (!is_taken(cache, state, sample)) {
        *copied = bytes < UINT32_MAX - *copied ? *copied + (uint32_t)bytes : UINT32_MAX;
        if (is_taken(cache, state, sample)) {
            leave(cache, state);
            state->left--;
            join_last(cache, state);
        }
    }
    gone = cache->spent_count > SPENT_KEPT ? find_victim(cache, true) : NULL;
    if (!gone)
        gone = find_forgotten(cache);
    if (gone)
        (void)let_go(cache, gone);
    pthread_mutex_unlock(&cache->lock);
    free_state(gone);
}

void block_cache_pass(struct block_cache *cache, uint64_t sample)
{
    pthread_mutex_lock(&cache->lock);
    note_asked(cache, block_of(cache, sample));
    pthread_mutex_unlock(&cache->lock);
}

struct block_cache_figures block_cache_figures(struct block_cache *cache)
{
    struct block_cache_figures figures;
    struct held_block_state *gone;

    do {
        pthread_mutex_lock(&cache->lock);
        gone = find_forgotten(cache);
        if (gone)
            (void)let_go(cache, gone);
        figures = cache->figures;
        pthread_mutex_unlock(&cache->lock);
        free_state(gone);
    } while (gone);
    return figures;
}
