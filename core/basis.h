/* Makes what orders know of the samples (struct order_basis in core/order.h) from a data set and
 * its options, once for all epochs: weights' running sums and lengths, 8 bytes a sample. Read-only
 * once opened: any thread. */
#ifndef SHUFFLEFS_BASIS_H
#define SHUFFLEFS_BASIS_H

#include "blocks.h"
#include "config.h"
#include "index.h"
#include "labels.h"

struct basis {
    struct order_basis order;
    struct blocks blocks; /* of order=block */
    uint64_t places;      /* of an epoch */
    uint64_t hash;        /* of what the options name: for the fingerprint; 0: nothing */
    /* What `order` points to. Owned; NULL where the order needs none. */
    double *cumulative;
    uint64_t *lengths;
};

/* `config` is settled (config_settle()). `index` and `labels` are NULL where nothing but the number
 * of samples is known: an order that needs more is then refused. Returns 0, -ENOMEM, or another
 * negative errno, reported: a file that cannot be read or does not fit the samples, more samples or
 * places than there may be, a window larger than an epoch, a single draw (torch makes that one by
 * another way), weights=balanced without labels, lengths=size without shards. */
int basis_open(struct basis *basis, const struct config *config, uint64_t samples,
               const struct index *index, const struct labels *labels);
void basis_close(struct basis *basis);

#endif
