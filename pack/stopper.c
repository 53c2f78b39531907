/* The thread that waits for signals. They are blocked in all others, so no call is interrupted and
 * no handler runs. */
#include "stopper.h"

#include "../core/report.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

static struct {
    pthread_t thread;
    sigset_t signals, before;
    void (*stop)(void *context);
    void *context;
    atomic_int came;
    atomic_bool ended;
} stopper;

static void *wait_for_signals(void *context)
{
    (void)context;
    for (;;) {
        int number;
        if (sigwait(&stopper.signals, &number) || atomic_load(&stopper.ended))
            return NULL;
        if (atomic_load(&stopper.came))
            continue;
        atomic_store(&stopper.came, number);
        stopper.stop(stopper.context);
    }
}

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

int stopper_open(void (*stop)(void *context), void *context)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    int fault;

    sigemptyset(&stopper.signals);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (!is_ignored(ending[i]))
            sigaddset(&stopper.signals, ending[i]);
    /* What ends the wait, whether or not anything else does. */
    sigaddset(&stopper.signals, SIGUSR1);
    stopper.stop = stop;
    stopper.context = context;
    atomic_store(&stopper.came, 0);
    atomic_store(&stopper.ended, false);
    pthread_sigmask(SIG_BLOCK, &stopper.signals, &stopper.before);
    fault = pthread_create(&stopper.thread, NULL, wait_for_signals, NULL);
    if (fault) {
        pthread_sigmask(SIG_SETMASK, &stopper.before, NULL);
        report_error("no thread can be started: %s", strerror(fault));
    }
    return -fault;
}

int stopper_signal(void)
{
    return atomic_load(&stopper.came);
}

int stopper_close(void)
{
    atomic_store(&stopper.ended, true);
    pthread_kill(stopper.thread, SIGUSR1);
    pthread_join(stopper.thread, NULL);
    pthread_sigmask(SIG_SETMASK, &stopper.before, NULL);
    return atomic_load(&stopper.came);
}
