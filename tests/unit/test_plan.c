/* Plans: what each rank gets, by counting on small numbers and by arithmetic on large ones. */
#include "unit.h"

#include "../../core/plan.h"

#include <stdlib.h>
#include <string.h>

/* The whole of a rank, dealt in turn. */
static bool open_plan(struct plan *plan, uint64_t places, uint64_t rank, uint64_t world,
                      enum plan_remainder remainder)
{
    return plan_open(plan, places, &(struct plan_share){.rank = rank, .world = world},
                     &(struct plan_deal){.remainder = remainder});
}

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
                    cr_assert(open_plan(&plan, n, rank, world, remainders[k]));
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
                cr_assert_eq(
                    twice, plan_padding(n, world, &(struct plan_deal){.remainder = remainders[k]}));
                cr_assert_eq(
                    never, plan_dropped(n, world, &(struct plan_deal){.remainder = remainders[k]}));
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
                    cr_assert(open_plan(&plan, n, rank, world, remainders[k]));
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
            cr_assert(open_plan(&plan, n, world - 1, world, PLAN_PAD));
            cr_assert_eq(plan.length, n / world + (left != 0));
            cr_assert_eq(plan_global(&plan, 0), world - 1);
            cr_assert_eq(plan_global(&plan, plan.length - 1), left ? world - 1 - left : n - 1);
            uint64_t position;
            cr_assert(plan_position_of(&plan, plan_global(&plan, plan.length / 2), &position));
            cr_assert_eq(position, plan.length / 2);
            cr_assert(open_plan(&plan, n, world - 1, world, PLAN_KEEP));
            cr_assert_eq(plan.length, n / world + (left == world));
        }
    }
}

Test(plan, refuses_ranks_outside_the_world)
{
    struct plan plan;

    cr_assert(!open_plan(&plan, 10, 0, 0, PLAN_PAD));
    cr_assert(!open_plan(&plan, 10, 4, 4, PLAN_PAD));
    cr_assert(!open_plan(&plan, 10, 0, PLAN_WORLD_MAX + 1, PLAN_PAD));
    cr_assert(!open_plan(&plan, ORDER_SAMPLES_MAX + 1, 0, 1, PLAN_PAD));
}

/* A rank's sequence as the words in plan.h have it: a list, made the long way. Returns its length.
 */
static uint64_t deal_by_hand(uint64_t places, const struct plan_share *share,
                             const struct plan_deal *deal, uint64_t *list)
{
    uint64_t overlap = deal->runs && deal->window ? deal->window - 1 : 0;
    uint64_t tail = places - share->after, units = tail - overlap, world = share->world, n = 0,
             kept = 0;
    uint64_t most = units / world + (units % world != 0);

    if (deal->remainder == PLAN_DROP)
        most = units / world;
    if (deal->runs) {
        uint64_t start = units * share->rank / world, end = units * (share->rank + 1) / world;
        if (deal->remainder != PLAN_KEEP)
            end = start + most;
        for (uint64_t place = start; end > start && place < end + overlap; place++)
            list[n++] = place;
    } else {
        for (uint64_t k = 0; tail && k < most; k++) {
            uint64_t place = share->rank + k * world;
            if (place < tail || deal->remainder == PLAN_PAD)
                list[n++] = share->after + place % tail;
        }
    }
    for (uint64_t p = 0; share->parts && p < n; p++)
        if (p / share->run % share->parts == share->part)
            list[kept++] = list[p];
    return share->parts ? kept : n;
}

static void expect_share(uint64_t places, const struct plan_share *share,
                         const struct plan_deal *deal)
{
    uint64_t list[512], length = deal_by_hand(places, share, deal, list), position, found = 0;
    struct plan plan;

    cr_assert(plan_open(&plan, places, share, deal));
    cr_assert_eq(plan.length, length);
    for (uint64_t p = 0; p < length; p++) {
        cr_assert_eq(plan_global(&plan, p), list[p]);
        cr_assert(plan_position_of(&plan, list[p], &position));
        cr_assert_eq(position, p);
    }
    for (uint64_t place = 0; place < places; place++)
        found += plan_position_of(&plan, place, &position);
    cr_assert_eq(found, length);
}

Test(plan, every_share_is_what_its_words_say)
{
    struct plan_deal deal;
    uint64_t chance = 1;

    for (int round = 0; round < 20000; round++) {
        uint64_t drawn[9], places;
        struct plan_share share;
        for (size_t i = 0; i < 9; i++) {
            chance = chance * 6364136223846793005u + 1442695040888963407u;
            drawn[i] = chance >> 33;
        }
        places = 1 + drawn[0] % 60;
        deal = (struct plan_deal){.remainder = remainders[drawn[1] % 3], .runs = drawn[2] % 3 == 0};
        deal.window = deal.runs ? drawn[3] % (places + 1) : 0;
        share = (struct plan_share){.world = 1 + drawn[4] % 70, .parts = drawn[5] % 5};
        share.rank = drawn[6] % share.world;
        share.after = deal.runs ? 0 : drawn[7] % (places + 1);
        if (share.parts)
            share.part = drawn[8] % share.parts;
        share.run = share.parts ? 1 + drawn[3] % 7 : 0;
        expect_share(places, &share, &deal);
    }
}

Test(plan, runs_cover_every_place_and_keep_windows_whole)
{
    for (uint64_t n = 1; n <= 24; n++) {
        for (uint64_t world = 1; world <= 26; world++) {
            for (uint64_t window = 0; window <= n && window < 7; window++) {
                for (size_t k = 0; k < 3; k++) {
                    struct plan_deal deal = {remainders[k], true, window};
                    unsigned seen[24] = {0}, whole[24] = {0};
                    uint64_t total = 0, never = 0, least = window ? window : 1;
                    for (uint64_t rank = 0; rank < world; rank++) {
                        struct plan plan;
                        cr_assert(plan_open(
                            &plan, n, &(struct plan_share){.rank = rank, .world = world}, &deal));
                        total += plan.length;
                        for (uint64_t p = 0; p < plan.length; p++) {
                            uint64_t place = plan_global(&plan, p);
                            cr_assert(place < n && place == plan_global(&plan, 0) + p);
                            seen[place]++;
                            whole[place] += p + least <= plan.length;
                        }
                    }
                    for (uint64_t i = 0; i < n; i++)
                        never += seen[i] == 0;
                    for (uint64_t i = 0; i + least <= n && k != PLAN_DROP; i++)
                        cr_assert(whole[i] >= 1 && (k == PLAN_PAD || whole[i] == 1));
                    cr_assert_eq(never, plan_dropped(n, world, &deal));
                    cr_assert_eq(total - (n - never), plan_padding(n, world, &deal));
                }
            }
        }
    }
}

/* What a job is at when it goes on, and when it comes to the next epoch. */
Test(plan, a_share_is_resumed_anywhere_and_is_whole_again)
{
    for (int k = 0; k < 3; k++) {
        const struct plan_deal turn = {.remainder = remainders[k]};
        const struct plan_deal runs = {.remainder = remainders[k], .runs = true};
        for (uint64_t after = 0; after <= 40; after++) {
            const struct plan_share share = {
                .rank = after % 3, .world = 3, .part = 1, .parts = 2, .run = 4};
            struct plan whole, plan, direct;
            struct plan_share resumed = share;
            resumed.after = after;
            cr_assert(plan_open(&whole, 40, &share, &turn));
            cr_assert(plan_open(&direct, 40, &resumed, &turn));
            cr_assert(plan_resume(&plan, &whole, after));
            cr_assert(plan_equals(&plan, &direct) && plan.length == direct.length &&
                      plan.start == direct.start);
            cr_assert_eq(plan_equals(&plan, &whole), after == 0);
            cr_assert(plan_resume(&plan, &plan, 40 - after));
            cr_assert(plan_resume(&plan, &plan, 0));
            cr_assert(plan_equals(&plan, &whole) && plan.length == whole.length);
            cr_assert(!plan_resume(&plan, &direct, 41));
            cr_assert(plan_open(&whole, 40, &share, &runs));
            cr_assert_eq(plan_resume(&plan, &whole, after), after == 0);
        }
    }
}

Test(plan, refuses_shares_that_are_none)
{
    const struct plan_deal turn = {0}, runs = {.runs = true, .window = 11};
    struct plan plan;

    cr_assert(plan_open(&plan, 10, &(struct plan_share){.world = 1, .after = 10}, &turn));
    cr_assert_eq(plan.length, 0);
    cr_assert(!plan_open(&plan, 10, &(struct plan_share){.world = 1, .after = 11}, &turn));
    cr_assert(!plan_open(&plan, 10, &(struct plan_share){.world = 1, .parts = 2, .run = 0}, &turn));
    cr_assert(!plan_open(&plan, 10,
                         &(struct plan_share){.world = 1, .part = 2, .parts = 2, .run = 1}, &turn));
    cr_assert(!plan_open(&plan, 10, &(struct plan_share){.world = 1}, &runs));
    cr_assert(!plan_open(&plan, 20, &(struct plan_share){.world = 1, .after = 1}, &runs));
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
