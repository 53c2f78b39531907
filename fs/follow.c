/* Follows readers. Owns the tracks; never reads a byte of a shard. */
#include "follow_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads that fit no track before windows start anew. */
#define STRANGERS_MOST 16
#define DOUBTS         4
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
    follow->loose_sample = UINT64_MAX;
    pace_begin(&follow->loose, 0);
    *out = follow;
    return 0;
}

void follow_close(struct follow *follow)
{
    free(follow);
}

/* Passes: see fs/passes.h. */

static struct epochs_at at_of(const struct track *track)
{
    return (struct epochs_at){.epoch = track->epoch, .after = track->plan.share.after};
}

static void count_repetition(struct follow *follow, struct track *track)
{
    if (!track->again || track->counted || follow->may_repeat || !trust_in_order(&track->order) ||
        passes_have_no_order(&follow->passes, track->path, at_of(track)))
        return;
    track->counted = true;
    follow->repeated++;
    if (passes_repeat(&follow->passes, track->path, at_of(track)))
        follow->to_tell = track;
}

/* Whether this was read to its end before is asked once for each field. */
static void note_field(struct follow *follow, struct track *track, uint64_t position,
                       uint64_t field)
{
    if (track->met & field)
        return;
    track->met |= field;
    if (track->begun < FOLLOW_MARK_EVERY && position < FOLLOW_MARK_EVERY &&
        passes_are_finished(&follow->passes, track->path, at_of(track), field))
        track->again = true;
}

/* Who shows in the marks alone has all in the page cache, or only looks at names. The start of an
 * epoch that was warmed is let pass. */
static void probe(struct track *track, uint64_t position)
{
    bool early = position < FOLLOW_MARK_EVERY && track->plan.length > FOLLOW_MARK_EVERY;

    if (!track->reading && (track->again || !early) && track->probe == UINT64_MAX &&
        track->probes < PROBES_MOST) {
        track->probe = track_least(position + PROBES_AHEAD, track->plan.length - 1);
        track->probes++;
    }
}

static void note_pass(struct follow *follow, struct track *track, uint64_t position, uint64_t field)
{
    if (track->unsure)
        return;
    note_field(follow, track, position, field);
    if (!follow->may_repeat)
        probe(track, position);
    if (!track->reading)
        return;
    if (trust_in_no_order(&track->order))
        passes_no_order(&follow->passes, track->path, at_of(track));
    count_repetition(follow, track);
    if (position + 1 == track->plan.length && track->begun < FOLLOW_MARK_EVERY &&
        trust_passed_all(track))
        passes_finish(&follow->passes, track->path, at_of(track), field);
}

/* The first position that is not left to a reader who is at `position` and faster than the pushes.
 * What it is left counts as ahead of it, so it must leave room for pushes. */
static uint64_t past_gap(const struct follow *follow, const struct track *track,
                         const struct order *order, uint64_t position)
{
    uint64_t end = track_least(position + 1 + track->gap, track->plan.length);
    uint64_t room = track->limit / 4, bytes = 0, p = position + 1;

    for (; p < end; p++) {
        bytes += track_bytes_at(track, follow->index, order, p);
        if (bytes > room || follow->total + bytes > follow->total_bytes)
            break;
    }
    return p;
}

/* Events since the track was met, a reader: among many readers each is met less often. */
static uint64_t events_since(const struct follow *follow, const struct track *track)
{
    uint64_t trusted = 1;

    for (unsigned i = 0; i < TRACKS; i++)
        trusted += follow->tracks[i].folder && follow->tracks[i].trusted;
    return (follow->events - track->used) / trusted;
}

/* The reader came to the epoch that was warmed for it, so it is done with the one before. */
static void end_elder(struct follow *follow, const struct track *track)
{
    struct track *elder = track->elder ? follow_find_serial(follow, track->elder) : NULL;

    if (elder)
        track_give_back(elder, &follow->total);
}

/* The reader was met at `position`. Where it was expected, trust in it grows; further on, it
 * shrinks; a little behind says nothing, for workers read side by side. */
static void meet(struct follow *follow, struct track *track, const struct order *order,
                 uint64_t position, uint64_t field, bool read)
{
    /* Of a reader that only the marks show, the next mark is expected. */
    uint64_t slack = read ? TRACK_SLACK : FOLLOW_MARK_EVERY;
    bool expected = position <= track->next + track->gap + slack;
    uint64_t files = track->pace.sums.files;

    if (follow_is_unmet(track))
        end_elder(follow, track);
    else
        trust_after(track, events_since(follow, track), position);
    track->gave_back = false;
    track->used = ++follow->events;
    if (position >= track->head) {
        if (expected) {
            track->steps++;
            track->window = track_least(track->window * WINDOW_GROWTH, trust_window(track));
            track->limit = track_least(track->limit + track->limit / 64, follow->reader_bytes);
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
    note_pass(follow, track, position, field);
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
        track->gap = track_least(track->gap * 2 + 1, GAP_MOST);
    if (track->next < position + 1 + track->gap)
        track_move_next(track, follow->index, order, past_gap(follow, track, order, position),
                        &follow->total);
}

void follow_listed(struct follow *follow, const struct view_node *folder, uint64_t end)
{
    struct track *track = follow_find(follow, folder->inode, 0);

    if (!track)
        track = follow_start(follow, folder, 0);
    if (!track)
        return;
    track->used = ++follow->events;
    if (track->named < end)
        track->named = end;
    if (track->naming < end)
        track->naming = end;
}

/* From the end to the start, that is another pass, however short the way: who came to the end is
 * followed no more. Returns how it was read. */
static struct track_steps end_passes(struct follow *follow, uint64_t folder)
{
    struct track_steps order = {0};

    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        if (track->folder == folder && track->head > 0 && track->head + 1 == track->plan.length) {
            order = track->order;
            follow_release(follow, track);
        }
    }
    order.last = 0; /* the way back is no step */
    return order;
}

/* See fs/classes.h. */
static bool is_unsure(const struct view_node *folder)
{
    return folder->kind == VIEW_CLASSES && !shelf_is_in_order(folder->shelf);
}

void follow_looked(struct follow *follow, const struct view_node *folder, uint64_t position,
                   uint64_t field)
{
    struct track *track = follow_find(follow, folder->inode, position);
    struct track_steps before = {0};
    struct order *order;

    if (position == 0) {
        before = end_passes(follow, folder->inode);
        track = follow_find(follow, folder->inode, position);
    }
    if (!track) {
        track = follow_start(follow, folder, position);
        if (track) {
            track->awaited = false;
            track->unsure = is_unsure(folder);
            track->order = before;
            note_pass(follow, track, position, field);
        }
        return;
    }
    track->awaited = false;
    track->unsure = is_unsure(folder);
    order = epochs_get(follow->epochs, track->epoch);
    if (!order)
        return;
    meet(follow, track, order, position, field, false);
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
        if (!follow_is_unmet(&follow->tracks[i]))
            trust_shaken(&follow->tracks[i]);
}

/* Its pages were dropped on purpose, for this reader or one before. */
static bool was_probed(const struct follow *follow, uint64_t sample)
{
    for (unsigned i = 0; i < PROBED_KEPT && i < follow->probed_count; i++)
        if (follow->probed[i] == sample)
            return true;
    return false;
}

/* One such read may have been on its way when the file was pushed. Several in a row: the kernel
 * dropped pages that were counted on, and what is ahead may be gone too. */
static void doubt(struct follow *follow, struct track *track, const struct order *order,
                  uint64_t position, uint64_t sample, bool again)
{
    if (again && was_probed(follow, sample))
        return;
    follow->lost += again && track->claimed; /* else nothing was pushed that could be lost */
    track->doubts = again ? track->doubts + 1 : 0;
    if (track->doubts < DOUBTS)
        return;
    track->doubts = 0;
    track->distrust = position + TRACK_NEAR;
    track->limit = track->limit / 2 > LIMIT_LEAST ? track->limit / 2 : LIMIT_LEAST;
    if (track->next > position + 1 + track->gap)
        track_move_next(track, follow->index, order, position + 1 + track->gap, &follow->total);
}

/* A READ of a file. */
struct seen {
    uint64_t sample, field, member, bytes, took;
    bool again;
};

/* What a reader in order asked for it also passes, which is counted then. */
static void count_read(struct follow *follow, struct track *track, uint64_t position,
                       const struct seen *seen)
{
    track->pace.sums.missed++;
    track->pace.sums.waited_ns += seen->took;
    if (track->trusted)
        follow->hits -= follow->hits > 0;
    else
        pace_pass(&track->pace, position != track->head || track->reads == 0, 1, seen->bytes);
}

/* Readers in no order are met by chance only; what they read is counted whole. */
static void count_loose(struct follow *follow, const struct seen *seen)
{
    pace_pass(&follow->loose, follow->loose_sample != seen->sample, 1, seen->bytes);
    follow->loose.sums.waited_ns += seen->took;
    follow->loose_sample = seen->sample;
    pace_meet(&follow->loose, follow->now);
}

static void read_sample(struct follow *follow, const struct seen *seen)
{
    uint64_t position = 0;
    bool hasty = follow->noise >= NOISE_MOST && ++follow->events % NOISE_SAMPLED;
    struct track *track = track_recognise(follow->tracks, TRACKS, follow->epochs, seen->sample,
                                          hasty, &position);
    struct order *order = track ? epochs_get(follow->epochs, track->epoch) : NULL;

    if (!track || !track->trusted)
        count_loose(follow, seen);
    if (track && track->trusted)
        follow->noise -= follow->noise < 4 ? follow->noise : 4;
    else if (follow->noise < 2 * NOISE_MOST)
        follow->noise++;
    if (!order) {
        calm_down(follow);
        return;
    }
    track->member = seen->member;
    count_read(follow, track, position, seen);
    track_add_field(track, follow->index, order, seen->field, &follow->total);
    if (!was_probed(follow, seen->sample))
        trust_step(track, position);
    follow->fields = track->fields;
    meet(follow, track, order, position, seen->field, true);
    doubt(follow, track, order, position, seen->sample, seen->again);
    epochs_put(follow->epochs, order);
}

void follow_read(struct follow *follow, uint64_t member, bool again, uint64_t took)
{
    const struct index_member *found = &follow->index->members[member];

    read_sample(follow, &(struct seen){.sample = index_sample_of(follow->index, member),
                                       .field = track_field_bit((uint16_t)found->field),
                                       .member = member,
                                       .bytes = found->size,
                                       .took = took,
                                       .again = again});
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
    read_sample(follow, &(struct seen){.sample = sample,
                                       .field = TRACK_FIELD_LABEL,
                                       .member = UINT64_MAX,
                                       .took = took});
}

void follow_left(struct follow *follow, uint64_t folder)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (follow->tracks[i].folder == folder)
            follow_release(follow, &follow->tracks[i]);
}

void follow_warm(struct follow *follow, const char *path, uint64_t epoch, const struct plan *plan)
{
    if (plan->length)
        follow_start_warming(follow, path, epoch, plan, ~(uint64_t)0);
}

bool follow_moved(struct follow *follow, uint64_t folder, struct epochs_at at)
{
    struct track old = {0};
    struct plan plan;

    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        if (track->folder != folder)
            continue;
        if (track->trusted && track->used > old.used)
            old = *track;
        follow_release(follow, track);
    }
    if (!old.folder || !plan_resume(&plan, &old.plan, at.after) || !plan.length)
        return false;
    follow_start_warming(follow, old.path, at.epoch, &plan, old.fields);
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
        .share = track->plan.share,
        .position = track->head,
        .length = track->plan.length,
        .in_order = track->trusted,
        .pace = pace_at(&track->pace, now),
        .idle_ns = now - track->pace.met,
    };
    memcpy(reader->path, track->path, sizeof reader->path);
}

/* Whether there is a better one to show for the same folder. */
static bool is_outdone(const struct follow *follow, const struct track *track)
{
    for (unsigned i = 0; i < TRACKS; i++) {
        const struct track *other = &follow->tracks[i];
        if (other != track && other->folder && other->reading &&
            epochs_are_same(at_of(other), at_of(track)) && strcmp(other->path, track->path) == 0 &&
            (other->trusted || other->used > track->used))
            return true;
    }
    return false;
}

static bool is_shown(const struct follow *follow, const struct track *track)
{
    /* READs of one epoch may happen to fall on the start of the next one, which is being warmed. */
    if (!track->folder || !track->steps || track->awaited)
        return false;
    return track->trusted || (track->reading && !is_outdone(follow, track));
}

static bool is_loose(const struct follow_reader *reader)
{
    return !reader->in_order && reader->idle_ns <= PACE_PAUSE_NS;
}

/* A READ does not tell whose it is: those in no order that are at work share alike what is read so.
 */
static void share_loose(const struct follow *follow, uint64_t now, struct follow_reader *readers,
                        size_t count)
{
    struct pace share = pace_at(&follow->loose, now);
    unsigned sharers = 0;

    for (size_t i = 0; i < count; i++)
        sharers += is_loose(&readers[i]);
    if (sharers == 0)
        return;
    share.samples_per_s /= sharers;
    share.bytes_per_s /= sharers;
    share.wait_share /= sharers;
    share.hit_rate = -1; /* what they find in the page cache does not show */
    for (size_t i = 0; i < count; i++)
        if (is_loose(&readers[i]))
            readers[i].pace = share;
}

size_t follow_readers(const struct follow *follow, uint64_t now, struct follow_reader *readers,
                      size_t room)
{
    const struct track *latest[TRACKS] = {0};
    size_t count = 0;

    for (unsigned i = 0; i < TRACKS; i++) {
        const struct track *track = &follow->tracks[i];
        size_t at = count;
        if (!is_shown(follow, track))
            continue;
        for (; at > 0 && latest[at - 1]->used < track->used; at--)
            latest[at] = latest[at - 1];
        latest[at] = track;
        count++;
    }
    for (size_t i = 0; i < count && i < room; i++)
        describe(latest[i], now, &readers[i]);
    share_loose(follow, now, readers, count < room ? count : room);
    return count < room ? count : room;
}

struct follow_figures follow_figures(const struct follow *follow)
{
    uint64_t ahead = 0;

    for (unsigned i = 0; i < TRACKS; i++)
        ahead += follow->tracks[i].claimed ? follow->tracks[i].bytes : 0;
    return (struct follow_figures){
        .ahead = ahead,
        .hits = follow->hits,
        .lost = follow->lost,
        .repeated = follow->repeated,
        .crowded = follow->crowded,
    };
}
