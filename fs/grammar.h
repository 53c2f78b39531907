/* The spelling of names: ranks, epochs, sample files. Pure: owns nothing, knows no inode. Any
 * thread.
 *
 *   rank-R[-of-W][.after-G][.part-K-of-M[.by-B]]SUFFIX
 *                           a share's folder, list or stream: R < W, K < M; without -of-W of the
 *                           mount's world; resumed after the epoch's first G places; of the rank's
 *                           positions every M-th run of B, from the K-th run on; without .by-B, B
 *                           is 1
 *   epoch-E
 *   POSITION.FIELD          in rank-R
 *   POSITION_KEY.FIELD      in rank-R.keys, and in the folders in rank-R.classes (fs/classes.h)
 *
 * Numbers have one spelling (no leading zeros); POSITION has always the same digits, so that byte
 * order is numeric order. What is left out may be spelled out all the same (-of-W of the mount's
 * world, .after-0, .by-1): a job that makes names of its own settings need not know the defaults.
 */
#ifndef SHUFFLEFS_GRAMMAR_H
#define SHUFFLEFS_GRAMMAR_H

#include "../core/dataset.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAMMAR_NAME_BYTES 255
/* The longest name of a share with its view, and a NUL. */
#define GRAMMAR_SHARE_BYTES 128

/* The views of a rank, in the order in which folders list them. */
enum grammar_view {
    GRAMMAR_PLAIN,
    GRAMMAR_CLASSES,
    GRAMMAR_KEYS,
    GRAMMAR_LIST,
    GRAMMAR_STREAM,
    GRAMMAR_VIEWS
};

struct grammar {
    const struct dataset *dataset;
    int position_digits;
};

void grammar_open(struct grammar *grammar, const struct dataset *dataset);

/* "", ".classes", ".keys", ".list", ".tar". */
const char *grammar_suffix(enum grammar_view view);

/* `rank-R[-of-W]` at the start of `name`: fills rank and world and returns what follows, or NULL
 * when it is not in canonical spelling or rank >= world. */
const char *grammar_parse_rank(const struct grammar *grammar, const char *name, uint64_t *rank,
                               uint64_t *world);
/* A share's name in the same way, up to the view. `.after-G` is taken where `resumable`; whether an
 * epoch has that many places, plan_open() says. */
const char *grammar_parse_share(const struct grammar *grammar, const char *name, bool resumable,
                                struct plan_share *share);
/* The shortest spelling of a share, which grammar_parse_share() reads as that share again. `name`
 * holds GRAMMAR_SHARE_BYTES. Returns its length. */
size_t grammar_share_name(const struct grammar *grammar, const struct plan_share *share,
                          char *name);
/* Copies `name`, a share's with its view as spelled and parsed before, resumed after `after` places
 * whatever it was before; 0: without `.after-G`. `to` holds `room` bytes, GRAMMAR_SHARE_BYTES for a
 * name alone. Returns the length. */
size_t grammar_resumed_name(const char *name, uint64_t after, char *to, size_t room);
/* The view that a whole suffix names. */
bool grammar_parse_view(const char *suffix, enum grammar_view *view);
/* `epoch-E`, nothing after it. */
bool grammar_parse_epoch(const char *name, uint64_t *epoch);

/* A sample file's name; `name` holds GRAMMAR_NAME_BYTES + 1. Returns its length. */
size_t grammar_file_name(const struct grammar *grammar, enum grammar_view view, uint64_t position,
                         uint64_t sample, const char *field, char *name);

/* The position at the start of a sample file's name. */
bool grammar_parse_position(const struct grammar *grammar, const char *name, uint64_t *position);
/* The field in a file name of `sample`, whose position was parsed; NULL: the name is not spelled as
 * this sample's is. */
const char *grammar_parse_field(const struct grammar *grammar, enum grammar_view view,
                                uint64_t sample, const char *name);

#endif
