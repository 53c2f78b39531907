/* What decoding on a GPU is made of, part by part: the kernels' arithmetic, which JPEGs are plain,
 * and memory that is handed out within one block. */
#include "picture.h"
#include "unit.h"

#include "../../loader/jpeg_plain.h"
#include "../../loader/region.h"
#include "../../loader/resize_job.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- The kernels' arithmetic --- */

static unsigned dice = 3;

static int roll(int least, int most)
{
    dice = dice * 1664525u + 1013904223u;
    return least + (int)((dice >> 8) % (unsigned)(most - least + 1));
}

/* A part of a picture by the host's code and by the kernels'; false: bytes differ. */
static bool compare(struct resizer *resizer, int width, int height)
{
    struct resize_axis *columns = resizer_columns(resizer), *rows = resizer_rows(resizer);
    int wide = roll(1, width), high = roll(1, height), across = roll(1, 60), down = roll(1, 60);
    int left = roll(0, width - wide), top = roll(0, height - high);
    int more = roll(0, 1) ? 0 : roll(0, 9);
    bool mirror = roll(0, 1);
    size_t stride = (size_t)width * 3, bytes = (size_t)across * (size_t)down * 3;
    uint8_t *pixels = malloc(stride * (size_t)height + RESIZE_SLACK), *one = malloc(bytes),
            *other = malloc(bytes), *tables;
    struct resize_picture picture = {.stride = stride, .out = other, .mirror = mirror};
    struct resize_job job = {.pictures = &picture, .count = 1};
    bool same;

    for (size_t i = 0; i < stride * (size_t)height + RESIZE_SLACK; i++)
        pixels[i] = roll(0, 3) ? (uint8_t)roll(0, 255) : roll(0, 1) ? 255 : 0;
    cr_assert_eq(resize_axis_set(columns, left, left + wide, width, across + more, more / 2, across,
                                 RESIZE_BITS_COLUMNS),
                 0);
    cr_assert_eq(resize_axis_set(rows, top, top + high, height, down + more, more / 2, down,
                                 RESIZE_BITS_ROWS),
                 0);
    picture.source = pixels + (size_t)rows->first * stride + (size_t)columns->first * 3;
    picture.source_rows = (uint32_t)(rows->last - rows->first);
    picture.between = malloc(picture.source_rows * (size_t)across * 3 * sizeof(int16_t));
    tables = malloc(resize_table_bytes(columns) + resize_table_bytes(rows));
    resize_table_fill(&picture.columns, columns, tables, tables);
    resize_table_fill(&picture.rows, rows, tables + resize_table_bytes(columns),
                      tables + resize_table_bytes(columns));
    resize_job_measure(&job, &picture);
    cr_assert_eq(job.column_items, picture.source_rows * (uint32_t)across);
    cr_assert_eq(job.row_items, bytes);
    resize_do_job(&job);
    cr_assert_eq(resizer_run(resizer, picture.source, stride, one, mirror), 0);
    same = memcmp(one, other, bytes) == 0;
    free(pixels);
    free(one);
    free(other);
    free(tables);
    free(picture.between);
    return same;
}

#ifdef __SANITIZE_THREAD__
enum { ROUNDS = 40 };
#else
enum { ROUNDS = 300 };
#endif

Test(nvjpeg_parts, the_kernels_resize_has_the_bytes_of_the_hosts)
{
    for (int code = RESIZE_FASTEST; code <= RESIZE_PLAIN; code++) {
        struct resizer *resizer;

        cr_assert_eq(resizer_open(&resizer, (enum resize_code)code), 0);
        for (int i = 0; i < ROUNDS; i++) {
            int width = i % 10 ? roll(1, 90) : roll(1, 900), height = i % 7 ? roll(1, 90) : 700;

            cr_assert(compare(resizer, width, height), "round %d, %d x %d", i, width, height);
        }
        resizer_close(resizer);
    }
}

/* --- Which JPEGs are plain --- */

static struct picture_file jpeg_of(int width, int height, struct picture_jpeg how)
{
    uint8_t *pixels = picture_pixels(width, height, how.channels, 5);
    struct picture_file file = picture_jpeg(pixels, width, height, &how);

    free(pixels);
    return file;
}

static const char *look(struct picture_file file)
{
    struct jpeg_plain plain;
    const char *why = jpeg_plain_look(file.bytes, file.size, &plain);

    free(file.bytes);
    return why;
}

Test(nvjpeg_parts, baseline_jpegs_of_all_samplings_are_plain)
{
    for (int h = 1; h <= 4; h++)
        for (int v = 1; v <= 2; v++)
            for (int rows = 0; rows < 3; rows++) {
                struct picture_file file = jpeg_of(
                    50, 61,
                    (struct picture_jpeg){.channels = 3, .h = h, .v = v, .restart_rows = rows});
                struct jpeg_plain plain;
                const char *why = jpeg_plain_look(file.bytes, file.size, &plain);

                cr_assert(why == NULL, "%d x %d, %d rows: %s", h, v, rows, why);
                cr_assert(plain.width == 50 && plain.height == 61 && plain.components == 3);
                free(file.bytes);
            }
    cr_assert(look(jpeg_of(9, 8, (struct picture_jpeg){.channels = 1, .h = 1, .v = 1})) == NULL);
    cr_assert(look(jpeg_of(9, 80,
                           (struct picture_jpeg){
                               .channels = 1, .h = 2, .v = 2, .restart_rows = 1})) == NULL);
}

Test(nvjpeg_parts, what_a_gpus_decoder_does_otherwise_is_not_plain)
{
    static const struct {
        struct picture_jpeg how;
        const char *why;
    } cases[] = {
        {{.channels = 3, .h = 2, .v = 2, .progressive = true}, "progressive"},
        {{.channels = 4, .h = 1, .v = 1}, "four components"},
        {{.channels = 4, .h = 1, .v = 1, .ycck = true}, "four components"},
        {{.channels = 3, .h = 1, .v = 1, .rgb = true}, "colours other than YCbCr"},
    };
    const struct picture_jpeg plain = {.channels = 3, .h = 2, .v = 2};
    struct picture_file file;
    size_t at;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why = look(jpeg_of(40, 40, cases[i].how));

        cr_assert(why && strcmp(why, cases[i].why) == 0, "case %zu: %s", i, why ? why : "plain");
    }
    /* What stands in the frame's header: its marker, the bits, the height. */
    file = jpeg_of(40, 40, plain);
    for (at = 0; file.bytes[at] != 0xff || file.bytes[at + 1] != 0xc0; at++)
        ;
    file.bytes[at + 4] = 12;
    cr_assert_str_eq(look(file), "not 8 bits a sample");
    file = jpeg_of(40, 40, plain);
    file.bytes[at + 5] = file.bytes[at + 6] = 0;
    cr_assert_str_eq(look(file), "no size in the header");
    file = jpeg_of(40, 40, plain);
    file.bytes[at + 1] = 0xc9;
    cr_assert_str_eq(look(file), "arithmetic coding");
    file = jpeg_of(40, 40, plain);
    file.bytes[at + 1] = 0xc1;
    cr_assert_str_eq(look(file), "extended sequential");
    file = jpeg_of(40, 40, plain);
    file.bytes[at + 1] = 0xc3;
    cr_assert_str_eq(look(file), "lossless or hierarchical");
    file = jpeg_of(40, 40, plain);
    file.bytes[0] = 0x89;
    cr_assert_str_eq(look(file), "not a JPEG");
}

/* The first restart marker's place. */
static size_t restart_of(const struct picture_file *file)
{
    size_t at = 2;

    while (file->bytes[at] != 0xff || file->bytes[at + 1] != 0xd0)
        at++;
    return at;
}

Test(nvjpeg_parts, a_jpeg_that_is_cut_short_or_lacks_a_restart_marker_is_not_plain)
{
    const struct picture_jpeg how = {.channels = 3, .h = 2, .v = 2, .restart_rows = 1};
    struct picture_file file = jpeg_of(64, 64, how);
    size_t size = file.size;
    struct jpeg_plain plain;

    for (size_t cut = 0; cut < size; cut++) {
        /* In memory of its own, so that a read past it is seen. */
        uint8_t *bytes = malloc(cut ? cut : 1);

        memcpy(bytes, file.bytes, cut);
        cr_assert(jpeg_plain_look(bytes, cut, &plain) != NULL, "%zu of %zu bytes", cut, size);
        free(bytes);
    }
    cr_assert(jpeg_plain_look(file.bytes, size, &plain) == NULL);
    file.bytes[restart_of(&file) + 1] = 0xd1; /* 1, 1, 2 */
    cr_assert_str_eq(look(file), "restart markers missing");
    file = jpeg_of(64, 64, how);
    file.bytes[restart_of(&file) + 1] = 0; /* one less, and the rest out of step */
    cr_assert_str_eq(look(file), "restart markers missing");
    file = jpeg_of(16, 32, how); /* one marker alone */
    file.bytes[restart_of(&file) + 1] = 0;
    cr_assert_str_eq(look(file), "restart markers missing");
}

Test(nvjpeg_parts, broken_headers_are_looked_at_within_their_bounds)
{
    struct picture_file file = jpeg_of(48, 40,
                                       (struct picture_jpeg){.channels = 3, .h = 2, .v = 1});
    unsigned plains = 0;

    for (unsigned round = 0; round < 4000; round++) {
        uint8_t *bytes = malloc(file.size);
        struct jpeg_plain plain;

        memcpy(bytes, file.bytes, file.size);
        for (int i = roll(1, 4); i > 0; i--)
            bytes[roll(0, 620)] = roll(0, 2) ? (uint8_t)roll(0, 255) : 0xff;
        if (!jpeg_plain_look(bytes, file.size, &plain)) {
            plains++;
            cr_assert(plain.width > 0 && plain.height > 0 &&
                      (plain.components == 1 || plain.components == 3));
        }
        free(bytes);
    }
    cr_assert(plains > 0 && plains < 4000);
    free(file.bytes);
}

/* --- Memory within one block --- */

enum { BLOCK = 1 << 20, PIECES = 300 };

Test(nvjpeg_parts, pieces_of_a_region_never_overlap_and_a_full_one_says_so)
{
    /* An address that nobody may touch, as a GPU's. */
    uint8_t *block = (uint8_t *)(uintptr_t)0x700000000000;
    struct {
        uint8_t *at;
        size_t bytes;
    } pieces[PIECES] = {{0}};
    struct region *region;
    unsigned refused = 0, taken = 0;

    cr_assert_eq(region_open(&region, block, BLOCK), 0);
    cr_assert(region_take(region, BLOCK + 1) == NULL);
    cr_assert(region_take(region, SIZE_MAX) == NULL);
    for (int round = 0; round < 20000; round++) {
        int which = roll(0, PIECES - 1);

        if (pieces[which].at) {
            cr_assert_eq(region_give(region, pieces[which].at), 0);
            cr_assert_eq(region_give(region, pieces[which].at), -EINVAL);
            pieces[which].at = NULL;
            taken--;
            continue;
        }
        pieces[which].bytes = (size_t)roll(0, 15000);
        pieces[which].at = region_take(region, pieces[which].bytes);
        refused += !pieces[which].at;
        taken += pieces[which].at != NULL;
        for (int i = 0; pieces[which].at && i < PIECES; i++)
            cr_assert(i == which || !pieces[i].at ||
                      pieces[i].at + pieces[i].bytes <= pieces[which].at ||
                      pieces[which].at + pieces[which].bytes <= pieces[i].at);
        cr_assert(!pieces[which].at || (pieces[which].at >= block &&
                                        pieces[which].at + pieces[which].bytes <= block + BLOCK &&
                                        (uintptr_t)pieces[which].at % REGION_ALIGNMENT == 0));
        cr_assert_eq(region_count(region), taken);
    }
    cr_assert(refused > 0);
    for (int i = 0; i < PIECES; i++)
        cr_assert_eq(region_give(region, pieces[i].at), 0); /* NULL, too */
    /* All in one again. */
    cr_assert(region_take(region, BLOCK) == block);
    cr_assert(region_take(region, 0) == NULL);
    region_close(region);
    region_close(NULL);
}
