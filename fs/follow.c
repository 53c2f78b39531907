/* Follows readers. Owns the tracks; never reads a byte of a shard. */
#include "follow.h"

#include "passes.h"
#include "trust.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACKS 64
/* The first window, and what it grows by each time the reader is met where it was expected. */
#define WINDOW_FIRST  8
#define WINDOW_GROWTH 4
#define WINDOW_MOST   TRUST_WINDOW_MOST
/* Reads that fit no track before windows start anew. */
#define STRANGERS_MOST 16
#define DOUBTS         4
/* Names looked up at once, and how far ahead of the pushes. */
#define NAMES_AT_ONCE 2048
#define NAMES_AHEAD   4096
/* Reads in a row, about, by readers that nobody trusts, before only one of NOISE_SAMPLED is looked
 * at: to find one in no order costs more than to answer it. One in order will show by its marks. */
#define NOISE_MOST    32
#define NOISE_SAMPLED 16
/* Positions that a reader which is faster than the pushes is let pass, at the most, before they go
 * on ahead of it. */
#define GAP_MOST 64
/* What the bound of bytes ahead never shrinks below. */
#define LIMIT_LEAST ((uint64_t)1 << 20)
/* Probes of one track, and how far ahead of the reader they are: it takes about 0.1 ms to drop a
 * page. Positions. */
#define PROBES_MOST  3
#define PROBES_AHEAD 60

struct follow {
    const struct index *index;
    struct epochs *epochs;
    uint64_t reader_bytes, total_bytes, total;
    uint64_t events, serials, now;
    bool may_repeat, slow;
    unsigned strangers; /* reads in a row that fitted no track */
    unsigned noise;     /* reads lately by readers that are not trusted */
    unsigned turn;      /* the track that is served next */
    uint64_t hits, lost, repeated;
    uint64_t fields;       /* that the reader met last reads: others will read the same */
    struct track *to_tell; /* a repetition to be told of */
    struct passes passes;
    struct track tracks[TRACKS];
};

int follow_open(struct follow **out, const struct index *index, struct epochs *epochs,
                uint64_t reader_bytes, uint64_t total_bytes, bool may_repeat)
{
    struct follow *follow = calloc(1, sizeof *follow);

    if (!follow)
        return -ENOMEM;
    follow->index = index;
    follow->epochs = epochs;
    follow->reader_bytes = reader_bytes;
    follow->total_bytes = total_bytes;
    follow->may_repeat = may_repeat;
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

static void release(struct follow *follow, struct track *track)
{
    if (follow->to_tell == track)
        follow->to_tell = NULL;
    track_release(track, &follow->total);
}

static bool is_near(const struct track *track, uint64_t position)
{
    return position + TRACK_NEAR >= track->head && position < track->next + TRACK_NEAR;
}

/* How unlikely it is that the position is this reader's: most read on, few go back, and who came to
 * the end is done. */
static uint64_t unlikely(const struct track *track, uint64_t position)
{
    uint64_t done = track->head + 1 >= track->plan.length ? 2 * TRACK_NEAR : 0;

    return done +
           (position >= track->head ? position - track->head : track->head - position + TRACK_NEAR);
}

/* The track of this folder that the position most likely is of; NULL: it is near none. */
static struct track *find(struct follow *follow, uint64_t folder, uint64_t position)
{
    struct track *best = NULL;

    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        if (track->folder == folder && is_near(track, position) &&
            (!best || unlikely(track, position) < unlikely(best, position)))
            best = track;
    }
    return best;
}

static struct track *find_serial(struct follow *follow, uint64_t serial)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (follow->tracks[i].folder && follow->tracks[i].serial == serial)
            return &follow->tracks[i];
    return NULL;
}

static bool is_unmet(const struct track *track)
{
    return track->warming && !track->steps;
}

static bool is_of(const struct track *track, uint64_t epoch, const struct plan *plan)
{
    return track->folder && track->epoch == epoch && track->plan.rank == plan->rank &&
           track->plan.world == plan->world && track->plan.length == plan->length;
}

/* What warms this part of this epoch and was not met by a reader; NULL: nothing does. */
static struct track *find_warming(struct follow *follow, uint64_t epoch, const struct plan *plan)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (is_of(&follow->tracks[i], epoch, plan) && is_unmet(&follow->tracks[i]))
            return &follow->tracks[i];
    return NULL;
}

/* The reader that was near this place of the same path before the kernel forgot the folder's inode
 * and got another; NULL: none was. */
static struct track *find_path(struct follow *follow, const char *path, uint64_t epoch,
                               const struct plan *plan, uint64_t position)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (is_of(&follow->tracks[i], epoch, plan) && is_near(&follow->tracks[i], position) &&
            strcmp(follow->tracks[i].path, path) == 0)
            return &follow->tracks[i];
    return NULL;
}

/* A free place, or that of the track which was not met for longest. */
static struct track *begin(struct follow *follow, const char *path, uint64_t epoch,
                           const struct plan *plan)
{
    struct track *track = &follow->tracks[0];

    for (unsigned i = 1; i < TRACKS && track->folder; i++)
        if (!follow->tracks[i].folder || follow->tracks[i].used < track->used)
            track = &follow->tracks[i];
    release(follow, track);
    *track = (struct track){
        .folder = TRACK_FOLDER_UNKNOWN,
        .serial = ++follow->serials,
        .epoch = epoch,
        .plan = *plan,
        .window = WINDOW_FIRST,
        .limit = follow->reader_bytes,
        .used = ++follow->events,
        .probe = UINT64_MAX,
    };
    pace_begin(&track->pace, follow->now);
    snprintf(track->path, sizeof track->path, "%s", path);
    return track;
}

static void folder_path(const struct view_node *folder, char path[TRACK_PATH])
{
    if (folder->parent == VIEW_CURRENT_INODE)
        snprintf(path, TRACK_PATH, "current/%s", folder->name);
    else
        snprintf(path, TRACK_PATH, "epoch-%llu/%s", (unsigned long long)folder->epoch,
                 folder->name);
}

/* A reader was met in a folder, away from all known ones. What was warmed for it is its own. */
static struct track *start(struct follow *follow, const struct view_node *folder, uint64_t position)
{
    struct track *track = find_warming(follow, folder->epoch, &folder->plan);
    char path[TRACK_PATH];

    folder_path(folder, path);
    if (track && is_near(track, position)) {
        memcpy(track->path, path, sizeof path);
        pace_begin(&track->pace, follow->now);
    } else {
        track = find_path(follow, path, folder->epoch, &folder->plan, position);
    }
    if (track) {
        track->serial = ++follow->serials;
        track->used = ++follow->events;
        track->named = track->naming = position;
    } else {
        track = begin(follow, path, folder->epoch, &folder->plan);
        track->head = track->next = track->named = track->naming = track->begun = position;
        track->fields = follow->fields;
        track->again = position < FOLLOW_MARK_EVERY &&
                       passes_are_finished(&follow->passes, path, track->epoch);
    }
    track->folder = folder->inode;
    return track;
}

/* Passes: see fs/passes.h. */

static void count_repetition(struct follow *follow, struct track *track)
{
    if (!track->again || track->counted || follow->may_repeat)
        return;
    track->counted = true;
    follow->repeated++;
    if (passes_repeat(&follow->passes, track->path, track->epoch))
        follow->to_tell = track;
}

static void note_pass(struct follow *follow, struct track *track, uint64_t position)
{
    if (track->again && !track->counted && !track->reading && track->probe == UINT64_MAX &&
        track->probes < PROBES_MOST && !follow->may_repeat) {
        track->probe = least(position + PROBES_AHEAD, track->plan.length - 1);
        track->probes++;
    }
    if (track->reading)
        count_repetition(follow, track);
    if (position + 1 == track->plan.length && track->begun < FOLLOW_MARK_EVERY &&
        (track->reading || !track->again))
        passes_finish(&follow->passes, track->path, track->epoch);
}

/* The first position that is not left to a reader who is at `position` and faster than the pushes.
 * What it is left counts as ahead of it, so it must leave room for pushes. */
static uint64_t past_gap(const struct follow *follow, const struct track *track,
                         const struct order *order, uint64_t position)
{
    uint64_t end = least(position + 1 + track->gap, track->plan.length);
    uint64_t room = track->limit / 4, bytes = 0, p = position + 1;

    for (; p < end; p++) {
        bytes += track_bytes_at(track, follow->index, order, p);
        if (bytes > room || follow->total + bytes > follow->total_bytes)
            break;
    }
    return p;
}

/* The reader was met at `position`. Where it was expected, trust in it grows; further on, it
 * shrinks; a little behind says nothing, for workers read side by side. */
static void meet(struct follow *follow, struct track *track, const struct order *order,
                 uint64_t position, bool read)
{
    /* Of a reader that only the marks show, the next mark is expected. */
    uint64_t slack = read ? TRACK_SLACK : FOLLOW_MARK_EVERY;
    bool expected = position <= track->next + track->gap + slack;
    uint64_t files = track->pace.sums.files;

    if (!is_unmet(track))
        trust_after(track, follow->events - track->used, position);
    track->used = ++follow->events;
    if (position >= track->head) {
        if (expected) {
            track->steps++;
            track->window = least(track->window * WINDOW_GROWTH, trust_window(track));
            track->limit = least(track->limit + track->limit / 64, follow->reader_bytes);
        } else {
            trust_shaken(track);
            track->window = WINDOW_FIRST;
        }
        track_move_head(track, follow->index, order, position, &follow->total);
        follow->hits += track->pace.sums.files - files;
    }
    trust_met(track, position, read);
    pace_meet(&track->pace, follow->now);
    if (read)
        track->reading = true;
    note_pass(follow, track, position);
    if (!read) {
        track->gap /= 2;
        return;
    }
    follow->strangers = 0;
    /* It came to a position before its push did. Those close ahead it will reach first as well:
     * leave them to it. Not where a read takes long: there, each would be waited for. */
    if (follow->slow)
        track->gap = 0;
    else if (position < track->next)
        track->gap = least(track->gap * 2 + 1, GAP_MOST);
    if (track->next < position + 1 + track->gap)
        track_move_next(track, follow->index, order, past_gap(follow, track, order, position),
                        &follow->total);
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

/* From the end to the start, that is another pass, however short the way: who came to the end is
 * followed no more. */
static void end_passes(struct follow *follow, uint64_t folder)
{
    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        if (track->folder == folder && track->head > 0 && track->head + 1 == track->plan.length)
            release(follow, track);
    }
}

void follow_looked(struct follow *follow, const struct view_node *folder, uint64_t position)
{
    struct track *track = find(follow, folder->inode, position);
    struct order *order;

    if (position == 0) {
        end_passes(follow, folder->inode);
        track = find(follow, folder->inode, position);
    }
    if (!track) {
        note_pass(follow, start(follow, folder, position), position);
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

static void calm_down(struct follow *follow)
{
    follow->events++;
    if (++follow->strangers < STRANGERS_MOST)
        return;
    follow->strangers = 0;
    for (unsigned i = 0; i < TRACKS; i++)
        if (!is_unmet(&follow->tracks[i]))
            trust_shaken(&follow->tracks[i]);
}

/* One such read may have been on its way when the file was pushed. Several in a row: the kernel
 * dropped pages that were counted on, and what is ahead may be gone too. */
static void doubt(struct follow *follow, struct track *track, const struct order *order,
                  uint64_t position, uint64_t sample, bool again)
{
    if (again && track->probes && sample == track->probed)
        return; /* its pages were dropped on purpose */
    follow->lost += again;
    track->doubts = again ? track->doubts + 1 : 0;
    if (track->doubts < DOUBTS)
        return;
    track->doubts = 0;
    track->distrust = position + TRACK_NEAR;
    track->limit = track->limit / 2 > LIMIT_LEAST ? track->limit / 2 : LIMIT_LEAST;
    if (track->next > position + 1 + track->gap)
        track_move_next(track, follow->index, order, position + 1 + track->gap, &follow->total);
}

static void read_sample(struct follow *follow, uint64_t sample, uint64_t bit, bool again,
                        uint64_t took, uint64_t member)
{
    uint64_t position = 0;
    bool hasty = follow->noise >= NOISE_MOST && ++follow->events % NOISE_SAMPLED;
    struct track *track = track_recognise(follow->tracks, TRACKS, follow->epochs, sample, hasty,
                                          &position);
    struct order *order = track ? epochs_get(follow->epochs, track->epoch) : NULL;

    if (track && track->trusted)
        follow->noise -= follow->noise < 4 ? follow->noise : 4;
    else if (follow->noise < 2 * NOISE_MOST)
        follow->noise++;
    if (!order) {
        follow->lost += again;
        calm_down(follow);
        return;
    }
    track->member = member;
    track->pace.sums.missed++;
    track->pace.sums.waited_ns += took;
    follow->hits -= follow->hits > 0;
    track_add_field(track, follow->index, order, bit, &follow->total);
    follow->fields = track->fields;
    meet(follow, track, order, position, true);
    doubt(follow, track, order, position, sample, again);
    epochs_put(follow->epochs, order);
}

void follow_read(struct follow *follow, uint64_t member, bool again, uint64_t took)
{
    read_sample(follow, index_sample_of(follow->index, member),
                track_field_bit((uint16_t)follow->index->members[member].field), again, took,
                member);
}

void follow_read_on(struct follow *follow, uint64_t member, uint64_t took)
{
    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        if (track->folder && track->reading && track->member == member) {
            track->pace.sums.waited_ns += took;
            return;
        }
    }
}

void follow_read_label(struct follow *follow, uint64_t sample, uint64_t took)
{
    read_sample(follow, sample, (uint64_t)1 << 63, false, took, UINT64_MAX);
}

void follow_left(struct follow *follow, uint64_t folder)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (follow->tracks[i].folder == folder)
            release(follow, &follow->tracks[i]);
}

/* Warms an epoch's start; what does so already, for another folder, is asked to do it here. */
static struct track *warm(struct follow *follow, const char *path, uint64_t epoch,
                          const struct plan *plan, uint64_t fields)
{
    struct track *track = find_warming(follow, epoch, plan);

    if (track) {
        track->folder = TRACK_FOLDER_UNKNOWN;
        track->serial = ++follow->serials;
        track->named = track->naming = 0;
        snprintf(track->path, sizeof track->path, "%s", path);
        return track;
    }
    track = begin(follow, path, epoch, plan);
    track->warming = true;
    track->trusted = true;
    track->window = WINDOW_MOST;
    track->fields = fields;
    return track;
}

void follow_warm(struct follow *follow, const char *path, uint64_t epoch, const struct plan *plan)
{
    if (plan->length)
        warm(follow, path, epoch, plan, ~(uint64_t)0);
}

bool follow_moved(struct follow *follow, uint64_t folder, uint64_t epoch)
{
    struct track old = {0};

    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        if (track->folder != folder)
            continue;
        if (track->trusted && track->used > old.used)
            old = *track;
        release(follow, track);
    }
    if (!old.folder || !old.plan.length)
        return false;
    warm(follow, old.path, epoch, &old.plan, old.fields);
    return true;
}

/* All of this epoch is claimed: the next one's turn, in its own folder, as `current` still shows
 * this one. */
static void warm_next_epoch(struct follow *follow, struct track *track)
{
    char path[TRACK_PATH];
    const char *name = strrchr(track->path, '/');
    struct track *heir;

    track->has_heir = true;
    if (!name || track->epoch >= ORDER_EPOCH_MAX ||
        find_warming(follow, track->epoch + 1, &track->plan))
        return;
    snprintf(path, sizeof path, "epoch-%llu%s", (unsigned long long)track->epoch + 1, name);
    heir = warm(follow, path, track->epoch + 1, &track->plan, track->fields);
    heir->elder = track->serial;
}

static bool may_push(const struct track *track)
{
    return track->folder && track->next < track->plan.length && track->next < track->named &&
           track->next <= track->head + track->window &&
           (is_unmet(track) || (track->reading && track->trusted));
}

/* Whether the bytes of the next position still fit; one always does, however large. An epoch that
 * is warmed shares its bound with the one before it. */
static bool has_room(struct follow *follow, const struct track *track, uint64_t bytes,
                     uint64_t elsewhere)
{
    const struct track *elder = track->elder ? find_serial(follow, track->elder) : NULL;
    uint64_t shared = elder ? elder->bytes : 0;

    return track->bytes == 0 || (track->bytes + shared + bytes <= track->limit &&
                                 follow->total + elsewhere + bytes <= follow->total_bytes);
}

static bool claim(struct follow *follow, struct track *track, uint64_t elsewhere, uint64_t *sample)
{
    struct order *order = epochs_get(follow->epochs, track->epoch);
    bool room;

    if (!order)
        return false;
    room = has_room(follow, track, track_bytes_at(track, follow->index, order, track->next),
                    elsewhere);
    *sample = order_sample(order, plan_global(&track->plan, track->next));
    if (room)
        track_move_next(track, follow->index, order, track->next + 1, &follow->total);
    epochs_put(follow->epochs, order);
    return room;
}

bool follow_next_push(struct follow *follow, uint64_t elsewhere, struct follow_push *push)
{
    for (unsigned i = 0; i < TRACKS; i++) {
        unsigned at = (follow->turn + i) % TRACKS;
        struct track *track = &follow->tracks[at];
        uint64_t sample;
        if (!may_push(track) || !claim(follow, track, elsewhere, &sample))
            continue;
        *push = (struct follow_push){
            .epoch = track->epoch,
            .position = track->next - 1,
            .sample = sample,
            .distrust = track->next <= track->distrust,
            .fields = track->fields,
        };
        follow->turn = at + 1;
        if (track->next == track->plan.length && track->reading && !track->has_heir)
            warm_next_epoch(follow, track);
        return true;
    }
    return false;
}

static bool wants_names(const struct track *track)
{
    return track->folder && track->naming == track->named && track->named < track->plan.length &&
           track->named + NAMES_AT_ONCE <= track->next + NAMES_AHEAD &&
           (is_unmet(track) || trust_to_look(track));
}

bool follow_has_push(const struct follow *follow)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (may_push(&follow->tracks[i]))
            return true;
    return false;
}

bool follow_has_names(const struct follow *follow)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (wants_names(&follow->tracks[i]))
            return true;
    return false;
}

bool follow_next_names(struct follow *follow, struct follow_names *names)
{
    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        uint64_t start;
        if (!wants_names(track))
            continue;
        start = track->named > track->head ? track->named : track->head;
        track->naming = least(start + NAMES_AT_ONCE, track->plan.length);
        *names = (struct follow_names){
            i, track->serial, track->folder, track->epoch, start, track->naming, ""};
        memcpy(names->path, track->path, sizeof names->path);
        return true;
    }
    return false;
}

void follow_named(struct follow *follow, const struct follow_names *names, uint64_t folder,
                  uint64_t end)
{
    struct track *track = &follow->tracks[names->track];

    if (track->serial != names->serial)
        return;
    if (track->folder == TRACK_FOLDER_UNKNOWN && end > names->start)
        track->folder = folder;
    /* A failure leaves naming ahead of named: it is not tried again. */
    if (end >= names->end) {
        if (track->named < end)
            track->named = end;
        track->naming = track->named;
    }
}

bool follow_next_probe(struct follow *follow, uint64_t *sample)
{
    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        struct order *order;
        if (!track->folder || track->probe == UINT64_MAX ||
            !(order = epochs_get(follow->epochs, track->epoch)))
            continue;
        *sample = order_sample(order, plan_global(&track->plan, track->probe));
        epochs_put(follow->epochs, order);
        track->probed = *sample;
        track->probe = UINT64_MAX;
        return true;
    }
    return false;
}

bool follow_next_repeat(struct follow *follow, char path[TRACK_PATH], uint64_t *epoch)
{
    if (!follow->to_tell)
        return false;
    memcpy(path, follow->to_tell->path, TRACK_PATH);
    *epoch = follow->to_tell->epoch;
    follow->to_tell = NULL;
    return true;
}

void follow_at(struct follow *follow, uint64_t now, bool slow)
{
    follow->now = now;
    follow->slow = slow;
}

static void describe(const struct track *track, uint64_t now, struct follow_reader *reader)
{
    *reader = (struct follow_reader){
        .epoch = track->epoch,
        .rank = track->plan.rank,
        .world = track->plan.world,
        .position = track->head,
        .length = track->plan.length,
        .pace = pace_at(&track->pace, now),
        .idle_ns = now - track->pace.met,
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

struct follow_figures follow_figures(const struct follow *follow)
{
    return (struct follow_figures){
        .ahead = follow->total,
        .hits = follow->hits,
        .lost = follow->lost,
        .repeated = follow->repeated,
    };
}
