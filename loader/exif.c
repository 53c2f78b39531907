/* EXIF orientation: APP1 "Exif\0\0", a TIFF header, tag 0x0112 of the first IFD (Exif 2.32, 4.5 and
 * 4.6.4; JPEG markers: ITU-T T.81, B.1). Every offset is checked before use. */
#include "exif.h"

#include <stdbool.h>
#include <string.h>

enum { TAG_ORIENTATION = 0x0112, TYPE_SHORT = 3, TYPE_LONG = 4, ENTRY = 12 };

static uint32_t number(const uint8_t *at, int bytes, bool big)
{
    uint32_t value = 0;

    for (int i = 0; i < bytes; i++)
        value = value << 8 | at[big ? i : bytes - 1 - i];
    return value;
}

int exif_orientation_tiff(const uint8_t *bytes, size_t size)
{
    size_t ifd, count;
    bool big;

    if (size < 8 || (memcmp(bytes, "II*\0", 4) != 0 && memcmp(bytes, "MM\0*", 4) != 0))
        return 1;
    big = bytes[0] == 'M';
    ifd = number(bytes + 4, 4, big);
    if (ifd > size - 2)
        return 1;
    count = number(bytes + ifd, 2, big);
    for (size_t i = 0, at = ifd + 2; i < count && size - at >= ENTRY; i++, at += ENTRY) {
        uint32_t type = number(bytes + at + 2, 2, big), value;
        if (number(bytes + at, 2, big) != TAG_ORIENTATION)
            continue;
        if ((type != TYPE_SHORT && type != TYPE_LONG) || number(bytes + at + 4, 4, big) != 1)
            return 1;
        value = number(bytes + at + 8, type == TYPE_SHORT ? 2 : 4, big);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

int exif_orientation_jpeg(const uint8_t *bytes, size_t size)
{
    size_t at = 2;

    while (at + 4 <= size) {
        uint8_t marker = bytes[at + 1];
        size_t length;
        /* Bytes between segments, and fill bytes before a marker, are skipped as libjpeg does. */
        if (bytes[at] != 0xff || marker == 0xff || marker == 0) {
            at++;
            continue;
        }
        if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) { /* TEM, RSTn, SOI: no length */
            at += 2;
            continue;
        }
        if (marker == 0xd9 || marker == 0xda) /* EOI, SOS: what follows is no header */
            return 1;
        length = number(bytes + at + 2, 2, true);
        if (length < 2 || length > size - at - 2)
            return 1;
        if (marker == 0xe1 && length >= 8 && memcmp(bytes + at + 4, "Exif\0", 6) == 0)
            return exif_orientation_tiff(bytes + at + 10, length - 8);
        at += 2 + length;
    }
    return 1;
}
