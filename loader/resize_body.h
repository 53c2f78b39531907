/* One value of a resize, for the host and for the kernels on a GPU alike: C and CUDA both compile
 * this, and it is whole numbers' arithmetic, so both give the bytes of resize.c's plain kernels
 * from the same axes (resize_axis_set(), which the host works out for both).
 *
 * A job is a number of decoded pictures, each with a part that becomes one row of a batch. The
 * column pass makes `between` of the source's rows, the row pass makes the result of that; each is
 * cut into items that know nothing of each other, one a thread. Owns nothing. */
#ifndef SHUFFLELOAD_RESIZE_BODY_H
#define SHUFFLELOAD_RESIZE_BODY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__
#define RESIZE_BODY static __host__ __device__ __forceinline__
#else
#define RESIZE_BODY static inline
#endif

/* Bits after the point between the passes: 255 << 7 fits in 16 bits. */
#define RESIZE_FRACTION 7

/* One direction, as struct resize_axis has it. */
struct resize_table {
    const int32_t *starts;
    const int16_t *weights; /* count * taps */
    uint32_t count, taps, used, bits;
};

struct resize_picture {
    const uint8_t *source; /* the pixel of the first column and row that any result is made of */
    size_t stride;         /* bytes from one of the source's rows to the next */
    int16_t *between;      /* source_rows * columns.count * 3 */
    uint8_t *out;          /* rows.count * columns.count * 3 */
    struct resize_table columns, rows;
    uint32_t source_rows;
    uint32_t mirror; /* not 0: left-right */
};

struct resize_job {
    const struct resize_picture *pictures;
    uint32_t count;
    uint32_t column_items, row_items; /* the most that any of the pictures has */
};

RESIZE_BODY uint32_t resize_column_items(const struct resize_picture *picture)
{
    return picture->source_rows * picture->columns.count;
}

RESIZE_BODY uint32_t resize_row_items(const struct resize_picture *picture)
{
    return picture->rows.count * picture->columns.count * 3;
}

/* Three values of `between`: a source's row at a result's column. */
RESIZE_BODY void resize_do_column(const struct resize_picture *picture, uint32_t item)
{
    const struct resize_table *columns = &picture->columns;
    uint32_t row = item / columns->count, column = item % columns->count;
    uint32_t to = picture->mirror ? columns->count - 1 - column : column;
    const uint8_t *at = picture->source + row * picture->stride +
                        (size_t)(uint32_t)columns->starts[column] * 3;
    const int16_t *weights = columns->weights + (size_t)column * columns->taps;
    int16_t *out = picture->between + ((size_t)row * columns->count + to) * 3;
    uint32_t shift = columns->bits - RESIZE_FRACTION;
    int32_t half = (int32_t)1 << (shift - 1), red = half, green = half, blue = half;

    for (uint32_t k = 0; k < columns->used; k++, at += 3) {
        int32_t weight = weights[k];

        red += at[0] * weight;
        green += at[1] * weight;
        blue += at[2] * weight;
    }
    out[0] = (int16_t)(red >> shift);
    out[1] = (int16_t)(green >> shift);
    out[2] = (int16_t)(blue >> shift);
}

/* One byte of the result. */
RESIZE_BODY void resize_do_row(const struct resize_picture *picture, uint32_t item)
{
    const struct resize_table *rows = &picture->rows;
    uint32_t width = picture->columns.count * 3, row = item / width;
    const int16_t *at = picture->between + (size_t)(uint32_t)rows->starts[row] * width +
                        item % width;
    const int16_t *weights = rows->weights + (size_t)row * rows->taps;
    uint32_t shift = rows->bits + RESIZE_FRACTION;
    int32_t sum = (int32_t)1 << (shift - 1);

    for (uint32_t k = 0; k < rows->used; k++, at += width)
        sum += *at * (int32_t)weights[k];
    sum >>= shift;
    picture->out[item] = (uint8_t)(sum > 255 ? 255 : sum);
}

#endif
