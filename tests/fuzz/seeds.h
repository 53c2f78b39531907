/* What the fuzzers share that write inputs to begin from. */
#ifndef SHUFFLEFS_FUZZ_SEEDS_H
#define SHUFFLEFS_FUZZ_SEEDS_H

#include <stddef.h>
#include <stdio.h>

/* Writes FOLDER/KIND-NN; a fault is said, and ends nothing. */
static inline void seed_write(const char *folder, const char *kind, size_t number,
                              const void *bytes, size_t size)
{
    char path[4096];
    FILE *out;

    snprintf(path, sizeof path, "%s/%s-%02zu", folder, kind, number);
    out = fopen(path, "wb");
    if (!out || fwrite(bytes, size, 1, out) != 1)
        perror(path);
    if (out)
        fclose(out);
}

#endif
