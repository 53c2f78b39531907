/* Pushes. Owns nothing but its threads' buffers. */
#include "push.h"

#include "stream.h"

#include <errno.h>
#include <stdlib.h>

/* Fields of one sample that are pushed at the most. */
#define AT_ONCE 64

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

/* A sample on its way. */
struct load {
    const struct berth *berth;
    uint64_t members[AT_ONCE];
    char *data[AT_ONCE];
    uint64_t sizes[AT_ONCE];
    size_t count;
};

static void land(struct push *push, struct load *load)
{
    const struct index *index = view_dataset(push->view)->index;

    for (size_t i = 0; i < load->count; i++)
        load->sizes[i] = index->members[load->members[i]].size;
    flights_land_members(push->flights, load->berth->slot, load->members, load->data, load->sizes,
                         load->count);
}

/* Of what has landed. What a READ took meanwhile is in the page cache with its answer. Its pages
 * are locked until then, so that a store would only wait. */
static void unload(struct push *push, const struct load *load)
{
    for (size_t i = 0; i < load->count; i++)
        if (!flights_took_member(push->flights, load->berth->slot, i) &&
            store(push, VIEW_MEMBER_INODE + load->members[i], 0, load->data[i], load->sizes[i]))
            count(push, load->members[i], load->sizes[i]);
    flights_end(push->flights, load->berth->slot);
}

/* What does not fit into a berth is read into the thread's own room, or piece by piece. */
static void push_large(struct push *push, const struct follow_push *what, struct load *load,
                       struct push_room *room)
{
    const struct index *index = view_dataset(push->view)->index;
    int fault;

    flights_start_members(push->flights, load->berth->slot, index->first[what->sample],
                          index->first[what->sample + 1]);
    fault = reader_read_members(push->reader, load->members, load->count, room->read,
                                PUSH_STORE_BYTES + READER_SLACK, load->data);
    if (!fault) {
        land(push, load);
        unload(push, load);
        return;
    }
    flights_end(push->flights, load->berth->slot);
    for (size_t i = 0; fault == -E2BIG && i < load->count; i++)
        push_member(push, load->members[i], room);
}

static void push_label(struct push *push, const struct follow_push *what)
{
    const struct dataset *dataset = view_dataset(push->view);
    char label[24];

    if ((what->fields & TRACK_FIELD_LABEL) && dataset->makes_cls &&
        dataset->labels.of[what->sample] != LABELS_MISSING)
        store(push, VIEW_LABEL_INODE + what->sample, 0, label,
              dataset_label_text(dataset, what->sample, label));
}

void push_samples(struct push *push, const struct follow_push *what, struct berth *const *berths,
                  size_t count, struct push_room *room, struct batch *batch)
{
    struct load loads[PUSH_AT_ONCE];
    struct reader_piece pieces[PUSH_AT_ONCE];
    size_t many = 0, of[PUSH_AT_ONCE];

    for (size_t i = 0; i < count; i++) {
        struct load *load = &loads[i];
        load->berth = berths[i];
        load->count = atomic_load(&push->stopping) ? 0 : choose(push, &what[i], load->members);
        of[many] = i;
        if (load->count)
            pieces[many++] = (struct reader_piece){.members = load->members,
                                                   .count = load->count,
                                                   .buffer = berths[i]->small,
                                                   .room = BERTH_SMALL_BYTES,
                                                   .data = load->data};
        else
            flights_end(push->flights, berths[i]->slot);
    }
    reader_read_pieces(push->reader, batch, pieces, many);
    /* All land before the first is stored: a store may wait for a READ, and that for a thread which
     * another READ has, which waits for a flight. */
    for (size_t i = 0; i < many; i++) {
        if (pieces[i].fault)
            flights_end(push->flights, loads[of[i]].berth->slot);
        else
            land(push, &loads[of[i]]);
    }
    for (size_t i = 0; i < many; i++)
        if (!pieces[i].fault)
            unload(push, &loads[of[i]]);
    for (size_t i = 0; i < many; i++)
        if (pieces[i].fault == -E2BIG)
            push_large(push, &what[of[i]], &loads[of[i]], room);
    for (size_t i = 0; i < count; i++)
        push_label(push, &what[i]);
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

bool push_chunk(struct push *push, const struct chunk *chunk, const struct berth *berth,
                struct batch *batch, bool *read)
{
    struct stream_room room = {.buffer = berth->chunk,
                               .scratch = berth->small,
                               .scratch_bytes = BERTH_SMALL_BYTES,
                               .batch = batch};
    size_t skip = chunk->marked ? CHUNK_MARK_BYTES : 0;
    bool known = is_known(push, chunk->stream->inode);
    ssize_t got = -1;

    if (known)
        got = stream_read_ahead(push->view, push->reader, chunk->stream, room, chunk->size,
                                chunk->from);
    *read = got == (ssize_t)chunk->size;
    if (*read) {
        flights_land_piece(push->flights, berth->slot, berth->chunk);
        if (chunk->size > skip && !atomic_load(&push->stopping) &&
            !flights_took_piece(push->flights, berth->slot)) {
            atomic_fetch_add_explicit(&push->bytes, chunk->size, memory_order_relaxed);
            known = store(push, chunk->stream->inode, chunk->from + skip, berth->chunk + skip,
                          chunk->size - skip);
        }
    }
    flights_end(push->flights, berth->slot);
    return known;
}
