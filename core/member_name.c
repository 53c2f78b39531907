/* Takes a member's path apart. Owns nothing. */
#include "member_name.h"

#include <string.h>

/* Behind the last slash. */
static const char *base_of(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash ? slash + 1 : name;
}

const char *member_name_dot(const char *name, enum index_problem *reason)
{
    const char *base = base_of(name), *dot = strchr(base, '.');
    size_t length = strlen(base);

    if (strncmp(base, "._", 2) == 0)
        *reason = INDEX_LITTER;
    else if (length >= 4 && strncmp(base, "__", 2) == 0 && strcmp(base + length - 2, "__") == 0)
        *reason = INDEX_METADATA;
    else if (!dot || dot == base || base[length - 1] == '.')
        *reason = INDEX_NO_EXTENSION;
    else if (strlen(dot + 1) > INDEX_FIELD_MAX)
        *reason = INDEX_LONG_EXTENSION;
    else
        return dot;
    return NULL;
}

bool member_name_split(const char *name, char *room, char **field, bool *unsafe,
                       enum index_problem *reason)
{
    const char *base = base_of(name), *dot = member_name_dot(name, reason);
    char *to = room;

    if (!dot)
        return false;
    *unsafe = name[0] == '/';
    for (const char *part = name; part < base;) {
        size_t size = (size_t)(strchr(part, '/') - part);
        bool parent = size == 2 && part[0] == '.' && part[1] == '.';
        *unsafe |= parent;
        if (size && !parent && !(size == 1 && part[0] == '.')) {
            memcpy(to, part, size + 1);
            to += size + 1;
        }
        part += size + 1;
    }
    memcpy(to, base, (size_t)(dot - base));
    to += dot - base;
    *to++ = '\0';
    *field = to;
    for (const char *c = dot + 1; *c; c++)
        *to++ = (char)(*c >= 'A' && *c <= 'Z' ? *c + ('a' - 'A') : *c);
    *to = '\0';
    return true;
}
