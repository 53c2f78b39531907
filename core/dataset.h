/* A data set as a mount or a tool uses it: index, fields and labels settled, the fingerprint known.
 * Read-only once opened: any thread. */
#ifndef SHUFFLEFS_DATASET_H
#define SHUFFLEFS_DATASET_H

#include "basis.h"
#include "config.h"
#include "index.h"
#include "labels.h"
#include "unpack.h"

#include <stdbool.h>

/* `DATA-ORDER`, 16 hexadecimal digits each, and a NUL. DATA covers shard base names, sizes, member
 * names, offsets and sizes; ORDER covers seed, order, its version and options, remainder,
 * epoch_samples, fields and the labels' source, with its JSON key. Neither covers paths, times,
 * world or epoch: a copy on another node, and a resume on other ranks, agree. Nor does it matter
 * whether a shard is compressed, as long as it is unpacked (core/unpack.h): its name counts without
 * the compression's ending (shards_base_name()), its size as unpacked. A node that left one out for
 * want of room has another fingerprint. */
#define DATASET_FINGERPRINT_BYTES 34

struct dataset {
    const struct config *config; /* the caller's, which outlives it */
    struct unpack *unpack;       /* the copies that are read in place of compressed shards */
    struct index *index;
    struct labels labels;
    struct basis basis; /* of the orders */
    /* Whether POSITION.cls is made from the label: the member's own bytes are shown only where they
     * are the label. */
    bool makes_cls;
    bool
        uneven; /* samples differ in their fields: a path of one epoch may be missing in the next */
    char fingerprint[DATASET_FINGERPRINT_BYTES];
};

/* Opens what config->shards names; the config is settled (config_settle()). 0 or a negative
 * errno, reported. */
int dataset_open(struct dataset *dataset, const struct config *config);
/* The same through index_open_observed(); NULL: as dataset_open(). */
int dataset_open_observed(struct dataset *dataset, const struct config *config,
                          const struct index_observer *observer);
void dataset_close(struct dataset *dataset);

/* The order of `epoch`: as order_open(). */
int dataset_order(const struct dataset *dataset, uint64_t epoch, struct order **order);
/* A share of its epochs: as plan_open(). */
bool dataset_plan(const struct dataset *dataset, const struct plan_share *share, struct plan *plan);

/* The fields of a sample as they appear, by place 0, 1, ... in name order: its members, and the
 * made `cls` among them. Returns false past the last. `*member` is -1 for the made one. `*name` is
 * the index's own. */
bool dataset_field(const struct dataset *dataset, uint64_t sample, unsigned place,
                   const char **name, int64_t *member);

/* The same by name: true and the member (-1: the made one) when the sample shows that field. */
bool dataset_find_field(const struct dataset *dataset, uint64_t sample, const char *name,
                        size_t length, int64_t *member);

/* The text of the made `cls`: decimal, no newline. Returns its length; `text` holds at least 24
 * bytes. */
size_t dataset_label_text(const struct dataset *dataset, uint64_t sample, char *text);

#endif
