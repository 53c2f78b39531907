/* Which parts of a saved index are still right. Owns nothing; reads a few headers of each shard. */
#include "reuse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Headers looked at in a shard: the first, the last, and some between. All of them are looked at
 * once more, each when its member is first read (core/reader.c). */
#define HEADERS 4

struct name {
    const char *name;
    size_t part;
};

static int by_name(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->part > y->part) - (x->part < y->part);
}

static size_t find(const struct name *names, size_t count, const char *name)
{
    size_t low = 0, high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(names[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && strcmp(names[low].name, name) == 0 ? low : REUSE_NOTHING;
}

int reuse_match(const struct saved *saved, const struct index *index, size_t *parts)
{
    size_t count = saved->header->shard_count;
    struct name *names = NULL;

    for (size_t i = 0; i < index->shard_count; i++) {
        const char *name = basename(index->shards[i].path);
        size_t found;
        parts[i] = i;
        if (i < count && strcmp(saved->words[i].name, name) == 0)
            continue;
        if (!names) {
            names = malloc((count + 1) * sizeof *names);
            if (!names)
                return -ENOMEM;
            for (size_t j = 0; j < count; j++)
                names[j] = (struct name){saved->words[j].name, j};
            qsort(names, count, sizeof *names, by_name);
        }
        found = find(names, count, name);
        parts[i] = found == REUSE_NOTHING ? found : names[found].part;
    }
    free(names);
    return 0;
}

bool reuse_is_whole(const struct saved *saved, const struct index *index, const size_t *parts)
{
    for (size_t i = 0; i < index->shard_count; i++)
        if (parts[i] != i)
            return false;
    return saved->header->shard_count == index->shard_count;
}

static bool headers_are_there(const struct saved *saved, size_t part, int fd)
{
    uint64_t from = saved->shards[part].first_member;
    uint64_t count = saved->shards[part + 1].first_member - from;
    uint64_t looks = count < HEADERS ? count : HEADERS;
    char block[INDEX_HEADER_BYTES];

    for (uint64_t i = 0; i < looks; i++) {
        const struct index_member *member =
            &saved->members[from + (looks > 1 ? (count - 1) * i / (looks - 1) : 0)];
        ssize_t got;
        do
            got = pread(fd, block, sizeof block, (off_t)(member->offset - sizeof block));
        while (got < 0 && errno == EINTR);
        if (got != (ssize_t)sizeof block || index_header_check(block) != member->header)
            return false;
    }
    return true;
}

static bool file_is_as_it_was(const struct saved *saved, size_t part, int fd,
                              struct index_shard *shard)
{
    const struct saved_shard *was = &saved->shards[part];
    struct stat status;

    if (fstat(fd, &status) || !S_ISREG(status.st_mode))
        return false;
    shard->size = (uint64_t)status.st_size;
    shard->modified = status.st_mtim;
    shard->changed = status.st_ctim;
    shard->device = status.st_dev;
    shard->inode = status.st_ino;
    return shard->size == was->size && status.st_mtim.tv_sec == was->modified_s &&
           (uint64_t)status.st_mtim.tv_nsec == was->modified_ns &&
           status.st_ctim.tv_sec == was->changed_s &&
           (uint64_t)status.st_ctim.tv_nsec == was->changed_ns &&
           headers_are_there(saved, part, fd);
}

bool reuse_check(const struct saved *saved, size_t part, struct index_shard *shard,
                 uint64_t *key_marks)
{
    bool good;
    int fd;

    /* First, as headers are looked for where the part says. */
    if (!saved_check_part(saved, part, key_marks))
        return false;
    fd = open(index_shard_file(shard), O_RDONLY | O_CLOEXEC | O_NOCTTY);
    good = fd >= 0 && file_is_as_it_was(saved, part, fd, shard);
    if (fd >= 0)
        close(fd);
    return good;
}
