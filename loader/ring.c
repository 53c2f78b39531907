/* The ring between the stream's reader and the workers. */
#include "ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 64 };

struct ring_piece {
    size_t start;
    bool given;
};

int ring_open(struct ring *ring, size_t bytes, size_t largest, size_t pieces_most)
{
    memset(ring, 0, sizeof *ring);
    ring->bytes = bytes;
    ring->largest = (largest + ALIGNMENT) / ALIGNMENT * ALIGNMENT;
    ring->pieces_most = pieces_most;
    ring->pieces = calloc(pieces_most, sizeof *ring->pieces);
    /* What follows `bytes` is address space only: pages that no sample ever reaches cost nothing.
     */
    ring->memory = mmap(NULL, bytes + ring->largest, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ring->memory == MAP_FAILED || !ring->pieces) {
        if (ring->memory == MAP_FAILED)
            ring->memory = NULL;
        ring_close(ring);
        return -ENOMEM;
    }
    /* All of the part that is always used, now; what the kernel cannot do, the first lap does. */
    madvise(ring->memory, bytes, MADV_HUGEPAGE);
    madvise(ring->memory, bytes, MADV_POPULATE_WRITE);
    return 0;
}

void ring_close(struct ring *ring)
{
    if (ring->memory)
        munmap(ring->memory, ring->bytes + ring->largest);
    free(ring->pieces);
    memset(ring, 0, sizeof *ring);
}

void ring_clear(struct ring *ring)
{
    ring->oldest = ring->next = 0;
    ring->head = 0;
}

uint8_t *ring_take(struct ring *ring, size_t size)
{
    size_t start = ring->head;
    /* Never empty: so a head that meets the tail means full, and nothing else. */
    size_t room = (size + ALIGNMENT) / ALIGNMENT * ALIGNMENT;

    if (ring->oldest == ring->next) {
        start = 0;
    } else {
        size_t tail = ring->pieces[ring->oldest % ring->pieces_most].start;

        if (ring->next - ring->oldest == ring->pieces_most)
            return NULL;
        if (start > tail && start >= ring->bytes)
            start = 0; /* wraps */
        if (start <= tail && tail - start < room)
            return NULL;
    }
    ring->pieces[ring->next % ring->pieces_most] = (struct ring_piece){start, false};
    ring->next++;
    ring->head = start + room;
    return ring->memory + start;
}

void ring_give(struct ring *ring, uint64_t number)
{
    ring->pieces[number % ring->pieces_most].given = true;
    while (ring->oldest < ring->next && ring->pieces[ring->oldest % ring->pieces_most].given)
        ring->oldest++;
}
