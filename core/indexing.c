/* Makes an index (index_open()): from a saved one as far as that is still right, and by walking the
 * other shards in parallel. Owns nothing once the index is whole; never reads a member. */
#include "index.h"

#include "harvest.h"
#include "join.h"
#include "progress.h"
#include "report.h"
#include "reuse.h"
#include "saved.h"
#include "store.h"
#include "walk.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Other writers that may end, each with an index that is none of ours, before we go without. */
#define TURNS_MOST 5
/* Walks wait for storage more than for the processor, so more of them than cores; but each holds a
 * buffer. */
#define THREADS_LEAST 8
#define THREADS_MOST  32
/* Lines about single shards before the rest is only counted. */
#define WARNINGS_MOST 10
/* Two shards with equal headers are one shard given twice when this many places of this many bytes
 * are equal too. */
#define PROBES      32
#define PROBE_BYTES 4096

/* What the threads share: each takes the next shard until none is left or one failed. */
struct crew {
    struct index *index;
    const struct saved *saved; /* NULL: there is none */
    size_t *parts;             /* shard -> its part of the saved index, or REUSE_NOTHING */
    uint64_t *key_marks;       /* of the saved index as a whole, while its parts are checked */
    struct harvest *harvests;
    struct store *store; /* NULL: nobody waits */
    struct progress progress;
    const struct index_observer *observer; /* NULL: none */
    int (*work)(struct crew *crew, size_t i, struct harvest *scratch);
    atomic_size_t next, walked;
    atomic_int fault;
};

/* The saved part of a shard, if it is still right. */
static int check_part(struct crew *crew, size_t i, struct harvest *scratch)
{
    (void)scratch;
    if (crew->parts[i] != REUSE_NOTHING &&
        !reuse_check(crew->saved, crew->parts[i], &crew->index->shards[i], crew->key_marks))
        crew->parts[i] = REUSE_NOTHING;
    return 0;
}

/* What a shard holds: from the saved index, or from a walk. */
static int gather(struct crew *crew, size_t i, struct harvest *scratch)
{
    struct index_shard *shard = &crew->index->shards[i];
    int fault;

    if (crew->saved && crew->parts[i] != REUSE_NOTHING)
        return saved_copy_part(crew->saved, crew->parts[i], shard, &crew->harvests[i]);
    fault = walk_shard(scratch, shard, i, crew->observer);
    if (!fault)
        fault = harvest_take(&crew->harvests[i], scratch);
    atomic_fetch_add(&crew->walked, 1);
    store_beat(crew->store);
    progress_add(&crew->progress, 1);
    return fault;
}

static void *work_some(void *context)
{
    struct crew *crew = context;
    struct harvest scratch = {0};
    size_t i;

    while (!atomic_load(&crew->fault) &&
           (i = atomic_fetch_add(&crew->next, 1)) < crew->index->shard_count) {
        int fault = crew->work(crew, i, &scratch);
        if (fault)
            atomic_store(&crew->fault, fault);
    }
    harvest_close(&scratch);
    return NULL;
}

static int work_on_all(struct crew *crew, unsigned threads,
                       int (*work)(struct crew *crew, size_t i, struct harvest *scratch))
{
    pthread_t others[THREADS_MOST];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned started = 0;

    if (threads == 0)
        threads = cores > THREADS_LEAST ? (unsigned)cores : THREADS_LEAST;
    if (threads > THREADS_MOST)
        threads = THREADS_MOST;
    if (threads > crew->index->shard_count)
        threads = (unsigned)crew->index->shard_count;
    crew->work = work;
    atomic_store(&crew->next, 0);
    /* This thread works too, so that one that cannot be started is no fault. */
    while (started + 1 < threads && pthread_create(&others[started], NULL, work_some, crew) == 0)
        started++;
    work_some(crew);
    while (started)
        pthread_join(others[--started], NULL);
    return atomic_load(&crew->fault);
}

/* `remarks` has a line for each shard with a problem worth one, else NULL. */
static void warn(const struct index *index, char *const *remarks, const struct saved_shard *parts)
{
    size_t faulty = 0;

    for (size_t i = 0; i < index->shard_count; i++) {
        uint64_t all = 0;
        if (!remarks[i])
            continue;
        if (++faulty > WARNINGS_MOST)
            continue;
        for (int p = 0; p < INDEX_PROBLEM_KINDS; p++)
            all += parts[i].problems[p];
        if (all > 1)
            report_warning("%s, and %llu more in this shard", remarks[i],
                           (unsigned long long)all - 1);
        else
            report_warning("%s", remarks[i]);
    }
    if (faulty > WARNINGS_MOST)
        report_warning("%zu more shards have problems; .control/status counts them by kind",
                       faulty - WARNINGS_MOST);
}

static int by_hash(const void *a, const void *b)
{
    const struct index_shard *x = *(struct index_shard *const *)a;
    const struct index_shard *y = *(struct index_shard *const *)b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool same_bytes(const struct index_shard *a, const struct index_shard *b)
{
    char left[PROBE_BYTES], right[PROBE_BYTES];
    int fd = open(index_shard_file(a), O_RDONLY | O_CLOEXEC);
    int other = open(index_shard_file(b), O_RDONLY | O_CLOEXEC);
    bool same = fd >= 0 && other >= 0;

    for (uint64_t i = 0; same && i < PROBES; i++) {
        off_t at = (off_t)(a->size / PROBES * i);
        ssize_t got = pread(fd, left, sizeof left, at);
        same = got > 0 && pread(other, right, sizeof right, at) == got &&
               memcmp(left, right, (size_t)got) == 0;
    }
    if (fd >= 0)
        close(fd);
    if (other >= 0)
        close(other);
    return same;
}

static bool has_samples(const struct index_shard *shard)
{
    return shard[1].first_sample > shard->first_sample;
}

/* The copy of a shard under another name would train on its samples twice. */
static int refuse_copies(struct index *index)
{
    struct index_shard **sorted = malloc((index->shard_count + 1) * sizeof *sorted);
    int fault = sorted ? 0 : -ENOMEM;

    for (size_t i = 0; sorted && i < index->shard_count; i++)
        sorted[i] = &index->shards[i];
    if (sorted)
        qsort(sorted, index->shard_count, sizeof *sorted, by_hash);
    for (size_t i = 1; !fault && i < index->shard_count; i++) {
        struct index_shard *a = sorted[i - 1], *b = sorted[i];
        if (a->hash == b->hash && a->size == b->size && has_samples(a) && same_bytes(a, b)) {
            report_error("%s is a copy of %s: one shard given twice", b->path, a->path);
            fault = -EINVAL;
        }
    }
    free(sorted);
    return fault;
}

static int refuse_nothing(const struct index *index)
{
    if (index->sample_count)
        return 0;
    report_error("%s%s: no sample in %zu shard%s", index->shards[0].path,
                 index->shard_count > 1 ? " and others" : "", index->shard_count,
                 index->shard_count > 1 ? "s" : "");
    return -ENODATA;
}

static int index_shards(struct index *index, const struct shard_list *list)
{
    index->shards = calloc(list->count + 1, sizeof *index->shards);
    if (!index->shards)
        return -ENOMEM;
    for (size_t i = 0; i < list->count; i++) {
        index->shards[i].path = strdup(list->paths[i]);
        index->shard_count++;
        if (!index->shards[i].path)
            return -ENOMEM;
        if (list->files && list->files[i] && !(index->shards[i].file = strdup(list->files[i])))
            return -ENOMEM;
    }
    return 0;
}

/* What index_open() works with, until the index is whole. */
struct opening {
    struct index *index;
    struct store *store; /* NULL: nothing is saved */
    struct crew crew;
    struct harvest *harvests;
    struct saved_shard *parts; /* what the index is saved with */
    char **remarks;            /* one a shard, or NULL */
    struct saved *saved;
    bool whole; /* the saved index stands as it is */
    bool writes;
    unsigned threads;
};

/* Finds which parts of the saved index can be used; all of it where nothing has changed. */
static int check_saved(struct opening *opening)
{
    struct crew *crew = &opening->crew;
    struct index *index = opening->index;
    uint64_t samples;
    int fault = 0;

    saved_close(opening->saved);
    opening->saved = store_load(opening->store);
    opening->whole = false;
    crew->saved = opening->saved;
    if (!opening->saved)
        return 0;
    fault = reuse_match(opening->saved, index, crew->parts);
    samples = opening->saved->header->sample_count;
    if (!fault && reuse_is_whole(opening->saved, index, crew->parts)) {
        crew->key_marks = malloc((samples / INDEX_KEY_STEP + 1) * sizeof *crew->key_marks);
        fault = crew->key_marks ? 0 : -ENOMEM;
    }
    if (!fault)
        fault = work_on_all(crew, opening->threads, check_part);
    opening->whole = !fault && reuse_is_whole(opening->saved, index, crew->parts);
    if (!opening->whole) {
        free(crew->key_marks);
        crew->key_marks = NULL;
    }
    return fault;
}

static int adopt_shard(struct opening *opening, size_t i)
{
    struct index_shard *shard = &opening->index->shards[i];
    const struct saved_shard *part = &opening->saved->shards[i];
    const struct saved_words *words = &opening->saved->words[i];

    shard->first_sample = part->first_sample;
    shard->hash = part->hash;
    opening->index->bytes += part->bytes;
    for (int p = 0; p < INDEX_PROBLEM_KINDS; p++)
        opening->index->problems[p] += part->problems[p];
    if (*words->complaint && !(shard->complaint = strdup(words->complaint)))
        return -ENOMEM;
    if (*words->remark &&
        asprintf(&opening->remarks[i], "%s: %s", shard->path, words->remark) < 0) {
        opening->remarks[i] = NULL;
        return -ENOMEM;
    }
    return 0;
}

/* The tables stay where they are; what is small is copied. */
static int adopt_saved(struct opening *opening)
{
    struct index *index = opening->index;
    struct saved *saved = opening->saved;
    int fault = 0;

    index->fields = calloc(saved->header->field_count + 1, sizeof *index->fields);
    if (!index->fields)
        return -ENOMEM;
    for (; index->field_count < saved->header->field_count; index->field_count++) {
        const char *name = saved->fields[index->field_count];
        if (strlen(name) > index->longest_field)
            index->longest_field = strlen(name);
        if (!(index->fields[index->field_count] = strdup(name)))
            return -ENOMEM;
    }
    for (size_t i = 0; !fault && i < index->shard_count; i++)
        fault = adopt_shard(opening, i);
    if (fault)
        return fault;
    index->sample_count = saved->header->sample_count;
    index->member_count = saved->header->member_count;
    index->key_bytes = saved->header->key_bytes;
    index->shards[index->shard_count].first_sample = index->sample_count;
    index->members = saved->members;
    index->first = saved->first;
    /* The one that says where the last sample ends belongs to no part, so that nobody checked it.
     */
    index->first[index->sample_count] = (uint32_t)index->member_count;
    index->keys = saved->keys;
    index->class_texts = saved->texts;
    index->key_marks = opening->crew.key_marks;
    opening->crew.key_marks = NULL;
    index->saved = saved;
    opening->saved = NULL;
    warn(index, opening->remarks, saved->shards);
    return 0;
}

/* Waits for the turn to write, unless the saved index stands as it is: whoever wrote meanwhile may
 * have written just that. */
static int take_turn(struct opening *opening)
{
    enum store_turn turn = STORE_CHANGED;
    int fault = 0;

    for (int tries = 0; !fault && turn == STORE_CHANGED && tries < TURNS_MOST; tries++) {
        fault = check_saved(opening);
        if (fault || opening->whole)
            return fault;
        turn = store_begin(opening->store);
    }
    opening->writes = turn == STORE_MINE;
    return fault;
}

static int walk_and_join(struct opening *opening)
{
    struct index *index = opening->index;
    uint64_t shards = 0;
    int fault;

    opening->crew.store = opening->writes ? opening->store : NULL;
    for (size_t i = 0; i < index->shard_count; i++)
        shards += !opening->saved || opening->crew.parts[i] == REUSE_NOTHING;
    progress_open(&opening->crew.progress, "reading shards", shards, 0, PROGRESS_ITEMS);
    fault = work_on_all(&opening->crew, opening->threads, gather);
    progress_close(&opening->crew.progress);
    index->walked = atomic_load(&opening->crew.walked);
    for (size_t i = 0; i < index->shard_count; i++) {
        opening->remarks[i] = opening->harvests[i].first_problem;
        opening->harvests[i].first_problem = NULL;
    }
    if (!fault)
        fault = join_harvests(index, opening->harvests, opening->parts);
    if (!fault && !opening->crew.observer)
        warn(index, opening->remarks, opening->parts);
    return fault;
}

/* A data set that is refused is not saved: its shards will be others the next time. */
static int make_index(struct opening *opening)
{
    struct index *index = opening->index;
    int fault = opening->store ? take_turn(opening) : 0;

    if (!fault)
        fault = opening->whole ? adopt_saved(opening) : walk_and_join(opening);
    if (!fault)
        fault = refuse_copies(index);
    if (!fault)
        fault = refuse_nothing(index);
    if (fault)
        return fault;
    if (!index->saved && !(opening->writes && store_keep(opening->store, index, opening->parts,
                                                         (const char *const *)opening->remarks)))
        return 0;
    index->place = strdup(store_path(opening->store));
    return index->place ? 0 : -ENOMEM;
}

static int allocate(struct opening *opening, size_t shards)
{
    opening->harvests = calloc(shards + 1, sizeof *opening->harvests);
    opening->parts = calloc(shards + 1, sizeof *opening->parts);
    opening->remarks = calloc(shards + 1, sizeof *opening->remarks);
    opening->crew = (struct crew){.index = opening->index, .harvests = opening->harvests};
    opening->crew.parts = calloc(shards + 1, sizeof *opening->crew.parts);
    return opening->harvests && opening->parts && opening->remarks && opening->crew.parts ? 0
                                                                                          : -ENOMEM;
}

static void release(struct opening *opening, size_t shards)
{
    for (size_t i = 0; i < shards; i++) {
        if (opening->harvests)
            harvest_close(&opening->harvests[i]);
        if (opening->remarks)
            free(opening->remarks[i]);
    }
    free(opening->harvests);
    free(opening->parts);
    free(opening->remarks);
    free(opening->crew.parts);
    free(opening->crew.key_marks);
    saved_close(opening->saved);
    store_close(opening->store);
}

static int open_index(struct index **out, const struct shard_list *shards, unsigned threads,
                      const char *place, const struct index_observer *observer)
{
    struct opening opening = {.index = calloc(1, sizeof *opening.index), .threads = threads};
    struct index *index = opening.index;
    int fault = index ? allocate(&opening, shards->count) : -ENOMEM;

    opening.crew.observer = observer;
    if (!fault)
        fault = index_shards(index, shards);
    if (!fault)
        fault = store_open(&opening.store, place, shards);
    if (!fault)
        fault = make_index(&opening);
    release(&opening, shards->count);
    if (fault == -ENOMEM && !atomic_load(&opening.crew.fault))
        report_error("no memory for the index of %zu shards", shards->count);
    if (fault) {
        index_close(index);
        return fault;
    }
    /* The walks' tables are many and large: give their memory back to the system. */
    malloc_trim(0);
    *out = index;
    return 0;
}

int index_open(struct index **out, const struct shard_list *shards, unsigned threads,
               const char *place)
{
    return open_index(out, shards, threads, place, NULL);
}

int index_open_observed(struct index **out, const struct shard_list *shards, unsigned threads,
                        const struct index_observer *observer)
{
    return open_index(out, shards, threads, "none", observer);
}
