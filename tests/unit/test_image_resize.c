/* Resizing against its definition, and the fast code against the plain. */
#include "unit.h"

#include "../../loader/pixels.h"
#include "../../loader/resize.h"
#include "picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct size {
    int width, height;
};

static void run(enum resize_code code, const uint8_t *source, struct size from, const double box[4],
                struct size to, uint8_t *out, bool mirror)
{
    struct resizer *resizer;
    struct resize_axis *columns, *rows;

    cr_assert_eq(resizer_open(&resizer, code), 0);
    columns = resizer_columns(resizer);
    rows = resizer_rows(resizer);
    cr_assert_eq(resize_axis_set(columns, box[0], box[2], from.width, to.width, 0, to.width,
                                 RESIZE_BITS_COLUMNS),
                 0);
    cr_assert_eq(resize_axis_set(rows, box[1], box[3], from.height, to.height, 0, to.height,
                                 RESIZE_BITS_ROWS),
                 0);
    cr_assert_eq(
        resizer_run(resizer,
                    source +
                        ((size_t)rows->first * (size_t)from.width + (size_t)columns->first) * 3,
                    (size_t)from.width * 3, out, mirror),
        0);
    resizer_close(resizer);
}

/* The weights of one result pixel, from the definition. */
static void weigh(double *weights, int pixels, double from, double to, int full, int i)
{
    double scale = (to - from) / full, support = scale < 1 ? 1 : scale, sum = 0;
    double centre = from + (i + 0.5) * scale;

    for (int k = 0; k < pixels; k++) {
        double far = fabs(k + 0.5 - centre) / support;
        weights[k] = far < 1 && k >= (int)floor(from) && k < (int)ceil(to) ? 1 - far : 0;
        sum += weights[k];
    }
    for (int k = 0; k < pixels; k++)
        weights[k] /= sum;
}

/* The largest distance of `out` from the exact values. */
static double distance(const uint8_t *source, struct size from, const double box[4], struct size to,
                       const uint8_t *out, bool mirror)
{
    double *columns = malloc(sizeof(double) * (size_t)from.width);
    double *rows = malloc(sizeof(double) * (size_t)from.height), worst = 0;

    for (int y = 0; y < to.height; y += 1 + to.height / 9)
        for (int x = 0; x < to.width; x += 1 + to.width / 9) {
            double sum[3] = {0};
            const uint8_t *at = out + 3 * ((size_t)y * (size_t)to.width +
                                           (size_t)(mirror ? to.width - 1 - x : x));
            weigh(columns, from.width, box[0], box[2], to.width, x);
            weigh(rows, from.height, box[1], box[3], to.height, y);
            for (int v = 0; v < from.height; v++)
                for (int u = 0; rows[v] > 0 && u < from.width; u++)
                    for (int c = 0; c < 3 && columns[u] > 0; c++)
                        sum[c] +=
                            rows[v] * columns[u] *
                            source[3 * ((size_t)v * (size_t)from.width + (size_t)u) + (size_t)c];
            for (int c = 0; c < 3; c++)
                worst = fmax(worst, fabs(sum[c] - at[c]));
        }
    free(columns);
    free(rows);
    return worst;
}

Test(image_resize, is_the_widened_triangle_and_fast_code_gives_the_plain_bytes)
{
    unsigned dice = 1;

#define DICE(n) (dice = dice * 1664525u + 1013904223u, (int)((dice >> 8) % (unsigned)(n)))
    for (int i = 0; i < 300; i++) {
        struct size from = {1 + DICE(i % 5 ? 90 : 900), 1 + DICE(i % 7 ? 90 : 700)};
        struct size to = {1 + DICE(i % 3 ? 60 : 230), 1 + DICE(60)};
        double box[4] = {0, 0, from.width, from.height};
        uint8_t *source = picture_pixels(from.width, from.height + 6, 3, (unsigned)i);
        size_t size = (size_t)to.width * (size_t)to.height * 3;
        uint8_t *plain = malloc(size), *fast = malloc(size);
        bool mirror = i & 1;
        double worst;
        if (i % 4 == 3) { /* a box between pixels, as after scaling in the DCT */
            box[0] = DICE(from.width * 8) / 8.0;
            box[1] = DICE(from.height * 8) / 8.0;
            box[2] = box[0] + (from.width - box[0]) * (1 + DICE(8)) / 8.0;
            box[3] = box[1] + (from.height - box[1]) * (1 + DICE(8)) / 8.0;
        }
        run(RESIZE_PLAIN, source, from, box, to, plain, mirror);
        run(RESIZE_FASTEST, source, from, box, to, fast, mirror);
        cr_assert(memcmp(plain, fast, size) == 0, "%dx%d to %dx%d", from.width, from.height,
                  to.width, to.height);
        worst = distance(source, from, box, to, plain, mirror);
        cr_assert(worst < 0.6, "%f: %dx%d [%f %f %f %f] to %dx%d", worst, from.width, from.height,
                  box[0], box[1], box[2], box[3], to.width, to.height);
        free(source);
        free(plain);
        free(fast);
    }
}

Test(image_resize, the_same_size_is_a_copy_and_flat_stays_flat)
{
    struct size size = {61, 37}, large = {500, 333};
    double box[4] = {0, 0, 61, 37};
    uint8_t *source = picture_pixels(61, 38, 3, 9), *out = malloc((size_t)500 * 333 * 3);

    run(RESIZE_FASTEST, source, size, box, size, out, false);
    cr_assert(memcmp(source, out, (size_t)61 * 37 * 3) == 0);
    for (int value = 0; value < 256; value += 15) {
        memset(source, value, (size_t)61 * 38 * 3);
        run(RESIZE_FASTEST, source, size, box, large, out, false);
        for (int i = 0; i < 500 * 333 * 3; i++)
            cr_assert_eq(out[i], value);
        run(RESIZE_PLAIN, source, size, box, (struct size){7, 5}, out, false);
        for (int i = 0; i < 7 * 5 * 3; i++)
            cr_assert_eq(out[i], value);
    }
    free(source);
    free(out);
}

/* What a window of a resized picture needs of the source is what the whole would have used. */
Test(image_resize, a_window_is_a_part_of_the_whole)
{
    struct size from = {137, 90}, to = {64, 50};
    double box[4] = {0, 0, 137, 90};
    uint8_t *source = picture_pixels(137, 91, 3, 4), *whole = malloc(64 * 50 * 3);
    uint8_t window[20 * 10 * 3];
    struct resizer *resizer;
    struct resize_axis *columns, *rows;

    run(RESIZE_FASTEST, source, from, box, to, whole, false);
    cr_assert_eq(resizer_open(&resizer, RESIZE_FASTEST), 0);
    columns = resizer_columns(resizer);
    rows = resizer_rows(resizer);
    resize_axis_set(columns, 0, 137, 137, 64, 33, 20, RESIZE_BITS_COLUMNS);
    resize_axis_set(rows, 0, 90, 90, 50, 17, 10, RESIZE_BITS_ROWS);
    cr_assert(columns->first > 60 && columns->last < 120 && rows->first > 25 && rows->last < 55);
    cr_assert_eq(resizer_run(resizer, source + (rows->first * 137 + columns->first) * 3, 137 * 3,
                             window, false),
                 0);
    for (int y = 0; y < 10; y++)
        cr_assert(memcmp(window + y * 60, whole + ((17 + y) * 64 + 33) * 3, 60) == 0);
    resizer_close(resizer);
    free(source);
    free(whole);
}

static float half_to_float(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    float value = exponent == 0    ? ldexpf((float)fraction, -24)
                  : exponent == 31 ? (fraction ? NAN : INFINITY)
                                   : ldexpf((float)(1024 + fraction), exponent - 25);
    return half & 0x8000 ? -value : value;
}

Test(image_pixels, halves_are_the_nearest)
{
    cr_assert_eq(pixels_half(0), 0);
    cr_assert_eq(pixels_half(-0.0f), 0x8000);
    cr_assert_eq(pixels_half(65519.996f), 0x7bff);
    cr_assert_eq(pixels_half(65520), 0x7c00);
    cr_assert_eq(pixels_half(-INFINITY), 0xfc00);
    cr_assert((pixels_half(NAN) & 0x7fff) > 0x7c00);
    for (unsigned half = 0; half < 0x7c00; half++) {
        float value = half_to_float((uint16_t)half);
        float next = half == 0x7bff ? 65536 : half_to_float((uint16_t)(half + 1));
        float middle = (value + next) / 2;
        cr_assert_eq(pixels_half(value), half);
        cr_assert_eq(pixels_half(-value), half | 0x8000);
        cr_assert_eq(pixels_half(nextafterf(middle, 0)), half);
        cr_assert_eq(pixels_half(nextafterf(middle, INFINITY)), half + 1);
        cr_assert_eq(pixels_half(middle), half + (half & 1)); /* a tie: to even */
    }
}

Test(image_pixels, planes_hold_normalised_values_wherever_they_begin)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};
    static struct pixels_table table;
    enum { MOST = 100 };
    uint8_t *rgb = picture_pixels(MOST, 1, 3, 5), bytes[MOST * 3];
    _Alignas(64) float floats[MOST * 3 + 8];
    _Alignas(64) uint16_t halves[MOST * 3 + 8];

    pixels_table_fill(&table, mean, deviation);
    for (size_t count = 0; count <= MOST; count++)
        for (size_t shift = 0; shift < 4; shift++) {
            floats[shift + 3 * count] = 42;
            halves[shift + 3 * count] = 42;
            pixels_to_floats(floats + shift, rgb, count, &table);
            pixels_to_halves(halves + shift, rgb, count, &table);
            for (size_t i = 0; i < count * 3; i++) {
                size_t c = i / count;
                volatile float step = (float)rgb[(i % count) * 3 + c] / 255.0f;
                step = step - mean[c];
                step = step / deviation[c];
                cr_assert(floats[shift + i] == step);
                cr_assert_eq(halves[shift + i], pixels_half(step));
            }
            cr_assert(floats[shift + 3 * count] == 42 && halves[shift + 3 * count] == 42);
        }
    pixels_to_bytes(bytes, rgb, MOST);
    cr_assert(memcmp(bytes, rgb, sizeof bytes) == 0);
    free(rgb);
}

/* The vector code divides by multiplying: for any divisor it must end up with the table's values,
 * if only by not being used. */
Test(image_pixels, vector_and_table_agree_for_any_mean_and_deviation)
{
    static struct pixels_table table;
    _Alignas(64) static float floats[3 * 256];
    _Alignas(64) static uint16_t halves[3 * 256];
    uint8_t rgb[3 * 256];
    unsigned dice = 5;
    int computed = 0;

    for (int i = 0; i < 3 * 256; i++)
        rgb[i] = (uint8_t)(i / 3);
    for (int round = 0; round < 2000; round++) {
        float mean[3], deviation[3];
        for (int c = 0; c < 3; c++) {
            dice = dice * 1664525u + 1013904223u;
            mean[c] = round == 0 ? 0 : (float)(dice >> 8) * 0x1p-24f;
            dice = dice * 1664525u + 1013904223u;
            deviation[c] = round == 0 ? 1 : round == 1 ? 0 : (float)((dice >> 8) + 1) * 0x1p-24f;
        }
        pixels_table_fill(&table, mean, deviation);
        computed += table.computed;
        pixels_to_floats(floats, rgb, 256, &table);
        pixels_to_halves(halves, rgb, 256, &table);
        cr_assert(memcmp(floats, table.floats, sizeof floats) == 0);
        cr_assert(memcmp(halves, table.halves, sizeof halves) == 0);
    }
    printf("vector code used for %d of 2000\n", computed);
}
