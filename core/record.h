/* The records of an index: what the walk over a shard makes and the index keeps. */
#ifndef SHUFFLEFS_RECORD_H
#define SHUFFLEFS_RECORD_H

#include <stdbool.h>
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
    INDEX_SPLIT_SAMPLE,    /* its key was met before in this shard, and others since; kept */
    INDEX_DUPLICATE_FIELD, /* the first one of a sample wins */
    INDEX_LINK,            /* symbolic, or hard to no earlier member */
    INDEX_NOT_A_FILE,      /* fifo, device */
    INDEX_SPARSE,          /* its bytes do not stand one after the other */
    INDEX_EMPTY,           /* zero bytes; kept */
    INDEX_TRUNCATED,       /* the member the shard ends in */
    INDEX_CORRUPT_HEADER,  /* of a shard: nothing after it is trusted */
    INDEX_GLOBAL_HEADER, /* of a shard: a PAX header for all that follows gives them a path, a size
                            or the like; not applied (core/pax_global.h) */
    INDEX_NO_TRAILER,    /* of a shard: no end-of-archive blocks; all is kept */
    INDEX_LONE_ZERO_BLOCK, /* of a shard: a single zero block that more follows; read on */
    INDEX_TRAILING_DATA,   /* of a shard: something other than zeros after its end; not read */
    INDEX_COMPRESSED,      /* of a shard: left out whole */
    INDEX_CORRUPT_STREAM,  /* of a compressed shard: what unpacked well before that is kept
                              (core/unpack.h counts it) */
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
    char *path;            /* absolute: the name that people know */
    char *file;            /* the plain tar that is read in its place (core/unpack.h); NULL: none */
    uint64_t first_sample; /* samples of this shard: up to the next one's */
    uint64_t size;         /* of the file that is read, bytes */
    struct timespec modified;
    struct timespec changed; /* its inode: what no program can set back, unlike `modified` */
    dev_t device;
    ino_t inode;
    uint64_t hash;   /* over size, member names, offsets and sizes: not over path or times */
    char *complaint; /* what is wrong with the whole shard, NULL: nothing */
};

/* Who wants to hear of each problem and each member while shards are walked: for tools that show
 * them, as an index keeps counts alone. `shard` is its number in the order given, `member` the name
 * as stored. Calls come from several threads at once, those of one shard from one thread, in
 * archive order (split samples when all else was told), each thing once. Any of the functions may
 * be NULL. */
struct index_observer {
    void *context; /* the first argument of each */
    /* `member` is NULL where the shard itself is at fault. `offset` is the member's first data
     * byte, or where in the shard the fault is. */
    void (*problem)(void *context, size_t shard, enum index_problem problem, const char *member,
                    uint64_t offset);
    /* A field of sample number `sample`, counted from 0 within the shard. */
    void (*member)(void *context, size_t shard, uint64_t sample, const char *member,
                   const struct index_member *place);
    /* The walk over the shard ended well. */
    void (*walked)(void *context, size_t shard);
};

/* The file that a shard's members are read from. */
static inline const char *index_shard_file(const struct index_shard *shard)
{
    return shard->file ? shard->file : shard->path;
}

/* The name of a kind of problem, as in the status: static. */
const char *index_problem_name(enum index_problem problem);

/* What tells a member's header from another's: 16 bits of a hash of its INDEX_HEADER_BYTES. */
uint16_t index_header_check(const void *header);

#endif
