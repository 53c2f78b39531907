/* What a shard's name tells. Owns nothing, looks at no file. */
#include "shard_name.h"

#include "shards.h"

#include <stdio.h>
#include <string.h>

bool shard_name_ends(const char *name, const char *ending)
{
    size_t length = strlen(name), tail = strlen(ending);
    return length > tail && memcmp(name + length - tail, ending, tail) == 0;
}

/* Endings of compressed tars, and what they are of plain ones. */
static const struct {
    const char *ending;
    size_t keeps; /* bytes of it that a plain tar's name has, too; 0: it is an ending of its own */
} packed[] = {
    {".tar.gz", 4}, {".tgz", 0},      {".tar.bz2", 4}, {".tbz2", 0},
    {".tbz", 0},    {".tar.xz", 4},   {".txz", 0},     {".tar.zst", 4},
    {".tzst", 0},   {".tar.lz4", 4},  {".tlz4", 0},    {".tar.lz", 4},
    {".tlz", 0},    {".tar.lzma", 4}, {".tar.Z", 4},   {".taz", 0},
};

/* The number of the ending that `name` has; -1: none of them. */
static int packed_ending(const char *name)
{
    for (size_t i = 0; i < sizeof packed / sizeof packed[0]; i++) {
        if (shard_name_ends(name, packed[i].ending))
            return (int)i;
    }
    return -1;
}

bool shard_name_is_packed(const char *name)
{
    return packed_ending(name) >= 0;
}

void shards_base_name(char name[SHARDS_NAME], const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path, *tail = "";
    int ending = packed_ending(base);
    size_t length = strlen(base);

    if (ending >= 0) {
        length -= strlen(packed[ending].ending) - packed[ending].keeps;
        tail = packed[ending].keeps ? "" : ".tar";
    }
    if (length > SHARDS_NAME - sizeof ".tar") /* no file system's */
        length = SHARDS_NAME - sizeof ".tar";
    snprintf(name, SHARDS_NAME, "%.*s%s", (int)length, base, tail);
}
