/* Smaller pictures: sizes, orientation, colours, what is left as it is. */
#include "picture.h"
#include "unit.h"

#include "../../loader/shrink.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

static struct shrink *open_shrink(int short_side, bool png)
{
    struct shrink_settings settings = {short_side, 90, png};
    struct shrink *shrink;

    cr_assert_eq(shrink_open(&shrink, &settings), 0);
    return shrink;
}

static struct picture_file jpeg(int width, int height, const struct picture_jpeg *how)
{
    uint8_t *pixels = picture_pixels(width, height, how->channels, 7);
    struct picture_file file = picture_jpeg(pixels, width, height, how);

    free(pixels);
    return file;
}

static const struct picture_jpeg colour = {.channels = 3, .h = 2, .v = 2};

static struct picture_file made(const struct shrink_result *result)
{
    return (struct picture_file){(unsigned char *)result->bytes, result->size};
}

Test(shrink, the_short_side_is_brought_down_and_the_shape_kept)
{
    static const int sizes[][4] = {
        {500, 375, 320, 240}, {375, 500, 240, 320}, {241, 900, 240, 896}, {2000, 1500, 320, 240}};
    struct shrink *shrink = open_shrink(240, false);

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct picture_file file = jpeg(sizes[i][0], sizes[i][1], &colour), small;
        struct shrink_result result;
        int width, height;
        uint8_t *pixels;
        cr_assert_eq(shrink_picture(shrink, file.bytes, file.size, &result), 0);
        cr_assert_eq(result.outcome, SHRINK_MADE, "%s", result.report.why);
        small = made(&result);
        pixels = picture_decoded(&small, 1, &width, &height);
        cr_assert(width == sizes[i][2] && height == sizes[i][3], "%dx%d", width, height);
        free(pixels);
        free(file.bytes);
    }
    shrink_close(shrink);
}

Test(shrink, what_is_small_enough_is_left_alone)
{
    struct picture_file file = jpeg(320, 240, &colour);
    struct shrink *shrink = open_shrink(240, true);
    struct shrink_result result;

    cr_assert_eq(shrink_picture(shrink, file.bytes, file.size, &result), 0);
    cr_assert_eq(result.outcome, SHRINK_KEPT);
    /* So is a turned one: its orientation stays in the file. */
    picture_orient(&file, 6, false);
    cr_assert_eq(shrink_picture(shrink, file.bytes, file.size, &result), 0);
    cr_assert_eq(result.outcome, SHRINK_KEPT);
    free(file.bytes);
    shrink_close(shrink);
}

/* Mean of a corner's quarter, all channels. */
static int corner(const uint8_t *rgb, int width, int height, int x, int y)
{
    uint64_t sum = 0;

    for (int r = 0; r < height / 2; r++)
        for (int c = 0; c < width / 2 * 3; c++)
            sum += rgb[((size_t)(r + y * (height - height / 2)) * (size_t)width +
                        (size_t)(x * (width - width / 2))) *
                           3 +
                       (size_t)c];
    return (int)(sum / (uint64_t)(height / 2 * (width / 2 * 3)));
}

Test(shrink, turned_pictures_come_out_upright)
{
    /* Where the stored corners 0 (top left), 1 (top right), 2, 3 (bottom) are when upright. */
    static const int places[9][4] = {{0},          {0, 1, 2, 3}, {1, 0, 3, 2},
                                     {3, 2, 1, 0}, {2, 3, 0, 1}, {0, 2, 1, 3},
                                     {1, 3, 0, 2}, {3, 1, 2, 0}, {2, 0, 3, 1}};
    static const int levels[4] = {20, 90, 160, 230};
    struct shrink *shrink = open_shrink(100, false);
    uint8_t *pixels = malloc((size_t)300 * 200 * 3);

    for (size_t y = 0; y < 200; y++)
        for (size_t x = 0; x < 300; x++)
            memset(pixels + (y * 300 + x) * 3, levels[(y >= 100) * 2 + (x >= 150)], 3);
    for (int orientation = 1; orientation <= 8; orientation++) {
        struct picture_file file = picture_jpeg(pixels, 300, 200, &colour), small;
        struct shrink_result result;
        int width, height;
        uint8_t *upright;
        picture_orient(&file, orientation, orientation & 1);
        cr_assert_eq(shrink_picture(shrink, file.bytes, file.size, &result), 0);
        cr_assert_eq(result.outcome, SHRINK_MADE);
        small = made(&result);
        upright = picture_decoded(&small, 1, &width, &height);
        cr_assert_eq(width, orientation < 5 ? 150 : 100);
        cr_assert_eq(height, orientation < 5 ? 100 : 150);
        for (int stored = 0; stored < 4; stored++) {
            int place = places[orientation][stored];
            int level = corner(upright, width, height, place & 1, place >> 1);
            cr_assert(abs(level - levels[stored]) < 5, "orientation %d, corner %d: %d", orientation,
                      stored, level);
        }
        free(upright);
        free(file.bytes);
    }
    free(pixels);
    shrink_close(shrink);
}

/* Components as the file's frame header says. */
static int components(const struct shrink_result *result)
{
    for (size_t i = 2; i + 9 < result->size; i++)
        if (result->bytes[i] == 0xff && result->bytes[i + 1] == 0xc0)
            return result->bytes[i + 9];
    return -1;
}

Test(shrink, grey_stays_grey_and_inks_become_colours)
{
    static const struct picture_jpeg grey = {.channels = 1, .h = 1, .v = 1},
                                     inks = {.channels = 4, .h = 1, .v = 1},
                                     ycck = {.channels = 4, .h = 2, .v = 2, .ycck = true};
    const struct picture_jpeg *hows[] = {&grey, &colour, &inks, &ycck};
    struct shrink *shrink = open_shrink(64, false);

    for (size_t i = 0; i < 4; i++) {
        struct picture_file file = jpeg(200, 150, hows[i]);
        struct shrink_result result;
        cr_assert_eq(shrink_picture(shrink, file.bytes, file.size, &result), 0);
        cr_assert_eq(result.outcome, SHRINK_MADE);
        cr_assert_eq(components(&result), i == 0 ? 1 : 3);
        free(file.bytes);
    }
    shrink_close(shrink);
}

Test(shrink, pngs_become_jpegs_on_request_alone)
{
    uint8_t *pixels = picture_pixels(100, 80, 3, 3);
    static const struct picture_png how = {PNG_COLOR_TYPE_RGB, 8, false};
    struct picture_file file = picture_png(pixels, 100, 80, &how), jpeg_file;
    struct shrink *keep = open_shrink(64, false), *convert = open_shrink(0, true);
    struct shrink_result result;
    int width, height;
    long difference = 0;
    uint8_t *again;

    cr_assert_eq(shrink_picture(keep, file.bytes, file.size, &result), 0);
    cr_assert_eq(result.outcome, SHRINK_OTHER);
    cr_assert_eq(shrink_picture(convert, file.bytes, file.size, &result), 0);
    cr_assert_eq(result.outcome, SHRINK_MADE);
    jpeg_file = made(&result);
    again = picture_decoded(&jpeg_file, 1, &width, &height);
    cr_assert(width == 100 && height == 80);
    for (size_t i = 0; i < (size_t)100 * 80 * 3; i++)
        difference += abs(again[i] - pixels[i]);
    cr_assert(difference < 12L * 100 * 80 * 3, "%ld", difference / (100 * 80 * 3));
    free(again);
    free(pixels);
    free(file.bytes);
    shrink_close(keep);
    shrink_close(convert);
}

Test(shrink, damage_is_told_and_nothing_made_of_it)
{
    struct picture_file file = jpeg(400, 300, &colour);
    struct shrink *shrink = open_shrink(100, false);
    struct shrink_result result;

    cr_assert_eq(shrink_picture(shrink, file.bytes, file.size / 2, &result), 0);
    cr_assert_eq(result.outcome, SHRINK_DAMAGED, "cut short");
    cr_assert(result.report.why[0]);
    cr_assert_eq(shrink_picture(shrink, file.bytes, 10, &result), 0);
    cr_assert_eq(result.outcome, SHRINK_DAMAGED, "a start alone");
    cr_assert_eq(shrink_picture(shrink, "", 0, &result), 0);
    cr_assert_eq(result.outcome, SHRINK_DAMAGED, "empty");
    cr_assert_eq(shrink_picture(shrink, "hello, world", 12, &result), 0);
    cr_assert_eq(result.outcome, SHRINK_DAMAGED, "no picture");
    cr_assert_eq(shrink_picture(shrink, "GIF89a......", 12, &result), 0);
    cr_assert_eq(result.outcome, SHRINK_OTHER);
    cr_assert_eq(shrink_picture(shrink, file.bytes, file.size, &result), 0);
    cr_assert_eq(result.outcome, SHRINK_MADE, "the next one is none the worse");
    free(file.bytes);
    shrink_close(shrink);
}

Test(shrink, settings_out_of_range_are_refused)
{
    static const struct shrink_settings bad[] = {
        {-1, 90, false}, {16385, 90, false}, {320, 0, false}, {320, 101, false}};
    struct shrink *shrink;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(shrink_open(&shrink, &bad[i]) < 0);
}
