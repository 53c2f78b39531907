/* Random numbers that are a pure function of a key: Philox4x64-10 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", SC11; the same generator as numpy.random.Philox).
 *
 *   key      seed, 0
 *   counter  block, position, epoch, stream
 *
 * Each block gives four 64-bit words, taken in order; `block` counts from 0. `stream` tells apart
 * the uses that one picture has for random numbers, so that a further draw in one of them never
 * moves the others. */
#ifndef SHUFFLELOAD_RANDOM_H
#define SHUFFLELOAD_RANDOM_H

#include <stdint.h>

struct random_stream {
    uint64_t key[2], counter[4], words[4];
    unsigned used; /* of words */
};

enum { RANDOM_FLIP = 1, RANDOM_CROP = 2 }; /* the streams; numbers never change their meaning */

void random_start(struct random_stream *random, uint64_t seed, uint64_t epoch, uint64_t position,
                  uint64_t stream);

uint64_t random_word(struct random_stream *random);
double random_unit(struct random_stream *random); /* [0, 1): the upper 53 bits of a word */
/* [0, n), n >= 1: the upper half of word * n. One word a call, always; uneven by at most n / 2^64.
 */
uint64_t random_below(struct random_stream *random, uint64_t n);

#endif
