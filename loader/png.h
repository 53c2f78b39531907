/* PNG by libpng, as PIL's convert("RGB"): 8 bits, alpha dropped, no gamma applied. 16 bits are cut
 * to their upper 8, grey ones too, where PIL makes everything above 255 white. */
#ifndef SHUFFLELOAD_PNG_H
#define SHUFFLELOAD_PNG_H

#include "format.h"

/* One a thread; keeps the memory of the largest picture so far. */
struct image_png;
int image_png_open(struct image_png **out, const struct image_recipe *recipe);
void image_png_close(struct image_png *png); /* NULL is fine */

/* As image_jpeg_header(); *orientation is that of an eXIf chunk, else 1. */
int image_png_header(struct image_png *png, const uint8_t *bytes, size_t size, int *orientation,
                     struct image_report *report);

/* As image_jpeg_region(), at full size. Rows below the region are not read. */
int image_png_region(struct image_png *png, const struct format_region *region,
                     struct format_picture *picture, struct image_report *report);

#endif
