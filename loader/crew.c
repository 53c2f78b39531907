/* The threads' loops. */
#include "crew.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* How far the kernel is asked ahead, in files, and for how long after a read that had to wait. */
enum { AHEAD_FILES = 64, AHEAD_LASTS = 1024 };

struct crew_worker {
    struct pipeline *pipeline;
    struct worker worker;
    pthread_t thread;
};

struct crew {
    struct pipeline *pipeline;
    size_t opened, started; /* of the workers */
    struct crew_worker *workers;
    bool has_feeder, has_asker;
    pthread_t feeder, asker;
};

static uint64_t rows_ready(const struct pipeline *pipeline)
{
    uint64_t room = pipeline->assigned * pipeline->settings.config.batch_size;
    uint64_t wanted = pipeline_rows_wanted(pipeline);
    uint64_t most = pipeline->stream ? pipeline->fed : pipeline->total;

    if (room < most)
        most = room;
    return wanted < most ? wanted : most;
}

/* Under the lock: what a worker without a row waits for. */
static uint64_t *wait_reason(struct pipeline *pipeline, struct tally *tally)
{
    if (!pipeline->running || pipeline->taken >= pipeline_rows_wanted(pipeline))
        return &tally->idle_ns;
    if (pipeline->stream &&
        pipeline->fed < pipeline->assigned * pipeline->settings.config.batch_size)
        return &tally->wait_storage_ns;
    return &tally->wait_consumer_ns;
}

/* Under the lock: takes what a worker has to tell of pictures. */
static void take_notes(struct pipeline *pipeline, struct worker *worker, struct slot *slot)
{
    if (worker->troubled) {
        if (worker->bad_row < slot->bad_row) {
            slot->bad_row = worker->bad_row;
            memcpy(slot->bad_text, worker->last_bad, sizeof slot->bad_text);
        }
        memcpy(pipeline->last_bad, worker->last_bad, sizeof pipeline->last_bad);
        worker->troubled = false;
    }
    if (worker->fell_back)
        memcpy(pipeline->last_fallback, worker->last_fallback, sizeof pipeline->last_fallback);
    worker->fell_back = false;
}

/* Has the JPEGs decoded that were kept for the device, there, or by the spare worker what it does
 * not take. 0, or what the device reported. */
static int decode_kept(struct pipeline *pipeline, struct slot *slot, uint64_t asked,
                       struct tally *tally, struct fault *fault)
{
    uint64_t start = tally_now();
    int error = pipeline->backend->decode(pipeline->state, (size_t)(slot - pipeline->slots.slots),
                                          slot->kept, asked, fault);

    tally->decode_ns += tally_now() - start;
    for (uint64_t row = 0; row < asked && !error; row++) {
        if (slot->kept[row].state == KEPT_NOT)
            continue;
        if (slot->kept[row].state == KEPT_DECODED) {
            slot->sources[row] = (int32_t)row;
            tally->device_decoded++;
            continue;
        }
        pthread_mutex_lock(&pipeline->spare_lock);
        worker_decode_left(&pipeline->spare, slot, row);
        tally_move(tally, &pipeline->spare.tally);
        pthread_mutex_lock(&pipeline->lock);
        take_notes(pipeline, &pipeline->spare, slot);
        pthread_mutex_unlock(&pipeline->lock);
        pthread_mutex_unlock(&pipeline->spare_lock);
    }
    return error;
}

/* Under the lock, which it gives up meanwhile: makes the batch of a slot whose rows are all done
 * ready. `tally` is the calling thread's. */
static void settle(struct pipeline *pipeline, struct slot *slot, struct tally *tally)
{
    uint64_t rows = pipeline->settings.config.batch_size;
    uint64_t first = slot->batch.number * rows, asked = slot->done;
    uint64_t after = place_after(&pipeline->place, &pipeline->at, first + asked,
                                 first + asked == pipeline->total);
    struct backend_arrays arrays = {slot->data, slot->mask, slot->labels, slot->lengths,
                                    slot->sources};
    struct fault fault = {""};
    int error = 0;

    slot->state = SLOT_SETTLING;
    if (slot->error) { /* its rows could not be read or written */
        slot->state = SLOT_READY;
        pthread_cond_broadcast(&pipeline->ready);
        return;
    }
    pthread_mutex_unlock(&pipeline->lock);
    if (slot->kept)
        error = decode_kept(pipeline, slot, asked, tally, &fault);
    if (!error) {
        slots_settle(&pipeline->slots, slot, asked, after, tally);
        error = pipeline->backend->batch_ready(
            pipeline->state, (size_t)(slot - pipeline->slots.slots), &slot->batch, &arrays, &fault);
    }
    if (error && !slot->error) {
        slot->error = error;
        slot->fault = fault;
    }
    pthread_mutex_lock(&pipeline->lock);
    slot->state = SLOT_READY;
    pthread_cond_broadcast(&pipeline->ready);
}

static bool is_complete(const struct pipeline *pipeline, const struct slot *slot)
{
    uint64_t rows = pipeline->settings.config.batch_size, first = slot->batch.number * rows;

    return slot->state == SLOT_FILLING &&
           (slot->done == rows ||
            (pipeline->total != UINT64_MAX && first + slot->done == pipeline->total));
}

/* 0; or an error that is none of the sample's, so no row. */
static int make_row(struct pipeline *pipeline, struct worker *worker, struct slot *slot,
                    uint64_t number, struct fault *fault)
{
    uint64_t rows = pipeline->settings.config.batch_size;
    uint64_t position = place_position(&pipeline->place, &pipeline->at, number);

    if (pipeline->catalog) {
        struct sample sample;

        worker_read(worker, pipeline->catalog, pipeline->at.skip + number, &sample);
        if (sample.lost)
            return fault_set(fault, sample.error,
                             "sample %llu of the global order, %s: %s (epoch %llu of %s)",
                             (unsigned long long)position, sample.name, fault_meaning(sample.error),
                             (unsigned long long)pipeline->epoch, pipeline->at.path);
        worker_write(worker, slot, number % rows, &sample, pipeline->epoch, position);
    } else {
        const struct fed_row *row = &pipeline->rows[number % (rows * pipeline->slots.count)];

        worker_write(worker, slot, number % rows, &row->sample, pipeline->epoch, position);
    }
    return 0;
}

/* Under the lock: gives pieces of the ring back, and takes the worker's account. */
static void finish_rows(struct pipeline *pipeline, struct worker *worker, struct slot *slot,
                        uint64_t first, uint64_t count)
{
    uint64_t in_flight = pipeline->settings.config.batch_size * pipeline->slots.count;

    for (uint64_t i = first; pipeline->stream && i < first + count; i++)
        if (pipeline->rows[i % in_flight].has_piece)
            ring_give(&pipeline->ring, pipeline->rows[i % in_flight].piece);
    take_notes(pipeline, worker, slot);
    if (worker->waited && pipeline->asks_ahead) {
        pipeline->ahead_until = first + AHEAD_LASTS;
        worker->waited = false;
    }
    /* A wake-up costs more than all else here, and takes the core from a worker: so only where
     * there is something to do. */
    if ((pipeline->asker_waits && pipeline->taken < pipeline->ahead_until &&
         pipeline->ahead < pipeline->taken + AHEAD_FILES / 2) ||
        (pipeline->wake_feeder_at != UINT64_MAX &&
         pipeline->ring.next - pipeline->ring.oldest <= pipeline->wake_feeder_at))
        pthread_cond_broadcast(&pipeline->room);
}

static void *worker_main(void *argument)
{
    struct crew_worker *self = argument;
    struct pipeline *pipeline = self->pipeline;
    struct worker *worker = &self->worker;
    uint64_t rows = pipeline->settings.config.batch_size, since = tally_now(), now;

    pthread_mutex_lock(&pipeline->lock);
    while (!pipeline->quit) {
        uint64_t first, count, start, ready = pipeline->running ? rows_ready(pipeline) : 0;
        struct fault fault = {""};
        struct slot *slot;
        int error;

        if (pipeline->taken >= ready) {
            uint64_t *reason = wait_reason(pipeline, &worker->tally);

            start = tally_now();
            pthread_cond_wait(&pipeline->work, &pipeline->lock);
            now = tally_now();
            *reason += now - start;
            worker->tally.workers_ns += now - since;
            since = now;
            tally_move(&pipeline->tally, &worker->tally);
            continue;
        }
        first = pipeline->taken;
        count = rows - first % rows;
        if (count > ready - first)
            count = ready - first;
        if (count > pipeline->chunk)
            count = pipeline->chunk;
        pipeline->taken += count;
        pipeline->busy++;
        slot = &pipeline->slots.slots[pipeline->slot_of[first / rows % pipeline->slots.count]];
        pthread_mutex_unlock(&pipeline->lock);
        start = tally_now();
        error = pipeline->backend->row_begin(pipeline->state,
                                             (size_t)(slot - pipeline->slots.slots), &fault);
        worker->tally.wait_consumer_ns += tally_now() - start;
        for (uint64_t i = first; i < first + count && !error; i++)
            error = make_row(pipeline, worker, slot, i, &fault);
        pthread_mutex_lock(&pipeline->lock);
        if (error && !slot->error) {
            slot->error = error;
            slot->fault = fault;
        }
        slot->done += count;
        finish_rows(pipeline, worker, slot, first, count);
        if (is_complete(pipeline, slot))
            settle(pipeline, slot, &worker->tally);
        now = tally_now();
        worker->tally.workers_ns += now - since;
        since = now;
        tally_move(&pipeline->tally, &worker->tally);
        if (--pipeline->busy == 0)
            pthread_cond_broadcast(&pipeline->calm);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return NULL;
}

/* A feeder's request for memory: waits for room in the ring. */
static void *take_memory(void *context, size_t size)
{
    struct pipeline *pipeline = context;
    uint8_t *memory = NULL;

    pthread_mutex_lock(&pipeline->lock);
    while (!pipeline->quit && pipeline->running && !(memory = ring_take(&pipeline->ring, size))) {
        uint64_t start = tally_now();

        pipeline->wake_feeder_at = (pipeline->ring.next - pipeline->ring.oldest) / 2;
        pthread_cond_wait(&pipeline->room, &pipeline->lock);
        pipeline->feed_waited_ns += tally_now() - start;
    }
    pipeline->wake_feeder_at = UINT64_MAX;
    pthread_mutex_unlock(&pipeline->lock);
    return memory;
}

/* Under the lock: there is a slot for the next row. Samples that are passed over need none. */
static bool may_feed(const struct pipeline *pipeline)
{
    return pipeline->running && pipeline->stream && pipeline->total == UINT64_MAX &&
           (pipeline->passed < pipeline->at.skip ||
            pipeline->fed < pipeline->assigned * pipeline->settings.config.batch_size);
}

/* Under the lock: after the end, the last batch's rows may all be done already. */
static void settle_last(struct pipeline *pipeline)
{
    struct tally tally = {0};
    struct slot *slot;

    if (!pipeline->assigned || pipeline->delivered == pipeline->assigned)
        return;
    slot =
        &pipeline->slots.slots[pipeline->slot_of[(pipeline->assigned - 1) % pipeline->slots.count]];
    if (is_complete(pipeline, slot))
        settle(pipeline, slot, &tally);
    /* The workers' times are of their own lives. */
    tally.decode_ns = tally.resize_ns = tally.normalise_ns = 0;
    tally_move(&pipeline->tally, &tally);
}

static void *feeder_main(void *argument)
{
    struct pipeline *pipeline = argument;
    struct tarstream_memory passing = {NULL, NULL}, taking = {take_memory, pipeline};
    uint64_t in_flight = pipeline->settings.config.batch_size * pipeline->slots.count;

    pthread_mutex_lock(&pipeline->lock);
    while (!pipeline->quit) {
        bool pass = pipeline->passed < pipeline->at.skip;
        struct fed_row row = {0};
        struct fault fault = {""};
        uint64_t start = tally_now(), piece = pipeline->ring.next;
        int result;

        if (!may_feed(pipeline)) {
            pthread_cond_wait(&pipeline->room, &pipeline->lock);
            if (pipeline->running)
                pipeline->stream_wait_ns += tally_now() - start;
            continue;
        }
        pipeline->feeding = true;
        pthread_mutex_unlock(&pipeline->lock);
        result = tarstream_next(pipeline->stream, pass ? &passing : &taking, &row.sample, &fault);
        pthread_mutex_lock(&pipeline->lock);
        pipeline->stream_wait_ns += pipeline->feed_waited_ns;
        pipeline->stream_read_ns += tally_now() - start - pipeline->feed_waited_ns;
        pipeline->feed_waited_ns = 0;
        if (!pipeline->running || pipeline->quit) {
            pipeline->feeding = false;
            pthread_cond_broadcast(&pipeline->calm);
            continue;
        }
        if (result == 1 && pass) {
            pipeline->passed++;
        } else if (result == 1) {
            row.has_piece = pipeline->ring.next > piece;
            row.piece = piece;
            pipeline->rows[pipeline->fed++ % in_flight] = row;
            pthread_cond_signal(&pipeline->work);
        } else {
            pipeline->source_fault = fault;
            pipeline_end_stream(pipeline, result);
            settle_last(pipeline);
        }
        pipeline->feeding = false;
        pthread_cond_broadcast(&pipeline->calm);
    }
    pthread_mutex_unlock(&pipeline->lock);
    return NULL;
}

/* Reads are fast from the page cache, and asking would only cost. So files are asked for from a
 * read that had to wait on, and for as long as some do. */
static void *asker_main(void *argument)
{
    struct pipeline *pipeline = argument;

    pthread_mutex_lock(&pipeline->lock);
    while (!pipeline->quit) {
        uint64_t until = pipeline->taken + AHEAD_FILES;

        if (until > pipeline->ahead_until)
            until = pipeline->ahead_until;
        if (until > pipeline->total)
            until = pipeline->total;
        if (!pipeline->running || pipeline->ahead >= until) {
            pipeline->asker_waits = true;
            pthread_cond_wait(&pipeline->room, &pipeline->lock);
            pipeline->asker_waits = false;
            continue;
        }
        if (pipeline->ahead < pipeline->taken)
            pipeline->ahead = pipeline->taken;
        if (pipeline->ahead < until) {
            uint64_t number = pipeline->at.skip + pipeline->ahead++;

            pipeline->busy++; /* the catalog stays */
            pthread_mutex_unlock(&pipeline->lock);
            catalog_ahead(pipeline->catalog, number);
            pthread_mutex_lock(&pipeline->lock);
            if (--pipeline->busy == 0)
                pthread_cond_broadcast(&pipeline->calm);
        }
    }
    pthread_mutex_unlock(&pipeline->lock);
    return NULL;
}

static int start_threads(struct crew *crew)
{
    struct pipeline *pipeline = crew->pipeline;
    int error;

    for (; crew->started < crew->opened; crew->started++) {
        struct crew_worker *worker = &crew->workers[crew->started];

        error = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (error)
            return -error;
        pthread_setname_np(worker->thread, "sl-worker");
    }
    if (pipeline->place.kind == PLACE_TAR) {
        error = pthread_create(&crew->feeder, NULL, feeder_main, pipeline);
        if (error)
            return -error;
        crew->has_feeder = true;
        pthread_setname_np(crew->feeder, "sl-feeder");
    }
    if (pipeline->asks_ahead) {
        error = pthread_create(&crew->asker, NULL, asker_main, pipeline);
        if (error)
            return -error;
        crew->has_asker = true;
        pthread_setname_np(crew->asker, "sl-asker");
    }
    return 0;
}

static int start(struct crew *crew, struct fault *fault)
{
    struct pipeline *pipeline = crew->pipeline;
    size_t count = (size_t)pipeline->settings.config.workers;
    sigset_t all, before;
    int error;

    crew->workers = calloc(count, sizeof *crew->workers);
    if (!crew->workers)
        return fault_set(fault, -ENOMEM, "no memory for %zu workers", count);
    for (; crew->opened < count; crew->opened++) {
        struct crew_worker *worker = &crew->workers[crew->opened];

        worker->pipeline = pipeline;
        error = worker_open(&worker->worker, &pipeline->settings, pipeline->backend,
                            pipeline->state, pipeline->place.kind != PLACE_TAR, fault);
        if (error)
            return error;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = start_threads(crew);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error ? fault_set(fault, error, "no thread can be started: %s", fault_meaning(error))
                 : 0;
}

int crew_start(struct crew **out, struct pipeline *pipeline, struct fault *fault)
{
    struct crew *crew = calloc(1, sizeof *crew);
    int error;

    if (!crew)
        return fault_set(fault, -ENOMEM, "no memory for threads");
    crew->pipeline = pipeline;
    error = start(crew, fault);
    if (error) {
        crew_stop(crew);
        return error;
    }
    *out = crew;
    return 0;
}

void crew_stop(struct crew *crew)
{
    if (!crew)
        return;
    pthread_mutex_lock(&crew->pipeline->lock);
    crew->pipeline->quit = true;
    pipeline_halt(crew->pipeline);
    pthread_mutex_unlock(&crew->pipeline->lock);
    while (crew->started)
        pthread_join(crew->workers[--crew->started].thread, NULL);
    if (crew->has_feeder)
        pthread_join(crew->feeder, NULL);
    if (crew->has_asker)
        pthread_join(crew->asker, NULL);
    while (crew->opened)
        worker_close(&crew->workers[--crew->opened].worker);
    free(crew->workers);
    free(crew);
}
