/* rank-R.list, made while it is read. Owns nothing. */
#include "list.h"

#include "marks.h"

#include "../core/fields.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The longest line: two names and a label. */
#define LINE_BYTES 1024

static size_t write_line(struct view *view, const struct view_node *node, const struct order *order,
                         uint64_t position, char *line)
{
    const struct dataset *dataset = view_dataset(view);
    const struct index *index = dataset->index;
    uint64_t sample = order_sample(order, plan_global(&node->plan, position));
    uint64_t member = fields_primary(index, dataset->config->fields, sample);
    size_t length = (size_t)snprintf(line, LINE_BYTES, "../epoch-%llu/",
                                     (unsigned long long)node->epoch);

    length += grammar_resumed_name(node->name, node->plan.share.after, line + length,
                                   GRAMMAR_SHARE_BYTES) -
              strlen(grammar_suffix(GRAMMAR_LIST));
    line[length++] = '/';
    length += grammar_file_name(view_grammar(view), GRAMMAR_PLAIN, position, sample,
                                index->fields[index->members[member].field], line + length);
    if (dataset->labels.of && dataset->labels.of[sample] != LABELS_MISSING) {
        line[length++] = ' ';
        length += dataset_label_text(dataset, sample, line + length);
    }
    line[length++] = '\n';
    return length;
}

static uint64_t measure_line(struct view *view, const struct view_node *node,
                             const struct order *order, uint64_t position)
{
    char line[LINE_BYTES];
    return write_line(view, node, order, position, line);
}

int list_prepare(struct view *view, struct view_node *node)
{
    return marks_prepare(view, node, measure_line, 0);
}

ssize_t list_read(struct view *view, const struct view_node *node, char *buffer, size_t size,
                  uint64_t from)
{
    struct order *order;
    char line[LINE_BYTES];
    uint64_t at, position;
    size_t done = 0;

    if (from >= node->made_bytes)
        return 0;
    order = epochs_get(view_epochs(view), node->epoch);
    if (!order)
        return -ENOMEM;
    for (position = marks_seek(node, from, &at); done < size && position < node->plan.length;
         position++) {
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
