/* Weights of samples. Owns a sorted copy of the labels while it counts. */
#include "weights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    int64_t x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

/* The first of the sorted labels that is `above` this one, or that is not below it. */
static uint64_t bound(const int64_t *sorted, uint64_t count, int64_t label, bool above)
{
    uint64_t low = 0, high = count;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (sorted[middle] < label || (above && sorted[middle] == label))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int weights_balance(const struct labels *labels, uint64_t samples, double **weights,
                    uint64_t *unlabelled)
{
    int64_t *sorted = calloc(samples ? samples : 1, sizeof *sorted);
    double *made = calloc(samples ? samples : 1, sizeof *made);

    if (!sorted || !made) {
        free(sorted);
        free(made);
        return -ENOMEM;
    }
    memcpy(sorted, labels->of, samples * sizeof *sorted);
    qsort(sorted, samples, sizeof *sorted, compare);
    *unlabelled = 0;
    for (uint64_t i = 0; i < samples; i++) {
        int64_t label = labels->of[i];
        if (label == LABELS_MISSING)
            ++*unlabelled;
        else
            made[i] = 1.0 / (double)(bound(sorted, samples, label, true) -
                                     bound(sorted, samples, label, false));
    }
    free(sorted);
    *weights = made;
    return 0;
}

void weights_accumulate(double *weights, uint64_t count)
{
    double sum = 0;

    for (uint64_t i = 0; i < count; i++)
        weights[i] = sum += weights[i];
    for (uint64_t i = 0; i < count; i++)
        weights[i] /= sum;
    weights[count - 1] = 1;
}
