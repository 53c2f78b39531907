/* Which table is used, texts of its errors, and the end of the process. */
#include "cuda_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static _Atomic(const struct cuda_table *) replacement;
static atomic_bool exiting;
static pthread_once_t watching = PTHREAD_ONCE_INIT;

/* cuda_runtime.cu has the true one, where it is linked in. */
__attribute__((weak)) const struct cuda_table *cuda_runtime_table(void)
{
    return NULL;
}

const struct cuda_table *cuda_table(void)
{
    const struct cuda_table *other = atomic_load(&replacement);

    return other ? other : cuda_runtime_table();
}

void cuda_table_replace(const struct cuda_table *table)
{
    atomic_store(&replacement, table);
}

static void note_exit(void)
{
    atomic_store(&exiting, true);
}

static void watch(void)
{
    /* Handlers run last first: this one before the runtime's own, which came with its first use.
     * Where there is no room for it, CUDA says that it is being unloaded, and no more. */
    (void)atexit(note_exit);
}

void cuda_exit_watch(void)
{
    pthread_once(&watching, watch);
}

bool cuda_exiting(void)
{
    return atomic_load(&exiting);
}

int cuda_fault(const struct cuda_table *table, const char *call, int error, struct fault *fault)
{
    int code = error == CUDA_OUT_OF_MEMORY ? -ENOMEM
               : error == CUDA_OLD_DRIVER || error == CUDA_NO_DEVICE ||
                       error == CUDA_WRONG_DEVICE || error == CUDA_NO_IMAGE
                   ? -ENODEV
                   : -EIO;

    return fault_set(fault, code, "%s: %s (%d): %s", call, table->error_name(error), error,
                     table->error_text(error));
}
