/* Members' bytes, and whether they still are the ones that were indexed. Owns what is known of each
 * shard; core/handles.c has it open. Caches no byte but blocks (core/block_cache.c has these): that
 * is the page cache's job. */
#include "reader.h"

#include "batch.h"
#include "block_cache.h"
#include "clock.h"
#include "handles.h"
#include "range.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE_BYTES 4096
/* The least read-ahead of a device that is common. */
#define ADVISED_BYTES ((uint64_t)128 << 10)
/* A read ahead that takes longer, on average, comes from storage even where cachestat cannot tell.
 * Nanoseconds. */
#define SLOW_READ_NS 300000

/* A shard that fails and recovers again and again gives no more than one line in this time. */
#define COMPLAIN_AGAIN_NS ((uint64_t)10 * 1000000000)

_Static_assert(READER_ALIGN == RANGE_ALIGN && READER_SLACK == RANGE_SLACK,
               "what callers are told of buffers is what ranges need");

struct shard_state {
    atomic_ullong errors;
    atomic_ullong complained; /* when, in ns; 0: not, or it was read well since */
};

struct reader {
    const struct index *index;
    struct handles *handles;
    struct shard_state *shards;
    struct block_cache *blocks; /* NULL: samples are read one by one */
    struct range_source source;
    atomic_bool no_cachestat;
    atomic_bool *no_direct; /* of each shard */
    atomic_ullong *cut_at;  /* of each shard */
    atomic_ullong reads, bytes, direct_reads, failed, ns;
    atomic_ullong ahead_ns; /* a moving average of what a read takes */
    atomic_uint coldness;   /* a moving average of reads that found nothing in the cache; of 1024 */
};

int reader_open(struct reader **out, const struct index *index, size_t most_open,
                enum reader_direct direct)
{
    struct reader *reader = calloc(1, sizeof *reader);

    if (!reader)
        return -ENOMEM;
    reader->index = index;
    reader->shards = calloc(index->shard_count + 1, sizeof *reader->shards);
    reader->no_direct = calloc(index->shard_count + 1, sizeof *reader->no_direct);
    reader->cut_at = calloc(index->shard_count + 1, sizeof *reader->cut_at);
    if (!reader->shards || !reader->no_direct || !reader->cut_at ||
        handles_open(&reader->handles, index, most_open)) {
        reader_close(reader);
        return -ENOMEM;
    }
    reader->source = (struct range_source){
        .index = index,
        .handles = reader->handles,
        .never_around = direct == READER_DIRECT_NEVER,
        .around_if_unknown = direct == READER_DIRECT_ALWAYS,
        .no_direct = reader->no_direct,
        .cut_at = reader->cut_at,
        .no_cachestat = &reader->no_cachestat,
    };
    *out = reader;
    return 0;
}

int reader_keep_blocks(struct reader *reader, const struct blocks *blocks, uint64_t block_bytes,
                       uint64_t bytes)
{
    return block_cache_open(&reader->blocks, reader->index, blocks, block_bytes, bytes);
}

void reader_close(struct reader *reader)
{
    if (!reader)
        return;
    block_cache_close(reader->blocks);
    handles_close(reader->handles);
    free(reader->shards);
    free(reader->no_direct);
    free(reader->cut_at);
    free(reader);
}

static ssize_t fail(struct reader *reader, size_t shard, uint64_t offset, const char *why)
{
    const struct index_shard *at = &reader->index->shards[shard];
    struct shard_state *state = &reader->shards[shard];
    unsigned long long none = 0;

    atomic_fetch_add(&state->errors, 1);
    if (atomic_compare_exchange_strong(&state->complained, &none, clock_now_ns()))
        report_error("%s: %s%s%soffset %llu: %s; its samples answer EIO", at->path,
                     at->file ? "its unpacked copy " : "", at->file ? at->file : "",
                     at->file ? ": " : "", (unsigned long long)offset, why);
    return -EIO;
}

/* A shard of which some reads fail and others do not is complained of once in a while. */
static void succeed(struct reader *reader, size_t shard)
{
    struct shard_state *state = &reader->shards[shard];
    unsigned long long since = atomic_load_explicit(&state->complained, memory_order_relaxed);

    if (since && clock_now_ns() - since > COMPLAIN_AGAIN_NS &&
        atomic_compare_exchange_strong(&state->complained, &since, 0))
        report_info("%s: samples can be read again", reader->index->shards[shard].path);
}

static void count(struct reader *reader, uint64_t bytes, bool direct, uint64_t since)
{
    atomic_fetch_add_explicit(&reader->reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&reader->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&reader->direct_reads, direct, memory_order_relaxed);
    atomic_fetch_add_explicit(&reader->ns, clock_now_ns() - since, memory_order_relaxed);
}

static void learn(struct reader *reader, bool around, uint64_t took)
{
    uint64_t average = atomic_load_explicit(&reader->ahead_ns, memory_order_relaxed);
    unsigned cold = atomic_load_explicit(&reader->coldness, memory_order_relaxed);

    atomic_store_explicit(&reader->ahead_ns, average - average / 16 + took / 16,
                          memory_order_relaxed);
    atomic_store_explicit(&reader->coldness, cold - cold / 16 + (around ? 64 : 0),
                          memory_order_relaxed);
}

/* Blocks. */

static bool read_block(struct reader *reader, struct held_block *held)
{
    struct range range = {.shard = held->shard,
                          .offset = held->from,
                          .size = (size_t)(held->to - held->from),
                          .buffer = held->memory};
    uint64_t since = clock_now_ns();
    bool fresh, around = true;
    struct handle *handle;
    const char *why;

    if (handles_take(reader->handles, range.shard, &handle, &fresh))
        return false;
    why = range_read(&reader->source, &range, handle, &around);
    handles_release(reader->handles, range.shard, handle, why != NULL);
    if (why)
        return false;
    held->data = range.data;
    learn(reader, true, clock_now_ns() - since);
    count(reader, range.size, around, since);
    return true;
}

/* Starts to read a range into the page cache. Of one call the kernel takes no more than the
 * device's read-ahead, and forgets the rest (force_page_cache_ra in mm/readahead.c). */
static void bring_in(int fd, uint64_t from, uint64_t to)
{
    for (; from < to; from += ADVISED_BYTES)
        posix_fadvise(fd, (off_t)from,
                      (off_t)(to - from < ADVISED_BYTES ? to - from : ADVISED_BYTES),
                      POSIX_FADV_WILLNEED);
}

/* What to do about a block that is not in memory. Where it is to come through the page cache, the
 * kernel is told. */
static enum block_cache_answer claim_block(struct reader *reader, const struct range *range,
                                           uint64_t sample, struct held_block **held)
{
    enum block_cache_answer answer = BLOCK_ALONE;
    uint64_t from, to;
    struct handle *handle;
    bool fresh;

    if (!block_cache_extent(reader->blocks, sample, &from, &to) ||
        handles_take(reader->handles, range->shard, &handle, &fresh))
        return BLOCK_ALONE;
    if (range_in_cache(&reader->source, handle->fd, range->offset, range->size) == RANGE_CACHED)
        block_cache_pass(reader->blocks, sample);
    else
        answer = block_cache_claim(
            reader->blocks, sample,
            range_goes_around(&reader->source, range->shard, handle->fd, from, to - from), held);
    if (answer == BLOCK_BESIDE)
        bring_in(handle->fd, from, to);
    handles_release(reader->handles, range->shard, handle, false);
    return answer;
}

/* The block of `sample`, in memory; NULL: it is not, and the sample is to be read by itself. */
static struct held_block *hold_block(struct reader *reader, const struct range *range,
                                     uint64_t sample)
{
    struct held_block *held = block_cache_find(reader->blocks, sample);
    bool good;

    if (held)
        return held;
    switch (claim_block(reader, range, sample, &held)) {
    case BLOCK_HELD:
        return held;
    case BLOCK_TO_READ:
        good = read_block(reader, held);
        block_cache_landed(reader->blocks, held, good);
        return good ? held : NULL;
    case BLOCK_BESIDE:
    case BLOCK_ALONE:
        break;
    }
    return NULL;
}

/* Takes a range out of the block of `member`, which is read for it if need be. False: it is to be
 * read by itself, which also says what is wrong with it. */
static bool take_from_block(struct reader *reader, struct range *range, uint64_t member)
{
    struct held_block *held;
    uint64_t sample, since;
    const char *bytes;
    bool good;

    if (!reader->blocks)
        return false;
    sample = index_sample_of(reader->index, member);
    held = hold_block(reader, range, sample);
    if (!held)
        return false;
    since = clock_now_ns();
    bytes = held->data + (range->offset - held->from);
    good = !range->part_of ||
           index_header_check(held->data + (range->part_of->offset - INDEX_HEADER_BYTES -
                                            held->from)) == range->part_of->header;
    if (range->header)
        memcpy(range->header, bytes - INDEX_HEADER_BYTES, INDEX_HEADER_BYTES);
    memcpy(range->buffer, bytes, range->size);
    range->data = range->buffer;
    block_cache_release(reader->blocks, held, member, range->size);
    learn(reader, false, clock_now_ns() - since);
    return good;
}

/* Reads that somebody waits for. */

/* One try, with the shard as it is open, or opened for it (*fresh). NULL, or why not. */
static const char *try_read(struct reader *reader, struct range *range,
                            const struct index_member *member, bool *fresh, bool *cold)
{
    bool around = false;
    struct handle *handle;
    int fault = handles_take(reader->handles, range->shard, &handle, fresh);
    const char *why;

    if (fault) {
        *fresh = true;
        return strerror(-fault);
    }
    *cold = range->size >= PAGE_BYTES && !reader->source.never_around &&
            range_in_cache(&reader->source, handle->fd, range->offset, range->size) ==
                RANGE_NOT_CACHED;
    why = range_read(&reader->source, range, handle, &around);
    if (!why && range->header && index_header_check(range->header) != member->header)
        why = RANGE_HEADER_CHANGED;
    /* Whole pages alone go: those at the ends may hold a neighbour, which is often read next. */
    if (!why && *cold)
        posix_fadvise(handle->fd, (off_t)range->offset, (off_t)range->size, POSIX_FADV_DONTNEED);
    handles_release(reader->handles, range->shard, handle, why != NULL);
    return why;
}

ssize_t reader_read(struct reader *reader, uint64_t member, void *buffer, size_t size,
                    uint64_t from)
{
    const struct index_member *at = &reader->index->members[member];
    uint64_t length = at->size, since;
    char header[INDEX_HEADER_BYTES];
    /* With a member's first byte comes its header. */
    struct range range = {.shard = index_shard_of_member(reader->index, member),
                          .offset = at->offset + from,
                          .buffer = buffer,
                          .part_of = from ? at : NULL,
                          .header = from ? NULL : header};
    bool fresh, cold = false;
    const char *why;

    if (from >= length)
        return 0;
    range.size = size < length - from ? size : (size_t)(length - from);
    if (take_from_block(reader, &range, member) &&
        (from || index_header_check(header) == at->header))
        return (ssize_t)range.size;
    since = clock_now_ns();
    why = try_read(reader, &range, at, &fresh, &cold);
    /* What was open is not the shard any more: what has its name now may be. */
    if (why && !fresh)
        why = try_read(reader, &range, at, &fresh, &cold);
    if (why)
        return fail(reader, range.shard, range.offset, why);
    count(reader, range.size, false, since);
    learn(reader, cold, clock_now_ns() - since);
    succeed(reader, range.shard);
    return (ssize_t)range.size;
}

/* Reads ahead. */

static int read_range_ahead(struct reader *reader, struct range *range, uint64_t member)
{
    uint64_t since, took;
    struct handle *handle;
    bool fresh, around = false;
    const char *why;

    if (take_from_block(reader, range, member))
        return 0;
    since = clock_now_ns();
    why = handles_take(reader->handles, range->shard, &handle, &fresh) ? "cannot be opened" : NULL;
    if (!why) {
        around = range_goes_around(&reader->source, range->shard, handle->fd, range->offset,
                                   range->size);
        why = range_read(&reader->source, range, handle, &around);
        handles_release(reader->handles, range->shard, handle, why != NULL);
    }
    if (why) {
        if (!range->unfit)
            atomic_fetch_add_explicit(&reader->failed, 1, memory_order_relaxed);
        return -EIO;
    }
    took = clock_now_ns() - since;
    learn(reader, around, took);
    count(reader, range->size, around, since);
    return 0;
}

/* Read well, but of a member that is not the one that was indexed. */
static int fail_ahead(struct reader *reader)
{
    atomic_fetch_add_explicit(&reader->failed, 1, memory_order_relaxed);
    return -EIO;
}

ssize_t reader_read_ahead(struct reader *reader, uint64_t member, char *buffer, size_t room,
                          uint64_t from, size_t size, char **data)
{
    const struct index_member *at = &reader->index->members[member];
    size_t before = from == 0 ? INDEX_HEADER_BYTES : 0;
    struct range range = {.shard = index_shard_of_member(reader->index, member), .buffer = buffer};
    int fault;

    if (from >= at->size)
        return 0;
    if (size > at->size - from)
        size = (size_t)(at->size - from);
    if (size > room - READER_SLACK)
        size = room - READER_SLACK;
    range.offset = at->offset + from - before;
    range.level = at->offset + from;
    range.size = size + before;
    range.part_of = before ? NULL : at;
    fault = read_range_ahead(reader, &range, member);
    if (fault)
        return fault;
    if (before && index_header_check(range.data) != at->header)
        return fail_ahead(reader);
    *data = range.data + before;
    return (ssize_t)size;
}

/* The member whose bytes a range starts with, its header being before it; NULL: it starts with a
 * header. */
static const struct index_member *first_part(const struct index_member *all,
                                             const struct reader_piece *piece)
{
    const struct index_member *first = NULL;

    for (size_t i = 0; i < piece->count; i++) {
        const struct index_member *at = &all[piece->members[i]];
        if (at->offset <= piece->from && (!first || at->offset > first->offset))
            first = at;
    }
    return first && piece->from < first->offset + first->size ? first : NULL;
}

static int aim_at_extent(struct reader *reader, const struct reader_piece *piece,
                         struct range *range)
{
    range->offset = piece->from;
    range->size = piece->size;
    range->exact = true;
    range->part_of = first_part(reader->index->members, piece);
    return reader->blocks || piece->from + piece->size > reader->index->shards[range->shard].size
               ? -EINVAL
               : 0;
}

static int aim_at_members(struct reader *reader, const struct reader_piece *piece,
                          struct range *range)
{
    uint64_t start = UINT64_MAX, end = 0, largest = 0;

    for (size_t i = 0; i < piece->count; i++) {
        const struct index_member *at = &reader->index->members[piece->members[i]];
        if (at->offset - INDEX_HEADER_BYTES < start)
            start = at->offset - INDEX_HEADER_BYTES;
        if (at->offset + at->size > end)
            end = at->offset + at->size;
        if (at->size >= largest) {
            largest = at->size;
            range->level = at->offset;
        }
    }
    range->offset = start;
    range->size = (size_t)(end - start);
    return end - start > piece->room - READER_SLACK ? -E2BIG : 0;
}

static int aim_at(struct reader *reader, const struct reader_piece *piece, struct range *range)
{
    *range = (struct range){.shard = index_shard_of_member(reader->index, piece->members[0]),
                            .buffer = piece->buffer};
    return piece->size ? aim_at_extent(reader, piece, range) : aim_at_members(reader, piece, range);
}

/* Whether what was read is what was indexed: the headers that are in it. */
static int check_piece(struct reader *reader, const struct reader_piece *piece,
                       const struct range *range)
{
    const struct index_member *all = reader->index->members;

    for (size_t i = 0; i < piece->count; i++) {
        const struct index_member *at = &all[piece->members[i]];
        uint64_t header = at->offset - INDEX_HEADER_BYTES;
        char *bytes = range->data + (header - range->offset);
        if (header < range->offset || header >= range->offset + range->size)
            continue;
        if (index_header_check(bytes) != at->header)
            return fail_ahead(reader);
        if (!piece->size)
            piece->data[i] = bytes + INDEX_HEADER_BYTES;
    }
    return 0;
}

static int read_piece(struct reader *reader, const struct reader_piece *piece, struct range *range)
{
    int fault = read_range_ahead(reader, range, piece->members[0]);

    if (fault)
        return range->unfit ? -EINVAL : fault;
    return check_piece(reader, piece, range);
}

/* Pieces that are asked for at once. */
struct volley {
    size_t count;
    struct {
        struct reader_piece *piece;
        struct range range;
        struct range_half half;
        struct handle *handle;
    } of[BATCH_MOST];
};

/* False: the piece is to be read alone. */
static bool add_to_volley(struct reader *reader, struct volley *volley, struct reader_piece *piece,
                          const struct range *range)
{
    struct handle *handle;
    bool fresh;

    if (reader->blocks || volley->count == BATCH_MOST ||
        handles_take(reader->handles, range->shard, &handle, &fresh))
        return false;
    volley->of[volley->count].range = *range;
    if (!range_goes_around(&reader->source, range->shard, handle->fd, range->offset, range->size) ||
        !range_begin(&reader->source, &volley->of[volley->count].range, handle,
                     &volley->of[volley->count].half)) {
        handles_release(reader->handles, range->shard, handle, false);
        return false;
    }
    volley->of[volley->count].piece = piece;
    volley->of[volley->count++].handle = handle;
    return true;
}

static void read_volley(struct reader *reader, struct batch *batch, struct volley *volley)
{
    struct batch_read reads[BATCH_MOST];
    uint64_t since = clock_now_ns();

    for (size_t i = 0; i < volley->count; i++)
        reads[i] = (struct batch_read){.fd = volley->of[i].half.handle->fd,
                                       .to = volley->of[i].half.to,
                                       .size = volley->of[i].half.size,
                                       .offset = volley->of[i].half.start};
    batch_read(batch, reads, volley->count);
    for (size_t i = 0; i < volley->count; i++) {
        struct range *range = &volley->of[i].range;
        struct reader_piece *piece = volley->of[i].piece;
        bool good = range_end(&reader->source, range, volley->of[i].handle, &volley->of[i].half,
                              reads[i].got);
        handles_release(reader->handles, range->shard, volley->of[i].handle, false);
        if (good) {
            learn(reader, true, clock_now_ns() - since);
            count(reader, range->size, true, since);
            piece->fault = check_piece(reader, piece, range);
        } else {
            piece->fault = read_piece(reader, piece, range);
        }
    }
}

void reader_read_pieces(struct reader *reader, struct batch *batch, struct reader_piece *pieces,
                        size_t count)
{
    struct volley volley;
    struct range range;
    bool at_once = batch && count > 1 && batch_is_able(batch);

    volley.count = 0; /* it is large, and mostly not needed: no more of it is set */
    for (size_t i = 0; i < count; i++) {
        struct reader_piece *piece = &pieces[i];
        piece->fault = aim_at(reader, piece, &range);
        if (!piece->fault && !(at_once && add_to_volley(reader, &volley, piece, &range)))
            piece->fault = read_piece(reader, piece, &range);
    }
    if (volley.count)
        read_volley(reader, batch, &volley);
}

int reader_read_members(struct reader *reader, const uint64_t *members, size_t count, char *buffer,
                        size_t room, char **data)
{
    struct reader_piece piece = {
        .members = members, .count = count, .buffer = buffer, .room = room, .data = data};

    if (count)
        reader_read_pieces(reader, NULL, &piece, 1);
    return piece.fault;
}

uint64_t reader_errors(const struct reader *reader, size_t shard)
{
    return atomic_load(&reader->shards[shard].errors);
}

struct reader_figures reader_figures(const struct reader *reader)
{
    struct block_cache_figures blocks = {0};

    if (reader->blocks)
        blocks = block_cache_figures(reader->blocks);
    return (struct reader_figures){
        .reads = atomic_load(&reader->reads),
        .bytes = atomic_load(&reader->bytes),
        .direct_reads = atomic_load(&reader->direct_reads),
        .failed = atomic_load(&reader->failed),
        .ns = atomic_load(&reader->ns),
        .blocks_read = blocks.read,
        .blocks_beside = blocks.beside,
        .block_bytes = blocks.bytes,
        .block_limit = blocks.limit,
    };
}

struct reader_mood reader_mood(const struct reader *reader)
{
    uint64_t ns = atomic_load_explicit(&reader->ahead_ns, memory_order_relaxed);
    unsigned coldness = atomic_load_explicit(&reader->coldness, memory_order_relaxed);

    return (struct reader_mood){.cold = coldness > 256 || ns > SLOW_READ_NS, .ns = ns};
}
