/* Is this a JPEG that a GPU's decoder gives the same picture of as libjpeg-turbo? Markers are read,
 * nothing is decoded: a pass over the bytes that costs far less than entropy decoding. What is not
 * plain the host decodes; whether it is any good is not said here. No state, any thread. */
#ifndef SHUFFLELOAD_JPEG_PLAIN_H
#define SHUFFLELOAD_JPEG_PLAIN_H

#include <stddef.h>
#include <stdint.h>

struct jpeg_plain {
    int width, height; /* 1 to 65535 */
    int components;    /* 1 or 3 */
};

/* NULL: baseline, 8 bits, grey or YCbCr by everybody's rules, one scan, no restart marker missing,
 * and whole: it ends with its end marker. Else why not: a literal. Damage between markers is not
 * seen. */
const char *jpeg_plain_look(const uint8_t *bytes, size_t size, struct jpeg_plain *plain);

#endif
