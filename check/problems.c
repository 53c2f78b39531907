/* All that was found. Owns counts and examples; never decides what is sound. */
#include "problems.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int check_problems_open(struct check_problems **out, size_t shard_count, size_t examples_most)
{
    struct check_problems *problems = calloc(1, sizeof *problems);

    if (!problems)
        return -ENOMEM;
    problems->shard_count = shard_count;
    problems->examples_most = examples_most;
    pthread_mutex_init(&problems->lock, NULL);
    *out = problems;
    return 0;
}

static void free_example(struct check_example *example)
{
    free(example->member);
    free(example->why);
}

void check_problems_close(struct check_problems *problems)
{
    if (!problems)
        return;
    for (unsigned kind = 0; kind < CHECK_KINDS; kind++) {
        struct check_group *group = &problems->groups[kind];
        for (size_t i = 0; i < group->example_count; i++)
            free_example(&group->examples[i]);
        free(group->examples);
        free(group->by_shard);
    }
    pthread_mutex_destroy(&problems->lock);
    free(problems);
}

/* The table is made when the first one of a kind is met: most kinds never are. */
static void count_in_shard(struct check_problems *problems, struct check_group *group, size_t shard)
{
    if (shard >= problems->shard_count)
        return;
    if (!group->by_shard)
        group->by_shard = calloc(problems->shard_count, sizeof *group->by_shard);
    if (!group->by_shard) {
        problems->fault = -ENOMEM;
        return;
    }
    group->shards += group->by_shard[shard]++ == 0;
}

static bool is_before(size_t shard, uint64_t offset, const struct check_example *other)
{
    return shard != other->shard ? shard < other->shard : offset < other->offset;
}

/* What comes later in a shard stands behind what is equal. */
static void keep(struct check_problems *problems, struct check_group *group,
                 struct check_example example)
{
    size_t at = group->example_count;

    if (!group->examples)
        group->examples = calloc(problems->examples_most, sizeof *group->examples);
    if (!group->examples) {
        problems->fault = -ENOMEM;
        free_example(&example);
        return;
    }
    while (at > 0 && is_before(example.shard, example.offset, &group->examples[at - 1]))
        at--;
    if (group->example_count == problems->examples_most)
        free_example(&group->examples[--group->example_count]);
    memmove(&group->examples[at + 1], &group->examples[at],
            (group->example_count - at) * sizeof *group->examples);
    group->examples[at] = example;
    group->example_count++;
}

void check_problems_add(struct check_problems *problems, unsigned kind, size_t shard,
                        const char *member, uint64_t offset, const char *why)
{
    struct check_group *group = &problems->groups[kind];
    size_t most = problems->examples_most;
    bool tells = shard != CHECK_NO_SHARD || why; /* more than the kind does */

    pthread_mutex_lock(&problems->lock);
    group->count++;
    count_in_shard(problems, group, shard);
    if (tells && (group->example_count < most ||
                  (most && is_before(shard, offset, &group->examples[most - 1])))) {
        struct check_example example = {shard, offset, member ? strdup(member) : NULL,
                                        why ? strdup(why) : NULL};
        if ((member && !example.member) || (why && !example.why))
            problems->fault = -ENOMEM;
        keep(problems, group, example);
    }
    pthread_mutex_unlock(&problems->lock);
}

void check_problems_add_ranks(struct check_problems *problems, unsigned kind, uint64_t ranks,
                              const char *why)
{
    check_problems_add(problems, kind, CHECK_NO_SHARD, NULL, 0, why);
    pthread_mutex_lock(&problems->lock);
    problems->groups[kind].count += ranks - 1;
    pthread_mutex_unlock(&problems->lock);
}

void check_problems_add_member(struct check_problems *problems, unsigned kind,
                               const struct index *index, uint64_t member, const char *why)
{
    const struct index_member *place = &index->members[member];
    char *name;

    if (asprintf(&name, "%s.%s", index_key(index, index_sample_of(index, member)),
                 index->fields[place->field]) < 0) {
        name = NULL;
        pthread_mutex_lock(&problems->lock);
        problems->fault = -ENOMEM;
        pthread_mutex_unlock(&problems->lock);
    }
    check_problems_add(problems, kind, index_shard_of_member(index, member), name, place->offset,
                       why);
    free(name);
}

uint64_t check_problems_total(const struct check_problems *problems, bool errors)
{
    uint64_t total = 0;

    for (unsigned kind = 0; kind < CHECK_KINDS; kind++)
        if (check_kind_is_error(kind) == errors)
            total += problems->groups[kind].count;
    return total;
}
