/* Files that a check writes: whole, or not at all. */
#ifndef SHUFFLEFS_CHECK_REPLACE_H
#define SHUFFLEFS_CHECK_REPLACE_H

#include <stdio.h>

/* Writes `path` anew: what `fill` puts into the stream, under a temporary name beside it until all
 * of it is on the disk. Who may read it is what the umask says. Where that fails, what was there
 * stays, and nothing else. Returns 0 or a negative errno, not reported. */
int check_replace(const char *path, void (*fill)(FILE *to, const void *context),
                  const void *context);

#endif
