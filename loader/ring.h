/* Bytes of samples on their way from the stream's reader to the workers: a fixed piece of memory,
 * taken in order and given back in any order. A piece is never split; one may reach past `bytes`
 * into the `largest` bytes that follow for this. Knows no lock: the owner has one. */
#ifndef SHUFFLELOAD_RING_H
#define SHUFFLELOAD_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
    uint8_t *memory;
    size_t bytes, largest;
    size_t pieces_most;
    struct ring_piece *pieces; /* piece n at n % pieces_most */
    uint64_t oldest, next;     /* pieces [oldest, next) are out */
    size_t head;               /* where the newest one ends */
};

/* At most `pieces_most` pieces of at most `largest` bytes are out at once. 0 or -ENOMEM. */
int ring_open(struct ring *ring, size_t bytes, size_t largest, size_t pieces_most);
void ring_close(struct ring *ring);

/* Forgets all pieces. */
void ring_clear(struct ring *ring);

/* Piece number ring->next, of `size` <= largest bytes: NULL when there is no room now. When none is
 * out there always is. */
uint8_t *ring_take(struct ring *ring, size_t size);

/* Gives piece `number` back. */
void ring_give(struct ring *ring, uint64_t number);

#endif
