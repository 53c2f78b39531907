/* How one pass over n samples is dealt to several readers. Pure arithmetic. */
#ifndef SHUFFLEFS_SPLIT_H
#define SHUFFLEFS_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

enum split_kind {
    SPLIT_BATCH, /* batches in turn, as DataLoader deals them to its workers */
    SPLIT_BLOCK, /* one unbroken run each */
    SPLIT_EACH,  /* each reader reads everything */
};

struct split {
    enum split_kind kind;
    uint64_t batch; /* samples that SPLIT_BATCH deals at once, at least 1 */
};

#define SPLIT_BATCH_MOST (UINT64_C(1) << 32)
#define SPLIT_TEXT       32

/* Reads `batch`, `batch:B`, `block` or `each`; false when it is none of them. */
bool split_parse(struct split *split, const char *text);

/* Its text, as split_parse() takes it; `text` has room for SPLIT_TEXT bytes. */
void split_print(const struct split *split, char *text);

/* How many of `n` samples reader `reader` of `readers` reads. */
uint64_t split_length(const struct split *split, uint64_t n, unsigned readers, unsigned reader);

/* Which one it reads as its `k`-th, k < split_length(). */
uint64_t split_sample(const struct split *split, uint64_t n, unsigned readers, unsigned reader,
                      uint64_t k);

#endif
