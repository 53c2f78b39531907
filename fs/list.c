/* rank-R.list, made while it is read. Owns the marks of where its lines stand; never the text. */
#include "list.h"

#include "../core/fields.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lines between two marks: what a read makes in vain at the most, against 8 bytes of memory a mark.
 */
#define MARK_LINES 256
/* The longest line: two names and a label. */
#define LINE_BYTES 1024

/* Guards the making of `list` and `list_bytes` of all nodes: rare, and no handler waits under it
 * for anything but arithmetic. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static size_t write_line(struct view *view, const struct view_node *node, struct order *order,
                         uint64_t position, char *line)
{
    const struct dataset *dataset = view_dataset(view);
    const struct index *index = dataset->index;
    uint64_t sample = order_sample(order, plan_global(&node->plan, position));
    uint64_t member = fields_primary(index, dataset->config->fields, sample);
    int rank_bytes = (int)(strlen(node->name) - strlen(".list"));
    size_t length = (size_t)snprintf(line, LINE_BYTES, "../epoch-%llu/%.*s/",
                                     (unsigned long long)node->epoch, rank_bytes, node->name);

    length += grammar_file_name(view_grammar(view), GRAMMAR_PLAIN, position, sample,
                                index->fields[index->members[member].field], line + length);
    if (dataset->labels.of && dataset->labels.of[sample] != LABELS_MISSING) {
        line[length++] = ' ';
        length += dataset_label_text(dataset, sample, line + length);
    }
    line[length++] = '\n';
    return length;
}

/* Where every MARK_LINES-th line starts; allocated. */
static uint64_t *make_marks(struct view *view, const struct view_node *node, struct order *order,
                            uint64_t *size)
{
    uint64_t *marks = calloc(node->plan.length / MARK_LINES + 1, sizeof *marks);
    char line[LINE_BYTES];

    *size = 0;
    for (uint64_t position = 0; marks && position < node->plan.length; position++) {
        if (position % MARK_LINES == 0)
            marks[position / MARK_LINES] = *size;
        *size += write_line(view, node, order, position, line);
    }
    return marks;
}

int list_prepare(struct view *view, struct view_node *node)
{
    int fault = 0;

    pthread_mutex_lock(&making);
    if (!node->list) {
        struct order *order = epochs_get(view_epochs(view), node->epoch);
        if (order) {
            node->list = make_marks(view, node, order, &node->list_bytes);
            epochs_put(view_epochs(view), order);
        }
        if (!node->list)
            fault = -ENOMEM;
    }
    pthread_mutex_unlock(&making);
    return fault;
}

/* The last mark at or before byte `from`. */
static uint64_t find_mark(const struct view_node *node, uint64_t from)
{
    const uint64_t *marks = node->list;
    uint64_t low = 0, high = (node->plan.length + MARK_LINES - 1) / MARK_LINES;

    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (marks[middle] <= from)
            low = middle;
        else
            high = middle;
    }
    return low;
}

ssize_t list_read(struct view *view, const struct view_node *node, char *buffer, size_t size,
                  uint64_t from)
{
    struct order *order;
    char line[LINE_BYTES];
    uint64_t mark, at, position;
    size_t done = 0;

    if (from >= node->list_bytes)
        return 0;
    order = epochs_get(view_epochs(view), node->epoch);
    if (!order)
        return -ENOMEM;
    mark = find_mark(node, from);
    at = ((const uint64_t *)node->list)[mark];
    for (position = mark * MARK_LINES; done < size && position < node->plan.length; position++) {
        size_t length = write_line(view, node, order, position, line), skip, take;
        skip = from > at ? (from - at < length ? (size_t)(from - at) : length) : 0;
        take = length - skip < size - done ? length - skip : size - done;
        memcpy(buffer + done, line + skip, take);
        done += take;
        at += length;
    }
    epochs_put(view_epochs(view), order);
    return (ssize_t)done;
}
