/* Plans: what each rank gets, by counting on small numbers and by arithmetic on large ones. */
#include "unit.h"

#include "../../core/plan.h"

#include <stdlib.h>
#include <string.h>

static const enum plan_remainder remainders[] = {PLAN_PAD, PLAN_DROP, PLAN_KEEP};

Test(plan, deals_every_sample_as_the_remainder_says)
{
    for (uint64_t n = 1; n <= 40; n++) {
        for (uint64_t world = 1; world <= 45; world++) {
            for (size_t k = 0; k < 3; k++) {
                unsigned seen[40] = {0};
                uint64_t total = 0, twice = 0, never = 0;
                for (uint64_t rank = 0; rank < world; rank++) {
                    struct plan plan;
                    cr_assert(plan_open(&plan, n, rank, world, remainders[k]));
                    total += plan.length;
                    for (uint64_t p = 0; p < plan.length; p++) {
                        uint64_t place = plan_global(&plan, p);
                        cr_assert(place < n);
                        seen[place]++;
                    }
                }
                for (uint64_t i = 0; i < n; i++) {
                    twice += seen[i] > 1 ? seen[i] - 1 : 0;
                    never += seen[i] == 0;
                }
                cr_assert_eq(twice, plan_padding(n, world, remainders[k]));
                cr_assert_eq(never, plan_dropped(n, world, remainders[k]));
                cr_assert_eq(total, n + twice - never);
            }
        }
    }
}

Test(plan, position_of_is_the_inverse_of_global)
{
    for (uint64_t n = 1; n <= 30; n++) {
        for (uint64_t world = 1; world <= 33; world++) {
            for (size_t k = 0; k < 3; k++) {
                for (uint64_t rank = 0; rank < world; rank++) {
                    struct plan plan;
                    uint64_t found = 0, position;
                    cr_assert(plan_open(&plan, n, rank, world, remainders[k]));
                    for (uint64_t p = 0; p < plan.length; p++) {
                        cr_assert(plan_position_of(&plan, plan_global(&plan, p), &position));
                        cr_assert_eq(position, p);
                    }
                    for (uint64_t place = 0; place < n; place++)
                        found += plan_position_of(&plan, place, &position);
                    cr_assert_eq(found, plan.length);
                }
            }
        }
    }
}

/* Beyond 2^32 samples there is no table to count on: the arithmetic alone. */
Test(plan, holds_beyond_two_to_the_32)
{
    static const uint64_t sizes[] = {((uint64_t)1 << 32) + 1, ((uint64_t)1 << 40) + 12345,
                                     ORDER_SAMPLES_MAX};
    static const uint64_t worlds[] = {1, 3, 65536, PLAN_WORLD_MAX};

    for (size_t i = 0; i < 3; i++) {
        for (size_t w = 0; w < 4; w++) {
            uint64_t n = sizes[i], world = worlds[w], left = n % world;
            struct plan plan;
            cr_assert(plan_open(&plan, n, world - 1, world, PLAN_PAD));
            cr_assert_eq(plan.length, n / world + (left != 0));
            cr_assert_eq(plan_global(&plan, 0), world - 1);
            cr_assert_eq(plan_global(&plan, plan.length - 1), left ? world - 1 - left : n - 1);
            uint64_t position;
            cr_assert(plan_position_of(&plan, plan_global(&plan, plan.length / 2), &position));
            cr_assert_eq(position, plan.length / 2);
            cr_assert(plan_open(&plan, n, world - 1, world, PLAN_KEEP));
            cr_assert_eq(plan.length, n / world + (left == world));
        }
    }
}

Test(plan, refuses_ranks_outside_the_world)
{
    struct plan plan;

    cr_assert(!plan_open(&plan, 10, 0, 0, PLAN_PAD));
    cr_assert(!plan_open(&plan, 10, 4, 4, PLAN_PAD));
    cr_assert(!plan_open(&plan, 10, 0, PLAN_WORLD_MAX + 1, PLAN_PAD));
    cr_assert(!plan_open(&plan, ORDER_SAMPLES_MAX + 1, 0, 1, PLAN_PAD));
}

Test(plan, remainder_names_round_trip)
{
    enum plan_remainder remainder;

    for (size_t k = 0; k < 3; k++) {
        cr_assert(plan_remainder_from(plan_remainder_name(remainders[k]), &remainder));
        cr_assert_eq(remainder, remainders[k]);
    }
    cr_assert(plan_remainder_from("drop_last", &remainder) && remainder == PLAN_DROP);
    cr_assert(!plan_remainder_from("Pad", &remainder));
}
