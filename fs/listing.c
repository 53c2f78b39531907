/* Listings of folders. Owns nothing; each call starts from an offset alone. */
#include "listing.h"

#include <errno.h>
#include <stdio.h>

/* Listings. An offset is 1 + the place of the entry it follows; in folders of samples (position <<
 * 16 | field) + 2. */

#define FIELD_BITS          16
#define FIRST_SAMPLE_OFFSET 2

int64_t listing_offset(uint64_t position)
{
    return (int64_t)(position << FIELD_BITS) + FIRST_SAMPLE_OFFSET;
}

uint64_t listing_position(int64_t offset)
{
    return (uint64_t)(offset - FIRST_SAMPLE_OFFSET) >> FIELD_BITS;
}

struct lister {
    bool (*take)(void *context, const struct listing_entry *entry);
    void *context;
};

static bool give(const struct lister *lister, const char *name, uint64_t inode, mode_t type,
                 int64_t next)
{
    struct listing_entry entry = {name, inode, type, UINT64_MAX, next};
    return lister->take(lister->context, &entry);
}

static bool give_dots(const struct view_node *node, int64_t *offset, const struct lister *lister)
{
    if (*offset == 0 && !give(lister, ".", node->inode, S_IFDIR, ++*offset))
        return false;
    return *offset != 1 || give(lister, "..", node->parent, S_IFDIR, ++*offset);
}

static void list_root(struct view *view, int64_t offset, const struct lister *lister)
{
    uint64_t at[64], shown[128];
    size_t ranks = epochs_list(view_epochs(view), at, sizeof at / sizeof *at), count = 0;
    char name[32];

    for (size_t i = 0; i < ranks; i++) {
        if (count == 0 || shown[count - 1] != at[i])
            shown[count++] = at[i];
        if (at[i] < ORDER_EPOCH_MAX)
            shown[count++] = at[i] + 1;
    }
    for (size_t place = (size_t)offset - 2; place < count + 2; place++) {
        if (place == 0) {
            if (!give(lister, ".control", VIEW_CONTROL_INODE, S_IFDIR, 3))
                return;
        } else if (place == 1) {
            if (!give(lister, "current", VIEW_CURRENT_INODE, S_IFDIR, 4))
                return;
        } else {
            snprintf(name, sizeof name, "epoch-%llu", (unsigned long long)shown[place - 2]);
            if (!give(lister, name, 0, S_IFDIR, (int64_t)place + 3))
                return;
        }
    }
}

static uint64_t listed_ranks(const struct view *view)
{
    uint64_t world = view_dataset(view)->config->world;
    return world < LISTING_RANKS_MOST ? world : LISTING_RANKS_MOST;
}

static void list_ranks(struct view *view, int64_t offset, const struct lister *lister)
{
    uint64_t entries = listed_ranks(view) * GRAMMAR_VIEWS;
    bool classes = view_classes(view) != NULL;
    char name[48];

    for (uint64_t place = (uint64_t)offset - 2; place < entries; place++) {
        size_t which = place % GRAMMAR_VIEWS;
        if (which == GRAMMAR_CLASSES && !classes)
            continue;
        snprintf(name, sizeof name, "rank-%llu%s", (unsigned long long)(place / GRAMMAR_VIEWS),
                 grammar_suffix((enum grammar_view)which));
        if (!give(lister, name, 0, which >= GRAMMAR_LIST ? S_IFREG : S_IFDIR, (int64_t)place + 3))
            return;
    }
}

static void list_control(struct view *view, int64_t offset, const struct lister *lister)
{
    static const char *const files[] = {"epoch", "fingerprint", "status"};
    const uint64_t first = sizeof files / sizeof *files;
    char name[48];

    for (uint64_t place = (uint64_t)offset - 2; place < first + listed_ranks(view); place++) {
        if (place < first)
            snprintf(name, sizeof name, "%s", files[place]);
        else
            snprintf(name, sizeof name, "rank-%llu.epoch", (unsigned long long)(place - first));
        if (!give(lister, name, 0, S_IFREG, (int64_t)place + 3))
            return;
    }
}

static void list_classes(struct view *view, int64_t offset, const struct lister *lister)
{
    const struct classes *classes = view_classes(view);
    char name[CLASSES_NAME_BYTES + 1];

    for (uint64_t place = (uint64_t)offset - 2; place < classes_count(classes); place++) {
        classes_name(classes, (uint32_t)place, name);
        if (!give(lister, name, 0, S_IFDIR, (int64_t)place + 3))
            return;
    }
}

/* That of rank-R.classes, which the folder's node holds. */
static struct shelf *shelf_of(struct view *view, const struct view_node *node)
{
    return view_node(view, node->parent)->shelf;
}

int listing_count_class(struct view *view, const struct view_node *node, uint32_t *count)
{
    struct order *order = epochs_get(view_epochs(view), node->epoch);
    const uint32_t *positions;
    int fault;

    if (!order)
        return -ENOMEM;
    fault = shelf_take(shelf_of(view, node), order, &node->plan, node->class, &positions, count);
    if (!fault)
        shelf_done(shelf_of(view, node));
    epochs_put(view_epochs(view), order);
    return fault;
}

/* In the folder of a class, the place in it stands for the position. */
static int list_samples(struct view *view, struct view_node *node, int64_t offset,
                        const struct lister *lister)
{
    uint64_t start = (uint64_t)offset - FIRST_SAMPLE_OFFSET, place = start >> FIELD_BITS;
    unsigned field = start & ((1u << FIELD_BITS) - 1);
    struct order *order = epochs_get(view_epochs(view), node->epoch);
    char name[GRAMMAR_NAME_BYTES + 1];
    enum grammar_view spelling = node->kind == VIEW_RANK ? GRAMMAR_PLAIN : GRAMMAR_KEYS;
    uint64_t count = node->plan.length;
    const uint32_t *positions = NULL;
    uint32_t of_class;
    bool more = true;
    int fault = 0;

    if (!order)
        return -ENOMEM;
    if (node->kind == VIEW_CLASS) {
        fault = shelf_take(shelf_of(view, node), order, &node->plan, node->class, &positions,
                           &of_class);
        count = fault ? 0 : of_class;
    }
    for (; more && place < count; place++, field = 0) {
        uint64_t position = positions ? positions[place] : place;
        uint64_t sample = order_sample(order, plan_global(&node->plan, position));
        const char *text;
        int64_t member;
        for (; more && dataset_field(view_dataset(view), sample, field, &text, &member); field++) {
            struct listing_entry entry = {
                .name = name,
                .inode = member < 0 ? VIEW_LABEL_INODE + sample
                                    : VIEW_MEMBER_INODE + (uint64_t)member,
                .type = S_IFREG,
                .position = position,
                .next = (int64_t)((place << FIELD_BITS | field) + 1 + FIRST_SAMPLE_OFFSET),
            };
            grammar_file_name(view_grammar(view), spelling, position, sample, text, name);
            more = lister->take(lister->context, &entry);
        }
    }
    if (positions)
        shelf_done(shelf_of(view, node));
    epochs_put(view_epochs(view), order);
    return fault;
}

int listing_give(struct view *view, struct view_node *node, int64_t offset,
                 bool (*take)(void *context, const struct listing_entry *entry), void *context)
{
    struct lister lister = {take, context};

    if (offset < 0)
        return -EINVAL;
    if (!give_dots(node, &offset, &lister))
        return 0;
    switch (node->kind) {
    case VIEW_ROOT:
        list_root(view, offset, &lister);
        return 0;
    case VIEW_CONTROL:
        list_control(view, offset, &lister);
        return 0;
    case VIEW_CURRENT:
    case VIEW_EPOCH:
        list_ranks(view, offset, &lister);
        return 0;
    case VIEW_CLASSES:
        list_classes(view, offset, &lister);
        return 0;
    case VIEW_RANK:
    case VIEW_KEYS:
    case VIEW_CLASS:
        return list_samples(view, node, offset, &lister);
    case VIEW_KEEPER:
    case VIEW_ATTIC:
        return 0;
    default:
        return -ENOTDIR;
    }
}
