/* What the fuzzers of tars share: checksums put right, without which nothing but the checksums
 * would be tried. */
#ifndef SHUFFLEFS_FUZZ_TAR_BYTES_H
#define SHUFFLEFS_FUZZ_TAR_BYTES_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 512 };

static uint64_t octal(const uint8_t *digits, size_t count)
{
    uint64_t value = 0;

    for (size_t i = 0; i < count && digits[i] >= '0' && digits[i] <= '7'; i++)
        value = value * 8 + digits[i] - '0';
    return value;
}

/* Adding up is nothing to be guided by, and would take half the time. */
#ifdef __clang__
__attribute__((no_sanitize("coverage", "address", "undefined")))
#endif
static void
mend_checksums(uint8_t *tar, size_t size)
{
    enum { SIZE_AT = 124, SIZE_DIGITS = 11, SUM_AT = 148, SUM_DIGITS = 8 };

    for (size_t at = 0; size - at >= BLOCK;) {
        uint8_t *header = tar + at;
        unsigned sum = 0;
        uint64_t content;

        at += BLOCK;
        memset(header + SUM_AT, ' ', SUM_DIGITS);
        for (int i = 0; i < BLOCK; i++)
            sum += header[i];
        if (sum == SUM_DIGITS * ' ') { /* an end mark's block of zeroes */
            memset(header + SUM_AT, 0, SUM_DIGITS);
            continue;
        }
        snprintf((char *)header + SUM_AT, SUM_DIGITS, "%06o", sum);
        content = (octal(header + SIZE_AT, SIZE_DIGITS) + BLOCK - 1) / BLOCK * BLOCK;
        if (content > size - at)
            return;
        at += content;
    }
}

#endif
