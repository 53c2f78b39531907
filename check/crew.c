/* The threads. Owns them from start to end. */
#include "crew.h"

#include "../loader/cores.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS_MOST 1024

unsigned check_crew_size(unsigned wanted)
{
    unsigned threads = wanted ? wanted : (unsigned)cores_usable();

    return threads < THREADS_MOST ? threads : THREADS_MOST;
}

void check_crew_run(unsigned threads, void *(*work)(void *context), void *context)
{
    pthread_t *others = calloc(threads, sizeof *others);
    unsigned started = 0;

    while (others && started + 1 < threads &&
           pthread_create(&others[started], NULL, work, context) == 0)
        started++;
    work(context);
    while (started)
        pthread_join(others[--started], NULL);
    free(others);
}
