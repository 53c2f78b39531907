/* Reads ahead of readers, in the order that is known, and pushes whole files into the kernel's page
 * cache before they are asked for; looks their names up too, so that a reader that never listed its
 * folder finds both.
 *
 * Threads of its own: pushers read a file from its shard and store it (fs/push.h), or a piece of a
 * stream; a scout lists the readers' folders ahead of them through a private clone of the mount
 * (fs/names.h), whose listings the view answers with every name instantiated. Two pushers work
 * while the shards come from the page cache, more while reads come from storage. They hold no lock
 * that a handler waits for while they read or store; handlers only note what they saw. A read that
 * fails here is nobody's fault until a reader asks for it. */
#ifndef SHUFFLEFS_READAHEAD_H
#define SHUFFLEFS_READAHEAD_H

#include "follow.h"
#include "names.h"

#include "../core/reader.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct readahead;

/* What was pushed so far, and for whom: see struct follow_figures. */
struct readahead_figures {
    uint64_t files, bytes; /* pushed */
    uint64_t limit;        /* most bytes that are ahead of all readers */
    struct follow_figures follow;
};

/* Starts the threads. Everything given outlives it; `names` may be stopped only after it.
 * `reader_bytes` 0: reads nothing ahead and starts none, but follows readers all the same. 0 or a
 * negative errno. */
int readahead_open(struct readahead **out, struct fuse_session *session, struct view *view,
                   struct reader *reader, struct names *names, uint64_t reader_bytes,
                   uint64_t total_bytes);
/* Ends the threads; handlers must still run. */
void readahead_stop(struct readahead *readahead);
void readahead_close(struct readahead *readahead); /* NULL is fine */

/* What handlers saw: see fs/follow.h. Any thread; they never wait but for arithmetic. */
void readahead_listed(struct readahead *readahead, const struct view_node *folder, uint64_t end);
/* `inode`: of what the name at `position` leads to. */
void readahead_looked(struct readahead *readahead, const struct view_node *folder,
                      uint64_t position, uint64_t inode);
void readahead_read(struct readahead *readahead, uint64_t member, bool again, uint64_t took);
void readahead_read_on(struct readahead *readahead, uint64_t member, uint64_t took);
void readahead_read_label(struct readahead *readahead, uint64_t sample, uint64_t took);
/* A READ of a prepared stream came. */
void readahead_read_stream(struct readahead *readahead, struct view_node *stream, uint64_t from,
                           size_t size);

/* Bytes that are being read ahead right now, or are kept, for a READ that asks for them: see
 * flights_take_member(). A piece of a stream, which does not cross a multiple of CHUNK_BYTES: what
 * is not there will be read by the caller, and not be read ahead. */
ssize_t readahead_take_member(struct readahead *readahead, uint64_t member, char *buffer,
                              size_t size, uint64_t from);
bool readahead_take_piece(struct readahead *readahead, const struct view_node *stream,
                          uint64_t from, size_t size, char *buffer);

/* The kernel forgot the node, or its path shows another epoch. */
void readahead_left(struct readahead *readahead, uint64_t inode);
/* Of the paths in `current` that now show another epoch, those that were read, or at least that of
 * the rank which was named (NULL: none was), get its start read ahead. */
void readahead_moved(struct readahead *readahead, const struct view_left *left, size_t count,
                     const char *rank, struct epochs_at at, const struct plan *plan);

/* Whether a request comes from the scout: then a listing instantiates all its names. */
bool readahead_is_scout(const struct readahead *readahead, pid_t thread);

/* The readers that were followed lately: see follow_readers(). */
size_t readahead_readers(struct readahead *readahead, struct follow_reader *readers, size_t room);

struct readahead_figures readahead_figures(struct readahead *readahead);

#endif
