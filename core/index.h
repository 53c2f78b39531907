/* What is in the shards: one pass of libarchive over each tar, several shards at once.
 *
 * A sample is WebDataset's: adjacent members with one key. The key is the member's path up to the
 * first dot of its base name (leading `./` and `/`, empty, `.` and `..` components removed); the
 * field is the rest after that dot, in lower case. Source: webdataset/tariterators.py
 * (base_plus_ext, group_by_keys).
 *
 * The index knows where each member's bytes stand; it never reads them but for `cls`. It keeps
 * about 34 bytes a one-field sample with a key of 12 bytes. Once opened it does not change: any
 * thread may read it. */
#ifndef SHUFFLEFS_INDEX_H
#define SHUFFLEFS_INDEX_H

#include "record.h"
#include "shards.h"

#include <stddef.h>
#include <stdint.h>

struct index {
    struct index_shard
        *shards; /* in the order given; shards[shard_count].first_sample = sample_count */
    size_t shard_count;
    struct index_member *members; /* sample by sample, each sample's sorted by field name */
    uint64_t member_count;
    uint32_t *first; /* sample -> its first member; first[sample_count] = member_count */
    uint64_t sample_count;
    char **fields; /* names, sorted in byte order */
    size_t field_count;
    size_t longest_field; /* bytes */
    char *keys;           /* each sample's key, a NUL after each; found through key_marks */
    uint64_t *key_marks;  /* offset in `keys` of every INDEX_KEY_STEP-th sample's */
    uint64_t key_bytes;
    char *class_texts; /* while labels are undecided: each sample's cls text or "", a NUL after
                          each; else NULL */
    uint64_t bytes;    /* of all members */
    uint64_t problems[INDEX_PROBLEM_KINDS];
    struct saved *saved; /* what members, first, keys and class_texts stand in (core/saved.h), but
                            for texts of json members; NULL: they are allocated */
    char *place;         /* the saved index that this one came from or became; NULL: none */
    size_t walked;       /* shards that were read for it, rather than taken from the saved one */
};

struct saved;

#define INDEX_KEY_STEP 16

/* Takes the index from where it is saved, `place` (as store_open()'s `wanted` in core/store.h: a
 * file, a folder for many, NULL: the user's cache folder, "none"), as far as the shards are still
 * what they were when they were walked: base name, size, the file's and its inode's times, and some
 * of the members' headers. Walks the other ones, and saves the index anew; where that cannot be,
 * one warning says why, and it stays in memory.
 *
 * Walks shards with `threads` threads (0: as many as suit the machine). Problems are counted,
 * and one warning line a shard is reported, with its path and for its first problem the offset and
 * member. Returns 0, or a negative errno, reported: a shard that cannot be opened or read (EIO
 * while walking), too many members, no memory, a shard that equals another one (hash and sampled
 * bytes). A data set without a sample is an error too (-ENODATA). */
int index_open(struct index **out, const struct shard_list *shards, unsigned threads,
               const char *place);
/* The same for who wants to be told of every problem: no saved index is taken or made, all shards
 * are walked, and the lines about their problems are left to the observer. */
int index_open_observed(struct index **out, const struct shard_list *shards, unsigned threads,
                        const struct index_observer *observer);
void index_close(struct index *index); /* NULL is fine */

/* For who makes or rewrites an index (core/fields.c), before anybody else reads it: puts one
 * sample's members into name order, and finds the keys' marks anew. */
void index_sort_members(struct index_member *members, size_t count);
void index_mark_keys(struct index *index);

/* For who has made labels of them (core/labels.c): the class texts are not needed any more. */
void index_drop_texts(struct index *index);

/* The key of `sample`: owned by the index. */
const char *index_key(const struct index *index, uint64_t sample);

/* The sample that `member` belongs to, and the shard (an index into shards) that `sample` stands
 * in. O(log n). */
uint64_t index_sample_of(const struct index *index, uint64_t member);
size_t index_shard_of(const struct index *index, uint64_t sample);
size_t index_shard_of_member(const struct index *index, uint64_t member);

/* The member of `sample` with the field named by `length` bytes at `name`; -1: none. */
int64_t index_find_field(const struct index *index, uint64_t sample, const char *name,
                         size_t length);

#endif
