/* Counters and clocks. */
#include "tally.h"

#include <string.h>
#include <sys/resource.h>

void tally_move(struct tally *to, struct tally *from)
{
    uint64_t *sums = (uint64_t *)to;
    const uint64_t *parts = (const uint64_t *)from;

    for (size_t i = 0; i < sizeof *to / sizeof *sums; i++)
        sums[i] += parts[i];
    memset(from, 0, sizeof *from);
}

static uint64_t now(clockid_t clock)
{
    struct timespec time;

    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t tally_now(void)
{
    return now(CLOCK_MONOTONIC);
}

uint64_t tally_thread_now(void)
{
    return now(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t tally_thread_blocks(void)
{
    struct rusage used;

    getrusage(RUSAGE_THREAD, &used);
    return (uint64_t)used.ru_nvcsw;
}
