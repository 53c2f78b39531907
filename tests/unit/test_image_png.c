/* PNG of every kind, whole and in part, and files that are not as they should be. */
#include "unit.h"

#include "../../loader/png.h"
#include "picture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

static const struct image_recipe limits = {.pixels_most = 1 << 22, .scans_most = 50};

static const struct {
    int colour, depth, samples, components;
} kinds[] = {
    {PNG_COLOR_TYPE_GRAY, 1, 1, 1},        {PNG_COLOR_TYPE_GRAY, 2, 1, 1},
    {PNG_COLOR_TYPE_GRAY, 4, 1, 1},        {PNG_COLOR_TYPE_GRAY, 8, 1, 1},
    {PNG_COLOR_TYPE_GRAY, 16, 1, 1},       {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 2, 2},
    {PNG_COLOR_TYPE_GRAY_ALPHA, 16, 2, 2}, {PNG_COLOR_TYPE_RGB, 8, 3, 3},
    {PNG_COLOR_TYPE_RGB, 16, 3, 3},        {PNG_COLOR_TYPE_RGB_ALPHA, 8, 4, 4},
    {PNG_COLOR_TYPE_RGB_ALPHA, 16, 4, 4},  {PNG_COLOR_TYPE_PALETTE, 1, 1, 3},
    {PNG_COLOR_TYPE_PALETTE, 4, 1, 3},     {PNG_COLOR_TYPE_PALETTE, 8, 1, 3},
};

static size_t row_bytes(size_t kind, int width)
{
    return ((size_t)width * (size_t)kinds[kind].samples * (size_t)kinds[kind].depth + 7) / 8;
}

/* Sample `c` of a pixel as stored, its upper 8 bits or all of fewer. */
static int sample(size_t kind, const uint8_t *row, int x, int c)
{
    int depth = kinds[kind].depth, bit = (x * kinds[kind].samples + c) * depth;

    if (depth >= 8)
        return row[bit / 8];
    return row[bit / 8] >> (8 - depth - bit % 8) & ((1 << depth) - 1);
}

static int expected(size_t kind, const uint8_t *row, int x, int c)
{
    int depth = kinds[kind].depth, value;

    if (kinds[kind].colour & PNG_COLOR_MASK_COLOR && kinds[kind].colour != PNG_COLOR_TYPE_PALETTE)
        return sample(kind, row, x, c);
    value = sample(kind, row, x, 0);
    if (kinds[kind].colour == PNG_COLOR_TYPE_PALETTE) /* as in picture.c */
        return c == 0 ? 255 - value : c == 1 ? value * 7 & 255 : value ^ 0x55;
    return depth < 8 ? value * 255 / ((1 << depth) - 1) : value;
}

static int decode(struct image_png *png, const void *bytes, size_t size,
                  struct format_region region, struct format_picture *picture,
                  struct image_report *report)
{
    int orientation, error;

    *report = (struct image_report){0};
    if ((error = image_png_header(png, bytes, size, &orientation, report)))
        return error;
    if (region.width == 0)
        region = (struct format_region){0, 0, report->width, report->height};
    return image_png_region(png, &region, picture, report);
}

Test(image_png, every_kind_whole_and_in_part)
{
    struct image_png *png;
    struct image_report report;
    struct format_picture picture;
    enum { WIDTH = 37, HEIGHT = 29 };

    cr_assert_eq(image_png_open(&png, &limits), 0);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (int interlaced = 0; interlaced < 2; interlaced++) {
            struct picture_png how = {kinds[kind].colour, kinds[kind].depth, interlaced};
            uint8_t *pixels = picture_pixels(WIDTH, HEIGHT, 8, (unsigned)kind);
            struct picture_file file = picture_png(pixels, WIDTH, HEIGHT, &how);
            for (int part = 0; part < 4; part++) {
                struct format_region region = {part * 5, part * 7, WIDTH - part * 8,
                                               HEIGHT - part * 9};
                cr_assert_eq(decode(png, file.bytes, file.size, region, &picture, &report), 0, "%s",
                             report.why);
                cr_assert(report.width == WIDTH && report.height == HEIGHT &&
                          report.components == kinds[kind].components && !report.damaged);
                for (int y = 0; y < region.height; y++)
                    for (int i = 0; i < region.width * 3; i++) {
                        const uint8_t *row = pixels +
                                             (size_t)(region.y + y) * row_bytes(kind, WIDTH);
                        cr_assert_eq(picture.pixels[(size_t)y * picture.stride + (size_t)i],
                                     expected(kind, row, region.x + i / 3, i % 3),
                                     "colour %d depth %d: %d, %d", how.colour, how.depth, i, y);
                    }
            }
            free(pixels);
            free(file.bytes);
        }
    image_png_close(png);
}

Test(image_png, a_file_cut_anywhere_is_refused_or_called_damaged)
{
    struct image_png *png;
    struct image_report report;
    struct format_picture picture;
    struct format_region whole = {0, 0, 0, 0};

    cr_assert_eq(image_png_open(&png, &limits), 0);
    for (int interlaced = 0; interlaced < 2; interlaced++) {
        struct picture_png how = {PNG_COLOR_TYPE_RGB, 8, interlaced};
        uint8_t *pixels = picture_pixels(20, 14, 3, 8);
        struct picture_file file = picture_png(pixels, 20, 14, &how);
        for (size_t size = 0; size < file.size; size++) {
            uint8_t *cut = malloc(size ? size : 1);
            int error;
            memcpy(cut, file.bytes, size);
            error = decode(png, cut, size, whole, &picture, &report);
            cr_assert(error == -EBADMSG || (error == 0 && report.damaged), "at %zu: %d", size,
                      error);
            cr_assert(report.why[0] != '\0');
            free(cut);
        }
        /* And a wrong bit anywhere: the checksums tell, but in chunks that nobody reads. */
        for (size_t at = 0; at < file.size; at++) {
            int error;
            file.bytes[at] ^= 4;
            error = decode(png, file.bytes, file.size, whole, &picture, &report);
            cr_assert(error == -EBADMSG || error == 0 || error == -EFBIG, "at %zu: %d", at, error);
            file.bytes[at] ^= 4;
        }
        cr_assert_eq(decode(png, file.bytes, file.size, whole, &picture, &report), 0);
        cr_assert(!report.damaged);
        free(pixels);
        free(file.bytes);
    }
    image_png_close(png);
}

/* Sizes that a header only claims, as bombs do. */
Test(image_png, bombs_are_refused)
{
    static const uint8_t sizes[4][8] = {{0, 1, 0, 0, 0, 0, 0, 1}, /* 65536 x 1 */
                                        {0, 0, 8, 1, 0, 0, 8, 0}, /* 2049 x 2048: 2^22 + */
                                        {0x7f, 255, 255, 255, 0, 0, 0, 1},
                                        {0, 0, 255, 255, 0, 0, 255, 255}};
    struct image_png *png;
    struct image_report report;
    struct format_picture picture;
    struct picture_png how = {PNG_COLOR_TYPE_RGB, 8, true};
    uint8_t *pixels = picture_pixels(8, 8, 3, 8);
    struct picture_file file = picture_png(pixels, 8, 8, &how);

    cr_assert_eq(image_png_open(&png, &limits), 0);
    for (int i = 0; i < 4; i++) {
        png_uint_32 sum = 0xffffffff;
        memcpy(file.bytes + 16, sizes[i], 8);
        for (int at = 12; at < 29; at++) { /* CRC-32 of the IHDR chunk */
            sum ^= file.bytes[at];
            for (int bit = 0; bit < 8; bit++)
                sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
        }
        png_save_uint_32(file.bytes + 29, ~sum);
        cr_assert_eq(decode(png, file.bytes, file.size, (struct format_region){0, 0, 0, 0},
                            &picture, &report),
                     -EFBIG);
        cr_assert(strstr(report.why, "pixels"), "%s", report.why);
    }
    free(pixels);
    free(file.bytes);
    image_png_close(png);
}
