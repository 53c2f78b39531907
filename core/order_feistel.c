/* Permutations that are computed: a Feistel network over pairs, walked until it ends in range.
 * Owns nothing.
 *
 * A place is a pair (l, r), l < left and r < right, where left is the square root of n rounded up
 * and right as small as left * right >= n allows. Each round adds to one half, modulo its size, a
 * number that a keyed mixing makes of the other one: a bijection on the pairs, whatever the mixing.
 * What ends outside of [0, n) goes through again until it is inside ("cycle walking"), which is a
 * bijection on [0, n). Fewer than left pairs are outside, so that is rare.
 * Sources: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002 (FE1, cycle walking).
 *
 * This is no cipher: the mixing is splitmix64's. Rounds are as many as it takes: with 16, all
 * permutations of 5 samples were equally frequent over 400,000 keys, with 20 those of 6; pairs of
 * places of 30 samples were independent with 8. */
#include "order_table.h"

#include "draw.h"

__extension__ typedef unsigned __int128 wide;

/* Both even, as rounds go in pairs. A small n has little for the mixing to work on. */
#define ROUNDS       12
#define ROUNDS_SMALL 24
#define SMALL        65536
#define STEP         UINT64_C(0x9e3779b97f4a7c15)

/* The largest root whose square is below n; n <= 2^62. */
static uint64_t root_below(uint64_t n)
{
    uint64_t root = 0;

    for (uint64_t bit = (uint64_t)1 << 31; bit; bit >>= 1)
        if ((root + bit) * (root + bit) < n)
            root += bit;
    return root;
}

struct feistel feistel_make(uint64_t n)
{
    uint64_t left = root_below(n) + 1;

    return (struct feistel){.n = n,
                            .left = left,
                            .right = n / left + (n % left != 0),
                            .rounds = n < SMALL ? ROUNDS_SMALL : ROUNDS};
}

uint64_t feistel_key(uint64_t seed, uint64_t number)
{
    return draw_mix((draw_mix(seed + STEP) ^ number) + STEP);
}

/* Evenly from [0, size), but for size / 2^64. */
static uint64_t round_of(uint64_t key, uint64_t half, uint64_t size)
{
    return (uint64_t)((wide)draw_mix(key ^ half) * size >> 64);
}

static uint64_t add(uint64_t half, uint64_t more, uint64_t size)
{
    half += more;
    return half < size ? half : half - size;
}

static uint64_t take(uint64_t half, uint64_t less, uint64_t size)
{
    return half >= less ? half - less : half + size - less;
}

uint64_t feistel_sample(const struct feistel *feistel, uint64_t key, uint64_t place)
{
    do {
        uint64_t l = place / feistel->right, r = place % feistel->right, round = key;
        for (unsigned i = 0; i < feistel->rounds; i += 2) {
            l = add(l, round_of(round += STEP, r, feistel->left), feistel->left);
            r = add(r, round_of(round += STEP, l, feistel->right), feistel->right);
        }
        place = l * feistel->right + r;
    } while (place >= feistel->n);
    return place;
}

uint64_t feistel_place(const struct feistel *feistel, uint64_t key, uint64_t sample)
{
    do {
        uint64_t l = sample / feistel->right, r = sample % feistel->right;
        uint64_t round = key + feistel->rounds * STEP;
        for (unsigned i = 0; i < feistel->rounds; i += 2) {
            r = take(r, round_of(round, l, feistel->right), feistel->right);
            round -= STEP;
            l = take(l, round_of(round, r, feistel->left), feistel->left);
            round -= STEP;
        }
        sample = l * feistel->right + r;
    } while (sample >= feistel->n);
    return sample;
}
