/* What a batch costs a consumer in C: load-loop PATH OUTPUT BATCH PREFETCH READY EPOCHS
 *
 * Takes all batches of EPOCHS epochs of PATH (OUTPUT as enum sl_output, images of 8 x 8) and gives
 * them back at once. READY 1: an epoch's batches are all made before the clock starts. A line an
 * epoch: batches, nanoseconds that passed, nanoseconds of the consuming thread's processor time. */
#include <shuffleload.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t clock_ns(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void wait_ready(struct sl_loader *loader, uint64_t decoded)
{
    struct sl_stats stats = {.size = sizeof stats};

    while (sl_stats(loader, &stats) == 0 && stats.decoded < decoded)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

int main(int count, char **arguments)
{
    struct sl_config config = SL_CONFIG_INIT;
    struct sl_position position = {.size = sizeof position};
    struct sl_loader *loader;
    int epochs, ready;

    if (count != 7)
        return 2;
    config.path = arguments[1];
    config.output = (enum sl_output)atoi(arguments[2]);
    config.batch_size = strtoull(arguments[3], NULL, 10);
    config.prefetch = atoi(arguments[4]);
    config.hold = 3;
    config.width = config.height = 8;
    config.crop = SL_STRETCH;
    ready = atoi(arguments[5]);
    epochs = atoi(arguments[6]);
    if (sl_open(&loader, &config) < 0) {
        fprintf(stderr, "%s\n", sl_error(NULL));
        return 1;
    }
    sl_position(loader, &position);
    for (int epoch = 0; epoch < epochs; epoch++) {
        int64_t wall, cpu, batches = 0;
        struct sl_batch *batch;
        int status;

        sl_set_epoch(loader, (uint64_t)epoch);
        if (ready)
            wait_ready(loader, ((uint64_t)epoch + 1) * position.samples);
        wall = clock_ns(CLOCK_MONOTONIC);
        cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        while ((status = sl_next(loader, &batch, -1)) >= 0 && status != SL_END) {
            batches++;
            sl_release(loader, batch);
        }
        wall = clock_ns(CLOCK_MONOTONIC) - wall;
        cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
        if (status < 0) {
            fprintf(stderr, "%s\n", sl_error(loader));
            return 1;
        }
        printf("%" PRId64 " %" PRId64 " %" PRId64 "\n", batches, wall, cpu);
    }
    sl_close(loader);
    return 0;
}
