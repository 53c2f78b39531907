/* One stored picture -> a smaller JPEG, for packing ahead of training: the short side brought down
 * to a given length, the shape kept. What need not change is left as it is.
 *
 * The long side is the short one's length times the ratio, rounded down, as in torchvision's
 * Resize(N). EXIF orientation is applied, as the new file has no EXIF. Pixels are scaled down in
 * the DCT only while twice the result's are left, each way; the rest is PIL's triangle filter
 * (resize.h). A grey picture stays grey; CMYK, YCCK and PNG become YCbCr, alpha is dropped.
 *
 * Internal to this project, not of libshuffleload. */
#ifndef SHUFFLELOAD_SHRINK_H
#define SHUFFLELOAD_SHRINK_H

#include "image.h"

struct shrink_settings {
    int short_side; /* 1..IMAGE_TARGET_MAX; 0: sizes stay */
    int quality;    /* libjpeg's, 1..100 */
    bool png;       /* PNGs become JPEGs, whatever their size; else they are SHRINK_OTHER */
};

enum shrink_outcome {
    SHRINK_KEPT,    /* a JPEG that is small enough: nothing of it but the header was looked at */
    SHRINK_MADE,    /* a new JPEG */
    SHRINK_OTHER,   /* another format than is worked on */
    SHRINK_DAMAGED, /* no picture, one with faults in it, or one that is too large to be decoded */
};

struct shrink_result {
    enum shrink_outcome outcome;
    const uint8_t *bytes; /* SHRINK_MADE: the file, until the next picture */
    size_t size;
    struct image_report report; /* why, and what the picture was */
};

/* One a thread. 0, -ENOMEM, or -EINVAL for settings out of range. */
struct shrink;
int shrink_open(struct shrink **out, const struct shrink_settings *settings);
void shrink_close(struct shrink *shrink); /* NULL is fine */

/* 0 or -ENOMEM. Equal bytes and settings give equal results. */
int shrink_picture(struct shrink *shrink, const void *bytes, size_t size,
                   struct shrink_result *result);

#endif
