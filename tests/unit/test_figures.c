/* What the status counts with: latencies, rates, passes. */
#include "unit.h"

#include "../../fs/latency.h"
#include "../../fs/pace.h"
#include "../../fs/passes.h"

#include <stdio.h>
#include <string.h>

Test(latency, every_time_falls_below_its_buckets_border_and_not_below_the_one_before)
{
    static const uint64_t times[] = {0,    1,     999,    1000,      1249,        1250,
                                     1500, 31000, 300000, 123456789, 60000000000, 268000000000};

    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct latency latency = {0};
        double us = (double)times[i] / 1e3;
        unsigned bucket = 0;
        latency_add(&latency, times[i]);
        while (!latency.counts[bucket])
            bucket++;
        cr_assert(us < latency_below_us(bucket), "%g us in bucket %u", us, bucket);
        cr_assert(bucket == 0 || us >= latency_below_us(bucket - 1), "%g us in bucket %u", us,
                  bucket);
        cr_assert(latency_percentile_us(&latency, 0.5) == us);
        cr_assert(latency.most_ns == times[i]);
    }
}

Test(latency, what_no_bucket_is_for_falls_into_the_last)
{
    struct latency latency = {0};

    latency_add(&latency, UINT64_MAX);
    cr_assert_eq(latency.counts[LATENCY_BUCKETS - 1], 1u);
    cr_assert(latency_percentile_us(&(struct latency){0}, 0.99) == 0);
}

Test(latency, percentiles_are_within_a_quarter)
{
    struct latency latency = {0};

    for (uint64_t us = 1; us <= 1000; us++)
        latency_add(&latency, us * 1000);
    cr_assert(latency_percentile_us(&latency, 0.5) >= 500);
    cr_assert(latency_percentile_us(&latency, 0.5) <= 640);
    cr_assert(latency_percentile_us(&latency, 0.99) >= 990);
    cr_assert(latency_percentile_us(&latency, 0.99) <= 1280);
}

Test(latency, no_percentile_is_above_the_greatest_value)
{
    struct latency latency = {0};

    latency_add(&latency, 3000);
    latency_add(&latency, 73000);
    cr_assert(latency_below_us(25) == 80);
    cr_assert(latency_percentile_us(&latency, 0.5) == 3.5);
    cr_assert(latency_percentile_us(&latency, 0.99) == 73);
}

Test(pace, a_pause_is_not_taken_for_slowness)
{
    const uint64_t second = 1000000000;
    struct pace pace;

    pace_begin(&pace, 0);
    pace.sums.samples = 1000;
    pace.sums.files = 1000;
    pace_meet(&pace, second);
    cr_assert(pace.samples_per_s == 1000);
    cr_assert(pace.hit_rate == 1);
    cr_assert(pace_at(&pace, 2 * second).samples_per_s == 1000);
    cr_assert(pace_at(&pace, 3600 * second).samples_per_s == 0);
    pace_meet(&pace, 3600 * second);
    pace.sums.samples = 2000;
    pace_meet(&pace, 3601 * second);
    cr_assert(pace.samples_per_s == 1000);
}

Test(passes, folders_are_told_apart_by_path_epoch_where_it_was_resumed_and_field)
{
    static struct passes passes;
    const struct epochs_at at = {.epoch = 3}, next = {.epoch = 4}, resumed = {3, 500};

    memset(&passes, 0, sizeof passes);
    passes_finish(&passes, "current/rank-0", at, 1);
    cr_assert(passes_are_finished(&passes, "current/rank-0", at, 1));
    cr_assert(!passes_are_finished(&passes, "current/rank-0", at, 2));
    cr_assert(!passes_are_finished(&passes, "current/rank-0", next, 1));
    cr_assert(!passes_are_finished(&passes, "current/rank-1", at, 1));
    cr_assert(!passes_are_finished(&passes, "current/rank-0", resumed, 1));
    cr_assert(passes_repeat(&passes, "current/rank-0", at));
    cr_assert(!passes_repeat(&passes, "current/rank-0", at), "said once");
}

Test(passes, the_oldest_are_forgotten_and_the_latest_are_not)
{
    static struct passes passes;
    char path[32];

    memset(&passes, 0, sizeof passes);
    for (int i = 0; i < 3 * PASSES_MOST; i++) {
        snprintf(path, sizeof path, "epoch-%d/rank-0", i);
        passes_finish(&passes, path, (struct epochs_at){.epoch = (uint64_t)i}, 1);
        cr_assert(passes_are_finished(&passes, path, (struct epochs_at){.epoch = (uint64_t)i}, 1));
    }
    cr_assert(!passes_are_finished(&passes, "epoch-0/rank-0", (struct epochs_at){0}, 1));
}
