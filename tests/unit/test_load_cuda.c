/* Batches on a GPU, which is the fake one here: the host's bits, and no batch ever shows another
 * one's bytes, whatever is late and in whatever order batches are given back. */
#include "fake_cuda.h"
#include "load.h"
#include "unit.h"

#include "../../loader/dlpack.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct load_folder folder;

static void begin(const struct fake_cuda *how)
{
    load_folder_make(&folder);
    fake_cuda_begin(how);
}

static void end(void)
{
    unsigned left = fake_cuda_end(), misuses = fake_cuda_misuses();

    load_folder_remove(&folder);
    cr_assert_eq(left, 0, "%u things of the device were not given back", left);
    cr_assert_eq(misuses, 0, "%u calls that CUDA does not allow", misuses);
}

/* Content and labels as a consumer sees them: after a stream's wait, in the device's memory. */
static uint64_t hash_content(const struct sl_batch *batch, const void *data, const void *mask,
                             const int64_t *labels, const int64_t *lengths)
{
    size_t element = batch->output == SL_FLOAT32_NCHW                                        ? 4
                     : batch->output == SL_FLOAT16_NCHW || batch->output == SL_BFLOAT16_NCHW ? 2
                                                                                             : 1;
    size_t bytes = batch->count * (size_t)batch->strides[0] * element;
    uint64_t hash = load_hash(LOAD_HASH, data, bytes);

    if (mask)
        hash = load_hash(hash, mask, bytes);
    if (batch->lengths)
        hash = load_hash(hash, lengths, batch->count * sizeof *lengths);
    hash = load_hash(hash, labels, batch->count * sizeof *labels);
    hash = load_hash(hash, batch->shape, sizeof batch->shape);
    return load_hash(hash, batch->strides, sizeof batch->strides);
}

static uint64_t epoch_content(const struct sl_config *config)
{
    struct sl_loader *loader = load_open(config);
    uint64_t hash = LOAD_HASH;
    struct sl_batch *batch;
    int status;

    while ((status = sl_next(loader, &batch, 60000)) == 0 || status == SL_PARTIAL) {
        bool there = batch->device != SL_DEVICE_HOST;
        uint64_t one;

        cr_assert_eq(batch->device, config->device);
        cr_assert_eq(sl_batch_wait(batch, SL_STREAM_HOST), 0, "%s", sl_error(loader));
        one = hash_content(batch, batch->data, batch->mask,
                           there ? batch->device_labels : batch->labels,
                           there ? batch->device_lengths : batch->lengths);
        hash = load_hash(hash, &one, sizeof one);
        cr_assert_eq(sl_batch_release(batch, SL_STREAM_HOST), 0);
    }
    cr_assert_eq(status, SL_END, "%s", sl_error(loader));
    sl_close(loader);
    return hash;
}

/* 24 x 24 is a multiple of four pixels, 23 x 21 is not. A sample in between is no picture. */
Test(load_cuda, every_output_has_the_hosts_bits_on_the_device)
{
    struct sl_config config;

    begin(&(struct fake_cuda){.late_us = 50});
    load_write_tar(&folder, "s.tar", 45, 20);
    for (int output = SL_UINT8_NHWC; output <= SL_BFLOAT16_NCHW; output++)
        for (int round = 0; round < 3; round++) {
            uint64_t host, device;

            config = load_config(load_path(&folder, "s.tar"));
            config.output = (enum sl_output)output;
            config.bad = round == 1 ? SL_BAD_SKIP : SL_BAD_REPLACE;
            config.width = round == 2 ? 23 : 24;
            config.height = round == 2 ? 21 : 24;
            config.mean[1] = 0.456F;
            config.deviation[0] = config.deviation[1] = config.deviation[2] = 0.225F;
            config.length_most = 300;
            config.mask = 1;
            host = epoch_content(&config);
            config.device = SL_DEVICE_CUDA(0);
            device = epoch_content(&config);
            cr_assert_eq(host, device, "output %d, round %d", output, round);
        }
    end();
}

/* --- Stamped batches --- */

enum { FILES = 61, ROWS = 4, LENGTH = 256, HOLD = 6, STREAMS = 3 };

/* FILES files whose bytes say which they are, in a list that names one a line; a line's number is
 * its label. */
static struct sl_config stamped_config(unsigned batches)
{
    FILE *list = fopen(load_path(&folder, "list"), "w");
    struct sl_config config;

    for (unsigned i = 0; i < FILES; i++) {
        uint8_t bytes[LENGTH];
        char name[32];

        memset(bytes, (int)(i + 1), sizeof bytes);
        snprintf(name, sizeof name, "%u.bin", i);
        load_write(&folder, name, bytes, sizeof bytes);
    }
    cr_assert(list != NULL);
    for (unsigned i = 0; i < batches * ROWS; i++)
        fprintf(list, "%u.bin %u\n", i % FILES, i);
    cr_assert_eq(fclose(list), 0);
    config = load_config(load_path(&folder, "list"));
    config.output = SL_BYTES;
    config.field = "bin";
    config.length_most = LENGTH;
    config.batch_size = ROWS;
    config.workers = 3;
    config.hold = HOLD;
    config.prefetch = 3;
    config.device = SL_DEVICE_CUDA(0);
    return config;
}

/* What a consumer's kernel would see, long after it was launched. */
struct look {
    const uint8_t *data;
    const int64_t *labels, *pinned_labels;
    uint64_t first;
    atomic_uint *wrong;
};

static void look(void *argument)
{
    struct look *at = argument;
    unsigned wrong = 0;

    for (unsigned row = 0; row < ROWS; row++) {
        uint64_t label = at->first + row;

        wrong += at->labels[row] != (int64_t)label || at->pinned_labels[row] != (int64_t)label;
        for (unsigned i = 0; i < LENGTH; i++)
            wrong += at->data[row * LENGTH + i] != label % FILES + 1;
    }
    atomic_fetch_add(at->wrong, wrong != 0);
    free(at);
}

static void launch_look(const struct sl_batch *batch, void *stream, atomic_uint *wrong)
{
    struct look *at = malloc(sizeof *at);

    *at = (struct look){batch->data, batch->device_labels, batch->labels, batch->number * ROWS,
                        wrong};
    fake_cuda_do(stream, look, at);
}

/* A batch is used on one stream and given back: behind another one that waits for it, by
 * sl_release(), or as a tensor that is dropped. None of that waits for the work. */
static void use(struct sl_loader *loader, struct sl_batch *batch, void *const streams[STREAMS],
                unsigned way, atomic_uint *wrong)
{
    void *stream = streams[way % STREAMS], *other = streams[(way + 1) % STREAMS];
    struct dlpack_versioned *tensor;
    void *made;

    switch (way / STREAMS % 3) {
    case 0:
        cr_assert_eq(sl_batch_wait(batch, stream), 0);
        launch_look(batch, stream, wrong);
        fake_cuda_join(other, stream);
        cr_assert_eq(sl_batch_release(batch, other), 0);
        break;
    case 1:
        cr_assert_eq(sl_batch_wait(batch, stream), 0);
        cr_assert_eq(sl_batch_wait(batch, other), 0);
        launch_look(batch, stream, wrong);
        launch_look(batch, other, wrong);
        cr_assert_eq(sl_release(loader, batch), 0);
        break;
    default:
        cr_assert_eq(sl_batch_dlpack(batch, stream, &made), 0);
        tensor = made;
        cr_assert(tensor->tensor.data == batch->data);
        cr_assert_eq(tensor->tensor.device_type, DLPACK_CUDA);
        cr_assert_eq(sl_batch_release(batch, SL_STREAM_HOST), 0);
        launch_look(batch, stream, wrong);
        tensor->deleter(tensor);
    }
}

/* Returns how many looks found what they should not. */
static unsigned consume_stamped(unsigned batches)
{
    struct sl_config config = stamped_config(batches);
    struct sl_loader *loader = load_open(&config);
    struct sl_batch *held[HOLD], *batch;
    void *streams[STREAMS];
    atomic_uint wrong = 0;
    unsigned count = 0, dice = 7, got = 0;
    int status = 0;

    for (int i = 0; i < STREAMS; i++)
        streams[i] = fake_cuda_stream(0);
    while (status != SL_END || count) {
        unsigned which;

        while (status != SL_END && count < HOLD &&
               (status = sl_next(loader, &batch, count ? 0 : 60000)) == 0) {
            held[count++] = batch;
            got++;
        }
        cr_assert(status >= 0 && (status != SL_TIMEOUT || count), "%s", sl_error(loader));
        if (!count)
            continue;
        dice = dice * 1664525u + 1013904223u;
        which = (dice >> 8) % count;
        use(loader, held[which], streams, dice >> 16, &wrong);
        held[which] = held[--count];
    }
    sl_close(loader);
    for (int i = 0; i < STREAMS; i++)
        fake_cuda_end_stream(streams[i]);
    cr_assert_eq(got, batches);
    return wrong;
}

Test(load_cuda, a_thousand_batches_used_late_and_out_of_order_never_show_anothers_bytes)
{
    unsigned wrong;

    begin(&(struct fake_cuda){.late_us = 100});
    wrong = consume_stamped(1000);
    cr_assert_eq(wrong, 0, "%u looks saw another batch", wrong);
    end();
}

#ifdef __SANITIZE_THREAD__
#define RACES true
#else
#define RACES false
#endif

/* That the test above can fail: without either wait it does. */
Test(load_cuda, without_the_streams_wait_or_the_workers_a_look_sees_another_batch)
{
    if (RACES)
        cr_skip_test("races on purpose, which this build reports");
    for (int which = 0; which < 2; which++) {
        unsigned wrong;

        begin(&(struct fake_cuda){
            .late_us = 500, .no_stream_waits = which == 0, .no_event_waits = which == 1});
        wrong = consume_stamped(200);
        cr_assert(wrong > 0, "wait %d", which);
        end();
    }
}

/* From the fault on no slot is written to: what is still to be copied out of it, or read, is what
 * it was. */
Test(load_cuda, after_a_fault_the_batches_given_out_before_show_their_own_bytes)
{
    for (uint64_t number = 150; number < 400; number += 25) {
        struct sl_loader *loader;
        struct sl_batch *batch;
        struct sl_config config;
        atomic_uint wrong = 0;
        void *stream;

        begin(&(struct fake_cuda){.late_us = 200, .fail_at = number});
        config = stamped_config(40);
        loader = load_open(&config);
        stream = fake_cuda_stream(0);
        while (sl_next(loader, &batch, 60000) == 0) {
            if (sl_batch_wait(batch, stream) == 0)
                launch_look(batch, stream, &wrong);
            sl_batch_release(batch, stream);
        }
        cr_assert(strstr(sl_error(loader), "a fault of the fake") != NULL);
        fake_cuda_finish(stream);
        cr_assert_eq(wrong, 0, "call %llu", (unsigned long long)number);
        sl_close(loader);
        fake_cuda_end_stream(stream);
        end();
    }
}

/* --- Devices, loaders, processes --- */

Test(load_cuda, loaders_on_two_devices_leave_each_other_and_the_callers_device_alone)
{
    struct sl_config config;
    struct sl_loader *loaders[4];
    int device = -1;

    begin(&(struct fake_cuda){.late_us = 20});
    load_write_pictures(&folder, "p/%03u.jpg", 40);
    config = load_config(load_path(&folder, "p"));
    config.output = SL_FLOAT16_NCHW;
    fake_cuda_set_device(1);
    for (int i = 0; i < 4; i++) {
        config.device = i == 3 ? SL_DEVICE_AUTO : SL_DEVICE_CUDA(i % 2);
        loaders[i] = load_open(&config);
    }
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < 4; i++) {
            struct sl_batch *batch;

            cr_assert_eq(sl_next(loaders[i], &batch, 60000), 0);
            cr_assert_eq(batch->device, i == 3 ? SL_DEVICE_CUDA(1) : SL_DEVICE_CUDA(i % 2));
            /* Each device's own default stream, whatever the caller's device is. */
            cr_assert_eq(sl_batch_wait(batch, NULL), 0, "%s", sl_error(loaders[i]));
            cr_assert_eq(sl_batch_release(batch, NULL), 0, "%s", sl_error(loaders[i]));
        }
    for (int i = 0; i < 4; i++)
        sl_close(loaders[i]);
    cr_assert_eq(cuda_table()->device_get(&device), 0);
    cr_assert_eq(device, 1);
    end();
}

Test(load_cuda, auto_uses_the_host_and_tells_why_where_no_gpu_can_be_used)
{
    static const char *const why[] = {"cudaErrorNoDevice (100)", "cudaErrorInsufficientDriver (35)",
                                      "built without CUDA"};
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;

    for (int i = 0; i < 3; i++) {
        begin(&(struct fake_cuda){.devices = -1 - i});
        if (i == 2)
            cuda_table_replace(NULL);
        load_write_pictures(&folder, "p/%03u.jpg", 8);
        config = load_config(load_path(&folder, "p"));
        if (i < 2 || !cuda_runtime_table()) {
            config.device = SL_DEVICE_CUDA(0);
            cr_assert_eq(sl_open(&loader, &config), -ENODEV);
            cr_assert(strstr(sl_error(NULL), why[i]) != NULL, "%s", sl_error(NULL));
            config.device = SL_DEVICE_AUTO;
            loader = load_open(&config);
            cr_assert(strstr(sl_error(loader), why[i]) != NULL, "%s", sl_error(loader));
            cr_assert_eq(sl_next(loader, &batch, -1), 0);
            cr_assert_eq(batch->device, SL_DEVICE_HOST);
            cr_assert(batch->device_labels == NULL);
            cr_assert_eq(sl_batch_wait(batch, NULL), 0);
            cr_assert_eq(sl_batch_release(batch, NULL), 0);
            cr_assert_eq(sl_batch_wait(batch, NULL), -EINVAL);
            cr_assert_eq(sl_batch_release(batch, NULL), -EINVAL);
            sl_close(loader);
        }
        end();
    }
}

Test(load_cuda, a_gpu_that_is_not_there_is_named)
{
    struct sl_config config;
    struct sl_loader *loader;

    begin(&(struct fake_cuda){0});
    load_write_pictures(&folder, "p/%03u.jpg", 8);
    config = load_config(load_path(&folder, "p"));
    config.device = SL_DEVICE_CUDA(2);
    cr_assert_eq(sl_open(&loader, &config), -ENODEV);
    cr_assert(strstr(sl_error(NULL), "GPU 2: there are 2") != NULL, "%s", sl_error(NULL));
    config.device = -2;
    cr_assert_eq(sl_open(&loader, &config), -EINVAL);
    cr_assert(strstr(sl_error(NULL), "config.device is -2") != NULL, "%s", sl_error(NULL));
    end();
}

Test(load_cuda, tensors_say_which_memory_they_are_in)
{
    static const struct {
        enum sl_array array;
        unsigned how;
        int type, id;
    } wanted[] = {{SL_ARRAY_DATA, 0, DLPACK_CUDA, 1},
                  {SL_ARRAY_MASK, 0, DLPACK_CUDA, 1},
                  {SL_ARRAY_DEVICE_LABELS, 0, DLPACK_CUDA, 1},
                  {SL_ARRAY_DEVICE_LENGTHS, 0, DLPACK_CUDA, 1},
                  {SL_ARRAY_LABELS, 0, DLPACK_CUDA_HOST, 0},
                  {SL_ARRAY_STATUSES, SL_EXPORT_PINNED_AS_CPU, DLPACK_CPU, 0},
                  {SL_ARRAY_LABELS, SL_EXPORT_COPY, DLPACK_CPU, 0}};
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;
    struct dlpack_plain *tensor;
    void *made;

    begin(&(struct fake_cuda){0});
    config = stamped_config(3);
    config.mask = 1;
    config.device = SL_DEVICE_CUDA(1);
    loader = load_open(&config);
    cr_assert_eq(sl_next(loader, &batch, -1), 0);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        cr_assert_eq(sl_batch_export(batch, wanted[i].array, wanted[i].how, NULL, &made), 0);
        tensor = made;
        cr_assert_eq(tensor->tensor.device_type, wanted[i].type, "array %d", wanted[i].array);
        cr_assert_eq(tensor->tensor.device_id, wanted[i].id);
        tensor->deleter(tensor);
    }
    cr_assert_eq(sl_export(loader, batch, SL_ARRAY_DATA, SL_EXPORT_COPY, &made), -ENOTSUP);
    /* The last one outlives the loader, and takes the device's memory with it. */
    cr_assert_eq(sl_export(loader, batch, SL_ARRAY_DATA, 0, &made), 0);
    tensor = made;
    cr_assert_eq(sl_batch_wait(batch, SL_STREAM_HOST), 0);
    sl_close(loader);
    cr_assert(((const uint8_t *)tensor->tensor.data)[0] == 1);
    tensor->deleter(tensor);
    end();
}

Test(load_cuda, epochs_changed_and_closed_in_the_middle_leave_nothing)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;

    begin(&(struct fake_cuda){.late_us = 100});
    config = stamped_config(40);
    for (unsigned round = 0; round < 10; round++) {
        loader = load_open(&config);
        for (unsigned epoch = 0; epoch < 3; epoch++) {
            cr_assert_eq(sl_set_epoch(loader, epoch), 0);
            for (unsigned i = 0; i < round; i++) {
                cr_assert_eq(sl_next(loader, &batch, -1), 0);
                cr_assert_eq(sl_batch_wait(batch, NULL), 0);
                if (epoch < 2 || i + 1 < round)
                    cr_assert_eq(sl_batch_release(batch, NULL), 0);
            }
        }
        sl_close(loader);
    }
    end();
}

/* In a child of fork(), and once a process exits, no call of CUDA is made. */
static struct {
    bool here;
    struct sl_loader *loader;
    struct sl_batch *batch;
    struct dlpack_plain *tensor;
} at_exit;

/* A process's handlers run last first, so this one after the library's. */
static void check_at_exit(void)
{
    uint64_t before = fake_cuda_calls();

    if (!at_exit.here)
        return;
    at_exit.tensor->deleter(at_exit.tensor);
    sl_batch_wait(at_exit.batch, NULL);
    sl_release(at_exit.loader, at_exit.batch);
    sl_close(at_exit.loader);
    _exit(before > 0 && fake_cuda_calls() == before ? 0 : 1);
}

__attribute__((constructor)) static void register_first(void)
{
    atexit(check_at_exit);
}

static struct sl_loader *open_one(void)
{
    struct sl_config config = stamped_config(3);

    config.prefetch = 1;
    config.hold = 2;
    return load_open(&config);
}

static int child_status(pid_t child)
{
    int status;

    cr_assert(child > 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

Test(load_cuda, no_call_of_cuda_is_made_while_a_process_exits)
{
    pid_t child;

    load_folder_make(&folder);
    child = fork();
    if (child == 0) {
        void *made;

        fake_cuda_begin(&(struct fake_cuda){0});
        at_exit.loader = open_one();
        if (sl_next(at_exit.loader, &at_exit.batch, -1) ||
            sl_batch_export(at_exit.batch, SL_ARRAY_DATA, 0, NULL, &made) ||
            sl_batch_wait(at_exit.batch, SL_STREAM_HOST))
            _exit(2);
        at_exit.tensor = made;
        /* The workers have done what they can: one slot is held, the other is full. */
        while (sl_next(at_exit.loader, &(struct sl_batch *){NULL}, 0) == SL_TIMEOUT)
            usleep(1000);
        usleep(20000);
        at_exit.here = true;
        exit(3);
    }
    cr_assert_eq(child_status(child), 0);
    load_folder_remove(&folder);
}

Test(load_cuda, no_call_of_cuda_is_made_in_a_forked_child)
{
    struct sl_loader *loader;
    struct sl_batch *batch, *more;
    struct dlpack_plain *tensor;
    void *made;
    pid_t child;

    begin(&(struct fake_cuda){0});
    loader = open_one();
    cr_assert_eq(sl_next(loader, &batch, -1), 0);
    cr_assert_eq(sl_batch_export(batch, SL_ARRAY_DATA, 0, NULL, &made), 0);
    tensor = made;
    child = fork();
    if (child == 0) {
        uint64_t before = fake_cuda_calls();
        bool fine = sl_batch_wait(batch, NULL) == -EOWNERDEAD &&
                    sl_batch_release(batch, NULL) == -EOWNERDEAD &&
                    sl_batch_dlpack(batch, NULL, &made) == -EOWNERDEAD &&
                    sl_next(loader, &more, -1) == -EOWNERDEAD;

        tensor->deleter(tensor);
        sl_close(loader);
        _exit(fine && fake_cuda_calls() == before ? 0 : 1);
    }
    cr_assert_eq(child_status(child), 0);
    tensor->deleter(tensor);
    sl_close(loader);
    end();
}
