/* How an epoch is dealt over ranks and batches, proved by going through it.
 *
 * What is dealt are the places of the epoch's order: each is read once, but for padding and what is
 * dropped. Where the order is a permutation of the data set, that goes for its samples too, and is
 * looked at; where an epoch has another size, or samples are drawn, the different samples that were
 * met are counted.
 *
 * One bit a place and one a sample. Every position of every rank is looked at, so time is O(places
 * + padding). */
#ifndef SHUFFLEFS_CHECK_SPLIT_H
#define SHUFFLEFS_CHECK_SPLIT_H

#include "../core/basis.h"

#include <stdbool.h>
#include <stdint.h>

struct check_split {
    uint64_t samples, places;                   /* of the data set, of an epoch */
    uint64_t world, epoch, batch;               /* batch 0: not asked for */
    uint64_t longest, shortest;                 /* samples of a rank */
    uint64_t longer_ranks;                      /* ranks that have `longest`, where they differ */
    uint64_t padding, dropped;                  /* over all ranks, as core/plan.h works them out */
    uint64_t read, repeated, unread;            /* the same, as it was seen: positions, places met
                                                   again, places not met */
    uint64_t distinct;                          /* different samples met */
    bool once;                                  /* each sample has one place */
    uint64_t batches_most, batches_least;       /* of a rank */
    uint64_t last_of_longest, last_of_shortest; /* samples in the last batch */
    uint64_t better_batch;                      /* the largest one below `batch` without a last
                                                   batch of one; 0: none is needed, or none is there */
    bool right;                                 /* as seen it is as it was worked out */
};

/* Deals an epoch of `basis` in the order, epoch, world and remainder of `config`; `batch` 0: no
 * batches. Returns 0, -ENOMEM, or -EINVAL where there is no such order. */
int check_split_make(struct check_split *split, const struct config *config,
                     const struct basis *basis, uint64_t batch);

/* Whether a rank's last batch holds one sample, and so the rank's length leaves one over. */
bool check_split_ends_in_one(const struct check_split *split);

#endif
