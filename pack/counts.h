/* What was done, as far as it is not known beforehand. Of a shard, or added up. */
#ifndef SHUFFLEFS_PACK_COUNTS_H
#define SHUFFLEFS_PACK_COUNTS_H

#include <stdint.h>

struct pack_counts {
    uint64_t samples, members, bytes; /* written; bytes of the tars */
    uint64_t resized, converted;      /* members that are new pictures; from JPEG, from PNG */
    uint64_t passed;                  /* members with the bytes they had */
    uint64_t made;                    /* labels */
    uint64_t damaged;                 /* pictures that cannot be decoded, kept or left out */
    uint64_t samples_left_out;        /* for a damaged picture */
    uint64_t pax;                     /* members with a PAX header */
};
#define PACK_COUNTS (sizeof(struct pack_counts) / sizeof(uint64_t))

static inline void pack_counts_add(struct pack_counts *sum, const struct pack_counts *more)
{
    uint64_t *to = &sum->samples;
    const uint64_t *from = &more->samples;

    for (unsigned i = 0; i < PACK_COUNTS; i++)
        to[i] += from[i];
}

#endif
