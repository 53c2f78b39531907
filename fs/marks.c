/* Where pieces of made files stand. Owns nothing: the marks are the node's. */
#include "marks.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Guards the making of `marks` and `made_bytes` of all nodes: rare, and no handler waits under it
 * for anything but arithmetic. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static uint64_t *make(struct view *view, const struct view_node *node, const struct order *order,
                      marks_measure *measure, uint64_t *size)
{
    uint64_t *marks = calloc(node->plan.length / MARKS_EVERY + 1, sizeof *marks);

    *size = 0;
    for (uint64_t position = 0; marks && position < node->plan.length; position++) {
        if (position % MARKS_EVERY == 0)
            marks[position / MARKS_EVERY] = *size;
        *size += measure(view, node, order, position);
    }
    return marks;
}

int marks_prepare(struct view *view, struct view_node *node, marks_measure *measure, uint64_t extra)
{
    int fault = 0;

    pthread_mutex_lock(&making);
    if (!node->marks) {
        struct order *order = epochs_get(view_epochs(view), node->epoch);
        if (order) {
            node->marks = make(view, node, order, measure, &node->made_bytes);
            node->made_bytes += extra;
            epochs_put(view_epochs(view), order);
        }
        if (!node->marks)
            fault = -ENOMEM;
    }
    pthread_mutex_unlock(&making);
    return fault;
}

uint64_t marks_seek(const struct view_node *node, uint64_t from, uint64_t *start)
{
    uint64_t low = 0, high = (node->plan.length + MARKS_EVERY - 1) / MARKS_EVERY;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (node->marks[middle] <= from)
            low = middle;
        else
            high = middle;
    }
    *start = node->marks[low];
    return low * MARKS_EVERY;
}
