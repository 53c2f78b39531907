/* Makes picture files: see picture.h. */
#include "picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>

uint8_t *picture_pixels(int width, int height, int channels, unsigned seed)
{
    uint8_t *pixels = malloc((size_t)width * (size_t)height * (size_t)channels), *at = pixels;
    uint32_t noise = seed * 2654435761u + 1;

    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++) {
                double wave = sin((x * (c + 2) + y * 3 + (int)(seed % 7)) / 23.0) * 70;
                int edge = (x / 19 + y / 13) % 3 == c % 3 ? 40 : 0;
                int value;
                noise = noise * 1664525u + 1013904223u;
                value = 110 + (int)wave + edge + (int)(noise >> 28);
                *at++ = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
            }
    return pixels;
}

struct picture_file picture_jpeg(const uint8_t *pixels, int width, int height,
                                 const struct picture_jpeg *how)
{
    struct jpeg_compress_struct libjpeg;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long size = 0;

    libjpeg.err = jpeg_std_error(&errors);
    jpeg_create_compress(&libjpeg);
    jpeg_mem_dest(&libjpeg, &bytes, &size);
    libjpeg.image_width = (unsigned)width;
    libjpeg.image_height = (unsigned)height;
    libjpeg.input_components = how->channels;
    libjpeg.in_color_space = how->channels == 1   ? JCS_GRAYSCALE
                             : how->channels == 3 ? JCS_RGB
                                                  : JCS_CMYK;
    jpeg_set_defaults(&libjpeg);
    if (how->ycck)
        jpeg_set_colorspace(&libjpeg, JCS_YCCK);
    if (how->rgb)
        jpeg_set_colorspace(&libjpeg, JCS_RGB);
    jpeg_set_quality(&libjpeg, 90, TRUE);
    for (int i = 0; i < libjpeg.num_components; i++)
        libjpeg.comp_info[i].h_samp_factor = libjpeg.comp_info[i].v_samp_factor = 1;
    if (how->h)
        libjpeg.comp_info[0].h_samp_factor = how->h;
    if (how->v)
        libjpeg.comp_info[0].v_samp_factor = how->v;
    if (how->ycck) { /* K is sampled as Y is */
        libjpeg.comp_info[3].h_samp_factor = libjpeg.comp_info[0].h_samp_factor;
        libjpeg.comp_info[3].v_samp_factor = libjpeg.comp_info[0].v_samp_factor;
    }
    if (how->progressive)
        jpeg_simple_progression(&libjpeg);
    libjpeg.restart_in_rows = how->restart_rows;
    jpeg_start_compress(&libjpeg, TRUE);
    while (libjpeg.next_scanline < libjpeg.image_height) {
        JSAMPROW row = (JSAMPROW)(pixels + (size_t)libjpeg.next_scanline * (size_t)width *
                                               (size_t)how->channels);
        jpeg_write_scanlines(&libjpeg, &row, 1);
    }
    jpeg_finish_compress(&libjpeg);
    jpeg_destroy_compress(&libjpeg);
    return (struct picture_file){bytes, size};
}

static void append(png_structp libpng, png_bytep bytes, size_t size)
{
    struct picture_file *file = png_get_io_ptr(libpng);

    file->bytes = realloc(file->bytes, file->size + size);
    memcpy(file->bytes + file->size, bytes, size);
    file->size += size;
}

struct picture_file picture_png(const uint8_t *pixels, int width, int height,
                                const struct picture_png *how)
{
    struct picture_file file = {NULL, 0};
    png_structp libpng = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(libpng);
    png_color palette[256];
    size_t row;

    png_set_write_fn(libpng, &file, append, NULL);
    png_set_IHDR(libpng, info, (unsigned)width, (unsigned)height, how->depth, how->colour,
                 how->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    for (int i = 0; i < 256; i++)
        palette[i] = (png_color){(png_byte)(255 - i), (png_byte)(i * 7), (png_byte)(i ^ 0x55)};
    if (how->colour == PNG_COLOR_TYPE_PALETTE)
        png_set_PLTE(libpng, info, palette, 1 << how->depth);
    png_write_info(libpng, info);
    row = png_get_rowbytes(libpng, info);
    for (int pass = 0, passes = png_set_interlace_handling(libpng); pass < passes; pass++)
        for (int y = 0; y < height; y++)
            png_write_row(libpng, pixels + (size_t)y * row);
    png_write_end(libpng, info);
    png_destroy_write_struct(&libpng, &info);
    return file;
}

void picture_insert(struct picture_file *file, size_t at, const void *more, size_t size)
{
    unsigned char *bytes = malloc(file->size + size);

    memcpy(bytes, file->bytes, at);
    memcpy(bytes + at, more, size);
    memcpy(bytes + at + size, file->bytes + at, file->size - at);
    free(file->bytes);
    *file = (struct picture_file){bytes, file->size + size};
}

void picture_orient(struct picture_file *file, int orientation, bool big)
{
    static const char little_endian[] = "\xff\xe1\0\x22"
                                        "Exif\0\0"
                                        "II*\0\x08\0\0\0"
                                        "\1\0"
                                        "\x12\1\3\0\1\0\0\0\0\0\0\0"
                                        "\0\0\0\0";
    static const char big_endian[] = "\xff\xe1\0\x22"
                                     "Exif\0\0"
                                     "MM\0*\0\0\0\x08"
                                     "\0\1"
                                     "\1\x12\0\3\0\0\0\1\0\0\0\0"
                                     "\0\0\0\0";
    char segment[36];

    memcpy(segment, big ? big_endian : little_endian, sizeof segment);
    segment[big ? 29 : 28] = (char)orientation;
    picture_insert(file, 2, segment, sizeof segment);
}

uint8_t *picture_decoded(const struct picture_file *file, int denominator, int *width, int *height)
{
    struct jpeg_decompress_struct libjpeg;
    struct jpeg_error_mgr errors;
    uint8_t *pixels;

    libjpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&libjpeg);
    jpeg_mem_src(&libjpeg, file->bytes, file->size);
    jpeg_read_header(&libjpeg, TRUE);
    libjpeg.out_color_space = JCS_RGB;
    libjpeg.scale_num = 1;
    libjpeg.scale_denom = (unsigned)denominator;
    jpeg_start_decompress(&libjpeg);
    *width = (int)libjpeg.output_width;
    *height = (int)libjpeg.output_height;
    pixels = malloc((size_t)*width * (size_t)*height * 3);
    while (libjpeg.output_scanline < libjpeg.output_height) {
        JSAMPROW row = pixels + (size_t)libjpeg.output_scanline * (size_t)*width * 3;
        jpeg_read_scanlines(&libjpeg, &row, 1);
    }
    jpeg_finish_decompress(&libjpeg);
    jpeg_destroy_decompress(&libjpeg);
    return pixels;
}
