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
 * pushed only after a READ (an `ls -l` is no reader): first a few positions, then ever more as the
 * reader goes on in order, up to a bound of bytes that were pushed and not yet passed. Reads that
 * fit no track shrink the windows again: a reader in random order gets nothing pushed but what is
 * near. */
#ifndef SHUFFLEFS_FOLLOW_H
#define SHUFFLEFS_FOLLOW_H

#include "view.h"

#include <stdbool.h>
#include <stdint.h>

#define FOLLOW_MARK_EVERY 256

struct follow;

/* What to push: the sample at one position of a folder. */
struct follow_push {
    uint64_t epoch, position;
    struct plan plan;
    bool distrust;   /* the kernel has dropped pages here: push also what should be there */
    uint64_t fields; /* bit min(field, 62): fields that the reader reads; bit 63: made labels */
};

/* Which names to look up: positions from `start` on, before `end`. */
struct follow_names {
    unsigned track;
    uint64_t serial;
    uint64_t folder; /* its inode */
    uint64_t start, end;
    char path[320]; /* of the folder, below the root */
};

/* `index` and `epochs` outlive it. At most `reader_bytes` are ahead of one reader, and
 * `total_bytes` of all. */
int follow_open(struct follow **out, const struct index *index, struct epochs *epochs,
                uint64_t reader_bytes, uint64_t total_bytes);
void follow_close(struct follow *follow); /* NULL is fine */

/* A listing instantiated the names of a folder's positions from the start up to `end`. */
void follow_listed(struct follow *follow, const struct view_node *folder, uint64_t end);
/* A LOOKUP of the name at `position`. */
void follow_looked(struct follow *follow, const struct view_node *folder, uint64_t position);
/* A READ of a member's first bytes; `again`: of one that was read or pushed before, so the kernel
 * dropped its pages. */
void follow_read(struct follow *follow, uint64_t member, bool again);
void follow_read_label(struct follow *follow, uint64_t sample);
/* The folder is no more: nothing is pushed for it from here on. */
void follow_left(struct follow *follow, uint64_t folder);

/* The next position to push; false: none now. */
bool follow_next_push(struct follow *follow, struct follow_push *push);

/* The next names to look up; false: none now. follow_named() says up to where that worked. */
bool follow_next_names(struct follow *follow, struct follow_names *names);
void follow_named(struct follow *follow, const struct follow_names *names, uint64_t end);

/* A reader as the status shows it. */
struct follow_reader {
    char path[320]; /* of its folder, below the root */
    uint64_t epoch, rank, world;
    uint64_t position, length; /* where it was last met, to within FOLLOW_MARK_EVERY positions */
    double rate;      /* positions a second, over the last second or so that it was met in */
    uint64_t idle_ns; /* since it was last met */
};

/* The readers that were met in order at least once, the latest first; returns how many were
 * written, at most `room`. `now` as in follow_at(). */
size_t follow_readers(const struct follow *follow, uint64_t now, struct follow_reader *readers,
                      size_t room);

/* The time of the events that follow, in nanoseconds of a clock that never goes back. */
void follow_at(struct follow *follow, uint64_t now);

/* Bytes of the files ahead of readers that were claimed for pushing, or passed over in doing so. */
uint64_t follow_bytes_ahead(const struct follow *follow);

#endif
