/* Resizing as PIL does it: Image.resize(BILINEAR, box=), a triangle filter widened by the
 * down-scale factor, columns then rows.
 *
 * Parity: every value lies within 0.6 of the exact real value (fixed-point weights that add up to
 * one exactly, seven fraction bits kept between the passes), and PIL's within 1, so the two differ
 * by one level at most. The plain code and the AVX2 code give the same bytes. */
#ifndef SHUFFLELOAD_RESIZE_H
#define SHUFFLELOAD_RESIZE_H

#include "resize_body.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One direction: which source pixels each result pixel is made of. */
struct resize_axis {
    int count;        /* result pixels */
    int first, last;  /* the source pixels used by any of them: [first, last) */
    int taps;         /* weights stored for each, zeros at the end included; a multiple of 4 */
    int used;         /* the most that are not padding */
    int bits;         /* the weights of a pixel add up to 1 << bits */
    int32_t *starts;  /* source pixel of its first weight, counted from `first` */
    int16_t *weights; /* count * taps */
    double *exact;    /* while they are worked out */
    size_t starts_size, weights_size, exact_size; /* elements allocated */
};

struct resizer;

/* What the kernels do, one implementation each for the plain and the AVX2 code. */
#define RESIZE_ROWS 8
struct resize_kernels {
    /* RESIZE_ROWS rows of source pixels, `stride` bytes apart -> as many rows of 3 * columns->count
     * values with RESIZE_FRACTION bits, `width` values apart. May read RESIZE_SLACK bytes past the
     * last source pixel and write one value past a row. */
    void (*columns)(const uint8_t *source, size_t stride, int16_t *out, size_t width,
                    const struct resize_axis *columns, bool mirror);
    /* `taps` rows, weighted, -> `values` bytes. `taps` is even. May read 31 values past a row. */
    void (*rows)(const int16_t *const *source, uint8_t *out, int values, const int16_t *weights,
                 int taps, int bits);
};

enum resize_code { RESIZE_FASTEST, RESIZE_PLAIN };

/* Bytes that must be readable after the last source pixel (their values don't matter). */
#define RESIZE_SLACK 16

/* The source is `pixels` long; the part [from, to) of it is resized to `full` pixels, of which the
 * results are `count` from `skip` on. Pixels outside [from, to) have no influence, those cut by it
 * have their full one. 0 <= from < to <= pixels, 0 <= skip, skip + count <= full. 0 or -ENOMEM. */
int resize_axis_set(struct resize_axis *axis, double from, double to, int pixels, int full,
                    int skip, int count, int bits_most);

/* One a thread; buffers are kept, sized by the longest filter and the widest result so far. */
int resizer_open(struct resizer **out, enum resize_code code);
void resizer_close(struct resizer *resizer); /* NULL is fine */
struct resize_axis *resizer_columns(struct resizer *resizer);
struct resize_axis *resizer_rows(struct resizer *resizer);

/* The most bits of each axis, for resize_axis_set: what 32-bit sums have room for. */
#define RESIZE_BITS_COLUMNS 20
#define RESIZE_BITS_ROWS    16

/* `source` is pixel (columns->first, rows->first) of an RGB picture whose rows are `stride` bytes
 * apart. `out` gets columns->count * rows->count * 3 bytes, mirrored left-right if asked.
 * 0 or -ENOMEM. */
int resizer_run(struct resizer *resizer, const uint8_t *source, size_t stride, uint8_t *out,
                bool mirror);

/* Internal to resize*.c. NULL when this processor has no AVX2. */
const struct resize_kernels *resize_kernels_avx2(void);
extern const struct resize_kernels resize_kernels_plain;

#endif
