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

#include "shards.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* What was found and does not appear as a sample's field, or does with a remark. The names
 * (index_problem_name) are the ones in the status. "kept": the member appears all the same. */
enum index_problem {
    INDEX_LITTER,          /* base name ._*, as macOS leaves them */
    INDEX_METADATA,        /* base name __*__ */
    INDEX_NO_EXTENSION,    /* no dot in the base name, or it starts or ends with one */
    INDEX_LONG_EXTENSION,  /* over INDEX_FIELD_MAX bytes */
    INDEX_UNSAFE_PATH,     /* absolute or with ..; kept, without those parts */
    INDEX_DUPLICATE_FIELD, /* the first one of a sample wins */
    INDEX_LINK,            /* symbolic or hard link */
    INDEX_NOT_A_FILE,      /* fifo, device */
    INDEX_SPARSE,          /* its bytes do not stand one after the other */
    INDEX_EMPTY,           /* zero bytes; kept */
    INDEX_TRUNCATED,       /* the member the shard ends in */
    INDEX_CORRUPT_HEADER,  /* of a shard: nothing after it is trusted */
    INDEX_NO_TRAILER,      /* of a shard: no end-of-archive blocks; all is kept */
    INDEX_LONE_ZERO_BLOCK, /* of a shard: the walk ended at a single zero block that more follows */
    INDEX_TRAILING_DATA,   /* of a shard: something other than zeros after its end; not read */
    INDEX_COMPRESSED,      /* of a shard: left out whole */
    INDEX_NOT_A_TAR,       /* of a shard: left out whole */
    INDEX_FIELD_MISSING, /* of a sample: lacks one of fields=; left out (core/fields.h counts it) */
    INDEX_NO_LABEL, /* of a sample: has no label where others do; kept (core/fields.h counts it) */
    INDEX_PROBLEM_KINDS
};

/* The longest field name: POSITION (up to 19 digits), a key of some length and the dot still fit
 * 255 bytes. */
#define INDEX_FIELD_MAX    200
#define INDEX_HEADER_BYTES 512
/* Most members of one data set, most bytes of one member, and the last offset of one. */
#define INDEX_MEMBERS_MAX UINT32_MAX
#define INDEX_SIZE_MAX    (((uint64_t)1 << 48) - 1)
#define INDEX_OFFSET_MAX  INDEX_SIZE_MAX

/* 16 bytes. */
struct index_member {
    uint64_t offset : 48; /* of the first data byte in the shard's file */
    uint64_t header : 16; /* index_header_check() of the 512 bytes before it, the member's own tar
                             header */
    uint64_t size : 48;   /* bytes */
    uint64_t field : 16;  /* indexes index.fields */
};

struct index_shard {
    char *path;            /* absolute */
    uint64_t first_sample; /* samples of this shard: up to the next one's */
    uint64_t size;         /* of the file, bytes */
    struct timespec modified;
    dev_t device;
    ino_t inode;
    uint64_t hash;   /* over size, member names, offsets and sizes: not over path or times */
    char *complaint; /* what is wrong with the whole shard, NULL: nothing */
};

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
};

#define INDEX_KEY_STEP 16

/* Walks all shards with `threads` threads (0: as many as suit the machine). Problems are counted,
 * and one warning line a shard is reported, with its path and for its first problem the offset and
 * member. Returns 0, or a negative errno, reported: a shard that cannot be opened or read (EIO
 * while walking), too many members, no memory, a shard that equals another one (hash and sampled
 * bytes). A data set without a sample is an error too (-ENODATA). */
int index_open(struct index **out, const struct shard_list *shards, unsigned threads);
void index_close(struct index *index); /* NULL is fine */

const char *index_problem_name(enum index_problem problem);

/* What tells a member's header from another's: 16 bits of a hash of its INDEX_HEADER_BYTES. */
uint16_t index_header_check(const void *header);

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
