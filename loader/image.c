/* The way of one picture: format, header, crop, decoding of what the crop needs, orientation,
 * resize. Owns a decoder of each format, the resizer, and a buffer to turn pictures in. */
#include "image.h"

#include "crop.h"
#include "exif.h"
#include "format.h"
#include "jpeg.h"
#include "png.h"
#include "resize.h"
#include "tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct image_decoder {
    struct image_recipe recipe;
    struct image_jpeg *jpeg;
    struct image_png *png;
    struct resizer *resizer;
    struct format_buffer turned;
    struct image_times *times;
};

/* An EXIF orientation, undone: transposed (rows become columns) first, then mirrored. The stored
 * picture's row 0 and column 0 are, by orientation: 1 top left, 2 top right, 3 bottom right,
 * 4 bottom left, 5 left top, 6 right top, 7 right bottom, 8 left bottom (Exif 2.32, 4.6.4). */
struct turn {
    bool swap, mirror_x, mirror_y; /* of the upright picture */
};
static const struct turn turns[9] = {
    [1] = {false, false, false}, [2] = {false, true, false}, [3] = {false, true, true},
    [4] = {false, false, true},  [5] = {true, false, false}, [6] = {true, true, false},
    [7] = {true, true, true},    [8] = {true, false, true},
};

int image_decoder_open(struct image_decoder **out, const struct image_recipe *recipe)
{
    struct image_decoder *decoder;
    int error = crop_recipe_check(recipe);

    if (error || recipe->pixels_most < 1 || recipe->scans_most < 1)
        return -EINVAL;
    decoder = calloc(1, sizeof *decoder);
    if (!decoder)
        return -ENOMEM;
    decoder->recipe = *recipe;
    if ((error = image_jpeg_open(&decoder->jpeg, &decoder->recipe)) ||
        (error = image_png_open(&decoder->png, &decoder->recipe)) ||
        (error = resizer_open(&decoder->resizer, RESIZE_FASTEST))) {
        image_decoder_close(decoder);
        return error;
    }
    *out = decoder;
    return 0;
}

void image_decoder_close(struct image_decoder *decoder)
{
    if (!decoder)
        return;
    image_jpeg_close(decoder->jpeg);
    image_png_close(decoder->png);
    resizer_close(decoder->resizer);
    free(decoder->turned.bytes);
    free(decoder);
}

void image_decoder_times(struct image_decoder *decoder, struct image_times *times)
{
    decoder->times = times;
    if (times)
        *times = (struct image_times){0, 0};
}

/* The upright part `wanted` of a picture, whose size upright is width x height, as stored. */
static struct format_region stored_region(const struct turn *turn, struct format_region wanted,
                                          int width, int height)
{
    struct format_region stored = wanted;

    if (turn->mirror_x)
        stored.x = width - wanted.x - wanted.width;
    if (turn->mirror_y)
        stored.y = height - wanted.y - wanted.height;
    if (turn->swap)
        stored = (struct format_region){stored.y, stored.x, stored.height, stored.width};
    return stored;
}

/* Makes *picture upright, in a buffer of ours. */
static int turn_upright(struct image_decoder *decoder, const struct turn *turn,
                        struct format_picture *picture)
{
    int width = turn->swap ? picture->height : picture->width;
    int height = turn->swap ? picture->width : picture->height;
    size_t stride = (size_t)width * 3;
    ptrdiff_t right = turn->swap ? (ptrdiff_t)picture->stride : 3; /* one upright pixel on */
    ptrdiff_t down = turn->swap ? 3 : (ptrdiff_t)picture->stride;
    const uint8_t *origin = picture->pixels;

    if (!turn->swap && !turn->mirror_x && !turn->mirror_y)
        return 0;
    if (format_buffer_grow(&decoder->turned, stride * (size_t)height + RESIZE_SLACK))
        return -ENOMEM;
    if (turn->mirror_x) {
        origin += right * (width - 1);
        right = -right;
    }
    if (turn->mirror_y) {
        origin += down * (height - 1);
        down = -down;
    }
    for (int y = 0; y < height; y++) {
        const uint8_t *from = origin + down * y;
        uint8_t *to = decoder->turned.bytes + (size_t)y * stride;
        for (int x = 0; x < width; x++, from += right, to += 3) {
            to[0] = from[0];
            to[1] = from[1];
            to[2] = from[2];
        }
    }
    memset(decoder->turned.bytes + stride * (size_t)height, 0, RESIZE_SLACK);
    *picture = (struct format_picture){decoder->turned.bytes, stride, width, height};
    return 0;
}

/* One direction of the resize: `length` upright pixels, decoded at 1/denominator, of which the crop
 * takes `size` from `start` on. The decoded picture's last pixel may cover less than `denominator`
 * of them; where the direction is mirrored that one comes first. */
static int set_axis(struct resize_axis *axis, int length, int denominator, bool mirrored, int start,
                    int size, int full, int skip, int count, int bits_most)
{
    int pixels = (length + denominator - 1) / denominator;
    double before = mirrored ? pixels - length / (double)denominator : 0;
    double from = before + start / (double)denominator;
    double to = before + (start + size) / (double)denominator;

    return resize_axis_set(axis, from, to > pixels ? pixels : to, pixels, full, skip, count,
                           bits_most);
}

/* How far the DCT may scale down: as far as the crop keeps `margin` times the pixels that it is
 * resized to. */
static int choose_denominator(const struct crop_plan *plan, int margin)
{
    int denominator = 1, least = margin > 0 ? margin : 1;

    while (denominator < 8 && plan->width / (2 * denominator) >= least * plan->full_width &&
           plan->height / (2 * denominator) >= least * plan->full_height)
        denominator *= 2;
    return denominator;
}

/* The header of a JPEG or PNG, and how the picture is turned. */
static int look(struct image_decoder *decoder, const uint8_t *bytes, size_t size, bool png,
                const struct turn **turn, struct image_report *report)
{
    int orientation = 1, error;

    if (png)
        error = image_png_header(decoder->png, bytes, size, &orientation, report);
    else
        error = image_jpeg_header(decoder->jpeg, bytes, size, report);
    if (error)
        return error;
    if (decoder->recipe.orient && !png)
        orientation = exif_orientation_jpeg(bytes, size);
    report->orientation = decoder->recipe.orient ? orientation : 1;
    *turn = &turns[report->orientation];
    return 0;
}

static int decode(struct image_decoder *decoder, const uint8_t *bytes, size_t size,
                  const struct image_key *key, uint8_t *rgb, struct image_report *report,
                  uint64_t *decoded_at)
{
    const struct image_recipe *recipe = &decoder->recipe;
    struct resize_axis *columns = resizer_columns(decoder->resizer);
    struct resize_axis *rows = resizer_rows(decoder->resizer);
    bool png = strcmp(report->format, "png") == 0;
    struct crop_plan plan;
    struct format_region region;
    struct format_picture picture;
    const struct turn *turn;
    int error = look(decoder, bytes, size, png, &turn, report), width, height, denominator = 1;

    if (error)
        return error;
    width = turn->swap ? report->height : report->width;
    height = turn->swap ? report->width : report->height;
    crop_plan_make(&plan, recipe, key, width, height);
    if (!png && !recipe->exact)
        denominator = choose_denominator(&plan, recipe->margin);
    if ((error = set_axis(columns, width, denominator, turn->mirror_x, plan.x, plan.width,
                          plan.full_width, plan.left, recipe->width, RESIZE_BITS_COLUMNS)) ||
        (error = set_axis(rows, height, denominator, turn->mirror_y, plan.y, plan.height,
                          plan.full_height, plan.top, recipe->height, RESIZE_BITS_ROWS)))
        return error;
    region = (struct format_region){columns->first, rows->first, columns->last - columns->first,
                                    rows->last - rows->first};
    region = stored_region(turn, region, (width + denominator - 1) / denominator,
                           (height + denominator - 1) / denominator);
    if (png)
        error = image_png_region(decoder->png, &region, &picture, report);
    else
        error = image_jpeg_region(decoder->jpeg, denominator, &region, &picture, report);
    if (error || (error = turn_upright(decoder, turn, &picture)))
        return error;
    if (decoder->times)
        *decoded_at = tally_now();
    return resizer_run(decoder->resizer, picture.pixels, picture.stride, rgb, plan.flip);
}

/* Starts a report with the format. 0: it is one that is decoded; or as image_decode(). */
static int recognise(const void *bytes, size_t size, struct image_report *report)
{
    *report = (struct image_report){.format = format_name(bytes, size), .orientation = 1};
    if (strcmp(report->format, "jpeg") == 0 || strcmp(report->format, "png") == 0)
        return 0;
    if (strcmp(report->format, "unknown") == 0 || strcmp(report->format, "empty") == 0) {
        format_report(report, size ? "no picture format that is known" : "no bytes");
        return -EBADMSG;
    }
    format_report(report, "%s, where JPEG or PNG is decoded", report->format);
    return -ENOTSUP;
}

int image_decoder_look(struct image_decoder *decoder, const void *bytes, size_t size, int *width,
                       int *height, struct image_report *report)
{
    const struct turn *turn = NULL;
    int error = recognise(bytes, size, report);

    if (!error)
        error = look(decoder, bytes, size, strcmp(report->format, "png") == 0, &turn, report);
    if (error)
        return error;
    *width = turn->swap ? report->height : report->width;
    *height = turn->swap ? report->width : report->height;
    return 0;
}

int image_decoder_aim(struct image_decoder *decoder, int width, int height)
{
    if (width < 1 || height < 1 || width > IMAGE_TARGET_MAX || height > IMAGE_TARGET_MAX)
        return -EFBIG;
    decoder->recipe.width = width;
    decoder->recipe.height = height;
    return 0;
}

int image_decode(struct image_decoder *decoder, const void *bytes, size_t size,
                 const struct image_key *key, uint8_t *rgb, struct image_report *report)
{
    uint64_t start = decoder->times ? tally_now() : 0, decoded_at = 0;
    int error = recognise(bytes, size, report);

    if (!error) {
        error = decode(decoder, bytes, size, key, rgb, report, &decoded_at);
        if (error == -ENOMEM)
            format_report(report, "out of memory");
    }
    if (error)
        report->damaged = false; /* there is no picture to be damaged */
    if (decoder->times) {
        uint64_t end = tally_now();
        decoder->times->decode_ns += (decoded_at ? decoded_at : end) - start;
        decoder->times->resize_ns += decoded_at ? end - decoded_at : 0;
    }
    return error;
}
