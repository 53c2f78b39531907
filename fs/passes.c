/* Folders read to their end. Owns nothing; a hash stands for a path, since a mistake would cost no
 * more than a wrong warning. */
#include "passes.h"

#include <string.h>
#include <xxhash.h>

/* The entry of a folder that was told of, whatever the field. */
#define TOLD 0
/* The one of a folder that is read in no order: no field is several at once. */
#define NO_ORDER UINT64_MAX

static uint64_t hash_of(const char *path, struct epochs_at at, uint64_t field)
{
    const uint64_t key[] = {at.epoch, at.after, field};
    uint64_t hash = XXH64(path, strlen(path), XXH64(key, sizeof key, 0));

    return hash ? hash : 1;
}

static bool is_known(const struct passes *passes, uint64_t hash)
{
    for (unsigned i = 0; i < PASSES_MOST; i++)
        if (passes->hashes[i] == hash)
            return true;
    return false;
}

/* Whether it was not known. */
static bool enter(struct passes *passes, uint64_t hash)
{
    bool known = is_known(passes, hash);

    if (!known)
        passes->hashes[passes->count++ % PASSES_MOST] = hash;
    return !known;
}

void passes_finish(struct passes *passes, const char *path, struct epochs_at at, uint64_t field)
{
    enter(passes, hash_of(path, at, field));
}

bool passes_are_finished(const struct passes *passes, const char *path, struct epochs_at at,
                         uint64_t field)
{
    return is_known(passes, hash_of(path, at, field));
}

void passes_no_order(struct passes *passes, const char *path, struct epochs_at at)
{
    enter(passes, hash_of(path, at, NO_ORDER));
}

bool passes_have_no_order(const struct passes *passes, const char *path, struct epochs_at at)
{
    return is_known(passes, hash_of(path, at, NO_ORDER));
}

bool passes_repeat(struct passes *passes, const char *path, struct epochs_at at)
{
    return enter(passes, hash_of(path, at, TOLD));
}
