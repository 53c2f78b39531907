/* Samples out of a tar, one after the other, by one sequential read.
 *
 * libarchive reads the headers, in all their dialects, and unpacks (gzip, zstd, xz, bzip2, lz4). A
 * sample is WebDataset's: members that stand side by side and share a key, the path up to the first
 * dot of the base name. One stream belongs to one thread, but for tarstream_stop(). */
#ifndef SHUFFLELOAD_TARSTREAM_H
#define SHUFFLELOAD_TARSTREAM_H

#include "fault.h"
#include "sample.h"
#include "settings.h"

#include <stdbool.h>
#include <stddef.h>

/* How a stream gets memory for a sample's content: `size` bytes that stay until the owner is done
 * with the sample; NULL: stop. */
struct tarstream_memory {
    void *(*take)(void *context, size_t size);
    void *context;
};

struct tarstream;

/* Opens a path: a regular file, a fifo, a socket. Does not read. */
int tarstream_open(struct tarstream **out, const char *path, const struct settings *settings,
                   struct fault *fault);
/* The same on bytes in memory, which stay the caller's. For tests. */
int tarstream_open_bytes(struct tarstream **out, const void *bytes, size_t size,
                         const struct settings *settings, struct fault *fault);
void tarstream_close(struct tarstream *stream); /* NULL is fine */

/* From the start again: 0, or -ESPIPE where that cannot be, once something was read. */
int tarstream_rewind(struct tarstream *stream, struct fault *fault);

/* The next sample. 1: `sample` is one (its error may be -EFBIG: over the limit, passed over, or
 * -ENOTSUP: its content is a link to another member); 0: the end (two zero blocks, or of the file:
 * behind a lone zero block the tar is read on, unless it is compressed); -ECANCELED: memory was
 * refused or tarstream_stop() called; another negative errno: the tar cannot be read on. Where
 * memory->take is NULL the content is passed over. */
int tarstream_next(struct tarstream *stream, const struct tarstream_memory *memory,
                   struct sample *sample, struct fault *fault);

/* Ends a read that waits, in a fifo or socket. Any thread. Stays until tarstream_rewind(). */
void tarstream_stop(struct tarstream *stream);

#endif
