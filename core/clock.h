/* The clock that spans are measured with: it never goes back, and says nothing of the date. */
#ifndef SHUFFLEFS_CLOCK_H
#define SHUFFLEFS_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. Any thread. */
uint64_t clock_now_ns(void);
/* The same in seconds. */
double clock_now_s(void);

#endif
