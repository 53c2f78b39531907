/* What figures were measured on: a rate without its machine says nothing. */
#ifndef SHUFFLEFS_MACHINE_H
#define SHUFFLEFS_MACHINE_H

#include <stdint.h>

struct machine {
    char cpu[128];
    char kernel[80];
    int cores; /* that this process may run on */
    uint64_t memory_bytes;
    double load; /* average of the last minute: what else was running */
};

void machine_look(struct machine *machine);

/* Seconds that threads of this process, of those that live still and whose names start with
 * `prefix`, were ready to run and had no core. Below 0: the kernel does not tell. */
double machine_core_wait(const char *prefix);

/* The type of the file system that `path` stands on, `unknown` where it cannot be told. Returns
 * `text`, of `room` bytes. */
char *machine_file_system(char *text, int room, const char *path);

#endif
