/* Names <-> inodes. Owns the table of nodes; never talks to the kernel. */
#include "view_state.h"

#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const enum view_kind rank_kinds[GRAMMAR_VIEWS] = {VIEW_RANK, VIEW_CLASSES, VIEW_KEYS,
                                                         VIEW_LIST, VIEW_STREAM};

/* Above every inode that is given out. */
#define SHOWN_INODE ((uint64_t)1 << 62)

static int compare_inodes(const void *a, const void *b)
{
    uint64_t x = ((const struct view_node *)a)->inode, y = ((const struct view_node *)b)->inode;
    return (x > y) - (x < y);
}

int view_compare_spellings(const void *a, const void *b)
{
    const struct view_node *x = a, *y = b;

    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    return strcmp(x->name, y->name);
}

static struct view_node *new_node(const char *name, enum view_kind kind, uint64_t parent)
{
    size_t length = strlen(name) + 1;
    struct view_node *node = calloc(1, sizeof *node + length);

    if (!node)
        return NULL;
    memcpy(node->name, name, length);
    node->kind = kind;
    node->parent = parent;
    return node;
}

static void free_node(void *pointer)
{
    struct view_node *node = pointer;

    if (!node)
        return;
    free(node->marks);
    shelf_close(node->shelf);
    free(node->text);
    free(node);
}

static int open_fixed(struct view *view)
{
    static const struct {
        uint64_t inode;
        enum view_kind kind;
        const char *name;
    } fixed[] = {
        {VIEW_ROOT_INODE, VIEW_ROOT, ""},
        {VIEW_CONTROL_INODE, VIEW_CONTROL, ".control"},
        {VIEW_CURRENT_INODE, VIEW_CURRENT, "current"},
        {VIEW_KEEPER_INODE, VIEW_KEEPER, ""},
    };

    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        struct view_node *node = new_node(fixed[i].name, fixed[i].kind, VIEW_ROOT_INODE);
        if (!node)
            return -ENOMEM;
        node->inode = fixed[i].inode;
        view->fixed[fixed[i].inode] = node;
    }
    return 0;
}

static void find_newest(struct view *view)
{
    const struct index *index = view->dataset->index;

    for (size_t i = 0; i < index->shard_count; i++) {
        struct timespec at = index->shards[i].modified;
        if (at.tv_sec > view->changed.tv_sec ||
            (at.tv_sec == view->changed.tv_sec && at.tv_nsec > view->changed.tv_nsec))
            view->changed = at;
    }
}

int view_open(struct view **out, const struct dataset *dataset, struct epochs *epochs,
              view_text_maker *make_text, void *text_context)
{
    struct view *view = calloc(1, sizeof *view);
    uint64_t secret[2] = {0};

    if (!view)
        return -ENOMEM;
    pthread_mutex_init(&view->lock, NULL);
    view->dataset = dataset;
    view->epochs = epochs;
    view->make_text = make_text;
    view->text_context = text_context;
    view->uid = dataset->config->uid;
    view->gid = dataset->config->gid;
    view->next_inode = VIEW_NODE_INODE;
    grammar_open(&view->grammar, dataset);
    find_newest(view);
    if (getrandom(secret, sizeof secret, 0) != (ssize_t)sizeof secret || open_fixed(view) ||
        classes_open(&view->classes, &dataset->labels, dataset->index->sample_count)) {
        view_close(view);
        return -ENOMEM;
    }
    snprintf(view->keeper_name, sizeof view->keeper_name, ".%016llx",
             (unsigned long long)secret[0]);
    snprintf(view->attic_prefix, sizeof view->attic_prefix, ".%016llx-",
             (unsigned long long)secret[1]);
    *out = view;
    return 0;
}

static void leave_alone(void *node)
{
    (void)node;
}

void view_close(struct view *view)
{
    if (!view)
        return;
    tdestroy(view->by_spelling, leave_alone);
    tdestroy(view->by_inode, free_node);
    for (size_t i = 0; i < sizeof view->fixed / sizeof *view->fixed; i++)
        free_node(view->fixed[i]);
    classes_close(view->classes);
    pthread_mutex_destroy(&view->lock);
    free(view);
}

const char *view_keeper_name(const struct view *view)
{
    return view->keeper_name;
}

const struct dataset *view_dataset(const struct view *view)
{
    return view->dataset;
}

const struct grammar *view_grammar(const struct view *view)
{
    return &view->grammar;
}

const struct classes *view_classes(const struct view *view)
{
    return view->classes;
}

struct epochs *view_epochs(const struct view *view)
{
    return view->epochs;
}

/* Of one that is not fixed. The lock is held. */
static struct view_node *find_node(struct view *view, uint64_t inode)
{
    struct view_node wanted = {.inode = inode};
    struct view_node **found = tfind(&wanted, &view->by_inode, compare_inodes);

    return found ? *found : NULL;
}

struct view_node *view_node(struct view *view, uint64_t inode)
{
    struct view_node *node;

    if (inode <= VIEW_KEEPER_INODE)
        return view->fixed[inode];
    if (inode < VIEW_NODE_INODE)
        return NULL;
    /* The node outlives the lock, as the kernel holds its inode; the tree's own node may not. */
    pthread_mutex_lock(&view->lock);
    node = find_node(view, inode);
    pthread_mutex_unlock(&view->lock);
    return node;
}

bool view_is_member(const struct view *view, uint64_t inode, uint64_t *member)
{
    *member = inode - VIEW_MEMBER_INODE;
    return inode >= VIEW_MEMBER_INODE && *member < view->dataset->index->member_count;
}

bool view_is_label(const struct view *view, uint64_t inode, uint64_t *sample)
{
    *sample = inode - VIEW_LABEL_INODE;
    return view->dataset->makes_cls && inode >= VIEW_LABEL_INODE &&
           *sample < view->dataset->index->sample_count;
}

/* The node that a name in a folder of ranks stands for, not yet in the table; NULL: there is none
 * (-ENOENT) or no memory
 * (-ENOMEM in *fault). The lock is held. */
static struct view_node *parse_rank_node(struct view *view, const struct view_node *parent,
                                         const char *name, int *fault)
{
    bool current = parent->kind == VIEW_CURRENT;
    struct epochs_at at = {.epoch = parent->epoch};
    struct plan_share share;
    const char *suffix = grammar_parse_share(&view->grammar, name, !current, &share);
    enum grammar_view which;
    struct view_node *node;
    struct plan plan;

    *fault = -ENOENT;
    if (!suffix || !grammar_parse_view(suffix, &which) ||
        (which == GRAMMAR_CLASSES && !view->classes))
        return NULL;
    if (current) {
        at = epochs_of_rank(view->epochs, share.rank, share.world);
        share.after = at.after;
    }
    if (!dataset_plan(view->dataset, &share, &plan))
        return NULL;
    *fault = -ENOMEM;
    node = new_node(name, rank_kinds[which], parent->inode);
    if (!node)
        return NULL;
    if (which == GRAMMAR_CLASSES && shelf_open(&node->shelf, view->classes)) {
        free_node(node);
        return NULL;
    }
    node->epoch = at.epoch;
    node->plan = plan;
    return node;
}

/* The node of a class's folder. As parse_rank_node(). */
static struct view_node *parse_class_node(const struct view *view, const struct view_node *parent,
                                          const char *name, int *fault)
{
    struct view_node *node;
    uint32_t class;

    *fault = -ENOENT;
    if (!classes_find(view->classes, name, &class))
        return NULL;
    *fault = -ENOMEM;
    node = new_node(name, VIEW_CLASS, parent->inode);
    if (!node)
        return NULL;
    node->epoch = parent->epoch;
    node->plan = parent->plan;
    node->class = class;
    return node;
}

/* The node of `epoch-E`, or of an attic. As parse_rank_node(). */
static struct view_node *parse_root_node(const struct view *view, const char *name, int *fault)
{
    size_t prefix = strlen(view->attic_prefix);
    uint64_t epoch;
    struct view_node *node;

    *fault = -ENOENT;
    if (strncmp(name, view->attic_prefix, prefix) == 0) {
        *fault = -ENOMEM;
        return new_node(name, VIEW_ATTIC, VIEW_ROOT_INODE);
    }
    if (!grammar_parse_epoch(name, &epoch))
        return NULL;
    *fault = -ENOMEM;
    node = new_node(name, VIEW_EPOCH, VIEW_ROOT_INODE);
    if (node)
        node->epoch = epoch;
    return node;
}

/* Gives the node its inode and puts it in the table. The lock is held. */
static int add_node(struct view *view, struct view_node *node, bool spelled)
{
    node->inode = view->next_inode++;
    node->lookups = 1;
    if (!tsearch(node, &view->by_inode, compare_inodes))
        return -ENOMEM;
    if (spelled && !tsearch(node, &view->by_spelling, view_compare_spellings)) {
        tdelete(node, &view->by_inode, compare_inodes);
        return -ENOMEM;
    }
    return 0;
}

static int lookup_spelled(struct view *view, const struct view_node *parent, const char *name,
                          uint64_t *inode)
{
    struct view_node *node, **found;
    int fault;

    pthread_mutex_lock(&view->lock);
    node = parent->kind == VIEW_ROOT      ? parse_root_node(view, name, &fault)
           : parent->kind == VIEW_CLASSES ? parse_class_node(view, parent, name, &fault)
                                          : parse_rank_node(view, parent, name, &fault);
    if (node) {
        found = tfind(node, &view->by_spelling, view_compare_spellings);
        if (found) {
            free_node(node);
            node = *found;
            node->lookups++;
            fault = 0;
        } else {
            fault = add_node(view, node, true);
            /* What all its folders share stays as long as one of them. */
            if (!fault && node->kind == VIEW_CLASS)
                find_node(view, parent->inode)->lookups++;
        }
        if (fault)
            free_node(node);
        else
            *inode = node->inode;
    }
    pthread_mutex_unlock(&view->lock);
    return fault;
}

/* A control file: a new node each time, its text as of now. The text is made without the lock. */
static int lookup_control(struct view *view, const char *name, uint64_t *inode)
{
    uint64_t rank = 0, world = 0;
    const char *suffix;
    struct view_node *node;
    enum view_kind kind;
    int fault;

    if (strcmp(name, "epoch") == 0)
        kind = VIEW_EPOCH_FILE;
    else if (strcmp(name, "status") == 0 || strcmp(name, "fingerprint") == 0)
        kind = VIEW_TEXT_FILE;
    else if ((suffix = grammar_parse_rank(&view->grammar, name, &rank, &world)) &&
             strcmp(suffix, ".epoch") == 0)
        kind = VIEW_RANK_FILE;
    else
        return -ENOENT;
    node = new_node(name, kind, VIEW_CONTROL_INODE);
    if (!node)
        return -ENOMEM;
    node->plan.share = (struct plan_share){.rank = rank, .world = world};
    node->text = view->make_text(view->text_context, name, kind, rank, world, &node->text_bytes);
    if (!node->text) {
        free_node(node);
        return -ENOMEM;
    }
    pthread_mutex_lock(&view->lock);
    fault = add_node(view, node, false);
    if (!fault)
        *inode = node->inode;
    pthread_mutex_unlock(&view->lock);
    if (fault)
        free_node(node);
    return fault;
}

/* The folder that an attic holds: the one whose inode its name tells, if a switch left it behind
 * and the kernel still has it. */
static int lookup_attic(struct view *view, const struct view_node *attic, const char *name,
                        uint64_t *inode)
{
    const char *digits = attic->name + strlen(view->attic_prefix);
    struct view_node wanted = {0}, **found;
    int fault = -ENOENT;

    if (strcmp(name, VIEW_ATTIC_ENTRY) != 0 ||
        !config_number(digits, strlen(digits), UINT64_MAX, &wanted.inode))
        return -ENOENT;
    pthread_mutex_lock(&view->lock);
    found = tfind(&wanted, &view->by_inode, compare_inodes);
    if (found && (*found)->detached) {
        (*found)->lookups++;
        *inode = wanted.inode;
        fault = 0;
    }
    pthread_mutex_unlock(&view->lock);
    return fault;
}

static int lookup_root(struct view *view, const char *name, uint64_t *inode)
{
    if (strcmp(name, ".control") == 0)
        *inode = VIEW_CONTROL_INODE;
    else if (strcmp(name, "current") == 0)
        *inode = VIEW_CURRENT_INODE;
    else if (strcmp(name, view->keeper_name) == 0)
        *inode = VIEW_KEEPER_INODE;
    else
        return lookup_spelled(view, view->fixed[VIEW_ROOT_INODE], name, inode);
    return 0;
}

static int lookup_sample(struct view *view, const struct view_node *parent, const char *name,
                         uint64_t *inode)
{
    enum grammar_view spelling = parent->kind == VIEW_RANK ? GRAMMAR_PLAIN : GRAMMAR_KEYS;
    const char *field;
    struct order *order;
    uint64_t position, sample;
    int64_t member;

    if (!grammar_parse_position(&view->grammar, name, &position) || position >= parent->plan.length)
        return -ENOENT;
    order = epochs_get(view->epochs, parent->epoch);
    if (!order)
        return -ENOMEM;
    sample = order_sample(order, plan_global(&parent->plan, position));
    epochs_put(view->epochs, order);
    if (parent->kind == VIEW_CLASS && classes_of(view->classes, sample) != parent->class)
        return -ENOENT;
    field = grammar_parse_field(&view->grammar, spelling, sample, name);
    if (!field || !dataset_find_field(view->dataset, sample, field, strlen(field), &member))
        return -ENOENT;
    *inode = member < 0 ? VIEW_LABEL_INODE + sample : VIEW_MEMBER_INODE + (uint64_t)member;
    return 0;
}

int view_lookup(struct view *view, const struct view_node *parent, const char *name,
                uint64_t *inode)
{
    switch (parent->kind) {
    case VIEW_ROOT:
        return lookup_root(view, name, inode);
    case VIEW_CONTROL:
        return lookup_control(view, name, inode);
    case VIEW_CURRENT:
    case VIEW_EPOCH:
    case VIEW_CLASSES:
        return lookup_spelled(view, parent, name, inode);
    case VIEW_RANK:
    case VIEW_KEYS:
    case VIEW_CLASS:
        return lookup_sample(view, parent, name, inode);
    case VIEW_ATTIC:
        return lookup_attic(view, parent, name, inode);
    case VIEW_KEEPER:
        return -ENOENT;
    default:
        return -ENOTDIR;
    }
}

/* Takes the node out of the table if that was the last of its LOOKUPs; else NULL. The lock is held.
 */
static struct view_node *drop_lookups(struct view *view, uint64_t inode, uint64_t count)
{
    struct view_node *node = find_node(view, inode), **spelled;

    if (!node)
        return NULL;
    node->lookups -= count < node->lookups ? count : node->lookups;
    if (node->lookups)
        return NULL;
    spelled = tfind(node, &view->by_spelling, view_compare_spellings);
    if (spelled && *spelled == node)
        tdelete(node, &view->by_spelling, view_compare_spellings);
    tdelete(node, &view->by_inode, compare_inodes);
    return node;
}

void view_forget(struct view *view, uint64_t inode, uint64_t count)
{
    struct view_node *node, *parent = NULL;

    if (inode < VIEW_NODE_INODE)
        return;
    pthread_mutex_lock(&view->lock);
    node = drop_lookups(view, inode, count);
    if (node && node->kind == VIEW_CLASS)
        parent = drop_lookups(view, node->parent, 1);
    pthread_mutex_unlock(&view->lock);
    free_node(node);
    free_node(parent);
}

void view_hold(struct view *view, struct view_node *node)
{
    pthread_mutex_lock(&view->lock);
    node->lookups++;
    pthread_mutex_unlock(&view->lock);
}

/* A control file shows one inode number for each name, though the kernel gets a new inode at each
 * LOOKUP: cp looks at a file twice, and calls it replaced when the number differs. */
static uint64_t shown_inode(const struct view_node *node)
{
    uint64_t hash = VIEW_CONTROL_INODE;

    for (const char *c = node->name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    return SHOWN_INODE | (hash & (SHOWN_INODE - 1));
}

static void stat_node(const struct view_node *node, struct stat *status)
{
    switch (node->kind) {
    case VIEW_LIST:
    case VIEW_STREAM:
        status->st_mode = S_IFREG | 0444;
        status->st_size = (off_t)node->made_bytes;
        break;
    case VIEW_TEXT_FILE:
        status->st_ino = shown_inode(node);
        status->st_mode = S_IFREG | 0444;
        status->st_size = (off_t)node->text_bytes;
        break;
    case VIEW_EPOCH_FILE:
    case VIEW_RANK_FILE:
        status->st_ino = shown_inode(node);
        status->st_mode = S_IFREG | 0644;
        status->st_size = (off_t)node->text_bytes;
        break;
    case VIEW_KEEPER:
    case VIEW_ATTIC:
        status->st_mode = S_IFDIR | 0700;
        break;
    default:
        status->st_mode = S_IFDIR | 0555;
        break;
    }
}

int view_stat(struct view *view, uint64_t inode, struct stat *status)
{
    const struct index *index = view->dataset->index;
    struct view_node *node;
    uint64_t which;
    char text[24];
    int fault = 0;

    *status = (struct stat){
        .st_ino = inode,
        .st_nlink = 1,
        .st_mode = S_IFREG | 0444,
        .st_uid = view->uid,
        .st_gid = view->gid,
        .st_mtim = view->changed,
        .st_ctim = view->changed,
        .st_atim = view->changed,
    };
    if (view_is_member(view, inode, &which))
        status->st_size = (off_t)index->members[which].size;
    else if (view_is_label(view, inode, &which))
        status->st_size = (off_t)dataset_label_text(view->dataset, which, text);
    else if ((node = view_node(view, inode)))
        stat_node(node, status);
    else
        fault = -ENOENT;
    status->st_blocks = (status->st_size + 511) / 512;
    return fault;
}
