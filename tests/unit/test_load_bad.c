/* Bad samples: counted, named, visible, and treated as the configuration says, the same way
 * whatever the threads. */
#include "unit.h"

#include "load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PICTURES = 20 };

static struct load_folder folder;

/* Pictures 0..19; 3, 7 and 8 to 15 (a whole batch) of those in `bad` are none. */
static void begin(const char *bad)
{
    load_folder_make(&folder);
    load_write_pictures(&folder, "p/%03u.jpg", PICTURES);
    for (; *bad; bad++) {
        char name[] = "p/000.jpg";
        unsigned number = (unsigned)(*bad - 'a');

        name[3] = (char)('0' + number / 10);
        name[4] = (char)('0' + number % 10);
        load_write(&folder, name, "no picture", 10);
    }
}

static struct sl_batch *next(struct sl_loader *loader, int expected)
{
    struct sl_batch *batch;
    int status = sl_next(loader, &batch, 60000);

    cr_assert_eq(status, expected, "%d: %s", status, sl_error(loader));
    return batch;
}

Test(load_bad, a_bad_sample_is_replaced_by_the_next_good_one)
{
    struct sl_config config;
    struct sl_stats stats = {.size = sizeof stats};
    struct sl_loader *loader;
    struct sl_batch *batch;
    size_t row;

    begin("cdh"); /* 2, 3 and 7 */
    config = load_config(load_path(&folder, "p"));
    loader = load_open(&config);
    batch = next(loader, 0);
    row = (size_t)batch->strides[0];
    for (int i = 0; i < 8; i++)
        cr_assert_eq(batch->statuses[i],
                     i == 2 || i == 3 || i == 7 ? SL_SAMPLE_REPLACED : SL_SAMPLE_GOOD);
#define SAME(a, b)                                                                                 \
    (memcmp((uint8_t *)batch->data + (a)*row, (uint8_t *)batch->data + (b)*row, row) == 0)
    cr_assert(SAME(2, 4) && SAME(3, 4) && SAME(7, 0) && !SAME(0, 1));
#undef SAME
    cr_assert_eq(batch->positions[3], 3);
    cr_assert_str_eq(batch->names[3], "003.jpg");
    sl_release(loader, batch);
    cr_assert_eq(sl_stats(loader, &stats), 0);
    cr_assert(stats.bad == 3 && stats.replaced == 3 && stats.skipped == 0);
    cr_assert(strstr(stats.last_bad, ".jpg") != NULL);
    sl_close(loader);
    load_folder_remove(&folder);
}

Test(load_bad, a_bad_sample_is_left_out_and_shown_behind_the_good_ones)
{
    struct sl_config config;
    struct sl_stats stats = {.size = sizeof stats};
    struct sl_loader *loader, *clean;
    struct sl_batch *batch, *other;
    size_t row;

    begin("cdh");
    config = load_config(load_path(&folder, "p"));
    config.bad = SL_BAD_SKIP;
    loader = load_open(&config);
    config.bad = SL_BAD_REPLACE;
    clean = load_open(&config);
    batch = next(loader, SL_PARTIAL);
    other = next(clean, 0);
    row = (size_t)batch->strides[0];
    cr_assert(batch->count == 5 && batch->asked == 8 && batch->shape[0] == 5);
    for (int i = 0; i < 5; i++) {
        static const int good[] = {0, 1, 4, 5, 6};
        cr_assert_eq(batch->positions[i], (uint64_t)good[i]);
        cr_assert_str_eq(batch->names[i], other->names[good[i]]);
        cr_assert(memcmp((uint8_t *)batch->data + (size_t)i * row,
                         (uint8_t *)other->data + (size_t)good[i] * row, row) == 0);
    }
    for (int i = 5; i < 8; i++) {
        cr_assert(batch->statuses[i] < 0);
        cr_assert_eq(batch->labels[i], SL_NO_LABEL);
    }
    cr_assert(batch->positions[5] == 2 && batch->positions[6] == 3 && batch->positions[7] == 7);
    cr_assert_str_eq(batch->names[7], "007.jpg");
    sl_release(loader, batch);
    sl_release(loader, next(loader, 0));
    sl_release(loader, next(loader, SL_PARTIAL));
    next(loader, SL_END);
    cr_assert_eq(sl_stats(loader, &stats), 0);
    cr_assert(stats.bad == 3 && stats.skipped == 3 && stats.samples == PICTURES - 3);
    sl_close(loader);
    sl_close(clean);
    load_folder_remove(&folder);
}

Test(load_bad, a_bad_sample_can_be_an_error_in_its_place)
{
    struct sl_config config;
    struct sl_loader *loader;

    begin("m"); /* 12, in the second batch */
    config = load_config(load_path(&folder, "p"));
    config.bad = SL_BAD_FAIL;
    loader = load_open(&config);
    for (int i = 0; i < 2; i++) {
        sl_release(loader, next(loader, 0));
        next(loader, -EBADMSG);
        cr_assert(strstr(sl_error(loader), "012.jpg") != NULL, "%s", sl_error(loader));
        next(loader, -EBADMSG);
        cr_assert_eq(sl_set_epoch(loader, 0), 0);
    }
    sl_close(loader);
    load_folder_remove(&folder);
}

Test(load_bad, a_batch_without_a_good_sample_is_an_error_or_empty)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;

    begin("ijklmnop"); /* 8 to 15 */
    config = load_config(load_path(&folder, "p"));
    loader = load_open(&config);
    sl_release(loader, next(loader, 0));
    next(loader, -EBADMSG);
    cr_assert(strstr(sl_error(loader), "008.jpg") != NULL, "%s", sl_error(loader));
    sl_close(loader);
    config.bad = SL_BAD_SKIP;
    loader = load_open(&config);
    sl_release(loader, next(loader, 0));
    batch = next(loader, SL_PARTIAL);
    cr_assert(batch->count == 0 && batch->asked == 8);
    sl_release(loader, batch);
    batch = next(loader, SL_PARTIAL);
    cr_assert_eq(batch->count, 4);
    sl_close(loader);
    load_folder_remove(&folder);
}

Test(load_bad, what_is_done_about_it_does_not_hang_on_threads_or_source)
{
    begin("cdhm");
    load_write_tar(&folder, "s.tar", PICTURES, 6);
    for (int source = 0; source < 2; source++)
        for (int bad = SL_BAD_REPLACE; bad <= SL_BAD_SKIP; bad++) {
            uint64_t first = 0;
            for (int workers = 1; workers <= 8; workers *= 2) {
                struct sl_config config = load_config(load_path(&folder, source ? "s.tar" : "p"));
                uint64_t hash;

                config.bad = (enum sl_bad)bad;
                config.workers = workers;
                hash = load_once(&config);
                cr_assert(workers == 1 || hash == first);
                first = hash;
            }
        }
    load_folder_remove(&folder);
}

Test(load_bad, a_damaged_picture_is_delivered_and_told_or_treated_as_bad)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;
    struct sl_stats stats = {.size = sizeof stats};
    unsigned char *bytes;
    size_t size;

    begin("");
    bytes = load_picture(4, &size);
    load_write(&folder, "p/004.jpg", bytes, size * 2 / 3);
    free(bytes);
    config = load_config(load_path(&folder, "p"));
    config.crop = SL_STRETCH;
    loader = load_open(&config);
    batch = next(loader, 0);
    cr_assert_eq(batch->statuses[4], SL_SAMPLE_DAMAGED);
    sl_stats(loader, &stats);
    cr_assert(stats.bad == 0 && stats.damaged == 1);
    sl_close(loader);
    config.damaged_is_bad = 1;
    loader = load_open(&config);
    batch = next(loader, 0);
    cr_assert_eq(batch->statuses[4], SL_SAMPLE_REPLACED);
    sl_stats(loader, &stats);
    cr_assert_eq(stats.bad, 1);
    sl_close(loader);
    load_folder_remove(&folder);
}
