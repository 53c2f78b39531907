/* From /proc and a few system calls; what cannot be told is left out, never a fault. */
#include "machine.h"

#include "../core/text.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

static void look_at_cpu(struct machine *machine)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char *line = NULL, *value;
    size_t room = 0;

    /* Arm's cpuinfo has no such line: the architecture stays. */
    while (file && getline(&line, &room, file) > 0) {
        if (strncmp(line, "model name", 10) == 0 && (value = strchr(line, ':')) != NULL) {
            value += 1 + strspn(value + 1, " \t");
            value[strcspn(value, "\n")] = '\0';
            text_name(machine->cpu, sizeof machine->cpu, value);
            break;
        }
    }
    free(line);
    if (file)
        fclose(file);
}

void machine_look(struct machine *machine)
{
    struct utsname names;
    struct sysinfo info;
    cpu_set_t set;

    *machine = (struct machine){.cores = get_nprocs()};
    if (uname(&names) == 0) {
        text_name(machine->kernel, sizeof machine->kernel, names.release);
        text_name(machine->cpu, sizeof machine->cpu, names.machine);
    }
    look_at_cpu(machine);
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        machine->cores = CPU_COUNT(&set);
    if (sysinfo(&info) == 0)
        machine->memory_bytes = (uint64_t)info.totalram * info.mem_unit;
    if (getloadavg(&machine->load, 1) < 1)
        machine->load = 0;
}

/* The first line of a thread's file; false: it has ended, or there is no such file. */
static bool read_line(char *line, int room, const char *thread, const char *name)
{
    char path[64];
    FILE *file;
    bool got;

    if (snprintf(path, sizeof path, "/proc/self/task/%s/%s", thread, name) >= (int)sizeof path)
        return false;
    file = fopen(path, "re");
    if (!file)
        return false;
    got = fgets(line, room, file) != NULL;
    fclose(file);
    return got;
}

double machine_core_wait(const char *prefix)
{
    DIR *threads = opendir("/proc/self/task");
    struct dirent *entry;
    char line[128], *rest;
    double waited = 0;
    bool told = false;

    while (threads && (entry = readdir(threads))) {
        if (entry->d_name[0] == '.' || !read_line(line, sizeof line, entry->d_name, "comm") ||
            strncmp(line, prefix, strlen(prefix)) != 0 ||
            !read_line(line, sizeof line, entry->d_name, "schedstat"))
            continue;
        /* Nanoseconds that it ran, and that it waited to; all 0 in a kernel that does not count. */
        told |= strtoull(line, &rest, 10) > 0;
        waited += (double)strtoull(rest, NULL, 10) / 1e9;
    }
    if (threads)
        closedir(threads);
    return told ? waited : -1;
}

char *machine_file_system(char *text, int room, const char *path)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL, *type;
    size_t line_room = 0;
    struct statx status;

    snprintf(text, (size_t)room, "unknown");
    /* By the mount's number: no path that is mounted over can mislead. */
    if (file && statx(AT_FDCWD, path, 0, STATX_MNT_ID, &status) == 0 &&
        (status.stx_mask & STATX_MNT_ID)) {
        while (getline(&line, &line_room, file) > 0) {
            if (strtoull(line, NULL, 10) != status.stx_mnt_id)
                continue;
            type = strstr(line, " - ");
            if (type) {
                type[3 + strcspn(type + 3, " ")] = '\0';
                text_name(text, (size_t)room, type + 3);
            }
            break;
        }
    }
    free(line);
    if (file)
        fclose(file);
    return text;
}
