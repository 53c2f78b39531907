/* Answers READs. Owns nothing. */
#include "answer.h"

#include "chunks.h"
#include "list.h"
#include "stream.h"

#include "../core/clock.h"

#include <errno.h>
#include <string.h>

int answer_prepare(struct serve *serve, struct view_node *node)
{
    if (node->kind == VIEW_LIST)
        return list_prepare(serve->view, node);
    return node->kind == VIEW_STREAM ? stream_prepare(serve->view, node) : 0;
}

/* Counts a READ of samples' bytes; returns how long it took. */
static uint64_t count(struct serve *serve, ssize_t got, uint64_t since)
{
    uint64_t took = clock_now_ns() - since;

    atomic_fetch_add_explicit(&serve->counters.reads, 1, memory_order_relaxed);
    if (got > 0)
        atomic_fetch_add_explicit(&serve->counters.bytes, (unsigned long long)got,
                                  memory_order_relaxed);
    latency_add(&serve->counters.latency, took);
    return took;
}

static ssize_t read_text(const char *text, size_t bytes, char *buffer, size_t size, uint64_t from)
{
    if (from >= bytes)
        return 0;
    if (size > bytes - from)
        size = bytes - (size_t)from;
    memcpy(buffer, text + from, size);
    return (ssize_t)size;
}

static ssize_t read_member(struct serve *serve, uint64_t member, char *buffer, size_t size,
                           uint64_t from)
{
    uint64_t since = clock_now_ns(), took;
    ssize_t got = readahead_take_member(serve->readahead, member, buffer, size, from);
    bool known;

    if (got < 0)
        got = reader_read(serve->reader, member, buffer, size, from);
    took = count(serve, got, since);
    /* What could not be read has no pages that a name would keep, or that could have been dropped:
     * it is read ahead again when its storage is back. */
    known = got >= 0 && names_want(serve->names, member);
    if (from == 0)
        readahead_read(serve->readahead, member, known, took);
    else
        readahead_read_on(serve->readahead, member, took);
    return got;
}

static ssize_t read_label(struct serve *serve, uint64_t sample, char *buffer, size_t size,
                          uint64_t from)
{
    uint64_t since = clock_now_ns();
    char label[24];
    size_t bytes = dataset_label_text(view_dataset(serve->view), sample, label);

    readahead_read_label(serve->readahead, sample, clock_now_ns() - since);
    return read_text(label, bytes, buffer, size, from);
}

/* Piece by piece: what is being read ahead is waited for, while the next pieces are. */
static ssize_t read_stream(struct serve *serve, struct view_node *node, char *buffer, size_t size,
                           uint64_t from)
{
    uint64_t since = clock_now_ns();
    size_t done = 0;
    ssize_t got = 0;

    if (from >= node->made_bytes)
        return 0;
    if (size > node->made_bytes - from)
        size = (size_t)(node->made_bytes - from);
    readahead_read_stream(serve->readahead, node, from, size);
    while (done < size && got >= 0) {
        uint64_t at = from + done;
        size_t piece = (size_t)(CHUNK_BYTES - at % CHUNK_BYTES);
        if (piece > size - done)
            piece = size - done;
        if (!readahead_take_piece(serve->readahead, node, at, piece, buffer + done))
            got = stream_read(serve->view, serve->reader, node, buffer + done, piece, at);
        done += piece;
    }
    got = got < 0 ? got : (ssize_t)size;
    count(serve, got, since);
    return got;
}

ssize_t answer_read(struct serve *serve, uint64_t inode, char *buffer, size_t size, uint64_t from)
{
    struct view_node *node;
    uint64_t which;
    int fault;

    if (view_is_member(serve->view, inode, &which))
        return read_member(serve, which, buffer, size, from);
    if (view_is_label(serve->view, inode, &which))
        return read_label(serve, which, buffer, size, from);
    node = view_node(serve->view, inode);
    if (!node)
        return -ENOENT;
    fault = answer_prepare(serve, node);
    if (fault)
        return fault;
    if (node->kind == VIEW_LIST)
        return list_read(serve->view, node, buffer, size, from);
    if (node->kind == VIEW_STREAM)
        return read_stream(serve, node, buffer, size, from);
    return node->text ? read_text(node->text, node->text_bytes, buffer, size, from) : -EISDIR;
}
