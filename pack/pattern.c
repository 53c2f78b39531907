/* Shards' names from a pattern and back. The pattern is taken apart once and is never a format
 * string for printf. */
#include "pattern.h"

#include "../core/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_MAX  18
#define NUMBER_MAX 20 /* digits of a 64-bit number */
/* What is written beside a shard has a dot before its name and this behind it at most. */
#define BESIDE_MAX 16

static int refuse(const char *text, const char *why)
{
    report_error("-o %s: %s", text, why);
    return -EINVAL;
}

/* `at` is behind the '%'. Returns what follows the conversion, NULL: it is none that is taken. */
static const char *take_conversion(const char *at, int *width)
{
    char *end;
    long number;

    *width = 1;
    if (*at == 'd')
        return at + 1;
    if (*at != '0' || at[1] < '1' || at[1] > '9')
        return NULL;
    number = strtol(at + 1, &end, 10);
    if (*end != 'd' || number > WIDTH_MAX)
        return NULL;
    *width = (int)number;
    return end + 1;
}

int pack_pattern_parse(struct pack_pattern *pattern, const char *text)
{
    const char *slash = strrchr(text, '/'), *base = slash ? slash + 1 : text;
    const char *percent = strchr(base, '%'), *after;
    size_t folder = slash ? (size_t)(slash - text) : 0;

    if (*base == '\0')
        return refuse(text, "names a folder: the shards' name is missing, as in train-%06d.tar");
    if (memchr(text, '%', folder))
        return refuse(text, "a % in the folder: the number belongs into the file's name");
    if (!percent)
        return refuse(text, "no place for the shard's number, as in train-%06d.tar");
    after = take_conversion(percent + 1, &pattern->width);
    if (!after)
        return refuse(text, "the number is %d or %0Wd, W from 1 to 18, as in train-%06d.tar");
    if (strchr(after, '%'))
        return refuse(text, "one number only, and no other %");
    if (folder >= sizeof pattern->folder ||
        strlen(base) + NUMBER_MAX + BESIDE_MAX >= sizeof pattern->prefix)
        return refuse(text, "too long");
    snprintf(pattern->folder, sizeof pattern->folder, "%.*s", (int)folder, text);
    if (!slash)
        strcpy(pattern->folder, ".");
    else if (folder == 0)
        strcpy(pattern->folder, "/");
    snprintf(pattern->text, sizeof pattern->text, "%s", base);
    snprintf(pattern->prefix, sizeof pattern->prefix, "%.*s", (int)(percent - base), base);
    snprintf(pattern->suffix, sizeof pattern->suffix, "%s", after);
    return 0;
}

void pack_pattern_name(const struct pack_pattern *pattern, uint64_t number, char *name)
{
    char digits[WIDTH_MAX + NUMBER_MAX];

    /* pack_pattern_parse() saw to it that there is room. */
    snprintf(digits, sizeof digits, "%0*llu", pattern->width, (unsigned long long)number);
    stpcpy(stpcpy(stpcpy(name, pattern->prefix), digits), pattern->suffix);
}

uint64_t pack_pattern_sorted(const struct pack_pattern *pattern)
{
    uint64_t count = 1;

    for (int i = 0; i < pattern->width; i++)
        count *= 10;
    return count;
}

bool pack_pattern_number(const struct pack_pattern *pattern, const char *name, uint64_t *number)
{
    size_t prefix = strlen(pattern->prefix);
    char again[PACK_NAME_MAX], *end;

    if (strncmp(name, pattern->prefix, prefix) != 0 || name[prefix] < '0' || name[prefix] > '9')
        return false;
    errno = 0;
    *number = strtoull(name + prefix, &end, 10);
    if (errno || strcmp(end, pattern->suffix) != 0)
        return false;
    pack_pattern_name(pattern, *number, again);
    return strcmp(again, name) == 0;
}
