/* From /proc and a few system calls; what cannot be told is left out, never a fault. */
#include "machine.h"

#include "../core/text.h"

#include <fcntl.h>
#include <sched.h>
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
