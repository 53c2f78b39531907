/* What order=weighted draws by: a weight a sample, as running sums. Owns nothing; any thread. */
#ifndef SHUFFLEFS_WEIGHTS_H
#define SHUFFLEFS_WEIGHTS_H

#include "labels.h"

#include <stdint.h>

/* One over the number of samples of its class for each sample; 0 for one without a label, of which
 * *unlabelled is told the number. `labels` has some (labels->of). *weights is allocated and the
 * caller's. 0 or -ENOMEM. */
int weights_balance(const struct labels *labels, uint64_t samples, double **weights,
                    uint64_t *unlabelled);

/* Makes of weights, in place, what torch.multinomial draws by: their running sums, each divided by
 * the total, the last one 1. `count` > 0, and the total is finite and over 0. */
void weights_accumulate(double *weights, uint64_t count);

#endif
