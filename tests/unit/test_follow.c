/* Following readers, without a kernel: what is pushed for whom, and what is not. */
#include "unit.h"

#include "../../fs/follow.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 20000, BYTES = 1000 };

static struct index set;
static struct epochs *epochs;
static struct follow *follow;
static struct view_node *folder;

/* An index of samples with one field of BYTES each, made by hand: nothing is read. */
static void begin(uint64_t reader_bytes, uint64_t total_bytes, uint64_t world)
{
    struct order_spec spec = {ORDER_TORCH, 0};

    set = (struct index){.sample_count = SAMPLES, .member_count = SAMPLES};
    set.members = calloc(SAMPLES, sizeof *set.members);
    set.first = calloc(SAMPLES + 1, sizeof *set.first);
    folder = calloc(1, sizeof *folder + 16);
    cr_assert(set.members && set.first && folder);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        set.members[i].size = BYTES;
        set.first[i] = i;
    }
    set.first[SAMPLES] = SAMPLES;
    cr_assert_eq(epochs_open(&epochs, &spec, SAMPLES, 0), 0);
    cr_assert_eq(follow_open(&follow, &set, epochs, reader_bytes, total_bytes), 0);
    folder->inode = VIEW_NODE_INODE + 5;
    folder->parent = VIEW_CURRENT_INODE;
    folder->kind = VIEW_RANK;
    strcpy(folder->name, "rank-0");
    cr_assert(plan_open(&folder->plan, SAMPLES, 0, world, PLAN_PAD));
}

static void end(void)
{
    follow_close(follow);
    epochs_close(epochs);
    free(set.members);
    free(set.first);
    free(folder);
}

static uint64_t member_at(uint64_t position)
{
    struct order *order = epochs_get(epochs, folder->epoch);
    uint64_t sample = order_sample(order, plan_global(&folder->plan, position));
    epochs_put(epochs, order);
    return sample;
}

/* Does all pushes that may be done now; returns how many, and the first and last position. */
static uint64_t push_all(uint64_t *first, uint64_t *last)
{
    struct follow_push push;
    uint64_t count = 0;

    while (follow_next_push(follow, &push)) {
        if (count++ == 0 && first)
            *first = push.position;
        if (last)
            *last = push.position;
        cr_assert(count <= SAMPLES);
    }
    return count;
}

Test(follow, a_listing_alone_pushes_nothing)
{
    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    cr_assert_eq(push_all(NULL, NULL), 0);
    for (uint64_t p = 0; p < 2000; p++)
        follow_looked(follow, folder, p);
    cr_assert_eq(push_all(NULL, NULL), 0);
    end();
}

Test(follow, pushes_stay_ahead_of_a_reader_in_order_and_the_window_grows)
{
    uint64_t first = 0, last = 0, before = 0;

    begin(1 << 30, 1 << 30, 2);
    follow_listed(follow, folder, folder->plan.length);
    follow_read(follow, member_at(0), false);
    cr_assert_eq(push_all(NULL, NULL), 0, "one read is no reader");
    follow_read(follow, member_at(1), false);
    cr_assert(push_all(&first, &last) > 0);
    cr_assert(first > 1 && last < 200, "the first window is small");
    for (int i = 0; i < 3; i++) {
        before = last;
        follow_read(follow, member_at(last + 1), false);
        cr_assert(push_all(&first, &last) > 0);
        cr_assert(first > before + 1);
    }
    cr_assert(last - before > 1000, "the window has grown");
    end();
}

Test(follow, every_position_is_pushed_or_read_once_and_none_past_the_end)
{
    static unsigned char seen[SAMPLES];
    struct follow_push push;
    uint64_t length;

    begin(1 << 30, 1 << 30, 3);
    length = folder->plan.length;
    memset(seen, 0, sizeof seen);
    follow_listed(follow, folder, length);
    for (uint64_t p = 0; p < length; p++) {
        if (!seen[p]) {
            follow_read(follow, member_at(p), false);
            seen[p]++;
        } else if (p % FOLLOW_MARK_EVERY == 0) {
            follow_looked(follow, folder, p);
        }
        for (int i = 0; i < 3 && follow_next_push(follow, &push); i++) {
            cr_assert(push.position < length);
            cr_assert(push.position > p, "what is behind the reader is not pushed");
            seen[push.position]++;
        }
    }
    for (uint64_t p = 0; p < length; p++)
        cr_assert_eq(seen[p], 1, "position %llu: %d times", (unsigned long long)p, seen[p]);
    end();
}

Test(follow, bytes_ahead_are_bounded_for_one_reader_and_for_all)
{
    struct view_node *other;

    begin(500 * BYTES, 800 * BYTES, 1);
    other = calloc(1, sizeof *other + 16);
    memcpy(other, folder, sizeof *folder + 16);
    other->inode++;
    other->epoch = 1;
    follow_listed(follow, folder, SAMPLES);
    follow_listed(follow, other, SAMPLES);
    for (uint64_t p = 0; p < 3000; p += 50) {
        follow_read(follow, member_at(p), false);
        push_all(NULL, NULL);
        cr_assert(follow_bytes_ahead(follow) <= 500 * BYTES);
    }
    folder->epoch = 1;
    for (uint64_t p = 0; p < 3000; p += 50) {
        follow_read(follow, member_at(p), false);
        push_all(NULL, NULL);
        cr_assert(follow_bytes_ahead(follow) <= 800 * BYTES);
    }
    cr_assert(follow_bytes_ahead(follow) > 700 * BYTES);
    follow_left(follow, folder->inode);
    follow_left(follow, other->inode);
    cr_assert_eq(follow_bytes_ahead(follow), 0);
    cr_assert_eq(push_all(NULL, NULL), 0);
    free(other);
    end();
}

Test(follow, what_the_reader_passed_is_no_longer_ahead)
{
    uint64_t last = 0;

    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    follow_read(follow, member_at(0), false);
    follow_read(follow, member_at(1), false);
    push_all(NULL, &last);
    for (uint64_t mark = FOLLOW_MARK_EVERY; mark < SAMPLES; mark += FOLLOW_MARK_EVERY) {
        follow_looked(follow, folder, mark);
        push_all(NULL, &last);
        if (mark < last)
            cr_assert_eq(follow_bytes_ahead(follow), (last + 1 - mark) * BYTES);
    }
    follow_looked(follow, folder, SAMPLES - 1);
    cr_assert(follow_bytes_ahead(follow) <= 2 * BYTES);
    end();
}

Test(follow, a_reader_in_random_order_gets_little_pushed)
{
    uint64_t pushed = 0, random = 12345;

    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    for (int i = 0; i < 4000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        follow_read(follow, member_at((random >> 33) % SAMPLES), false);
        pushed += push_all(NULL, NULL);
    }
    cr_assert(pushed < 4000 / 20, "%llu were pushed for 4000 reads", (unsigned long long)pushed);
    end();
}

/* As a DataLoader with 4 workers and batches of 64: each reads a whole batch, the batches side by
 * side. */
Test(follow, interleaved_batches_are_one_reader)
{
    static unsigned char seen[SAMPLES];
    struct follow_push push;
    uint64_t reads = 0;

    begin(1 << 30, 1 << 30, 1);
    memset(seen, 0, sizeof seen);
    follow_listed(follow, folder, SAMPLES);
    for (uint64_t start = 0; start + 256 <= SAMPLES; start += 256) {
        for (uint64_t i = 0; i < 64; i++) {
            for (uint64_t worker = 0; worker < 4; worker++) {
                uint64_t p = start + worker * 64 + i;
                if (!seen[p]) {
                    seen[p] = 1;
                    reads++;
                    follow_read(follow, member_at(p), false);
                } else if (p % FOLLOW_MARK_EVERY == 0) {
                    follow_looked(follow, folder, p);
                }
                for (int k = 0; k < 2 && follow_next_push(follow, &push); k++) {
                    seen[push.position] = 1;
                }
            }
        }
    }
    cr_assert(reads < SAMPLES / 10, "%llu of %d were not pushed", (unsigned long long)reads,
              SAMPLES);
    end();
}

Test(follow, names_are_looked_up_ahead_of_a_reader_that_never_listed)
{
    struct follow_names names;
    uint64_t named = 0;

    begin(1 << 30, 1 << 30, 1);
    cr_assert(!follow_next_names(follow, &names));
    for (uint64_t p = 0; p < 8; p++)
        follow_looked(follow, folder, p);
    cr_assert(follow_next_names(follow, &names));
    cr_assert_str_eq(names.path, "current/rank-0");
    cr_assert(names.start <= 8 && names.end > 1000);
    follow_named(follow, &names, names.end);
    named = names.end;
    /* Then only the marks are met. */
    for (uint64_t mark = FOLLOW_MARK_EVERY; mark < SAMPLES; mark += FOLLOW_MARK_EVERY) {
        follow_looked(follow, folder, mark);
        while (follow_next_names(follow, &names)) {
            cr_assert_eq(names.start, named, "no gap and nothing twice");
            named = names.end;
            follow_named(follow, &names, names.end);
        }
        cr_assert(named > mark || named == SAMPLES);
    }
    cr_assert_eq(named, SAMPLES);
    end();
}

Test(follow, pushes_wait_for_names)
{
    struct follow_names names;
    uint64_t last = 0;

    begin(1 << 30, 1 << 30, 1);
    follow_looked(follow, folder, 0);
    follow_read(follow, member_at(0), false);
    follow_looked(follow, folder, 1);
    follow_read(follow, member_at(1), false);
    cr_assert_eq(push_all(NULL, NULL), 0);
    cr_assert(follow_next_names(follow, &names));
    follow_named(follow, &names, names.end);
    cr_assert(push_all(NULL, &last) > 0);
    cr_assert(last < names.end);
    end();
}

Test(follow, pages_that_the_kernel_dropped_are_pushed_again)
{
    struct follow_push push;

    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    follow_read(follow, member_at(0), false);
    follow_read(follow, member_at(1), false);
    cr_assert(follow_next_push(follow, &push));
    cr_assert(!push.distrust);
    follow_read(follow, member_at(push.position + 1), true);
    cr_assert(follow_next_push(follow, &push));
    cr_assert(!push.distrust, "one may have been on its way");
    for (uint64_t p = push.position + 1; p < push.position + 5; p++)
        follow_read(follow, member_at(p), true);
    cr_assert(follow_next_push(follow, &push));
    cr_assert(push.distrust);
    end();
}

Test(follow, more_folders_than_tracks_push_out_the_oldest)
{
    begin(1 << 30, 1 << 30, 1);
    for (uint64_t i = 0; i < 500; i++) {
        folder->inode = VIEW_NODE_INODE + i;
        folder->epoch = i;
        follow_listed(follow, folder, SAMPLES);
        follow_read(follow, member_at(0), false);
        follow_read(follow, member_at(1), false);
        push_all(NULL, NULL);
    }
    cr_assert(follow_bytes_ahead(follow) < (uint64_t)64 * 600 * BYTES);
    end();
}
