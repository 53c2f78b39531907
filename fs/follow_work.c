/* What there is to do for the readers that are followed: what to push, to look up, to probe, to
 * tell of. Owns nothing. */
#include "follow_state.h"

#include <stdio.h>
#include <string.h>

/* Names looked up at once, and how far ahead of the pushes. */
#define NAMES_AT_ONCE 2048
#define NAMES_AHEAD   4096

/* All of this epoch is claimed: the next one's turn, in its own folder, as `current` still shows
 * this one. */
static void warm_next_epoch(struct follow *follow, struct track *track)
{
    char path[TRACK_PATH];
    const char *slash = strchr(track->path, '/');
    struct track *heir;
    struct plan plan;
    size_t length;

    track->has_heir = true;
    if (!slash || track->epoch >= ORDER_EPOCH_MAX || !plan_resume(&plan, &track->plan, 0) ||
        follow_find_warming(follow, track->epoch + 1, &plan))
        return;
    length = (size_t)snprintf(path, sizeof path, "epoch-%llu/",
                              (unsigned long long)track->epoch + 1);
    grammar_resumed_name(slash + 1, 0, path + length, sizeof path - length);
    heir = follow_start_warming(follow, path, track->epoch + 1, &plan, track->fields);
    if (heir)
        heir->elder = track->serial;
}

static bool may_push(const struct track *track)
{
    return track->folder && !track->gave_back && track->next < track->plan.length &&
           track->next < track->named && track->next <= track->head + track->window &&
           (follow_is_unmet(track) || (track->reading && track->trusted));
}

/* Whether the bytes of the next position still fit; one always does, however large. An epoch that
 * is warmed shares its bound with the one before it. */
static bool has_room(struct follow *follow, const struct track *track, uint64_t bytes,
                     uint64_t elsewhere)
{
    const struct track *elder = track->elder ? follow_find_serial(follow, track->elder) : NULL;
    uint64_t shared = elder ? elder->bytes : 0;

    if (track->bytes == 0)
        return true;
    if (track->bytes + shared + bytes > track->limit)
        return false;
    if (follow->total + elsewhere + bytes > follow->total_bytes)
        follow->is_short = true;
    return follow->total + elsewhere + bytes <= follow->total_bytes;
}

/* An epoch's order that is not at hand is one that nobody looks at now: it is worked out here only
 * for one that is being warmed. */
static bool claim(struct follow *follow, struct track *track, uint64_t elsewhere, uint64_t *sample)
{
    struct order *order = follow_is_unmet(track) ? epochs_get(follow->epochs, track->epoch)
                                                 : epochs_peek(follow->epochs, track->epoch);
    bool room;

    if (!order)
        return false;
    room = has_room(follow, track, track_bytes_at(track, follow->index, order, track->next),
                    elsewhere);
    *sample = order_sample(order, plan_global(&track->plan, track->next));
    if (room) {
        track_move_next(track, follow->index, order, track->next + 1, &follow->total);
        track->claimed++;
    }
    epochs_put(follow->epochs, order);
    return room;
}

bool follow_is_short(const struct follow *follow)
{
    return follow->is_short;
}

bool follow_give_back(struct follow *follow)
{
    struct track *oldest = NULL;

    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        if (track->folder && track->bytes && follow_is_away(follow, track) &&
            (!oldest || track->pace.met < oldest->pace.met))
            oldest = track;
    }
    if (oldest)
        track_give_back(oldest, &follow->total);
    return oldest != NULL;
}

bool follow_next_push(struct follow *follow, uint64_t elsewhere, struct follow_push *push)
{
    follow->is_short = false;
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
           (follow_is_unmet(track) || trust_to_look(track));
}

bool follow_has_push(const struct follow *follow)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (may_push(&follow->tracks[i]) ||
            (follow->tracks[i].folder && follow->tracks[i].probe != UINT64_MAX))
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

/* Where a reader's names are looked up. One of rank-R.classes has its own by then, as each is in
 * some class's folder; what a push needs is any name of the file, and those of rank-R stand side by
 * side. */
static void find_names(const struct track *track, struct follow_names *names)
{
    static const char suffix[] = ".classes";
    size_t length = strlen(track->path), last = sizeof suffix - 1;

    memcpy(names->path, track->path, sizeof names->path);
    if (length < last || strcmp(track->path + length - last, suffix) != 0)
        return;
    names->folder = TRACK_FOLDER_UNKNOWN;
    names->path[length - last] = '\0';
}

bool follow_next_names(struct follow *follow, struct follow_names *names)
{
    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        uint64_t start;
        if (!wants_names(track))
            continue;
        start = track->named > track->head ? track->named : track->head;
        track->naming = track_least(start + NAMES_AT_ONCE, track->plan.length);
        *names = (struct follow_names){
            .track = i,
            .serial = track->serial,
            .folder = track->folder,
            .epoch = track->epoch,
            .after = track->plan.share.after,
            .start = start,
            .end = track->naming,
        };
        find_names(track, names);
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
        follow->probed[follow->probed_count++ % PROBED_KEPT] = *sample;
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
