/* Numbers that look drawn. Owns nothing. */
#include "draw.h"

__extension__ typedef unsigned __int128 wide;

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

uint64_t draw_mix(uint64_t bits)
{
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

/* Each part goes through the mixing before the next one is added: so no two triples alias by a sum.
 */
void draw_seed(struct draw *draw, uint64_t seed, uint64_t epoch, uint64_t use)
{
    uint64_t state = draw_mix(seed + GOLDEN);

    state = draw_mix((state ^ epoch) + GOLDEN);
    state = draw_mix((state ^ use) + GOLDEN);
    for (int i = 0; i < 4; i++)
        draw->state[i] = draw_mix(state += GOLDEN);
}

static uint64_t rotate(uint64_t bits, unsigned by)
{
    return bits << by | bits >> (64 - by);
}

uint64_t draw_next(struct draw *draw)
{
    uint64_t *state = draw->state;
    uint64_t result = rotate(state[1] * 5, 7) * 9, shifted = state[1] << 17;

    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate(state[3], 45);
    return result;
}

/* Lemire, "Fast random integer generation in an interval", 2019. */
uint64_t draw_below(struct draw *draw, uint64_t bound)
{
    wide product = (wide)draw_next(draw) * bound;
    uint64_t low = (uint64_t)product, least;

    if (low < bound) {
        least = -bound % bound;
        while (low < least) {
            product = (wide)draw_next(draw) * bound;
            low = (uint64_t)product;
        }
    }
    return (uint64_t)(product >> 64);
}
