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
    size_t at = 0;

    while (at < length && text[at] && strchr(blanks, text[at]))
        at++;
    if (at == length || text[at] < '0' || text[at] > '9')
        return false;
    for (; at < length && text[at] >= '0' && text[at] <= '9'; at++) {
        if (value > ((uint64_t)INT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(text[at] - '0');
    }
    while (at < length && text[at] && strchr(blanks, text[at]))
        at++;
    if (at != length)
        return false;
    *label = (int64_t)value;
    return true;
}

bool sample_is_litter(const char *path)
{
    const char *base = base_of(path);
    size_t length = strlen(base);

    return *base == '.' || !*base ||
           (length >= 4 && strncmp(base, "__", 2) == 0 && strcmp(base + length - 2, "__") == 0);
}
