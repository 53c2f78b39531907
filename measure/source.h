/* One PATH to measure, and the files that it stands for.
 *
 * A PATH is a folder (with its folders, to any depth; names that start with a dot are left out),
 * the root of a shufflefs mount (then its current/rank-0 is read), a tar, which is read as one
 * stream (told by its name, NAME.tar: looking into it would already warm it), any other file, or
 * @LIST: a text file of paths, one a line, relative to the list's own folder, without a look at any
 * folder.
 *
 * Faults are reported here. A source is changed by the main thread alone; readers only look. */
#ifndef SHUFFLEFS_SOURCE_H
#define SHUFFLEFS_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum source_kind { SOURCE_FOLDER, SOURCE_STREAM, SOURCE_FILE, SOURCE_LIST };

/* By name: byte order of the whole path; a list's as it stands. */
enum source_order { SOURCE_BY_NAME, SOURCE_AT_RANDOM };

struct source {
    const char *given; /* as on the command line; not copied */
    char *path;        /* what is read: the rank's folder of a mount, the file behind an @ */
    enum source_kind kind;
    /* What source_list() found. Paths stand one after the other in `text`: growing one block costs
     * a listing of a million names less than a million allocations would. */
    const char **names; /* in reading order */
    uint64_t count;     /* 1 for a stream */
    double list_s;      /* seconds for reading folders or the list; sorting is left out */
    char *text;
    size_t used, room;
};

/* Sees what `given` is. 0, or a negative errno (reported); source_close() either way. */
int source_open(struct source *source, const char *given);

/* Lists anew, timed. `seed` is for SOURCE_AT_RANDOM; the same seed gives the same order. 0, or a
 * negative errno (reported); a source without a file is -ENOENT. */
int source_list(struct source *source, enum source_order order, uint64_t seed);

void source_close(struct source *source);

/* `folder`, `stream`, `file` or `list`. */
const char *source_kind_name(enum source_kind kind);

#endif
