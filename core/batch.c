/* Asks for several reads at once. Owns a context of the kernel. */
#include "batch.h"

#include <errno.h>
#include <linux/aio_abi.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct batch {
    aio_context_t context; /* 0: none yet */
    int fault;             /* a negative errno: there will be none */
};

struct batch *batch_open(void)
{
    return calloc(1, sizeof(struct batch));
}

/* The context goes with the process: the kernel takes all of its contexts back at once then, but
 * one after the other, each in up to 30 ms, where they are given back by io_destroy(2). */
void batch_close(struct batch *batch)
{
    free(batch);
}

bool batch_is_able(struct batch *batch)
{
    if (!batch->context && !batch->fault && syscall(SYS_io_setup, BATCH_MOST, &batch->context))
        batch->fault = -errno;
    return batch->context;
}

/* Gives the context up, which waits for what is still being read. */
static void give_up(struct batch *batch, int fault)
{
    syscall(SYS_io_destroy, batch->context);
    batch->context = 0;
    batch->fault = fault;
}

/* Waits for `count` reads that were taken. */
static void wait_for(struct batch *batch, struct batch_read *reads, size_t count)
{
    struct io_event events[BATCH_MOST];

    while (count) {
        long got = syscall(SYS_io_getevents, batch->context, 1L, (long)count, events, NULL);
        if (got < 0 && errno != EINTR) {
            give_up(batch, -errno);
            return;
        }
        for (long i = 0; i < got; i++)
            reads[events[i].data].got = (ssize_t)events[i].res;
        count -= got > 0 ? (size_t)got : 0;
    }
}

void batch_read(struct batch *batch, struct batch_read *reads, size_t count)
{
    struct iocb asked[BATCH_MOST], *list[BATCH_MOST];
    size_t taken = 0;

    for (size_t i = 0; i < count; i++) {
        asked[i] = (struct iocb){.aio_data = i,
                                 .aio_lio_opcode = IOCB_CMD_PREAD,
                                 .aio_fildes = (uint32_t)reads[i].fd,
                                 .aio_buf = (uintptr_t)reads[i].to,
                                 .aio_nbytes = reads[i].size,
                                 .aio_offset = (int64_t)reads[i].offset};
        list[i] = &asked[i];
        reads[i].got = batch->fault ? batch->fault : -EAGAIN;
    }
    if (!batch_is_able(batch))
        return;
    while (taken < count) {
        long got = syscall(SYS_io_submit, batch->context, (long)(count - taken), list + taken);
        if (got <= 0) {
            reads[taken].got = got ? -errno : -EAGAIN;
            break;
        }
        taken += (size_t)got;
    }
    wait_for(batch, reads, taken);
}
