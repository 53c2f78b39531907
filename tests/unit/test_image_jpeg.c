/* Parts of JPEG files against libjpeg's whole, and files that are not as they should be. */
#include "unit.h"

#include "../../loader/jpeg.h"
#include "picture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct image_recipe limits = {.pixels_most = 1 << 22, .scans_most = 50};

#define DICE(n) (dice = dice * 1664525u + 1013904223u, (int)((dice >> 8) % (unsigned)(n)))

static const struct {
    const char *name;
    struct picture_jpeg how;
} kinds[] = {
    {"4:4:4", {3, 1, 1, false, false, false, 0}},
    {"4:2:2", {3, 2, 1, false, false, false, 0}},
    {"4:2:0", {3, 2, 2, false, false, false, 0}},
    {"4:4:0", {3, 1, 2, false, false, false, 0}},
    {"4:1:1", {3, 4, 1, false, false, false, 0}},
    {"4:1:0", {3, 4, 2, false, false, false, 0}},
    {"RGB", {3, 1, 1, false, true, false, 0}},
    {"grey", {1, 1, 1, false, false, false, 0}},
    {"grey, sampled 2x2", {1, 2, 2, false, false, false, 0}},
    {"progressive 4:2:0", {3, 2, 2, false, false, true, 0}},
    {"progressive grey", {1, 1, 1, false, false, true, 0}},
    {"4:2:0, restarts", {3, 2, 2, false, false, false, 1}},
    {"4:2:2, restarts", {3, 2, 1, false, false, false, 2}},
};

/* libjpeg 6b's descendants differ at the edges of a part in many ways: here, not in one byte. */
Test(image_jpeg, any_part_at_any_scale_is_the_whole_cropped)
{
    struct image_jpeg *jpeg;
    unsigned dice = 3;

    cr_assert_eq(image_jpeg_open(&jpeg, &limits), 0);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (int i = 0; i < 60; i++) {
            int width = 1 + DICE(i % 4 ? 150 : 40), height = 1 + DICE(i % 4 ? 130 : 40);
            int denominator = 1 << (i % 4), whole_width, whole_height;
            uint8_t *pixels = picture_pixels(width, height, kinds[kind].how.channels, dice);
            struct picture_file file = picture_jpeg(pixels, width, height, &kinds[kind].how);
            uint8_t *whole = picture_decoded(&file, denominator, &whole_width, &whole_height);
            for (int part = 0; part < 6; part++) {
                struct image_report report = {0};
                struct format_picture picture;
                struct format_region region = {DICE(whole_width), DICE(whole_height), 0, 0};
                region.width = 1 + DICE(whole_width - region.x);
                region.height = 1 + DICE(whole_height - region.y);
                if (part == 0)
                    region = (struct format_region){0, 0, whole_width, whole_height};
                cr_assert_eq(image_jpeg_header(jpeg, file.bytes, file.size, &report), 0);
                cr_assert_eq(report.width, width);
                cr_assert_eq(image_jpeg_region(jpeg, denominator, &region, &picture, &report), 0,
                             "%s", report.why);
                cr_assert(!report.damaged && !report.why[0]);
                cr_assert(picture.width == region.width && picture.height == region.height);
                for (int y = 0; y < region.height; y++)
                    cr_assert(memcmp(picture.pixels + (size_t)y * picture.stride,
                                     whole + ((size_t)(region.y + y) * (size_t)whole_width +
                                              (size_t)region.x) *
                                                 3,
                                     (size_t)region.width * 3) == 0,
                              "%s %dx%d at 1/%d: %dx%d+%d+%d, row %d", kinds[kind].name, width,
                              height, denominator, region.width, region.height, region.x, region.y,
                              y);
            }
            free(pixels);
            free(file.bytes);
            free(whole);
        }
    image_jpeg_close(jpeg);
}

/* Four inks as Pillow reads them: inverted, whatever the Adobe marker says or whether it is there.
 * White paper is 255 in all four inks as stored. */
Test(image_jpeg, inks_become_rgb)
{
    static const uint8_t inks[4][4] = {
        {255, 255, 255, 255}, {0, 255, 255, 255}, {255, 255, 255, 0}, {100, 200, 50, 128}};
    static const uint8_t rgb[4][3] = {{255, 255, 255}, {0, 255, 255}, {0, 0, 0}, {50, 100, 25}};
    struct image_jpeg *jpeg;

    cr_assert_eq(image_jpeg_open(&jpeg, &limits), 0);
    for (int i = 0; i < 8; i++) {
        struct picture_jpeg how = {.channels = 4, .ycck = i >= 4};
        uint8_t pixels[16 * 16 * 4];
        struct picture_file file;
        struct image_report report = {0};
        struct format_picture picture;
        struct format_region region = {3, 5, 10, 7};
        for (int p = 0; p < 16 * 16; p++)
            memcpy(pixels + p * 4, inks[i % 4], 4);
        file = picture_jpeg(pixels, 16, 16, &how);
        cr_assert_eq(image_jpeg_header(jpeg, file.bytes, file.size, &report), 0);
        cr_assert_eq(report.components, 4);
        cr_assert_eq(image_jpeg_region(jpeg, 1, &region, &picture, &report), 0);
        for (int p = 0; p < 7 * 10; p++)
            for (int c = 0; c < 3; c++)
                cr_assert(abs(picture.pixels[(size_t)(p / 10) * picture.stride +
                                             (size_t)(p % 10 * 3 + c)] -
                              rgb[i % 4][c]) <= 3,
                          "%d: channel %d", i, c);
        free(file.bytes);
    }
    image_jpeg_close(jpeg);
}

static int decode_whole(struct image_jpeg *jpeg, const void *bytes, size_t size,
                        struct image_report *report)
{
    struct format_region region = {0, 0, 0, 0};
    struct format_picture picture;
    int error;

    *report = (struct image_report){0};
    error = image_jpeg_header(jpeg, bytes, size, report);
    if (error)
        return error;
    region.width = report->width;
    region.height = report->height;
    return image_jpeg_region(jpeg, 1, &region, &picture, report);
}

Test(image_jpeg, a_file_cut_anywhere_is_refused_or_called_damaged)
{
    struct image_jpeg *jpeg;
    struct image_report report;

    cr_assert_eq(image_jpeg_open(&jpeg, &limits), 0);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        uint8_t *pixels = picture_pixels(40, 24, kinds[kind].how.channels, 8);
        struct picture_file file = picture_jpeg(pixels, 40, 24, &kinds[kind].how);
        for (size_t size = 0; size < file.size; size++) {
            uint8_t *cut = malloc(size + 1); /* exact, so that a sanitizer sees a byte too far */
            int error;
            memcpy(cut, file.bytes, size);
            cut = realloc(cut, size ? size : 1);
            error = decode_whole(jpeg, cut, size, &report);
            cr_assert(error == -EBADMSG || (error == 0 && report.damaged), "%s at %zu: %d",
                      kinds[kind].name, size, error);
            cr_assert(report.why[0] != '\0');
            free(cut);
        }
        cr_assert_eq(decode_whole(jpeg, file.bytes, file.size, &report), 0);
        cr_assert(!report.damaged);
        free(pixels);
        free(file.bytes);
    }
    image_jpeg_close(jpeg);
}

static size_t find_marker(const struct picture_file *file, uint8_t marker)
{
    size_t at = 2;

    while (file->bytes[at + 1] != marker)
        at += 2 + ((size_t)file->bytes[at + 2] << 8 | file->bytes[at + 3]);
    return at;
}

Test(image_jpeg, bombs_are_refused)
{
    struct image_recipe narrow = limits;
    struct image_jpeg *jpeg;
    struct image_report report;
    struct picture_jpeg how = {.channels = 3, .h = 2, .v = 2, .progressive = true};
    uint8_t *pixels = picture_pixels(64, 64, 3, 1);
    struct picture_file file = picture_jpeg(pixels, 64, 64, &how);
    size_t frame = find_marker(&file, 0xc2), last = file.size - 2;
    uint8_t size[4], *scan;
    size_t length;

    narrow.scans_most = 40;
    cr_assert_eq(image_jpeg_open(&jpeg, &narrow), 0);
    memcpy(size, file.bytes + frame + 5, 4);
    memcpy(file.bytes + frame + 5, "\xff\xdc\xff\xdc", 4);
    cr_assert_eq(decode_whole(jpeg, file.bytes, file.size, &report), -EFBIG);
    cr_assert(report.width == 65500 && report.height == 65500);
    memcpy(file.bytes + frame + 5, size, 4);
    cr_assert_eq(decode_whole(jpeg, file.bytes, file.size, &report), 0);
    cr_assert(!report.damaged);
    /* The last scan a hundred times over. */
    while (file.bytes[last] != 0xff || file.bytes[last + 1] != 0xda)
        last--;
    length = file.size - 2 - last;
    scan = malloc(length);
    memcpy(scan, file.bytes + last, length);
    for (int i = 0; i < 100; i++)
        picture_insert(&file, last, scan, length);
    cr_assert_eq(decode_whole(jpeg, file.bytes, file.size, &report), -EFBIG);
    cr_assert(strstr(report.why, "scans"), "%s", report.why);
    free(scan);
    free(pixels);
    free(file.bytes);
    image_jpeg_close(jpeg);
}

/* A wrong byte anywhere: whatever it does, it ends, and the next picture is right. */
Test(image_jpeg, wrong_bytes_do_not_outlive_their_picture)
{
    struct image_jpeg *jpeg;
    struct image_report report;
    unsigned dice = 17;

    cr_assert_eq(image_jpeg_open(&jpeg, &limits), 0);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        uint8_t *pixels = picture_pixels(50, 34, kinds[kind].how.channels, 8);
        struct picture_file file = picture_jpeg(pixels, 50, 34, &kinds[kind].how);
        for (int i = 0; i < 300; i++) {
            size_t at = 2 + (size_t)DICE(file.size - 2);
            uint8_t was = file.bytes[at];
            int error;
            file.bytes[at] = (uint8_t)DICE(256);
            error = decode_whole(jpeg, file.bytes, file.size, &report);
            cr_assert(error == 0 || error == -EBADMSG || error == -EFBIG);
            file.bytes[at] = was;
        }
        cr_assert_eq(decode_whole(jpeg, file.bytes, file.size, &report), 0);
        cr_assert(!report.damaged);
        free(pixels);
        free(file.bytes);
    }
    image_jpeg_close(jpeg);
}
