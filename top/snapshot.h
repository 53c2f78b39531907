/* The status of a mount as it was read once, and what two snapshots tell together: rates, shares,
 * progress. Pure: no clock, no file.
 *
 * The status may come from an older or newer mount. What it lacks is NAN or NULL here, and what is
 * not known to this program is passed on in snapshot_to_json() alone. Shares are from 0 to 1. */
#ifndef SHUFFLEFS_SNAPSHOT_H
#define SHUFFLEFS_SNAPSHOT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct snapshot {
    json_t *root; /* an object */
    double at;    /* when it was read: seconds of a clock that never goes back */
};

/* 0, or -EINVAL: no JSON object. `text` is not kept. */
int snapshot_parse(struct snapshot *snapshot, const char *text, size_t size, double at);
void snapshot_close(struct snapshot *snapshot); /* also of a zeroed one; zeroes it */

/* The number at `key`, or at `key.part` of the object `key`; NAN: none. */
double snapshot_number(const struct snapshot *snapshot, const char *key);
/* The text at `key`, owned by the snapshot; NULL: none. */
const char *snapshot_text(const struct snapshot *snapshot, const char *key);
/* The sum of the numbers in the object `key`, and how much that of `member` is; NAN: none. */
double snapshot_sum(const struct snapshot *snapshot, const char *key);
double snapshot_member(const struct snapshot *snapshot, const char *key, const char *member);

/* What went on from `before` to `now`. Without `before`: counts and shares since the mount was
 * made, and no rates. */
struct rates {
    bool restarted;    /* another mount answers than before: nothing can be told yet */
    double interval_s; /* between the snapshots */
    double reads_per_s, bytes_per_s;
    double hit_rate; /* files that were read without a READ, of all that were read */
    double storage_reads_per_s, storage_bytes_per_s;
    double storage_direct_share; /* of the reads */
    double storage_read_us;      /* the mean time of one */
    double pushed_files_per_s, pushed_bytes_per_s;
    double pushed_lost, failed_ahead, storage_failed, errors; /* counts */
};

/* `before` may be NULL. */
struct rates snapshot_rates(const struct snapshot *before, const struct snapshot *now);

/* One reader; `value` and `path` belong to the snapshot. */
struct top_reader {
    const json_t *value; /* as the status has it */
    const char *path;    /* "-": not told */
    double epoch, position, length;
    double samples_per_s, bytes_per_s, idle_s, hit_rate, wait_share;
    double progress; /* share of the epoch that was passed */
    double eta_s;    /* until its end at this rate */
    bool idle;       /* not met for a while */
    bool random;     /* it reads in no order: no progress, no end */
};

/* The readers in an order that stays: those at work first, then by path with numbers as numbers.
 * `before` may be NULL. Returns how many; the caller frees `*readers`. */
size_t snapshot_readers(const struct snapshot *before, const struct snapshot *now,
                        struct top_reader **readers);

/* {"mount", "interval_s", "restarted", "rates": {...}, "status": the status as it was read}; what
 * is not known is null. The caller owns it; NULL: no memory. */
json_t *snapshot_to_json(const struct snapshot *before, const struct snapshot *now,
                         const char *mount);

#endif
