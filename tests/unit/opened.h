/* A data set of shards that a test makes, as a mount would open it: without a saved index, and with
 * what is reported watched. */
#ifndef SHUFFLEFS_UNIT_OPENED_H
#define SHUFFLEFS_UNIT_OPENED_H

#include "shard.h"

#include "../../core/dataset.h"

struct opened {
    struct shard_folder folder;
    struct config config;
    struct dataset set;
};

void opened_begin(struct opened *opened);

/* Opens what is in the folder by now, with options as in -o, or NULL. What dataset_open() returns.
 */
int opened_open(struct opened *opened, const char *options);

/* Also where it was not opened, or that failed. */
void opened_end(struct opened *opened);

#endif
