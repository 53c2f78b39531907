/* Epochs, slots and delivery. The threads are in crew.c. */
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
    return pipeline->settings.config.drop_last || pipeline->source_error
               ? pipeline->total / rows * rows
               : pipeline->total;
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

static void free_slot(struct pipeline *pipeline, struct slot *slot)
{
    if (slot->state == SLOT_READY || slot->state == SLOT_HELD)
        pipeline->backend->batch_release(pipeline->state, (size_t)(slot - pipeline->slots.slots));
    slot->state = SLOT_FREE;
}

/* The stream is at its end, or cannot be read on: now the number of rows is known. */
void pipeline_end_stream(struct pipeline *pipeline, int error)
{
    uint64_t rows = pipeline->settings.config.batch_size;

    pipeline->total = pipeline->fed;
    pipeline->source_error = error;
    if (!error && !pipeline->total && !pipeline->at.skip)
        pipeline->source_error = fault_set(&pipeline->source_fault, -ENODATA, "%s has no sample",
                                           pipeline->at.path);
    /* Slots beyond the last row are nobody's. */
    while (pipeline->assigned && (pipeline->assigned - 1) * rows >= pipeline->total) {
        pipeline->assigned--;
        free_slot(
            pipeline,
            &pipeline->slots.slots[pipeline->slot_of[pipeline->assigned % pipeline->slots.count]]);
    }
    pthread_cond_broadcast(&pipeline->work);
    pthread_cond_broadcast(&pipeline->ready);
}

/* An epoch's beginning, worked out without the lock. */
struct beginning {
    struct place_epoch at;
    struct catalog *catalog;
    struct tarstream *stream;
    uint64_t total;
};

/* `begin` brings the last epoch's catalog and stream. */
static int open_source(struct pipeline *pipeline, struct beginning *begin, struct fault *fault)
{
    const struct place *place = &pipeline->place;

    catalog_close(begin->catalog);
    begin->catalog = NULL;
    if (place->kind == PLACE_TAR) {
        if (begin->stream && !place->mounted)
            return tarstream_rewind(begin->stream, fault);
        tarstream_close(begin->stream);
        begin->stream = NULL;
        return tarstream_open(&begin->stream, begin->at.path, &pipeline->settings, fault);
    }
    if (place->kind == PLACE_LIST)
        return catalog_open_list(&begin->catalog, begin->at.path, fault);
    return catalog_open_folder(&begin->catalog, begin->at.path, place->mounted, &pipeline->settings,
                               fault);
}

static int begin_epoch(struct pipeline *pipeline, struct beginning *begin, uint64_t epoch,
                       uint64_t after, struct fault *fault)
{
    uint64_t start = pipeline->place.mounted ? 0 : pipeline->place.start, count;
    int error = place_epoch(&pipeline->place, epoch, after, &begin->at, fault);

    if (!error)
        error = open_source(pipeline, begin, fault);
    /* A resumption at the end of the epoch finds nothing, and that is right. */
    if (error == -ENODATA && begin->at.base > start)
        error = 0;
    begin->total = 0;
    if (!error && begin->stream)
        begin->total = UNKNOWN;
    if (!error && begin->catalog) {
        count = catalog_count(begin->catalog);
        begin->total = count > begin->at.skip ? count - begin->at.skip : 0;
    }
    return error;
}

/* Under the lock. */
static void commit_epoch(struct pipeline *pipeline, const struct beginning *begin, uint64_t epoch)
{
    pipeline->epoch = epoch;
    pipeline->at = begin->at;
    pipeline->catalog = begin->catalog;
    pipeline->stream = begin->stream;
    pipeline->total = begin->total;
}

static void forget_epoch(struct pipeline *pipeline)
{
    for (size_t i = 0; i < pipeline->slots.count; i++)
        if (pipeline->slots.slots[i].state != SLOT_HELD)
            free_slot(pipeline, &pipeline->slots.slots[i]);
    ring_clear(&pipeline->ring);
    pipeline->assigned = pipeline->delivered = pipeline->taken = pipeline->fed = 0;
    pipeline->passed = pipeline->rows_delivered = 0;
    pipeline->ahead = pipeline->ahead_until = 0;
    pipeline->source_error = 0;
    pipeline->error = 0;
    pipeline->cancelled = false;
}

int pipeline_seek(struct pipeline *pipeline, uint64_t epoch, uint64_t after)
{
    struct fault fault = {""};
    struct beginning begin = {0};
    uint64_t start = pipeline->place.mounted ? 0 : pipeline->place.start;
    int error;

    pthread_mutex_lock(&pipeline->lock);
    if (pipeline->running && !pipeline->error && epoch == pipeline->epoch &&
        (after > start ? after : start) == pipeline->at.base && !pipeline->delivered) {
        pthread_mutex_unlock(&pipeline->lock);
        return 0;
    }
    pipeline->running = false;
    crew_calm(pipeline);
    forget_epoch(pipeline);
    begin.catalog = pipeline->catalog;
    begin.stream = pipeline->stream;
    pipeline->catalog = NULL;
    pipeline->stream = NULL;
    pipeline->total = UNKNOWN;
    /* Nobody works, and reading names may take its time. */
    pthread_mutex_unlock(&pipeline->lock);
    error = begin_epoch(pipeline, &begin, epoch, after, &fault);
    pthread_mutex_lock(&pipeline->lock);
    commit_epoch(pipeline, &begin, epoch);
    pipeline->error = error;
    if (error) {
        pipeline->fault = fault;
    } else {
        pipeline->running = !pipeline->cancelled;
        pipeline_assign(pipeline);
    }
    pthread_cond_broadcast(&pipeline->room);
    pthread_cond_broadcast(&pipeline->ready);
    pthread_mutex_unlock(&pipeline->lock);
    return error;
}

/* Under the lock: the next batch if it is there, or what there is to say instead; -EAGAIN: wait. */
static int take_batch(struct pipeline *pipeline, struct slot **out)
{
    uint64_t rows = pipeline->settings.config.batch_size, wanted = pipeline_rows_wanted(pipeline);
    struct slot *slot;

    if (pipeline->cancelled)
        return fault_set(&pipeline->fault, -ECANCELED, "cancelled");
    if (pipeline->error)
        return pipeline->error;
    if (wanted != UNKNOWN && pipeline->delivered * rows >= wanted) {
        if (!pipeline->source_error)
            return SL_END;
        pipeline->fault = pipeline->source_fault;
        return pipeline->error = pipeline->source_error;
    }
    if (pipeline->held >= (uint64_t)pipeline->settings.config.hold)
        return fault_set(&pipeline->fault, -EBUSY,
                         "all %d batches that config.hold allows are held: release one first",
                         pipeline->settings.config.hold);
    if (pipeline->delivered == pipeline->assigned)
        return -EAGAIN;
    slot = &pipeline->slots.slots[pipeline->slot_of[pipeline->delivered % pipeline->slots.count]];
    if (slot->state != SLOT_READY)
        return -EAGAIN;
    if (slot->error) {
        pipeline->fault = slot->fault;
        return pipeline->error = slot->error;
    }
    *out = slot;
    return 0;
}

static int deliver(struct pipeline *pipeline, struct slot *slot, struct sl_batch **out)
{
    int error = pipeline->backend->batch_deliver(
        pipeline->state, (size_t)(slot - pipeline->slots.slots), &slot->batch);

    if (error) {
        fault_set(&pipeline->fault, error, "the %s back end: %s", pipeline->backend->name,
                  fault_meaning(error));
        return pipeline->error = error;
    }
    slot->state = SLOT_HELD;
    pipeline->held++;
    pipeline->delivered++;
    pipeline->rows_delivered += slot->batch.asked;
    pipeline->batches_out++;
    pipeline->rows_out += slot->batch.count;
    *out = &slot->batch;
    return slot->batch.count < pipeline->settings.config.batch_size ? SL_PARTIAL : 0;
}

int pipeline_next(struct pipeline *pipeline, struct sl_batch **out, int milliseconds)
{
    struct timespec until;
    struct slot *slot = NULL;
    uint64_t start = 0;
    int result;

    pthread_mutex_lock(&pipeline->lock);
    while ((result = take_batch(pipeline, &slot)) == -EAGAIN) {
        if (milliseconds == 0) {
            result = SL_TIMEOUT;
            break;
        }
        if (!start) {
            start = tally_now();
            if (milliseconds > 0) {
                uint64_t end = start + (uint64_t)milliseconds * 1000000u;
                until = (struct timespec){(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
            }
        }
        if (milliseconds < 0)
            pthread_cond_wait(&pipeline->ready, &pipeline->lock);
        else if (pthread_cond_timedwait(&pipeline->ready, &pipeline->lock, &until) == ETIMEDOUT)
            milliseconds = 0;
    }
    if (start)
        pipeline->consumer_wait_ns += tally_now() - start;
    if (result == 0 && slot)
        result = deliver(pipeline, slot, out);
    pthread_mutex_unlock(&pipeline->lock);
    return result;
}

int pipeline_release(struct pipeline *pipeline, struct sl_batch *batch)
{
    int result = -EINVAL;

    pthread_mutex_lock(&pipeline->lock);
    for (size_t i = 0; i < pipeline->slots.count; i++) {
        struct slot *slot = &pipeline->slots.slots[i];

        if (&slot->batch != batch || slot->state != SLOT_HELD)
            continue;
        free_slot(pipeline, slot);
        pipeline->held--;
        pipeline_assign(pipeline);
        result = 0;
    }
    if (result)
        fault_set(&pipeline->fault, result, "sl_release() of a batch that is not held");
    pthread_mutex_unlock(&pipeline->lock);
    return result;
}

void pipeline_cancel(struct pipeline *pipeline)
{
    pthread_mutex_lock(&pipeline->lock);
    pipeline->cancelled = true;
    pipeline->running = false;
    if (pipeline->feeding)
        tarstream_stop(pipeline->stream);
    pthread_cond_broadcast(&pipeline->ready);
    pthread_cond_broadcast(&pipeline->room);
    pthread_mutex_unlock(&pipeline->lock);
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

int pipeline_open(struct pipeline **out, const struct sl_config *config, struct fault *fault)
{
    struct pipeline *pipeline = calloc(1, sizeof *pipeline);
    struct beginning begin = {0};
    pthread_condattr_t monotonic;
    int error;

    if (!pipeline)
        return fault_set(fault, -ENOMEM, "no memory for a loader");
    pipeline->opened_ns = tally_now();
    pipeline->wake_feeder_at = UINT64_MAX;
    pipeline->backend = &backend_host;
    pthread_mutex_init(&pipeline->lock, NULL);
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
        error = pipeline->backend->open(&pipeline->state, &pipeline->settings, fault);
    if (!error)
        error = open_memory(pipeline, fault);
    if (!error) {
        error = begin_epoch(pipeline, &begin, pipeline->place.epoch,
                            pipeline->settings.config.after, fault);
        commit_epoch(pipeline, &begin, pipeline->place.epoch);
    }
    if (!error)
        error = crew_start(pipeline, fault);
    if (error) {
        pipeline_close(pipeline);
        return error;
    }
    pthread_mutex_lock(&pipeline->lock);
    pipeline->running = true;
    pipeline_assign(pipeline);
    pthread_mutex_unlock(&pipeline->lock);
    *out = pipeline;
    return 0;
}

void pipeline_close(struct pipeline *pipeline)
{
    if (!pipeline)
        return;
    crew_stop(pipeline);
    for (size_t i = 0; i < pipeline->slots.count && pipeline->slots.slots; i++)
        free_slot(pipeline, &pipeline->slots.slots[i]);
    catalog_close(pipeline->catalog);
    tarstream_close(pipeline->stream);
    slots_close(&pipeline->slots);
    ring_close(&pipeline->ring);
    free(pipeline->rows);
    free(pipeline->slot_of);
    if (pipeline->state)
        pipeline->backend->close(pipeline->state);
    settings_free(&pipeline->settings);
    pthread_mutex_destroy(&pipeline->lock);
    pthread_cond_destroy(&pipeline->work);
    pthread_cond_destroy(&pipeline->ready);
    pthread_cond_destroy(&pipeline->room);
    pthread_cond_destroy(&pipeline->calm);
    free(pipeline);
}
