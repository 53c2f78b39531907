/* All that was found, by kind, in memory that does not grow with how much was found: of each kind
 * the count, the count in each shard, and the first few, by shard and offset. */
#ifndef SHUFFLEFS_CHECK_PROBLEMS_H
#define SHUFFLEFS_CHECK_PROBLEMS_H

#include "kinds.h"

#include "../core/index.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/* `shard` of what is no shard's. */
#define CHECK_NO_SHARD SIZE_MAX

struct check_example {
    size_t shard;    /* its number; CHECK_NO_SHARD */
    uint64_t offset; /* bytes */
    char *member;    /* a member as stored, or a sample's key; NULL: the whole shard. Owned */
    char *why;       /* more words; NULL: none. Owned */
};

struct check_group {
    uint64_t count;
    uint64_t *by_shard; /* count of each shard; NULL: none was a shard's */
    size_t shards;      /* shards with any */
    struct check_example *examples;
    size_t example_count;
};

struct check_problems {
    struct check_group groups[CHECK_KINDS];
    size_t shard_count, examples_most;
    int fault;            /* -ENOMEM: something was counted, but not kept */
    pthread_mutex_t lock; /* guards all of the above while threads add */
};

/* Keeps the first `examples_most` of each kind. 0 or -ENOMEM. */
int check_problems_open(struct check_problems **out, size_t shard_count, size_t examples_most);
void check_problems_close(struct check_problems *problems); /* NULL is fine */

/* Any thread. `member` and `why` are copied; both may be NULL. Whatever the order of calls from
 * different shards, what is kept is the same. */
void check_problems_add(struct check_problems *problems, unsigned kind, size_t shard,
                        const char *member, uint64_t offset, const char *why);

/* The same of `ranks` ranks, one or more, with one example. */
void check_problems_add_ranks(struct check_problems *problems, unsigned kind, uint64_t ranks,
                              const char *why);

/* The same of a member of the index, named by its key and field. */
void check_problems_add_member(struct check_problems *problems, unsigned kind,
                               const struct index *index, uint64_t member, const char *why);

/* How many there are of all errors (or of all remarks). Once no thread adds any more. */
uint64_t check_problems_total(const struct check_problems *problems, bool errors);

#endif
