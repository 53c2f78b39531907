/* The inside of fs/follow.h, for its three files: what is known of readers (here and in
 * follow_table.c), what is learnt from events (follow.c), and what there is to do (follow_work.c).
 */
#ifndef SHUFFLEFS_FOLLOW_STATE_H
#define SHUFFLEFS_FOLLOW_STATE_H

#include "follow.h"
#include "passes.h"
#include "trust.h"

#define TRACKS 64
/* Samples whose pages were dropped last, to see whether somebody reads them. */
#define PROBED_KEPT 32
/* The first window, and what it grows by each time the reader is met where it was expected. */
#define WINDOW_FIRST  8
#define WINDOW_GROWTH 4
#define WINDOW_MOST   TRUST_WINDOW_MOST

struct follow {
    const struct index *index;
    struct epochs *epochs;
    uint64_t reader_bytes, total_bytes, total;
    uint64_t events, serials, now;
    bool may_repeat, slow;
    bool is_short; /* somebody was refused for the total's sake alone */
    uint64_t crowded, chance;
    uint64_t probed[PROBED_KEPT], probed_count;
    unsigned strangers; /* reads in a row that fitted no track */
    unsigned noise;     /* reads lately by readers that are not trusted */
    unsigned turn;      /* the track that is served next */
    uint64_t hits, lost, repeated;
    struct pace loose;     /* of all READs that are of no reader in order */
    uint64_t loose_sample; /* the last of these was of */
    uint64_t fields;       /* that the reader met last reads: others will read the same */
    struct track *to_tell; /* a repetition to be told of */
    struct passes passes;
    struct track tracks[TRACKS];
};

/* The table of tracks. */

/* Whether the position may be the reader's. */
bool follow_is_near(const struct track *track, uint64_t position);
/* Whether it only warms an epoch that no reader came to yet. */
bool follow_is_unmet(const struct track *track);
/* The track of this folder that the position most likely is of; NULL: it is near none. */
struct track *follow_find(struct follow *follow, uint64_t folder, uint64_t position);
struct track *follow_find_serial(struct follow *follow, uint64_t serial);
/* What warms this part of this epoch and was not met by a reader; NULL: nothing does. */
struct track *follow_find_warming(struct follow *follow, uint64_t epoch, const struct plan *plan);
/* A reader was met in a folder, away from all known ones: its track. What was warmed for it is its
 * own. NULL: no place is free, and none is taken from a reader that is at work. */
struct track *follow_start(struct follow *follow, const struct view_node *folder,
                           uint64_t position);
/* Warms an epoch's start; what does so already, for another folder, is asked to do it here. NULL:
 * no place is free. */
struct track *follow_start_warming(struct follow *follow, const char *path, uint64_t epoch,
                                   const struct plan *plan, uint64_t fields);
void follow_release(struct follow *follow, struct track *track);
/* It was not met for so long that its place, or its share of the bytes ahead, may be another's. */
bool follow_is_away(const struct follow *follow, const struct track *track);

#endif
