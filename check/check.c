/* The check itself. Owns nothing but what it puts into the result. */
#include "check.h"

#include "../core/harvest.h"
#include "../core/report.h"
#include "../core/walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take_problem(void *context, size_t shard, enum index_problem problem,
                         const char *member, uint64_t offset)
{
    check_problems_add(context, problem, shard, member, offset, NULL);
}

/* Samples without a label: by their keys, and where their first members are. */
static void look_for_labels(struct check_result *result)
{
    const struct dataset *dataset = &result->dataset;
    const struct index *index = dataset->index;

    for (uint64_t s = 0; dataset->labels.of && s < index->sample_count; s++)
        if (dataset->labels.of[s] == LABELS_MISSING)
            check_problems_add(result->problems, INDEX_NO_LABEL, index_shard_of(index, s),
                               index_key(index, s), index->members[index->first[s]].offset, NULL);
}

static int count_fields(struct check_result *result)
{
    const struct index *index = result->dataset.index;

    result->fields = calloc(index->field_count + 1, sizeof *result->fields);
    if (!result->fields)
        return -ENOMEM;
    for (uint64_t m = 0; m < index->member_count; m++)
        result->fields[index->members[m].field]++;
    return 0;
}

static void compare(const struct check_request *request, struct check_result *result)
{
    const char *own = result->dataset.fingerprint, *other = request->expected;
    size_t half = strcspn(own, "-");
    char why[128];

    if (!*other)
        return;
    result->data_agrees = strncmp(own, other, half) == 0;
    result->order_agrees = strcmp(own + half, other + half) == 0;
    if (!result->data_agrees) {
        snprintf(why, sizeof why, "DATA is %.*s, expected %.*s", (int)half, own, (int)half, other);
        check_problems_add(result->problems, CHECK_OTHER_DATA, CHECK_NO_SHARD, NULL, 0, why);
    }
    if (!result->order_agrees) {
        snprintf(why, sizeof why, "ORDER is %s, expected %s", own + half + 1, other + half + 1);
        check_problems_add(result->problems, CHECK_OTHER_ORDER, CHECK_NO_SHARD, NULL, 0, why);
    }
}

static void judge_split(const struct check_split *split, struct check_problems *problems)
{
    char why[256];

    if (split->shortest == 0) {
        snprintf(why, sizeof why, "%" PRIu64 " samples for %" PRIu64 " ranks", split->places,
                 split->world);
        check_problems_add_ranks(problems, CHECK_EMPTY_RANK,
                                 split->longest ? split->world - split->longer_ranks : split->world,
                                 why);
    }
    if (split->longest != split->shortest) {
        snprintf(why, sizeof why, "%" PRIu64 " ranks have %" PRIu64 " samples, the others %" PRIu64,
                 split->longer_ranks, split->longest, split->shortest);
        check_problems_add(problems, CHECK_UNEVEN_RANKS, CHECK_NO_SHARD, NULL, 0, why);
    }
    if (check_split_ends_in_one(split)) {
        int used = snprintf(why, sizeof why,
                            "%" PRIu64 " samples in batches of %" PRIu64
                            ": let the loader drop the last batch (drop_last=True)",
                            split->longest % split->batch == 1 ? split->longest : split->shortest,
                            split->batch);
        if (split->better_batch)
            snprintf(why + used, sizeof why - (size_t)used, ", or take batches of %" PRIu64,
                     split->better_batch);
        check_problems_add(problems, CHECK_LAST_BATCH_OF_ONE, CHECK_NO_SHARD, NULL, 0, why);
    }
    if (!split->right) {
        snprintf(why, sizeof why,
                 "of %" PRIu64 " positions %" PRIu64 " repeat a place, %" PRIu64
                 " places are not read; %" PRIu64 " and %" PRIu64 " should be; %" PRIu64
                 " different samples are read",
                 split->read, split->repeated, split->unread, split->padding, split->dropped,
                 split->distinct);
        check_problems_add(problems, CHECK_SPLIT_WRONG, CHECK_NO_SHARD, NULL, 0, why);
    }
}

static int check_split(const struct check_request *request, struct check_result *result)
{
    int fault = check_split_make(&result->split, &request->config, &result->dataset.basis,
                                 request->batch);

    if (fault) {
        report_error("the split over %" PRIu64 " ranks: %s", request->config.world,
                     strerror(-fault));
        return fault;
    }
    result->has_split = true;
    judge_split(&result->split, result->problems);
    return 0;
}

/* Compressed shards: those with a copy, of which the walk sees nothing odd, and those without. */
static void look_for_copies(struct check_result *result)
{
    const struct index *index = result->dataset.index;

    for (size_t i = 0; i < index->shard_count; i++) {
        const struct index_shard *shard = &index->shards[i];
        if (shard->file)
            check_problems_add(result->problems, INDEX_COMPRESSED, i, NULL, 0, NULL);
        else if (shard->complaint && strstr(shard->complaint, "compressed"))
            check_problems_add(result->problems, CHECK_LEFT_OUT, i, NULL, 0, shard->complaint);
    }
}

/* What needs samples. */
static int check_samples(const struct check_request *request, struct check_result *result)
{
    int fault = count_fields(result);

    if (fault) {
        report_error("no memory to count %zu fields", result->dataset.index->field_count);
        return fault;
    }
    look_for_copies(result);
    look_for_labels(result);
    compare(request, result);
    if (request->splits && check_split(request, result))
        result->faulty = true;
    if (request->decode) {
        result->has_images = !check_images(&result->dataset, (unsigned)request->threads,
                                           result->problems, &result->images);
        result->faulty |= !result->has_images;
    }
    if (request->lengths) {
        result->has_lengths = !check_lengths_write(&result->dataset, request->lengths,
                                                   (unsigned)request->threads, result->problems,
                                                   &result->lengths);
        result->faulty |= !result->has_lengths;
    }
    return 0;
}

/* The walk of all shards ends with the first that cannot be read; here each one is walked by
 * itself, so that all such are told of, and whatever is wrong with the others. */
static int walk_each(const struct check_request *request, struct check_result *result)
{
    const struct shard_list *shards = &request->config.shards;
    struct index_observer observer = {.problem = take_problem};
    struct harvest harvest = {0};
    int fault;

    check_problems_close(result->problems);
    result->problems = NULL;
    fault = check_problems_open(&result->problems, shards->count, (size_t)request->examples);
    observer.context = result->problems;
    for (size_t i = 0; !fault && i < shards->count; i++) {
        struct index_shard shard = {.path = shards->paths[i]};
        int why = walk_shard(&harvest, &shard, i, &observer);
        if (why)
            check_problems_add(result->problems, CHECK_UNREADABLE, i, NULL, 0, strerror(-why));
        fault = why == -ENOMEM ? why : 0;
        free(shard.complaint);
        harvest_clear(&harvest);
    }
    harvest_close(&harvest);
    if (fault)
        report_error("no memory to look at %zu shards one by one", shards->count);
    return fault;
}

/* Opens the data set, with all that is told of on the way. */
static int open_data(const struct check_request *request, struct check_result *result)
{
    const struct index_observer observer = {.context = result->problems, .problem = take_problem};
    int fault = dataset_open_observed(&result->dataset, &request->config, &observer);

    result->opened = !fault;
    result->faulty = fault != 0;
    /* A refusal (no sample, one shard twice) comes when all shards were walked. */
    if (fault == -ENODATA)
        check_problems_add(result->problems, CHECK_NO_SAMPLE, CHECK_NO_SHARD, NULL, 0, NULL);
    if (fault == -ENODATA || fault == -EINVAL)
        return 0;
    return fault && fault != -ENOMEM ? walk_each(request, result) : fault;
}

int check_run(const struct check_request *request, struct check_result *result)
{
    const struct shard_list *shards = &request->config.shards;
    int fault;

    *result = (struct check_result){0};
    fault = check_problems_open(&result->problems, shards->count, (size_t)request->examples);
    if (fault) {
        report_error("no memory for problems of %zu shards", shards->count);
        return fault;
    }
    fault = open_data(request, result);
    if (result->opened)
        fault = check_samples(request, result);
    if (!fault && request->write_idx) {
        result->has_idx = !check_idx_write(shards, result->problems, &result->idx);
        result->faulty |= !result->has_idx;
    }
    if (!fault && result->problems->fault) {
        fault = result->problems->fault;
        report_error("no memory to keep what was found");
    }
    return fault;
}

void check_close(struct check_result *result)
{
    check_problems_close(result->problems);
    if (result->opened)
        dataset_close(&result->dataset);
    free(result->fields);
    *result = (struct check_result){0};
}

bool check_is_sound(const struct check_request *request, const struct check_result *result)
{
    if (result->faulty || check_problems_total(result->problems, true))
        return false;
    return !request->strict ||
           (!check_problems_total(result->problems, false) && !request->config.shards.left_out);
}
