/* Internal to pixels*.c: what pixels_avx2.c does for pixels.c. */
#ifndef SHUFFLELOAD_PIXELS_VECTOR_H
#define SHUFFLELOAD_PIXELS_VECTOR_H

#include "pixels.h"

bool pixels_vector_supported(void);

/* As pixels_to_floats() and _halves(), where `count` is a multiple of 16 and `out` is aligned to 32
 * bytes; past the caches. */
void pixels_vector_floats(float *out, const uint8_t *rgb, size_t count,
                          const struct pixels_table *table);
void pixels_vector_halves(uint16_t *out, const uint8_t *rgb, size_t count,
                          const struct pixels_table *table);

#endif
