/* Who reads what: arithmetic over an order's places. Owns nothing, allocates nothing. */
#include "plan.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

static const char *const names[] = {"pad", "drop", "keep"};

const char *plan_remainder_name(enum plan_remainder remainder)
{
    return names[remainder];
}

bool plan_remainder_from(const char *name, enum plan_remainder *remainder)
{
    if (strcmp(name, "drop_last") == 0) {
        *remainder = PLAN_DROP;
        return true;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *remainder = (enum plan_remainder)i;
            return true;
        }
    }
    return false;
}

/* Places that a window has beyond its first. */
static uint64_t overlap(const struct plan_deal *deal)
{
    return deal->runs && deal->window ? deal->window - 1 : 0;
}

/* What is dealt: places, or windows of them. */
static uint64_t dealt(uint64_t places, const struct plan_deal *deal)
{
    return places - overlap(deal);
}

static uint64_t run_start(uint64_t units, uint64_t rank, uint64_t world)
{
    return (uint64_t)((wide)units * rank / world);
}

/* How much of what is dealt a rank gets. */
static uint64_t units_of(uint64_t units, uint64_t rank, uint64_t world,
                         const struct plan_deal *deal)
{
    uint64_t even = units / world, left = units % world;

    switch (deal->remainder) {
    case PLAN_PAD:
        return even + (left != 0);
    case PLAN_DROP:
        return even;
    default:
        return deal->runs ? run_start(units, rank + 1, world) - run_start(units, rank, world)
                          : even + (rank < left);
    }
}

/* The positions of a part: whole rounds of a run for each part, and what the last round has. */
static uint64_t part_length(const struct plan_share *share, uint64_t length)
{
    uint64_t round = share->parts * share->run, rest = length % round;
    uint64_t before = share->part * share->run;
    uint64_t last = rest > before ? rest - before : 0;

    return length / round * share->run + (last < share->run ? last : share->run);
}

static bool is_share(const struct plan_share *share)
{
    if (share->world == 0 || share->world > PLAN_WORLD_MAX || share->rank >= share->world)
        return false;
    return share->parts == 0 || (share->parts <= PLAN_PARTS_MAX && share->part < share->parts &&
                                 share->run > 0 && share->run <= PLAN_RUN_MAX);
}

bool plan_open(struct plan *plan, uint64_t places, const struct plan_share *share,
               const struct plan_deal *deal)
{
    uint64_t units;

    if (!is_share(share) || places > ORDER_SAMPLES_MAX || share->after > places ||
        (deal->runs && share->after) || (deal->runs && deal->window > places))
        return false;
    *plan = (struct plan){.share = *share, .deal = *deal, .places = places - share->after};
    units = dealt(plan->places, deal);
    plan->rank_length = units_of(units, share->rank, share->world, deal);
    if (deal->runs && plan->rank_length)
        plan->rank_length += overlap(deal);
    plan->start = deal->runs ? run_start(units, share->rank, share->world) : share->after;
    plan->length = share->parts ? part_length(share, plan->rank_length) : plan->rank_length;
    return true;
}

bool plan_resume(struct plan *resumed, const struct plan *of, uint64_t after)
{
    struct plan_share share = of->share;
    struct plan_deal deal = of->deal;
    uint64_t places = of->places + share.after;

    share.after = after;
    return plan_open(resumed, places, &share, &deal);
}

/* The sums stay below places + world, far under 2^64. Only padding reaches past the places. */
uint64_t plan_global(const struct plan *plan, uint64_t position)
{
    const struct plan_share *share = &plan->share;
    uint64_t place;

    if (share->parts)
        position = (position / share->run * share->parts + share->part) * share->run +
                   position % share->run;
    if (plan->deal.runs)
        return plan->start + position;
    place = share->rank + position * share->world;
    return plan->start + (place < plan->places ? place : (place - plan->places) % plan->places);
}

/* The rank's position that reads `place` of the tail. A rank meets no place twice: padding adds one
 * at the most to a rank, its last, and that repeats a place below `world` of a lower rank; and
 * where the world is larger than the tail, a rank has that one place alone. */
static bool rank_position_of(const struct plan *plan, uint64_t place, uint64_t *position)
{
    uint64_t rank = plan->share.rank, world = plan->share.world, last = plan->rank_length - 1;
    uint64_t padded = rank + last * world;

    if (place % world == rank && place / world <= last) {
        *position = place / world;
        return true;
    }
    *position = last;
    return padded >= plan->places && (padded - plan->places) % plan->places == place;
}

bool plan_position_of(const struct plan *plan, uint64_t global, uint64_t *position)
{
    const struct plan_share *share = &plan->share;
    uint64_t run;

    if (global < plan->start || plan->rank_length == 0)
        return false;
    if (plan->deal.runs) {
        *position = global - plan->start;
        if (*position >= plan->rank_length)
            return false;
    } else if (global - plan->start >= plan->places ||
               !rank_position_of(plan, global - plan->start, position)) {
        return false;
    }
    if (!share->parts)
        return true;
    run = *position / share->run;
    if (run % share->parts != share->part)
        return false;
    *position = run / share->parts * share->run + *position % share->run;
    return true;
}

bool plan_equals(const struct plan *a, const struct plan *b)
{
    const struct plan_share *x = &a->share, *y = &b->share;

    return x->rank == y->rank && x->world == y->world && x->after == y->after &&
           x->parts == y->parts && (!x->parts || (x->part == y->part && x->run == y->run)) &&
           a->places == b->places && a->deal.remainder == b->deal.remainder &&
           a->deal.runs == b->deal.runs && a->deal.window == b->deal.window;
}

uint64_t plan_padding(uint64_t places, uint64_t world, const struct plan_deal *deal)
{
    uint64_t units = dealt(places, deal), left = units % world;
    uint64_t all = deal->remainder == PLAN_PAD && left ? units + world - left
                   : deal->remainder == PLAN_DROP      ? units - left
                                                       : units;
    uint64_t readers = all < world ? all : world;

    return all + readers * overlap(deal) - (places - plan_dropped(places, world, deal));
}

/* Of windows, only the last one's last place is in no other. */
uint64_t plan_dropped(uint64_t places, uint64_t world, const struct plan_deal *deal)
{
    uint64_t units = dealt(places, deal), left = units % world;

    if (deal->remainder != PLAN_DROP || left == 0)
        return 0;
    if (units < world)
        return places;
    return overlap(deal) ? 1 : left;
}
