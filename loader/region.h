/* Pieces of one block of memory that was taken at open: first fit, given back in any order. What is
 * where is written down outside the block, which may be a GPU's and is never touched here. For a
 * library that wants to allocate while nothing may grow. Any thread. */
#ifndef SHUFFLELOAD_REGION_H
#define SHUFFLELOAD_REGION_H

#include <stddef.h>

struct region;

enum { REGION_ALIGNMENT = 256, REGION_PIECES_MOST = 8192 };

/* The block stays the caller's. 0 or -ENOMEM. */
int region_open(struct region **out, void *block, size_t bytes);
void region_close(struct region *region); /* NULL is fine */

/* A piece, aligned as the block is, up to REGION_ALIGNMENT; NULL: there is no room for it. 0 bytes
 * are a piece, too. */
void *region_take(struct region *region, size_t bytes);

/* 0, or -EINVAL: that is no piece's start. NULL is fine. */
int region_give(struct region *region, void *piece);

/* Pieces that were not given back. */
size_t region_count(struct region *region);

#endif
