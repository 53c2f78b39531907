/* Following readers of streams: what is pushed ahead, how far, and what is kept. */
#include "unit.h"

#include "../../fs/chunks.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
enum { STREAM_MIB = 512 };
#define MARK (CHUNKS_A_MARK * CHUNK_BYTES)

static struct chunks *chunks;
static struct view_node *stream;

static void begin(uint64_t reader_bytes, uint64_t total_bytes)
{
    stream = calloc(1, sizeof *stream + 16);
    cr_assert(stream);
    stream->inode = VIEW_NODE_INODE + 9;
    stream->kind = VIEW_STREAM;
    stream->made_bytes = STREAM_MIB * MIB + 1234;
    cr_assert_eq(chunks_open(&chunks, reader_bytes, total_bytes), 0);
}

static void end(void)
{
    chunks_close(chunks);
    free(stream);
}

/* Claims all that may be claimed, pushes it with `byte` in its marks; returns how many bytes, and
 * where they start and end. */
static uint64_t push_all(char byte, uint64_t *from, uint64_t *to)
{
    static char bytes[CHUNK_MARK_BYTES];
    struct chunk chunk;
    uint64_t sum = 0;

    memset(bytes, byte, sizeof bytes);
    while (chunks_next(chunks, 0, &chunk)) {
        if (sum == 0 && from)
            *from = chunk.from;
        if (sum && to)
            cr_assert(chunk.from == *to, "no gap and nothing twice");
        sum += chunk.size;
        if (to)
            *to = chunk.from + chunk.size;
        chunks_done(chunks, &chunk, chunk.marked ? bytes : NULL, false);
    }
    return sum;
}

static void read_three(void)
{
    for (uint64_t i = 0; i < 3; i++)
        chunks_read(chunks, stream, i * MIB, MIB, 0);
}

Test(chunks, one_look_into_a_stream_pushes_nothing)
{
    begin(64 * MIB, 256 * MIB);
    cr_assert(chunks_read(chunks, stream, 20 * MIB, MIB, 0), "a new reader holds the stream");
    cr_assert_eq(push_all(1, NULL, NULL), 0u);
    cr_assert(!chunks_read(chunks, stream, 21 * MIB, MIB, 0), "once");
    cr_assert_eq(push_all(1, NULL, NULL), 0u);
    cr_assert(chunks_read(chunks, stream, 0, 4096, 0));
    cr_assert_eq(push_all(1, NULL, NULL), 0u, "a header");
    end();
}

Test(chunks, a_reader_from_the_start_shares_its_first_read_with_the_pushes)
{
    uint64_t from = 0, to = 0;

    begin(64 * MIB, 256 * MIB);
    chunks_read(chunks, stream, 0, MIB, 0);
    chunks_claim(chunks, stream, 0, CHUNK_BYTES);
    cr_assert(push_all(1, &from, &to) > 0);
    cr_assert_eq(from, CHUNK_BYTES);
    cr_assert(to >= MIB && to <= 16 * MIB);
    end();
}

Test(chunks, a_reader_in_order_is_kept_ahead_of_up_to_the_bound)
{
    const uint64_t stride = CHUNKS_A_MARK * CHUNK_BYTES;
    uint64_t from = 0, to = 0, end_before;

    begin(64 * MIB, 256 * MIB);
    read_three();
    cr_assert(push_all(1, &from, &to) > 0);
    for (int i = 0; i < 100; i++) {
        end_before = to;
        /* Only the marks are met. */
        uint64_t mark = (to - 1) / stride * stride;
        if (to >= stream->made_bytes)
            break;
        chunks_read(chunks, stream, mark, CHUNK_MARK_BYTES, 0);
        cr_assert(push_all(1, &from, &to) > 0);
        cr_assert_eq(from, end_before);
        cr_assert(chunks_bytes_ahead(chunks) <= 64 * MIB);
    }
    cr_assert_eq(to, stream->made_bytes, "to the end and not past it");
    end();
}

Test(chunks, all_readers_together_stay_within_the_total)
{
    struct view_node *other = malloc(sizeof *other + 16);
    struct chunk chunk;

    begin(64 * MIB, 80 * MIB);
    memcpy(other, stream, sizeof *other);
    other->inode++;
    for (uint64_t i = 0; i < 40; i++) {
        chunks_read(chunks, stream, i * MIB, MIB, 0);
        chunks_read(chunks, other, i * MIB, MIB, 0);
        while (chunks_next(chunks, 10 * MIB, &chunk))
            chunks_done(chunks, &chunk, NULL, false);
        cr_assert(chunks_bytes_ahead(chunks) + 10 * MIB <= 80 * MIB + 2 * MIB);
    }
    end();
    free(other);
}

Test(chunks, marks_are_answered_from_memory_and_dropped_behind_the_reader)
{
    const uint64_t stride = CHUNKS_A_MARK * CHUNK_BYTES;
    char bytes[CHUNK_MARK_BYTES];
    uint64_t to = 0;

    begin(64 * MIB, 256 * MIB);
    read_three();
    push_all(7, NULL, &to);
    cr_assert(to > stride);
    cr_assert(chunks_take_mark(chunks, stream, stride, CHUNK_MARK_BYTES, bytes));
    cr_assert(bytes[0] == 7 && bytes[CHUNK_MARK_BYTES - 1] == 7);
    cr_assert(chunks_take_mark(chunks, stream, stride + 100, 50, bytes));
    cr_assert(!chunks_take_mark(chunks, stream, stride, CHUNK_MARK_BYTES + 1, bytes));
    cr_assert(!chunks_take_mark(chunks, stream, stride - 1, 10, bytes));
    for (uint64_t at = stride; at < 20 * stride; at += stride) {
        chunks_read(chunks, stream, at, CHUNK_MARK_BYTES, 0);
        push_all(7, NULL, NULL);
    }
    cr_assert(!chunks_take_mark(chunks, stream, stride, 10, bytes));
    end();
}

Test(chunks, a_stream_is_let_go_once_and_not_while_it_is_pushed)
{
    struct chunk chunk;
    uint64_t inode;

    begin(64 * MIB, 256 * MIB);
    read_three();
    cr_assert(chunks_next(chunks, 0, &chunk));
    chunks_left(chunks, stream->inode);
    cr_assert(!chunks_next_gone(chunks, &inode), "a chunk is being pushed");
    chunks_done(chunks, &chunk, NULL, false);
    cr_assert(chunks_next_gone(chunks, &inode));
    cr_assert_eq(inode, stream->inode);
    cr_assert(!chunks_next_gone(chunks, &inode));
    cr_assert(chunks_read(chunks, stream, 0, MIB, 0), "a new reader holds it again");
    end();
}

Test(chunks, what_the_kernel_does_not_have_is_not_pushed_again)
{
    struct chunk chunk;
    uint64_t inode;

    begin(64 * MIB, 256 * MIB);
    read_three();
    cr_assert(chunks_next(chunks, 0, &chunk));
    chunks_done(chunks, &chunk, NULL, true);
    cr_assert(!chunks_next(chunks, 0, &chunk));
    cr_assert(chunks_next_gone(chunks, &inode));
    end();
}

Test(chunks, who_went_away_makes_place_for_others_and_its_stream_is_let_go)
{
    unsigned held = 0, gone = 0;
    uint64_t inode;

    begin(64 * MIB, 256 * MIB);
    for (uint64_t i = 0; i < 200; i++) {
        stream->inode = VIEW_NODE_INODE + i;
        held += chunks_read(chunks, stream, 0, MIB, i * 1000000000);
        while (chunks_next_gone(chunks, &inode))
            gone++;
    }
    cr_assert_eq(held, 200u);
    cr_assert(gone > 150 && gone < 200);
    end();
}

/* A large stream, and which of its chunks are in the page cache. */
enum { LARGE_CHUNKS = 1 << 19 };
static unsigned char cached[LARGE_CHUNKS];

static void begin_large(void)
{
    begin(64 * MIB, 256 * MIB);
    stream->made_bytes = LARGE_CHUNKS * CHUNK_BYTES;
    memset(cached, 0, sizeof cached);
}

static uint64_t push_into_cache(void)
{
    static char bytes[CHUNK_MARK_BYTES];
    struct chunk chunk;
    uint64_t sum = 0;

    while (chunks_next(chunks, 0, &chunk)) {
        sum += chunk.size;
        cached[chunk.from / CHUNK_BYTES] = 1;
        chunks_done(chunks, &chunk, chunk.marked ? bytes : NULL, false);
    }
    return sum;
}

/* What the kernel asks for when somebody reads: nothing that it has, but for marks. Returns whether
 * it had to wait for storage. */
static bool read_at(uint64_t from, size_t size, uint64_t now)
{
    bool had = cached[from / CHUNK_BYTES];

    if (had && from % MARK == 0)
        chunks_read(chunks, stream, from, CHUNK_MARK_BYTES, now);
    else if (!had)
        chunks_read(chunks, stream, from, size, now);
    for (uint64_t at = from; at < from + size; at += CHUNK_BYTES)
        cached[at / CHUNK_BYTES] |= size >= CHUNK_BYTES;
    return !had;
}

/* Runs of READs at places of chance; returns how many bytes were pushed. */
static uint64_t read_here_and_there(uint64_t reads, uint64_t bytes, uint64_t run)
{
    uint64_t random = 4711, pushed = 0;

    for (uint64_t i = 0; i < reads; i++) {
        uint64_t at;
        random = random * 6364136223846793005u + 1442695040888963407u;
        at = (random >> 20) % (stream->made_bytes - run * bytes) / 4096 * 4096;
        for (uint64_t k = 0; k < run; k++) {
            read_at(at + k * bytes, bytes, i * 1000000);
            pushed += push_into_cache();
        }
    }
    return pushed;
}

Test(chunks, reads_here_and_there_push_next_to_nothing)
{
    uint64_t pushed;

    begin_large();
    pushed = read_here_and_there(2000, 100 * 1024, 1);
    cr_assert(pushed <= 2000 * 100 * 1024 / 20, "%llu of %u", (unsigned long long)pushed,
              2000 * 100 * 1024);
    /* What it reads itself lies ahead of it, but was not pushed. */
    cr_assert(chunks_bytes_pushed(chunks) <= pushed);
    end();
}

Test(chunks, runs_here_and_there_push_a_few_times_what_is_read)
{
    uint64_t pushed;

    begin_large();
    pushed = read_here_and_there(300, MIB / 2, 8);
    cr_assert(pushed <= 4 * 300 * 4 * MIB, "%llu of %llu", (unsigned long long)pushed,
              (unsigned long long)(300 * 4 * MIB));
    end();
}

/* After it, those that read here and there do not get what it earned. */
Test(chunks, a_reader_that_left_earns_nothing_for_others)
{
    uint64_t pushed;

    begin_large();
    for (uint64_t at = 0; at < 2000 * MIB; at += MIB) {
        read_at(at, MIB, 0);
        push_into_cache();
    }
    pushed = read_here_and_there(2000, 100 * 1024, 1);
    cr_assert(pushed <= 128 * MIB, "%llu", (unsigned long long)pushed);
    end();
}

Test(chunks, a_reader_in_order_among_such_reads_is_kept_ahead_of)
{
    uint64_t waits = 0, random = 5;

    begin_large();
    for (uint64_t at = 0; at < 4000 * MIB; at += MIB) {
        waits += read_at(at, MIB, at);
        push_into_cache();
        random = random * 6364136223846793005u + 1442695040888963407u;
        read_at(5000 * MIB + (random >> 20) % (50000 * MIB), 65536, at);
        push_into_cache();
    }
    cr_assert(waits <= 400, "%llu of 4000 MiB were waited for", (unsigned long long)waits);
    end();
}

Test(chunks, of_more_readers_than_places_those_that_came_first_are_served)
{
    enum { READERS = 50, NODE = sizeof(struct view_node) + 16 };
    char *nodes = malloc((size_t)READERS * NODE);
    uint64_t served[READERS] = {0};
    struct chunk chunk;
    unsigned count = 0;

    begin(64 * MIB, 4096 * MIB);
    for (uint64_t at = 0; at < 40 * MIB; at += MIB) {
        for (unsigned i = 0; i < READERS; i++) {
            struct view_node *node = (struct view_node *)(void *)(nodes + (size_t)i * NODE);
            if (at == 0)
                memcpy(node, stream, sizeof *node);
            node->inode = stream->inode + i;
            chunks_read(chunks, node, at, MIB, 1000000000 + at);
            while (chunks_next(chunks, 0, &chunk)) {
                served[chunk.stream->inode - stream->inode] += chunk.size;
                chunks_done(chunks, &chunk, NULL, false);
            }
        }
    }
    for (unsigned i = 0; i < READERS; i++)
        count += served[i] > 30 * MIB;
    cr_assert_eq(count, 32u, "%u", count);
    cr_assert(chunks_crowded(chunks) > 0);
    end();
    free(nodes);
}

Test(chunks, who_went_away_gives_back_its_share_when_others_need_it)
{
    struct view_node *other = malloc(sizeof *other + 16);

    begin(64 * MIB, 70 * MIB);
    memcpy(other, stream, sizeof *other);
    other->inode++;
    for (uint64_t i = 0; i < 40; i++)
        chunks_read(chunks, stream, i * MIB, MIB, 1000000000);
    push_all(1, NULL, NULL);
    cr_assert(chunks_bytes_ahead(chunks) > 60 * MIB);
    for (uint64_t i = 0; i < 20; i++)
        chunks_read(chunks, other, i * MIB, MIB, 2000000000);
    push_all(1, NULL, NULL);
    cr_assert(chunks_is_short(chunks));
    cr_assert(!chunks_give_back(chunks), "the other may still be about");
    chunks_read(chunks, other, 21 * MIB, MIB, 7000000000);
    push_all(1, NULL, NULL);
    cr_assert(chunks_is_short(chunks));
    cr_assert(chunks_give_back(chunks));
    cr_assert(push_all(1, NULL, NULL) > 30 * MIB);
    cr_assert(!chunks_give_back(chunks));
    end();
    free(other);
}
