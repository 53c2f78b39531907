/* The pieces in the order of their places, in one array: few enough to be looked through. */
#include "region.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct piece {
    size_t start, end;
};

struct region {
    uint8_t *block;
    size_t bytes;
    pthread_mutex_t lock; /* guards what follows */
    size_t count;
    struct piece pieces[REGION_PIECES_MOST];
};

int region_open(struct region **out, void *block, size_t bytes)
{
    struct region *region = calloc(1, sizeof *region);

    if (!region)
        return -ENOMEM;
    region->block = block;
    region->bytes = bytes;
    pthread_mutex_init(&region->lock, NULL);
    *out = region;
    return 0;
}

void region_close(struct region *region)
{
    if (!region)
        return;
    pthread_mutex_destroy(&region->lock);
    free(region);
}

/* Under the lock: the first gap of so many bytes, and the number of the piece behind it. */
static size_t find_gap(const struct region *region, size_t bytes, size_t *start)
{
    size_t number = 0;

    *start = 0;
    for (; number < region->count; number++) {
        if (region->pieces[number].start - *start >= bytes)
            break;
        *start = region->pieces[number].end;
    }
    return number;
}

void *region_take(struct region *region, size_t bytes)
{
    void *taken = NULL;
    size_t start, number;

    if (bytes > region->bytes)
        return NULL;
    bytes = bytes ? (bytes + REGION_ALIGNMENT - 1) / REGION_ALIGNMENT * REGION_ALIGNMENT
                  : REGION_ALIGNMENT;
    pthread_mutex_lock(&region->lock);
    number = find_gap(region, bytes, &start);
    if (region->count < REGION_PIECES_MOST && region->bytes - start >= bytes) {
        memmove(region->pieces + number + 1, region->pieces + number,
                (region->count - number) * sizeof *region->pieces);
        region->pieces[number] = (struct piece){start, start + bytes};
        region->count++;
        taken = region->block + start;
    }
    pthread_mutex_unlock(&region->lock);
    return taken;
}

int region_give(struct region *region, void *piece)
{
    size_t start = (size_t)((uintptr_t)piece - (uintptr_t)region->block);
    int error = -EINVAL;

    if (!piece)
        return 0;
    pthread_mutex_lock(&region->lock);
    for (size_t i = 0; i < region->count; i++)
        if (region->pieces[i].start == start) {
            region->count--;
            memmove(region->pieces + i, region->pieces + i + 1,
                    (region->count - i) * sizeof *region->pieces);
            error = 0;
            break;
        }
    pthread_mutex_unlock(&region->lock);
    return error;
}

size_t region_count(struct region *region)
{
    size_t count;

    pthread_mutex_lock(&region->lock);
    count = region->count;
    pthread_mutex_unlock(&region->lock);
    return count;
}
