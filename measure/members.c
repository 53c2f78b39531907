/* From header to header through a tar stream (POSIX.1 ustar; sizes in octal or GNU's base 256). */
#include "members.h"

#include <string.h>

enum { SIZE = 124, SIZE_LENGTH = 12, CHECKSUM = 148, CHECKSUM_LENGTH = 8, TYPE = 156 };

static uint64_t octal(const unsigned char *text, size_t length)
{
    uint64_t value = 0;
    size_t i = 0;

    while (i < length && text[i] == ' ')
        i++;
    for (; i < length && text[i] >= '0' && text[i] <= '7'; i++)
        value = value * 8 + (uint64_t)(text[i] - '0');
    return value;
}

static uint64_t size_of(const unsigned char *header)
{
    const unsigned char *text = header + SIZE;
    uint64_t value = 0;

    if (!(text[0] & 0x80))
        return octal(text, SIZE_LENGTH);
    for (size_t i = SIZE_LENGTH - 8; i < SIZE_LENGTH; i++)
        value = value << 8 | text[i];
    return value;
}

static bool checksum_agrees(const unsigned char *header)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < MEMBERS_HEADER; i++)
        sum += i >= CHECKSUM && i < CHECKSUM + CHECKSUM_LENGTH ? ' ' : header[i];
    return sum == octal(header + CHECKSUM, CHECKSUM_LENGTH);
}

static void take_header(struct members *members, const unsigned char *header)
{
    uint64_t size = size_of(header);
    unsigned char type = header[TYPE];

    /* The zero block at the end has no checksum either. */
    members->ended = !checksum_agrees(header) || size > INT64_MAX - MEMBERS_HEADER;
    if (members->ended)
        return;
    members->count += type == '0' || type == '\0' || type == '7';
    /* Links and folders have no data, whatever their size says. */
    if (type >= '1' && type <= '6')
        size = 0;
    members->skip = (size + MEMBERS_HEADER - 1) / MEMBERS_HEADER * MEMBERS_HEADER;
}

void members_take(struct members *members, const void *bytes, size_t length)
{
    const unsigned char *next = bytes;

    while (length && !members->ended) {
        size_t part = MEMBERS_HEADER - members->held;
        if (members->skip) {
            part = members->skip < length ? (size_t)members->skip : length;
            members->skip -= part;
        } else if (!members->held && length >= MEMBERS_HEADER) {
            take_header(members, next);
        } else {
            if (part > length)
                part = length;
            memcpy(members->header + members->held, next, part);
            members->held += part;
            if (members->held == MEMBERS_HEADER) {
                members->held = 0;
                take_header(members, members->header);
            }
        }
        next += part;
        length -= part;
    }
}
