/* MT19937. Owns nothing. */
#include "mt19937.h"

#define SHIFT 397

void mt19937_seed(struct mt19937 *generator, uint64_t seed)
{
    uint32_t *state = generator->state;

    state[0] = (uint32_t)seed;
    for (uint32_t j = 1; j < MT19937_LENGTH; j++)
        state[j] = 1812433253u * (state[j - 1] ^ (state[j - 1] >> 30)) + j;
    generator->next = MT19937_LENGTH;
}

static uint32_t twist(uint32_t high, uint32_t low)
{
    uint32_t mixed = (high & 0x80000000u) | (low & 0x7fffffffu);
    return (mixed >> 1) ^ (low & 1 ? 0x9908b0dfu : 0);
}

static void refill(struct mt19937 *generator)
{
    uint32_t *state = generator->state;

    for (unsigned j = 0; j < MT19937_LENGTH - SHIFT; j++)
        state[j] = state[j + SHIFT] ^ twist(state[j], state[j + 1]);
    for (unsigned j = MT19937_LENGTH - SHIFT; j < MT19937_LENGTH - 1; j++)
        state[j] = state[j + SHIFT - MT19937_LENGTH] ^ twist(state[j], state[j + 1]);
    state[MT19937_LENGTH - 1] = state[SHIFT - 1] ^ twist(state[MT19937_LENGTH - 1], state[0]);
    generator->next = 0;
}

uint32_t mt19937_next(struct mt19937 *generator)
{
    uint32_t y;

    if (generator->next == MT19937_LENGTH)
        refill(generator);
    y = generator->state[generator->next++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint64_t mt19937_next64(struct mt19937 *generator)
{
    uint64_t high = mt19937_next(generator);
    return high << 32 | mt19937_next(generator);
}
