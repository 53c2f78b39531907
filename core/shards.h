/* From the names a user gives to the list of shard files, in the order given.
 *
 * A name is one of
 *   a tar file       kept as it is, whatever its ending
 *   a folder         its `*.tar` (no dot files), sorted by name in byte order; where it has none,
 *                    its compressed tars (`*.tar.gz`, `*.tgz`, `*.tar.zst`, ...)
 *   a brace pattern  `train-{000000..000146}.tar`, `{a,b}`, nested, with steps and zero padding,
 *                    expanded in the order of Python's braceexpand (which is bash's); `\` takes the
 *                    next character as it is
 *   a glob           `*`, `?`, `[...]`: matches sorted by path in byte order (after braces were
 *                    expanded)
 *   @FILE            one name a line, each any of these but another @FILE; blank lines and lines
 *                    that start with `#` are skipped, blanks around a name dropped; relative names
 *                    are relative to the list's own folder
 * What braces and globs make may be folders, too. A name that exists as it stands is never
 * expanded: `odd{1}.tar` names itself when it is there. Compressed tars beside a folder's plain
 * ones are left out, with a warning.
 *
 * No thread, no state. */
#ifndef SHUFFLEFS_SHARDS_H
#define SHUFFLEFS_SHARDS_H

#include <stddef.h>

struct shard_list {
    char **paths; /* absolute, not resolved through links; owned */
    char **files; /* one a path: what is read in its place (core/unpack.h), or NULL; NULL: nothing
                     is. Not owned */
    size_t count;
    size_t capacity; /* of paths: shards.c's own */
    size_t left_out; /* compressed tars that stand beside plain ones in a folder */
};

/* Most shards one data set may have: a mistyped brace must not fill the memory. */
#define SHARDS_MAX 10000000

/* Appends the shards that `name` stands for to `list` (which starts as {0}). Relative names are
 * relative to `base`, an absolute folder. Returns 0, or a negative errno after one line was
 * reported that names the thing: a file that is missing (for a pattern: the first missing one and
 * how many of how many), cannot be read, or is not a regular file; a pattern or a folder without a
 * match; braces that do not balance (with the column); a
 * list that cannot be read or is empty (a fault inside a list names list and line). On error `list`
 * still has to be closed. */
int shards_add(struct shard_list *list, const char *name, const char *base);

/* The same for a name that a file gives: its messages start with `origin` ("FILE:7"). */
int shards_add_from(struct shard_list *list, const char *name, const char *base,
                    const char *origin);

/* Refuses an empty list, and a file that is listed twice (same device and inode), naming both
 * places. Returns 0, -EINVAL, or another negative errno (a shard that is gone), reported. */
int shards_check(const struct shard_list *list);

/* The base name of a shard as if it were not compressed: `a.tar` of /d/a.tar.gz and of /d/a.tgz. */
#define SHARDS_NAME 272
void shards_base_name(char name[SHARDS_NAME], const char *path);

void shards_close(struct shard_list *list);

#endif
