/* The orders of the epochs in use, and which epoch each rank of `current` is at, whole or resumed.
 *
 * Orders are worked out when first asked for and kept, the last used ones, within a bound of
 * memory; a thread that asks for one that is being worked out waits for it, others go on. Any
 * thread. */
#ifndef SHUFFLEFS_EPOCHS_H
#define SHUFFLEFS_EPOCHS_H

#include "../core/order.h"

#include <stdbool.h>
#include <stdint.h>

struct epochs;

/* What `current` shows: an epoch, from the start, or resumed after its first `after` places. */
struct epochs_at {
    uint64_t epoch, after;
};

/* `basis` outlives it; every rank starts at `epoch`. 0 or -ENOMEM. */
int epochs_open(struct epochs **out, const struct order_spec *spec, const struct order_basis *basis,
                uint64_t epoch);
void epochs_close(struct epochs *epochs); /* NULL is fine */

/* The order of `epoch`, held until epochs_put(). NULL: no memory for it. */
struct order *epochs_get(struct epochs *epochs, uint64_t epoch);
/* The same, but only if it is at hand; NULL: it is not. That it was looked at does not keep it. */
struct order *epochs_peek(struct epochs *epochs, uint64_t epoch);
void epochs_put(struct epochs *epochs, struct order *order);

static inline bool epochs_are_same(struct epochs_at a, struct epochs_at b)
{
    return a.epoch == b.epoch && a.after == b.after;
}

/* Where rank `rank` of `world` is at; and where ranks without an epoch of their own are at. */
struct epochs_at epochs_of_rank(struct epochs *epochs, uint64_t rank, uint64_t world);
struct epochs_at epochs_of_all(struct epochs *epochs);

/* Moves one rank, or all (which forgets single ranks' epochs). 0 or -ENOMEM. `at.after` is for the
 * caller to check. */
int epochs_move_rank(struct epochs *epochs, uint64_t rank, uint64_t world, struct epochs_at at);
void epochs_move_all(struct epochs *epochs, struct epochs_at at);

/* Different epochs that ranks are at, sorted, at most `room` of them; returns how many were
 * written. */
size_t epochs_list(struct epochs *epochs, uint64_t *list, size_t room);

#endif
