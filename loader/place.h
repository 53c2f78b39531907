/* Where the samples are: what a path names, under which path an epoch of it is found, and where its
 * samples stand in the global order.
 *
 * On a mount an epoch is a path: ROOT/epoch-E/rank-R-of-W[.after-G][.part-K-of-M[.by-B]], with
 * .keys, .list or .tar for the other views. So changing the epoch is opening another path.
 * Elsewhere the path is the same in every epoch; so what a mount has under another name, or in
 * another order than its epochs', is refused. This is the only file that knows how a mount spells
 * things. */
#ifndef SHUFFLELOAD_PLACE_H
#define SHUFFLELOAD_PLACE_H

#include "fault.h"
#include "settings.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum place_kind { PLACE_FOLDER, PLACE_TAR, PLACE_LIST };

struct place {
    enum place_kind kind;
    bool mounted;
    char path[PATH_MAX]; /* the mount's root, or the folder, tar or list itself */
    uint64_t rank, world, start;
    /* A mount's part of a rank: of each parts * by of its samples, [part * by, (part + 1) * by).
     * A whole rank is part 0 of 1, by 1. */
    uint64_t part, parts, by;
    char part_text[64]; /* as the mount spells it; "" */
    const char *suffix; /* of the view, on a mount */
    uint64_t epoch;     /* the first one */
    uint64_t after;     /* and where it starts */
};

/* One epoch of it, from some global sample on. */
struct place_epoch {
    char path[PATH_MAX];
    uint64_t skip; /* samples of this rank to pass over */
    uint64_t base; /* after skipping, this rank's sample i is global base + rank + i * world */
};

/* Of sample `number` after skipping: its position in the global order. */
uint64_t place_position(const struct place *place, const struct place_epoch *at, uint64_t number);

/* How far the job is in the global order once this rank has done `rows` samples (`ended`: which are
 * all), and every other rank and part as many. Where a part has done some of a run, so far as no
 * sample is lost: up to that run. */
uint64_t place_after(const struct place *place, const struct place_epoch *at, uint64_t rows,
                     bool ended);

/* Looks at the path. 0, or a negative errno with its text: -EINVAL where it is a mount's, but not
 * of one rank in the order of its epochs. Touches the file system; blocks. */
int place_find(struct place *place, const struct settings *settings, struct fault *fault);

/* 0; -EINVAL: `after` does not fit, or a mount's epoch has fewer samples; -ENAMETOOLONG. Looks
 * whether a mount has the folder. */
int place_epoch(const struct place *place, uint64_t epoch, uint64_t after, struct place_epoch *out,
                struct fault *fault);

/* Once it is known how many samples the path has: 0, or -EINVAL: the place is past their end. */
int place_check_end(const struct place *place, const struct place_epoch *at, uint64_t samples,
                    struct fault *fault);

/* Text "epoch-7" and the like to its number: decimal, one spelling. False: it is none. */
bool place_number(const char *text, const char **end, uint64_t *number);

#endif
