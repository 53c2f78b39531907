/* The generator of the orders that are our own: the same numbers on every machine.
 *
 * xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021), its
 * state filled by splitmix64 from what it is seeded with. Unlike torch's, all 64 bits of seed and
 * epoch count, and the two do not alias. One thread a generator. */
#ifndef SHUFFLEFS_DRAW_H
#define SHUFFLEFS_DRAW_H

#include <stdint.h>

struct draw {
    uint64_t state[4];
};

/* `use` sets apart generators of one epoch that draw for different things. */
void draw_seed(struct draw *draw, uint64_t seed, uint64_t epoch, uint64_t use);
uint64_t draw_next(struct draw *draw);
/* Evenly from [0, bound), bound > 0. */
uint64_t draw_below(struct draw *draw, uint64_t bound);

/* splitmix64's mixing of 64 bits: a bijection without fixed structure. */
uint64_t draw_mix(uint64_t bits);

#endif
