/* The progress line's text: how far, how fast, how long still. */
#include "unit.h"

#include "../../core/progress.h"

#include <string.h>

#define SECOND UINT64_C(1000000000)

static const char *text_after(struct progress *progress, uint64_t seconds, unsigned columns)
{
    static char text[200];

    progress_text(progress, progress->start_ns + seconds * SECOND, columns, text, sizeof text);
    return text;
}

Test(progress, says_how_far_how_fast_and_how_long_still)
{
    struct progress progress;

    progress_open(&progress, "packing", 1281167, 0, PROGRESS_ITEMS);
    progress_add(&progress, 640000);
    cr_assert_str_eq(text_after(&progress, 64, 100),
                     "packing  50 %  640,000 of 1,281,167  10,000/s  1:04 left");
    progress_add(&progress, 641167);
    cr_assert_str_eq(text_after(&progress, 128, 100),
                     "packing 100 %  1,281,167 of 1,281,167  10,009/s  0:00 left");
    progress_close(&progress);
}

Test(progress, bytes_are_told_in_powers_of_1024)
{
    struct progress progress;

    progress_open(&progress, "indexing", 3ull << 40, 0, PROGRESS_BYTES);
    progress_add(&progress, 3ull << 30);
    cr_assert_str_eq(text_after(&progress, 2, 100),
                     "indexing   0 %  3.0 GiB of 3.0 TiB  1.5 GiB/s  34:06 left");
    progress_close(&progress);
}

Test(progress, what_was_done_before_counts_but_not_for_the_rate)
{
    struct progress progress;

    progress_open(&progress, "packing", 1000, 900, PROGRESS_ITEMS);
    progress_add(&progress, 50);
    cr_assert_str_eq(text_after(&progress, 50, 100), "packing  95 %  950 of 1,000  1/s  0:50 left");
    progress_close(&progress);
}

Test(progress, tells_no_time_left_before_it_can_know)
{
    struct progress progress;

    progress_open(&progress, "packing", 1000, 0, PROGRESS_ITEMS);
    cr_assert(!strstr(text_after(&progress, 0, 100), "left"));
    cr_assert(!strstr(text_after(&progress, 5, 100), "left"), "nothing is done yet");
    progress_close(&progress);
}

Test(progress, a_line_never_wraps)
{
    struct progress progress;

    progress_open(&progress, "packing", 1281167, 0, PROGRESS_ITEMS);
    cr_assert_eq(strlen(text_after(&progress, 64, 20)), 20);
    progress_close(&progress);
}
