/* JPEG by libjpeg-turbo 2.1. Errors leave libjpeg by longjmp: what must survive that is in the
 * struct, and every public function here has its own setjmp and ends with the decompressor idle
 * or, after a header, ready. */
#include "jpeg.h"

#include "resize.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#define ROWS_AT_ONCE 16

struct image_jpeg {
    struct jpeg_decompress_struct libjpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf leave;
    int error; /* what to return after a longjmp */
    const struct image_recipe *recipe;
    struct image_report *report; /* of the picture in work */
    struct format_buffer rows, inks;
};

static void fail(j_common_ptr common)
{
    struct image_jpeg *jpeg = common->client_data;
    char message[JMSG_LENGTH_MAX];

    if (!jpeg->error) {
        jpeg->error = common->err->msg_code == JERR_OUT_OF_MEMORY ? -ENOMEM : -EBADMSG;
        common->err->format_message(common, message);
        jpeg->report->why[0] = '\0'; /* what ended it says more than what came before */
        format_report(jpeg->report, "%s", message);
    }
    longjmp(jpeg->leave, 1);
}

/* libjpeg goes on after a warning, with grey or wrong blocks. */
static void warn(j_common_ptr common, int level)
{
    struct image_jpeg *jpeg = common->client_data;
    char message[JMSG_LENGTH_MAX];

    if (level >= 0)
        return;
    if (common->err->num_warnings++ == 0) {
        common->err->format_message(common, message);
        format_report(jpeg->report, "%s", message);
    }
    jpeg->report->damaged = true;
    jpeg->report->truncated |= common->err->msg_code == JWRN_JPEG_EOF;
}

static void say_nothing(j_common_ptr common)
{
    (void)common;
}

/* How many scans there are, by their markers alone; stops counting above `most`. In entropy-coded
 * data 0xff is followed by 0 or a restart, never by another marker (ITU-T T.81, B.1.1.5). */
static int count_scans(const uint8_t *bytes, size_t size, int most)
{
    size_t at = 2;
    int scans = 0;

    while (scans <= most && at < size) {
        const uint8_t *next = memchr(bytes + at, 0xff, size - at);
        uint8_t marker;
        if (!next || (at = (size_t)(next - bytes) + 1) >= size)
            break;
        marker = bytes[at];
        if (marker == 0xff) /* fill */
            continue;
        at++;
        scans += marker == 0xda;
        if (marker == 0xd9)
            break;
        if (marker > 0x01 && (marker < 0xd0 || marker > 0xd8) && size - at >= 2)
            at += (size_t)bytes[at] << 8 | bytes[at + 1];
    }
    return scans;
}

static int too_many_scans(struct image_jpeg *jpeg)
{
    jpeg->report->why[0] = '\0';
    format_report(jpeg->report, "more than %d scans", jpeg->recipe->scans_most);
    return -EFBIG;
}

/* libjpeg asks here between rows of blocks while it takes in all scans of a progressive picture,
 * each of which costs a pass over all its pixels. The count beforehand is quicker; this is what it
 * takes to be. */
static void limit_scans(j_common_ptr common)
{
    struct image_jpeg *jpeg = common->client_data;

    if (!common->is_decompressor || jpeg->libjpeg.input_scan_number <= jpeg->recipe->scans_most)
        return;
    jpeg->error = too_many_scans(jpeg);
    longjmp(jpeg->leave, 1);
}

int image_jpeg_open(struct image_jpeg **out, const struct image_recipe *recipe)
{
    struct image_jpeg *jpeg = calloc(1, sizeof *jpeg);
    struct image_report nothing = {0};

    if (!jpeg)
        return -ENOMEM;
    jpeg->recipe = recipe;
    jpeg->report = &nothing;
    jpeg->libjpeg.err = jpeg_std_error(&jpeg->errors);
    jpeg->errors.error_exit = fail;
    jpeg->errors.emit_message = warn;
    jpeg->errors.output_message = say_nothing;
    jpeg->libjpeg.client_data = jpeg;
    if (setjmp(jpeg->leave)) {
        image_jpeg_close(jpeg);
        return -ENOMEM; /* or another libjpeg than this was built with, which can't go on either */
    }
    jpeg_create_decompress(&jpeg->libjpeg);
    jpeg->progress.progress_monitor = limit_scans;
    jpeg->libjpeg.progress = &jpeg->progress;
    jpeg->report = NULL;
    *out = jpeg;
    return 0;
}

void image_jpeg_close(struct image_jpeg *jpeg)
{
    if (!jpeg)
        return;
    jpeg_destroy_decompress(&jpeg->libjpeg); /* can't fail */
    free(jpeg->rows.bytes);
    free(jpeg->inks.bytes);
    free(jpeg);
}

int image_jpeg_header(struct image_jpeg *jpeg, const uint8_t *bytes, size_t size,
                      struct image_report *report)
{
    struct jpeg_decompress_struct *libjpeg = &jpeg->libjpeg;

    jpeg->report = report;
    jpeg->error = 0;
    if (setjmp(jpeg->leave)) {
        jpeg_abort_decompress(libjpeg);
        return jpeg->error;
    }
    jpeg_abort_decompress(libjpeg); /* a header that nobody followed up */
    jpeg_mem_src(libjpeg, bytes, size);
    jpeg_read_header(libjpeg, TRUE);
    report->width = (int)libjpeg->image_width;
    report->height = (int)libjpeg->image_height;
    report->components = libjpeg->num_components;
    if (report->components != 1 && report->components != 3 && report->components != 4) {
        format_report(report, "%d components", report->components);
        jpeg->error = -EBADMSG;
    } else {
        jpeg->error = format_size_check(jpeg->recipe, libjpeg->image_width, libjpeg->image_height,
                                        report);
        if (!jpeg->error && jpeg_has_multiple_scans(libjpeg) &&
            count_scans(bytes, size, jpeg->recipe->scans_most) > jpeg->recipe->scans_most)
            jpeg->error = too_many_scans(jpeg);
    }
    if (jpeg->error)
        jpeg_abort_decompress(libjpeg);
    return jpeg->error;
}

/* As Pillow does it: four components are inverted, Adobe's way, with or without Adobe's marker,
 * and the rest is its cmyk2rgb: R = K' - C * K' / 255, rounded, with K' = 255 - K. */
static void inks_to_rgb(const uint8_t *inks, uint8_t *rgb, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, inks += 4, rgb += 3)
        for (int c = 0; c < 3; c++) {
            unsigned product = (255u - inks[c]) * inks[3] + 128;
            int value = inks[3] - (int)(((product >> 8) + product) >> 8);
            rgb[c] = (uint8_t)(value < 0 ? 0 : value);
        }
}

#if JPEG_LIB_VERSION >= 70
#define SCALED(of) ((of)->DCT_h_scaled_size)
#define LEAST(of)  ((of)->min_DCT_h_scaled_size)
#else
#define SCALED(of) ((of)->DCT_scaled_size)
#define LEAST(of)  ((of)->min_DCT_scaled_size)
#endif

/* The columns to decode for those of the region. Up-sampling with a filter ("fancy") looks at the
 * next sample of a component on either side, and has none at the edges that jpeg_crop_scanline
 * makes: one such sample more, where any component has fewer than the picture. That function
 * miscounts the samples of a component that is scaled down less than others and still has to be
 * up-sampled (4:1:0 at 1/2): then, whole rows. */
static void widen(const struct jpeg_decompress_struct *libjpeg, const struct format_region *region,
                  JDIMENSION *x, JDIMENSION *width)
{
    unsigned left = (unsigned)region->x, right = left + (unsigned)region->width;
    unsigned more = 0, end = libjpeg->output_width;

    for (int i = 0; i < libjpeg->num_components; i++) {
        const jpeg_component_info *component = &libjpeg->comp_info[i];
        int most = libjpeg->max_h_samp_factor * LEAST(libjpeg);
        if (component->h_samp_factor * SCALED(component) == most)
            continue;
        more = (unsigned)libjpeg->max_h_samp_factor;
        if (SCALED(component) != LEAST(libjpeg))
            more = end;
    }
    *x = left < more ? 0 : left - more;
    *width = (end - right < more ? end : right + more) - *x;
}

int image_jpeg_region(struct image_jpeg *jpeg, int denominator, const struct format_region *region,
                      struct format_picture *picture, struct image_report *report)
{
    struct jpeg_decompress_struct *libjpeg = &jpeg->libjpeg;
    JDIMENSION x, width, end = (JDIMENSION)(region->y + region->height);
    bool inks = libjpeg->num_components == 4;
    size_t stride;

    jpeg->report = report;
    jpeg->error = 0;
    picture->pixels = NULL;
    if (setjmp(jpeg->leave)) {
        bool complete = libjpeg->output_scanline >= libjpeg->output_height &&
                        libjpeg->output_height > 0 && picture->pixels;
        jpeg_abort_decompress(libjpeg);
        if (!complete)
            return jpeg->error;
        report->damaged = true; /* every row is there: the fault is in what follows */
        return 0;
    }
    libjpeg->scale_num = 1;
    libjpeg->scale_denom = (unsigned)denominator;
    libjpeg->out_color_space = inks ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(libjpeg);
    widen(libjpeg, region, &x, &width);
    if (x > 0 || width < libjpeg->output_width)
        jpeg_crop_scanline(libjpeg, &x, &width);
    stride = (size_t)libjpeg->output_width * 3;
    if (format_buffer_grow(&jpeg->rows, stride * (size_t)region->height + RESIZE_SLACK) ||
        (inks && format_buffer_grow(&jpeg->inks, (size_t)libjpeg->output_width * 4))) {
        jpeg_abort_decompress(libjpeg);
        return -ENOMEM;
    }
    /* One skip, from the first row: later ones, and any past the region, have had faults. */
    if (region->y > 0)
        jpeg_skip_scanlines(libjpeg, (JDIMENSION)region->y);
    while (libjpeg->output_scanline < end) {
        JSAMPROW rows[ROWS_AT_ONCE];
        unsigned done = libjpeg->output_scanline - (unsigned)region->y, count = 0;
        if (inks) {
            rows[0] = jpeg->inks.bytes;
            jpeg_read_scanlines(libjpeg, rows, 1);
            inks_to_rgb(jpeg->inks.bytes, jpeg->rows.bytes + done * stride, libjpeg->output_width);
            continue;
        }
        for (; count < ROWS_AT_ONCE && done + count < (unsigned)region->height; count++)
            rows[count] = jpeg->rows.bytes + (done + count) * stride;
        jpeg_read_scanlines(libjpeg, rows, count);
    }
    memset(jpeg->rows.bytes + stride * (size_t)region->height, 0, RESIZE_SLACK);
    *picture = (struct format_picture){jpeg->rows.bytes + ((size_t)region->x - x) * 3, stride,
                                       region->width, region->height};
    /* Only after the last row is there anything to finish: it reads on to the end of the file. */
    if (end == libjpeg->output_height)
        jpeg_finish_decompress(libjpeg);
    else
        jpeg_abort_decompress(libjpeg);
    return 0;
}
