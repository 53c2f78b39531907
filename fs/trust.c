/* Who reads in order. Owns nothing. */
#include "trust.h"

/* A reader that passed so many marks one after the other is trusted. */
#define MARKS_ENOUGH 2
/* The most positions pushed ahead of one that passed none; times 4 for each mark. More than the way
 * to the first mark: on it, nothing is seen of a reader who finds all that was pushed. */
#define WINDOW_UNMARKED (TRACK_MARK_EVERY * 3 / 2)
/* Events that a reader who passed no marks may be away for. */
#define AWAY_MOST 512
/* READs before there is trust: of one that began at the folder's start, of others, of workers that
 * read side by side. */
#define READS_AT_START 2
#define READS_ANYWHERE 4
#define READS_BESIDE   12
/* LOOKUPs in order before names are looked up. */
#define LOOKS_ENOUGH 4
/* Steps that tell order from none. By chance, as many more of them go on than back once in a
 * hundred times; of workers that read batches side by side, two of three do. */
#define STEPS_ENOUGH 8

static bool passed_marks(const struct track *track)
{
    return track->marks >= MARKS_ENOUGH;
}

void trust_after(struct track *track, uint64_t events, uint64_t position)
{
    if (events <= AWAY_MOST || passed_marks(track))
        return;
    track->begun = position;
    track->reads = 0;
    track->looks = 0;
    track->steps = track->steps > 0;
    track->marks = 0;
    track->trusted = false;
}

void trust_shaken(struct track *track)
{
    track->steps -= track->steps > 1;
    if (!passed_marks(track))
        track->trusted = false;
}

static void pass_mark(struct track *track, uint64_t position)
{
    if (position == track->mark + TRACK_MARK_EVERY)
        track->marks++;
    else if (position > track->mark + 2 * TRACK_NEAR || position + 2 * TRACK_NEAR < track->mark)
        track->marks = 0;
    else if (position <= track->mark)
        return; /* workers that read side by side */
    track->mark = position;
}

void trust_met(struct track *track, uint64_t position, bool read)
{
    uint64_t span = track->head - track->begun + 1;

    track->reads += read && position >= track->begun;
    track->looks += !read && position >= track->begun;
    if (!read && position % TRACK_MARK_EVERY == 0)
        pass_mark(track, position);
    track->trusted = track->trusted || passed_marks(track) ||
                     (track->reads >= (track->begun == 0 ? READS_AT_START : READS_ANYWHERE) &&
                      track->reads * 2 >= span) ||
                     (track->reads >= READS_BESIDE && track->reads * 8 >= span);
}

void trust_step(struct track *track, uint64_t position)
{
    struct track_steps *order = &track->order;
    bool wide = track->plan.length > TRACK_MARK_EVERY;
    bool on = position > order->last, back = position < order->last;

    if (wide) {
        /* What workers read side by side is near, and what was claimed is passed unseen. */
        bool far_on = position > order->last + TRACK_SLACK && position > track->next + TRACK_SLACK;
        back = far_on || position + TRACK_SLACK < order->last;
        on = on && !far_on;
    }
    order->ups += order->reads && on;
    order->downs += order->reads && back;
    order->last = position;
    order->reads++;
}

bool trust_in_order(const struct track_steps *order)
{
    uint64_t steps = order->ups + order->downs;
    uint64_t more = order->ups > order->downs ? order->ups - order->downs : 0;

    return order->downs == 0 || (steps >= STEPS_ENOUGH && more * more >= 2 * steps);
}

bool trust_in_no_order(const struct track_steps *order)
{
    return order->ups + order->downs >= STEPS_ENOUGH && !trust_in_order(order);
}

bool trust_passed_all(const struct track *track)
{
    if (track->order.reads == 0 || track->order.downs || passed_marks(track))
        return trust_in_order(&track->order);
    return (track->order.reads + track->claimed) * 4 >= track->plan.length;
}

bool trust_to_look(const struct track *track)
{
    return track->trusted ||
           (track->looks >= LOOKS_ENOUGH && track->looks * 2 >= track->head - track->begun + 1);
}

uint64_t trust_window(const struct track *track)
{
    return track->marks < 7 ? (uint64_t)WINDOW_UNMARKED << 2 * track->marks : TRUST_WINDOW_MOST;
}
