/* rank-R.list: a rank's files and labels as one text, made while it is read.
 *
 * A line is `../epoch-E/NAME/POSITION.EXT LABEL`, or without the label where the sample has none.
 * NAME is the share's as it is spelled there: with `.after-G` where the epoch is resumed.
 */
#ifndef SHUFFLEFS_LIST_H
#define SHUFFLEFS_LIST_H

#include "view.h"

/* Makes the node ready to be read, and its size known; more than once is fine, from any thread. 0
 * or -ENOMEM. */
int list_prepare(struct view *view, struct view_node *node);

/* Of a prepared node: copies up to `size` bytes from byte `from` on. Returns how many (0: past the
 * end) or -ENOMEM. */
ssize_t list_read(struct view *view, const struct view_node *node, char *buffer, size_t size,
                  uint64_t from);

#endif
