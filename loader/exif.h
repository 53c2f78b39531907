/* The orientation that a camera noted, and nothing else of EXIF. Reads bytes, keeps nothing. */
#ifndef SHUFFLELOAD_EXIF_H
#define SHUFFLELOAD_EXIF_H

#include <stddef.h>
#include <stdint.h>

/* Of a whole JPEG file: 1..8, and 1 wherever there is none, or none that can be made sense of. */
int exif_orientation_jpeg(const uint8_t *bytes, size_t size);

/* Of a TIFF block, which is what EXIF is inside (PNG's eXIf chunk as it stands). */
int exif_orientation_tiff(const uint8_t *bytes, size_t size);

#endif
