/* Tables of a job, and the job as a loop. */
#include "resize_job.h"

#include <string.h>

enum { ALIGNMENT = 16 };

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static size_t starts_bytes(const struct resize_axis *axis)
{
    return aligned((size_t)axis->count * sizeof *axis->starts);
}

static size_t weights_bytes(const struct resize_axis *axis)
{
    return (size_t)axis->count * (size_t)axis->taps * sizeof *axis->weights;
}

size_t resize_table_bytes(const struct resize_axis *axis)
{
    return starts_bytes(axis) + aligned(weights_bytes(axis));
}

void resize_table_fill(struct resize_table *table, const struct resize_axis *axis, uint8_t *to,
                       const uint8_t *seen)
{
    size_t weights = starts_bytes(axis);

    memcpy(to, axis->starts, (size_t)axis->count * sizeof *axis->starts);
    memcpy(to + weights, axis->weights, weights_bytes(axis));
    *table = (struct resize_table){.starts = (const int32_t *)(const void *)seen,
                                   .weights = (const int16_t *)(const void *)(seen + weights),
                                   .count = (uint32_t)axis->count,
                                   .taps = (uint32_t)axis->taps,
                                   .used = (uint32_t)axis->used,
                                   .bits = (uint32_t)axis->bits};
}

void resize_job_measure(struct resize_job *job, const struct resize_picture *pictures)
{
    job->column_items = job->row_items = 0;
    for (uint32_t i = 0; i < job->count; i++) {
        uint32_t columns = resize_column_items(&pictures[i]), rows = resize_row_items(&pictures[i]);

        job->column_items = columns > job->column_items ? columns : job->column_items;
        job->row_items = rows > job->row_items ? rows : job->row_items;
    }
}

void resize_do_job(const struct resize_job *job)
{
    for (uint32_t i = 0; i < job->count; i++) {
        const struct resize_picture *picture = &job->pictures[i];
        uint32_t columns = resize_column_items(picture), rows = resize_row_items(picture);

        for (uint32_t item = 0; item < columns; item++)
            resize_do_column(picture, item);
        for (uint32_t item = 0; item < rows; item++)
            resize_do_row(picture, item);
    }
}
