/* What is in the shards: walks them in parallel and joins what the walks found. Owns the
 * tables; never reads a member. */
#include "index.h"

#include "harvest.h"
#include "report.h"
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

/* What the walking threads share: each takes the next shard until none is left or one failed. */
struct crew {
    struct index *index;
    struct harvest *harvests;
    atomic_size_t next;
    atomic_int fault;
};

static void *walk_some(void *context)
{
    struct crew *crew = context;
    struct harvest scratch = {0};
    size_t i;

    while (!atomic_load(&crew->fault) &&
           (i = atomic_fetch_add(&crew->next, 1)) < crew->index->shard_count) {
        int fault = walk_shard(&scratch, &crew->index->shards[i]);
        if (!fault)
            fault = harvest_take(&crew->harvests[i], &scratch);
        if (fault)
            atomic_store(&crew->fault, fault);
    }
    harvest_close(&scratch);
    return NULL;
}

static int walk_all(struct index *index, struct harvest *harvests, unsigned threads)
{
    struct crew crew = {.index = index, .harvests = harvests};
    pthread_t others[THREADS_MOST];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned started = 0;

    if (threads == 0)
        threads = cores > THREADS_LEAST ? (unsigned)cores : THREADS_LEAST;
    if (threads > THREADS_MOST)
        threads = THREADS_MOST;
    if (threads > index->shard_count)
        threads = (unsigned)index->shard_count;
    /* This thread walks too, so that one that cannot be started is no fault. */
    while (started + 1 < threads && pthread_create(&others[started], NULL, walk_some, &crew) == 0)
        started++;
    walk_some(&crew);
    while (started)
        pthread_join(others[--started], NULL);
    return atomic_load(&crew.fault);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of all walks' fields, sorted, each once. Takes the strings' contents, not the
 * strings.
 */
static int join_fields(struct index *index, const struct harvest *harvests)
{
    size_t room = 0;

    for (size_t i = 0; i < index->shard_count; i++) {
        /* A walk's names differ from each other, so a new one is looked for among the earlier
         * shards' alone. */
        size_t sorted = index->field_count;
        for (size_t f = 0; f < harvests[i].field_count; f++) {
            const char *name = harvests[i].fields[f];
            if (sorted && bsearch(&name, index->fields, sorted, sizeof name, by_name))
                continue;
            if (harvest_grow(&index->fields, &room, index->field_count + 1, sizeof *index->fields))
                return -ENOMEM;
            index->fields[index->field_count] = strdup(name);
            if (!index->fields[index->field_count++])
                return -ENOMEM;
            if (strlen(name) > index->longest_field)
                index->longest_field = strlen(name);
        }
        if (index->field_count > sorted)
            qsort(index->fields, index->field_count, sizeof *index->fields, by_name);
    }
    if (index->field_count <= UINT16_MAX)
        return 0;
    report_error("the shards have %zu different extensions, more than %u; an extension is all that "
                 "follows the "
                 "first dot of a name",
                 index->field_count, UINT16_MAX);
    return -EOVERFLOW;
}

static int by_field(const void *a, const void *b)
{
    return (int)((const struct index_member *)a)->field -
           (int)((const struct index_member *)b)->field;
}

void index_sort_members(struct index_member *members, size_t count)
{
    if (count > 1)
        qsort(members, count, sizeof *members, by_field);
}

/* Appends shard `i`'s samples; its walk is freed as soon as it is copied, so that no more than one
 * copy lives long. */
static int join_shard(struct index *index, struct harvest *harvest, size_t i)
{
    uint16_t *numbers = malloc((harvest->field_count + 1) * sizeof *numbers);
    struct index_member *members = index->members + index->member_count;

    if (!numbers)
        return -ENOMEM;
    for (size_t f = 0; f < harvest->field_count; f++) {
        char **found = bsearch(&harvest->fields[f], index->fields, index->field_count,
                               sizeof *index->fields, by_name);
        numbers[f] = (uint16_t)(found - index->fields);
    }
    if (harvest->member_count)
        memcpy(members, harvest->members, harvest->member_count * sizeof *members);
    for (size_t m = 0; m < harvest->member_count; m++)
        members[m].field = numbers[members[m].field];
    free(numbers);
    index->shards[i].first_sample = index->sample_count;
    for (size_t s = 0; s < harvest->sample_count; s++) {
        size_t from = harvest->first[s];
        size_t to = s + 1 < harvest->sample_count ? harvest->first[s + 1] : harvest->member_count;
        index_sort_members(members + from, to - from);
        index->first[index->sample_count++] = (uint32_t)(index->member_count + from);
    }
    index->member_count += harvest->member_count;
    if (harvest->key_bytes)
        memcpy(index->keys + index->key_bytes, harvest->keys, harvest->key_bytes);
    index->key_bytes += harvest->key_bytes;
    index->bytes += harvest->bytes;
    for (int p = 0; p < INDEX_PROBLEM_KINDS; p++)
        index->problems[p] += harvest->problems[p];
    return 0;
}

void index_mark_keys(struct index *index)
{
    const char *key = index->keys;

    for (uint64_t s = 0; s < index->sample_count; s++, key += strlen(key) + 1)
        if (s % INDEX_KEY_STEP == 0)
            index->key_marks[s / INDEX_KEY_STEP] = (uint64_t)(key - index->keys);
}

static int allocate_tables(struct index *index, const struct harvest *harvests, size_t *text_bytes)
{
    uint64_t samples = 0, members = 0, keys = 0;
    size_t texts = 0;
    bool any_text = false;

    for (size_t i = 0; i < index->shard_count; i++) {
        samples += harvests[i].sample_count;
        members += harvests[i].member_count;
        keys += harvests[i].key_bytes;
        texts += harvests[i].any_text ? harvests[i].text_bytes : harvests[i].sample_count;
        any_text |= harvests[i].any_text;
    }
    if (members > INDEX_MEMBERS_MAX) {
        report_error("the shards have %llu members, more than %llu", (unsigned long long)members,
                     (unsigned long long)INDEX_MEMBERS_MAX);
        return -EOVERFLOW;
    }
    index->members = malloc(members * sizeof *index->members + 1);
    index->first = malloc((samples + 1) * sizeof *index->first);
    index->keys = malloc(keys + 1);
    index->key_marks = malloc((samples / INDEX_KEY_STEP + 1) * sizeof *index->key_marks);
    if (any_text)
        index->class_texts = malloc(texts + 1);
    *text_bytes = 0;
    if (!index->members || !index->first || !index->keys || !index->key_marks ||
        (any_text && !index->class_texts))
        return -ENOMEM;
    return 0;
}

static int join_all(struct index *index, struct harvest *harvests)
{
    size_t text_bytes;
    int fault = allocate_tables(index, harvests, &text_bytes);

    for (size_t i = 0; !fault && i < index->shard_count; i++) {
        struct harvest *harvest = &harvests[i];
        fault = join_shard(index, harvest, i);
        if (!fault && index->class_texts) {
            if (harvest->any_text)
                memcpy(index->class_texts + text_bytes, harvest->texts, harvest->text_bytes);
            else
                memset(index->class_texts + text_bytes, 0, harvest->sample_count);
            text_bytes += harvest->any_text ? harvest->text_bytes : harvest->sample_count;
        }
        harvest_close(harvest);
        *harvest = (struct harvest){0};
    }
    if (fault)
        return fault;
    index->first[index->sample_count] = (uint32_t)index->member_count;
    index->shards[index->shard_count].first_sample = index->sample_count;
    index_mark_keys(index);
    return 0;
}

static void warn(const struct index *index, const struct harvest *harvests)
{
    size_t faulty = 0;

    for (size_t i = 0; i < index->shard_count; i++) {
        uint64_t all = 0;
        if (!harvests[i].first_problem)
            continue;
        if (++faulty > WARNINGS_MOST)
            continue;
        for (int p = 0; p < INDEX_PROBLEM_KINDS; p++)
            all += harvests[i].problems[p];
        if (all > 1)
            report_warning("%s, and %llu more in this shard", harvests[i].first_problem,
                           (unsigned long long)all - 1);
        else
            report_warning("%s", harvests[i].first_problem);
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
    int fd = open(a->path, O_RDONLY | O_CLOEXEC), other = open(b->path, O_RDONLY | O_CLOEXEC);
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
    }
    return 0;
}

int index_open(struct index **out, const struct shard_list *shards, unsigned threads)
{
    struct index *index = calloc(1, sizeof *index);
    struct harvest *harvests = calloc(shards->count + 1, sizeof *harvests);
    int fault = index && harvests ? index_shards(index, shards) : -ENOMEM;
    bool reported = false;

    if (!fault) {
        fault = walk_all(index, harvests, threads);
        reported = fault != 0;
    }
    if (!fault) {
        warn(index, harvests);
        fault = join_fields(index, harvests);
    }
    if (!fault)
        fault = join_all(index, harvests);
    for (size_t i = 0; harvests && i < shards->count; i++)
        harvest_close(&harvests[i]);
    free(harvests);
    if (!fault)
        fault = refuse_copies(index);
    if (!fault)
        fault = refuse_nothing(index);
    if (fault == -ENOMEM && !reported)
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

void index_close(struct index *index)
{
    if (!index)
        return;
    for (size_t i = 0; index->shards && i < index->shard_count; i++) {
        free(index->shards[i].path);
        free(index->shards[i].complaint);
    }
    for (size_t f = 0; f < index->field_count; f++)
        free(index->fields[f]);
    free(index->shards);
    free(index->fields);
    free(index->members);
    free(index->first);
    free(index->keys);
    free(index->key_marks);
    free(index->class_texts);
    free(index);
}

const char *index_key(const struct index *index, uint64_t sample)
{
    const char *key = index->keys + index->key_marks[sample / INDEX_KEY_STEP];

    for (uint64_t skip = sample % INDEX_KEY_STEP; skip; skip--)
        key += strlen(key) + 1;
    return key;
}

/* Binary search: the last sample whose first member is not past this one. */
uint64_t index_sample_of(const struct index *index, uint64_t member)
{
    uint64_t low = 0, high = index->sample_count;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (index->first[middle] <= member)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Shards without samples share their first_sample with the next one: the last of them is the one
 * that has it. */
size_t index_shard_of(const struct index *index, uint64_t sample)
{
    size_t low = 0, high = index->shard_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (index->shards[middle].first_sample <= sample)
            low = middle;
        else
            high = middle;
    }
    return low;
}

size_t index_shard_of_member(const struct index *index, uint64_t member)
{
    size_t low = 0, high = index->shard_count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (index->first[index->shards[middle].first_sample] <= member)
            low = middle;
        else
            high = middle;
    }
    return low;
}

int64_t index_find_field(const struct index *index, uint64_t sample, const char *name,
                         size_t length)
{
    for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++) {
        const char *field = index->fields[index->members[m].field];
        if (strncmp(field, name, length) == 0 && field[length] == '\0')
            return (int64_t)m;
    }
    return -1;
}
