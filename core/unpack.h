/* Compressed shards, unpacked once into a folder of plain copies (core/copies.h), which are read in
 * their place.
 *
 * What a shard is tells its first bytes, not its name. A plain tar is left alone. The shard keeps
 * its name for people: in messages, the status, extended attributes. Offsets of its members count
 * in the copy.
 *
 * A copy belongs to one state of its original: path, size, modification time and inode. It is
 * complete in itself: when the original changes or goes under a mount, the mount goes on with what
 * was indexed, and the next one unpacks the new state.
 *
 * What cannot be unpacked is left out, as if this were not there: the walk counts it as compressed.
 * A stream that ends too early gives what came before, a cut tar; of one that contradicts itself
 * only what a checksum has confirmed is used (whole gzip members), else nothing. Both are warned
 * of, at every mount, and counted (unpack_figures.faulty). */
#ifndef SHUFFLEFS_UNPACK_H
#define SHUFFLEFS_UNPACK_H

#include "shards.h"

#include <stddef.h>
#include <stdint.h>

struct unpack;

/* Who waits for another process that unpacks the same shard goes on beside it when that does not
 * get on for so long. Milliseconds. */
#define UNPACK_PATIENCE_MS 20000

/* Unpacks the compressed ones of `list`, several at once. `folder`: an
 * absolute path; NULL: `unpacked` in the user's cache folder; "none": nothing is unpacked. `most`:
 * the bytes that the folder may hold, 0: half of what is free. Returns 0; or a negative errno,
 * reported: no memory, or a shard that cannot be read. A folder that cannot be used, or is too
 * small, leaves shards out, and one line says so. */
int unpack_open(struct unpack **out, const struct shard_list *list, const char *folder,
                uint64_t most, unsigned patience_ms);
/* The copies may be removed from then on. NULL is fine. */
void unpack_close(struct unpack *unpack);

/* One a shard: the copy that is read in its place, or NULL. NULL: there is none at all. */
char **unpack_files(const struct unpack *unpack);

/* Tells of each shard whose stream is cut or corrupt: its number, and where in the compressed file.
 */
void unpack_faults(const struct unpack *unpack,
                   void (*tell)(void *context, size_t shard, uint64_t offset), void *context);

struct unpack_figures {
    size_t shards;   /* that are read from copies */
    size_t made;     /* of these, by this call */
    uint64_t bytes;  /* of these copies */
    size_t left_out; /* compressed, and not unpacked */
    size_t faulty;   /* whose stream is cut or corrupt */
};
struct unpack_figures unpack_figures(const struct unpack *unpack);

#endif
