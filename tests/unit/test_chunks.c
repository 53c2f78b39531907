/* Following readers of streams: what is pushed ahead, how far, and what is kept. */
#include "unit.h"

#include "../../fs/chunks.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
enum { STREAM_MIB = 512 };

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
        chunks_read(chunks, stream, i * MIB, MIB);
}

Test(chunks, one_look_into_a_stream_pushes_nothing)
{
    begin(64 * MIB, 256 * MIB);
    cr_assert(chunks_read(chunks, stream, 20 * MIB, MIB), "a new reader holds the stream");
    cr_assert_eq(push_all(1, NULL, NULL), 0u);
    cr_assert(!chunks_read(chunks, stream, 21 * MIB, MIB), "once");
    cr_assert_eq(push_all(1, NULL, NULL), 0u);
    cr_assert(chunks_read(chunks, stream, 0, 4096));
    cr_assert_eq(push_all(1, NULL, NULL), 0u, "a header");
    end();
}

Test(chunks, a_reader_from_the_start_shares_its_first_read_with_the_pushes)
{
    uint64_t from = 0, to = 0;

    begin(64 * MIB, 256 * MIB);
    chunks_read(chunks, stream, 0, MIB);
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
        chunks_read(chunks, stream, mark, CHUNK_MARK_BYTES);
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
        chunks_read(chunks, stream, i * MIB, MIB);
        chunks_read(chunks, other, i * MIB, MIB);
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
        chunks_read(chunks, stream, at, CHUNK_MARK_BYTES);
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
    cr_assert(chunks_read(chunks, stream, 0, MIB), "a new reader holds it again");
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

Test(chunks, more_readers_than_places_push_out_the_oldest_and_let_its_stream_go)
{
    unsigned held = 0, gone = 0;
    uint64_t inode;

    begin(64 * MIB, 256 * MIB);
    for (uint64_t i = 0; i < 200; i++) {
        stream->inode = VIEW_NODE_INODE + i;
        held += chunks_read(chunks, stream, 0, MIB);
        while (chunks_next_gone(chunks, &inode))
            gone++;
    }
    cr_assert_eq(held, 200u);
    cr_assert(gone > 150 && gone < 200);
    end();
}
