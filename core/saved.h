/* An index as a file: written once, checked, and used as it stands in the file.
 *
 * The file, all numbers little-endian, sections one after the other without gaps but those named:
 *
 *   struct saved_header       magic, version, counts, checksum of all that comes before
 *                             the members
 *   struct saved_shard        one a shard, and one more that says where the last one's things end
 *   texts, a NUL after each   the fields' names; then three a shard: its base name, the complaint
 *                             about it as a whole or "", the remark that a mount makes of it or ""
 *   (zeros to a multiple of 64 bytes)
 *   struct index_member       one a member, as in core/index.h
 *   uint32_t                  one a sample and one more: its first member
 *   keys, a NUL after each    one a sample
 *   class texts, a NUL each   one a sample, or the section is empty
 *
 * Each shard's part of the last four has a checksum of its own (XXH3, 64 bits), so that a part can
 * be used where the others cannot. What shards are named in full, and which files they are (device,
 * inode), is not kept: the same data set mounted elsewhere, or on another node, may use the file.
 *
 * Private to core/. A saved index is read by any thread. */
#ifndef SHUFFLEFS_SAVED_H
#define SHUFFLEFS_SAVED_H

#include "harvest.h"
#include "index.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Goes up with every change of the file's form, and of what a walk makes of a tar. */
#define SAVED_VERSION 4

struct saved_header {
    char magic[16];
    uint32_t version, byte_order;
    uint64_t file_bytes;
    uint64_t shard_count, sample_count, member_count, field_count;
    uint64_t name_bytes, key_bytes, text_bytes;
    uint64_t checksum;
};

/* The starts of a shard's things; its ends are the next one's starts. */
struct saved_shard {
    uint64_t size; /* of the file, bytes */
    int64_t modified_s;
    uint64_t modified_ns;
    int64_t changed_s; /* its inode: a rewrite under the old time shows there */
    uint64_t changed_ns;
    uint64_t hash;  /* as in struct index_shard */
    uint64_t bytes; /* of its members */
    uint64_t first_sample, first_member, key_at, text_at;
    uint64_t checksum;
    uint64_t problems[INDEX_PROBLEM_KINDS];
};

struct saved_words {
    const char *name, *complaint, *remark;
};

struct saved {
    char *block;
    size_t bytes;
    const struct saved_header *header;
    const struct saved_shard *shards;
    struct saved_words *words; /* one a shard */
    const char **fields;       /* sorted in byte order */
    struct index_member *members;
    uint32_t *first;
    char *keys, *texts; /* texts: NULL where there are none */
};

/* Reads the file at `path` into memory of its own, which may be written to. Checks all but the
 * shards' parts. Returns 0 or a negative errno, not reported: -ENOENT; -EINVAL: not an index of
 * ours; -EPROTONOSUPPORT: one of another version; -EBADMSG: damaged; what open() and read() say. */
int saved_open(struct saved **out, const char *path);
void saved_close(struct saved *saved); /* NULL is fine */

/* The same for `bytes` at `block`, which is mapped memory and the saved index's from now on. For
 * saved_open() and for tests. */
int saved_take(struct saved **out, char *block, size_t bytes);

/* Checks one shard's part: its checksum, and that nothing in it points outside of it. Until that
 * was true nothing of the part may be used. Puts down the keys' marks of its samples (as
 * index_mark_keys()) in `key_marks`, unless that is NULL. */
bool saved_check_part(const struct saved *saved, size_t shard, uint64_t *key_marks);

/* Copies one shard's part into a harvest, which starts as {0}, and sets the hash and complaint of
 * `shard`, whose path is set. 0 or -ENOMEM. */
int saved_copy_part(const struct saved *saved, size_t number, struct index_shard *shard,
                    struct harvest *harvest);

/* Writes an index to `fd`, from its start on: all but the header, then the header. `shards` has the
 * starts, problems and bytes of every shard, one more for the ends, and gets the rest here;
 * `remarks` has one a shard or NULL. Returns 0 or a negative errno, not reported. */
int saved_write(int fd, const struct index *index, struct saved_shard *shards,
                const char *const *remarks);

#endif
