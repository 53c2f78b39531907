/* Who reads in order, and who reads this way and that and was near by chance? Nothing is pushed for
 * the latter: it would be read for nothing.
 *
 * The former pass the marks one after the other. Before they came to any, they have read most of
 * what lies between where they began and where they are, one soon after the other: half of it, or
 * an eighth where several workers read batches side by side. Pure. */
#ifndef SHUFFLEFS_TRUST_H
#define SHUFFLEFS_TRUST_H

#include "track.h"

#define TRUST_WINDOW_MOST ((uint64_t)1 << 20)

/* The reader is met again, `events` events of all readers later; of each of them, when several are
 * about. If that is long, and it passed no marks, it may be somebody else. */
void trust_after(struct track *track, uint64_t events, uint64_t position);
/* It was met further on than it was expected, or reads came that fitted no track: somebody who
 * reads in random order is about. */
void trust_shaken(struct track *track);
/* It was met, by a READ or by a LOOKUP; track->head is where it is. Sets track->trusted. */
void trust_met(struct track *track, uint64_t position, bool read);

/* A pass over a folder, in order or not: a reader in no order, as a loader is that shuffles by
 * itself, comes to the last sample at any time, and is no pass. It is trusted soon where the folder
 * is small, so READs alone tell: of a reader in order, most are not seen, as it finds what was
 * pushed. */
void trust_step(struct track *track, uint64_t position);
/* Nothing speaks against order; there is clearly none. Neither: too few steps, of both kinds. */
bool trust_in_order(const struct track_steps *order);
bool trust_in_no_order(const struct track_steps *order);
/* The reader, at the folder's end, came there in order and by way of what lies before it. */
bool trust_passed_all(const struct track *track);

/* Whether its names should be looked up ahead of it: it is trusted, or looks them up in order. */
bool trust_to_look(const struct track *track);

/* The most positions that may be pushed ahead of it. */
uint64_t trust_window(const struct track *track);

#endif
