/* What is checked, in which order, and what came of it. */
#ifndef SHUFFLEFS_CHECK_H
#define SHUFFLEFS_CHECK_H

#include "idx.h"
#include "images.h"
#include "lengths.h"
#include "problems.h"
#include "split.h"

#include "../core/dataset.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct check_request {
    struct config config; /* with the shards; `strict` is taken out of it into the one here */
    uint64_t batch;       /* 0: none */
    bool splits;          /* world or batch were given */
    bool decode, write_idx, strict;
    const char
        *lengths; /* the file that lengths are written to, as on the command line; NULL: none */
    bool json, samples;
    uint64_t threads;                         /* 0: as many as cores */
    uint64_t examples;                        /* of each kind */
    char expected[DATASET_FINGERPRINT_BYTES]; /* "": none */
};

struct check_result {
    struct check_problems *problems;
    struct dataset dataset;
    bool opened;                    /* dataset is there; else it was reported why not */
    bool faulty;                    /* something was reported that ended a part of the check */
    uint64_t *fields;               /* members of each field of the index; NULL unless opened */
    bool data_agrees, order_agrees; /* with request->expected */
    struct check_split split;
    bool has_split, has_images, has_lengths, has_idx;
    struct check_images images;
    struct check_lengths lengths;
    struct check_idx idx;
};

/* Does all that the request asks for; a part that fails is reported, and the others go on where
 * they can. `request` outlives the result. Returns 0, or -ENOMEM, reported; the result is closed in
 * any case. */
int check_run(const struct check_request *request, struct check_result *result);
void check_close(struct check_result *result);

/* Whether all was as it should be: nothing reported, no errors, and with `strict` no remarks. */
bool check_is_sound(const struct check_request *request, const struct check_result *result);

/* Whether lengths go to standard output, which is theirs alone then. */
static inline bool check_lengths_to_output(const struct check_request *request)
{
    return request->lengths && strcmp(request->lengths, CHECK_LENGTHS_STDOUT) == 0;
}

#endif
