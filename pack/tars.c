/* Shards as the source: the index's members as a listing. Owns the index and the reader, in the
 * source. */
#include "source.h"

#include "../core/report.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Others are remarks: what they are about is kept. */
static bool leaves_out(enum index_problem problem)
{
    switch (problem) {
    case INDEX_UNSAFE_PATH:
    case INDEX_SPLIT_SAMPLE:
    case INDEX_EMPTY:
    case INDEX_NO_TRAILER:
    case INDEX_LONE_ZERO_BLOCK:
    case INDEX_TRAILING_DATA:
        return false;
    default:
        return true;
    }
}

/* What is told of problems, while several threads walk the shards. */
struct teller {
    struct pack_source *source;
    pthread_mutex_t lock; /* guards what follows, and the listing */
    uint64_t remarks[INDEX_PROBLEM_KINDS];
};

static void tell(void *context, size_t shard, enum index_problem problem, const char *member,
                 uint64_t offset)
{
    struct teller *teller = context;
    struct pack_listing *listing = &teller->source->listing;
    bool left_out = leaves_out(problem);
    uint64_t *count = left_out ? &listing->left_out[problem] : &teller->remarks[problem];

    pthread_mutex_lock(&teller->lock);
    if (pack_listing_may_name(listing, (*count)++))
        report_warning("%s%s: offset %llu: %s%s%s%s", left_out ? "left out: " : "",
                       teller->source->shards.paths[shard], (unsigned long long)offset,
                       member ? "'" : "", member ? member : "", member ? "': " : "",
                       index_problem_name(problem));
    pthread_mutex_unlock(&teller->lock);
}

/* What was lost on the way into the index: more than a file that never was a sample's. */
static int refuse_damage(const struct pack_source *source, const struct pack_options *options)
{
    const struct index *index = source->index;
    size_t faulty = unpack_figures(source->unpack).faulty;
    static const enum index_problem losses[] = {INDEX_TRUNCATED, INDEX_CORRUPT_HEADER,
                                                INDEX_COMPRESSED, INDEX_NOT_A_TAR,
                                                INDEX_DUPLICATE_FIELD};
    if (faulty && options->damaged != PACK_DAMAGED_SKIP) {
        report_error("%zu compressed shard%s cut or corrupt; --damaged skip packs the rest of them",
                     faulty, faulty == 1 ? " is" : "s are");
        return -EBADMSG;
    }
    for (size_t i = 0; i < sizeof losses / sizeof *losses; i++) {
        if (!index->problems[losses[i]] || options->damaged == PACK_DAMAGED_SKIP)
            continue;
        report_error("not all of the shards can be read (%s: %llu); --damaged skip packs the rest",
                     index_problem_name(losses[i]), (unsigned long long)index->problems[losses[i]]);
        return -EBADMSG;
    }
    return 0;
}

static int list_sample(struct pack_source *source, uint64_t sample)
{
    const struct index *index = source->index;
    const struct index_shard *shard = &index->shards[index_shard_of(index, sample)];
    const char *key = index_key(index, sample);

    for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++) {
        struct pack_member member = {
            .key = key,
            .key_length = strlen(key),
            .field = index->fields[index->members[m].field],
            .number = m,
            .sequence = sample,
            .size = index->members[m].size,
            .seconds = shard->modified.tv_sec,
            .nanoseconds = (int32_t)shard->modified.tv_nsec,
        };
        if (pack_listing_add(&source->listing, &member))
            return -ENOMEM;
    }
    return 0;
}

int pack_tars_list(struct pack_source *source, const struct pack_options *options)
{
    struct teller teller = {.source = source, .lock = PTHREAD_MUTEX_INITIALIZER};
    struct index_observer observer = {.context = &teller, .problem = tell};
    char base[PATH_MAX];
    int fault = 0;

    if (!getcwd(base, sizeof base)) {
        fault = -errno;
        report_error("the current folder: %s", strerror(-fault));
        return fault;
    }
    for (size_t i = 0; !fault && i < options->source_count; i++)
        fault = shards_add(&source->shards, options->sources[i], base);
    if (!fault)
        fault = shards_check(&source->shards);
    if (!fault)
        fault = unpack_open(&source->unpack, &source->shards, NULL, 0, UNPACK_PATIENCE_MS);
    if (!fault) {
        struct shard_list list = source->shards;
        list.files = unpack_files(source->unpack);
        fault = index_open_observed(&source->index, &list, options->threads, &observer);
    }
    if (!fault)
        fault = refuse_damage(source, options);
    if (!fault)
        fault = reader_open(&source->reader, source->index, 0, READER_DIRECT_AUTO);
    for (uint64_t s = 0; !fault && s < source->index->sample_count; s++)
        fault = list_sample(source, s);
    return fault;
}
