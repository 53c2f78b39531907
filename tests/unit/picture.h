/* Pictures and picture files for tests, made in memory by libjpeg and libpng. */
#ifndef SHUFFLEFS_UNIT_PICTURE_H
#define SHUFFLEFS_UNIT_PICTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Smooth colours with fine grain and hard edges, width * height * `channels`; free() it. */
uint8_t *picture_pixels(int width, int height, int channels, unsigned seed);

struct picture_file {
    unsigned char *bytes; /* free() it */
    size_t size;
};

struct picture_jpeg {
    int channels;   /* 1, 3 or 4 (CMYK as Adobe stores it: inverted) */
    int h, v;       /* sampling factors of the first component; the others have 1 */
    bool ycck, rgb; /* how 4 and 3 channels are stored, instead of as CMYK and YCbCr */
    bool progressive;
    int restart_rows;
};
struct picture_file picture_jpeg(const uint8_t *pixels, int width, int height,
                                 const struct picture_jpeg *how);

struct picture_png {
    int colour, depth; /* PNG_COLOR_TYPE_..., 1..16; pixels as stored, two bytes a sample at 16 */
    bool interlaced;
};
struct picture_file picture_png(const uint8_t *pixels, int width, int height,
                                const struct picture_png *how);

/* `more` put in at `at`. The old bytes are freed. */
void picture_insert(struct picture_file *file, size_t at, const void *more, size_t size);

/* A JPEG's APP1 with an orientation, in either byte order, put in after SOI. */
void picture_orient(struct picture_file *file, int orientation, bool big);

/* All of a JPEG at 1/denominator, by libjpeg alone, RGB; free() it. */
uint8_t *picture_decoded(const struct picture_file *file, int denominator, int *width, int *height);

#endif
