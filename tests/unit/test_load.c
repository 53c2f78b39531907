/* The loader's promises about batches: order, sizes, epochs, ownership, waiting, ending. */
#include "unit.h"

#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PICTURES = 43 };

static struct load_folder folder;

static void begin(void)
{
    load_folder_make(&folder);
    load_write_pictures(&folder, "p/%03u.jpg", PICTURES);
    load_write_tar(&folder, "s.tar", PICTURES, UINT32_MAX);
}

static void end(void)
{
    load_folder_remove(&folder);
}

static struct sl_batch *next(struct sl_loader *loader, int expected)
{
    struct sl_batch *batch;
    int status = sl_next(loader, &batch, 60000);

    cr_assert_eq(status, expected, "%d: %s", status, sl_error(loader));
    cr_assert_eq(batch != NULL, expected == 0 || expected == SL_PARTIAL);
    return batch;
}

Test(load, batches_are_the_same_whatever_the_number_of_workers)
{
    static const int workers[] = {1, 2, 3, 8};
    const char *const sources[] = {"p", "s.tar"};

    begin();
    for (int source = 0; source < 2; source++)
        for (int output = SL_UINT8_NHWC; output <= SL_BYTES; output++) {
            struct sl_config config = load_config(load_path(&folder, sources[source]));
            uint64_t first = 0;

            config.output = (enum sl_output)output;
            config.field = "jpg";
            config.mask = 1;
            for (int i = 0; i < 4; i++) {
                config.workers = workers[i];
                config.prefetch = 1 + i;
                uint64_t hash = load_once(&config);
                cr_assert(!i || hash == first, "%s, output %d, %d workers", sources[source], output,
                          workers[i]);
                first = hash;
            }
        }
    end();
}

Test(load, a_folder_and_a_tar_of_the_same_pictures_give_the_same_images)
{
    struct sl_loader *loaders[2];

    begin();
    for (int i = 0; i < 2; i++) {
        struct sl_config config = load_config(load_path(&folder, i ? "s.tar" : "p"));
        config.output = SL_FLOAT32_NCHW;
        loaders[i] = load_open(&config);
    }
    for (unsigned done = 0; done < PICTURES;) {
        struct sl_batch *a = next(loaders[0], done + 8 <= PICTURES ? 0 : SL_PARTIAL);
        struct sl_batch *b = next(loaders[1], done + 8 <= PICTURES ? 0 : SL_PARTIAL);

        cr_assert_eq(a->count, b->count);
        cr_assert(memcmp(a->data, b->data, a->count * (size_t)a->strides[0] * 4) == 0);
        for (unsigned i = 0; i < b->count; i++) {
            cr_assert_eq(b->labels[i], 10 * (int64_t)(done + i));
            cr_assert_eq(b->positions[i], done + i);
        }
        done += (unsigned)a->count;
        sl_release(loaders[0], a);
        sl_release(loaders[1], b);
    }
    sl_close(loaders[0]);
    sl_close(loaders[1]);
    end();
}

Test(load, the_last_batch_is_partial_or_dropped)
{
    begin();
    for (int source = 0; source < 2; source++)
        for (int drop = 0; drop < 2; drop++) {
            struct sl_config config = load_config(load_path(&folder, source ? "s.tar" : "p"));
            struct sl_position position = {.size = sizeof position};
            struct sl_loader *loader;
            struct sl_batch *batch;

            config.drop_last = drop;
            loader = load_open(&config);
            for (int i = 0; i < PICTURES / 8; i++)
                sl_release(loader, next(loader, 0));
            if (!drop) {
                batch = next(loader, SL_PARTIAL);
                cr_assert_eq(batch->count, PICTURES % 8);
                cr_assert_eq(batch->shape[0], PICTURES % 8);
                sl_release(loader, batch);
            }
            next(loader, SL_END);
            next(loader, SL_END);
            cr_assert_eq(sl_position(loader, &position), 0);
            cr_assert_eq(position.taken, drop ? 40 : PICTURES);
            cr_assert_eq(position.batches, drop ? 5 : 6);
            cr_assert_eq(position.batches_taken, position.batches);
            cr_assert_eq(position.samples, PICTURES);
            sl_close(loader);
        }
    end();
}

Test(load, an_epoch_repeats_exactly_and_another_has_other_crops)
{
    begin();
    for (int source = 0; source < 2; source++) {
        struct sl_config config = load_config(load_path(&folder, source ? "s.tar" : "p"));
        struct sl_loader *loader = load_open(&config);
        uint64_t first = load_epoch(loader, 0), second = load_epoch(loader, 1);

        cr_assert(first != second);
        for (int i = 0; i < 3; i++) {
            cr_assert_eq(load_epoch(loader, 0), first);
            cr_assert_eq(load_epoch(loader, 1), second);
        }
        sl_close(loader);
        config.seed = 1;
        cr_assert(load_once(&config) != first);
    }
    end();
}

Test(load, random_numbers_hang_on_the_place_in_the_global_order_not_on_the_rank)
{
    struct sl_config config;
    uint8_t *all;
    size_t row;
    char list[2][2048] = {"", ""};

    begin();
    for (int i = 0; i < 40; i++)
        sprintf(list[i % 2] + strlen(list[i % 2]), "p/%03d.jpg %d\n", i, i);
    load_write(&folder, "r0.list", list[0], strlen(list[0]));
    load_write(&folder, "r1.list", list[1], strlen(list[1]));
    config = load_config(load_path(&folder, "p"));
    config.batch_size = 40;
    struct sl_loader *loader = load_open(&config);
    struct sl_batch *batch = next(loader, 0);
    row = (size_t)batch->strides[0];
    all = malloc(row * 40);
    memcpy(all, batch->data, row * 40);
    sl_close(loader);
    for (unsigned rank = 0; rank < 2; rank++) {
        config = load_config(load_path(&folder, rank ? "r1.list" : "r0.list"));
        config.batch_size = 20;
        config.rank = rank;
        config.world = 2;
        loader = load_open(&config);
        batch = next(loader, 0);
        for (unsigned i = 0; i < 20; i++) {
            cr_assert_eq(batch->positions[i], 2 * i + rank);
            cr_assert_eq(batch->labels[i], (int64_t)(2 * i + rank));
            cr_assert(memcmp((uint8_t *)batch->data + i * row, all + (2 * i + rank) * row, row) ==
                      0);
        }
        cr_assert_eq(batch->after, 40);
        sl_close(loader);
    }
    free(all);
    end();
}

Test(load, going_on_after_a_checkpoint_gives_the_rest_of_the_epoch)
{
    begin();
    for (int source = 0; source < 2; source++) {
        struct sl_config config = load_config(load_path(&folder, source ? "s.tar" : "p"));
        struct sl_position position = {.size = sizeof position};
        struct sl_loader *whole, *rest;
        struct sl_batch *a, *b;

        config.epoch = 3;
        whole = load_open(&config);
        for (int i = 0; i < 2; i++)
            sl_release(whole, next(whole, 0));
        sl_position(whole, &position);
        cr_assert_eq(position.epoch, 3);
        cr_assert_eq(position.after, 16);
        config.after = position.after;
        rest = load_open(&config);
        for (int i = 0; i < 4; i++) {
            a = next(whole, i < 3 ? 0 : SL_PARTIAL);
            b = next(rest, i < 3 ? 0 : SL_PARTIAL);
            cr_assert_eq(load_batch_hash(a), load_batch_hash(b));
            sl_release(whole, a);
            sl_release(rest, b);
        }
        next(rest, SL_END);
        /* At the very end there is nothing, and that is no error. */
        cr_assert_eq(sl_seek(rest, 3, PICTURES), 0, "%s", sl_error(rest));
        next(rest, SL_END);
        sl_close(whole);
        sl_close(rest);
    }
    end();
}

Test(load, a_batch_stays_as_it_is_until_released_in_any_order)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *held[3], *one;
    uint64_t hashes[3];

    begin();
    config = load_config(load_path(&folder, "p"));
    config.hold = 3;
    loader = load_open(&config);
    for (int i = 0; i < 3; i++) {
        held[i] = next(loader, 0);
        hashes[i] = load_batch_hash(held[i]);
    }
    next(loader, -EBUSY);
    cr_assert(strstr(sl_error(loader), "hold") != NULL);
    /* The middle one first; the epoch goes on in its slot and the spare ones, and into others. */
    cr_assert_eq(sl_release(loader, held[1]), 0);
    cr_assert_eq(sl_release(loader, held[1]), -EINVAL);
    for (int epoch = 1; epoch < 4; epoch++) {
        load_epoch(loader, (uint64_t)epoch);
        cr_assert_eq(load_batch_hash(held[0]), hashes[0]);
        cr_assert_eq(load_batch_hash(held[2]), hashes[2]);
    }
    cr_assert_eq(sl_set_epoch(loader, 0), 0);
    one = next(loader, 0);
    cr_assert(one != held[0] && one != held[2]);
    cr_assert_eq(load_batch_hash(one), hashes[0]);
    cr_assert_eq(sl_release(loader, held[2]), 0);
    cr_assert_eq(sl_release(loader, held[0]), 0);
    cr_assert_eq(sl_release(loader, one), 0);
    sl_close(loader);
    end();
}

Test(load, closing_and_changing_the_epoch_in_the_middle_end_at_once)
{
    begin();
    for (int source = 0; source < 2; source++)
        for (int taken = 0; taken < 3; taken++) {
            struct sl_config config = load_config(load_path(&folder, source ? "s.tar" : "p"));
            struct sl_loader *loader;
            uint64_t first;

            config.workers = 4;
            config.hold = 4;
            loader = load_open(&config);
            for (int i = 0; i < taken; i++)
                next(loader, 0);
            cr_assert_eq(sl_set_epoch(loader, 9), 0);
            sl_release(loader, next(loader, 0));
            first = load_epoch(loader, 2);
            cr_assert_eq(load_epoch(loader, 2), first);
            sl_close(loader); /* with batches held */
            loader = load_open(&config);
            for (int i = 0; i < taken; i++)
                next(loader, 0);
            sl_close(loader);
        }
    end();
}

static void *cancel_soon(void *loader)
{
    struct timespec little = {0, 20000000};

    nanosleep(&little, NULL);
    sl_cancel(loader);
    return NULL;
}

Test(load, waiting_ends_in_time_and_by_cancel)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;
    struct timespec before, after;
    pthread_t thread;
    int writer;
    uint64_t wait_ms;

    begin();
    /* A fifo with a writer that writes nothing. */
    cr_assert_eq(mkfifo(load_path(&folder, "fifo.tar"), 0600), 0);
    writer = open(load_path(&folder, "fifo.tar"), O_RDWR | O_CLOEXEC);
    cr_assert(writer >= 0);
    config = load_config(load_path(&folder, "fifo.tar"));
    loader = load_open(&config);
    cr_assert_eq(sl_next(loader, &batch, 0), SL_TIMEOUT);
    clock_gettime(CLOCK_MONOTONIC, &before);
    cr_assert_eq(sl_next(loader, &batch, 30), SL_TIMEOUT);
    clock_gettime(CLOCK_MONOTONIC, &after);
    wait_ms = (uint64_t)((after.tv_sec - before.tv_sec) * 1000 +
                         (after.tv_nsec - before.tv_nsec) / 1000000);
    cr_assert(wait_ms >= 29, "%llu", (unsigned long long)wait_ms);
    cr_assert_eq(pthread_create(&thread, NULL, cancel_soon, loader), 0);
    cr_assert_eq(sl_next(loader, &batch, -1), -ECANCELED);
    cr_assert_eq(sl_next(loader, &batch, -1), -ECANCELED);
    pthread_join(thread, NULL);
    sl_close(loader);
    /* Closing does not wait for the writer either. */
    loader = load_open(&config);
    sl_close(loader);
    close(writer);
    end();
}

Test(load, a_cancelled_loader_starts_anew_at_the_next_epoch)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;

    begin();
    for (int source = 0; source < 2; source++) {
        config = load_config(load_path(&folder, source ? "s.tar" : "p"));
        loader = load_open(&config);
        uint64_t hash = load_epoch(loader, 0);
        cr_assert_eq(sl_set_epoch(loader, 1), 0);
        sl_cancel(loader);
        cr_assert_eq(sl_next(loader, &batch, -1), -ECANCELED);
        cr_assert_eq(load_epoch(loader, 0), hash);
        sl_close(loader);
    }
    end();
}

Test(load, a_forked_child_gets_an_error_and_never_waits)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch, *other;
    struct sl_stats stats = {.size = sizeof stats};
    struct sl_position position = {.size = sizeof position};
    pid_t child;
    int status;

    begin();
    config = load_config(load_path(&folder, "p"));
    loader = load_open(&config);
    batch = next(loader, 0);
    child = fork();
    if (child == 0) {
        int fine = sl_next(loader, &other, -1) == -EOWNERDEAD &&
                   sl_release(loader, batch) == -EOWNERDEAD &&
                   sl_set_epoch(loader, 1) == -EOWNERDEAD &&
                   sl_stats(loader, &stats) == -EOWNERDEAD &&
                   sl_position(loader, &position) == -EOWNERDEAD &&
                   strstr(sl_error(loader), "fork") != NULL;
        sl_cancel(loader);
        sl_close(loader);
        _exit(fine ? 0 : 1);
    }
    cr_assert(child > 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(sl_release(loader, batch), 0);
    load_epoch(loader, 1);
    sl_close(loader);
    end();
}

Test(load, floats_are_the_normalised_bytes_in_planes)
{
    struct sl_config config;
    struct sl_loader *bytes, *floats;
    struct sl_batch *a, *b;

    begin();
    config = load_config(load_path(&folder, "p"));
    config.height = 20;
    for (int i = 0; i < 3; i++) {
        config.mean[i] = 0.1F * (float)(i + 4);
        config.deviation[i] = 0.2F + 0.05F * (float)i;
    }
    bytes = load_open(&config);
    config.output = SL_FLOAT32_NCHW;
    floats = load_open(&config);
    a = next(bytes, 0);
    b = next(floats, 0);
    cr_assert(a->shape[1] == 20 && a->shape[2] == 24 && a->shape[3] == 3);
    cr_assert(b->shape[1] == 3 && b->shape[2] == 20 && b->shape[3] == 24);
    cr_assert_eq((uintptr_t)a->data % 64, 0);
    cr_assert_eq((uintptr_t)b->data % 64, 0);
    for (int64_t n = 0; n < 8; n++)
        for (int64_t y = 0; y < 20; y++)
            for (int64_t x = 0; x < 24; x++)
                for (int64_t c = 0; c < 3; c++) {
                    uint8_t raw = ((uint8_t *)a->data)[n * a->strides[0] + y * a->strides[1] +
                                                       x * a->strides[2] + c * a->strides[3]];
                    float value = ((float *)b->data)[n * b->strides[0] + c * b->strides[1] +
                                                     y * b->strides[2] + x * b->strides[3]];
                    float expected = ((float)raw / 255 - config.mean[c]) / config.deviation[c];
                    cr_assert(fabsf(value - expected) < 1e-5F);
                }
    sl_close(bytes);
    sl_close(floats);
    end();
}

Test(load, times_add_up_and_counts_are_right)
{
    struct sl_config config;
    struct sl_stats stats = {.size = sizeof stats};
    struct sl_loader *loader;
    uint64_t sum;

    begin();
    for (int source = 0; source < 2; source++) {
        config = load_config(load_path(&folder, source ? "s.tar" : "p"));
        config.output = SL_FLOAT32_NCHW;
        loader = load_open(&config);
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            load_epoch(loader, epoch);
        cr_assert_eq(sl_stats(loader, &stats), 0);
        cr_assert_eq(stats.samples, 3 * PICTURES);
        cr_assert_eq(stats.decoded, 3 * PICTURES);
        cr_assert_eq(stats.batches, 18);
        cr_assert_eq(stats.bad, 0);
        cr_assert(stats.bytes > 3 * PICTURES * 100);
        cr_assert_eq(stats.workers, 2);
        sum = stats.wait_storage_ns + stats.read_ns + stats.decode_ns + stats.resize_ns +
              stats.normalise_ns + stats.wait_consumer_ns + stats.idle_ns + stats.other_ns;
        cr_assert(sum >= stats.workers_ns && sum <= stats.workers_ns + stats.workers_ns / 100,
                  "%llu %llu", (unsigned long long)sum, (unsigned long long)stats.workers_ns);
        cr_assert(stats.decode_ns > 0 && stats.resize_ns > 0 && stats.normalise_ns > 0);
        sl_close(loader);
    }
    end();
}

static uint64_t resident(void)
{
    unsigned long long all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    cr_assert(file != NULL);
    cr_assert_eq(fscanf(file, "%llu %llu", &all, &pages), 2);
    fclose(file);
    return pages * 4096;
}

/* Long with UNIT_SOAK_STEPS=20000. Sanitizers keep what is freed for a while: only the plain build
 * is judged. */
static void *spin(void *stop)
{
    while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED))
        ;
    return NULL;
}

/* Reads of files in the page cache wait for nothing, however long they take beside others that have
 * the core. */
Test(load, a_worker_without_a_core_does_not_wait_for_storage)
{
    enum { FILES = 100, ROWS = 30000, SPINNERS = 3, LINE = 8 };
    struct sl_stats stats = {.size = sizeof stats};
    struct sl_config config;
    struct sl_loader *loader;
    pthread_t spinners[SPINNERS];
    bool stop = false;
    cpu_set_t before, one;
    char *list = malloc(ROWS * LINE + 1);

    load_folder_make(&folder);
    for (int i = 0; i < ROWS; i++) {
        snprintf(list + i * LINE, LINE + 1, "%03d.txt\n", i % FILES);
        if (i < FILES) {
            list[i * LINE + LINE - 1] = '\0';
            load_write(&folder, list + i * LINE, "text", 4);
            list[i * LINE + LINE - 1] = '\n';
        }
    }
    load_write(&folder, "all.list", list, ROWS * LINE);
    free(list);
    /* Room for the whole epoch: the worker never waits for the consumer. */
    config = load_config(load_path(&folder, "all.list"));
    config.output = SL_BYTES;
    config.length_most = 64;
    config.batch_size = 1000;
    config.prefetch = ROWS / 1000;
    config.workers = 1;
    cr_assert_eq(sched_getaffinity(0, sizeof before, &before), 0);
    CPU_ZERO(&one);
    for (int core = 0; CPU_COUNT(&one) == 0; core++)
        if (CPU_ISSET(core, &before))
            CPU_SET(core, &one);
    /* Threads start where the one that makes them may run. */
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    for (int i = 0; i < SPINNERS; i++)
        cr_assert_eq(pthread_create(&spinners[i], NULL, spin, &stop), 0);
    loader = load_open(&config);
    cr_assert_eq(sched_setaffinity(0, sizeof before, &before), 0);
    load_epoch(loader, 0);
    cr_assert_eq(sl_stats(loader, &stats), 0);
    sl_close(loader);
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    for (int i = 0; i < SPINNERS; i++)
        pthread_join(spinners[i], NULL);
    load_folder_remove(&folder);
    cr_assert_eq(stats.samples, ROWS);
    cr_assert(stats.wait_storage_ns < (stats.wait_storage_ns + stats.read_ns) / 4,
              "of %.3f s in reads %.3f s waiting for storage",
              (double)(stats.wait_storage_ns + stats.read_ns) / 1e9,
              (double)stats.wait_storage_ns / 1e9);
}

Test(load, memory_does_not_grow_with_time, .timeout = 3600)
{
    const char *text = getenv("UNIT_SOAK_STEPS");
    uint64_t steps = text ? strtoull(text, NULL, 10) : 600, before = 0;

    begin();
    for (int source = 0; source < 2; source++) {
        struct sl_config config = load_config(load_path(&folder, source ? "s.tar" : "p"));
        struct sl_loader *loader = load_open(&config);
        uint64_t first = load_epoch(loader, 0);

        for (uint64_t step = 0; step < steps; step += 12) {
            load_epoch(loader, 1 + step);
            cr_assert_eq(load_epoch(loader, 0), first);
            if (step == 120)
                before = resident();
        }
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
        cr_assert(resident() < before + (2 << 20), "%llu %llu", (unsigned long long)before,
                  (unsigned long long)resident());
#endif
        sl_close(loader);
    }
    (void)before;
    end();
}

static void *run_one(void *config)
{
    struct sl_loader *loader;
    uint64_t *result = malloc(sizeof *result);

    if (sl_open(&loader, config) == 0) {
        struct sl_batch *batch;
        int status;

        *result = LOAD_HASH;
        while ((status = sl_next(loader, &batch, -1)) == 0 || status == SL_PARTIAL) {
            uint64_t one = load_batch_hash(batch);
            *result = load_hash(*result, &one, sizeof one);
            sl_release(loader, batch);
        }
        sl_close(loader);
    }
    return result;
}

Test(load, loaders_in_one_process_know_nothing_of_each_other)
{
    struct sl_config configs[4];
    pthread_t threads[4];
    uint64_t expected[2];

    begin();
    for (int i = 0; i < 4; i++)
        configs[i] = load_config(load_path(&folder, i % 2 ? "s.tar" : "p"));
    for (int i = 0; i < 2; i++)
        expected[i] = load_once(&configs[i]);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, run_one, &configs[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        cr_assert_eq(*(uint64_t *)result, expected[i % 2]);
        free(result);
    }
    end();
}
