/* Reads around the page cache that are asked for at once: one call for several, which the kernel
 * gives to storage together, and one wait. By the kernel's own asynchronous reads (io_submit(2)),
 * as these are allowed in containers where io_uring is not. For core/reader.c; others
 * open and close them. */
#ifndef SHUFFLEFS_BATCH_H
#define SHUFFLEFS_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BATCH_MOST 8

struct batch; /* of one thread at a time */

/* NULL: no memory. The kernel is asked at the first read. */
struct batch *batch_open(void);
/* NULL is fine. What the kernel has for it stays until the process ends. */
void batch_close(struct batch *batch);

/* Whether the kernel does this here: some are built without it, some containers forbid it, and the
 * machine may have given out all. Asks it once. */
bool batch_is_able(struct batch *batch);

struct batch_read {
    int fd; /* O_DIRECT */
    char *to;
    size_t size;
    uint64_t offset;
    ssize_t got; /* result: bytes, or a negative errno */
};

/* Up to BATCH_MOST reads; returns when all have ended. Where the kernel takes none (-ENOSYS,
 * -EAGAIN when the machine has too many), that is what they got. */
void batch_read(struct batch *batch, struct batch_read *reads, size_t count);

#endif
