/* The memory limit. Owns nothing; reads /proc/self/cgroup (cgroups(7)) and the limits of the groups
 * named there, up to the root. */
#include "memory.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define V1_ROOT "/sys/fs/cgroup/memory"
#define V2_ROOT "/sys/fs/cgroup"

static uint64_t read_limit(const char *path)
{
    FILE *file = fopen(path, "re");
    uint64_t limit = UINT64_MAX;

    if (!file)
        return UINT64_MAX;
    if (fscanf(file, "%" SCNu64, &limit) != 1) /* "max" */
        limit = UINT64_MAX;
    fclose(file);
    return limit;
}

/* The least limit of `group` and all above it. In a container the group's path may not be there,
 * for the group itself is what is mounted: then that counts. */
static uint64_t least_limit(const char *root, const char *group, const char *name)
{
    char folder[PATH_MAX], path[PATH_MAX + 64];
    size_t root_length = strlen(root), length;
    uint64_t least = UINT64_MAX, limit;

    if (snprintf(folder, sizeof folder, "%s%s", root, group) >= (int)sizeof folder)
        return UINT64_MAX;
    for (;;) {
        snprintf(path, sizeof path, "%s/%s", folder, name);
        limit = read_limit(path);
        least = limit < least ? limit : least;
        length = strlen(folder);
        if (length <= root_length)
            return least;
        *strrchr(folder, '/') = '\0';
    }
}

uint64_t memory_limit(void)
{
    uint64_t least = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    FILE *file = fopen("/proc/self/cgroup", "re");
    char *line = NULL;
    size_t room = 0;

    while (file && getline(&line, &room, file) > 0) {
        char *controllers = strchr(line, ':'), *group = NULL;
        uint64_t limit = UINT64_MAX;
        if (controllers)
            group = strchr(++controllers, ':');
        if (!group)
            continue;
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (strcmp(controllers, "memory") == 0)
            limit = least_limit(V1_ROOT, group, "memory.limit_in_bytes");
        else if (*controllers == '\0')
            limit = least_limit(V2_ROOT, group, "memory.max");
        least = limit < least ? limit : least;
    }
    free(line);
    if (file)
        fclose(file);
    return least;
}
