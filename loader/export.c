/* Tensors out of batches. */
#include "export.h"

#include "dlpack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Behind each tensor. Owns its copy, or keeps a slot until what is on the stream is done. */
struct export
{
    union {
        struct dlpack_plain plain;
        struct dlpack_versioned versioned;
    } managed; /* first: what the consumer has */
    struct sl_loader *loader;
    struct slot *slot; /* NULL: a copy */
    void *stream;
    void *copy;
    int64_t shape[4], strides[4];
};

void export_free_loader(struct sl_loader *loader)
{
    struct pipeline *pipeline = &loader->batches.pipeline;
    bool last;

    pthread_mutex_lock(&pipeline->lock);
    loader->closed = true;
    last = loader->tensors == 0;
    pthread_mutex_unlock(&pipeline->lock);
    if (!last)
        return;
    batches_free(&loader->batches);
    free(loader);
}

static void give_up_slot(struct sl_loader *loader, struct slot *slot)
{
    struct pipeline *pipeline = &loader->batches.pipeline;
    bool last;

    /* A child of fork() has a copy of the lock too, which a thread that it has not got may hold. */
    if (loader->owner != getpid())
        return;
    pthread_mutex_lock(&pipeline->lock);
    slot->tensors--;
    loader->tensors--;
    if (slot->released && !slot->tensors)
        pipeline_take_back(pipeline, slot);
    last = loader->closed && !loader->tensors;
    pthread_mutex_unlock(&pipeline->lock);
    if (!last)
        return;
    batches_free(&loader->batches);
    free(loader);
}

static size_t number_of(const struct sl_loader *loader, const struct slot *slot)
{
    return (size_t)(slot - loader->batches.pipeline.slots.slots);
}

/* A fault of CUDA's here is told of by the batches that can no longer be made. */
static void use_slot(struct sl_loader *loader, struct slot *slot, void *stream)
{
    const struct pipeline *pipeline = &loader->batches.pipeline;

    if (loader->owner == getpid())
        (void)pipeline->backend->batch_used(pipeline->state, number_of(loader, slot), stream, NULL);
}

static void end(struct export *export)
{
    if (export->slot) {
        use_slot(export->loader, export->slot, export->stream);
        give_up_slot(export->loader, export->slot);
    }
    free(export->copy);
    free(export);
}

static void end_plain(struct dlpack_plain *self)
{
    if (self)
        end(self->context);
}

static void end_versioned(struct dlpack_versioned *self)
{
    if (self)
        end(self->context);
}

/* One dimension of whatever type. */
static void describe_row(struct dlpack_tensor *tensor, const void *data, uint64_t count,
                         enum dlpack_code code, unsigned bits)
{
    tensor->data = (void *)data;
    tensor->dimensions = 1;
    tensor->shape[0] = (int64_t)count;
    tensor->strides[0] = 1;
    tensor->type.code = (uint8_t)code;
    tensor->type.bits = (uint8_t)bits;
}

static void describe_content(struct dlpack_tensor *tensor, const struct sl_batch *batch,
                             const void *data)
{
    enum dlpack_code code = batch->output == SL_FLOAT32_NCHW || batch->output == SL_FLOAT16_NCHW
                                ? DLPACK_FLOAT
                            : batch->output == SL_BFLOAT16_NCHW ? DLPACK_BFLOAT
                                                                : DLPACK_UINT;

    describe_row(tensor, data, 0, code, 8 * (unsigned)settings_element_bytes(batch->output));
    tensor->dimensions = batch->dimensions;
    memcpy(tensor->shape, batch->shape, sizeof batch->shape);
    memcpy(tensor->strides, batch->strides, sizeof batch->strides);
}

/* Is it in the device's memory, where the batch is on a device? */
static bool is_on_device(enum sl_array array)
{
    return array == SL_ARRAY_DATA || array == SL_ARRAY_MASK || array == SL_ARRAY_DEVICE_LABELS ||
           array == SL_ARRAY_DEVICE_LENGTHS;
}

static void describe_device(struct dlpack_tensor *tensor, const struct sl_batch *batch,
                            enum sl_array array, unsigned how)
{
    tensor->device_id = 0;
    if (batch->device == SL_DEVICE_HOST) {
        tensor->device_type = DLPACK_CPU;
    } else if (is_on_device(array)) {
        tensor->device_type = DLPACK_CUDA;
        tensor->device_id = SL_DEVICE_INDEX(batch->device);
    } else {
        tensor->device_type = how & SL_EXPORT_PINNED_AS_CPU ? DLPACK_CPU : DLPACK_CUDA_HOST;
    }
}

/* False: the batch has no such array. */
static bool describe(struct dlpack_tensor *tensor, const struct sl_batch *batch,
                     enum sl_array array)
{
    tensor->type.lanes = 1;
    switch (array) {
    case SL_ARRAY_DATA:
        describe_content(tensor, batch, batch->data);
        break;
    case SL_ARRAY_MASK:
        describe_content(tensor, batch, batch->mask);
        break;
    case SL_ARRAY_LABELS:
        describe_row(tensor, batch->labels, batch->count, DLPACK_INT, 64);
        break;
    case SL_ARRAY_LENGTHS:
        describe_row(tensor, batch->lengths, batch->count, DLPACK_INT, 64);
        break;
    case SL_ARRAY_STATUSES:
        describe_row(tensor, batch->statuses, batch->asked, DLPACK_INT, 32);
        break;
    case SL_ARRAY_POSITIONS:
        describe_row(tensor, batch->positions, batch->asked, DLPACK_UINT, 64);
        break;
    case SL_ARRAY_DEVICE_LABELS:
        describe_row(tensor, batch->device_labels, batch->count, DLPACK_INT, 64);
        break;
    case SL_ARRAY_DEVICE_LENGTHS:
        describe_row(tensor, batch->device_lengths, batch->count, DLPACK_INT, 64);
        break;
    default:
        return false;
    }
    return tensor->data != NULL;
}

/* The same content in memory of its own, laid out alike. */
static int copy(struct export *export, struct dlpack_tensor *tensor)
{
    size_t bytes = (size_t)tensor->shape[0] * (size_t)tensor->strides[0] * tensor->type.bits / 8;

    export->copy = aligned_alloc(SETTINGS_ALIGNMENT,
                                 (bytes / SETTINGS_ALIGNMENT + 1) * SETTINGS_ALIGNMENT);
    if (!export->copy)
        return -ENOMEM;
    memcpy(export->copy, tensor->data, bytes);
    tensor->data = export->copy;
    return 0;
}

/* Under the lock, or NULL: is the batch one that somebody has? */
static struct slot *find_held(struct pipeline *pipeline, const struct sl_batch *batch)
{
    for (size_t i = 0; i < pipeline->slots.count; i++)
        if (&pipeline->slots.slots[i].batch == batch && pipeline->slots.slots[i].state == SLOT_HELD)
            return &pipeline->slots.slots[i];
    return NULL;
}

/* Counts the tensor, so that its slot stays while it is made. */
static int keep_slot(struct sl_loader *loader, const struct sl_batch *batch, struct slot **slot)
{
    struct pipeline *pipeline = &loader->batches.pipeline;

    pthread_mutex_lock(&pipeline->lock);
    *slot = find_held(pipeline, batch);
    if (*slot) {
        (*slot)->tensors++;
        loader->tensors++;
    } else {
        fault_set(&pipeline->fault, -EINVAL, "use of a batch that is not held");
    }
    pthread_mutex_unlock(&pipeline->lock);
    return *slot ? 0 : -EINVAL;
}

static int fail(struct sl_loader *loader, struct export *export, int error, const char *text)
{
    struct pipeline *pipeline = &loader->batches.pipeline;

    pthread_mutex_lock(&pipeline->lock);
    fault_set(&pipeline->fault, error, "%s", text);
    pthread_mutex_unlock(&pipeline->lock);
    end(export);
    return error;
}

static int wait_for_slot(struct sl_loader *loader, struct slot *slot, void *stream)
{
    struct pipeline *pipeline = &loader->batches.pipeline;
    struct fault fault = {""};
    int error = pipeline->backend->batch_wait(pipeline->state, number_of(loader, slot), stream,
                                              &fault);

    if (!error)
        return 0;
    pthread_mutex_lock(&pipeline->lock);
    pipeline->fault = fault;
    pthread_mutex_unlock(&pipeline->lock);
    return error;
}

struct sl_loader *export_loader_of(const struct sl_batch *batch)
{
    return ((const struct slot *)batch)->loader;
}

int export_wait(struct sl_loader *loader, const struct sl_batch *batch, void *stream)
{
    struct slot *slot;
    int error = keep_slot(loader, batch, &slot);

    if (error)
        return error;
    error = wait_for_slot(loader, slot, stream);
    give_up_slot(loader, slot);
    return error;
}

int export_array(struct sl_loader *loader, const struct sl_batch *batch, enum sl_array array,
                 unsigned how, void *stream, void **out)
{
    bool versioned = how & SL_EXPORT_VERSIONED;
    struct export *export = calloc(1, sizeof *export);
    struct dlpack_tensor *tensor;
    int error;

    if (!export)
        return -ENOMEM;
    export->loader = loader;
    /* Until the consumer has it, no work of its uses it. */
    export->stream = SL_STREAM_HOST;
    if (keep_slot(loader, batch, &export->slot)) {
        free(export);
        return -EINVAL;
    }
    tensor = versioned ? &export->managed.versioned.tensor : &export->managed.plain.tensor;
    tensor->shape = export->shape;
    tensor->strides = export->strides;
    if (how & ~(unsigned)(SL_EXPORT_VERSIONED | SL_EXPORT_COPY | SL_EXPORT_PINNED_AS_CPU))
        return fail(loader, export, -EINVAL, "sl_export() with bits that say nothing");
    if (!describe(tensor, batch, array))
        return fail(loader, export, -EINVAL, "sl_export() of an array that the batch has not");
    describe_device(tensor, batch, array, how);
    if (how & SL_EXPORT_COPY && tensor->device_type == DLPACK_CUDA)
        return fail(loader, export, -ENOTSUP, "a copy of what is in a GPU's memory");
    if (how & SL_EXPORT_COPY) {
        if (copy(export, tensor))
            return fail(loader, export, -ENOMEM, "no memory for a copy of the array");
        give_up_slot(loader, export->slot);
        export->slot = NULL;
        tensor->device_type = DLPACK_CPU;
    } else {
        error = wait_for_slot(loader, export->slot, stream);
        if (error) {
            end(export);
            return error;
        }
        export->stream = stream;
    }
    if (versioned) {
        export->managed.versioned.major = DLPACK_MAJOR;
        export->managed.versioned.minor = DLPACK_MINOR;
        export->managed.versioned.flags = export->copy ? DLPACK_FLAG_COPIED : 0;
        export->managed.versioned.context = export;
        export->managed.versioned.deleter = end_versioned;
    } else {
        export->managed.plain.context = export;
        export->managed.plain.deleter = end_plain;
    }
    *out = &export->managed;
    return 0;
}
