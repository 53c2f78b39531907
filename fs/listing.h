/* What a folder lists, in order, from any place in it.
 *
 * An offset says the place in the folder, not a state: so listing may stop, go back and start
 * anywhere (seekdir, rewinddir, NFS), costs the same from everywhere, and offsets stay good for
 * ever. Any thread. */
#ifndef SHUFFLEFS_LISTING_H
#define SHUFFLEFS_LISTING_H

#include "view.h"

/* Ranks that folders list, from rank 0 on; all others open when asked for. A mistyped world must
 * not send `find` or a shell's completion through billions of names. */
#define LISTING_RANKS_MOST 65536

struct listing_entry {
    const char *name;
    uint64_t inode;    /* 0: not known before a LOOKUP makes its node */
    mode_t type;       /* S_IFDIR or S_IFREG */
    uint64_t position; /* of sample files, else UINT64_MAX */
    int64_t next;      /* the offset after it */
};

/* The offset at which the files of `position` start in a folder of samples (of a class: of its
 * so-manieth), and the position that an offset out of such a listing stands at. */
int64_t listing_offset(uint64_t position);
uint64_t listing_position(int64_t offset);

/* How many samples a class's folder has. 0, -ENOMEM or -EFBIG (see shelf_take()). */
int listing_count_class(struct view *view, const struct view_node *node, uint32_t *count);

/* Lists `node` from `offset` (0: the start), giving each entry to `take` until it returns false or
 * the end. 0, or -ENOTDIR, -EINVAL (a negative offset), -ENOMEM, or -EFBIG (see shelf_take()). The
 * keeper's folder lists nothing here. */
int listing_give(struct view *view, struct view_node *node, int64_t offset,
                 bool (*take)(void *context, const struct listing_entry *entry), void *context);

#endif
