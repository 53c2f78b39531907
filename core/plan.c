/* Who reads what: arithmetic over an order. Owns nothing, allocates nothing. */
#include "plan.h"

#include <string.h>

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

bool plan_open(struct plan *plan, uint64_t samples, uint64_t rank, uint64_t world,
               enum plan_remainder remainder)
{
    uint64_t even, left;

    if (world == 0 || world > PLAN_WORLD_MAX || rank >= world || samples > ORDER_SAMPLES_MAX)
        return false;
    even = samples / world;
    left = samples % world;
    *plan = (struct plan){.samples = samples, .rank = rank, .world = world, .remainder = remainder};
    switch (remainder) {
    case PLAN_PAD:
        plan->length = even + (left != 0);
        break;
    case PLAN_DROP:
        plan->length = even;
        break;
    case PLAN_KEEP:
        plan->length = even + (rank < left);
        break;
    }
    return true;
}

/* The sum stays below samples + world, far under 2^64. Only padding reaches past the samples. */
uint64_t plan_global(const struct plan *plan, uint64_t position)
{
    uint64_t place = plan->rank + position * plan->world;
    return place < plan->samples ? place : (place - plan->samples) % plan->samples;
}

/* A rank meets no sample twice: padding adds one place at the most to a rank, its last, and that
 * repeats a place below `world` of a lower rank; and where the world is larger than the data set, a
 * rank has that one place alone. */
bool plan_position_of(const struct plan *plan, uint64_t global, uint64_t *position)
{
    if (plan->length == 0)
        return false;
    if (global % plan->world == plan->rank && global / plan->world < plan->length) {
        *position = global / plan->world;
        return true;
    }
    *position = plan->length - 1;
    return plan_global(plan, *position) == global;
}

uint64_t plan_padding(uint64_t samples, uint64_t world, enum plan_remainder remainder)
{
    uint64_t left = samples % world;
    return remainder == PLAN_PAD && left ? world - left : 0;
}

uint64_t plan_dropped(uint64_t samples, uint64_t world, enum plan_remainder remainder)
{
    return remainder == PLAN_DROP ? samples % world : 0;
}
