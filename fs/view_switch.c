/* What a switch of `current` leaves behind: nodes that show what their rank is no longer at lose
 * their names, all at once. Owns nothing; never talks to the kernel. */
#include "view_state.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Gathers the nodes of `current` that a switch leaves behind. */
struct moving {
    struct view *view;
    struct view_node **nodes;
    size_t count, room, bytes;
    bool failed;
};

/* Whether a node of `current` shows what its rank is no longer at. */
static bool is_left(struct epochs *epochs, const struct view_node *node)
{
    const struct plan_share *share = &node->plan.share;
    struct epochs_at shown = {.epoch = node->epoch, .after = share->after};

    return !epochs_are_same(epochs_of_rank(epochs, share->rank, share->world), shown);
}

static void gather(const void *tree_node, VISIT visit, void *context)
{
    struct view_node *node = *(struct view_node *const *)tree_node;
    struct moving *moving = context;

    if ((visit != postorder && visit != leaf) || node->parent != VIEW_CURRENT_INODE ||
        !is_left(moving->view->epochs, node))
        return;
    if (moving->count == moving->room) {
        size_t room = moving->room ? moving->room * 2 : 64;
        struct view_node **larger = reallocarray(moving->nodes, room, sizeof *larger);
        if (!larger) {
            moving->failed = true;
            return;
        }
        moving->nodes = larger;
        moving->room = room;
    }
    moving->nodes[moving->count++] = node;
    moving->bytes += sizeof(struct view_left) + strlen(node->name) + 1;
}

static void write_left(const struct moving *moving, struct view_left *left)
{
    char *names = (char *)(left + moving->count);

    for (size_t i = 0; i < moving->count; i++) {
        const struct view_node *node = moving->nodes[i];
        size_t length = strlen(node->name) + 1;
        memcpy(names, node->name, length);
        left[i] = (struct view_left){node->inode,
                                     node->kind == VIEW_RANK || node->kind == VIEW_KEYS ||
                                         node->kind == VIEW_CLASSES,
                                     names};
        names += length;
    }
}

/* The lock is held from the change of the epoch to the last detachment, so that no LOOKUP meets one
 * without the other. */
int view_move(struct view *view, bool all, uint64_t rank, uint64_t world, struct epochs_at at,
              struct view_left **left, size_t *count)
{
    struct moving moving = {.view = view};
    int fault = 0;

    *left = NULL;
    *count = 0;
    pthread_mutex_lock(&view->lock);
    if (all)
        epochs_move_all(view->epochs, at);
    else
        fault = epochs_move_rank(view->epochs, rank, world, at);
    if (!fault)
        twalk_r(view->by_spelling, gather, &moving);
    if (moving.count)
        *left = malloc(moving.bytes);
    if (moving.failed || (moving.count && !*left))
        fault = -ENOMEM;
    for (size_t i = 0; i < moving.count; i++) {
        moving.nodes[i]->detached = true;
        tdelete(moving.nodes[i], &view->by_spelling, view_compare_spellings);
    }
    if (*left) {
        write_left(&moving, *left);
        *count = moving.count;
    }
    pthread_mutex_unlock(&view->lock);
    free(moving.nodes);
    return fault;
}

void view_attic_name(const struct view *view, uint64_t inode, char *name)
{
    snprintf(name, 64, "%s%llu", view->attic_prefix, (unsigned long long)inode);
}
