/* Extended attributes, made when asked for. Owns nothing. */
#include "xattrs.h"

#include "listing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "user.shufflefs."

/* Below: the value's bytes, or a negative errno; -ENODATA: there is none of that name. */

static int print(char **value, unsigned long long number)
{
    int bytes = asprintf(value, "%llu", number);

    return bytes < 0 ? -ENOMEM : bytes;
}

static int copy(char **value, const char *text)
{
    *value = strdup(text);
    return *value ? (int)strlen(text) : -ENOMEM;
}

static int of_sample(const struct dataset *dataset, uint64_t sample, int64_t member,
                     const char *name, char **value)
{
    const struct index *index = dataset->index;

    if (strcmp(name, "key") == 0)
        return copy(value, index_key(index, sample));
    if (strcmp(name, "shard") == 0)
        return copy(value, index->shards[index_shard_of(index, sample)].path);
    if (strcmp(name, "sample") == 0)
        return print(value, sample);
    if (strcmp(name, "offset") == 0 && member >= 0)
        return print(value, index->members[member].offset);
    if (strcmp(name, "label") == 0 && dataset->labels.of &&
        dataset->labels.of[sample] != LABELS_MISSING) {
        *value = malloc(24);
        return *value ? (int)dataset_label_text(dataset, sample, *value) : -ENOMEM;
    }
    return -ENODATA;
}

static int of_rank(const struct view_node *node, const char *name, char **value)
{
    if (strcmp(name, "samples") == 0)
        return print(value, node->plan.length);
    if (strcmp(name, "epoch") == 0)
        return print(value, node->epoch);
    if (strcmp(name, "after") == 0 && node->plan.share.after)
        return print(value, node->plan.share.after);
    return -ENODATA;
}

static int of_class(struct view *view, const struct view_node *node, const char *name, char **value)
{
    char label[24];
    uint32_t count;
    int fault;

    if (strcmp(name, "epoch") == 0)
        return print(value, node->epoch);
    if (strcmp(name, "label") == 0) {
        snprintf(label, sizeof label, "%lld",
                 (long long)classes_label(view_classes(view), node->class));
        return copy(value, label);
    }
    if (strcmp(name, "samples") != 0)
        return -ENODATA;
    fault = listing_count_class(view, node, &count);
    return fault ? fault : print(value, count);
}

static bool is_rank(const struct view_node *node)
{
    return node && node->kind >= VIEW_RANK && node->kind <= VIEW_STREAM;
}

ssize_t xattrs_get(struct view *view, uint64_t inode, const char *name, char **value)
{
    const struct dataset *dataset = view_dataset(view);
    struct view_node *node;
    uint64_t which;
    int bytes = -ENODATA;

    *value = NULL;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return -ENODATA;
    name += strlen(PREFIX);
    if (view_is_member(view, inode, &which))
        bytes = of_sample(dataset, index_sample_of(dataset->index, which), (int64_t)which, name,
                          value);
    else if (view_is_label(view, inode, &which))
        bytes = of_sample(dataset, which, -1, name, value);
    else if (is_rank(node = view_node(view, inode)))
        bytes = of_rank(node, name, value);
    else if (node && node->kind == VIEW_CLASS)
        bytes = of_class(view, node, name, value);
    if (bytes < 0)
        *value = NULL;
    return bytes;
}

size_t xattrs_list(struct view *view, uint64_t inode, const char **list)
{
    static const char of_members[] = PREFIX "key\0" PREFIX "shard\0" PREFIX "sample\0" PREFIX
                                            "offset\0" PREFIX "label";
    static const char of_labels[] = PREFIX "key\0" PREFIX "shard\0" PREFIX "sample\0" PREFIX
                                           "label";
    static const char of_unlabelled[] = PREFIX "key\0" PREFIX "shard\0" PREFIX "sample\0" PREFIX
                                               "offset";
    static const char of_ranks[] = PREFIX "samples\0" PREFIX "epoch";
    static const char of_classes[] = PREFIX "samples\0" PREFIX "epoch\0" PREFIX "label";
    static const char of_resumed[] = PREFIX "samples\0" PREFIX "epoch\0" PREFIX "after";
    const struct dataset *dataset = view_dataset(view);
    const struct view_node *node;
    uint64_t which;

    *list = of_ranks;
    if (view_is_member(view, inode, &which)) {
        uint64_t sample = index_sample_of(dataset->index, which);
        bool labelled = dataset->labels.of && dataset->labels.of[sample] != LABELS_MISSING;
        *list = labelled ? of_members : of_unlabelled;
        return labelled ? sizeof of_members : sizeof of_unlabelled;
    }
    if (view_is_label(view, inode, &which)) {
        *list = of_labels;
        return sizeof of_labels;
    }
    node = view_node(view, inode);
    if (node && node->kind == VIEW_CLASS) {
        *list = of_classes;
        return sizeof of_classes;
    }
    if (is_rank(node) && node->plan.share.after) {
        *list = of_resumed;
        return sizeof of_resumed;
    }
    return is_rank(node) ? sizeof of_ranks : 0;
}
