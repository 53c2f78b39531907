/* The file system's operations: what libfuse calls for each request of the kernel.
 *
 * Handlers run on libfuse's threads, several at once. They wait for storage and for locks that are
 * held for arithmetic alone; never for each other, for a notification, or for the names thread. The
 * one answer that has to wait for the kernel, that of a write which switches `current`, is handed
 * to the names thread. */
#ifndef SHUFFLEFS_SERVE_H
#define SHUFFLEFS_SERVE_H

#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>

#include "counters.h"
#include "names.h"
#include "readahead.h"
#include "view.h"

#include "../core/blocks.h"
#include "../core/reader.h"

/* What the operations work on: the session's user data. All outlive the session's loop. */
struct serve {
    struct view *view;
    struct reader *reader;
    struct names *names;         /* set after the session was made and before its loop runs */
    struct readahead *readahead; /* likewise */
    struct counters counters;
    char blocks_warning[BLOCKS_WARNING]; /* what order=block does to the batches; "": no harm */
    uint64_t prime;      /* positions from a folder's start whose names a listing instantiates */
    atomic_bool no_open; /* the kernel takes ENOSYS for OPEN: set by init */
};

extern const struct fuse_lowlevel_ops serve_operations;

#endif
