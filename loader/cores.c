/* The cores this process may use. */
#include "cores.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_affinity(void)
{
    /* A machine may have more CPUs than a cpu_set_t: grow until the kernel takes it. */
    for (int most = 1024; most <= 1 << 20; most *= 4) {
        cpu_set_t *set = CPU_ALLOC(most);
        size_t size = CPU_ALLOC_SIZE(most);
        int count = 0;

        if (!set)
            break;
        if (sched_getaffinity(0, size, set) == 0)
            count = CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}

/* Reads one or two numbers; "max" and what is no number are -1. */
static bool read_numbers(const char *path, double *first, double *second)
{
    char text[64];
    FILE *file = fopen(path, "re");
    bool got;
    char *end;

    if (!file)
        return false;
    got = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    if (!got)
        return false;
    *first = strtod(text, &end);
    if (end == text) {
        *first = -1;
        end = text + strcspn(text, " \n");
    }
    if (second)
        *second = strtod(end, NULL);
    return true;
}

/* The least quota, in cores, of the group at `path` and of those above it. */
static double by_quota(const char *mount, const char *path, bool second_version)
{
    char group[PATH_MAX], file[PATH_MAX + 64];
    double least = INT_MAX;

    snprintf(group, sizeof group, "%s", path);
    for (;;) {
        double quota = -1, period = 0;
        char *slash;

        if (second_version) {
            snprintf(file, sizeof file, "%s%s/cpu.max", mount, group);
            read_numbers(file, &quota, &period);
        } else {
            snprintf(file, sizeof file, "%s%s/cpu.cfs_quota_us", mount, group);
            read_numbers(file, &quota, NULL);
            snprintf(file, sizeof file, "%s%s/cpu.cfs_period_us", mount, group);
            read_numbers(file, &period, NULL);
        }
        if (quota > 0 && period > 0 && quota / period < least)
            least = quota / period;
        slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

static double by_cgroup(void)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[PATH_MAX + 128];
    double least = INT_MAX;

    if (!file)
        return least;
    while (fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        double quota = INT_MAX;

        if (!path)
            continue;
        *path++ = '\0';
        controllers++;
        path[strcspn(path, "\n")] = '\0';
        if (controllers[0] == '\0') {
            quota = by_quota("/sys/fs/cgroup", path, true);
        } else if (strcmp(controllers, "cpu") == 0 || strncmp(controllers, "cpu,", 4) == 0 ||
                   strstr(controllers, ",cpu,")) {
            quota = by_quota("/sys/fs/cgroup/cpu", path, false);
            if (quota >= INT_MAX) /* inside a container the group is the mount's root */
                quota = by_quota("/sys/fs/cgroup/cpu", "", false);
        }
        if (quota < least)
            least = quota;
    }
    fclose(file);
    return least;
}

int cores_usable(void)
{
    const char *shared = getenv("LOCAL_WORLD_SIZE");
    int cores = by_affinity();
    double quota = by_cgroup();
    long processes = shared ? strtol(shared, NULL, 10) : 1;

    if (quota < cores)
        cores = quota > (int)quota ? (int)quota + 1 : (int)quota;
    if (processes > 1)
        cores = processes < cores ? cores / (int)processes : 1;
    return cores < 1 ? 1 : cores;
}
