/* Epochs and delivery. */
#include "batches.h"

#include <errno.h>
#include <string.h>

#define UNKNOWN UINT64_MAX

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
        error = place_check_end(&pipeline->place, &begin->at, count, fault);
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

static int seek(struct pipeline *pipeline, uint64_t epoch, uint64_t after)
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
    pipeline_halt(pipeline);
    pipeline_wait_calm(pipeline);
    pipeline_forget_epoch(pipeline);
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

int batches_seek(struct batches *batches, uint64_t epoch, uint64_t after)
{
    int error;

    /* Between its two halves a seek holds the epoch's catalog outside the pipeline's lock. */
    pthread_mutex_lock(&batches->seeking);
    error = seek(&batches->pipeline, epoch, after);
    pthread_mutex_unlock(&batches->seeking);
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
    slot->state = SLOT_HELD;
    pipeline->held++;
    pipeline->delivered++;
    pipeline->rows_delivered += slot->batch.asked;
    pipeline->batches_out++;
    pipeline->rows_out += slot->batch.count;
    *out = &slot->batch;
    return slot->batch.count < pipeline->settings.config.batch_size ? SL_PARTIAL : 0;
}

int batches_next(struct batches *batches, struct sl_batch **out, int milliseconds)
{
    struct pipeline *pipeline = &batches->pipeline;
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

/* Under the lock: the batch's slot, which a tensor's count keeps from here on; NULL: not held. */
static struct slot *begin_release(struct pipeline *pipeline, const struct sl_batch *batch)
{
    for (size_t i = 0; i < pipeline->slots.count; i++) {
        struct slot *slot = &pipeline->slots.slots[i];

        if (&slot->batch != batch || slot->state != SLOT_HELD || slot->released)
            continue;
        slot->released = true;
        slot->tensors++;
        return slot;
    }
    return NULL;
}

int batches_release(struct batches *batches, const struct sl_batch *batch, bool all, void *stream)
{
    struct pipeline *pipeline = &batches->pipeline;
    struct fault fault = {""};
    struct slot *slot;
    size_t number;
    int error;

    pthread_mutex_lock(&pipeline->lock);
    slot = begin_release(pipeline, batch);
    if (!slot) {
        error = fault_set(&pipeline->fault, -EINVAL, "%s() of a batch that is not held",
                          all ? "sl_release" : "sl_batch_release");
        pthread_mutex_unlock(&pipeline->lock);
        return error;
    }
    /* A full queue of the device may take its time. */
    pthread_mutex_unlock(&pipeline->lock);
    number = (size_t)(slot - pipeline->slots.slots);
    error = all ? pipeline->backend->batch_used_by_all(pipeline->state, number, &fault)
                : pipeline->backend->batch_used(pipeline->state, number, stream, &fault);
    pthread_mutex_lock(&pipeline->lock);
    if (error)
        pipeline->fault = fault;
    if (--slot->tensors == 0)
        pipeline_take_back(pipeline, slot);
    pthread_mutex_unlock(&pipeline->lock);
    return error;
}

void batches_cancel(struct batches *batches)
{
    struct pipeline *pipeline = &batches->pipeline;

    pthread_mutex_lock(&pipeline->lock);
    pipeline->cancelled = true;
    pipeline_halt(pipeline);
    pthread_mutex_unlock(&pipeline->lock);
}

int batches_open(struct batches *batches, const struct sl_config *config, struct fault *fault)
{
    struct pipeline *pipeline = &batches->pipeline;
    struct beginning begin = {0};
    int error = pipeline_open(pipeline, config, fault);

    if (error)
        return error;
    error = begin_epoch(pipeline, &begin, pipeline->place.epoch, pipeline->place.after, fault);
    commit_epoch(pipeline, &begin, pipeline->place.epoch);
    if (!error)
        error = crew_start(&batches->crew, pipeline, fault);
    if (error) {
        pipeline_close(pipeline);
        return error;
    }
    pthread_mutex_init(&batches->seeking, NULL);
    pthread_mutex_lock(&pipeline->lock);
    pipeline->running = true;
    pipeline_assign(pipeline);
    pthread_mutex_unlock(&pipeline->lock);
    return 0;
}

void batches_stop(struct batches *batches)
{
    crew_stop(batches->crew);
    batches->crew = NULL;
    pipeline_close_source(&batches->pipeline);
}

void batches_free(struct batches *batches)
{
    pipeline_close(&batches->pipeline);
    pthread_mutex_destroy(&batches->seeking);
}
