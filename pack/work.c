/* The ring between the threads that prepare and the one that writes. Owns the threads and the
 * samples in the ring; knows nothing of tars. */
#include "work.h"

#include "../core/report.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct slot {
    struct pack_prepared prepared;
    uint64_t cost;
    bool ready;
};

struct pack_work {
    const struct pack_source *source;
    const struct pack_plan *plan;
    const struct pack_options *options;
    uint64_t end; /* of positions */
    struct slot *slots;
    uint64_t slot_count, memory;
    pthread_t *threads;
    unsigned thread_count;
    pthread_mutex_t lock; /* guards what follows, and `ready` of each slot */
    pthread_cond_t is_ready, has_room;
    uint64_t claimed, taken; /* positions: the next to be prepared, the next to be written */
    uint64_t held;           /* cost of those between */
    unsigned waiting;        /* threads, for room */
    int fault;               /* of a thread, or -ECANCELED */
};

static struct slot *slot_of(struct pack_work *work, uint64_t position)
{
    return &work->slots[position % work->slot_count];
}

static void stop(struct pack_work *work, int fault)
{
    pthread_mutex_lock(&work->lock);
    if (!work->fault)
        work->fault = fault;
    pthread_cond_broadcast(&work->is_ready);
    pthread_cond_broadcast(&work->has_room);
    pthread_mutex_unlock(&work->lock);
}

/* The next position for a thread; false: there is none, or all is stopped. */
static bool claim(struct pack_work *work, uint64_t *position)
{
    bool got = false;

    pthread_mutex_lock(&work->lock);
    while (!work->fault && work->claimed < work->end && work->claimed != work->taken &&
           (work->claimed - work->taken >= work->slot_count || work->held >= work->memory)) {
        work->waiting++;
        pthread_cond_wait(&work->has_room, &work->lock);
        work->waiting--;
    }
    if (!work->fault && work->claimed < work->end) {
        struct slot *slot = slot_of(work, work->claimed);
        *position = work->claimed++;
        slot->cost = pack_prepare_cost(work->source, work->options,
                                       pack_plan_sample(work->plan, *position));
        work->held += slot->cost;
        got = true;
    }
    pthread_mutex_unlock(&work->lock);
    return got;
}

static void *prepare_samples(void *context)
{
    struct pack_work *work = context;
    struct pack_preparer *preparer;
    uint64_t position;
    int fault = pack_preparer_open(&preparer, work->source, work->options);

    if (fault) {
        report_error("a thread that prepares samples: %s", strerror(-fault));
        stop(work, fault);
        return NULL;
    }
    while (claim(work, &position)) {
        struct slot *slot = slot_of(work, position);
        fault = pack_prepare(preparer, pack_plan_sample(work->plan, position), &slot->prepared);
        if (fault) {
            stop(work, fault);
            break;
        }
        pthread_mutex_lock(&work->lock);
        slot->ready = true;
        if (position == work->taken)
            pthread_cond_signal(&work->is_ready);
        pthread_mutex_unlock(&work->lock);
    }
    pack_preparer_close(preparer);
    return NULL;
}

static int start_threads(struct pack_work *work)
{
    sigset_t all, before;
    int fault = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; !fault && work->thread_count < work->options->threads; work->thread_count++) {
        fault = -pthread_create(&work->threads[work->thread_count], NULL, prepare_samples, work);
        if (fault)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (fault && work->thread_count) {
        report_warning("%u threads, not %u: %s", work->thread_count, work->options->threads,
                       strerror(-fault));
        return 0;
    }
    if (fault)
        report_error("no thread can be started: %s", strerror(-fault));
    return fault;
}

int pack_work_open(struct pack_work **out, const struct pack_source *source,
                   const struct pack_plan *plan, const struct pack_options *options, uint64_t from)
{
    struct pack_work *work = calloc(1, sizeof *work);
    int fault;

    if (!work) {
        report_error("no memory to start");
        return -ENOMEM;
    }
    work->source = source;
    work->plan = plan;
    work->options = options;
    work->end = source->listing.samples;
    work->claimed = work->taken = from;
    work->slot_count = (uint64_t)PACK_AHEAD * options->threads;
    work->memory = PACK_MEMORY + PACK_MEMORY_EACH * options->threads;
    pthread_mutex_init(&work->lock, NULL);
    pthread_cond_init(&work->is_ready, NULL);
    pthread_cond_init(&work->has_room, NULL);
    work->slots = calloc(work->slot_count, sizeof *work->slots);
    work->threads = calloc(options->threads, sizeof *work->threads);
    if (!work->slots || !work->threads) {
        report_error("no memory for %u threads", options->threads);
        fault = -ENOMEM;
    } else {
        fault = start_threads(work);
    }
    if (fault) {
        pack_work_close(work);
        return fault;
    }
    *out = work;
    return 0;
}

void pack_work_close(struct pack_work *work)
{
    if (!work)
        return;
    stop(work, -ECANCELED);
    for (unsigned i = 0; i < work->thread_count; i++)
        pthread_join(work->threads[i], NULL);
    for (uint64_t i = 0; work->slots && i < work->slot_count; i++)
        pack_prepared_close(&work->slots[i].prepared);
    pthread_cond_destroy(&work->has_room);
    pthread_cond_destroy(&work->is_ready);
    pthread_mutex_destroy(&work->lock);
    free(work->slots);
    free(work->threads);
    free(work);
}

int pack_work_take(struct pack_work *work, struct pack_prepared **prepared)
{
    struct slot *slot;
    int fault;

    pthread_mutex_lock(&work->lock);
    slot = slot_of(work, work->taken);
    while (!work->fault && !slot->ready)
        pthread_cond_wait(&work->is_ready, &work->lock);
    fault = work->fault;
    pthread_mutex_unlock(&work->lock);
    *prepared = &slot->prepared;
    return fault;
}

void pack_work_give_back(struct pack_work *work)
{
    struct slot *slot = slot_of(work, work->taken);
    uint64_t ahead;

    pack_prepared_clear(&slot->prepared);
    pthread_mutex_lock(&work->lock);
    slot->ready = false;
    work->held -= slot->cost;
    work->taken++;
    ahead = work->claimed - work->taken;
    /* Threads are woken for some samples, not for each. */
    if (work->waiting &&
        (ahead == 0 || (ahead <= work->slot_count * 3 / 4 && work->held <= work->memory / 4 * 3)))
        pthread_cond_broadcast(&work->has_room);
    pthread_mutex_unlock(&work->lock);
}

void pack_work_stop(struct pack_work *work)
{
    stop(work, -ECANCELED);
}
