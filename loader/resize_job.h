/* A batch of resizes as data for resize_body.h: from axes to tables in memory of somebody's, and
 * the loop in C that does on the host what the kernels do on a GPU. No state, any thread. */
#ifndef SHUFFLELOAD_RESIZE_JOB_H
#define SHUFFLELOAD_RESIZE_JOB_H

#include "resize.h"
#include "resize_body.h"

/* What an axis' table takes, in bytes, a multiple of 16. */
size_t resize_table_bytes(const struct resize_axis *axis);

/* Copies the axis' numbers to `to` (resize_table_bytes(), aligned to 16 bytes). The table's
 * pointers are those of `seen`: the same bytes where the one who uses them sees them. */
void resize_table_fill(struct resize_table *table, const struct resize_axis *axis, uint8_t *to,
                       const uint8_t *seen);

/* The most items of any of the pictures, which the caller can read: fills in the job's. */
void resize_job_measure(struct resize_job *job, const struct resize_picture *pictures);

/* The whole job, for those who check that both agree. */
void resize_do_job(const struct resize_job *job);

#endif
