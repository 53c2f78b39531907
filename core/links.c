/* What hard links point at. Owns the table; never keeps a name. */
#include "links.h"

#include "harvest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* 32 bytes. */
struct link_target {
    XXH128_hash_t name; /* all zero: free */
    struct index_member bytes;
};

/* No member's data starts at 0: its header stands there. */
#define NOTHING ((struct index_member){.offset = 0})

static bool is_free(const struct link_target *target)
{
    return target->name.low64 == 0 && target->name.high64 == 0;
}

static int hash_name(struct links *links, const char *name, XXH128_hash_t *hash)
{
    char *to;

    if (harvest_grow(&links->scratch, &links->scratch_room, strlen(name) + 2, 1))
        return -ENOMEM;
    to = links->scratch;
    while (*name) {
        size_t size = strcspn(name, "/");
        bool odd = size == 0 || (size == 1 && name[0] == '.') ||
                   (size == 2 && name[0] == '.' && name[1] == '.');
        if (!odd) {
            memcpy(to, name, size);
            to += size;
            *to++ = '/';
        }
        name += size + (name[size] == '/');
    }
    *hash = XXH3_128bits(links->scratch, (size_t)(to - links->scratch));
    if (hash->low64 == 0 && hash->high64 == 0)
        hash->low64 = 1;
    return 0;
}

/* The place of the name, or the free one that it would take. */
static struct link_target *place_of(const struct links *links, XXH128_hash_t name)
{
    size_t at = name.low64 & (links->room - 1);

    while (!is_free(&links->targets[at]) && !XXH128_isEqual(links->targets[at].name, name))
        at = (at + 1) & (links->room - 1);
    return &links->targets[at];
}

static int make_room(struct links *links)
{
    struct links larger = {.room = links->room ? links->room * 2 : 1024};

    if (links->count * 4 < links->room * 3)
        return 0;
    larger.targets = calloc(larger.room, sizeof *larger.targets);
    if (!larger.targets)
        return -ENOMEM;
    for (size_t i = 0; i < links->room; i++)
        if (!is_free(&links->targets[i]))
            *place_of(&larger, links->targets[i].name) = links->targets[i];
    free(links->targets);
    links->targets = larger.targets;
    links->room = larger.room;
    return 0;
}

int links_put(struct links *links, const char *name, const struct index_member *bytes)
{
    struct link_target *target;
    XXH128_hash_t hash;

    if (make_room(links) || hash_name(links, name, &hash))
        return -ENOMEM;
    target = place_of(links, hash);
    links->count += is_free(target);
    *target = (struct link_target){hash, bytes ? *bytes : NOTHING};
    return 0;
}

int links_find(struct links *links, const char *name, struct index_member *bytes)
{
    const struct link_target *target;
    XXH128_hash_t hash;

    if (links->room == 0)
        return 0;
    if (hash_name(links, name, &hash))
        return -ENOMEM;
    target = place_of(links, hash);
    if (is_free(target) || target->bytes.offset == 0)
        return 0;
    *bytes = target->bytes;
    return 1;
}

void links_close(struct links *links)
{
    free(links->targets);
    free(links->scratch);
    *links = (struct links){0};
}
