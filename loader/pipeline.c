/* The shared state, and the steps that more than one thread's work takes. */
#include "pipeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define UNKNOWN UINT64_MAX

uint64_t pipeline_rows_wanted(const struct pipeline *pipeline)
{
    uint64_t rows = pipeline->settings.config.batch_size;

    if (pipeline->total == UNKNOWN)
        return UNKNOWN;
    return pipeline->settings.config.drop_last ? pipeline->total / rows * rows : pipeline->total;
}

void pipeline_assign(struct pipeline *pipeline)
{
    uint64_t rows = pipeline->settings.config.batch_size, wanted = pipeline_rows_wanted(pipeline);
    bool some = false;

    if (!pipeline->running)
        return;
    for (size_t i = 0; i < pipeline->slots.count; i++) {
        struct slot *slot = &pipeline->slots.slots[i];

        if (slot->state != SLOT_FREE)
            continue;
        if (wanted != UNKNOWN && pipeline->assigned * rows >= wanted)
            break;
        slots_begin(&pipeline->slots, slot, pipeline->epoch, pipeline->assigned);
        pipeline->slot_of[pipeline->assigned++ % pipeline->slots.count] = (uint32_t)i;
        some = true;
    }
    if (some) {
        pthread_cond_broadcast(&pipeline->work);
        pthread_cond_broadcast(&pipeline->room);
    }
}

void pipeline_take_back(struct pipeline *pipeline, struct slot *slot)
{
    slot->state = SLOT_FREE;
    pipeline->held--;
    pipeline_assign(pipeline);
}

/* The stream is at its end, or cannot be read on: now the number of rows is known. */
void pipeline_end_stream(struct pipeline *pipeline, int error)
{
    uint64_t rows = pipeline->settings.config.batch_size;
    uint64_t start = pipeline->place.mounted ? 0 : pipeline->place.start;

    pipeline->total = pipeline->fed;
    pipeline->source_error = error;
    /* A resumption at the end of the epoch finds nothing, and that is right. */
    if (!error && !pipeline->total && pipeline->at.base == start)
        pipeline->source_error = fault_set(&pipeline->source_fault, -ENODATA, "%s has no sample",
                                           pipeline->at.path);
    /* How many there are shows at the end alone. */
    if (!error && pipeline->passed < pipeline->at.skip)
        pipeline->source_error = place_check_end(&pipeline->place, &pipeline->at, pipeline->passed,
                                                 &pipeline->source_fault);
    /* Slots beyond the last row are nobody's. */
    while (pipeline->assigned && (pipeline->assigned - 1) * rows >= pipeline->total) {
        pipeline->assigned--;
        pipeline->slots.slots[pipeline->slot_of[pipeline->assigned % pipeline->slots.count]].state =
            SLOT_FREE;
    }
    pthread_cond_broadcast(&pipeline->work);
    pthread_cond_broadcast(&pipeline->ready);
}

void pipeline_forget_epoch(struct pipeline *pipeline)
{
    for (size_t i = 0; i < pipeline->slots.count; i++)
        if (pipeline->slots.slots[i].state != SLOT_HELD)
            pipeline->slots.slots[i].state = SLOT_FREE;
    ring_clear(&pipeline->ring);
    pipeline->assigned = pipeline->delivered = pipeline->taken = pipeline->fed = 0;
    pipeline->passed = pipeline->rows_delivered = 0;
    pipeline->ahead = pipeline->ahead_until = 0;
    pipeline->source_error = 0;
    pipeline->error = 0;
    pipeline->cancelled = false;
}

void pipeline_halt(struct pipeline *pipeline)
{
    pipeline->running = false;
    if (pipeline->feeding)
        tarstream_stop(pipeline->stream);
    pthread_cond_broadcast(&pipeline->work);
    pthread_cond_broadcast(&pipeline->ready);
    pthread_cond_broadcast(&pipeline->room);
}

void pipeline_wait_calm(struct pipeline *pipeline)
{
    while (pipeline->busy || pipeline->feeding)
        pthread_cond_wait(&pipeline->calm, &pipeline->lock);
}

static int open_memory(struct pipeline *pipeline, struct fault *fault)
{
    const struct sl_config *config = &pipeline->settings.config;
    size_t rows = pipeline->settings.slots * config->batch_size;
    int error;

    pipeline->slot_of = calloc(pipeline->settings.slots, sizeof *pipeline->slot_of);
    if (!pipeline->slot_of)
        return fault_set(fault, -ENOMEM, "no memory for the slots");
    error = slots_open(&pipeline->slots, &pipeline->settings, pipeline->backend, pipeline->state,
                       fault);
    if (error || pipeline->place.kind != PLACE_TAR)
        return error;
    pipeline->rows = calloc(rows, sizeof *pipeline->rows);
    if (!pipeline->rows ||
        ring_open(&pipeline->ring, config->stream_bytes, config->file_most, rows + 1))
        return fault_set(fault, -ENOMEM, "no memory for the stream");
    return 0;
}

/* Images take long enough to be taken one by one; of bytes, a thousand take no longer. */
static uint64_t choose_chunk(const struct settings *settings)
{
    uint64_t chunk = settings->config.batch_size / (2 * (uint64_t)settings->config.workers);

    return settings->images || chunk < 1 ? 1 : chunk > 32 ? 32 : chunk;
}

int pipeline_open(struct pipeline *pipeline, const struct sl_config *config, struct fault *fault)
{
    pthread_condattr_t monotonic;
    int error;

    memset(pipeline, 0, sizeof *pipeline);
    pipeline->opened_ns = tally_now();
    pipeline->wake_feeder_at = UINT64_MAX;
    pipeline->total = UNKNOWN;
    pthread_mutex_init(&pipeline->lock, NULL);
    pthread_mutex_init(&pipeline->spare_lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pipeline->work, NULL);
    pthread_cond_init(&pipeline->ready, &monotonic);
    pthread_cond_init(&pipeline->room, NULL);
    pthread_cond_init(&pipeline->calm, NULL);
    pthread_condattr_destroy(&monotonic);
    error = settings_make(&pipeline->settings, config, fault);
    if (!error)
        error = place_find(&pipeline->place, &pipeline->settings, fault);
    if (!error)
        error = backend_open(&pipeline->backend, &pipeline->state, &pipeline->settings,
                             &pipeline->fault, fault);
    if (!error) {
        /* Of a row in a slot; what the caller gets of it may be larger, elsewhere. */
        if (pipeline->settings.images && pipeline->backend->rows_are_pixels(pipeline->state))
            pipeline->settings.row_bytes = pipeline->settings.pixels;
        error = open_memory(pipeline, fault);
    }
    if (!error && pipeline->backend->decodes(pipeline->state, NULL))
        error = worker_open(&pipeline->spare, &pipeline->settings, pipeline->backend,
                            pipeline->state, false, fault);
    if (error) {
        pipeline_close(pipeline);
        return error;
    }
    pipeline->chunk = choose_chunk(&pipeline->settings);
    /* A mount reads ahead by itself. */
    pipeline->asks_ahead = pipeline->place.kind != PLACE_TAR && !pipeline->place.mounted;
    return 0;
}

void pipeline_close_source(struct pipeline *pipeline)
{
    catalog_close(pipeline->catalog);
    tarstream_close(pipeline->stream);
    ring_close(&pipeline->ring);
    worker_close(&pipeline->spare);
    free(pipeline->rows);
    pipeline->catalog = NULL;
    pipeline->stream = NULL;
    pipeline->rows = NULL;
}

void pipeline_close(struct pipeline *pipeline)
{
    pipeline_close_source(pipeline);
    slots_close(&pipeline->slots);
    free(pipeline->slot_of);
    if (pipeline->state)
        pipeline->backend->close(pipeline->state);
    settings_free(&pipeline->settings);
    pthread_mutex_destroy(&pipeline->lock);
    pthread_mutex_destroy(&pipeline->spare_lock);
    pthread_cond_destroy(&pipeline->work);
    pthread_cond_destroy(&pipeline->ready);
    pthread_cond_destroy(&pipeline->room);
    pthread_cond_destroy(&pipeline->calm);
}
