/* What the reading of ini files (core/config_file.c) needs of the table of options
 * (core/config.c). */
#ifndef SHUFFLEFS_CONFIG_KEYS_H
#define SHUFFLEFS_CONFIG_KEYS_H

#include <stddef.h>

/* At least as many as there are options. */
#define CONFIG_KEYS_MOST 32

/* The option that `name` sets, as drop_last sets remainder, and its number, below CONFIG_KEYS_MOST.
 * NULL: there is no such option. */
const char *config_sets(const char *name, size_t *number);

/* `path` from the folder `base` on, allocated; NULL when there is no memory. */
char *config_absolute(const char *base, const char *path);

#endif
