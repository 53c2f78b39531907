/* Whether a list of shards is one: not empty, and no file twice. Looks files up and opens none. */
#include "report.h"
#include "shards.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct identity {
    dev_t device;
    ino_t inode;
    size_t shard;
};

static int compare_identities(const void *a, const void *b)
{
    const struct identity *left = a, *right = b;

    if (left->device != right->device)
        return left->device < right->device ? -1 : 1;
    if (left->inode != right->inode)
        return left->inode < right->inode ? -1 : 1;
    return left->shard < right->shard ? -1 : left->shard > right->shard;
}

int shards_check(const struct shard_list *list)
{
    if (list->count == 0) {
        report_error("no shards were given");
        return -EINVAL;
    }
    struct identity *identities = malloc(list->count * sizeof *identities);
    if (identities == NULL) {
        report_error("no memory to compare %zu shards", list->count);
        return -ENOMEM;
    }
    for (size_t i = 0; i < list->count; i++) {
        struct stat found;
        if (stat(list->paths[i], &found) < 0) {
            int error = errno;
            report_error("%s: %s", list->paths[i], strerror(error));
            free(identities);
            return -error;
        }
        identities[i] = (struct identity){found.st_dev, found.st_ino, i};
    }
    qsort(identities, list->count, sizeof *identities, compare_identities);

    size_t first = 0, again = 0, repeated = 0;
    for (size_t i = 1; i < list->count; i++) {
        if (identities[i].device != identities[i - 1].device ||
            identities[i].inode != identities[i - 1].inode)
            continue;
        if (repeated++ == 0 || identities[i].shard < again) {
            first = identities[i - 1].shard;
            again = identities[i].shard;
        }
    }
    free(identities);
    if (repeated == 0)
        return 0;
    report_error("the same file twice: %s (shard %zu) and %s (shard %zu); repeated: %zu",
                 list->paths[first], first + 1, list->paths[again], again + 1, repeated);
    return -EINVAL;
}
