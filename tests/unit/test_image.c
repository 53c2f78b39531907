/* Whole files through image_decode(): formats, crops, orientation, keys, damage. */
#include "unit.h"

#include "../../loader/exif.h"
#include "../../loader/image.h"
#include "picture.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

static struct image_recipe stretch_to(int width, int height)
{
    return (struct image_recipe){.width = width,
                                 .height = height,
                                 .crop = IMAGE_STRETCH,
                                 .exact = true,
                                 .pixels_most = 1 << 22,
                                 .scans_most = 50};
}

static const struct image_recipe training = {.width = 32,
                                             .height = 24,
                                             .crop = IMAGE_RANDOM_RESIZED,
                                             .area_least = 0.08,
                                             .area_most = 1,
                                             .ratio_least = 0.75,
                                             .ratio_most = 4 / 3.0,
                                             .flip = 0.5,
                                             .orient = true,
                                             .pixels_most = 1 << 22,
                                             .scans_most = 50};

static const struct image_key no_key = {0, 0, 0};
static const struct picture_jpeg usual = {.channels = 3, .h = 2, .v = 2};

static int decode(const struct image_recipe *recipe, const void *bytes, size_t size,
                  const struct image_key *key, uint8_t *rgb, struct image_report *report)
{
    struct image_decoder *decoder;
    int error;

    cr_assert_eq(image_decoder_open(&decoder, recipe), 0);
    error = image_decode(decoder, bytes, size, key, rgb, report);
    image_decoder_close(decoder);
    return error;
}

Test(image, at_its_own_size_a_picture_is_what_libjpeg_makes_of_it)
{
    struct image_recipe recipe = stretch_to(77, 50);
    uint8_t *pixels = picture_pixels(77, 50, 3, 2), *whole, rgb[77 * 50 * 3];
    struct picture_file file = picture_jpeg(pixels, 77, 50, &usual);
    struct image_report report;
    int width, height;

    whole = picture_decoded(&file, 1, &width, &height);
    cr_assert_eq(decode(&recipe, file.bytes, file.size, &no_key, rgb, &report), 0);
    cr_assert(memcmp(rgb, whole, sizeof rgb) == 0);
    cr_assert(report.width == 77 && report.height == 50 && report.components == 3);
    cr_assert_str_eq(report.format, "jpeg");
    cr_assert(!report.damaged && !report.why[0]);
    free(pixels);
    free(whole);
    free(file.bytes);
}

/* A picture as a camera that is held in this orientation stores it; w x h when upright. */
static void store_turned(const uint8_t *upright, int w, int h, int orientation, uint8_t *stored)
{
    int width = orientation >= 5 ? h : w;

    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int right = w - 1 - x, low = h - 1 - y;
            int row[] = {0, y, y, low, low, x, right, right, x};
            int column[] = {0, x, right, right, x, y, y, low, low};
            memcpy(stored + (size_t)3 * (size_t)(row[orientation] * width + column[orientation]),
                   upright + (size_t)3 * (size_t)(y * w + x), 3);
        }
}

/* Every orientation of every upright picture gives that picture: pixel (x, y) of the upright one
 * is where the standard says. */
Test(image, orientation_is_undone)
{
    enum { W = 21, H = 13 };
    struct image_recipe recipe = stretch_to(W, H);
    uint8_t *upright = picture_pixels(W, H, 3, 6), rgb[W * H * 3];
    struct picture_png lossless = {PNG_COLOR_TYPE_RGB, 8, false};
    struct image_report report;

    recipe.orient = true;
    for (int orientation = 1; orientation <= 8; orientation++) {
        bool swap = orientation >= 5;
        int width = swap ? H : W, height = swap ? W : H;
        uint8_t stored[W * H * 3], tiff[38], crc[4];
        struct picture_file file;
        png_uint_32 sum = 0xffffffff;
        store_turned(upright, W, H, orientation, stored);
        file = picture_png(stored, width, height, &lossless);
        memcpy(tiff,
               "\0\0\0\x1a"
               "eXIf"
               "MM\0*\0\0\0\x08"
               "\0\1"
               "\1\x12\0\3\0\0\0\1\0\0\0\0"
               "\0\0\0\0",
               34);
        tiff[27] = (uint8_t)orientation;
        for (int at = 4; at < 34; at++) {
            sum ^= tiff[at];
            for (int bit = 0; bit < 8; bit++)
                sum = sum >> 1 ^ (sum & 1 ? 0xedb88320 : 0);
        }
        png_save_uint_32(crc, ~sum);
        memcpy(tiff + 34, crc, 4);
        picture_insert(&file, 33, tiff, sizeof tiff); /* after IHDR */
        cr_assert_eq(decode(&recipe, file.bytes, file.size, &no_key, rgb, &report), 0, "%s",
                     report.why);
        cr_assert(memcmp(rgb, upright, sizeof rgb) == 0, "orientation %d", orientation);
        free(file.bytes);
    }
    free(upright);
}

/* The same crop of a JPEG that is stored turned and of one that is not: as torchvision crops after
 * ImageOps.exif_transpose. */
Test(image, crops_are_of_the_upright_picture)
{
    enum { W = 120, H = 88 };
    uint8_t *upright = picture_pixels(W, H, 3, 3), *stored = malloc(W * H * 3);
    struct picture_jpeg how = {.channels = 3, .h = 1, .v = 1};
    struct picture_file plain = picture_jpeg(upright, W, H, &how);
    uint8_t one[32 * 24 * 3], two[32 * 24 * 3];
    struct image_report report;

    for (int exact = 0; exact < 2; exact++)
        for (int orientation = 1; orientation <= 8; orientation++) {
            bool swap = orientation >= 5;
            int width = swap ? H : W, height = swap ? W : H;
            struct picture_file file;
            store_turned(upright, W, H, orientation, stored);
            file = picture_jpeg(stored, width, height, &how);
            picture_orient(&file, orientation, orientation & 1);
            for (uint64_t i = 0; i < 40; i++) {
                struct image_recipe recipe = training;
                struct image_key key = {1, 2, i};
                double difference = 0;
                recipe.exact = exact;
                cr_assert_eq(decode(&recipe, plain.bytes, plain.size, &key, one, &report), 0);
                cr_assert_eq(decode(&recipe, file.bytes, file.size, &key, two, &report), 0);
                for (size_t p = 0; p < sizeof one; p++)
                    difference += abs(one[p] - two[p]);
                /* W and H are whole blocks of 8, so that only the codec's rounding is between. */
                cr_assert(difference / sizeof one < 1.5, "orientation %d, key %d: %f", orientation,
                          (int)i, difference / sizeof one);
            }
            free(file.bytes);
        }
    free(upright);
    free(stored);
    free(plain.bytes);
}

/* The test picture is noise and edges, the worst there is for it: photographs differ by 0.5 on
 * average. A shift would show as a difference between straight and turned, a bias in the sum. */
Test(image, scaling_in_the_dct_changes_little)
{
    uint8_t *pixels = picture_pixels(611, 433, 3, 3);
    struct picture_file file = picture_jpeg(pixels, 611, 433, &usual);
    uint8_t exact[64 * 48 * 3], scaled[64 * 48 * 3];
    struct image_report report;

    for (int i = 0; i < 3; i++) {
        struct image_recipe recipe = stretch_to(64, 48);
        double difference = 0, bias = 0;
        if (i == 1)
            recipe.crop = IMAGE_CENTRE, recipe.shorter = 70;
        if (i == 2)
            recipe.orient = true, picture_orient(&file, 3, true);
        cr_assert_eq(decode(&recipe, file.bytes, file.size, &no_key, exact, &report), 0);
        recipe.exact = false;
        cr_assert_eq(decode(&recipe, file.bytes, file.size, &no_key, scaled, &report), 0);
        for (size_t p = 0; p < sizeof exact; p++) {
            difference += abs(exact[p] - scaled[p]);
            bias += exact[p] - scaled[p];
        }
        cr_assert(difference > 0 && difference / sizeof exact < 4 && bias / sizeof exact < 0.2 &&
                      bias / sizeof exact > -0.2,
                  "%d: %f, %f", i, difference / sizeof exact, bias / sizeof exact);
    }
    free(pixels);
    free(file.bytes);
}

struct worker {
    const struct picture_file *files;
    int first, step;
    uint8_t (*results)[32 * 24 * 3];
    int failed;
};
enum { FILES = 12, KEYS = 60 };

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct image_decoder *decoder;

    if (image_decoder_open(&decoder, &training)) {
        worker->failed = 1;
        return NULL;
    }
    for (int i = 0; i < KEYS; i++) {
        int at = (worker->first + i * worker->step) % KEYS;
        struct image_key key = {99, 7, (uint64_t)at};
        const struct picture_file *file = &worker->files[at % FILES];
        struct image_report report;
        worker->failed |= image_decode(decoder, file->bytes, file->size, &key, worker->results[at],
                                       &report) != 0;
    }
    image_decoder_close(decoder);
    return NULL;
}

Test(image, results_depend_on_bytes_and_key_not_on_decoder_thread_or_order)
{
    static uint8_t results[3][KEYS][32 * 24 * 3];
    struct picture_file files[FILES];
    struct worker workers[3];
    pthread_t threads[3];
    int same = 0;

    for (int i = 0; i < FILES; i++) {
        int width = 30 + i * 37 % 200, height = 20 + i * 53 % 180;
        struct picture_jpeg how = {.channels = i % 4 == 3 ? 1 : 3,
                                   .h = 1 + i % 2,
                                   .v = 1 + i / 6,
                                   .progressive = i % 3 == 1};
        struct picture_png lossless = {PNG_COLOR_TYPE_RGB, 8, i & 1};
        uint8_t *pixels = picture_pixels(width, height, 3, (unsigned)i);
        files[i] = i % 5 == 4 ? picture_png(pixels, width, height, &lossless)
                              : picture_jpeg(pixels, width, height, &how);
        free(pixels);
    }
    for (int i = 0; i < 3; i++) {
        static const int steps[] = {1, 59, 7}; /* forwards, backwards, about */
        workers[i] = (struct worker){files, i * 11, steps[i], results[i], 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        cr_assert(!workers[i].failed && memcmp(results[0], results[i], sizeof results[0]) == 0);
    for (int i = FILES; i < KEYS; i++) /* and other keys give other crops */
        same += memcmp(results[0][i], results[0][i - FILES], sizeof results[0][0]) == 0;
    cr_assert_eq(same, 0);
    for (int i = 0; i < FILES; i++)
        free(files[i].bytes);
}

Test(image, flip_mirrors_the_same_crop)
{
    uint8_t *pixels = picture_pixels(90, 70, 3, 3), straight[32 * 24 * 3], mirrored[32 * 24 * 3];
    struct picture_file file = picture_jpeg(pixels, 90, 70, &usual);
    struct image_report report;

    for (uint64_t i = 0; i < 20; i++) {
        struct image_recipe recipe = training;
        struct image_key key = {3, 3, i};
        recipe.flip = 0;
        cr_assert_eq(decode(&recipe, file.bytes, file.size, &key, straight, &report), 0);
        recipe.flip = 1;
        cr_assert_eq(decode(&recipe, file.bytes, file.size, &key, mirrored, &report), 0);
        for (int y = 0; y < 24; y++)
            for (int x = 0; x < 32; x++)
                cr_assert(
                    memcmp(straight + 3 * (y * 32 + x), mirrored + 3 * (y * 32 + 31 - x), 3) == 0);
    }
    free(pixels);
    free(file.bytes);
}

Test(image, formats_are_told_by_their_bytes)
{
    static const struct {
        const char *format, *bytes;
        int size, error;
    } files[] = {
        {"gif", "GIF89a\1\0\1\0", 10, -ENOTSUP},
        {"webp", "RIFF\x24\0\0\0WEBPVP8 ", 16, -ENOTSUP},
        {"tiff", "II*\0\x08\0\0\0", 8, -ENOTSUP},
        {"gzip", "\x1f\x8b\x08\0\0\0", 6, -ENOTSUP},
        {"bmp", "BM\x46\0\0\0\0\0\0\0\x36\0\0\0", 14, -ENOTSUP},
        {"avif",
         "\0\0\0\x20"
         "ftypavif",
         12, -ENOTSUP},
        {"html", "<!DOCTYPE html>", 15, -ENOTSUP},
        {"empty", "", 0, -EBADMSG},
        {"unknown", "garbage!\xff\xd8\xff\xe0", 12, -EBADMSG},
        {"jpeg", "\xff\xd8", 2, -EBADMSG},
        {"jpeg", "\xff\xd8\xff\xd9", 4, -EBADMSG},
        {"png", "\x89PNG\r\n\x1a\n", 8, -EBADMSG},
    };
    struct image_recipe recipe = stretch_to(8, 8);
    uint8_t rgb[8 * 8 * 3];
    struct image_report report;

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cr_assert_eq(decode(&recipe, files[i].bytes, (size_t)files[i].size, &no_key, rgb, &report),
                     files[i].error);
        cr_assert_str_eq(report.format, files[i].format);
        cr_assert(report.why[0] && !report.damaged && report.width == 0);
    }
}

/* What EXIF may say wrongly: then the picture is taken as it is stored. */
Test(image, broken_exif_is_no_orientation)
{
    static const struct {
        const char *tiff;
        int size, orientation;
    } blocks[] = {
        {"II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0", 22, 6},
        {"MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0", 22, 6},
        {"II*\0\x08\0\0\0\1\0\x12\1\4\0\1\0\0\0\6\0\0\0", 22, 6},     /* a LONG */
        {"II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\0\0\0\0", 22, 1},     /* 0 */
        {"II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\x09\0\0\0", 22, 1},   /* 9 */
        {"II*\0\x08\0\0\0\1\0\x12\1\2\0\1\0\0\0\6\0\0\0", 22, 1},     /* ASCII */
        {"II*\0\x08\0\0\0\1\0\x12\1\3\0\2\0\0\0\6\0\0\0", 22, 1},     /* two of them */
        {"II*\0\x08\0\0\0\xff\xff\x0f\1\3\0\1\0\0\0\6\0\0\0", 22, 1}, /* 65,535 entries */
        {"II*\0\xff\xff\xff\x7f\1\0\x12\1\3\0\1\0\0\0\6\0\0\0", 22, 1},
        {"II*\0\xff\xff\xff\xff\1\0\x12\1\3\0\1\0\0\0\6\0\0\0", 22, 1},
        {"II*\0\x14\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\1\0", 22, 1}, /* entry past the end */
        {"IM*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0", 22, 1},
        {"II*\0", 4, 1},
        {"", 0, 1},
    };

    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        for (int size = 0; size <= blocks[i].size; size++) {
            uint8_t *exact = malloc(size ? (size_t)size : 1), jpeg[64];
            int whole = size == blocks[i].size ? blocks[i].orientation : 1;
            memcpy(exact, blocks[i].tiff, (size_t)size);
            cr_assert_eq(exif_orientation_tiff(exact, (size_t)size), whole, "%zu", i);
            free(exact);
            /* With fill bytes before the marker and a COM before it. */
            memcpy(jpeg, "\xff\xd8\xff\xfe\0\3x\xff\xff\xff\xe1\0\0Exif\0\0", 19);
            jpeg[12] = (uint8_t)(size + 8);
            memcpy(jpeg + 19, blocks[i].tiff, (size_t)size);
            memcpy(jpeg + 19 + size, "\xff\xda", 2);
            cr_assert_eq(exif_orientation_jpeg(jpeg, (size_t)size + 21), whole, "%zu", i);
        }
}

Test(image, limits_and_damage_are_reported)
{
    struct image_recipe recipe = stretch_to(16, 16);
    uint8_t *pixels = picture_pixels(64, 48, 3, 3), rgb[16 * 16 * 3];
    struct picture_file file = picture_jpeg(pixels, 64, 48, &usual);
    struct image_report report;

    recipe.pixels_most = 64 * 48;
    cr_assert_eq(decode(&recipe, file.bytes, file.size, &no_key, rgb, &report), 0);
    cr_assert_eq(decode(&recipe, file.bytes, file.size * 6 / 10, &no_key, rgb, &report), 0);
    cr_assert(report.damaged && report.why[0]);
    recipe.pixels_most--;
    cr_assert_eq(decode(&recipe, file.bytes, file.size, &no_key, rgb, &report), -EFBIG);
    cr_assert(strstr(report.why, "64x48"));
    recipe.pixels_most = 0;
    cr_assert_eq(image_decoder_open(&(struct image_decoder *){NULL}, &recipe), -EINVAL);
    image_decoder_close(NULL);
    free(pixels);
    free(file.bytes);
}

Test(image, times_are_kept_when_asked_for)
{
    struct image_recipe recipe = stretch_to(16, 16);
    uint8_t *pixels = picture_pixels(64, 48, 3, 3), rgb[16 * 16 * 3];
    struct picture_file file = picture_jpeg(pixels, 64, 48, &usual);
    struct image_report report;
    struct image_times times = {5, 5};
    struct image_decoder *decoder;

    cr_assert_eq(image_decoder_open(&decoder, &recipe), 0);
    image_decode(decoder, file.bytes, file.size, &no_key, rgb, &report);
    image_decoder_times(decoder, &times);
    cr_assert(times.decode_ns == 0 && times.resize_ns == 0);
    image_decode(decoder, file.bytes, file.size, &no_key, rgb, &report);
    cr_assert(times.decode_ns > 0 && times.resize_ns > 0);
    image_decoder_times(decoder, NULL);
    image_decoder_close(decoder);
    free(pixels);
    free(file.bytes);
}

static size_t find_bytes(const struct picture_file *file, const char *what)
{
    size_t at = 0;

    while (memcmp(file->bytes + at, what, 2) != 0)
        at++;
    return at;
}

/* Bytes that files in the wild have and that change no pixel: nobody is to be told of them. */
Test(image, odd_but_sound_files_decode_without_complaint)
{
    enum { W = 60, H = 44 };
    struct image_recipe recipe = stretch_to(W, H);
    uint8_t *pixels = picture_pixels(W, H, 3, 3);
    static uint8_t want[W * H * 3], rgb[W * H * 3], comment[65537];
    struct image_report report;

    recipe.orient = true;
    memcpy(comment, "\xff\xfe\xff\xff", 4);
    for (int i = 0; i < 5; i++) {
        struct picture_file file = picture_jpeg(pixels, W, H, &usual);
        if (i == 1) /* the longest comment there can be */
            picture_insert(&file, 2, comment, sizeof comment);
        if (i == 2) /* fill before a marker */
            picture_insert(&file, 2, "\xff\xff\xff\xff\xff", 5);
        if (i == 3) /* noise after the end */
            picture_insert(&file, file.size, pixels, 5000);
        if (i == 4) /* a second picture after the end */
            picture_insert(&file, file.size, file.bytes, file.size);
        cr_assert_eq(decode(&recipe, file.bytes, file.size, &no_key, rgb, &report), 0);
        cr_assert(!report.damaged && !report.why[0], "%d: %s", i, report.why);
        if (i == 0)
            memcpy(want, rgb, sizeof want);
        cr_assert(memcmp(rgb, want, sizeof want) == 0, "%d", i);
        free(file.bytes);
    }
    free(pixels);
}

/* Pillow decodes some of these without a word. */
Test(image, damage_that_leaves_a_picture_is_told)
{
    enum { W = 60, H = 44 };
    struct image_recipe recipe = stretch_to(W, H);
    struct picture_jpeg restarts = {.channels = 3, .h = 2, .v = 2, .restart_rows = 1};
    uint8_t *pixels = picture_pixels(W, H, 3, 3);
    static uint8_t rgb[W * H * 3];
    struct image_report report;

    for (int i = 0; i < 3; i++) {
        struct picture_file file = picture_jpeg(pixels, W, H, &restarts);
        size_t at = find_bytes(&file, i == 0 ? "\xff\xd0" : "\xff\xda");
        if (i == 0) { /* a restart marker is gone */
            memmove(file.bytes + at, file.bytes + at + 2, file.size - at - 2);
            file.size -= 2;
        }
        if (i == 1) /* no end marker, but all pixels */
            file.size -= 2;
        if (i == 2) /* no pixels */
            file.size = at + 14;
        cr_assert_eq(decode(&recipe, file.bytes, file.size, &no_key, rgb, &report), 0);
        cr_assert(report.damaged && report.why[0], "%d", i);
        free(file.bytes);
    }
    free(pixels);
}
