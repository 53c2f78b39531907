/* Each call of CUDA's fails once, at every place: its text reaches the caller, nothing hangs, and
 * nothing is left. */
#include "fake_cuda.h"
#include "load.h"
#include "unit.h"

#include "../../loader/dlpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct load_folder folder;

/* A fault while closing has nobody but standard error to be told to: here that is wanted. */
static int quiet(void)
{
    int kept = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
    return kept;
}

static void loud(int kept)
{
    dup2(kept, STDERR_FILENO);
    close(kept);
}

struct outcome {
    bool open_failed;
    unsigned batches;
    int error; /* the first */
    char text[512];
};

static void note(struct outcome *outcome, int error, struct sl_loader *loader)
{
    if (error >= 0 || outcome->error)
        return;
    outcome->error = error;
    snprintf(outcome->text, sizeof outcome->text, "%s", sl_error(loader));
}

/* Opens, runs an epoch to its end or to an error, and on to the next epoch after one. The loader
 * stays open. */
static struct sl_loader *run(const struct sl_config *config, struct outcome *outcome)
{
    struct sl_loader *loader;
    struct sl_batch *batch;
    int status = sl_open(&loader, config);
    void *tensor;

    if (status) {
        outcome->open_failed = true;
        note(outcome, status, NULL);
        return NULL;
    }
    for (int epoch = 0; epoch < 2; epoch++) {
        while ((status = sl_next(loader, &batch, 60000)) == 0 || status == SL_PARTIAL) {
            outcome->batches++;
            note(outcome, sl_batch_wait(batch, NULL), loader);
            status = sl_batch_dlpack(batch, CUDA_STREAM_LEGACY, &tensor);
            note(outcome, status, loader);
            if (status == 0)
                ((struct dlpack_versioned *)tensor)->deleter(tensor);
            note(outcome,
                 batch->number % 2 ? sl_release(loader, batch) : sl_batch_release(batch, NULL),
                 loader);
        }
        cr_assert(status != SL_TIMEOUT);
        note(outcome, status, loader);
        if (epoch == 0)
            cr_assert_eq(sl_set_epoch(loader, 1), 0);
    }
    return loader;
}

static bool names_cuda(const struct outcome *outcome)
{
    return strstr(outcome->text, "a fault of the fake") != NULL;
}

/* Fails call `number`; false: there was no such call. */
static bool fail_one(const struct sl_config *config, uint64_t number, bool on, int with)
{
    struct outcome outcome = {0};
    struct sl_loader *loader;
    bool failed;
    unsigned left;

    fake_cuda_begin(
        &(struct fake_cuda){.late_us = 20, .fail_at = number, .fail_on = on, .fail_with = with});
    loader = run(config, &outcome);
    failed = fake_cuda_failed();
    sl_close(loader);
    cr_assert(!failed || outcome.error, "call %llu failed, and nobody was told",
              (unsigned long long)number);
    cr_assert(failed || (!outcome.error && outcome.batches == 6));
    cr_assert(!outcome.error || names_cuda(&outcome), "call %llu: %s", (unsigned long long)number,
              outcome.text);
    if (with == CUDA_OUT_OF_MEMORY && outcome.error && !outcome.open_failed)
        cr_assert_eq(outcome.error, -ENOMEM);
    failed = fake_cuda_failed();
    left = fake_cuda_end();
    cr_assert_eq(left, 0, "call %llu: %u things left", (unsigned long long)number, left);
    cr_assert_eq(fake_cuda_misuses(), 0);
    return failed;
}

Test(load_cuda_faults, a_failing_call_at_every_place_is_told_leaks_nothing_and_hangs_nothing)
{
    static const int errors[] = {0, CUDA_OUT_OF_MEMORY};
    struct sl_config config;
    int kept;

    load_folder_make(&folder);
    load_write_pictures(&folder, "p/%03u.jpg", 22);
    config = load_config(load_path(&folder, "p"));
    config.output = SL_FLOAT32_NCHW;
    config.device = SL_DEVICE_CUDA(0);
    kept = quiet();
    for (int on = 0; on < 2; on++) {
        uint64_t number = 1;

        while (fail_one(&config, number, on, errors[number % 2]))
            number += on ? 3 : 1;
        /* Opening, copies, events of 6 batches, closing. */
        cr_assert(number > 60, "only %llu calls", (unsigned long long)number);
    }
    loud(kept);
    load_folder_remove(&folder);
}

Test(load_cuda_faults, with_auto_a_gpu_without_memory_is_an_error_and_one_that_cannot_start_is_not)
{
    struct sl_config config;
    struct outcome outcome;
    struct sl_loader *loader;
    int kept;

    load_folder_make(&folder);
    load_write_pictures(&folder, "p/%03u.jpg", 22);
    config = load_config(load_path(&folder, "p"));
    config.device = SL_DEVICE_AUTO;
    kept = quiet();
    for (uint64_t number = 1; number < 12; number++) {
        unsigned left;

        fake_cuda_begin(&(struct fake_cuda){.fail_at = number});
        outcome = (struct outcome){0};
        loader = run(&config, &outcome);
        sl_close(loader);
        /* The count, the current one, its context, pushing it, the kernel: is there a GPU? */
        cr_assert_eq(outcome.open_failed, number > 5, "call %llu", (unsigned long long)number);
        cr_assert(outcome.open_failed ? names_cuda(&outcome) : outcome.batches == 6);
        left = fake_cuda_end();
        cr_assert_eq(left, 0, "call %llu: %u things left", (unsigned long long)number, left);
    }
    loud(kept);
    load_folder_remove(&folder);
}
