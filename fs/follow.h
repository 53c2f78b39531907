/* Follows readers through the folders of ranks and says what to read ahead for them. Pure: no
 * thread, no lock, no FUSE; the caller serialises all calls.
 *
 * What is seen of a reader. A READ names only the member: it is looked for near the places where
 * readers are. A LOOKUP names folder and position; it arrives for names that the kernel does not
 * have, and for every FOLLOW_MARK_EVERY-th position also for those it has (fs/serve.c lets these
 * names expire at once). So a reader whose files are all in the page cache is still seen now and
 * then, and costs nothing else.
 *
 * A track is one reader's way through one folder. It starts when a place is met that is not near a
 * known track. Names are looked up ahead of it once it was met a few times in order; files are
 * pushed only after a READ (an `ls -l` is no reader), and once the reader is trusted to go on in
 * order: first a few positions, then ever more, up to a bound of bytes that were pushed and not yet
 * passed. Reads that
 * fit no track shrink the windows again: a reader in random order gets nothing pushed but what is
 * near. Where the kernel drops what was pushed before it is read (memory is short), the bound is
 * halved, and grows again while that does not happen.
 *
 * When all of an epoch is claimed, the start of the next one is warmed (whole, also after one that
 * was resumed): a track without a reader,
 * which the reader takes over when it comes to that epoch, in whichever folder. A switch of
 * `current` does the same for the readers it moves.
 *
 * There are places for 64 readers. A place is taken from who was not met for some seconds, or from
 * who is not trusted; never from a reader at work.
 *
 * A folder that was read to its end and is read again is a repetition (fs/passes.h). A reader whose
 * files are all cached shows in nothing but the marks, as `ls -l` does; so the pages of a file
 * ahead of it are dropped, up to three times, and only if that is then read, a reader it was. */
#ifndef SHUFFLEFS_FOLLOW_H
#define SHUFFLEFS_FOLLOW_H

#include "track.h"
#include "view.h"

#include <stdbool.h>
#include <stdint.h>

#define FOLLOW_MARK_EVERY TRACK_MARK_EVERY

struct follow;

/* What to push: the sample at one position of a folder. */
struct follow_push {
    uint64_t epoch, position, sample;
    bool distrust;   /* the kernel has dropped pages here: push also what should be there */
    uint64_t fields; /* bit min(field, 62): fields that the reader reads; bit 63: made labels */
};

/* Which names to look up: positions from `start` on, before `end`. */
struct follow_names {
    unsigned track;
    uint64_t serial;
    uint64_t folder;       /* its inode, or TRACK_FOLDER_UNKNOWN: whatever it is, of this epoch */
    uint64_t epoch, after; /* the samples of the epoch that were read before: it is resumed */
    uint64_t start, end;
    char path[TRACK_PATH]; /* of the folder, below the root */
};

/* `index` and `epochs` outlive it. At most `reader_bytes` are ahead of one reader, and
 * `total_bytes` of all. `may_repeat`: every epoch has the same order, so that nothing is wrong with
 * reading one again. */
int follow_open(struct follow **out, const struct index *index, struct epochs *epochs,
                uint64_t reader_bytes, uint64_t total_bytes, bool may_repeat);
void follow_close(struct follow *follow); /* NULL is fine */

/* A listing instantiated the names of a folder's positions from the start up to `end`. */
void follow_listed(struct follow *follow, const struct view_node *folder, uint64_t end);
/* A LOOKUP of the name at `position`; `field`: its bit, as in struct follow_push. */
void follow_looked(struct follow *follow, const struct view_node *folder, uint64_t position,
                   uint64_t field);
/* A READ of a member's first bytes, which took `took` nanoseconds to answer; `again`: of one that
 * was read or pushed before, so the kernel dropped its pages. */
void follow_read(struct follow *follow, uint64_t member, bool again, uint64_t took);
/* A READ of further bytes of a member. */
void follow_read_on(struct follow *follow, uint64_t member, uint64_t took);
void follow_read_label(struct follow *follow, uint64_t sample, uint64_t took);
/* The folder is no more: nothing is pushed for it from here on. */
void follow_left(struct follow *follow, uint64_t folder);
/* The same, for its path now shows another epoch, whose start is warmed if the old one was read
 * in order. Returns whether it was. */
bool follow_moved(struct follow *follow, uint64_t folder, struct epochs_at at);
/* Warms the start of an epoch, all fields, in the folder that is, or will be, at `path`. */
void follow_warm(struct follow *follow, const char *path, uint64_t epoch, const struct plan *plan);

/* The next position to push; false: none now. `elsewhere`: bytes ahead of other readers, which
 * count towards the total. */
bool follow_next_push(struct follow *follow, uint64_t elsewhere, struct follow_push *push);

/* Whether the last call of it refused a reader for the total's sake alone. Then those that were not
 * met for some seconds give back their share, one at each call, the one away for longest first; the
 * total counts it no more, and what was pushed is left to the kernel. False: nobody is. */
bool follow_is_short(const struct follow *follow);
bool follow_give_back(struct follow *follow);

/* The next names to look up; false: none now. follow_named() says up to where that worked, and in
 * which folder. */
bool follow_next_names(struct follow *follow, struct follow_names *names);
void follow_named(struct follow *follow, const struct follow_names *names, uint64_t folder,
                  uint64_t end);

/* Whether there may be something to push, or to look up: not worth waking a thread otherwise. */
bool follow_has_push(const struct follow *follow);
bool follow_has_names(const struct follow *follow);

/* A sample whose files' pages shall be dropped, to see whether somebody reads them; false: none. */
bool follow_next_probe(struct follow *follow, uint64_t *sample);

/* A folder that a second pass was noticed in, for the first time; false: none. */
bool follow_next_repeat(struct follow *follow, char path[TRACK_PATH], uint64_t *epoch);

/* A reader as the status shows it. */
struct follow_reader {
    char path[TRACK_PATH]; /* of its folder, below the root */
    uint64_t epoch;
    struct plan_share share;
    uint64_t position, length; /* where it was last met, to within FOLLOW_MARK_EVERY positions */
    bool in_order; /* else the position says little, and the pace is that of all READs of readers in
                      no order, in equal shares */
    struct pace pace;
    uint64_t idle_ns; /* since it was last met */
};

/* The readers, the latest first: those in order, and one for each folder that is read in no order
 * at all. Returns how many were written, at most `room`. `now` as in follow_at(). */
size_t follow_readers(const struct follow *follow, uint64_t now, struct follow_reader *readers,
                      size_t room);

/* The time of the events that follow, in nanoseconds of a clock that never goes back, and whether a
 * read from storage takes so long that none should be left to a reader. */
void follow_at(struct follow *follow, uint64_t now, bool slow);

struct follow_figures {
    uint64_t ahead;    /* bytes of the files ahead of readers that were claimed for pushing, or
                          passed over in doing so; not of readers that nothing was pushed for */
    uint64_t hits;     /* files that followed readers passed without asking for them */
    uint64_t lost;     /* reads of what had been read or pushed before, by readers that files are
                          pushed for */
    uint64_t repeated; /* second and further passes */
    uint64_t crowded;  /* times that a reader was not followed, for want of a place */
};
struct follow_figures follow_figures(const struct follow *follow);

#endif
