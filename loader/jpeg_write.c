/* JPEG files by libjpeg-turbo's compressor. Its errors leave by longjmp to the setjmp of the public
 * function in work; what must survive that is in the struct. */
#include "jpeg_write.h"

#include "format.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#define ROWS_AT_ONCE 16
#define FIRST_ROOM   ((size_t)64 << 10)

struct jpeg_writer {
    struct jpeg_compress_struct libjpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf leave;
    int error;
    uint8_t *bytes; /* the file so far; `room` is allocated */
    size_t room;
    struct format_buffer row; /* of a grey picture */
};

static void fail(j_common_ptr common)
{
    struct jpeg_writer *writer = common->client_data;

    if (!writer->error)
        writer->error = common->err->msg_code == JERR_OUT_OF_MEMORY ? -ENOMEM : -EINVAL;
    longjmp(writer->leave, 1);
}

/* A compressor has nothing to warn of. */
static void say_nothing(j_common_ptr common)
{
    (void)common;
}

static void say_nothing_at(j_common_ptr common, int level)
{
    (void)common;
    (void)level;
}

static void begin(j_compress_ptr libjpeg)
{
    struct jpeg_writer *writer = libjpeg->client_data;

    writer->destination.next_output_byte = writer->bytes;
    writer->destination.free_in_buffer = writer->room;
}

/* The buffer is full: twice as much. */
static boolean grow(j_compress_ptr libjpeg)
{
    struct jpeg_writer *writer = libjpeg->client_data;
    uint8_t *larger = realloc(writer->bytes, writer->room * 2);

    if (!larger) {
        writer->error = -ENOMEM;
        longjmp(writer->leave, 1);
    }
    writer->bytes = larger;
    writer->destination.next_output_byte = larger + writer->room;
    writer->destination.free_in_buffer = writer->room;
    writer->room *= 2;
    return TRUE;
}

static void end(j_compress_ptr libjpeg)
{
    (void)libjpeg;
}

int jpeg_writer_open(struct jpeg_writer **out)
{
    struct jpeg_writer *writer = calloc(1, sizeof *writer);

    if (!writer)
        return -ENOMEM;
    writer->libjpeg.err = jpeg_std_error(&writer->errors);
    writer->errors.error_exit = fail;
    writer->errors.emit_message = say_nothing_at;
    writer->errors.output_message = say_nothing;
    writer->libjpeg.client_data = writer;
    writer->room = FIRST_ROOM;
    writer->bytes = malloc(writer->room);
    if (!writer->bytes || setjmp(writer->leave)) {
        jpeg_writer_close(writer);
        return -ENOMEM;
    }
    jpeg_create_compress(&writer->libjpeg);
    writer->destination.init_destination = begin;
    writer->destination.empty_output_buffer = grow;
    writer->destination.term_destination = end;
    writer->libjpeg.dest = &writer->destination;
    *out = writer;
    return 0;
}

void jpeg_writer_close(struct jpeg_writer *writer)
{
    if (!writer)
        return;
    jpeg_destroy_compress(&writer->libjpeg); /* can't fail; fine before jpeg_create_compress() */
    free(writer->bytes);
    free(writer->row.bytes);
    free(writer);
}

static void put_grey(struct jpeg_writer *writer, const uint8_t *rgb, int width, int height)
{
    JSAMPROW row = writer->row.bytes;

    for (int y = 0; y < height; y++, rgb += (size_t)width * 3) {
        for (int x = 0; x < width; x++)
            row[x] = rgb[3 * (size_t)x];
        jpeg_write_scanlines(&writer->libjpeg, &row, 1);
    }
}

static void put_colour(struct jpeg_writer *writer, const uint8_t *rgb, int width, int height)
{
    for (int y = 0; y < height; y += ROWS_AT_ONCE) {
        JSAMPROW rows[ROWS_AT_ONCE];
        int count = height - y < ROWS_AT_ONCE ? height - y : ROWS_AT_ONCE;
        for (int i = 0; i < count; i++)
            rows[i] = (JSAMPROW)(rgb + (size_t)(y + i) * (size_t)width * 3); /* libjpeg reads it */
        jpeg_write_scanlines(&writer->libjpeg, rows, (JDIMENSION)count);
    }
}

int jpeg_writer_encode(struct jpeg_writer *writer, const uint8_t *rgb, int width, int height,
                       bool grey, int quality, const uint8_t **bytes, size_t *size)
{
    struct jpeg_compress_struct *libjpeg = &writer->libjpeg;

    if (width < 1 || height < 1)
        return -EINVAL;
    if (grey && format_buffer_grow(&writer->row, (size_t)width))
        return -ENOMEM;
    writer->error = 0;
    if (setjmp(writer->leave)) {
        jpeg_abort_compress(libjpeg);
        return writer->error;
    }
    libjpeg->image_width = (JDIMENSION)width;
    libjpeg->image_height = (JDIMENSION)height;
    libjpeg->input_components = grey ? 1 : 3;
    libjpeg->in_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(libjpeg);
    jpeg_set_quality(libjpeg, quality, TRUE);
    jpeg_start_compress(libjpeg, TRUE);
    if (grey)
        put_grey(writer, rgb, width, height);
    else
        put_colour(writer, rgb, width, height);
    jpeg_finish_compress(libjpeg);
    *bytes = writer->bytes;
    *size = writer->room - writer->destination.free_in_buffer;
    return 0;
}
