/* The two passes of a resize, interleaved: a result row is made as soon as the source rows under
 * it have been through the column pass, which keep in a ring that stays in the nearest cache.
 * The definition of the weights is Pillow's (src/libImaging/Resample.c, precompute_coeffs). */
#include "resize.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct resizer {
    const struct resize_kernels *kernels;
    struct resize_axis columns, rows;
    int16_t *ring; /* rows that the column pass has made, a multiple of RESIZE_ROWS */
    size_t ring_size;
    uint8_t *tail; /* the last source rows, when they are fewer than RESIZE_ROWS */
    size_t tail_size;
    const int16_t **taps;
    size_t taps_size;
};

/* At least `wanted` elements at *array, whose contents may be lost. */
static int room(void **array, size_t *have, size_t wanted, size_t element)
{
    if (*have >= wanted)
        return 0;
    free(*array);
    *have = 0;
    *array = calloc(wanted, element);
    if (!*array)
        return -ENOMEM;
    *have = wanted;
    return 0;
}

/* The triangle's weights over one result pixel, adding up to 1, without the zeros at both ends.
 * Returns how many; *start is the first one's pixel. `scale` is the width of a result pixel. */
static int triangle(double *weights, double centre, double scale, int least, int most, int *start)
{
    double support = scale < 1 ? 1 : scale, steep = 1 / support, sum = 0;
    int from = (int)(centre - support + 0.5), to = (int)(centre + support + 0.5), count;

    from = from < least ? least : from;
    to = to > most ? most : to;
    count = to - from;
    for (int i = 0; i < count; i++) {
        double far = fabs(from + i - centre + 0.5) * steep;
        weights[i] = far < 1 ? 1 - far : 0;
        sum += weights[i];
    }
    if (!(sum > 0)) { /* a sliver whose pixel's centre is out of reach: that pixel */
        *start = from < most ? from : most - 1;
        weights[0] = 1;
        return 1;
    }
    while (count > 1 && weights[count - 1] == 0)
        count--;
    *start = from;
    if (count > 1 && weights[0] == 0) {
        memmove(weights, weights + 1, (size_t)(count - 1) * sizeof *weights);
        ++*start;
        count--;
    }
    sum = 1 / sum;
    for (int i = 0; i < count; i++)
        weights[i] *= sum;
    return count;
}

int resize_axis_set(struct resize_axis *axis, double from, double to, int pixels, int full,
                    int skip, int count, int bits_most)
{
    double scale = (to - from) / full, support = scale < 1 ? 1 : scale, largest = 0, one;
    int least = (int)floor(from), most = (int)ceil(to), error;
    size_t widest = (size_t)ceil(support) * 2 + 1, padded;

    most = most > pixels ? pixels : most;
    if ((error = room((void **)&axis->starts, &axis->starts_size, (size_t)count * 2,
                      sizeof *axis->starts)) ||
        (error = room((void **)&axis->exact, &axis->exact_size, (size_t)count * widest,
                      sizeof *axis->exact)))
        return error;
    axis->count = count;
    axis->used = 1;
    axis->first = pixels;
    axis->last = 0;
    for (int i = 0; i < count; i++) {
        double *weights = axis->exact + (size_t)i * widest;
        /* Counted from `least`, so that a whole-numbered box gives what PIL gives its crop. */
        double centre = from - least + (skip + i + 0.5) * scale;
        int start, used = triangle(weights, centre, scale, 0, most - least, &start);
        start += least;
        for (int k = 0; k < used; k++)
            largest = weights[k] > largest ? weights[k] : largest;
        axis->starts[i] = start;
        axis->starts[count + i] = used;
        axis->used = used > axis->used ? used : axis->used;
        axis->first = start < axis->first ? start : axis->first;
        axis->last = start + used > axis->last ? start + used : axis->last;
    }
    /* As many bits as keep the largest weight, one more from rounding included, in 16 bits. */
    axis->bits = 14;
    while (axis->bits < bits_most && ldexp(largest, axis->bits + 1) + 1 <= INT16_MAX)
        axis->bits++;
    axis->taps = (axis->used + 3) & ~3;
    padded = (size_t)axis->taps;
    if ((error = room((void **)&axis->weights, &axis->weights_size, (size_t)count * padded,
                      sizeof *axis->weights)))
        return error;
    one = ldexp(1, axis->bits);
    for (int i = 0; i < count; i++) {
        /* Rounding the running sum makes the weights add up exactly: flat colours stay as they
         * are. Where all of `used` would reach past the last pixel, the weights move to the end,
         * behind zeros: no kernel then reads much past it. */
        const double *weights = axis->exact + (size_t)i * widest;
        int16_t *whole = axis->weights + (size_t)i * padded;
        int used = axis->starts[count + i], before = 0;
        int over = axis->starts[i] + axis->used - axis->last;
        double sum = 0;
        over = over > 0 ? over : 0;
        memset(whole, 0, padded * sizeof *whole);
        for (int k = 0; k < used; k++) {
            int after;
            sum += weights[k];
            after = k == used - 1 ? (int)one : (int)(sum * one + 0.5);
            whole[over + k] = (int16_t)(after - before);
            before = after;
        }
        axis->starts[i] -= axis->first + over;
    }
    return 0;
}

static void plain_columns(const uint8_t *source, size_t stride, int16_t *out, size_t width,
                          const struct resize_axis *columns, bool mirror)
{
    int shift = columns->bits - RESIZE_FRACTION, half = 1 << (shift - 1);

    for (int row = 0; row < RESIZE_ROWS; row++, source += stride, out += width)
        for (int i = 0; i < columns->count; i++) {
            const uint8_t *at = source + (size_t)columns->starts[i] * 3;
            const int16_t *weights = columns->weights + (size_t)i * (size_t)columns->taps;
            int16_t *to = out + (size_t)(mirror ? columns->count - 1 - i : i) * 3;
            int red = half, green = half, blue = half;
            for (int k = 0; k < columns->used; k++, at += 3) {
                red += at[0] * weights[k];
                green += at[1] * weights[k];
                blue += at[2] * weights[k];
            }
            to[0] = (int16_t)(red >> shift);
            to[1] = (int16_t)(green >> shift);
            to[2] = (int16_t)(blue >> shift);
        }
}

static void plain_rows(const int16_t *const *source, uint8_t *out, int values,
                       const int16_t *weights, int taps, int bits)
{
    int shift = bits + RESIZE_FRACTION, half = 1 << (shift - 1);

    for (int i = 0; i < values; i++) {
        int sum = half;
        for (int k = 0; k < taps; k++)
            sum += source[k][i] * weights[k];
        sum >>= shift;
        out[i] = (uint8_t)(sum > 255 ? 255 : sum);
    }
}

const struct resize_kernels resize_kernels_plain = {plain_columns, plain_rows};

int resizer_open(struct resizer **out, enum resize_code code)
{
    struct resizer *resizer = calloc(1, sizeof *resizer);

    if (!resizer)
        return -ENOMEM;
    if (code == RESIZE_FASTEST)
        resizer->kernels = resize_kernels_avx2();
    if (!resizer->kernels)
        resizer->kernels = &resize_kernels_plain;
    *out = resizer;
    return 0;
}

static void axis_free(struct resize_axis *axis)
{
    free(axis->starts);
    free(axis->weights);
    free(axis->exact);
}

void resizer_close(struct resizer *resizer)
{
    if (!resizer)
        return;
    axis_free(&resizer->columns);
    axis_free(&resizer->rows);
    free(resizer->ring);
    free(resizer->tail);
    free(resizer->taps);
    free(resizer);
}

struct resize_axis *resizer_columns(struct resizer *resizer)
{
    return &resizer->columns;
}

struct resize_axis *resizer_rows(struct resizer *resizer)
{
    return &resizer->rows;
}

int resizer_run(struct resizer *resizer, const uint8_t *source, size_t stride, uint8_t *out,
                bool mirror)
{
    const struct resize_axis *columns = &resizer->columns, *rows = &resizer->rows;
    int values = columns->count * 3, last = rows->last - rows->first, done = 0;
    int even = (rows->used + 1) & ~1;
    size_t bytes = (size_t)(columns->last - columns->first) * 3;
    /* The column pass runs up to RESIZE_ROWS - 1 rows ahead; kernels write one value past a row's
     * end and read whole vectors. */
    size_t width = ((size_t)values + 1 + 31) & ~(size_t)31;
    size_t slots = ((size_t)rows->used + 2 * RESIZE_ROWS - 2) / RESIZE_ROWS * RESIZE_ROWS;
    int error;

    if ((error = room((void **)&resizer->ring, &resizer->ring_size, slots * width,
                      sizeof *resizer->ring)) ||
        (error = room((void **)&resizer->tail, &resizer->tail_size,
                      bytes * RESIZE_ROWS + RESIZE_SLACK, 1)) ||
        (error = room((void **)&resizer->taps, &resizer->taps_size, (size_t)even,
                      sizeof *resizer->taps)))
        return error;
    for (int y = 0; y < rows->count; y++) {
        int start = rows->starts[y], end = start + rows->used;
        size_t slot;
        for (; done < end; done += RESIZE_ROWS) {
            const uint8_t *from = source + (size_t)done * stride;
            size_t apart = stride;
            if (last - done < RESIZE_ROWS) {
                for (int i = 0; i < last - done; i++)
                    memcpy(resizer->tail + (size_t)i * bytes, from + (size_t)i * stride, bytes);
                from = resizer->tail;
                apart = bytes;
            }
            resizer->kernels->columns(from, apart, resizer->ring + (size_t)done % slots * width,
                                      width, columns, mirror);
        }
        /* An odd one out has a weight of zero: any row will do. */
        slot = (size_t)start % slots;
        for (int k = 0; k < even; k++) {
            resizer->taps[k] = resizer->ring + slot * width;
            if (start + k + 1 < end && ++slot == slots)
                slot = 0;
        }
        resizer->kernels->rows(resizer->taps, out + (size_t)y * (size_t)values, values,
                               rows->weights + (size_t)y * (size_t)rows->taps, even, rows->bits);
    }
    return 0;
}
