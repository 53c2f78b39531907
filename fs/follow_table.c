/* The table of readers that are followed. Owns nothing. */
#include "follow_state.h"

#include <stdio.h>
#include <string.h>

void follow_release(struct follow *follow, struct track *track)
{
    if (follow->to_tell == track)
        follow->to_tell = NULL;
    track_release(track, &follow->total);
}

bool follow_is_near(const struct track *track, uint64_t position)
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
struct track *follow_find(struct follow *follow, uint64_t folder, uint64_t position)
{
    struct track *best = NULL;

    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        if (track->folder == folder && follow_is_near(track, position) &&
            (!best || unlikely(track, position) < unlikely(best, position)))
            best = track;
    }
    return best;
}

struct track *follow_find_serial(struct follow *follow, uint64_t serial)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (follow->tracks[i].folder && follow->tracks[i].serial == serial)
            return &follow->tracks[i];
    return NULL;
}

bool follow_is_unmet(const struct track *track)
{
    return track->warming && !track->steps;
}

static bool is_of(const struct track *track, uint64_t epoch, const struct plan *plan)
{
    return track->folder && track->epoch == epoch && plan_equals(&track->plan, plan);
}

/* What warms this part of this epoch and was not met by a reader; NULL: nothing does. */
struct track *follow_find_warming(struct follow *follow, uint64_t epoch, const struct plan *plan)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (is_of(&follow->tracks[i], epoch, plan) && follow_is_unmet(&follow->tracks[i]))
            return &follow->tracks[i];
    return NULL;
}

/* The reader that was near this place of the same path before the kernel forgot the folder's inode
 * and got another; NULL: none was. */
static struct track *find_path(struct follow *follow, const char *path, uint64_t epoch,
                               const struct plan *plan, uint64_t position)
{
    for (unsigned i = 0; i < TRACKS; i++)
        if (is_of(&follow->tracks[i], epoch, plan) &&
            follow_is_near(&follow->tracks[i], position) &&
            strcmp(follow->tracks[i].path, path) == 0)
            return &follow->tracks[i];
    return NULL;
}

bool follow_is_away(const struct follow *follow, const struct track *track)
{
    return follow->now > track->pace.met && follow->now - track->pace.met > PACE_PAUSE_NS;
}

/* One of those that nobody trusts, by chance: of more readers than places that come in turn, the
 * one not met for longest would always be the one that comes next. */
static struct track *choose_untrusted(struct follow *follow)
{
    struct track *chosen = NULL;
    unsigned count = 0;

    for (unsigned i = 0; i < TRACKS; i++) {
        if (follow->tracks[i].trusted)
            continue;
        follow->chance = follow->chance * 6364136223846793005u + 1442695040888963407u;
        if ((follow->chance >> 33) % ++count == 0)
            chosen = &follow->tracks[i];
    }
    /* One that came on, if not for long: it may have been a reader. */
    follow->crowded += chosen && chosen->reads > 1 &&
                       chosen->reads * 2 >= chosen->head - chosen->begun + 1;
    return chosen;
}

/* A free place, or one that may be taken. NULL: there is none. */
static struct track *find_place(struct follow *follow)
{
    struct track *oldest = NULL;

    for (unsigned i = 0; i < TRACKS; i++) {
        struct track *track = &follow->tracks[i];
        if (!track->folder)
            return track;
        if (follow_is_away(follow, track) && (!oldest || track->used < oldest->used))
            oldest = track;
    }
    return oldest ? oldest : choose_untrusted(follow);
}

static struct track *begin(struct follow *follow, const char *path, uint64_t epoch,
                           const struct plan *plan)
{
    struct track *track = find_place(follow);

    if (!track) {
        follow->crowded++;
        return NULL;
    }
    follow_release(follow, track);
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
struct track *follow_start(struct follow *follow, const struct view_node *folder, uint64_t position)
{
    struct track *track = follow_find_warming(follow, folder->epoch, &folder->plan);
    char path[TRACK_PATH];

    folder_path(folder, path);
    if (track && follow_is_near(track, position)) {
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
        if (!track)
            return NULL;
        track->head = track->next = track->named = track->naming = track->begun = position;
        track->fields = follow->fields;
    }
    track->folder = folder->inode;
    return track;
}

/* Warms an epoch's start; what does so already, for another folder, is asked to do it here. */
struct track *follow_start_warming(struct follow *follow, const char *path, uint64_t epoch,
                                   const struct plan *plan, uint64_t fields)
{
    struct track *track = follow_find_warming(follow, epoch, plan);

    if (track) {
        track->folder = TRACK_FOLDER_UNKNOWN;
        track->serial = ++follow->serials;
        track->named = track->naming = 0;
        snprintf(track->path, sizeof track->path, "%s", path);
        return track;
    }
    track = begin(follow, path, epoch, plan);
    if (!track)
        return NULL;
    track->warming = track->awaited = true;
    track->trusted = true;
    track->window = WINDOW_MOST;
    track->fields = fields;
    return track;
}
