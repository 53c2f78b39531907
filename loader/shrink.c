/* Smaller JPEGs. Owns a decoder, an encoder and the pixels between them; what is to become of a
 * file that it cannot work on is the caller's to say. */
#include "shrink.h"

#include "format.h"
#include "jpeg_write.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN 2
/* As libshuffleload's own: Pillow's bound for pixels, and more scans than any real picture has. */
#define PIXELS_MOST 178956970
#define SCANS_MOST  500

struct shrink {
    struct shrink_settings settings;
    struct image_decoder *decoder;
    struct jpeg_writer *writer;
    struct format_buffer pixels;
};

int shrink_open(struct shrink **out, const struct shrink_settings *settings)
{
    struct image_recipe recipe = {.width = 1,
                                  .height = 1,
                                  .crop = IMAGE_STRETCH,
                                  .orient = true,
                                  .margin = MARGIN,
                                  .pixels_most = PIXELS_MOST,
                                  .scans_most = SCANS_MOST};
    struct shrink *shrink;
    int error;

    if (settings->quality < 1 || settings->quality > 100 || settings->short_side < 0 ||
        settings->short_side > IMAGE_TARGET_MAX)
        return -EINVAL;
    shrink = calloc(1, sizeof *shrink);
    if (!shrink)
        return -ENOMEM;
    shrink->settings = *settings;
    error = image_decoder_open(&shrink->decoder, &recipe);
    if (!error)
        error = jpeg_writer_open(&shrink->writer);
    if (error) {
        shrink_close(shrink);
        return error;
    }
    *out = shrink;
    return 0;
}

void shrink_close(struct shrink *shrink)
{
    if (!shrink)
        return;
    image_decoder_close(shrink->decoder);
    jpeg_writer_close(shrink->writer);
    free(shrink->pixels.bytes);
    free(shrink);
}

/* The size that a picture is brought to; false: it has it already. */
static bool find_size(const struct shrink_settings *settings, int *width, int *height)
{
    int shorter = *width < *height ? *width : *height, wanted = settings->short_side;

    if (!wanted || shorter <= wanted)
        return false;
    *width = (int)((int64_t)*width * wanted / shorter);
    *height = (int)((int64_t)*height * wanted / shorter);
    return true;
}

static int make(struct shrink *shrink, const void *bytes, size_t size, int width, int height,
                struct shrink_result *result)
{
    static const struct image_key any = {0, 0, 0}; /* nothing here is random */
    struct image_report *report = &result->report;
    int error = image_decoder_aim(shrink->decoder, width, height);

    result->outcome = SHRINK_DAMAGED;
    if (error) {
        format_report(report, "%dx%d pixels: too long for its height", report->width,
                      report->height);
        return error;
    }
    if (format_buffer_grow(&shrink->pixels, (size_t)width * (size_t)height * 3))
        return -ENOMEM;
    error = image_decode(shrink->decoder, bytes, size, &any, shrink->pixels.bytes, report);
    if (error || report->damaged)
        return error;
    error = jpeg_writer_encode(shrink->writer, shrink->pixels.bytes, width, height,
                               report->components < 3, shrink->settings.quality, &result->bytes,
                               &result->size);
    if (!error)
        result->outcome = SHRINK_MADE;
    return error;
}

int shrink_picture(struct shrink *shrink, const void *bytes, size_t size,
                   struct shrink_result *result)
{
    int width, height;
    int error = image_decoder_look(shrink->decoder, bytes, size, &width, &height, &result->report);

    result->bytes = NULL;
    result->size = 0;
    if (!error) {
        bool png = strcmp(result->report.format, "png") == 0;
        bool smaller = find_size(&shrink->settings, &width, &height);
        if (png && !shrink->settings.png)
            result->outcome = SHRINK_OTHER;
        else if (!png && !smaller)
            result->outcome = SHRINK_KEPT;
        else
            error = make(shrink, bytes, size, width, height, result);
    } else {
        result->outcome = error == -ENOTSUP ? SHRINK_OTHER : SHRINK_DAMAGED;
    }
    return error == -ENOMEM ? -ENOMEM : 0;
}
