/* How much memory this process may use: the machine's, or the least limit of the memory cgroups (v1
 * or v2) that it is in. What is pushed into the page cache is charged to them. */
#ifndef SHUFFLEFS_MEMORY_H
#define SHUFFLEFS_MEMORY_H

#include <stdint.h>

/* Bytes. What cannot be read is no limit. */
uint64_t memory_limit(void);

#endif
