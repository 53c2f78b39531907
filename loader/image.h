/* One stored picture -> the pixels that training takes: decoded, cropped, resized, mirrored.
 *
 * Order of the steps, as torchvision's transforms do them: EXIF orientation (if asked for), crop,
 * resize, mirror. Only the part of a JPEG that the crop needs is decoded, at 1/2, 1/4 or 1/8 of its
 * size where that still leaves as many pixels as the result has.
 *
 * What a picture is, its bytes say, never its name: JPEG and PNG are decoded, whatever else is
 * refused by its true name. Nothing here reports, exits or keeps state between pictures but the
 * buffers.
 *
 * The internal header of the image half; loader/pixels.h makes tensors of what comes out. */
#ifndef SHUFFLELOAD_IMAGE_H
#define SHUFFLELOAD_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum image_crop {
    IMAGE_STRETCH,        /* the whole picture to width x height, whatever its shape */
    IMAGE_RANDOM_RESIZED, /* torchvision's RandomResizedCrop */
    IMAGE_CENTRE,         /* shortest side to `shorter`, then width x height from the centre */
};

/* The largest side of a picture: what a JPEG can have; a PNG may say more and is refused. */
#define IMAGE_SIDE_MAX 65535
/* The largest width and height of a recipe. */
#define IMAGE_TARGET_MAX 16384

struct image_recipe {
    int width, height; /* of the result, 1..IMAGE_TARGET_MAX */
    enum image_crop crop;
    int shorter;                  /* IMAGE_CENTRE: at least width and height */
    double area_least, area_most; /* IMAGE_RANDOM_RESIZED: part of the picture's area, in (0, 1] */
    double ratio_least, ratio_most; /* IMAGE_RANDOM_RESIZED: width / height */
    double flip;                    /* probability of mirroring left-right, 0..1; any crop */
    bool orient;                    /* apply the EXIF orientation */
    bool exact;                     /* no scaling in the DCT: equal to PIL within one level */
    int margin;           /* the DCT scales down only as far as this many times the result's
                             pixels stay, each way; 0 is 1 */
    uint64_t pixels_most; /* width * height above this: -EFBIG; at least 1 */
    int scans_most;       /* more scans than this in a JPEG: -EFBIG; at least 1 */
};

/* What the random numbers of a picture depend on, and nothing else: equal keys give equal crops,
 * whichever decoder, thread or machine, in whatever order (see random.h). `position` is the
 * picture's place in the epoch's order. */
struct image_key {
    uint64_t seed, epoch, position;
};

/* What was found; filled by image_decode() whatever it returns, as far as it came. */
struct image_report {
    int width, height;  /* as the header says: before orientation and crop; 0 when unknown */
    int components;     /* as stored: 1 grey, 3 colour, 4 CMYK or with alpha, 2 grey with alpha */
    const char *format; /* "jpeg", "png", "gif", "webp", ..., "unknown", "empty"; a literal */
    int orientation; /* EXIF's, 1..8; 1 too where there is none, or the recipe does not apply it */
    bool damaged;    /* a fault was met on the way to the pixels that were asked for */
    bool truncated;  /* the bytes ended before the picture did, whatever was returned */
    char why[160];   /* the first fault or the reason of a refusal; "" when all is well */
};

/* Time spent since image_decoder_times() was called, in nanoseconds. */
struct image_times {
    uint64_t decode_ns; /* header, entropy decoding, IDCT, colour conversion, orientation */
    uint64_t resize_ns; /* resizing, mirroring included */
};

struct image_decoder;

/* One decoder a thread: a decoder has no lock. All memory is kept and reused, and grows to what the
 * largest picture so far has needed, at most: the decoded part of a picture, 3 bytes a pixel (twice
 * that when an orientation is applied), so never more than 6 * pixels_most bytes and change; the
 * libraries' own memory on top, freed after each picture, is up to 8 bytes a pixel for progressive
 * JPEG. Returns 0, -ENOMEM, or -EINVAL for a recipe that makes no sense. */
int image_decoder_open(struct image_decoder **out, const struct image_recipe *recipe);
void image_decoder_close(struct image_decoder *decoder); /* NULL is fine */

/* Fills `rgb` (width * height * 3 bytes of the recipe, row after row, R G B) from the `size` bytes
 * of a file. On failure `rgb` holds nothing of use. Returns:
 *   0         a picture; with report->damaged, one with faults in it (grey rows, wrong blocks).
 *             Damage is seen as far as decoding goes: a crop says nothing of the rows below it
 *   -EBADMSG  nothing to decode, or too damaged to
 *   -ENOTSUP  another format; report->format says which
 *   -EFBIG    larger than pixels_most, scans_most or IMAGE_SIDE_MAX allow; found before any memory
 *             is taken for it
 *   -ENOMEM */
int image_decode(struct image_decoder *decoder, const void *bytes, size_t size,
                 const struct image_key *key, uint8_t *rgb, struct image_report *report);

/* What the header says, and nothing decoded: fills the report, and *width and *height with the size
 * of the picture when it is upright (recipe.orient; else as stored). Returns as image_decode(). */
int image_decoder_look(struct image_decoder *decoder, const void *bytes, size_t size, int *width,
                       int *height, struct image_report *report);

/* The size of the results from now on, for IMAGE_STRETCH. 0, or -EFBIG: not 1..IMAGE_TARGET_MAX. */
int image_decoder_aim(struct image_decoder *decoder, int width, int height);

/* From now on time is added to *times, which must outlive that; NULL stops it. Without it no clock
 * is read. */
void image_decoder_times(struct image_decoder *decoder, struct image_times *times);

#endif
