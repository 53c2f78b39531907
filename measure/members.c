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

/* Counts the member whose data has ended. */
static void count_whole(struct members *members)
{
    if (members->regular && members->skip <= members->padding) {
        members->count++;
        members->regular = false;
    }
}

/* A header that stands at offset `at` of the stream. */
static void take_header(struct members *members, const unsigned char *header, uint64_t at)
{
    uint64_t size = size_of(header);
    unsigned char type = header[TYPE];

    /* The zero block at the end has no checksum either. */
    members->ended = !checksum_agrees(header) || size > INT64_MAX - MEMBERS_HEADER;
    if (members->ended)
        return;
    members->member = at;
    members->regular = type == '0' || type == '\0' || type == '7';
    /* Links and folders have no data, whatever their size says. */
    if (type >= '1' && type <= '6')
        size = 0;
    members->skip = (size + MEMBERS_HEADER - 1) / MEMBERS_HEADER * MEMBERS_HEADER;
    members->padding = (size_t)(members->skip - size);
    count_whole(members);
}

void members_take(struct members *members, const void *bytes, size_t length)
{
    const unsigned char *next = bytes;
    uint64_t at = members->taken;

    members->taken += length;
    while (length && !members->ended) {
        size_t part = MEMBERS_HEADER - members->held;
        if (members->skip) {
            part = members->skip < length ? (size_t)members->skip : length;
            members->skip -= part;
            count_whole(members);
        } else if (!members->held && length >= MEMBERS_HEADER) {
            take_header(members, next, at);
        } else {
            if (part > length)
                part = length;
            memcpy(members->header + members->held, next, part);
            members->held += part;
            if (members->held == MEMBERS_HEADER) {
                members->held = 0;
                take_header(members, members->header, at + part - MEMBERS_HEADER);
            }
        }
        next += part;
        at += part;
        length -= part;
    }
}

struct members_cut members_end(const struct members *members)
{
    struct members_cut cut = {.offset = members->taken};

    if (members->ended)
        return cut;
    if (members->held) {
        cut.lacks = MEMBERS_HEADER - members->held;
        cut.member = members->taken - members->held;
        cut.header = true;
    } else if (members->skip > members->padding) {
        cut.lacks = members->skip - members->padding;
        cut.member = members->member;
    }
    return cut;
}
