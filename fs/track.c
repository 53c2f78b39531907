/* Where a reader is, and what is ahead of it. Owns nothing. */
#include "track.h"

/* Positions that are looked at in haste, from where a reader is on. */
#define NEXT_FEW 4

uint64_t track_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t track_field_bit(uint16_t field)
{
    return (uint64_t)1 << track_least(field, 62);
}

uint64_t track_bytes_at(const struct track *track, const struct index *index,
                        const struct order *order, uint64_t position)
{
    uint64_t sample = order_sample(order, plan_global(&track->plan, position)), bytes = 0;

    for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++)
        if (track->fields & track_field_bit((uint16_t)index->members[m].field))
            bytes += index->members[m].size;
    return bytes;
}

static void add_bytes(struct track *track, uint64_t bytes, uint64_t *total)
{
    track->bytes += bytes;
    *total += bytes;
}

static void take_bytes(struct track *track, uint64_t bytes, uint64_t *total)
{
    bytes = track_least(bytes, track->bytes);
    track->bytes -= bytes;
    *total -= track_least(bytes, *total);
}

void track_give_back(struct track *track, uint64_t *total)
{
    take_bytes(track, track->bytes, total);
    track->next = track->head;
    track->gave_back = true;
}

void track_release(struct track *track, uint64_t *total)
{
    take_bytes(track, track->bytes, total);
    *track = (struct track){0};
}

void track_move_next(struct track *track, const struct index *index, const struct order *order,
                     uint64_t position, uint64_t *total)
{
    position = track_least(position, track->plan.length);
    for (; track->next < position; track->next++)
        add_bytes(track, track_bytes_at(track, index, order, track->next), total);
    for (; track->next > position; track->next--)
        take_bytes(track, track_bytes_at(track, index, order, track->next - 1), total);
}

void track_move_head(struct track *track, const struct index *index, const struct order *order,
                     uint64_t position, uint64_t *total)
{
    uint64_t fields = (uint64_t)__builtin_popcountll(track->fields), passed = 0;

    for (uint64_t p = track->head; p < track_least(position, track->next); p++)
        passed += track_bytes_at(track, index, order, p);
    take_bytes(track, passed, total);
    if (track->trusted)
        pace_pass(&track->pace, position - track->head,
                  (position - track->head) * (fields ? fields : 1), passed);
    track->head = position;
    if (track->next < position)
        track->next = position;
}

void track_add_field(struct track *track, const struct index *index, const struct order *order,
                     uint64_t bit, uint64_t *total)
{
    if (track->fields & bit)
        return;
    take_bytes(track, track->bytes, total);
    track->fields |= bit;
    for (uint64_t p = track->head; p < track->next; p++)
        add_bytes(track, track_bytes_at(track, index, order, p), total);
}

/* The position in [from, end) that shows this sample. */
static bool locate(const struct track *track, const struct order *order, uint64_t sample,
                   uint64_t from, uint64_t end, uint64_t *position)
{
    end = track_least(end, track->plan.length);
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
    uint64_t border = track->next > track->head + TRACK_SLACK ? track->next - TRACK_SLACK
                                                              : track->head;

    return locate(track, order, sample, border, track->next + track->gap + TRACK_SLACK, position) ||
           locate(track, order, sample, track->head, track_least(track->head + TRACK_SLACK, border),
                  position);
}

/* One of the very next: so few are looked at in a moment. */
static bool locate_next(const struct track *track, const struct order *order, uint64_t sample,
                        uint64_t *position)
{
    return locate(track, order, sample, track->head, track->head + NEXT_FEW, position);
}

/* Anywhere near. */
static bool locate_near(const struct track *track, const struct order *order, uint64_t sample,
                        uint64_t *position)
{
    return locate(track, order, sample, track->head > TRACK_NEAR ? track->head - TRACK_NEAR : 0,
                  track->next + TRACK_NEAR, position);
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

typedef bool locator(const struct track *track, const struct order *order, uint64_t sample,
                     uint64_t *position);

/* Epochs whose order is not at hand are passed over: nobody looks at them, and to work out the
 * orders of all epochs that were ever read here would take a second for each READ.
 *
 * The track in which `where` finds the sample closest to the reader or to what was claimed; of
 * those met `steps` times or more. */
static struct track *find_closest(struct track *tracks, size_t count, struct epochs *epochs,
                                  uint64_t sample, locator *where, unsigned steps, bool trusted,
                                  uint64_t *position)
{
    struct track *best = NULL;
    uint64_t best_away = UINT64_MAX;

    for (size_t i = 0; i < count; i++) {
        struct track *track = &tracks[i];
        struct order *order;
        uint64_t at, away;
        /* What only warms an epoch that nobody looked at yet has no reader. */
        if (!track->folder || track->folder == TRACK_FOLDER_UNKNOWN || track->steps < steps ||
            (trusted && !track->trusted) || !(order = epochs_peek(epochs, track->epoch)))
            continue;
        if (where(track, order, sample, &at)) {
            away = track_least(distance(at, track->head), distance(at, track->next));
            if (!best || away < best_away || (away == best_away && track->used > best->used)) {
                best = track;
                best_away = away;
                *position = at;
            }
        }
        epochs_put(epochs, order);
    }
    return best;
}

/* Most reads are where they are expected; the long search is for readers that were met before
 * alone, as it takes 10 us each. */
struct track *track_recognise(struct track *tracks, size_t count, struct epochs *epochs,
                              uint64_t sample, bool hasty, uint64_t *position)
{
    struct track *track = find_closest(tracks, count, epochs, sample, locate_expected, 0, hasty,
                                       position);

    if (!track && hasty)
        track = find_closest(tracks, count, epochs, sample, locate_next, 0, false, position);
    if (!track)
        track = find_closest(tracks, count, epochs, sample, locate_near, 1, hasty, position);
    return track;
}
