/* What the mount shows: names <-> inodes.
 *
 * The inode scheme. A member of a shard has one inode whatever path leads to it, its number in the
 * index plus a constant: so the page cache of its bytes outlives every epoch, and no table is
 * needed. The made POSITION.cls of a sample likewise. Everything else (folders, lists, control
 * files) is a node in a table here:
 *   - root, .control, current and the keeper's folder have fixed inodes;
 *   - a folder or list has one node for each spelling (parent and name). A switch of `current`
 * detaches the spelling from its node: the next LOOKUP makes a new node with a new inode number,
 * while whoever holds the old one (an open folder, a working directory) stays with its epoch;
 *   - so has a class's folder in rank-R.classes, whose node keeps that of rank-R.classes too;
 *   - a control file has a new node at every LOOKUP, with its text frozen.
 * No number is ever used again. A node lives until the kernel has forgotten all its LOOKUPs.
 *
 * The keeper's folder and the attics have random names that are never listed: fs/names.h says what
 * for.
 *
 * This module knows no FUSE. Any thread; a node that a caller got stays good while the kernel holds
 * its inode, which it does as long as a request on that inode is being answered. */
#ifndef SHUFFLEFS_VIEW_H
#define SHUFFLEFS_VIEW_H

#include "../core/dataset.h"
#include "../core/plan.h"
#include "classes.h"
#include "epochs.h"
#include "grammar.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define VIEW_ROOT_INODE    1
#define VIEW_CONTROL_INODE 2
#define VIEW_CURRENT_INODE 3
#define VIEW_KEEPER_INODE  4
#define VIEW_MEMBER_INODE  ((uint64_t)1 << 32)
#define VIEW_LABEL_INODE   ((uint64_t)1 << 33)
#define VIEW_NODE_INODE    ((uint64_t)1 << 34)

enum view_kind {
    VIEW_ROOT,
    VIEW_CONTROL,    /* .control */
    VIEW_CURRENT,    /* current */
    VIEW_KEEPER,     /* the keeper's folder */
    VIEW_ATTIC,      /* holds one folder that a switch left behind, as VIEW_ATTIC_ENTRY */
    VIEW_EPOCH,      /* epoch-E */
    VIEW_RANK,       /* rank-R */
    VIEW_CLASSES,    /* rank-R.classes */
    VIEW_KEYS,       /* rank-R.keys */
    VIEW_LIST,       /* rank-R.list */
    VIEW_STREAM,     /* rank-R.tar */
    VIEW_CLASS,      /* CLASS in rank-R.classes */
    VIEW_EPOCH_FILE, /* .control/epoch */
    VIEW_RANK_FILE,  /* .control/rank-R.epoch */
    VIEW_TEXT_FILE,  /* .control/status, .control/fingerprint */
};

struct view_node {
    uint64_t inode, parent;
    enum view_kind kind;
    uint64_t epoch;   /* of VIEW_EPOCH and all below it, or the one that `current` had when the node
                         was made */
    struct plan plan; /* of VIEW_RANK to VIEW_CLASS, also resumed if the epoch
                         is; rank and world alone of VIEW_RANK_FILE */
    char *text;       /* of control files: frozen when made. Owned */
    size_t text_bytes;
    uint64_t made_bytes; /* of files that are made while they are read: their size, and */
    uint64_t *marks;     /* where their pieces stand, once prepared: fs/marks.h. Owned */
    struct shelf *shelf; /* of VIEW_CLASSES: which positions are of which class. Owned */
    uint32_t class;      /* of VIEW_CLASS: its folder's number (fs/classes.h) */
    uint64_t lookups;    /* guarded by the view's lock */
    bool detached;       /* its spelling leads elsewhere now. Guarded by the view's lock */
    char name[];         /* as spelled */
};

struct view;

/* Makes the text of a control file at LOOKUP: allocated, its length in *bytes; NULL: no memory. */
typedef char *view_text_maker(void *context, const char *name, enum view_kind kind, uint64_t rank,
                              uint64_t world, size_t *bytes);

/* `dataset` and `epochs` outlive the view. 0 or -ENOMEM. */
int view_open(struct view **out, const struct dataset *dataset, struct epochs *epochs,
              view_text_maker *make_text, void *text_context);
void view_close(struct view *view);

/* The name of the keeper's folder below the root. */
const char *view_keeper_name(const struct view *view);

/* The node with this inode; NULL: none, or it is a member or label. */
struct view_node *view_node(struct view *view, uint64_t inode);

/* Which member or which sample's label an inode is. */
bool view_is_member(const struct view *view, uint64_t inode, uint64_t *member);
bool view_is_label(const struct view *view, uint64_t inode, uint64_t *sample);

/* LOOKUP: the inode that `name` is in `parent`; a node is made or counted. -ENOENT, -ENOTDIR, or
 * -ENOMEM. */
int view_lookup(struct view *view, const struct view_node *parent, const char *name,
                uint64_t *inode);
/* The kernel forgot `count` LOOKUPs of a node. */
void view_forget(struct view *view, uint64_t inode, uint64_t count);

/* A node is kept until view_forget(view, inode, 1), as though the kernel knew it once more. */
void view_hold(struct view *view, struct view_node *node);

/* What stat shows, but for the size of control files that were truncated since; of a list only once
 * it is prepared. The inode exists. -ENOENT for a node that does not, -ENOMEM. */
int view_stat(struct view *view, uint64_t inode, struct stat *status);

/* What a switch leaves behind in `current`: a name, and the inode that it no longer leads to. */
struct view_left {
    uint64_t inode;
    bool folder;
    char *name; /* within the same allocation as the array */
};

/* Moves `current`: one rank, or with `all` every rank. Writes what is left behind to *left (one
 * allocation, the caller's); NULL and 0 when nothing moves. 0 or -ENOMEM. */
int view_move(struct view *view, bool all, uint64_t rank, uint64_t world, struct epochs_at at,
              struct view_left **left, size_t *count);

/* The name below the root of the attic for the folder `inode` that a switch left behind: LOOKUP
 * finds the folder in it, once more, under the name VIEW_ATTIC_ENTRY. `name` holds 64 bytes.
 * fs/names.h says what for. */
#define VIEW_ATTIC_ENTRY "left"
void view_attic_name(const struct view *view, uint64_t inode, char *name);

const struct dataset *view_dataset(const struct view *view);
const struct grammar *view_grammar(const struct view *view);
/* NULL where no sample has a label. */
const struct classes *view_classes(const struct view *view);
struct epochs *view_epochs(const struct view *view);

#endif
