/* What can be wrong, by name: the kinds that the walk over the shards counts (core/record.h), and
 * those that only a check looks for. All functions: any thread, and what they return is static. */
#ifndef SHUFFLEFS_CHECK_KINDS_H
#define SHUFFLEFS_CHECK_KINDS_H

#include "../core/record.h"

#include <stdbool.h>

/* Goes on where enum index_problem ends; a kind is either's number. */
enum check_kind {
    CHECK_UNREADABLE =
        INDEX_PROBLEM_KINDS,  /* a shard, or a member of one, whose bytes cannot be read */
    CHECK_IMAGE_TRUNCATED,    /* ends early; rows are grey */
    CHECK_IMAGE_DAMAGED,      /* the decoder warned: wrong blocks */
    CHECK_IMAGE_UNDECODABLE,  /* no picture comes of it */
    CHECK_IMAGE_WRONG_FORMAT, /* another format than its name says */
    CHECK_IMAGE_REFUSED,      /* more pixels, scans or bytes than are decoded */
    CHECK_IMAGE_OTHER_FORMAT, /* neither JPEG nor PNG, as its name says */
    CHECK_IMAGE_CMYK,
    CHECK_IMAGE_ROTATED, /* an EXIF orientation that loaders do not apply by themselves */
    CHECK_IMAGE_GREY,
    CHECK_EMPTY_RANK,        /* of the split: a rank without a sample */
    CHECK_LAST_BATCH_OF_ONE, /* of the split */
    CHECK_UNEVEN_RANKS,      /* of the split: with remainder=keep */
    CHECK_SPLIT_WRONG,       /* of the split: not what it should be; a fault of this program */
    CHECK_OTHER_DATA,        /* the fingerprint's first half is not the expected one */
    CHECK_OTHER_ORDER,       /* its second half */
    CHECK_NO_SAMPLE,         /* of the data set */
    CHECK_LEFT_OUT,          /* of a shard: compressed, and not unpacked */
    CHECK_NO_IDX,            /* of a shard: DALI's index was not written */
    CHECK_NO_LENGTH,         /* of a sample: its picture's header says no size */
    CHECK_KINDS
};

const char *check_kind_name(unsigned kind);
/* One line: what it is and what comes of it. */
const char *check_kind_meaning(unsigned kind);
/* Whether data is lost, or read differently by others; the rest are remarks. */
bool check_kind_is_error(unsigned kind);

#endif
