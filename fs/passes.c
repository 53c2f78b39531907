/* Folders read to their end. Owns nothing; a hash stands for a path, since a mistake would cost no
 * more than a wrong warning. */
#include "passes.h"

#include <string.h>
#include <xxhash.h>

static uint64_t hash_of(const char *path, uint64_t epoch)
{
    uint64_t hash = XXH64(path, strlen(path), epoch);
    return hash ? hash : 1;
}

static struct passes_folder *find(const struct passes *passes, const char *path, uint64_t epoch)
{
    uint64_t hash = hash_of(path, epoch);

    for (unsigned i = 0; i < PASSES_MOST; i++)
        if (passes->folders[i].hash == hash)
            return (struct passes_folder *)&passes->folders[i];
    return NULL;
}

void passes_finish(struct passes *passes, const char *path, uint64_t epoch)
{
    if (!find(passes, path, epoch))
        passes->folders[passes->count++ % PASSES_MOST] = (struct passes_folder){
            hash_of(path, epoch), false};
}

bool passes_are_finished(const struct passes *passes, const char *path, uint64_t epoch)
{
    return find(passes, path, epoch) != NULL;
}

bool passes_repeat(struct passes *passes, const char *path, uint64_t epoch)
{
    struct passes_folder *folder = find(passes, path, epoch);
    bool first = folder && !folder->repeated;

    if (first)
        folder->repeated = true;
    return first;
}
