/* How far a run has come, in a small file beside the shards, `.PATTERN.packing`: what lets a run
 * that was killed be taken up again, and tells its shards from anybody else's files.
 *
 * Text lines. `shufflefs-pack 1`; `plan HASH`; then a line for each shard that is whole, written
 * before the shard gets its name:
 *
 *     shard NUMBER FIRST END  BYTES INODE SECONDS NANOSECONDS  COUNTS...
 *
 * FIRST and END are positions of the plan's order. A line that was cut short counts for nothing.
 * The file is locked (flock) while a run lasts, so that two do not write the same shards, and goes
 * with its end. One thread. */
#ifndef SHUFFLEFS_PACK_STATE_H
#define SHUFFLEFS_PACK_STATE_H

#include "counts.h"
#include "options.h"
#include "plan.h"
#include "shard.h"

struct pack_state {
    const struct pack_pattern *pattern;
    int folder_fd;
    int fd;
    bool force, fresh; /* fresh: the file was made by this run */
    char name[PACK_NAME_MAX + 16];
    /* What an earlier run of the same plan has finished, verified: the next shard's number and
     * first position. `shards` is raised by whoever renames one: with any, the state outlives this
     * run. */
    uint64_t shards, position;
    struct pack_counts counts;
};

/* Opens and locks the state; takes up a run of the same plan, whose shards are all still as they
 * were written (size, inode, time), or starts anew. Removes temporary files of a killed run. Files
 * with a shard's name that are not of this plan are refused, naming one, unless `force`; then they
 * are overwritten, and pack_state_end() removes what is left of them. 0 or a negative errno,
 * reported. */
int pack_state_open(struct pack_state *state, const struct pack_pattern *pattern, int folder_fd,
                    const struct pack_plan *plan, bool force);

/* Before a sealed shard gets its name. 0 or a negative errno, reported. */
int pack_state_add(struct pack_state *state, uint64_t number, uint64_t first, uint64_t end,
                   const struct pack_identity *identity, const struct pack_counts *counts);

/* The run is complete, with `shards` shards: removes foreign ones of higher numbers (with `force`)
 * and the state itself. 0 or a negative errno, reported. */
int pack_state_end(struct pack_state *state, uint64_t shards);

/* Ends without completion: the state stays where a shard was finished, to be taken up. */
void pack_state_close(struct pack_state *state);

#endif
