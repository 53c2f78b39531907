/* Numbers and names for people. */
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

char *text_count(char *text, uint64_t value)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
    char *end = text;

    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *end++ = ',';
        *end++ = digits[i];
    }
    *end = '\0';
    return text;
}

char *text_number(char *text, double value)
{
    if (!isfinite(value) || value < 0 || value > 1e18) {
        snprintf(text, TEXT_NUMBER, "-");
        return text;
    }
    /* Limits stand where rounding would add a digit. */
    if (value == 0 || value >= 99.95)
        return text_count(text, (uint64_t)(value + 0.5));
    snprintf(text, TEXT_NUMBER, "%.*f", value >= 9.995 ? 1 : value >= 0.9995 ? 2 : 3, value);
    return text;
}

/* Bytes of the UTF-8 character at `name`; 0 when there is none, or one that XML 1.0 forbids. */
static size_t character(const unsigned char *name)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = name[0] < 0x80             ? 1
                    : (name[0] & 0xe0) == 0xc0 ? 2
                    : (name[0] & 0xf0) == 0xe0 ? 3
                    : (name[0] & 0xf8) == 0xf0 ? 4
                                               : 0;
    uint32_t value = length > 1 ? name[0] & (0x7fU >> length) : name[0];

    for (size_t i = 1; i < length; i++) {
        if ((name[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (name[i] & 0x3f);
    }
    if (length && (value < 0x20 || (value >= 0x7f && value < 0xa0) || value < least[length] ||
                   (value >= 0xd800 && value < 0xe000) || value > 0x10ffff || value == 0xfffe ||
                   value == 0xffff))
        return 0;
    return length;
}

char *text_name(char *text, size_t room, const char *name)
{
    const unsigned char *next = (const unsigned char *)name;
    size_t used = 0;

    while (*next) {
        size_t length = character(next);
        if (used + (length ? length : 1) >= room)
            break;
        if (length)
            memcpy(text + used, next, length);
        else
            text[used] = '?';
        length = length ? length : 1;
        used += length;
        next += length;
    }
    text[used] = '\0';
    return text;
}

void text_write_xml(FILE *file, const char *name)
{
    char printable[TEXT_XML + 1];

    for (const char *c = text_name(printable, sizeof printable, name); *c; c++) {
        switch (*c) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc(*c, file);
        }
    }
}
