/* Class texts out of json members, saved beside the saved index, so that a mount need not read the
 * members again: PATH-OF-THE-INDEX.HASH.labels, where HASH is one of the key.
 *
 * The file, numbers little-endian: struct json_saved_header, then the texts, a NUL after each, one
 * a sample. `identity` covers the key and each shard's base name, hash, size and times: one of them
 * is another, and the texts are made anew.
 *
 * Replaced by renaming, never changed where it stands; of two that write at once the second keeps
 * what it has in memory. Private to core/. */
#ifndef SHUFFLEFS_JSON_SAVED_H
#define SHUFFLEFS_JSON_SAVED_H

#include "index.h"

#include <stddef.h>
#include <stdint.h>

struct json_saved_header {
    char magic[16];
    uint32_t version, byte_order;
    uint64_t identity, samples, bytes; /* `bytes`: of the texts */
    uint64_t checksum;                 /* of the header as if this were 0, and of the texts */
};

/* The texts of all samples of the index, allocated. 0; -ENOENT: there is none that is right; or
 * -ENOMEM. */
int json_saved_load(const struct index *index, const char *key, char **texts);

/* Saves them, where the index is saved. Why not is warned of in one line: nothing hangs on it. */
void json_saved_keep(const struct index *index, const char *key, const char *texts, size_t bytes);

#endif
