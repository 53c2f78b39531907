/* The header blocks of one tar member, as libarchive writes them: ustar, mode 0644, uid and gid 0,
 * no user's name. A PAX header comes before it where ustar cannot hold the name or the size, and
 * only there. */
#ifndef SHUFFLEFS_PACK_HEADER_H
#define SHUFFLEFS_PACK_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACK_BLOCK 512
/* Two zero blocks end a tar. */
#define PACK_TRAILER ((size_t)2 * PACK_BLOCK)

struct pack_header {
    uint8_t *bytes; /* owned */
    size_t size, room;
    bool pax;
    bool whole;    /* what libarchive still writes is not the header's */
    char why[128]; /* of a failure: libarchive's own words */
};

/* Fills `header`, which starts as {0} and may be used again. Whole seconds from 0 to what ustar
 * holds; others are brought to the nearest. 0, -ENOMEM, or -EINVAL: this cannot be a member. Any
 * thread, a header each. */
int pack_header_make(struct pack_header *header, const char *name, uint64_t size, int64_t seconds);
void pack_header_close(struct pack_header *header);

/* Bytes rounded up to whole blocks. */
uint64_t pack_blocks(uint64_t bytes);

#endif
