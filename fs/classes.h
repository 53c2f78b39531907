/* rank-R.classes: a folder for each class, and in it the rank's samples of that class.
 *
 * Which folders there are is the same for all ranks and epochs, so that a loader that numbers them
 * in name order has the same numbers everywhere:
 *   integer labels   the number, as wide as the largest: one folder for each of 0 to the largest,
 *                    so that a folder's place is its label. Where one is negative, or the largest
 *                    is far above the number of classes, only those that exist, which is said once
 *   named classes    their texts, in the order of their labels: what cannot stand in a name is
 *                    '_'. Where two would then be one, or stand in another order, the labels'
 *                    numbers instead, which is said once
 *
 * Which positions are of a class is worked out in one pass over the rank when a class's folder is
 * listed, and kept for its other folders: 4 bytes a position and 8 a class. Those of the ranks
 * listed last stay, at least two and more within CLASSES_KEPT_BYTES: the kernel may remember every
 * epoch's folders. To find a name needs none of that. Any thread. */
#ifndef SHUFFLEFS_CLASSES_H
#define SHUFFLEFS_CLASSES_H

#include "../core/labels.h"
#include "../core/plan.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLASSES_NAME_BYTES 255
/* Integer labels up to so many times the number of classes, and so many more, have a folder for
 * each number. */
#define CLASSES_SPREAD_TIMES 10
#define CLASSES_SPREAD_MORE  1000
/* The folder of a sample without a label. */
#define CLASSES_NONE UINT32_MAX
/* Shelves are kept within that, but for two. */
#define CLASSES_KEPT_BYTES ((size_t)32 << 20)

struct classes;

/* `labels` of `samples` samples outlive it. *out is NULL where there are none. 0 or -ENOMEM. */
int classes_open(struct classes **out, const struct labels *labels, uint64_t samples);
void classes_close(struct classes *classes); /* NULL is fine */

/* Folders are numbered in the order of their names. `name` holds CLASSES_NAME_BYTES + 1. */
uint32_t classes_count(const struct classes *classes);
void classes_name(const struct classes *classes, uint32_t folder, char *name);
int64_t classes_label(const struct classes *classes, uint32_t folder);
/* The folder of that name; false: there is none. O(log n). */
bool classes_find(const struct classes *classes, const char *name, uint32_t *folder);
/* The folder of a sample, or CLASSES_NONE. */
uint32_t classes_of(const struct classes *classes, uint64_t sample);

/* What the node of rank-R.classes keeps. */
struct shelf;

/* `classes` outlives it. 0 or -ENOMEM. */
int shelf_open(struct shelf **out, struct classes *classes);
void shelf_close(struct shelf *shelf); /* NULL is fine */

/* The positions of one class, in ascending order: *positions is the shelf's, until shelf_done(),
 * which follows each take that worked. The first call works out those of all; others wait for it.
 * 0, -ENOMEM, or -EFBIG: the rank has 2^32 positions or more. */
int shelf_take(struct shelf *shelf, const struct order *order, const struct plan *plan,
               uint32_t folder, const uint32_t **positions, uint32_t *count);
void shelf_done(struct shelf *shelf);

/* Bytes of all shelves' positions. */
size_t classes_kept_bytes(struct classes *classes);

/* How readers go through the folders, told by their LOOKUPs. Who reads class after class passes
 * over the positions between: to read ahead of that in the epoch's order would be for nothing, and
 * its way through each class looks like one more pass. */
enum shelf_way {
    SHELF_IN_ORDER,      /* as far as is known */
    SHELF_TURNED,        /* class after class: this LOOKUP shows it */
    SHELF_CLASS_BY_CLASS /* so it was before */
};
enum shelf_way shelf_looked(struct shelf *shelf, uint32_t folder, uint64_t position);

/* Whether LOOKUPs have shown that whoever reads does not go class by class: then who comes to the
 * rank's last position has read the rank to its end. */
bool shelf_is_in_order(const struct shelf *shelf);

#endif
