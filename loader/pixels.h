/* Pictures of bytes (rows of R G B) -> what a batch holds: bytes as they are (NHWC), or normalised
 * float32, float16 or bfloat16 in planes (NCHW). No state, no allocation, any thread.
 *
 * float32 equals torchvision's ToTensor and Normalize bit for bit: three float operations, each
 * rounded (pixels_body.h). float16 and bfloat16 are that, rounded to nearest even, as Tensor.half()
 * and Tensor.bfloat16(). A byte has 256 values, so each is a table a channel. */
#ifndef SHUFFLELOAD_PIXELS_H
#define SHUFFLELOAD_PIXELS_H

#include "pixels_body.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Opaque; 6 KB; read-only once filled, so that all threads can share one. */
struct pixels_table {
    float mean[3], deviation[3];
    bool computed; /* the vector code of this processor gives what the table says */
    float floats[3][256];
    uint16_t halves[3][256], bfloats[3][256];
};

/* `deviation` must not be 0: then the values are infinite or not numbers. */
void pixels_table_fill(struct pixels_table *table, const float mean[3], const float deviation[3]);

/* `count` pixels, 3 * count values each. Nothing may overlap. On x86 the planes are written past
 * the caches where `out` is aligned (32 bytes are best, 16 will do) and `count` is a multiple of
 * 16: a batch is far larger than a cache. */
void pixels_to_bytes(uint8_t *out, const uint8_t *rgb, size_t count);
void pixels_to_floats(float *out, const uint8_t *rgb, size_t count,
                      const struct pixels_table *table);
void pixels_to_halves(uint16_t *out, const uint8_t *rgb, size_t count,
                      const struct pixels_table *table);
void pixels_to_bfloats(uint16_t *out, const uint8_t *rgb, size_t count,
                       const struct pixels_table *table);

/* A batch by the code that a GPU's kernel is made of, for those who check that both agree. */
void pixels_do_job(const struct pixels_job *job);

#endif
