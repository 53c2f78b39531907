/* JPEG by libjpeg-turbo: part of a picture, at 1/1, 1/2, 1/4 or 1/8 of its size, as RGB. */
#ifndef SHUFFLELOAD_JPEG_H
#define SHUFFLELOAD_JPEG_H

#include "format.h"

/* One a thread; keeps the decompressor and the memory of the largest picture so far. `recipe` gives
 * the limits and must outlive it. */
struct image_jpeg;
int image_jpeg_open(struct image_jpeg **out, const struct image_recipe *recipe);
void image_jpeg_close(struct image_jpeg *jpeg); /* NULL is fine */

/* Reads the header: sizes and components go to the report. 0 or as image_decode(). `bytes` must
 * stay until image_jpeg_region() returns; a next header may come instead. */
int image_jpeg_header(struct image_jpeg *jpeg, const uint8_t *bytes, size_t size,
                      struct image_report *report);

/* The part of the picture at 1/denominator, whose sides are then rounded up; once after each
 * header. *picture is valid until the next header. 0 or as image_decode(). */
int image_jpeg_region(struct image_jpeg *jpeg, int denominator, const struct format_region *region,
                      struct format_picture *picture, struct image_report *report);

#endif
