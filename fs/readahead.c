/* Reads ahead. Owns the pushers and the scout; what to push, fs/follow.c and fs/chunks.c say, and
 * fs/push.c does. */
#include "readahead.h"

#include "berths.h"
#include "chunks.h"
#include "listing.h"
#include "push.h"

#include "../core/clock.h"
#include "../core/report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Pushers at work while reads come from the page cache (more would take the readers' processors),
 * while they come from a local disk, and at the most: storage that takes long to answer is asked
 * for so many at once that READS_PER_S come back. */
#define PUSHERS_WARM 2
#define PUSHERS_COLD 32
#define PUSHERS      64
#define READS_PER_S  8000
/* Where reads take less, several are asked for at once; where they take long, waiting for the
 * slowest would cost more than asking. Nanoseconds. */
#define SOON_NS 3000000
/* A read that takes longer is not left to a reader, however fast it is. Nanoseconds. */
#define LONG_READ_NS 1000000

struct readahead {
    struct push push;
    uint64_t total_bytes;
    pthread_t pushers[PUSHERS], scout;
    unsigned started; /* pushers */
    bool scouting;    /* the scout was started */
    atomic_int scout_thread;
    pthread_mutex_t lock; /* guards all below; held for arithmetic alone */
    pthread_cond_t to_push, to_name;
    struct follow *follow;
    struct chunks *chunks;
    struct berths *berths; /* those taken: samples and pieces that are being pushed */
    unsigned waiting;      /* pushers that wait for something to push */
    bool scout_waits;
};

static unsigned pushers_allowed(const struct readahead *readahead)
{
    struct reader_mood mood = reader_mood(readahead->push.reader);
    uint64_t wanted = mood.ns * READS_PER_S / 1000000000u;

    if (!mood.cold)
        return PUSHERS_WARM;
    return wanted < PUSHERS_COLD ? PUSHERS_COLD : wanted < PUSHERS ? (unsigned)wanted : PUSHERS;
}

static bool is_stopping(const struct readahead *readahead)
{
    return atomic_load_explicit(&readahead->push.stopping, memory_order_relaxed);
}

/* The pushers. */

struct work {
    enum { SAMPLE, PIECE, PROBE } kind;
    struct follow_push sample;
    struct chunk chunk;
    uint64_t probed; /* sample */
};

static bool next_push(struct readahead *readahead, struct work *work)
{
    work->kind = SAMPLE;
    if (follow_next_push(readahead->follow, chunks_bytes_ahead(readahead->chunks), &work->sample))
        return true;
    work->kind = PIECE;
    return chunks_next(readahead->chunks, follow_figures(readahead->follow).ahead, &work->chunk);
}

/* Whether somebody was refused for the total's sake, and who went away gave some of it back. */
static bool give_back(struct readahead *readahead)
{
    if (!follow_is_short(readahead->follow) && !chunks_is_short(readahead->chunks))
        return false;
    return follow_give_back(readahead->follow) || chunks_give_back(readahead->chunks);
}

static bool next_work(struct readahead *readahead, struct work *work)
{
    if (berths_taken(readahead->berths) >= pushers_allowed(readahead))
        return false;
    work->kind = PROBE;
    if (follow_next_probe(readahead->follow, &work->probed))
        return true;
    do
        if (next_push(readahead, work))
            return true;
    while (give_back(readahead));
    return false;
}

static void wake_pusher(struct readahead *readahead)
{
    if (readahead->waiting && berths_taken(readahead->berths) < pushers_allowed(readahead) &&
        (follow_has_push(readahead->follow) || chunks_has_next(readahead->chunks)))
        pthread_cond_signal(&readahead->to_push);
}

/* Before the lock is given up: so that a READ finds it in the air from the moment it is claimed. */
static void start_flight(struct readahead *readahead, const struct work *work, unsigned slot)
{
    const struct index *index = view_dataset(readahead->push.view)->index;
    uint64_t sample = work->sample.sample;

    if (work->kind == PIECE)
        flights_start_piece(readahead->push.flights, slot, work->chunk.stream->inode,
                            work->chunk.from, work->chunk.size);
    else if (work->kind == SAMPLE)
        flights_start_members(readahead->push.flights, slot, index->first[sample],
                              index->first[sample + 1]);
}

/* Streams that are no longer followed go, if the kernel has forgotten them too. */
static void let_streams_go(struct readahead *readahead)
{
    uint64_t inode;

    while (chunks_next_gone(readahead->chunks, &inode))
        view_forget(readahead->push.view, inode, 1);
}

/* What a pusher has taken on: several samples, or a single thing. */
struct job {
    size_t count;
    struct work first;
    struct follow_push samples[PUSH_AT_ONCE];
    struct berth *berths[PUSH_AT_ONCE];
    struct batch *batch;
};

static void take_berth(struct readahead *readahead, struct job *job, const struct work *work)
{
    struct berth *berth = berths_take(readahead->berths);

    start_flight(readahead, work, berth->slot);
    job->samples[job->count] = work->sample;
    job->berths[job->count++] = berth;
}

static bool take_job(struct readahead *readahead, struct job *job)
{
    struct reader_mood mood = reader_mood(readahead->push.reader);
    bool several = mood.cold && mood.ns < SOON_NS;
    struct work more = {.kind = SAMPLE};

    job->count = 0;
    if (!next_work(readahead, &job->first))
        return false;
    take_berth(readahead, job, &job->first);
    while (several && job->first.kind == SAMPLE && job->count < PUSH_AT_ONCE &&
           berths_taken(readahead->berths) < pushers_allowed(readahead) &&
           follow_next_push(readahead->follow, chunks_bytes_ahead(readahead->chunks), &more.sample))
        take_berth(readahead, job, &more);
    job->batch = several ? berths_take_batch(readahead->berths) : NULL;
    return true;
}

static void give_back_job(struct readahead *readahead, struct job *job)
{
    berths_give_batch(readahead->berths, job->batch);
    while (job->count)
        berths_give(readahead->berths, job->berths[--job->count]);
}

/* False: the kernel does not have the stream. *read: a piece was read. */
static bool do_job(struct readahead *readahead, const struct job *job, struct push_room *room,
                   bool *read)
{
    switch (job->first.kind) {
    case PROBE:
        push_probe(&readahead->push, job->first.probed, room);
        break;
    case PIECE:
        return push_chunk(&readahead->push, &job->first.chunk, job->berths[0], job->batch, read);
    case SAMPLE:
        push_samples(&readahead->push, job->samples, job->berths, job->count, room, job->batch);
    }
    return true;
}

static void *be_pusher(void *context)
{
    struct readahead *readahead = context;
    struct push_room room;
    bool able = push_room_open(&room);
    struct job job;

    pthread_mutex_lock(&readahead->lock);
    while (able && !is_stopping(readahead)) {
        bool known, read = false;
        if (!take_job(readahead, &job)) {
            readahead->waiting++;
            pthread_cond_wait(&readahead->to_push, &readahead->lock);
            readahead->waiting--;
            continue;
        }
        wake_pusher(readahead);
        pthread_mutex_unlock(&readahead->lock);
        known = do_job(readahead, &job, &room, &read);
        pthread_mutex_lock(&readahead->lock);
        if (job.first.kind == PIECE) {
            chunks_done(readahead->chunks, &job.first.chunk,
                        read && job.first.chunk.marked ? job.berths[0]->chunk : NULL, !known);
            let_streams_go(readahead);
        }
        give_back_job(readahead, &job);
    }
    pthread_mutex_unlock(&readahead->lock);
    push_room_close(&room);
    return NULL;
}

/* The scout. */

/* Lists the folder from one position to another. Returns up to where the kernel took the names. */
static uint64_t list_names(int folder, const struct follow_names *names)
{
    char buffer[32768];
    uint64_t reached = names->start;
    long got = -1;

    if (lseek(folder, listing_offset(names->start), SEEK_SET) < 0)
        return names->start;
    while (reached < names->end &&
           (got = syscall(SYS_getdents64, folder, buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(buffer + at);
            reached = listing_position(entry->d_off);
            at += entry->d_reclen;
        }
    }
    /* The last name's offset is still at its position: that the folder ended says that all were
     * taken. */
    return got == 0 ? names->end : reached;
}

/* `current` may have moved on: then the path leads to another inode, of another epoch. The folder
 * is open here, so the kernel does not forget its node meanwhile. */
static bool is_meant(struct readahead *readahead, const struct follow_names *names, uint64_t inode)
{
    const struct view_node *node = view_node(readahead->push.view, inode);

    return node && node->epoch == names->epoch && node->plan.share.after == names->after &&
           (names->folder == TRACK_FOLDER_UNKNOWN || names->folder == inode);
}

static uint64_t look_up(struct readahead *readahead, const struct follow_names *names,
                        uint64_t *inode)
{
    int root = names_open_root(readahead->push.names), folder = -1;
    uint64_t reached = names->start;
    struct stat status;

    if (root >= 0)
        folder = openat(root, names->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *inode = 0;
    if (folder >= 0 && fstat(folder, &status) == 0 && is_meant(readahead, names, status.st_ino)) {
        *inode = status.st_ino;
        reached = list_names(folder, names);
    }
    if (folder >= 0)
        close(folder);
    if (root >= 0)
        close(root);
    return reached;
}

static void *be_scout(void *context)
{
    struct readahead *readahead = context;
    struct follow_names names;
    uint64_t reached, inode;

    atomic_store(&readahead->scout_thread, (int)syscall(SYS_gettid));
    pthread_mutex_lock(&readahead->lock);
    while (!is_stopping(readahead)) {
        if (!follow_next_names(readahead->follow, &names)) {
            readahead->scout_waits = true;
            pthread_cond_wait(&readahead->to_name, &readahead->lock);
            readahead->scout_waits = false;
            continue;
        }
        pthread_mutex_unlock(&readahead->lock);
        reached = look_up(readahead, &names, &inode);
        pthread_mutex_lock(&readahead->lock);
        follow_named(readahead->follow, &names, inode, reached);
        pthread_cond_signal(&readahead->to_push);
    }
    pthread_mutex_unlock(&readahead->lock);
    return NULL;
}

static int start_threads(struct readahead *readahead)
{
    int fault = pthread_create(&readahead->scout, NULL, be_scout, readahead);

    if (fault)
        return -fault;
    readahead->scouting = true;
    while (!fault && readahead->started < PUSHERS) {
        fault = pthread_create(&readahead->pushers[readahead->started], NULL, be_pusher, readahead);
        readahead->started += !fault;
    }
    /* Fewer pushers than wanted are slower, not wrong. */
    if (readahead->started)
        return 0;
    readahead_stop(readahead);
    return -fault;
}

static void release(struct readahead *readahead)
{
    pthread_cond_destroy(&readahead->to_push);
    pthread_cond_destroy(&readahead->to_name);
    pthread_mutex_destroy(&readahead->lock);
    follow_close(readahead->follow);
    chunks_close(readahead->chunks);
    flights_close(readahead->push.flights);
    berths_close(readahead->berths);
    free(readahead);
}

/* Every epoch is alike: nothing is wrong with reading one again. */
static bool repeats(const struct dataset *dataset)
{
    return order_is_fixed(dataset->config->order.kind) &&
           dataset->basis.places == dataset->index->sample_count;
}

int readahead_open(struct readahead **out, struct fuse_session *session, struct view *view,
                   struct reader *reader, struct names *names, uint64_t reader_bytes,
                   uint64_t total_bytes)
{
    struct readahead *readahead = calloc(1, sizeof *readahead);
    int fault;

    if (!readahead)
        return -ENOMEM;
    readahead->push.session = session;
    readahead->push.view = view;
    readahead->push.reader = reader;
    readahead->push.names = names;
    readahead->total_bytes = total_bytes;
    pthread_mutex_init(&readahead->lock, NULL);
    pthread_cond_init(&readahead->to_push, NULL);
    pthread_cond_init(&readahead->to_name, NULL);
    fault = follow_open(&readahead->follow, view_dataset(view)->index, view_epochs(view),
                        reader_bytes, total_bytes, repeats(view_dataset(view)));
    if (!fault)
        fault = flights_open(&readahead->push.flights, PUSHERS);
    if (!fault)
        fault = berths_open(&readahead->berths, PUSHERS, CHUNK_BYTES);
    if (!fault)
        fault = chunks_open(&readahead->chunks, reader_bytes, total_bytes);
    if (!fault && reader_bytes)
        fault = start_threads(readahead);
    if (fault) {
        release(readahead);
        return fault;
    }
    *out = readahead;
    return 0;
}

void readahead_stop(struct readahead *readahead)
{
    if (atomic_exchange(&readahead->push.stopping, true))
        return;
    pthread_mutex_lock(&readahead->lock);
    pthread_cond_broadcast(&readahead->to_push);
    pthread_cond_broadcast(&readahead->to_name);
    pthread_mutex_unlock(&readahead->lock);
    for (unsigned i = 0; i < readahead->started; i++)
        pthread_join(readahead->pushers[i], NULL);
    if (readahead->scouting)
        pthread_join(readahead->scout, NULL);
}

void readahead_close(struct readahead *readahead)
{
    if (readahead)
        release(readahead);
}

/* Events: noted under the lock, which also wakes who has work now. */

static bool begin_event(struct readahead *readahead)
{
    if (is_stopping(readahead))
        return false;
    pthread_mutex_lock(&readahead->lock);
    follow_at(readahead->follow, clock_now_ns(),
              reader_mood(readahead->push.reader).ns > LONG_READ_NS);
    return true;
}

/* What is told and done about readers' passes, outside the lock. */
static void tell(const char *path, uint64_t epoch)
{
    report_warning("%s: epoch %llu is read a second time; was it forgotten to write the next epoch "
                   "to .control? (said once for this folder)",
                   path, (unsigned long long)epoch);
}

static void end_event(struct readahead *readahead)
{
    char path[TRACK_PATH];
    uint64_t epoch;
    bool repeated = follow_next_repeat(readahead->follow, path, &epoch);

    let_streams_go(readahead);
    wake_pusher(readahead);
    if (readahead->scout_waits && follow_has_names(readahead->follow))
        pthread_cond_signal(&readahead->to_name);
    pthread_mutex_unlock(&readahead->lock);
    if (repeated)
        tell(path, epoch);
}

void readahead_listed(struct readahead *readahead, const struct view_node *folder, uint64_t end)
{
    if (!begin_event(readahead))
        return;
    follow_listed(readahead->follow, folder, end);
    end_event(readahead);
}

void readahead_looked(struct readahead *readahead, const struct view_node *folder,
                      uint64_t position, uint64_t inode)
{
    struct view *view = readahead->push.view;
    uint64_t member, field = TRACK_FIELD_LABEL;

    if (!begin_event(readahead))
        return;
    if (view_is_member(view, inode, &member))
        field = track_field_bit((uint16_t)view_dataset(view)->index->members[member].field);
    follow_looked(readahead->follow, folder, position, field);
    end_event(readahead);
}

void readahead_read(struct readahead *readahead, uint64_t member, bool again, uint64_t took)
{
    if (!begin_event(readahead))
        return;
    follow_read(readahead->follow, member, again, took);
    end_event(readahead);
}

void readahead_read_on(struct readahead *readahead, uint64_t member, uint64_t took)
{
    if (!begin_event(readahead))
        return;
    follow_read_on(readahead->follow, member, took);
    end_event(readahead);
}

void readahead_read_label(struct readahead *readahead, uint64_t sample, uint64_t took)
{
    if (!begin_event(readahead))
        return;
    follow_read_label(readahead->follow, sample, took);
    end_event(readahead);
}

ssize_t readahead_take_member(struct readahead *readahead, uint64_t member, char *buffer,
                              size_t size, uint64_t from)
{
    return flights_take_member(readahead->push.flights, member, buffer, size, from);
}

void readahead_read_stream(struct readahead *readahead, struct view_node *stream, uint64_t from,
                           size_t size)
{
    if (!begin_event(readahead))
        return;
    if (chunks_read(readahead->chunks, stream, from, size, clock_now_ns()))
        view_hold(readahead->push.view, stream);
    end_event(readahead);
}

bool readahead_take_piece(struct readahead *readahead, const struct view_node *stream,
                          uint64_t from, size_t size, char *buffer)
{
    bool taken = flights_take_piece(readahead->push.flights, stream->inode, buffer, size, from);

    if (taken || !begin_event(readahead))
        return taken;
    taken = chunks_take_mark(readahead->chunks, stream, from, size, buffer);
    if (!taken)
        chunks_claim(readahead->chunks, stream, from, size);
    end_event(readahead);
    return taken;
}

void readahead_left(struct readahead *readahead, uint64_t inode)
{
    if (!begin_event(readahead))
        return;
    follow_left(readahead->follow, inode);
    chunks_left(readahead->chunks, inode);
    end_event(readahead);
}

void readahead_moved(struct readahead *readahead, const struct view_left *left, size_t count,
                     const char *rank, struct epochs_at at, const struct plan *plan)
{
    char path[TRACK_PATH];
    bool warmed = false;

    if (!begin_event(readahead))
        return;
    for (size_t i = 0; i < count; i++) {
        warmed = follow_moved(readahead->follow, left[i].inode, at) || warmed;
        chunks_left(readahead->chunks, left[i].inode);
    }
    if (!warmed && rank) {
        snprintf(path, sizeof path, "current/%s", rank);
        follow_warm(readahead->follow, path, at.epoch, plan);
    }
    end_event(readahead);
}

bool readahead_is_scout(const struct readahead *readahead, pid_t thread)
{
    return atomic_load_explicit(&readahead->scout_thread, memory_order_relaxed) == thread;
}

struct readahead_figures readahead_figures(struct readahead *readahead)
{
    struct readahead_figures figures = {
        .files = atomic_load(&readahead->push.files),
        .bytes = atomic_load(&readahead->push.bytes),
        .limit = readahead->total_bytes,
    };

    pthread_mutex_lock(&readahead->lock);
    figures.follow = follow_figures(readahead->follow);
    figures.follow.ahead += chunks_bytes_pushed(readahead->chunks);
    figures.follow.crowded += chunks_crowded(readahead->chunks);
    pthread_mutex_unlock(&readahead->lock);
    if (!readahead->started) /* what readers passed over was left to them, not pushed */
        figures.follow.ahead = figures.limit = 0;
    return figures;
}

size_t readahead_readers(struct readahead *readahead, struct follow_reader *readers, size_t room)
{
    size_t count;

    pthread_mutex_lock(&readahead->lock);
    count = follow_readers(readahead->follow, clock_now_ns(), readers, room);
    pthread_mutex_unlock(&readahead->lock);
    return count;
}
