/* PNG by libpng. Its errors leave by longjmp to the setjmp of the public function in work; what
 * must survive that is in the struct. */
#include "png.h"

#include "exif.h"
#include "resize.h"

#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

struct image_png {
    png_structp libpng;
    png_infop info;
    jmp_buf leave;
    const struct image_recipe *recipe;
    struct image_report *report;
    const uint8_t *bytes; /* what is still to be read */
    size_t left;
    bool complete; /* every row of the region is there */
    struct format_buffer rows;
};

static void fail(png_structp libpng, png_const_charp message)
{
    struct image_png *png = png_get_error_ptr(libpng);

    format_report(png->report, "%s", message);
    longjmp(png->leave, 1);
}

/* libpng warns of profiles, of chunks out of place: nothing that changes pixels. What does, a
 * wrong checksum for one, is an error. */
static void warn(png_structp libpng, png_const_charp message)
{
    (void)libpng;
    (void)message;
}

static void read_bytes(png_structp libpng, png_bytep to, size_t size)
{
    struct image_png *png = png_get_io_ptr(libpng);

    if (size > png->left) {
        png->report->truncated = true;
        png_error(libpng, "file ends too early");
    }
    memcpy(to, png->bytes, size);
    png->bytes += size;
    png->left -= size;
}

static void finish(struct image_png *png)
{
    png_destroy_read_struct(&png->libpng, &png->info, NULL);
}

int image_png_open(struct image_png **out, const struct image_recipe *recipe)
{
    struct image_png *png = calloc(1, sizeof *png);

    if (!png)
        return -ENOMEM;
    png->recipe = recipe;
    *out = png;
    return 0;
}

void image_png_close(struct image_png *png)
{
    if (!png)
        return;
    finish(png);
    free(png->rows.bytes);
    free(png);
}

int image_png_header(struct image_png *png, const uint8_t *bytes, size_t size, int *orientation,
                     struct image_report *report)
{
    /* Chunks that change no pixel, and can be long or unpack to much more, are not even read. */
    static const png_byte unread[] = "iCCP\0zTXt\0iTXt\0tEXt\0sPLT\0hIST\0pCAL\0sCAL\0sBIT\0bKGD";
    png_bytep exif;
    png_uint_32 length;
    int error;

    finish(png);
    png->report = report;
    png->bytes = bytes;
    png->left = size;
    png->complete = false;
    *orientation = 1;
    if (setjmp(png->leave)) {
        finish(png);
        return -EBADMSG;
    }
    png->libpng = png_create_read_struct(PNG_LIBPNG_VER_STRING, png, fail, warn);
    png->info = png->libpng ? png_create_info_struct(png->libpng) : NULL;
    if (!png->info) {
        finish(png);
        return -ENOMEM;
    }
    png_set_read_fn(png->libpng, png, read_bytes);
    png_set_user_limits(png->libpng, 0x7fffffff, 0x7fffffff); /* our own are checked below */
    png_set_chunk_malloc_max(png->libpng, 1 << 20);
    png_set_chunk_cache_max(png->libpng, 64);
    png_set_keep_unknown_chunks(png->libpng, PNG_HANDLE_CHUNK_NEVER, unread, sizeof unread / 5);
    png_read_info(png->libpng, png->info);
    report->width = (int)png_get_image_width(png->libpng, png->info);
    report->height = (int)png_get_image_height(png->libpng, png->info);
    report->components = png_get_color_type(png->libpng, png->info) == PNG_COLOR_TYPE_PALETTE
                             ? 3
                             : png_get_channels(png->libpng, png->info);
    if ((error = format_size_check(png->recipe, (uint64_t)report->width, (uint64_t)report->height,
                                   report))) {
        finish(png);
        return error;
    }
    if (png_get_eXIf_1(png->libpng, png->info, &length, &exif))
        *orientation = exif_orientation_tiff(exif, length);
    return 0;
}

int image_png_region(struct image_png *png, const struct format_region *region,
                     struct format_picture *picture, struct image_report *report)
{
    png_structp libpng = png->libpng;
    size_t stride = (size_t)report->width * 3, kept;
    int end = region->y + region->height;
    bool interlaced = png_get_interlace_type(libpng, png->info) != PNG_INTERLACE_NONE;
    int above = interlaced ? region->y : 0; /* rows in the buffer before the region's */

    png->report = report;
    if (setjmp(png->leave)) {
        finish(png);
        if (!png->complete)
            return -EBADMSG;
        report->damaged = true;
        return 0;
    }
    /* Interlaced pictures come in passes over all of their rows. */
    kept = (size_t)(interlaced ? report->height : region->height);
    if (format_buffer_grow(&png->rows, stride * kept + RESIZE_SLACK)) {
        finish(png);
        return -ENOMEM;
    }
    png_set_strip_16(libpng);
    png_set_palette_to_rgb(libpng);
    png_set_expand_gray_1_2_4_to_8(libpng);
    png_set_packing(libpng);
    png_set_gray_to_rgb(libpng);
    png_set_strip_alpha(libpng);
    for (int pass = 0, passes = png_set_interlace_handling(libpng); pass < passes; pass++) {
        if (pass == 0) {
            png_read_update_info(libpng, png->info);
            if (png_get_rowbytes(libpng, png->info) != stride)
                png_error(libpng, "not a row of RGB");
        }
        for (int y = 0; y < (interlaced ? report->height : end); y++) {
            /* Rows above the region are overwritten by its first. */
            int place = interlaced ? y : y < region->y ? 0 : y - region->y;
            png_read_row(libpng, png->rows.bytes + (size_t)place * stride, NULL);
        }
    }
    memset(png->rows.bytes + stride * kept, 0, RESIZE_SLACK);
    *picture = (struct format_picture){png->rows.bytes + (size_t)above * stride +
                                           (size_t)region->x * 3,
                                       stride, region->width, region->height};
    png->complete = true;
    if (interlaced || end == report->height)
        png_read_end(libpng, NULL);
    finish(png);
    return 0;
}
