/* The walk over a JPEG's markers (ITU-T T.81, annex B; which colours three components are:
 * libjpeg's default_decompress_parms). */
#include "jpeg_plain.h"

#include <stdbool.h>
#include <string.h>

enum {
    SOF_BASELINE = 0xc0,
    DHT = 0xc4,
    JPG = 0xc8,
    DAC = 0xcc,
    RST0 = 0xd0,
    RST7 = 0xd7,
    SOI = 0xd8,
    EOI = 0xd9,
    SOS = 0xda,
    DQT = 0xdb,
    DNL = 0xdc,
    DRI = 0xdd,
    APP0 = 0xe0,
    APP14 = 0xee,
};

struct walk {
    const uint8_t *bytes;
    size_t size, at;
    bool frame, tables, quantised, jfif, adobe;
    int transform; /* Adobe's */
    unsigned ids[3];
    unsigned wide, high; /* a unit that is coded at once, in pixels */
    unsigned interval;   /* of restarts, in such units; 0: none */
};

static unsigned two(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static const char *read_frame(struct walk *walk, const uint8_t *at, size_t length,
                              struct jpeg_plain *plain)
{
    if (walk->frame)
        return "more than one frame";
    if (length < 6)
        return "a damaged header";
    if (at[0] != 8)
        return "not 8 bits a sample";
    plain->height = (int)two(at + 1);
    plain->width = (int)two(at + 3);
    plain->components = at[5];
    if (plain->components != 1 && plain->components != 3)
        return plain->components == 4 ? "four components" : "not 1 or 3 components";
    if (length != 6 + 3 * (size_t)plain->components)
        return "a damaged header";
    if (!plain->width || !plain->height)
        return "no size in the header";
    for (int i = 0; i < plain->components; i++) {
        unsigned across = at[7 + 3 * i] >> 4, down = at[7 + 3 * i] & 15;

        if (across < 1 || across > 4 || down < 1 || down > 4)
            return "a damaged header";
        walk->ids[i] = at[6 + 3 * i];
        walk->wide = across > walk->wide ? across : walk->wide;
        walk->high = down > walk->high ? down : walk->high;
    }
    /* A lone component is coded block by block, whatever it says. */
    walk->wide = plain->components == 1 ? 8 : 8 * walk->wide;
    walk->high = plain->components == 1 ? 8 : 8 * walk->high;
    walk->frame = true;
    return NULL;
}

static const char *read_segment(struct walk *walk, uint8_t marker, const uint8_t *at, size_t length,
                                struct jpeg_plain *plain)
{
    if (marker == SOF_BASELINE)
        return read_frame(walk, at, length, plain);
    if (marker > SOF_BASELINE && marker < RST0 && marker != DHT && marker != JPG && marker != DAC)
        return marker == 0xc2   ? "progressive"
               : marker == 0xc1 ? "extended sequential"
               : marker > JPG   ? "arithmetic coding"
                                : "lossless or hierarchical";
    if (marker == DAC)
        return "arithmetic coding";
    if (marker == DNL)
        return "no size in the header";
    if (marker == DRI && length != 2)
        return "a damaged header";
    if (marker == DRI)
        walk->interval = two(at);
    walk->tables |= marker == DHT;
    walk->quantised |= marker == DQT;
    if (marker == APP0 && length >= 5 && memcmp(at, "JFIF", 5) == 0)
        walk->jfif = true;
    if (marker == APP14 && length >= 12 && memcmp(at, "Adobe", 5) == 0) {
        walk->adobe = true;
        walk->transform = at[11];
    }
    return NULL;
}

/* Three components are YCbCr for libjpeg and for nvJPEG. */
static bool is_ycc(const struct walk *walk)
{
    if (walk->adobe && walk->transform != 1)
        return false;
    return walk->jfif || walk->adobe ||
           (walk->ids[0] == 1 && walk->ids[1] == 2 && walk->ids[2] == 3);
}

static const char *check_scan(const struct walk *walk, const uint8_t *at, size_t length,
                              const struct jpeg_plain *plain)
{
    size_t count = (size_t)plain->components;

    if (!walk->frame || !walk->tables || !walk->quantised)
        return "a header without all its tables";
    if (length < 1 || at[0] != count)
        return "several scans";
    if (length != 4 + 2 * count || at[1 + 2 * count] != 0 || at[2 + 2 * count] != 63 ||
        at[3 + 2 * count] != 0)
        return "a damaged header";
    if (count == 3 && !is_ycc(walk))
        return "colours other than YCbCr";
    return NULL;
}

/* From the scan's first byte to the end marker. In entropy-coded data 0xff is followed by 0 or a
 * restart; these count to 8 and start anew. */
static const char *check_data(struct walk *walk, const struct jpeg_plain *plain)
{
    uint64_t units = (uint64_t)(((unsigned)plain->width + walk->wide - 1) / walk->wide) *
                     (((unsigned)plain->height + walk->high - 1) / walk->high);
    uint64_t restarts = 0, wanted = walk->interval ? (units - 1) / walk->interval : 0;

    while (walk->at < walk->size) {
        const uint8_t *found = memchr(walk->bytes + walk->at, 0xff, walk->size - walk->at);
        uint8_t marker;

        walk->at = found ? (size_t)(found - walk->bytes) + 1 : walk->size;
        if (walk->at >= walk->size)
            break;
        marker = walk->bytes[walk->at];
        if (marker == 0xff) /* fill */
            continue;
        walk->at++;
        if (marker == 0)
            continue;
        if (marker == EOI)
            return restarts == wanted ? NULL : "restart markers missing";
        if (marker < RST0 || marker > RST7)
            return "several scans";
        if (marker - RST0 != (int)(restarts++ % 8))
            return "restart markers missing";
    }
    return "no end: cut short";
}

const char *jpeg_plain_look(const uint8_t *bytes, size_t size, struct jpeg_plain *plain)
{
    struct walk walk = {.bytes = bytes, .size = size, .at = 2};

    *plain = (struct jpeg_plain){0, 0, 0};
    if (size < 4 || bytes[0] != 0xff || bytes[1] != SOI)
        return "not a JPEG";
    while (walk.at + 4 <= size) {
        uint8_t marker = bytes[walk.at + 1];
        const uint8_t *at = bytes + walk.at + 4;
        const char *why;
        size_t length;

        if (bytes[walk.at] != 0xff)
            return "bytes between segments";
        if (marker == 0xff) { /* fill */
            walk.at++;
            continue;
        }
        if (marker < SOF_BASELINE || (marker >= RST0 && marker <= EOI))
            return "a damaged header";
        length = two(bytes + walk.at + 2);
        if (length < 2 || length > size - walk.at - 2)
            return "no end: cut short";
        walk.at += 2 + length;
        length -= 2;
        if (marker == SOS) {
            why = check_scan(&walk, at, length, plain);
            return why ? why : check_data(&walk, plain);
        }
        why = read_segment(&walk, marker, at, length, plain);
        if (why)
            return why;
    }
    return "no end: cut short";
}
