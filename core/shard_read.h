/* How the walk over a shard reads its file: headers, mostly, and little of what lies between.
 * Private to core/. One thread a file.
 *
 * Behind a jump only so much is read as a header or two take; twice as much follows where nothing
 * is skipped, so that small members are read by whole buffers. That is all where the file is in the
 * page cache. Where it is not, two ways are timed against each other, each over a stretch of the
 * file: to wait for each little read, or to have all that lies between brought in ahead, a window
 * at a time. The first is better where storage answers many small reads a second, as NVMe does; the
 * second where each answer takes long, as over a network, or where the members are small. */
#ifndef SHUFFLEFS_SHARD_READ_H
#define SHUFFLEFS_SHARD_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum shard_read_way {
    SHARD_READ_UNDECIDED, /* each read waited for and timed, until some had to be */
    SHARD_READ_TRYING,    /* reading ahead, timed */
    SHARD_READ_LITTLE,    /* decided, for some part of the file */
    SHARD_READ_AHEAD,
};

/* Starts as {.fd, .size}. */
struct shard_read {
    int fd;
    uint64_t size;  /* bytes of the file */
    uint64_t after; /* where what was read last ends */
    size_t length;  /* of what was asked for last */
    bool unadvised; /* advice is of no use */
    bool unasked;   /* the file system does not tell whether it has to wait: the clock does */
    enum shard_read_way way;
    uint64_t since;    /* where in the file this way began */
    uint64_t waited;   /* ns, since then */
    uint64_t shortest; /* ns, of these waits */
    unsigned waits;    /* so many reads had to wait */
    unsigned reads;    /* of all */
    uint64_t least;    /* the shortest wait for one little read */
    double little;  /* ns waited for each byte of the file that was got past, one read at a time */
    uint64_t asked; /* up to here what lies ahead is on its way */
};

/* Reads up to `room` bytes from byte `from` on, at least a block of a tar where the file has that
 * much: as much as seems of use. Returns the bytes read, 0 at the file's end, or -1 with errno. */
ssize_t shard_read_some(struct shard_read *read, char *buffer, size_t room, uint64_t from);

#endif
