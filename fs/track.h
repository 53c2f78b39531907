/* One reader's way through one folder of samples, as fs/follow.c knows it: where it is, what was
 * claimed for it, and how many bytes that is. Pure; the caller serialises all calls. */
#ifndef SHUFFLEFS_TRACK_H
#define SHUFFLEFS_TRACK_H

#include "pace.h"
#include "view.h"

#include <stdbool.h>
#include <stdint.h>

#define TRACK_PATH 320
/* Every so many positions a name expires at once, and shows who passes by. */
#define TRACK_MARK_EVERY 256
/* Of a track whose folder was not looked up yet. */
#define TRACK_FOLDER_UNKNOWN UINT64_MAX

/* READs in a folder, of what was not dropped to see whether it is read: how many went on from the
 * one before, and how many back. Of both passes, where one follows the other. */
struct track_steps {
    uint64_t reads, ups, downs, last;
};

struct track {
    uint64_t folder; /* inode; 0: free */
    uint64_t serial; /* new for each use of this place */
    char path[TRACK_PATH];
    uint64_t epoch;
    struct plan plan;
    uint64_t begun;    /* where the reader was first met */
    uint64_t head;     /* where it was last seen */
    uint64_t next;     /* the first position not claimed for a push */
    uint64_t named;    /* names are known to the kernel up to here */
    uint64_t naming;   /* names up to here are being looked up */
    uint64_t window;   /* positions ahead of head that may be claimed */
    uint64_t gap;      /* positions that a reader which is faster than the pushes is let pass */
    unsigned doubts;   /* reads in a row of what should have been in the page cache */
    uint64_t distrust; /* up to here, pages that should be in the cache may not be */
    uint64_t fields;   /* that it reads: see struct follow_push */
    uint64_t claimed;  /* positions that were claimed for pushes, ever */
    uint64_t bytes;    /* of the files between head and next */
    uint64_t limit;    /* most of them */
    uint64_t used;     /* when it was last met, in events */
    unsigned steps; /* times that the reader was met where it was expected, less those where not */
    uint64_t reads; /* since it was begun */
    uint64_t looks; /* LOOKUPs, likewise */
    struct track_steps order;
    uint64_t mark;   /* the last one met */
    unsigned marks;  /* and how many came one after the other */
    bool trusted;    /* it reads in order: see fs/trust.h */
    uint64_t member; /* that was last read */
    uint64_t elder;  /* a track that this one warms the next epoch for: its serial */
    bool warming;    /* made before any reader came */
    bool has_heir;   /* the next epoch is being warmed */
    bool awaited;    /* warmed, and no reader has looked at it */
    bool reading;    /* a READ was met: pushes may go */
    bool again;      /* it began on what was read to the end before, in a field that it reads */
    uint64_t met;    /* fields that it was met at */
    bool unsure;     /* its way may be one class after the other: to pass the end says nothing */
    bool gave_back;  /* its share, to others: it was not met for long */
    bool counted;    /* as a repetition */
    uint64_t probe;  /* a position whose pages are dropped to see whether they are read */
    unsigned probes;
    struct pace pace;
};

struct index;

uint64_t track_least(uint64_t a, uint64_t b);

/* The bit of a made label in a mask of fields. */
#define TRACK_FIELD_LABEL ((uint64_t)1 << 63)
/* The bit of a field in a mask; of many fields, the last ones share one. */
uint64_t track_field_bit(uint16_t field);

/* Bytes of the files at one position that the reader reads. */
uint64_t track_bytes_at(const struct track *track, const struct index *index,
                        const struct order *order, uint64_t position);

/* All that changes head, next or fields goes through these; `total` is the sum of all tracks'
 * bytes. What a trusted reader passes counts for its pace. The bytes ahead are those of all files
 * between the two, whether they were pushed, are being pushed, or were left to the reader. */
void track_move_next(struct track *track, const struct index *index, const struct order *order,
                     uint64_t position, uint64_t *total);
void track_move_head(struct track *track, const struct index *index, const struct order *order,
                     uint64_t position, uint64_t *total);
void track_add_field(struct track *track, const struct index *index, const struct order *order,
                     uint64_t bit, uint64_t *total);
/* Others need its share: nothing is ahead of it, and nothing will be until it is met. */
void track_give_back(struct track *track, uint64_t *total);
void track_release(struct track *track, uint64_t *total);

/* The track, of `count`, in which the sample is most likely read from: where it is expected, else
 * near. NULL: none. `hasty`: of readers that are not trusted, only at their very next positions,
 * which takes less time. By chance,
 * a sample may be near in another epoch too: the closest one counts, and of those equally close the
 * one met last. */
struct track *track_recognise(struct track *tracks, size_t count, struct epochs *epochs,
                              uint64_t sample, bool hasty, uint64_t *position);

/* How far from a reader's head, and past what was claimed for it, a read is still its own: workers
 * of a DataLoader read whole batches side by side. Positions. */
#define TRACK_NEAR 1024
/* How far past what was claimed a reader may be met and still be in order. Positions. */
#define TRACK_SLACK 64

#endif
