/* Lends memory to the read-ahead's threads. */
#include "berths.h"

#include "../core/batch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

struct berths {
    char *small, *chunks;
    struct berth *all, **free_ones; /* the free ones: from taken on */
    struct batch **batches;         /* the free ones: from batching on */
    unsigned count, taken, batching;
};

static char *rooms(size_t count, size_t each)
{
    size_t bytes = (count * each + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *memory = aligned_alloc(HUGE_PAGE, bytes);

    if (memory)
        madvise(memory, bytes, MADV_HUGEPAGE); /* nothing hangs on it */
    return memory;
}

int berths_open(struct berths **out, unsigned count, size_t chunk_bytes)
{
    struct berths *berths = calloc(1, sizeof *berths);

    if (!berths)
        return -ENOMEM;
    berths->small = rooms(count, BERTH_SMALL_BYTES);
    berths->chunks = rooms(count, chunk_bytes);
    berths->all = calloc(count, sizeof *berths->all);
    berths->free_ones = calloc(count, sizeof *berths->free_ones);
    berths->batches = calloc(count, sizeof(struct batch *));
    if (!berths->small || !berths->chunks || !berths->all || !berths->free_ones ||
        !berths->batches) {
        berths_close(berths);
        return -ENOMEM;
    }
    for (unsigned i = 0; i < count; i++) {
        berths->all[i] = (struct berth){.slot = i,
                                        .small = berths->small + i * BERTH_SMALL_BYTES,
                                        .chunk = berths->chunks + i * chunk_bytes};
        berths->free_ones[i] = &berths->all[i];
        berths->batches[i] = batch_open();
        if (!berths->batches[i]) {
            berths_close(berths);
            return -ENOMEM;
        }
        berths->count++;
    }
    *out = berths;
    return 0;
}

void berths_close(struct berths *berths)
{
    if (!berths)
        return;
    for (unsigned i = 0; i < berths->count; i++)
        batch_close(berths->batches[i]);
    free(berths->batches);
    free(berths->free_ones);
    free(berths->all);
    free(berths->chunks);
    free(berths->small);
    free(berths);
}

struct berth *berths_take(struct berths *berths)
{
    return berths->free_ones[berths->taken++];
}

void berths_give(struct berths *berths, struct berth *berth)
{
    berths->free_ones[--berths->taken] = berth;
}

unsigned berths_taken(const struct berths *berths)
{
    return berths->taken;
}

struct batch *berths_take_batch(struct berths *berths)
{
    return berths->batching < berths->count ? berths->batches[berths->batching++] : NULL;
}

void berths_give_batch(struct berths *berths, struct batch *batch)
{
    if (batch)
        berths->batches[--berths->batching] = batch;
}
