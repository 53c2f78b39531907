/* Who reads what: one rank's share of an epoch. Pure arithmetic over an order; owns nothing,
 * allocates nothing.
 *
 * The global order of an epoch has n samples. Rank r of a world of W reads global places r, r + W,
 * r + 2W, ... What happens when W does not divide n is the remainder, as torch's DistributedSampler
 * has it: pad    every rank reads ceil(n / W): places n, n + 1, ... repeat the order from its
 * start, as often as needed drop   every rank reads floor(n / W): the tail of the order is not read
 * (torch's drop_last) keep   nothing is repeated, nothing dropped: the first n % W ranks read one
 * more (for evaluation) Source: torch/utils/data/distributed.py, DistributedSampler.__iter__. All
 * functions: any thread. */
#ifndef SHUFFLEFS_PLAN_H
#define SHUFFLEFS_PLAN_H

#include "order.h"

#include <stdbool.h>
#include <stdint.h>

enum plan_remainder { PLAN_PAD, PLAN_DROP, PLAN_KEEP };

/* The largest world. */
#define PLAN_WORLD_MAX ((uint64_t)1 << 32)

struct plan {
    uint64_t samples; /* n, the length of the global order */
    uint64_t rank, world;
    uint64_t length; /* positions this rank has */
    enum plan_remainder remainder;
};

const char *plan_remainder_name(enum plan_remainder remainder);
bool plan_remainder_from(const char *name,
                         enum plan_remainder *remainder); /* "drop_last" is drop */

/* Fills `plan`. False when world is 0 or over PLAN_WORLD_MAX, rank >= world, or samples >
 * ORDER_SAMPLES_MAX. */
bool plan_open(struct plan *plan, uint64_t samples, uint64_t rank, uint64_t world,
               enum plan_remainder remainder);

/* The place in the global order of `position` < length. */
uint64_t plan_global(const struct plan *plan, uint64_t position);

/* The position of this rank that reads global place `global` < samples (no rank reads one twice).
 * False: another rank's, or dropped. */
bool plan_position_of(const struct plan *plan, uint64_t global, uint64_t *position);

/* Samples read twice (pad) and not read (drop) in an epoch, over all ranks. */
uint64_t plan_padding(uint64_t samples, uint64_t world, enum plan_remainder remainder);
uint64_t plan_dropped(uint64_t samples, uint64_t world, enum plan_remainder remainder);

#endif
