/* Batches' arrays as DLPack tensors: the same memory, and it stays until the last of them is gone,
 * whatever the loader does meanwhile. */
#include "load.h"
#include "unit.h"

#include "../../loader/dlpack.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PICTURES = 40 };

static struct load_folder folder;

static struct sl_config begin(void)
{
    load_folder_make(&folder);
    load_write_pictures(&folder, "p/%03u.jpg", PICTURES);
    return load_config(load_path(&folder, "p"));
}

static void end(void)
{
    load_folder_remove(&folder);
}

static struct dlpack_plain *export(struct sl_loader *loader, struct sl_batch *batch,
                                   enum sl_array array)
{
    void *tensor;

    cr_assert_eq(sl_export(loader, batch, array, 0, &tensor), 0, "%s", sl_error(loader));
    return tensor;
}

static void drop(struct dlpack_plain *tensor)
{
    tensor->deleter(tensor);
}

static void expect_row(struct dlpack_plain *tensor, const void *data, uint64_t count, int code,
                       int bits)
{
    cr_assert(tensor->tensor.data == data);
    cr_assert_eq(tensor->tensor.dimensions, 1);
    cr_assert_eq(tensor->tensor.shape[0], (int64_t)count);
    cr_assert_eq(tensor->tensor.strides[0], 1);
    cr_assert_eq(tensor->tensor.type.code, code);
    cr_assert_eq(tensor->tensor.type.bits, bits);
    cr_assert_eq(tensor->tensor.type.lanes, 1);
    drop(tensor);
}

static void expect_content(struct dlpack_plain *tensor, const struct sl_batch *batch,
                           const void *data, int code, int bits)
{
    cr_assert(tensor->tensor.data == data);
    cr_assert_eq(tensor->tensor.device_type, DLPACK_CPU);
    cr_assert_eq(tensor->tensor.dimensions, batch->dimensions);
    for (int i = 0; i < batch->dimensions; i++) {
        cr_assert_eq(tensor->tensor.shape[i], batch->shape[i]);
        cr_assert_eq(tensor->tensor.strides[i], batch->strides[i]);
    }
    cr_assert_eq(tensor->tensor.type.code, code);
    cr_assert_eq(tensor->tensor.type.bits, bits);
    drop(tensor);
}

Test(load_export, every_array_is_a_tensor_of_the_same_memory)
{
    static const struct {
        enum sl_output output;
        int code, bits;
    } outputs[] = {{SL_UINT8_NHWC, DLPACK_UINT, 8},
                   {SL_FLOAT32_NCHW, DLPACK_FLOAT, 32},
                   {SL_FLOAT16_NCHW, DLPACK_FLOAT, 16},
                   {SL_BFLOAT16_NCHW, DLPACK_BFLOAT, 16},
                   {SL_BYTES, DLPACK_UINT, 8}};
    struct sl_config config = begin();
    struct sl_loader *loader;
    struct sl_batch *batch;
    void *tensor;

    config.mask = 1;
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        bool bytes = outputs[i].output == SL_BYTES;

        config.output = outputs[i].output;
        loader = load_open(&config);
        cr_assert_eq(sl_next(loader, &batch, -1), 0);
        expect_content(export(loader, batch, SL_ARRAY_DATA), batch, batch->data, outputs[i].code,
                       outputs[i].bits);
        expect_row(export(loader, batch, SL_ARRAY_LABELS), batch->labels, batch->count, DLPACK_INT,
                   64);
        expect_row(export(loader, batch, SL_ARRAY_STATUSES), batch->statuses, batch->asked,
                   DLPACK_INT, 32);
        expect_row(export(loader, batch, SL_ARRAY_POSITIONS), batch->positions, batch->asked,
                   DLPACK_UINT, 64);
        if (bytes) {
            expect_content(export(loader, batch, SL_ARRAY_MASK), batch, batch->mask, DLPACK_UINT,
                           8);
            expect_row(export(loader, batch, SL_ARRAY_LENGTHS), batch->lengths, batch->count,
                       DLPACK_INT, 64);
        } else {
            cr_assert_eq(sl_export(loader, batch, SL_ARRAY_MASK, 0, &tensor), -EINVAL);
            cr_assert_eq(sl_export(loader, batch, SL_ARRAY_LENGTHS, 0, &tensor), -EINVAL);
            cr_assert(strstr(sl_error(loader), "has not") != NULL);
        }
        sl_close(loader);
    }
    end();
}

Test(load_export, a_versioned_tensor_says_its_version_and_whether_it_is_a_copy)
{
    struct sl_config config = begin();
    struct sl_loader *loader = load_open(&config);
    struct dlpack_versioned *shared, *copied;
    struct sl_batch *batch;
    size_t bytes;
    void *tensor;

    cr_assert_eq(sl_next(loader, &batch, -1), 0);
    cr_assert_eq(sl_export(loader, batch, SL_ARRAY_DATA, SL_EXPORT_VERSIONED, &tensor), 0);
    shared = tensor;
    cr_assert_eq(shared->major, 1);
    cr_assert_eq(shared->flags, 0);
    cr_assert(shared->tensor.data == batch->data);
    cr_assert_eq(
        sl_export(loader, batch, SL_ARRAY_DATA, SL_EXPORT_VERSIONED | SL_EXPORT_COPY, &tensor), 0);
    copied = tensor;
    cr_assert_eq(copied->flags, DLPACK_FLAG_COPIED);
    cr_assert(copied->tensor.data != batch->data);
    bytes = (size_t)(batch->shape[0] * batch->strides[0]);
    cr_assert(memcmp(copied->tensor.data, batch->data, bytes) == 0);
    shared->deleter(shared);
    sl_close(loader);
    copied->deleter(copied);
    end();
}

Test(load_export, a_slot_is_not_filled_again_before_its_last_tensor_is_gone)
{
    struct sl_config config = begin();
    struct dlpack_plain *first, *second;
    struct sl_loader *loader;
    struct sl_batch *batch, *next;
    uint64_t hash;

    config.hold = 1;
    loader = load_open(&config);
    cr_assert_eq(sl_next(loader, &batch, -1), 0);
    hash = load_batch_hash(batch);
    first = export(loader, batch, SL_ARRAY_DATA);
    cr_assert_eq(sl_release(loader, batch), 0);
    cr_assert_eq(sl_release(loader, batch), -EINVAL);
    cr_assert_eq(sl_next(loader, &next, -1), -EBUSY);
    second = export(loader, batch, SL_ARRAY_LABELS);
    drop(first);
    cr_assert_eq(sl_next(loader, &next, -1), -EBUSY);
    cr_assert_eq(sl_set_epoch(loader, 1), 0);
    cr_assert_eq(load_batch_hash(batch), hash);
    cr_assert_eq(sl_next(loader, &next, -1), -EBUSY);
    drop(second);
    cr_assert_eq(sl_next(loader, &next, -1), 0);
    cr_assert_eq(next->epoch, 1);
    /* A tensor that goes first leaves the batch to its holder. */
    drop(export(loader, next, SL_ARRAY_DATA));
    cr_assert_eq(sl_release(loader, next), 0);
    sl_close(loader);
    end();
}

Test(load_export, a_batch_that_is_not_held_gives_no_tensor)
{
    struct sl_config config = begin();
    struct sl_loader *loader = load_open(&config);
    struct sl_batch *batch, invented;
    void *tensor = &invented;

    memset(&invented, 0, sizeof invented);
    cr_assert_eq(sl_next(loader, &batch, -1), 0);
    cr_assert_eq(sl_export(loader, &invented, SL_ARRAY_DATA, 0, &tensor), -EINVAL);
    cr_assert(tensor == NULL);
    cr_assert_eq(sl_export(loader, NULL, SL_ARRAY_DATA, 0, &tensor), -EINVAL);
    cr_assert_eq(sl_export(loader, batch, SL_ARRAY_DATA, 0, NULL), -EINVAL);
    cr_assert_eq(sl_export(loader, batch, SL_ARRAY_DATA, 64, &tensor), -EINVAL);
    cr_assert_eq(sl_export(loader, batch, (enum sl_array)77, 0, &tensor), -EINVAL);
    cr_assert_eq(sl_export(NULL, batch, SL_ARRAY_DATA, 0, &tensor), -EINVAL);
    sl_release(loader, batch);
    cr_assert_eq(sl_export(loader, batch, SL_ARRAY_DATA, 0, &tensor), -EINVAL);
    cr_assert(strstr(sl_error(loader), "not held") != NULL);
    sl_close(loader);
    end();
}

static unsigned count_entries(const char *path)
{
    DIR *entries = opendir(path);
    unsigned count = 0;

    while (entries && readdir(entries))
        count++;
    if (entries)
        closedir(entries);
    return count;
}

Test(load_export, tensors_outlive_the_loader_and_its_threads_and_files_do_not)
{
    unsigned threads = count_entries("/proc/self/task"), files;
    struct sl_config config = begin();

    load_write_tar(&folder, "s.tar", PICTURES, UINT32_MAX);
    files = count_entries("/proc/self/fd");
    for (int source = 0; source < 2; source++) {
        struct dlpack_plain *data, *labels;
        struct sl_loader *loader;
        struct sl_batch *batch;
        uint64_t hash;

        config = load_config(load_path(&folder, source ? "s.tar" : "p"));
        loader = load_open(&config);
        cr_assert_eq(sl_next(loader, &batch, -1), 0);
        hash = load_batch_hash(batch);
        data = export(loader, batch, SL_ARRAY_DATA);
        if (source)
            sl_release(loader, batch);
        sl_close(loader);
        cr_assert_eq(count_entries("/proc/self/task"), threads);
        cr_assert_eq(count_entries("/proc/self/fd"), files);
        cr_assert_eq(load_batch_hash(batch), hash);
        labels = export(loader, batch, SL_ARRAY_LABELS);
        drop(data);
        cr_assert(labels->tensor.data == batch->labels);
        drop(labels);
    }
    end();
}

enum { HELD = 6, DROPPERS = 3 };

static void *drop_some(void *argument)
{
    struct dlpack_plain **tensors = argument;

    for (int i = 0; i < HELD; i++)
        drop(tensors[i]);
    return NULL;
}

/* Several threads drop tensors of all batches while others are taken, and while the loader closes.
 */
Test(load_export, any_thread_drops_tensors_at_any_time)
{
    struct sl_config config = begin();

    config.hold = HELD;
    config.batch_size = 4;
    for (int round = 0; round < 20; round++) {
        struct sl_loader *loader = load_open(&config);
        struct dlpack_plain *tensors[DROPPERS][HELD];
        pthread_t threads[DROPPERS];
        struct sl_batch *batch;

        for (int i = 0; i < HELD; i++) {
            cr_assert_eq(sl_next(loader, &batch, -1), 0);
            for (int j = 0; j < DROPPERS; j++)
                tensors[j][i] = export(loader, batch, SL_ARRAY_DATA);
            sl_release(loader, batch);
        }
        for (int i = 0; i < DROPPERS; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, drop_some, tensors[i]), 0);
        if (round % 2 && sl_next(loader, &batch, 0) == 0)
            sl_release(loader, batch);
        sl_close(loader);
        for (int i = 0; i < DROPPERS; i++)
            pthread_join(threads[i], NULL);
    }
    end();
}

Test(load_export, in_a_forked_child_a_tensor_goes_and_the_parents_batch_stays)
{
    struct sl_config config = begin();
    struct sl_loader *loader = load_open(&config);
    struct sl_batch *batch, *next;
    struct dlpack_plain *tensor;
    int status;
    pid_t child;

    cr_assert_eq(sl_next(loader, &batch, -1), 0);
    tensor = export(loader, batch, SL_ARRAY_DATA);
    sl_release(loader, batch);
    child = fork();
    if (child == 0) {
        void *more;
        int fine = sl_export(loader, batch, SL_ARRAY_DATA, 0, &more) == -EOWNERDEAD;

        drop(tensor);
        _exit(fine ? 0 : 1);
    }
    cr_assert(child > 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(sl_next(loader, &next, -1), -EBUSY);
    drop(tensor);
    cr_assert_eq(sl_next(loader, &next, -1), 0);
    sl_close(loader);
    end();
}
