/* In which order samples are written, where shards end, and what identifies all that. A pure
 * function of options and listing; read-only once made: any thread. */
#ifndef SHUFFLEFS_PACK_PLAN_H
#define SHUFFLEFS_PACK_PLAN_H

#include "../core/order.h"
#include "listing.h"
#include "options.h"

#include <stdint.h>

#define PACK_PLAN_HASH 33 /* 32 hexadecimal digits and a NUL */

struct pack_plan {
    const struct pack_listing *listing;
    enum pack_limit limit;
    uint64_t limit_value;
    struct order *order;
    /* Over every option that changes a byte of the output, and over every member's name, size and
     * time. What runs with equal hashes write is equal, byte for byte. */
    char hash[PACK_PLAN_HASH];
};

/* Both outlive the plan. 0 or a negative errno, reported: more shards than samples, no memory. */
int pack_plan_open(struct pack_plan *plan, const struct pack_listing *listing,
                   const struct pack_options *options);
void pack_plan_close(struct pack_plan *plan);

/* The sample at a position of the output's order. */
uint64_t pack_plan_sample(const struct pack_plan *plan, uint64_t position);

/* The position behind shard `number`, which starts at `first`, where numbers of samples say so;
 * else (by size) that of the last sample: the shard ends earlier, when it is full. */
uint64_t pack_plan_end(const struct pack_plan *plan, uint64_t number, uint64_t first);

/* Must a shard of `bytes` so far, its trailer not counted, end before a sample of `more`? */
bool pack_plan_is_full(const struct pack_plan *plan, uint64_t bytes, uint64_t more);

#endif
