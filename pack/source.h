/* Where the samples come from: a folder's files, or shards. Lists them, and reads their bytes.
 *
 * A folder is walked in full. Links to files and to folders are followed; one that leads in a
 * circle or to nothing is refused by name, as is what cannot be read. Folders whose name starts
 * with a dot are left out (as INDEX_LITTER). Shards are read as the mount reads them
 * (core/index.h). */
#ifndef SHUFFLEFS_PACK_SOURCE_H
#define SHUFFLEFS_PACK_SOURCE_H

#include "../core/index.h"
#include "../core/reader.h"
#include "../core/unpack.h"
#include "listing.h"
#include "options.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack_source {
    struct pack_listing listing;
    const char *root_path; /* of a folder: as given; NULL: shards */
    int root;              /* of a folder, opened; else -1 */
    struct shard_list shards;
    struct unpack *unpack; /* copies of compressed shards */
    struct index *index;
    struct reader *reader;
};

/* Lists what options->sources name. 0, or a negative errno, reported: nothing to pack, a name that
 * is there twice, what cannot be read, shards that are damaged. `source` is to be closed in any
 * case. */
int pack_source_open(struct pack_source *source, const struct pack_options *options);
void pack_source_close(struct pack_source *source);

/* A member while it is read. Starts as {.fd = -1}. */
struct pack_reading {
    const struct pack_source *source;
    const struct pack_member *member;
    int fd;
    uint64_t offset;
};

/* Opens a member that is not made. 0 or a negative errno, reported. Any thread. */
int pack_reading_open(struct pack_reading *reading, const struct pack_source *source,
                      const struct pack_member *member);

/* The next `size` bytes, which are all there or a fault: 0 or a negative errno, reported with file
 * and offset. After the last byte the file is looked at once more: one that is no longer what was
 * listed (size, modification time) is a fault, -ESTALE. */
int pack_reading_take(struct pack_reading *reading, void *buffer, size_t size);
void pack_reading_close(struct pack_reading *reading);

/* Private to source.c and its halves. */
int pack_tree_list(struct pack_source *source, const char *folder);
int pack_tars_list(struct pack_source *source, const struct pack_options *options);

#endif
