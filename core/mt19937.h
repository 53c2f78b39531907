/* torch's generator: Matsumoto and Nishimura's MT19937, seeded as at::mt19937 is
 * (aten/src/ATen/core/MT19937RNGEngine.h). Only the low 32 bits of a seed count. One thread a
 * generator. */
#ifndef SHUFFLEFS_MT19937_H
#define SHUFFLEFS_MT19937_H

#include <stdint.h>

#define MT19937_LENGTH 624

struct mt19937 {
    uint32_t state[MT19937_LENGTH];
    unsigned next;
};

void mt19937_seed(struct mt19937 *generator, uint64_t seed);

/* torch's random() and random64(): one output, and two with the first as the high word. */
uint32_t mt19937_next(struct mt19937 *generator);
uint64_t mt19937_next64(struct mt19937 *generator);

#endif
