/* How fast a reader goes, what share of its files it finds in the page cache, and what share of its
 * time it waits for the mount: sums, and rates over the last half second or so. Pure. */
#ifndef SHUFFLEFS_PACE_H
#define SHUFFLEFS_PACE_H

#include <stdint.h>

/* A rate is taken over at least this time; a reader that was not met for the second one pauses.
 * Nanoseconds. */
#define PACE_RATE_NS  500000000u
#define PACE_PAUSE_NS 5000000000u

struct pace_sums {
    uint64_t samples;   /* positions passed, or read at by a reader in no order */
    uint64_t files;     /* of these, the files that the reader reads */
    uint64_t bytes;     /* theirs */
    uint64_t missed;    /* files that had to be asked for */
    uint64_t waited_ns; /* between asking and answer, added up over a reader's processes */
};

struct pace {
    struct pace_sums sums, at_rated;
    uint64_t met;   /* when the reader was last met */
    uint64_t rated; /* when the rates were last worked out */
    double samples_per_s, bytes_per_s, hit_rate, wait_share;
};

/* `now` is of a clock that never goes back, in nanoseconds. */
void pace_begin(struct pace *pace, uint64_t now);
/* The reader passed so much. */
void pace_pass(struct pace *pace, uint64_t samples, uint64_t files, uint64_t bytes);
/* The reader was met; works out the rates when it is time to. */
void pace_meet(struct pace *pace, uint64_t now);
/* The rates as they stand at `now`: none of a reader that pauses. */
struct pace pace_at(const struct pace *pace, uint64_t now);

#endif
