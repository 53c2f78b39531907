/* How random an order is, and what it costs to read: figures of one epoch, and the same figures of
 * a full shuffle to hold them against. Pure arithmetic but for a line that says how far it is: no
 * file, no clock. One thread.
 *
 * The figures of neighbours follow each rank's own sequence, as that is what a node reads; those of
 * batches follow the whole job, the ranks in turn, as that is what a step is trained on. Padding
 * counts, as it is read.
 *
 * The adjacent-difference entropy is of (next - previous) modulo their number, in as many bins as
 * there are values, at most QUALITY_BINS, each as wide: all differences are about as frequent in a
 * full shuffle, and few of them are all there is where neighbours stay together. */
#ifndef SHUFFLEFS_SURVEY_QUALITY_H
#define SHUFFLEFS_SURVEY_QUALITY_H

#include "../core/plan.h"
#include "../core/progress.h"

#include <stddef.h>
#include <stdint.h>

#define QUALITY_BINS 1024

enum quality_figure {
    QUALITY_SAMPLE_ENTROPY, /* bits, of differences of samples */
    QUALITY_SHARD_ENTROPY,  /* bits, of differences of shards */
    QUALITY_RUN_MEAN,       /* samples that follow each other out of one shard */
    QUALITY_RUN_LONGEST,
    QUALITY_SAME_BLOCK,    /* share of neighbours out of one block */
    QUALITY_CLASSES,       /* different classes in a batch, mean */
    QUALITY_CLASS_ENTROPY, /* bits, of the classes of a batch, mean */
    QUALITY_SEEKS,         /* reads that do not go on where the one before ended; all ranks' */
    QUALITY_BLOCK_READS,   /* blocks read where the last `pool` of them are kept; all ranks' */
    QUALITY_FIGURES
};

/* Lookups of one measurement: a read twice where classes are known. */
#define QUALITY_STEP 65536

#define QUALITY_NO_CLASS UINT32_MAX

/* Where samples stand and what they are. The borrower's. */
struct quality_space {
    uint64_t samples;            /* at least 1 */
    const uint64_t *shard_first; /* each shard's first sample, and the end; none twice but of empty
                                    shards */
    uint64_t shard_count;        /* at least 1 */
    const uint64_t *block_first; /* the same of blocks; NULL: none known */
    uint64_t block_count;        /* below UINT32_MAX */
    uint64_t pool;               /* blocks that a rank keeps; at least 1 */
    const uint32_t *classes;     /* sample -> class below class_count, or QUALITY_NO_CLASS; NULL:
                                    none known */
    uint32_t class_count;
};

/* One epoch as it is dealt. */
struct quality_sequence {
    uint64_t (*sample)(const void *context, uint64_t place);
    const void *context;
    uint64_t places, world, after;
    struct plan_deal deal;
    uint64_t batch;            /* samples of the whole job's batch, at least 1 */
    struct progress *progress; /* told of lookups, QUALITY_STEP at a time; NULL: nobody is */
};

/* Fills `figures`; NAN where there is none: of fewer than two reads, of shards where there is one,
 * of classes or blocks that are not known. Batches that are not full count only where none is. O(n
 * log shards) time. 0 or -ENOMEM. */
int quality_measure(const struct quality_space *space, const struct quality_sequence *sequence,
                    double *figures);

/* The means of the same figures over full shuffles, dealt as `sequence` is but in turn: each a
 * permutation by core/draw.h with a fixed seed (or as many one after the other as the places take),
 * so that all machines get the same. Small epochs are shuffled more often,
 * quality_shuffles() times. 4 or 8 bytes a place of memory. 0 or -ENOMEM. */
int quality_reference(const struct quality_space *space, const struct quality_sequence *sequence,
                      double *figures);
uint64_t quality_shuffles(const struct quality_sequence *sequence);

/* A figure's name in JSON, and in text. */
const char *quality_name(enum quality_figure figure);
const char *quality_title(enum quality_figure figure);

#endif
