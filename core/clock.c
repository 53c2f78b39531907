/* The clock. */
#include "clock.h"

#include <time.h>

uint64_t clock_now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

double clock_now_s(void)
{
    return (double)clock_now_ns() / 1e9;
}
