/* Follows readers of streams. Owns the cursors and the bytes of their marks. */
#include "chunks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CURSORS     32
#define MARK_STRIDE (CHUNKS_A_MARK * CHUNK_BYTES)
/* The first window, and what it grows by each time that the reader is met. Bytes. */
#define WINDOW_FIRST  (3 * MARK_STRIDE)
#define WINDOW_GROWTH 2
/* How far from where it was, or past what was claimed, a READ is still the reader's: the kernel
 * asks ahead of it, and for several pieces at once. Bytes. */
#define SLACK (32 * CHUNK_BYTES)
/* READs in order before anything is pushed for a reader that does not start at the start with a
 * READ so large that more than a look is meant. */
#define STEPS_TO_PUSH 2
#define START_BYTES   65536

struct mark {
    uint64_t at;
    char bytes[CHUNK_MARK_BYTES];
    struct mark *next;
};

struct cursor {
    struct view_node *stream; /* NULL: free */
    uint64_t inode, serial;
    uint64_t head;   /* where the reader was last met */
    uint64_t next;   /* the first byte not claimed */
    uint64_t window; /* bytes ahead of head that may be claimed */
    uint64_t used;   /* when it was last met, in events */
    unsigned steps;
    unsigned pushing; /* chunks that are being pushed */
    bool closing;     /* let go when the last of them is done */
    struct mark *marks;
};

struct chunks {
    uint64_t reader_bytes, total_bytes;
    uint64_t events, serials;
    unsigned turn;
    uint64_t gone[CURSORS]; /* inodes to be let go */
    unsigned gone_count;
    struct cursor cursors[CURSORS];
};

int chunks_open(struct chunks **out, uint64_t reader_bytes, uint64_t total_bytes)
{
    struct chunks *chunks = calloc(1, sizeof *chunks);

    if (!chunks)
        return -ENOMEM;
    chunks->reader_bytes = reader_bytes;
    chunks->total_bytes = total_bytes;
    *out = chunks;
    return 0;
}

static void drop_marks(struct cursor *cursor, uint64_t before)
{
    struct mark **link = &cursor->marks;

    while (*link) {
        struct mark *mark = *link;
        if (mark->at < before) {
            *link = mark->next;
            free(mark);
        } else {
            link = &mark->next;
        }
    }
}

void chunks_close(struct chunks *chunks)
{
    if (!chunks)
        return;
    for (unsigned i = 0; i < CURSORS; i++)
        drop_marks(&chunks->cursors[i], UINT64_MAX);
    free(chunks);
}

/* Frees the place if nothing is being pushed for it, and the list of those to be let go has room.
 */
static bool try_close(struct chunks *chunks, struct cursor *cursor)
{
    cursor->closing = true;
    if (cursor->pushing || chunks->gone_count == CURSORS)
        return false;
    drop_marks(cursor, UINT64_MAX);
    chunks->gone[chunks->gone_count++] = cursor->inode;
    *cursor = (struct cursor){0};
    return true;
}

static uint64_t ahead(const struct cursor *cursor)
{
    return cursor->next > cursor->head ? cursor->next - cursor->head : 0;
}

uint64_t chunks_bytes_ahead(const struct chunks *chunks)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < CURSORS; i++)
        if (chunks->cursors[i].stream)
            sum += ahead(&chunks->cursors[i]);
    return sum;
}

static struct cursor *find(struct chunks *chunks, uint64_t inode, uint64_t at)
{
    for (unsigned i = 0; i < CURSORS; i++) {
        struct cursor *cursor = &chunks->cursors[i];
        if (cursor->stream && !cursor->closing && cursor->inode == inode &&
            at + SLACK >= cursor->head && at <= cursor->next + SLACK)
            return cursor;
    }
    return NULL;
}

/* A free place, or that of the reader not met for longest; NULL: all are being pushed for. */
static struct cursor *make_room(struct chunks *chunks)
{
    struct cursor *oldest = NULL;

    for (unsigned i = 0; i < CURSORS; i++) {
        struct cursor *cursor = &chunks->cursors[i];
        if (!cursor->stream)
            return cursor;
        if (!cursor->pushing && (!oldest || cursor->used < oldest->used))
            oldest = cursor;
    }
    return oldest && try_close(chunks, oldest) ? oldest : NULL;
}

static uint64_t chunk_after(uint64_t at)
{
    return (at + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
}

bool chunks_read(struct chunks *chunks, struct view_node *stream, uint64_t from, size_t size)
{
    struct cursor *cursor = find(chunks, stream->inode, from);
    bool fresh = !cursor;

    if (fresh) {
        cursor = make_room(chunks);
        if (!cursor)
            return false;
        *cursor = (struct cursor){.stream = stream,
                                  .inode = stream->inode,
                                  .serial = ++chunks->serials,
                                  .head = from,
                                  .steps = from == 0 && size >= START_BYTES ? STEPS_TO_PUSH : 0,
                                  .window = WINDOW_FIRST};
    } else if (from > cursor->head) {
        cursor->steps++;
        cursor->window = cursor->window < chunks->reader_bytes / WINDOW_GROWTH
                             ? cursor->window * WINDOW_GROWTH
                             : chunks->reader_bytes;
        cursor->head = from;
        drop_marks(cursor, from > SLACK ? from - SLACK : 0);
    }
    cursor->used = ++chunks->events;
    /* Before there are pushes, the reader gets all of its READ by itself; afterwards it shares the
     * work with them, piece by piece. */
    if (cursor->steps < STEPS_TO_PUSH && cursor->next < chunk_after(from + size))
        cursor->next = chunk_after(from + size);
    if (cursor->next < from)
        cursor->next = from / CHUNK_BYTES * CHUNK_BYTES;
    return fresh;
}

void chunks_claim(struct chunks *chunks, const struct view_node *stream, uint64_t from, size_t size)
{
    struct cursor *cursor = find(chunks, stream->inode, from);

    if (cursor && cursor->next >= from / CHUNK_BYTES * CHUNK_BYTES &&
        cursor->next < chunk_after(from + size))
        cursor->next = chunk_after(from + size);
}

bool chunks_take_mark(struct chunks *chunks, const struct view_node *stream, uint64_t from,
                      size_t size, char *buffer)
{
    struct cursor *cursor = find(chunks, stream->inode, from);

    for (struct mark *mark = cursor ? cursor->marks : NULL; mark; mark = mark->next) {
        if (from >= mark->at && from + size <= mark->at + CHUNK_MARK_BYTES) {
            memcpy(buffer, mark->bytes + (from - mark->at), size);
            return true;
        }
    }
    return false;
}

static bool may_push(const struct chunks *chunks, const struct cursor *cursor, uint64_t elsewhere)
{
    return cursor->stream && !cursor->closing && cursor->steps >= STEPS_TO_PUSH &&
           cursor->next < cursor->stream->made_bytes &&
           ahead(cursor) + CHUNK_BYTES <= cursor->window &&
           ahead(cursor) + CHUNK_BYTES <= chunks->reader_bytes &&
           chunks_bytes_ahead(chunks) + elsewhere + CHUNK_BYTES <= chunks->total_bytes;
}

bool chunks_has_next(const struct chunks *chunks)
{
    for (unsigned i = 0; i < CURSORS; i++)
        if (may_push(chunks, &chunks->cursors[i], 0))
            return true;
    return false;
}

bool chunks_next(struct chunks *chunks, uint64_t elsewhere, struct chunk *chunk)
{
    for (unsigned i = 0; i < CURSORS; i++) {
        unsigned at = (chunks->turn + i) % CURSORS;
        struct cursor *cursor = &chunks->cursors[at];
        uint64_t left;
        if (!may_push(chunks, cursor, elsewhere))
            continue;
        left = cursor->stream->made_bytes - cursor->next;
        *chunk = (struct chunk){
            .stream = cursor->stream,
            .serial = cursor->serial,
            .from = cursor->next,
            .size = (size_t)(left < CHUNK_BYTES ? left : CHUNK_BYTES),
            .marked = cursor->next % MARK_STRIDE == 0 && left >= CHUNK_MARK_BYTES,
        };
        cursor->next += chunk->size;
        cursor->pushing++;
        chunks->turn = at + 1;
        return true;
    }
    return false;
}

void chunks_done(struct chunks *chunks, const struct chunk *chunk, const char *bytes, bool gone)
{
    for (unsigned i = 0; i < CURSORS; i++) {
        struct cursor *cursor = &chunks->cursors[i];
        struct mark *mark;
        if (!cursor->stream || cursor->serial != chunk->serial)
            continue;
        cursor->pushing--;
        /* Without memory for a mark the kernel's READ of it comes to the shard instead. */
        if (bytes && (mark = malloc(sizeof *mark))) {
            mark->at = chunk->from;
            memcpy(mark->bytes, bytes, CHUNK_MARK_BYTES);
            mark->next = cursor->marks;
            cursor->marks = mark;
        }
        if (gone || cursor->closing)
            try_close(chunks, cursor);
    }
}

void chunks_left(struct chunks *chunks, uint64_t inode)
{
    for (unsigned i = 0; i < CURSORS; i++)
        if (chunks->cursors[i].stream && chunks->cursors[i].inode == inode)
            try_close(chunks, &chunks->cursors[i]);
}

bool chunks_next_gone(struct chunks *chunks, uint64_t *inode)
{
    if (!chunks->gone_count)
        return false;
    *inode = chunks->gone[--chunks->gone_count];
    return true;
}
