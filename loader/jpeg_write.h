/* Pixels -> a JPEG file in memory, by libjpeg-turbo: baseline, 4:2:0 (or grey), no metadata. */
#ifndef SHUFFLELOAD_JPEG_WRITE_H
#define SHUFFLELOAD_JPEG_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One a thread; keeps the compressor and the memory of the largest file so far. */
struct jpeg_writer;
int jpeg_writer_open(struct jpeg_writer **out);     /* 0 or -ENOMEM */
void jpeg_writer_close(struct jpeg_writer *writer); /* NULL is fine */

/* `rgb` is width * height * 3 bytes, row after row. With `grey` the file has one component, which
 * is the first of each pixel. `quality` is libjpeg's, 1..100. *bytes is the writer's, until the
 * next picture. Equal arguments give equal bytes. 0, or -ENOMEM; -EINVAL: a size that JPEG has not.
 */
int jpeg_writer_encode(struct jpeg_writer *writer, const uint8_t *rgb, int width, int height,
                       bool grey, int quality, const uint8_t **bytes, size_t *size);

#endif
