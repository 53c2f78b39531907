/* Who reads what: one share of an epoch. Pure arithmetic over an order's places; owns nothing,
 * allocates nothing, any thread.
 *
 * The global order of an epoch has `places`. A job that resumes after the first G of them has the
 * rest, its tail, dealt as though it were an epoch of its own.
 *
 * Dealt in turn: rank r of a world of W reads places r, r + W, r + 2W, ... of the tail. What
 * happens when W does not divide it is the remainder, as torch's DistributedSampler has it
 * (torch/utils/data/distributed.py, DistributedSampler.__iter__):
 *   pad    every rank reads ceil(n / W): further places repeat the tail from its start, as often as
 *          needed
 *   drop   every rank reads floor(n / W): the last places are not read (torch's drop_last)
 *   keep   nothing is repeated, nothing dropped: the first n % W ranks read one more (evaluation)
 *
 * Dealt in runs (order=contiguous): rank r reads from place floor(rn / W) on, up to where the next
 * rank starts (keep), ceil(n / W) of them (pad: the next rank's first place may be read, too), or
 * floor(n / W) (drop). With a `window` of w, what is dealt so are the n - w + 1 windows of w
 * neighbouring places, and a rank reads all places of its windows: each window is whole on a rank,
 * and neighbours share w - 1 places.
 *
 * A rank's sequence is dealt once more to the workers of a data loader: part K of M gets runs of B,
 * K, K + M, K + 2M, ... A loader that takes a batch of B from each worker in turn so sees the
 * rank's sequence. */
#ifndef SHUFFLEFS_PLAN_H
#define SHUFFLEFS_PLAN_H

#include "order.h"

#include <stdbool.h>
#include <stdint.h>

enum plan_remainder { PLAN_PAD, PLAN_DROP, PLAN_KEEP };

/* The largest world, number of parts, and run. */
#define PLAN_WORLD_MAX ((uint64_t)1 << 32)
#define PLAN_PARTS_MAX ((uint64_t)1 << 32)
#define PLAN_RUN_MAX   ((uint64_t)1 << 31)

/* How an epoch is dealt: the same for all ranks. */
struct plan_deal {
    enum plan_remainder remainder;
    bool runs;
    uint64_t window; /* places of a window that stays whole; 0, 1: none. Only with `runs` */
};

/* Whose share. */
struct plan_share {
    uint64_t rank, world;
    uint64_t after;       /* places that were read before; 0 with `runs` */
    uint64_t part, parts; /* parts 0: the whole rank */
    uint64_t run;         /* 1.. where there are parts */
};

struct plan {
    struct plan_share share;
    struct plan_deal deal;
    uint64_t places;      /* of the tail */
    uint64_t start;       /* the first place: of the tail, or of this rank's run */
    uint64_t rank_length; /* positions that the rank has, all parts together */
    uint64_t length;      /* positions that this share has */
};

const char *plan_remainder_name(enum plan_remainder remainder);
bool plan_remainder_from(const char *name,
                         enum plan_remainder *remainder); /* "drop_last" is drop */

/* Fills `plan`. False when world is 0 or over PLAN_WORLD_MAX, rank >= world, part >= parts, parts
 * or run out of range, places > ORDER_SAMPLES_MAX, after > places or there where runs are dealt, or
 * a window larger than all places. */
bool plan_open(struct plan *plan, uint64_t places, const struct plan_share *share,
               const struct plan_deal *deal);

/* The same share of an epoch that is resumed after `after` places, whatever `of` was. `resumed` may
 * be `of`. False as plan_open(). */
bool plan_resume(struct plan *resumed, const struct plan *of, uint64_t after);

/* The place in the global order of `position` < length. */
uint64_t plan_global(const struct plan *plan, uint64_t position);

/* The position of this share that reads place `global` of the global order (no rank reads one
 * twice). False: another's, or nobody's. */
bool plan_position_of(const struct plan *plan, uint64_t global, uint64_t *position);

/* Whether both are the same share of epochs dealt alike. */
bool plan_equals(const struct plan *a, const struct plan *b);

/* Reads that an epoch has beyond one of each place, and places that are not read, over all ranks of
 * a valid world. */
uint64_t plan_padding(uint64_t places, uint64_t world, const struct plan_deal *deal);
uint64_t plan_dropped(uint64_t places, uint64_t world, const struct plan_deal *deal);

#endif
