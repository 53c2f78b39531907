/* The library's functions: arguments checked, children of fork() turned away, texts handed out.
 * What they do is in batches.c. */
#include "shuffleload.h"

#include "export.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What sl_error(NULL) and sl_error(loader) give to this thread. */
static _Thread_local struct fault open_fault, told;

/* A call that cannot be right: changes nothing but the text of the last error. */
__attribute__((format(printf, 2, 3))) static int refuse(struct sl_loader *loader,
                                                        const char *format, ...)
{
    struct fault fault;
    va_list arguments;

    va_start(arguments, format);
    /* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is, one line up */
    vsnprintf(fault.text, sizeof fault.text, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&loader->batches.pipeline.lock);
    loader->batches.pipeline.fault = fault;
    pthread_mutex_unlock(&loader->batches.pipeline.lock);
    return -EINVAL;
}

static bool is_ours(const struct sl_loader *loader)
{
    return loader->owner == getpid();
}

void sl_config_init(struct sl_config *config, size_t size)
{
    if (!config || size < sizeof config->size)
        return;
    memset(config, 0, size);
    config->size = size;
}

int sl_open(struct sl_loader **out, const struct sl_config *config)
{
    struct sl_loader *loader;
    int error;

    open_fault.text[0] = '\0';
    if (!out)
        return fault_set(&open_fault, -EINVAL, "sl_open() without a place for the loader");
    *out = NULL;
    loader = calloc(1, sizeof *loader);
    if (!loader)
        return fault_set(&open_fault, -ENOMEM, "no memory for a loader");
    loader->owner = getpid();
    error = batches_open(&loader->batches, config, &open_fault);
    if (error) {
        free(loader);
        return error;
    }
    for (size_t i = 0; i < loader->batches.pipeline.slots.count; i++)
        loader->batches.pipeline.slots.slots[i].loader = loader;
    *out = loader;
    return 0;
}

int sl_next(struct sl_loader *loader, struct sl_batch **batch, int milliseconds)
{
    if (batch)
        *batch = NULL;
    if (!loader)
        return -EINVAL;
    if (!is_ours(loader))
        return -EOWNERDEAD;
    if (!batch)
        return refuse(loader, "sl_next() without a place for the batch");
    return batches_next(&loader->batches, batch, milliseconds);
}

int sl_release(struct sl_loader *loader, struct sl_batch *batch)
{
    if (!loader)
        return -EINVAL;
    if (!is_ours(loader))
        return -EOWNERDEAD;
    return batches_release(&loader->batches, batch, true, NULL);
}

int sl_batch_wait(struct sl_batch *batch, void *stream)
{
    if (!batch)
        return -EINVAL;
    if (!is_ours(export_loader_of(batch)))
        return -EOWNERDEAD;
    return export_wait(export_loader_of(batch), batch, stream);
}

int sl_batch_release(struct sl_batch *batch, void *stream)
{
    if (!batch)
        return -EINVAL;
    if (!is_ours(export_loader_of(batch)))
        return -EOWNERDEAD;
    return batches_release(&export_loader_of(batch)->batches, batch, false, stream);
}

int sl_export(struct sl_loader *loader, const struct sl_batch *batch, enum sl_array array,
              unsigned how, void **tensor)
{
    if (tensor)
        *tensor = NULL;
    if (!loader)
        return -EINVAL;
    if (!is_ours(loader))
        return -EOWNERDEAD;
    if (!tensor)
        return refuse(loader, "sl_export() without a place for the tensor");
    return export_array(loader, batch, array, how, NULL, tensor);
}

int sl_batch_export(const struct sl_batch *batch, enum sl_array array, unsigned how, void *stream,
                    void **tensor)
{
    struct sl_loader *loader;

    if (tensor)
        *tensor = NULL;
    if (!batch)
        return -EINVAL;
    loader = export_loader_of(batch);
    if (!is_ours(loader))
        return -EOWNERDEAD;
    if (!tensor)
        return refuse(loader, "sl_batch_export() without a place for the tensor");
    return export_array(loader, batch, array, how, stream, tensor);
}

int sl_batch_dlpack(const struct sl_batch *batch, void *stream, void **tensor)
{
    return sl_batch_export(batch, SL_ARRAY_DATA, SL_EXPORT_VERSIONED, stream, tensor);
}

int sl_seek(struct sl_loader *loader, uint64_t epoch, uint64_t after)
{
    if (!loader)
        return -EINVAL;
    if (!is_ours(loader))
        return -EOWNERDEAD;
    return batches_seek(&loader->batches, epoch, after);
}

int sl_set_epoch(struct sl_loader *loader, uint64_t epoch)
{
    return sl_seek(loader, epoch, 0);
}

/* No later version's struct is as large: a larger size is memory that was never set. */
enum { STRUCT_MOST = 65536 };

/* Fills as much of the caller's struct as it has, where both know it; the rest is 0. */
static int give(struct sl_loader *loader, const char *name, void *to, const void *from, size_t size)
{
    size_t known = *(const size_t *)to;

    if (known < 2 * sizeof(size_t) || known > STRUCT_MOST)
        return refuse(loader, "%s.size is %zu: it has to be sizeof(struct sl_%s), %zu", name, known,
                      name, size);
    memset(to, 0, known);
    memcpy(to, from, known < size ? known : size);
    *(size_t *)to = known;
    return 0;
}

int sl_position(struct sl_loader *loader, struct sl_position *position)
{
    struct sl_position now = {.samples = UINT64_MAX, .batches = UINT64_MAX};
    const struct pipeline *pipeline;
    pthread_mutex_t *lock;

    if (!loader)
        return -EINVAL;
    if (!is_ours(loader))
        return -EOWNERDEAD;
    if (!position)
        return refuse(loader, "sl_position() without a struct to fill");
    pipeline = &loader->batches.pipeline;
    lock = &loader->batches.pipeline.lock;
    pthread_mutex_lock(lock);
    now.epoch = pipeline->epoch;
    now.after = place_after(&pipeline->place, &pipeline->at, pipeline->rows_delivered,
                            pipeline->rows_delivered == pipeline->total);
    now.taken = pipeline->rows_delivered;
    now.batches_taken = pipeline->delivered;
    if (pipeline->total != UINT64_MAX) {
        uint64_t rows = pipeline->settings.config.batch_size;

        now.samples = pipeline->total;
        now.batches = (pipeline_rows_wanted(pipeline) + rows - 1) / rows;
    }
    pthread_mutex_unlock(lock);
    return give(loader, "position", position, &now, sizeof now);
}

int sl_stats(struct sl_loader *loader, struct sl_stats *stats)
{
    struct sl_stats now = {0};
    struct pipeline *pipeline;
    struct tally tally;
    uint64_t stages;

    if (!loader)
        return -EINVAL;
    if (!is_ours(loader))
        return -EOWNERDEAD;
    if (!stats)
        return refuse(loader, "sl_stats() without a struct to fill");
    pipeline = &loader->batches.pipeline;
    pthread_mutex_lock(&pipeline->lock);
    tally = pipeline->tally;
    now.batches = pipeline->batches_out;
    now.samples = pipeline->rows_out;
    now.stream_read_ns = pipeline->stream_read_ns;
    now.stream_wait_ns = pipeline->stream_wait_ns;
    now.consumer_wait_ns = pipeline->consumer_wait_ns;
    memcpy(now.last_bad, pipeline->last_bad, sizeof now.last_bad);
    memcpy(now.last_fallback, pipeline->last_fallback, sizeof now.last_fallback);
    pthread_mutex_unlock(&pipeline->lock);
    now.wall_ns = tally_now() - pipeline->opened_ns;
    now.workers = (uint64_t)pipeline->settings.config.workers;
    now.decoded = tally.decoded;
    now.bytes = tally.bytes;
    now.bad = tally.bad;
    now.replaced = tally.replaced;
    now.skipped = tally.skipped;
    now.damaged = tally.damaged;
    now.cut = tally.cut;
    now.unlabelled = tally.unlabelled;
    now.device_decoded = tally.device_decoded;
    now.fallbacks = tally.fallbacks;
    now.fallbacks_kind = tally.fallbacks_kind;
    now.fallbacks_large = tally.fallbacks_large;
    now.fallbacks_refused = tally.fallbacks_refused;
    now.workers_ns = tally.workers_ns;
    now.wait_storage_ns = tally.wait_storage_ns;
    now.read_ns = tally.read_ns;
    now.decode_ns = tally.decode_ns;
    now.resize_ns = tally.resize_ns;
    now.normalise_ns = tally.normalise_ns;
    now.wait_consumer_ns = tally.wait_consumer_ns;
    now.idle_ns = tally.idle_ns;
    stages = tally.wait_storage_ns + tally.read_ns + tally.decode_ns + tally.resize_ns +
             tally.normalise_ns + tally.wait_consumer_ns + tally.idle_ns;
    now.other_ns = tally.workers_ns > stages ? tally.workers_ns - stages : 0;
    return give(loader, "stats", stats, &now, sizeof now);
}

void sl_cancel(struct sl_loader *loader)
{
    if (loader && is_ours(loader))
        batches_cancel(&loader->batches);
}

void sl_close(struct sl_loader *loader)
{
    if (!loader || !is_ours(loader))
        return;
    batches_stop(&loader->batches);
    export_free_loader(loader);
}

const char *sl_error(struct sl_loader *loader)
{
    if (!loader)
        return open_fault.text;
    if (!is_ours(loader))
        return "the loader belongs to the process that forked this one: open it after the fork";
    pthread_mutex_lock(&loader->batches.pipeline.lock);
    told = loader->batches.pipeline.fault;
    pthread_mutex_unlock(&loader->batches.pipeline.lock);
    return told.text;
}

const char *sl_status_text(int status)
{
    switch (status) {
    case 0:
        return "0";
    case SL_PARTIAL:
        return "partial";
    case SL_END:
        return "end";
    case SL_TIMEOUT:
        return "timeout";
    default:
        return status < 0 ? fault_meaning(status) : "unknown status";
    }
}

const char *sl_version(void)
{
    return SETTINGS_VERSION;
}
