/* Formats by their first bytes, as file(1) and the formats' specifications have them. */
#include "format.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `length` bytes at `at`; several rows may name one format. */
static const struct {
    const char *name;
    size_t at, length;
    const char *magic;
} formats[] = {
    {"jpeg", 0, 2, "\xff\xd8"},
    {"png", 0, 8, "\x89PNG\r\n\x1a\n"},
    {"gif", 0, 6, "GIF87a"},
    {"gif", 0, 6, "GIF89a"},
    {"webp", 8, 4, "WEBP"},
    {"tiff", 0, 4, "II*\0"},
    {"tiff", 0, 4, "MM\0*"},
    {"avif", 4, 8, "ftypavif"},
    {"avif", 4, 8, "ftypavis"},
    {"heif", 4, 8, "ftypheic"},
    {"heif", 4, 8, "ftypheix"},
    {"heif", 4, 8, "ftypmif1"},
    {"jpeg2000", 0, 12, "\0\0\0\x0cjP  \r\n\x87\n"},
    {"jpeg2000", 0, 4, "\xff\x4f\xff\x51"},
    {"jpegxl", 0, 12, "\0\0\0\x0cJXL \r\n\x87\n"},
    {"jpegxl", 0, 2, "\xff\x0a"},
    {"psd", 0, 4, "8BPS"},
    {"ico", 0, 4, "\0\0\1\0"},
    {"qoi", 0, 4, "qoif"},
    {"gzip", 0, 3, "\x1f\x8b\x08"},
    {"zip", 0, 4, "PK\3\4"},
    {"zstd", 0, 4, "\x28\xb5\x2f\xfd"},
    {"xz", 0, 6,
     "\xfd"
     "7zXZ\0"},
    {"bzip2", 0, 3, "BZh"},
    {"pdf", 0, 5, "%PDF-"},
    {"html", 0, 9, "<!DOCTYPE"},
    {"html", 0, 5, "<html"},
    {"xml", 0, 5, "<?xml"},
    {"svg", 0, 4, "<svg"},
};

const char *format_name(const void *bytes, size_t size)
{
    const uint8_t *b = bytes;

    if (size == 0)
        return "empty";
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (size >= formats[i].at + formats[i].length &&
            memcmp(b + formats[i].at, formats[i].magic, formats[i].length) == 0)
            return formats[i].name;
    if (size >= 14 && memcmp(b, "BM", 2) == 0 && memcmp(b + 6, "\0\0\0\0", 4) == 0)
        return "bmp";
    if (size >= 3 && b[0] == 'P' && b[1] >= '1' && b[1] <= '7' && strchr(" \t\r\n#", b[2]))
        return "netpbm";
    return "unknown";
}

int format_buffer_grow(struct format_buffer *buffer, size_t size)
{
    if (buffer->size >= size)
        return 0;
    free(buffer->bytes);
    buffer->size = 0;
    buffer->bytes = malloc(size);
    if (!buffer->bytes)
        return -ENOMEM;
    buffer->size = size;
    return 0;
}

void format_report(struct image_report *report, const char *format, ...)
{
    va_list arguments;

    if (report->why[0])
        return;
    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, one line up */
    vsnprintf(report->why, sizeof report->why, format, arguments);
    va_end(arguments);
}

int format_size_check(const struct image_recipe *recipe, uint64_t width, uint64_t height,
                      struct image_report *report)
{
    if (width > IMAGE_SIDE_MAX || height > IMAGE_SIDE_MAX)
        format_report(report, "%llux%llu pixels: no side may be above %d",
                      (unsigned long long)width, (unsigned long long)height, IMAGE_SIDE_MAX);
    else if (width * height > recipe->pixels_most)
        format_report(report, "%llux%llu pixels: at most %llu are allowed",
                      (unsigned long long)width, (unsigned long long)height,
                      (unsigned long long)recipe->pixels_most);
    else
        return 0;
    return -EFBIG;
}
