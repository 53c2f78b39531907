/* What the fuzzers of tars share: members of the tars to begin from, and checksums put right,
 * without which nothing but the checksums would be tried. */
#ifndef SHUFFLEFS_FUZZ_TAR_BYTES_H
#define SHUFFLEFS_FUZZ_TAR_BYTES_H

#include "seeds.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 512 };

/* A member of this type; 0: a hard link. Of links `content` is what they lead to. */
static void tar_add(struct archive *archive, const char *name, const char *content, mode_t type)
{
    struct archive_entry *entry = archive_entry_new();

    archive_entry_set_pathname(entry, name);
    archive_entry_set_perm(entry, 0644);
    /* A fraction of a second, which makes PAX records of times. */
    archive_entry_set_mtime(entry, 1600000000, 250000000);
    archive_entry_set_filetype(entry, type ? type : AE_IFREG);
    if (!type)
        archive_entry_set_hardlink(entry, content);
    else if (type == AE_IFLNK)
        archive_entry_set_symlink(entry, content);
    archive_entry_set_size(entry, type == AE_IFREG ? (la_int64_t)strlen(content) : 0);
    archive_write_header(archive, entry);
    if (type == AE_IFREG)
        archive_write_data(archive, content, strlen(content));
    archive_entry_free(entry);
}

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
