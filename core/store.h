/* Where the saved index of a data set stands, and who writes it.
 *
 * It is replaced by renaming, never changed where it stands. Who writes holds a lock (fcntl, of the
 * open file: it holds between nodes where the file system has such locks) on the new file beside
 * it, PATH.new, so that of several mounts that start together one walks the shards and the others
 * wait for it. They do not wait for what shows no progress: then they go without. A writer that was
 * killed leaves PATH.new, which the next one takes over.
 *
 * Private to core/. One thread a store, but for store_beat(). */
#ifndef SHUFFLEFS_STORE_H
#define SHUFFLEFS_STORE_H

#include "saved.h"
#include "shards.h"

#include <stdbool.h>

/* What `index=` says, and the value of it that keeps the index in memory. */
#define STORE_NONE "none"

struct store;

/* Finds the place: `wanted` is an absolute path, of the file or of a folder for many, NULL for the
 * user's cache folder, or STORE_NONE. Where there is no place (`none`, or a folder that cannot be
 * made: one warning) `*out` is NULL. 0 or -ENOMEM. */
int store_open(struct store **out, const char *wanted, const struct shard_list *shards);

/* Releases the lock; a file begun and not kept is removed. NULL is fine. */
void store_close(struct store *store);

const char *store_path(const struct store *store);

/* The saved index at the place; or, in a folder for many, the one saved last of shards whose names
 * begin alike, from which parts may be used. NULL: none that can be used (a damaged one, or one
 * that is none of ours, with a warning; the latter is never replaced). */
struct saved *store_load(struct store *store);

enum store_turn {
    STORE_MINE,    /* the lock is held: write, then keep */
    STORE_CHANGED, /* another writer ended meanwhile: load again */
    STORE_WITHOUT, /* nobody can write here now: the index stays in memory */
};

/* Tries to become the one who writes. Waits while another one does and shows progress, and says so
 * once. Why not is warned of once, in a line. */
enum store_turn store_begin(struct store *store);

/* Shows those who wait that this writer lives. Any thread, as often as it likes. */
void store_beat(struct store *store);

/* Writes the index and puts it in its place; in a folder for many, older ones of shards whose names
 * begin alike are removed, but for a few. A fault is warned of in one line, and the old one stays.
 * Whether it is there. */
bool store_keep(struct store *store, const struct index *index, struct saved_shard *shards,
                const char *const *remarks);

#endif
