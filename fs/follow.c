/* Follows readers. Owns the tracks; never reads a byte of a shard. */
#include "follow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACKS 64
/* How far from a reader's head, and past what was claimed for it, a read is still its own: workers
 * of a DataLoader read whole batches side by side. Positions. */
#define NEAR 1024
/* The first window, and what it grows by each time the reader is met where it was expected. */
#define WINDOW_FIRST  8
#define WINDOW_GROWTH 4
#define WINDOW_MOST   ((uint64_t)1 << 20)
/* Reads that fit no track before windows start anew. */
#define STRANGERS_MOST 16
#define DOUBTS         4
/* A rate is taken over at least the first time; a reader not met for the second one pauses.
 * Nanoseconds. */
#define RATE_NS  500000000u
#define PAUSE_NS 5000000000u
/* Names looked up at once, and how far ahead of the pushes. */
#define NAMES_AT_ONCE 2048
#define NAMES_AHEAD   4096
/* How far past what was claimed a reader may be met and still be in order. Positions. */
#define SLACK 64
/* Steps in order before files are pushed, and before names are looked up for a reader whose pages
 * are all there. */
#define STEPS_TO_PUSH 2
#define STEPS_TO_NAME 4
/* Positions that a reader which is faster than the pushes is let pass, at the most, before they go
 * on ahead of it. */
#define GAP_MOST 64

struct track {
    uint64_t folder; /* inode; 0: free */
    uint64_t serial; /* new for each use of this place */
    char path[320];
    uint64_t epoch;
    struct plan plan;
    uint64_t head;   /* where the reader was last seen */
    uint64_t next;   /* the first position not claimed for a push */
    uint64_t named;  /* names are known to the kernel up to here */
    uint64_t naming; /* names up to here are being looked up */
    uint64_t window; /* positions ahead of head that may be claimed */
    uint64_t gap;
    unsigned doubts;   /* reads in a row of what should have been in the page cache */
    uint64_t distrust; /* up to here, pages that should be in the cache may not be */
    uint64_t fields;
    uint64_t bytes; /* pushed, about, between head and next */
    uint64_t used;  /* when it was last met, in events */
    unsigned steps; /* times that the reader was met where it was expected, less those where not */
    uint64_t met;   /* when it was last met, in nanoseconds */
    uint64_t rated; /* when `rate` was last worked out, and where the reader was then */
    uint64_t rated_position;
    double rate;
    bool reading; /* a READ was met: pushes may go */
};

struct follow {
    const struct index *index;
    struct epochs *epochs;
    uint64_t reader_bytes, total_bytes, total;
    uint64_t events, serials, now;
    unsigned strangers; /* reads in a row that fitted no track */
    unsigned turn;      /* the track that is served next */
    struct track tracks[TRACKS];
};

int follow_open(struct follow **out, const struct index *index, struct epochs *epochs,
                uint64_t reader_bytes, uint64_t total_bytes)
{
    struct follow *follow = calloc(1, sizeof *follow);

    if (!follow)
        return -ENOMEM;
    follow->index = index;
    follow->epochs = epochs;
    follow->reader_bytes = reader_bytes;
    follow->total_bytes = total_bytes;
    *out = follow;
    return 0;
}

void follow_close(struct follow *follow)
{
    free(follow);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void take_bytes(struct follow *follow, struct track *track, uint64_t bytes)
{
    bytes = least(bytes, track->bytes);
    track->bytes -= bytes;
    follow->total -= least(bytes, follow->total);
}

static void release(struct follow *follow, struct track *track)
{
    take_bytes(follow, track, track->bytes);
    *track = (struct track){0};
}

static bool is_near(const struct track *track, uint64_t position)
{
    return position + NEAR >= track->head && position < track->next + NEAR;
}

/* The track of this folder that the position is near to; NULL: none. */
static struct track *find(struct follow *follow, uint64_t folder, uint64_t position)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (follow->tracks[i].folder == folder && is_near(&follow->tracks[i], position))
            return &follow->tracks[i];
    return NULL;
}

static struct track *start(struct follow *follow, const struct view_node *folder, uint64_t position)
{
    struct track *track = &follow->tracks[0];

    for (unsigned i = 1; i < TRACKS && track->folder; i++)
        if (!follow->tracks[i].folder || follow->tracks[i].used < track->used)
            track = &follow->tracks[i];
    release(follow, track);
    *track = (struct track){
        .folder = folder->inode,
        .serial = ++follow->serials,
        .epoch = folder->epoch,
        .plan = folder->plan,
        .head = position,
        .next = position,
        .named = position,
        .naming = position,
        .window = WINDOW_FIRST,
        .used = ++follow->events,
        .met = follow->now,
        .rated = follow->now,
        .rated_position = position,
    };
    if (folder->parent == VIEW_CURRENT_INODE)
        snprintf(track->path, sizeof track->path, "current/%s", folder->name);
    else
        snprintf(track->path, sizeof track->path, "epoch-%llu/%s",
                 (unsigned long long)folder->epoch, folder->name);
    return track;
}

/* The bit of a field in a mask. */
static uint64_t field_bit(uint16_t field)
{
    return (uint64_t)1 << least(field, 62);
}

static uint64_t bytes_at(const struct follow *follow, const struct track *track,
                         const struct order *order, uint64_t position)
{
    const struct index *index = follow->index;
    uint64_t sample = order_sample(order, plan_global(&track->plan, position)), bytes = 0;

    for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++)
        if (track->fields & field_bit((uint16_t)index->members[m].field))
            bytes += index->members[m].size;
    return bytes;
}

static void add_bytes(struct follow *follow, struct track *track, uint64_t bytes)
{
    track->bytes += bytes;
    follow->total += bytes;
}

/* All that changes head or next goes through these: the bytes ahead are those of all files between
 * the two, whether they were pushed, are being pushed, or were left to the reader. */
static void move_next(struct follow *follow, struct track *track, const struct order *order,
                      uint64_t position)
{
    position = least(position, track->plan.length);
    for (; track->next < position; track->next++)
        add_bytes(follow, track, bytes_at(follow, track, order, track->next));
    for (; track->next > position; track->next--)
        take_bytes(follow, track, bytes_at(follow, track, order, track->next - 1));
}

static void move_head(struct follow *follow, struct track *track, const struct order *order,
                      uint64_t position)
{
    for (uint64_t p = track->head; p < least(position, track->next); p++)
        take_bytes(follow, track, bytes_at(follow, track, order, p));
    track->head = position;
    if (track->next < position)
        track->next = position;
}

/* The reader reads one more field: what is ahead counts anew. */
static void add_field(struct follow *follow, struct track *track, const struct order *order,
                      uint64_t bit)
{
    if (track->fields & bit)
        return;
    take_bytes(follow, track, track->bytes);
    track->fields |= bit;
    for (uint64_t p = track->head; p < track->next; p++)
        add_bytes(follow, track, bytes_at(follow, track, order, p));
}

/* Positions a second, since the rate was last worked out; a pause before counts as none. */
static void rate(struct follow *follow, struct track *track, uint64_t position)
{
    uint64_t since = follow->now - track->rated;

    if (follow->now - track->met > PAUSE_NS) {
        track->rated = follow->now;
        track->rated_position = position;
    } else if (since >= RATE_NS) {
        track->rate = position > track->rated_position
                          ? (double)(position - track->rated_position) * 1e9 / (double)since
                          : 0;
        track->rated = follow->now;
        track->rated_position = position;
    }
    track->met = follow->now;
}

/* The reader was met at `position`. Where it was expected, trust in it grows; further on, it
 * shrinks; a little behind says nothing, for workers read side by side. */
static void meet(struct follow *follow, struct track *track, const struct order *order,
                 uint64_t position, bool read)
{
    /* Of a reader that only the marks show, the next mark is expected. */
    uint64_t slack = read ? SLACK : FOLLOW_MARK_EVERY;
    bool expected = position <= track->next + track->gap + slack;

    track->used = ++follow->events;
    rate(follow, track, position);
    if (position >= track->head) {
        if (expected) {
            track->steps++;
            track->window = least(track->window * WINDOW_GROWTH, WINDOW_MOST);
        } else {
            track->steps -= track->steps > 0;
            track->window = WINDOW_FIRST;
        }
        move_head(follow, track, order, position);
    }
    if (!read)
        return;
    track->reading = true;
    follow->strangers = 0;
    /* It came to a position before its push did. Those close ahead it will reach first as well:
     * leave them to it. */
    if (position < track->next)
        track->gap = least(track->gap * 2 + 1, GAP_MOST);
    if (track->next < position + 1 + track->gap)
        move_next(follow, track, order, position + 1 + track->gap);
}

void follow_listed(struct follow *follow, const struct view_node *folder, uint64_t end)
{
    struct track *track = find(follow, folder->inode, 0);

    if (!track)
        track = start(follow, folder, 0);
    track->used = ++follow->events;
    if (track->named < end)
        track->named = end;
    if (track->naming < end)
        track->naming = end;
}

void follow_looked(struct follow *follow, const struct view_node *folder, uint64_t position)
{
    struct track *track = find(follow, folder->inode, position);
    struct order *order;

    if (!track) {
        start(follow, folder, position);
        return;
    }
    order = epochs_get(follow->epochs, track->epoch);
    if (!order)
        return;
    meet(follow, track, order, position, false);
    epochs_put(follow->epochs, order);
    /* It looked the name up by itself, so the lookups ahead of it are behind it. */
    if (track->named <= position && position % FOLLOW_MARK_EVERY) {
        track->named = position + 1;
        track->naming = position + 1 > track->naming ? position + 1 : track->naming;
    }
}

/* The position in [from, end) that shows this sample. */
static bool locate(const struct track *track, const struct order *order, uint64_t sample,
                   uint64_t from, uint64_t end, uint64_t *position)
{
    end = least(end, track->plan.length);
    for (uint64_t p = from; p < end; p++) {
        if (order_sample(order, plan_global(&track->plan, p)) == sample) {
            *position = p;
            return true;
        }
    }
    return false;
}

/* Where the reader is expected: at its head, or where it meets what was claimed for it. */
static bool locate_expected(const struct track *track, const struct order *order, uint64_t sample,
                            uint64_t *position)
{
    uint64_t border = track->next > track->head + SLACK ? track->next - SLACK : track->head;

    return locate(track, order, sample, border, track->next + track->gap + SLACK, position) ||
           locate(track, order, sample, track->head, least(track->head + SLACK, border), position);
}

/* Anywhere near. */
static bool locate_near(const struct track *track, const struct order *order, uint64_t sample,
                        uint64_t *position)
{
    return locate(track, order, sample, track->head > NEAR ? track->head - NEAR : 0,
                  track->next + NEAR, position);
}

static void calm_down(struct follow *follow)
{
    if (++follow->strangers < STRANGERS_MOST)
        return;
    follow->strangers = 0;
    for (unsigned i = 0; i < TRACKS; i++) {
        follow->tracks[i].window = WINDOW_FIRST;
        follow->tracks[i].steps = 0;
    }
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

typedef bool locator(const struct track *track, const struct order *order, uint64_t sample,
                     uint64_t *position);

/* The track in which `where` finds the sample closest to the reader or to what was claimed; of
 * those met `steps` times or more. By chance, a sample may be near in another epoch too. */
static struct track *find_closest(struct follow *follow, uint64_t sample, locator *where,
                                  unsigned steps, uint64_t *position)
{
    struct track *best = NULL;
    uint64_t best_away = UINT64_MAX;

    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        struct order *order;
        uint64_t at, away;
        if (!track->folder || track->steps < steps ||
            !(order = epochs_get(follow->epochs, track->epoch)))
            continue;
        if (where(track, order, sample, &at)) {
            away = least(distance(at, track->head), distance(at, track->next));
            if (!best || away < best_away || (away == best_away && track->used > best->used)) {
                best = track;
                best_away = away;
                *position = at;
            }
        }
        epochs_put(follow->epochs, order);
    }
    return best;
}

/* The track that a read of this sample most likely belongs to. Most reads are where they are
 * expected; the long search is for readers that were met before alone, as it takes 10 us each. */
static struct track *recognise(struct follow *follow, uint64_t sample, uint64_t *position)
{
    return find_closest(follow, sample, locate_expected, 0, position)
               ?: find_closest(follow, sample, locate_near, 1, position);
}

static void read_sample(struct follow *follow, uint64_t sample, uint64_t bit, bool again)
{
    uint64_t position = 0;
    struct track *track = recognise(follow, sample, &position);
    struct order *order = track ? epochs_get(follow->epochs, track->epoch) : NULL;

    if (!order) {
        calm_down(follow);
        return;
    }
    add_field(follow, track, order, bit);
    meet(follow, track, order, position, true);
    /* One such read may have been on its way when the file was pushed. Several in a row: the kernel
     * dropped pages that were counted on, and what is ahead may be gone too. */
    track->doubts = again ? track->doubts + 1 : 0;
    if (track->doubts >= DOUBTS) {
        track->doubts = 0;
        track->distrust = position + NEAR;
        if (track->next > position + 1 + track->gap)
            move_next(follow, track, order, position + 1 + track->gap);
    }
    epochs_put(follow->epochs, order);
}

void follow_read(struct follow *follow, uint64_t member, bool again)
{
    read_sample(follow, index_sample_of(follow->index, member),
                field_bit((uint16_t)follow->index->members[member].field), again);
}

void follow_read_label(struct follow *follow, uint64_t sample)
{
    read_sample(follow, sample, (uint64_t)1 << 63, false);
}

void follow_left(struct follow *follow, uint64_t folder)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (follow->tracks[i].folder == folder)
            release(follow, &follow->tracks[i]);
}

static bool may_push(const struct track *track)
{
    return track->folder && track->reading && track->steps >= STEPS_TO_PUSH &&
           track->next < track->plan.length && track->next < track->named &&
           track->next <= track->head + track->window;
}

/* Whether the bytes of the next position still fit; one always does, however large. */
static bool has_room(const struct follow *follow, const struct track *track, uint64_t bytes)
{
    return track->bytes == 0 || (track->bytes + bytes <= follow->reader_bytes &&
                                 follow->total + bytes <= follow->total_bytes);
}

static bool claim(struct follow *follow, struct track *track)
{
    struct order *order = epochs_get(follow->epochs, track->epoch);
    bool room;

    if (!order)
        return false;
    room = has_room(follow, track, bytes_at(follow, track, order, track->next));
    if (room)
        move_next(follow, track, order, track->next + 1);
    epochs_put(follow->epochs, order);
    return room;
}

bool follow_next_push(struct follow *follow, struct follow_push *push)
{
    for (unsigned i = 0; i < TRACKS; i++) {
        unsigned at = (follow->turn + i) % TRACKS;
        struct track *track = &follow->tracks[at];
        if (!may_push(track) || !claim(follow, track))
            continue;
        *push = (struct follow_push){
            .epoch = track->epoch,
            .position = track->next - 1,
            .plan = track->plan,
            .distrust = track->next <= track->distrust,
            .fields = track->fields,
        };
        follow->turn = at + 1;
        return true;
    }
    return false;
}

bool follow_next_names(struct follow *follow, struct follow_names *names)
{
    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        uint64_t start, most = track->next + NAMES_AHEAD;
        if (!track->folder || (!track->reading && track->steps < STEPS_TO_NAME) ||
            track->naming != track->named || track->named >= track->plan.length ||
            track->named + NAMES_AT_ONCE > most)
            continue;
        start = track->named > track->head ? track->named : track->head;
        track->naming = least(start + NAMES_AT_ONCE, track->plan.length);
        *names = (struct follow_names){i, track->serial, track->folder, start, track->naming, ""};
        memcpy(names->path, track->path, sizeof names->path);
        return true;
    }
    return false;
}

void follow_named(struct follow *follow, const struct follow_names *names, uint64_t end)
{
    struct track *track = &follow->tracks[names->track];

    if (track->serial != names->serial)
        return;
    /* A failure leaves naming ahead of named: it is not tried again. */
    if (end >= names->end) {
        if (track->named < end)
            track->named = end;
        track->naming = track->named;
    }
}

void follow_at(struct follow *follow, uint64_t now)
{
    follow->now = now;
}

static void describe(const struct track *track, uint64_t now, struct follow_reader *reader)
{
    *reader = (struct follow_reader){
        .epoch = track->epoch,
        .rank = track->plan.rank,
        .world = track->plan.world,
        .position = track->head,
        .length = track->plan.length,
        .rate = now - track->met > PAUSE_NS ? 0 : track->rate,
        .idle_ns = now - track->met,
    };
    memcpy(reader->path, track->path, sizeof reader->path);
}

size_t follow_readers(const struct follow *follow, uint64_t now, struct follow_reader *readers,
                      size_t room)
{
    const struct track *latest[TRACKS] = {0};
    size_t count = 0;

    for (unsigned i = 0; i < TRACKS; i++) {
        const struct track *track = &follow->tracks[i];
        size_t at = count;
        if (!track->folder || !track->steps)
            continue;
        for (; at > 0 && latest[at - 1]->used < track->used; at--)
            latest[at] = latest[at - 1];
        latest[at] = track;
        count++;
    }
    for (size_t i = 0; i < count && i < room; i++)
        describe(latest[i], now, &readers[i]);
    return count < room ? count : room;
}

uint64_t follow_bytes_ahead(const struct follow *follow)
{
    return follow->total;
}
