/* Takes a header for plain only where each field that has a say is in its plainest form. Owns
 * nothing; never reads a file. */
#include "plain_header.h"

#include "record.h"

#include <string.h>

struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], kind, link[100], magic[8],
        user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct ustar) == INDEX_HEADER_BYTES, "a header is one block");

#define IS_OCTAL(field)  is_octal(field, sizeof(field))
#define ARE_ZEROS(field) (memcmp(field, zeros, sizeof(field)) == 0)

static const char zeros[sizeof((struct ustar *)NULL)->prefix];

/* Digits, and then blanks or NULs up to the field's end. libarchive would take others for a
 * shard's first header alone not to be one. */
static bool is_octal(const char *field, size_t length)
{
    size_t i = 0;

    while (i < length && field[i] >= '0' && field[i] <= '7')
        i++;
    if (i == 0 || i == length)
        return false;
    while (i < length && (field[i] == ' ' || field[i] == '\0'))
        i++;
    return i == length;
}

static uint64_t octal(const char *digits)
{
    uint64_t value = 0;

    for (; *digits >= '0' && *digits <= '7'; digits++)
        value = value * 8 + (uint64_t)(*digits - '0');
    return value;
}

/* The sum of all bytes, those of the sum itself taken for blanks: four bytes at a time, each in
 * the lower half of 16 bits, which all of a block cannot overflow. */
static uint64_t sum_of(const char *block)
{
    const uint64_t low = 0x00ff00ff00ff00ff;
    const struct ustar *header = (const struct ustar *)block;
    uint64_t lanes = 0, sum = sizeof header->sum * ' ', word;

    for (size_t i = 0; i < INDEX_HEADER_BYTES; i += sizeof word) {
        memcpy(&word, block + i, sizeof word);
        lanes += (word & low) + (word >> 8 & low);
    }
    for (; lanes; lanes >>= 16)
        sum += lanes & 0xffff;
    for (size_t i = 0; i < sizeof header->sum; i++)
        sum -= (unsigned char)header->sum[i];
    return sum;
}

/* Appends what stands in a field that a NUL ends unless it is full. NULL: not ASCII alone. */
static char *append(char *to, const char *field, size_t room)
{
    for (size_t i = 0; i < room && field[i]; i++) {
        if ((unsigned char)field[i] >= 0x80)
            return NULL;
        *to++ = field[i];
    }
    return to;
}

/* ustar keeps names of more than 100 bytes in two parts, with a slash between that is not stored.
 */
static bool read_name(struct plain_header *header, const struct ustar *block)
{
    char *to = header->name;

    if (block->prefix[0]) {
        to = append(to, block->prefix, sizeof block->prefix);
        if (!to || to[-1] == '/')
            return false;
        *to++ = '/';
    }
    if (!block->name[0] || !(to = append(to, block->name, sizeof block->name)))
        return false;
    *to = '\0';
    /* Such a file is a folder to some. */
    return header->folder || to[-1] != '/';
}

/* Whether it is a header of either form, and right; of whatever kind. */
static bool is_right(const struct ustar *block)
{
    bool gnu = memcmp(block->magic, "ustar  ", sizeof block->magic) == 0;

    if (!gnu && memcmp(block->magic, "ustar\00000", sizeof block->magic) != 0)
        return false;
    if (block->link[0] || !ARE_ZEROS(block->rest))
        return false;
    /* GNU tar has other times, sizes and maps of holes there. */
    if (gnu && !ARE_ZEROS(block->prefix))
        return false;
    if (!IS_OCTAL(block->mode) || !IS_OCTAL(block->uid) || !IS_OCTAL(block->gid) ||
        !IS_OCTAL(block->size) || !IS_OCTAL(block->mtime) || !IS_OCTAL(block->sum))
        return false;
    if ((!IS_OCTAL(block->major) && !ARE_ZEROS(block->major)) ||
        (!IS_OCTAL(block->minor) && !ARE_ZEROS(block->minor)))
        return false;
    return octal(block->sum) == sum_of((const char *)block);
}

bool plain_header_read(struct plain_header *header, const char *bytes)
{
    const struct ustar *block = (const struct ustar *)bytes;

    if ((block->kind != '0' && block->kind != '5') || !is_right(block))
        return false;
    header->folder = block->kind == '5';
    header->size = octal(block->size);
    if (header->folder && header->size)
        return false;
    return read_name(header, block);
}

bool plain_header_is_pax(const char *bytes, size_t *size)
{
    const struct ustar *block = (const struct ustar *)bytes;

    if (block->kind != 'x' || !is_right(block))
        return false;
    *size = (size_t)octal(block->size);
    return *size > 0 && *size <= INDEX_HEADER_BYTES;
}

/* Seconds with a fraction, as a record's value. */
static bool is_time(const char *value, const char *end)
{
    size_t digits, more = 0;

    value += *value == '-';
    for (digits = 0; value < end && *value >= '0' && *value <= '9'; value++)
        digits++;
    if (value < end && *value == '.')
        for (value++; value < end && *value >= '0' && *value <= '9'; value++)
            more++;
    return value == end && digits && digits <= 18 && more <= 18;
}

/* Records are `LENGTH KEY=VALUE\n`; the length counts all of that. */
bool plain_header_only_times(const char *records, size_t size)
{
    static const char *const keys[] = {"mtime=", "atime=", "ctime="};
    const char *end = records + size;

    while (records < end) {
        const char *at = records;
        size_t length = 0, key;

        for (; at < end && at < records + 3 && *at >= '0' && *at <= '9'; at++)
            length = length * 10 + (size_t)(*at - '0');
        if (at == records || at == end || *at++ != ' ' || length > (size_t)(end - records) ||
            length < (size_t)(at - records) + strlen(keys[0]) + 2 || records[length - 1] != '\n')
            return false;
        for (key = 0; key < 3 && memcmp(at, keys[key], strlen(keys[key])) != 0; key++)
            ;
        if (key == 3 || !is_time(at + strlen(keys[key]), records + length - 1))
            return false;
        records += length;
    }
    return true;
}
