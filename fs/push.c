/* Pushes. Owns nothing but its threads' buffers. */
#include "push.h"

#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Fields of one sample that are pushed at the most. */
#define AT_ONCE 64

#define HUGE_PAGE ((size_t)2 << 20)

char *push_rooms(size_t many, size_t each)
{
    size_t bytes = (many * each + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *rooms = aligned_alloc(HUGE_PAGE, bytes);

    if (rooms)
        madvise(rooms, bytes, MADV_HUGEPAGE); /* nothing hangs on it */
    return rooms;
}

bool push_room_open(struct push_room *room)
{
    room->read = aligned_alloc(READER_ALIGN, PUSH_STORE_BYTES + READER_SLACK);
    return room->read;
}

void push_room_close(struct push_room *room)
{
    free(room->read);
}

/* Stores bytes of a file. False when the kernel does not have the inode, or the mount is gone. */
static bool store(struct push *push, uint64_t inode, uint64_t at, char *bytes, size_t size)
{
    struct fuse_bufvec vector = FUSE_BUFVEC_INIT(size);

    vector.buf[0].mem = bytes;
    return fuse_lowlevel_notify_store(push->session, (fuse_ino_t)inode, (off_t)at, &vector, 0) == 0;
}

/* Whether the kernel has the inode: an empty store tells, for a microsecond. */
static bool is_known(struct push *push, uint64_t inode)
{
    char none = 0;
    return store(push, inode, 0, &none, 0);
}

static void count(struct push *push, uint64_t member, uint64_t bytes)
{
    names_want(push->names, member);
    atomic_fetch_add_explicit(&push->files, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&push->bytes, bytes, memory_order_relaxed);
}

/* A file piece by piece. */
static void push_member(struct push *push, uint64_t member, struct push_room *room)
{
    uint64_t done = 0;

    while (done < PUSH_FILE_BYTES && !atomic_load(&push->stopping)) {
        char *data;
        ssize_t got = reader_read_ahead(push->reader, member, room->read,
                                        PUSH_STORE_BYTES + READER_SLACK, done, PUSH_STORE_BYTES,
                                        &data);
        if (got <= 0 || !store(push, VIEW_MEMBER_INODE + member, done, data, (size_t)got))
            break;
        done += (uint64_t)got;
        if ((size_t)got < PUSH_STORE_BYTES)
            break;
    }
    if (done)
        count(push, member, done);
}

static void push_members(struct push *push, const uint64_t *members, size_t many,
                         struct push_room *room)
{
    const struct index *index = view_dataset(push->view)->index;
    char *data[AT_ONCE];
    uint64_t sizes[AT_ONCE];
    int fault = reader_read_members(push->reader, members, many, room->small, PUSH_SMALL_BYTES,
                                    data);

    if (fault == -E2BIG)
        fault = reader_read_members(push->reader, members, many, room->read,
                                    PUSH_STORE_BYTES + READER_SLACK, data);
    if (fault) {
        flights_end(push->flights, room->slot);
        for (size_t i = 0; fault == -E2BIG && i < many; i++)
            push_member(push, members[i], room);
        return;
    }
    for (size_t i = 0; i < many; i++)
        sizes[i] = index->members[members[i]].size;
    flights_land_members(push->flights, room->slot, members, data, sizes, many);
    /* What a READ took meanwhile is in the page cache with its answer. Its pages are locked until
     * then, so that a store would only wait. */
    for (size_t i = 0; i < many; i++)
        if (!flights_took_member(push->flights, room->slot, i) &&
            store(push, VIEW_MEMBER_INODE + members[i], 0, data[i], sizes[i]))
            count(push, members[i], sizes[i]);
    flights_end(push->flights, room->slot);
}

/* The members of the sample that are wanted and not in the page cache; returns how many. */
static size_t choose(struct push *push, const struct follow_push *what, uint64_t *members)
{
    uint64_t sample = what->sample;
    const struct index *index = view_dataset(push->view)->index;
    size_t many = 0;

    for (uint64_t m = index->first[sample]; m < index->first[sample + 1] && many < AT_ONCE; m++) {
        if ((what->fields & track_field_bit((uint16_t)index->members[m].field)) &&
            index->members[m].size && (what->distrust || !names_has(push->names, m)) &&
            is_known(push, VIEW_MEMBER_INODE + m))
            members[many++] = m;
    }
    return many;
}

void push_sample(struct push *push, const struct follow_push *what, struct push_room *room)
{
    uint64_t sample = what->sample;
    const struct dataset *dataset = view_dataset(push->view);
    uint64_t members[AT_ONCE];
    size_t many = choose(push, what, members);
    char label[24];

    if (many && !atomic_load(&push->stopping))
        push_members(push, members, many, room);
    else
        flights_end(push->flights, room->slot);
    if ((what->fields & TRACK_FIELD_LABEL) && dataset->makes_cls &&
        dataset->labels.of[sample] != LABELS_MISSING)
        store(push, VIEW_LABEL_INODE + sample, 0, label,
              dataset_label_text(dataset, sample, label));
}

void push_probe(struct push *push, uint64_t sample, struct push_room *room)
{
    const struct index *index = view_dataset(push->view)->index;
    uint64_t first = index->first[sample], end = index->first[sample + 1];

    for (uint64_t m = first; m < end && m < first + FLIGHTS_KEPT; m++) {
        uint64_t size = index->members[m].size;
        char *data;
        if (size > 0 && size <= PUSH_STORE_BYTES &&
            reader_read_ahead(push->reader, m, room->read, PUSH_STORE_BYTES + READER_SLACK, 0, size,
                              &data) == (ssize_t)size &&
            flights_keep(push->flights, m, data, size))
            names_invalidate(push->names, VIEW_MEMBER_INODE + m);
    }
}

bool push_chunk(struct push *push, const struct chunk *chunk, struct push_room *room, bool *read)
{
    size_t skip = chunk->marked ? CHUNK_MARK_BYTES : 0;
    bool known = is_known(push, chunk->stream->inode);
    ssize_t got = -1;

    if (known)
        got = stream_read_ahead(push->view, push->reader, chunk->stream, room->chunk, chunk->size,
                                chunk->from, room->small, PUSH_SMALL_BYTES);
    *read = got == (ssize_t)chunk->size;
    if (*read) {
        flights_land_piece(push->flights, room->slot, room->chunk);
        if (chunk->size > skip && !atomic_load(&push->stopping) &&
            !flights_took_piece(push->flights, room->slot)) {
            atomic_fetch_add_explicit(&push->bytes, chunk->size, memory_order_relaxed);
            known = store(push, chunk->stream->inode, chunk->from + skip, room->chunk + skip,
                          chunk->size - skip);
        }
    }
    flights_end(push->flights, room->slot);
    return known;
}
