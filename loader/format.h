/* What the decoders of the formats share: the picture that they give, the memory that it is in,
 * and the report of what was wrong. */
#ifndef SHUFFLELOAD_FORMAT_H
#define SHUFFLELOAD_FORMAT_H

#include "image.h"

/* "jpeg", "png", or the name of what else these bytes are; "unknown" where nothing tells. */
const char *format_name(const void *bytes, size_t size);

/* Memory that is kept. */
struct format_buffer {
    uint8_t *bytes;
    size_t size;
};

/* At least `size` bytes, whose contents may be lost. 0 or -ENOMEM. */
int format_buffer_grow(struct format_buffer *buffer, size_t size);

/* A part of a picture, in pixels of the (scaled) picture as stored. */
struct format_region {
    int x, y, width, height;
};

/* RGB pixels in somebody's buffer: rows are `stride` bytes apart, and at least RESIZE_SLACK bytes
 * follow the last pixel. */
struct format_picture {
    const uint8_t *pixels;
    size_t stride;
    int width, height;
};

/* Notes what was wrong, unless something was noted before. */
void format_report(struct image_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* 0 or -EFBIG, noted in the report: may a picture of this size be decoded? */
int format_size_check(const struct image_recipe *recipe, uint64_t width, uint64_t height,
                      struct image_report *report);

#endif
