/* Follows readers of streams. Owns the cursors and the bytes of their marks. */
#include "chunks.h"

#include "pace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CURSORS     32
#define MARK_STRIDE (CHUNKS_A_MARK * CHUNK_BYTES)
/* How far ahead of a reader may be pushed: as far as it has come, and of one that starts at the
 * start, three times that and the first number at the least. Bytes. */
#define WINDOW_FIRST MARK_STRIDE
#define WINDOW_SHARE 3
/* How far from where it was, or past what was claimed, a READ is still the reader's: the kernel
 * asks ahead of it, and for several pieces at once. Bytes. */
#define SLACK (32 * CHUNK_BYTES)
/* A reader is trusted that starts at the start with a READ so large that more than a look is meant;
 * or that came on so often and read half of the way; or that passed so many marks in order. */
#define START_BYTES  65536
#define STEPS_ENOUGH 2
#define MARKS_ENOUGH 2
/* And came this far: one pread() of 1 MiB is several READs, and the kernel reads ahead of it. */
#define WAY_LEAST ((uint64_t)2 << 20)
/* The way of one that is not trusted is looked at anew after so many bytes. */
#define WAY_MOST (2 * MARK_STRIDE)
/* So many more READs near no reader than near one, and all must show anew that they read in order.
 */
#define STRANGERS_MOST 16

struct mark {
    uint64_t at;
    char bytes[CHUNK_MARK_BYTES];
    struct mark *next;
};

struct cursor {
    struct view_node *stream; /* NULL: free */
    uint64_t inode, serial;
    uint64_t head;  /* where the reader was last met */
    uint64_t next;  /* the first byte not claimed */
    uint64_t met;   /* when it was last met */
    uint64_t begun; /* where it began, or began anew */
    uint64_t read;  /* bytes since then */
    unsigned steps; /* READs that were further on, since then */
    unsigned marks; /* met one after the other, since then */
    uint64_t mark;  /* the last one */
    bool trusted;
    bool pushed;      /* something was claimed to be pushed for it */
    bool gave_back;   /* its share, to others: it was not met for long */
    unsigned pushing; /* chunks that are being pushed */
    bool closing;     /* let go when the last of them is done */
    struct mark *marks_kept;
};

struct chunks {
    uint64_t reader_bytes, total_bytes;
    uint64_t serials, now, crowded;
    unsigned turn;
    unsigned strangers;     /* READs that were near no reader, less those that were */
    bool is_short;          /* somebody was refused for the total's sake alone */
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
    struct mark **link = &cursor->marks_kept;

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

uint64_t chunks_bytes_pushed(const struct chunks *chunks)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < CURSORS; i++)
        if (chunks->cursors[i].stream && chunks->cursors[i].pushed)
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

/* Its place and its share may be another's, as in fs/follow_table.c. */
static bool is_away(const struct chunks *chunks, const struct cursor *cursor)
{
    return chunks->now > cursor->met && chunks->now - cursor->met > PACE_PAUSE_NS;
}

/* A free place, or that of the reader not met for longest, but never that of one at work; NULL:
 * there is none. */
static struct cursor *make_room(struct chunks *chunks)
{
    struct cursor *oldest = NULL;

    for (unsigned i = 0; i < CURSORS; i++) {
        struct cursor *cursor = &chunks->cursors[i];
        if (!cursor->stream)
            return cursor;
        if (!cursor->pushing && (!cursor->trusted || is_away(chunks, cursor)) &&
            (!oldest || cursor->met < oldest->met))
            oldest = cursor;
    }
    if (oldest && try_close(chunks, oldest))
        return oldest;
    chunks->crowded++;
    return NULL;
}

static uint64_t chunk_after(uint64_t at)
{
    return (at + CHUNK_BYTES - 1) / CHUNK_BYTES * CHUNK_BYTES;
}

static void begin_anew(struct cursor *cursor, uint64_t at)
{
    cursor->begun = at;
    cursor->read = cursor->steps = cursor->marks = 0;
    cursor->trusted = false;
}

static struct cursor *start(struct chunks *chunks, struct view_node *stream, uint64_t from,
                            size_t size)
{
    struct cursor *cursor = make_room(chunks);

    if (cursor)
        *cursor = (struct cursor){.stream = stream,
                                  .inode = stream->inode,
                                  .serial = ++chunks->serials,
                                  .head = from,
                                  .begun = from,
                                  .trusted = from == 0 && size >= START_BYTES};
    /* Who starts at the start is none, nor who has no place among so many readers. */
    if (!cursor || from == 0 || ++chunks->strangers < STRANGERS_MOST)
        return cursor;
    chunks->strangers = 0;
    for (unsigned i = 0; i < CURSORS; i++)
        begin_anew(&chunks->cursors[i], chunks->cursors[i].head);
    return cursor;
}

static bool is_mark(const struct cursor *cursor, uint64_t from)
{
    for (const struct mark *mark = cursor->marks_kept; mark; mark = mark->next)
        if (mark->at == from)
            return true;
    return false;
}

/* Whether it reads in order: see STEPS_ENOUGH. */
static void judge(struct cursor *cursor, uint64_t from, size_t size)
{
    uint64_t way = from + size > cursor->begun ? from + size - cursor->begun : 0;

    cursor->read += size;
    if (is_mark(cursor, from)) {
        cursor->marks = from == cursor->mark + MARK_STRIDE ? cursor->marks + 1 : 1;
        cursor->mark = from;
    }
    if (cursor->trusted)
        return;
    if (cursor->marks >= MARKS_ENOUGH) {
        cursor->trusted = true;
    } else if (cursor->steps >= STEPS_ENOUGH && way > WAY_LEAST && cursor->read * 2 >= way) {
        cursor->trusted = true;
    } else if (way > WAY_MOST) {
        begin_anew(cursor, from);
    }
}

static void move_on(struct cursor *cursor, uint64_t from)
{
    cursor->steps++;
    cursor->head = from;
    drop_marks(cursor, from > SLACK ? from - SLACK : 0);
}

bool chunks_read(struct chunks *chunks, struct view_node *stream, uint64_t from, size_t size,
                 uint64_t now)
{
    struct cursor *cursor = find(chunks, stream->inode, from);
    bool fresh = !cursor;

    chunks->now = now;
    if (fresh)
        cursor = start(chunks, stream, from, size);
    else
        chunks->strangers -= chunks->strangers > 0;
    if (!cursor)
        return false;
    if (from > cursor->head)
        move_on(cursor, from);
    judge(cursor, from, size);
    cursor->met = now;
    cursor->gave_back = false;
    /* Before there are pushes, the reader gets all of its READ by itself; afterwards it shares the
     * work with them, piece by piece. */
    if (!cursor->trusted && cursor->next < chunk_after(from + size))
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

    for (struct mark *mark = cursor ? cursor->marks_kept : NULL; mark; mark = mark->next) {
        if (from >= mark->at && from + size <= mark->at + CHUNK_MARK_BYTES) {
            memcpy(buffer, mark->bytes + (from - mark->at), size);
            return true;
        }
    }
    return false;
}

static uint64_t window_of(const struct cursor *cursor)
{
    uint64_t way = cursor->head - cursor->begun;

    if (cursor->begun)
        return way;
    return way * WINDOW_SHARE > WINDOW_FIRST ? way * WINDOW_SHARE : WINDOW_FIRST;
}

/* But for the total. */
static bool may_push(const struct chunks *chunks, const struct cursor *cursor)
{
    return cursor->stream && !cursor->closing && cursor->trusted && !cursor->gave_back &&
           cursor->next < cursor->stream->made_bytes &&
           ahead(cursor) + CHUNK_BYTES <= window_of(cursor) &&
           ahead(cursor) + CHUNK_BYTES <= chunks->reader_bytes;
}

bool chunks_has_next(const struct chunks *chunks)
{
    for (unsigned i = 0; i < CURSORS; i++)
        if (may_push(chunks, &chunks->cursors[i]))
            return true;
    return false;
}

/* One chunk a reader always has room, however many there are. */
static bool has_room(struct chunks *chunks, const struct cursor *cursor, uint64_t elsewhere)
{
    if (ahead(cursor) < CHUNK_BYTES ||
        chunks_bytes_ahead(chunks) + elsewhere + CHUNK_BYTES <= chunks->total_bytes)
        return true;
    chunks->is_short = true;
    return false;
}

static void claim(struct cursor *cursor, struct chunk *chunk)
{
    uint64_t left = cursor->stream->made_bytes - cursor->next;

    *chunk = (struct chunk){
        .stream = cursor->stream,
        .serial = cursor->serial,
        .from = cursor->next,
        .size = (size_t)(left < CHUNK_BYTES ? left : CHUNK_BYTES),
        .marked = cursor->next % MARK_STRIDE == 0 && left >= CHUNK_MARK_BYTES,
    };
    cursor->next += chunk->size;
    cursor->pushed = true;
    cursor->pushing++;
}

bool chunks_next(struct chunks *chunks, uint64_t elsewhere, struct chunk *chunk)
{
    chunks->is_short = false;
    for (unsigned i = 0; i < CURSORS; i++) {
        unsigned at = (chunks->turn + i) % CURSORS;
        struct cursor *cursor = &chunks->cursors[at];
        if (!may_push(chunks, cursor) || !has_room(chunks, cursor, elsewhere))
            continue;
        claim(cursor, chunk);
        chunks->turn = at + 1;
        return true;
    }
    return false;
}

bool chunks_is_short(const struct chunks *chunks)
{
    return chunks->is_short;
}

bool chunks_give_back(struct chunks *chunks)
{
    struct cursor *oldest = NULL;

    for (unsigned i = 0; i < CURSORS; i++) {
        struct cursor *cursor = &chunks->cursors[i];
        if (cursor->stream && ahead(cursor) && is_away(chunks, cursor) &&
            (!oldest || cursor->met < oldest->met))
            oldest = cursor;
    }
    if (!oldest)
        return false;
    oldest->next = oldest->head;
    oldest->gave_back = true;
    return true;
}

uint64_t chunks_crowded(const struct chunks *chunks)
{
    return chunks->crowded;
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
            mark->next = cursor->marks_kept;
            cursor->marks_kept = mark;
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
