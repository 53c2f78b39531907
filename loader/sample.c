/* Names and labels of samples. */
#include "sample.h"

#include <string.h>

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

void sample_set_name(struct sample *sample, const char *path)
{
    size_t length = strlen(path);

    if (length >= SAMPLE_NAME_ROOM)
        path += length - (SAMPLE_NAME_ROOM - 1);
    memccpy(sample->name, path, '\0', SAMPLE_NAME_ROOM - 1);
    sample->name[SAMPLE_NAME_ROOM - 1] = '\0';
}

const char *sample_extension(const char *path, bool last)
{
    const char *base = base_of(path);
    const char *dot = *base ? (last ? strrchr(base + 1, '.') : strchr(base + 1, '.')) : NULL;

    return dot ? dot + 1 : base + strlen(base);
}

bool sample_parse_label(const char *text, size_t length, int64_t *label)
{
    static const char blanks[] = " \t\r\n";
    uint64_t value = 0;
    bool negative;
    size_t at = 0;

    while (at < length && text[at] && strchr(blanks, text[at]))
        at++;
    negative = at < length && text[at] == '-';
    at += negative;
    if (at == length || text[at] < '0' || text[at] > '9')
        return false;
    for (; at < length && text[at] >= '0' && text[at] <= '9'; at++)
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(text[at] - '0'), &value))
            return false;
    while (at < length && text[at] && strchr(blanks, text[at]))
        at++;
    /* The least 64-bit number is SL_NO_LABEL. */
    if (at != length || value > INT64_MAX)
        return false;
    *label = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool sample_is_litter(const char *path)
{
    const char *base = base_of(path);
    size_t length = strlen(base);

    return *base == '.' || !*base ||
           (length >= 4 && strncmp(base, "__", 2) == 0 && strcmp(base + length - 2, "__") == 0);
}
