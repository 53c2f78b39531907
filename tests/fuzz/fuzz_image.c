/* libFuzzer's entry to the picture decoders: `make fuzz`. The last byte chooses the recipe, the
 * rest is the file; a PNG's checksums are put right first, or nothing but the checksums would be
 * tried. With FUZZ_SEEDS=DIR the pictures to begin from are written there. */
#include "../../loader/exif.h"
#include "../../loader/image.h"
#include "../unit/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>
#include <zlib.h>

enum { SIDE = 24 };

#define LIMITS .pixels_most = 1 << 18, .scans_most = 10
static const struct image_recipe recipes[] = {
    {.width = SIDE, .height = SIDE, .crop = IMAGE_STRETCH, .exact = true, LIMITS},
    {.width = SIDE,
     .height = 8,
     .crop = IMAGE_RANDOM_RESIZED,
     .area_least = 0.08,
     .area_most = 1,
     .ratio_least = 0.75,
     .ratio_most = 4 / 3.0,
     .flip = 0.5,
     .orient = true,
     LIMITS},
    {.width = 9,
     .height = SIDE,
     .crop = IMAGE_RANDOM_RESIZED,
     .area_least = 0.01,
     .area_most = 0.3,
     .ratio_least = 0.1,
     .ratio_most = 10,
     .flip = 0.5,
     .orient = true,
     .exact = true,
     LIMITS},
    {.width = SIDE, .height = SIDE, .crop = IMAGE_CENTRE, .shorter = 30, .orient = true, LIMITS},
};
enum { RECIPES = sizeof recipes / sizeof *recipes };

static struct image_decoder *decoders[RECIPES];

static void write_seed(const char *folder, const char *kind, int number, struct picture_file file)
{
    char path[4096];
    FILE *out;

    snprintf(path, sizeof path, "%s/%s-%d", folder, kind, number);
    out = fopen(path, "wb");
    if (!out || fwrite(file.bytes, file.size, 1, out) != 1 || fputc(number, out) == EOF)
        perror(path);
    if (out)
        fclose(out);
    free(file.bytes);
}

static void write_seeds(const char *folder)
{
    static const int colours[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_PALETTE,
                                  PNG_COLOR_TYPE_RGB_ALPHA};
    uint8_t *pixels = picture_pixels(40, 30, 8, 1);

    for (int i = 0; i < 48; i++) {
        struct picture_jpeg how = {.channels = i % 6 == 5   ? 1
                                               : i % 6 == 4 ? 4
                                                            : 3,
                                   .h = 1 + i / 6 % 2,
                                   .v = 1 + i / 12 % 2,
                                   .ycck = i % 12 == 4,
                                   .progressive = i >= 24,
                                   .restart_rows = i % 3 == 2};
        struct picture_file file = picture_jpeg(pixels, 17 + i % 24, 30 - i % 20, &how);
        if (i % 2)
            picture_orient(&file, 1 + i % 8, i % 4 == 1);
        write_seed(folder, "jpeg", i, file);
    }
    for (int i = 0; i < 16; i++) {
        struct picture_png how = {colours[i % 4], i % 8 == 5 ? 16 : 8, i >= 8};
        write_seed(folder, "png", i, picture_png(pixels, 11 + i, 9, &how));
    }
    free(pixels);
}

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    (void)count;
    (void)arguments;
    if (getenv("FUZZ_SEEDS"))
        write_seeds(getenv("FUZZ_SEEDS"));
    for (int i = 0; i < RECIPES; i++)
        if (image_decoder_open(&decoders[i], &recipes[i]))
            abort();
    return 0;
}

static void mend_checksums(uint8_t *png, size_t size)
{
    for (size_t at = 8; at + 12 <= size;) {
        size_t length = png_get_uint_32(png + at);
        if (length > size - at - 12)
            return;
        png_save_uint_32(png + at + 8 + length,
                         (png_uint_32)crc32(0, png + at + 4, (uInt)length + 4));
        at += 12 + length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    /* Of the exact sizes, so that a byte too far is seen. */
    uint8_t choice = size ? bytes[size - 1] : 0, *file = malloc(size), *rgb;
    const struct image_recipe *recipe = &recipes[choice % RECIPES];
    struct image_key key = {1, 2, choice};
    struct image_report report;
    int error;

    rgb = malloc((size_t)recipe->width * (size_t)recipe->height * 3);
    if (!file || !rgb)
        abort();
    memcpy(file, bytes, size);
    size -= size > 0;
    if (size > 8 && memcmp(file, "\x89PNG", 4) == 0)
        mend_checksums(file, size);
    error = image_decode(decoders[choice % RECIPES], file, size, &key, rgb, &report);
    if (error > 0 || (error && !report.why[0]) || (!error && report.damaged && !report.why[0]))
        abort();
    if (exif_orientation_tiff(file, size) < 1 || exif_orientation_jpeg(file, size) > 8)
        abort();
    free(file);
    free(rgb);
    return 0;
}
