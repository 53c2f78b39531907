/* The code that a GPU's kernel is made of, run in C: it gives the bits that the host's rows have.
 */
#include "picture.h"
#include "unit.h"

#include "../../loader/pixels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

Test(pixels, bfloats_are_the_nearest)
{
    cr_assert_eq(pixels_bfloat(INFINITY), 0x7f80);
    cr_assert_eq(pixels_bfloat(-INFINITY), 0xff80);
    cr_assert_eq(pixels_bfloat(3.4028235e38f), 0x7f80);
    cr_assert((pixels_bfloat(NAN) & 0x7fff) > 0x7f80);
    cr_assert((pixels_bfloat(float_of(0x7f800001)) & 0x7fff) > 0x7f80);
    for (uint32_t half = 0; half < 0x7f80; half++) {
        float value = float_of(half << 16), middle = float_of(half << 16 | 0x8000);

        cr_assert_eq(pixels_bfloat(value), half);
        cr_assert_eq(pixels_bfloat(-value), half | 0x8000);
        cr_assert_eq(pixels_bfloat(float_of((half << 16 | 0x8000) - 1)), half);
        cr_assert_eq(pixels_bfloat(float_of((half << 16 | 0x8000) + 1)), half + 1);
        cr_assert_eq(pixels_bfloat(middle), half + (half & 1)); /* a tie: to even */
    }
}

static const float means[3] = {0.485f, 0.456f, 0.406f}, deviations[3] = {0.229f, 0.224f, 0.225f};

static void host_row(void *out, const uint8_t *rgb, size_t count, enum pixels_format format,
                     const struct pixels_table *table)
{
    if (format == PIXELS_FLOAT32)
        pixels_to_floats(out, rgb, count, table);
    else if (format == PIXELS_FLOAT16)
        pixels_to_halves(out, rgb, count, table);
    else
        pixels_to_bfloats(out, rgb, count, table);
}

/* Pictures of 1 to 67 pixels: with and without a rest of the groups of four. What follows the last
 * one stays as it was. */
Test(pixels, a_job_gives_the_bits_of_the_hosts_rows_in_every_format)
{
    enum { MOST = 67, IMAGES = 3, VALUES = MOST * 3 * IMAGES, BEHIND = 16 };
    static struct pixels_table table;
    _Alignas(64) static float job_out[VALUES + BEHIND], host_out[VALUES + BEHIND];
    uint8_t *rgb = picture_pixels(MOST * IMAGES, 1, 3, 9);

    pixels_table_fill(&table, means, deviations);
    for (int format = PIXELS_FLOAT32; format <= PIXELS_BFLOAT16; format++)
        for (uint32_t count = 1; count <= MOST; count++) {
            size_t element = format == PIXELS_FLOAT32 ? 4 : 2, row = count * 3 * element;
            struct pixels_job job = {.rgb = rgb,
                                     .planes = job_out,
                                     .images = IMAGES,
                                     .pixels = count,
                                     .format = (enum pixels_format)format};

            memcpy(job.mean, means, sizeof means);
            memcpy(job.deviation, deviations, sizeof deviations);
            memset(job_out, 0xa5, sizeof job_out);
            memset(host_out, 0xa5, sizeof host_out);
            pixels_do_job(&job);
            for (size_t i = 0; i < IMAGES; i++)
                host_row((uint8_t *)host_out + i * row, rgb + i * count * 3, count,
                         (enum pixels_format)format, &table);
            /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the very bits */
            cr_assert(memcmp(job_out, host_out, sizeof job_out) == 0, "format %d, %u pixels",
                      format, count);
        }
    free(rgb);
}
