/* Where the pieces of a file stand that is made while it is read: one piece for each position of a
 * rank, of any length. One pass when the file is first used notes where every MARKS_EVERY-th piece
 * starts; from there on it is O(log n) to any byte. */
#ifndef SHUFFLEFS_MARKS_H
#define SHUFFLEFS_MARKS_H

#include "view.h"

/* Pieces between two marks: what a read passes over at the most, against 8 bytes of memory a mark.
 */
#define MARKS_EVERY 256

/* The length in bytes of the piece at `position`. */
typedef uint64_t marks_measure(struct view *view, const struct view_node *node,
                               const struct order *order, uint64_t position);

/* Makes node->marks and node->made_bytes, the latter with `extra` bytes past the last piece; more
 * than once is fine, from any thread. 0 or -ENOMEM. */
int marks_prepare(struct view *view, struct view_node *node, marks_measure *measure,
                  uint64_t extra);

/* Of a prepared node, the last marked position that starts at or before byte `from`, and where it
 * starts. */
uint64_t marks_seek(const struct view_node *node, uint64_t from, uint64_t *start);

#endif
