/* Shares of one pass. */
#include "split.h"

#include "../core/config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool split_parse(struct split *split, const char *text)
{
    *split = (struct split){.kind = SPLIT_BATCH, .batch = 1};
    if (strcmp(text, "block") == 0)
        split->kind = SPLIT_BLOCK;
    else if (strcmp(text, "each") == 0)
        split->kind = SPLIT_EACH;
    else if (strncmp(text, "batch:", 6) == 0)
        return config_number(text + 6, strlen(text + 6), SPLIT_BATCH_MOST, &split->batch) &&
               split->batch > 0;
    else
        return strcmp(text, "batch") == 0;
    return true;
}

void split_print(const struct split *split, char *text)
{
    if (split->kind == SPLIT_BATCH)
        snprintf(text, SPLIT_TEXT, "batch:%" PRIu64, split->batch);
    else
        snprintf(text, SPLIT_TEXT, "%s", split->kind == SPLIT_BLOCK ? "block" : "each");
}

/* n * reader / readers without overflow. */
static uint64_t block_start(uint64_t n, unsigned readers, unsigned reader)
{
    return n / readers * reader + n % readers * reader / readers;
}

uint64_t split_length(const struct split *split, uint64_t n, unsigned readers, unsigned reader)
{
    uint64_t full, left, whole, most;

    if (split->kind == SPLIT_EACH)
        return n;
    if (split->kind == SPLIT_BLOCK)
        return block_start(n, readers, reader + 1) - block_start(n, readers, reader);
    /* Whole rounds of a batch for every reader, then one round that ends early. */
    full = n / split->batch / readers * split->batch;
    left = n - full * readers;
    whole = left / split->batch;
    most = reader < whole ? split->batch : reader == whole ? left % split->batch : 0;
    return full + most;
}

uint64_t split_sample(const struct split *split, uint64_t n, unsigned readers, unsigned reader,
                      uint64_t k)
{
    if (split->kind == SPLIT_EACH)
        return k;
    if (split->kind == SPLIT_BLOCK)
        return block_start(n, readers, reader) + k;
    return (k / split->batch * readers + reader) * split->batch + k % split->batch;
}
