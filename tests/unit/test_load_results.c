/* What `shufflefs-bench load` says of its figures. */
#include "unit.h"

#include "../../measure/load_results.h"
#include "../../measure/machine.h"

#include <pthread.h>
#include <string.h>

/* The verdict on two workers of two cores for 10 seconds, who got `cores` cores and waited
 * `core_wait` of their time for one; `stages`: shares of their time. */
static const char *verdict(double cores, double core_wait, const double *stages)
{
    static char text[2048];
    struct load_pass pass = {
        .samples = 1000,
        .seconds = 10,
        .cpu_seconds = 10 * cores,
        .workers_seconds = 20,
        .core_wait_seconds = 20 * core_wait,
    };
    struct load_result result = {.path = "p", .workers = 2, .passes = &pass, .count = 1};
    struct load_options options = {.path_count = 1, .steps = 1};
    struct machine machine = {.cores = 2};

    for (int stage = 0; stage < LOAD_STAGES; stage++)
        pass.stages[stage] = 20 * stages[stage];
    return load_results_verdict(&options, &machine, &result, 0, text, sizeof text);
}

#define VERDICT(cores, core_wait, ...)                                                             \
    verdict(cores, core_wait, (const double[LOAD_STAGES]){__VA_ARGS__})

Test(load_results, cores_limit_where_other_programs_have_them_whatever_stage_that_meets)
{
    /* Small files in the page cache: the time is in reads. */
    cr_assert_str_eq(VERDICT(0.15, 0.8, [LOAD_READ] = 0.83, [LOAD_OTHER] = 0.17), "cores");
    /* A mount whose daemon has no core either. */
    cr_assert_str_eq(VERDICT(0.2, 0.4, [LOAD_WAIT_STORAGE] = 0.7, [LOAD_READ] = 0.3), "cores");
    cr_assert_str_eq(VERDICT(0.5, 0.7, [LOAD_DECODE] = 0.8, [LOAD_READ] = 0.2), "cores");
    /* A kernel that does not count it: by the CPU time that is missing. */
    cr_assert_str_eq(VERDICT(0.15, -1, [LOAD_READ] = 0.83, [LOAD_OTHER] = 0.17), "cores");
}

Test(load_results, storage_limits_where_workers_wait_for_it)
{
    for (int known = 0; known < 2; known++) {
        double none = known ? 0.02 : -1;

        cr_assert_str_eq(VERDICT(0.4, none, [LOAD_WAIT_STORAGE] = 0.8, [LOAD_DECODE] = 0.2),
                         "storage");
        cr_assert_str_eq(VERDICT(2, none, [LOAD_READ] = 0.8, [LOAD_DECODE] = 0.2), "storage");
        cr_assert_str_eq(VERDICT(2, none, [LOAD_DECODE] = 0.8, [LOAD_READ] = 0.2), "decoding");
        cr_assert_str_eq(VERDICT(1, none, [LOAD_WAIT_CONSUMER] = 0.5, [LOAD_DECODE] = 0.5),
                         "consumer");
        cr_assert_str_eq(VERDICT(2, none, [LOAD_OTHER] = 0.9, [LOAD_READ] = 0.1), "pipeline");
    }
    /* A busy machine, but storage is the slower one. */
    cr_assert_str_eq(VERDICT(0.2, 0.35, [LOAD_WAIT_STORAGE] = 0.8, [LOAD_DECODE] = 0.2), "storage");
}

static void *run_until_told(void *barrier)
{
    pthread_setname_np(pthread_self(), "core-wait-test");
    for (int i = 0; i < 2; i++)
        pthread_barrier_wait(barrier);
    return NULL;
}

Test(load_results, only_threads_of_the_name_are_asked_how_long_they_had_no_core)
{
    pthread_barrier_t barrier;
    pthread_t thread;

    cr_assert(machine_core_wait("core-wait-") < 0);
    pthread_barrier_init(&barrier, NULL, 2);
    cr_assert_eq(pthread_create(&thread, NULL, run_until_told, &barrier), 0);
    pthread_barrier_wait(&barrier);
    /* Not every kernel tells; where this one does, it does so of the thread, too. */
    cr_assert_eq(machine_core_wait("core-wait-") >= 0, machine_core_wait("") >= 0);
    cr_assert(machine_core_wait("core-wait-") <= machine_core_wait(""));
    cr_assert(machine_core_wait("core-other-") < 0);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&barrier);
}
