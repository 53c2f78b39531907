/* Following readers, without a kernel: what is pushed for whom, and what is not. */
#include "unit.h"

#include "../../fs/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 20000, BYTES = 1000 };

static struct index set;
static uint32_t samples = SAMPLES;
static struct epochs *epochs;
static struct follow *follow;
static struct view_node *folder;
static struct order_basis basis;

/* An index of samples with one field of BYTES each, made by hand: nothing is read. */
static void begin(uint64_t reader_bytes, uint64_t total_bytes, uint64_t world)
{
    struct order_spec spec = {.kind = ORDER_TORCH, .seed = 0};

    basis = (struct order_basis){.samples = samples};
    set = (struct index){.sample_count = samples, .member_count = samples};
    set.members = calloc(samples, sizeof *set.members);
    set.first = calloc(samples + 1, sizeof *set.first);
    folder = calloc(1, sizeof *folder + 16);
    cr_assert(set.members && set.first && folder);
    for (uint32_t i = 0; i < samples; i++) {
        set.members[i].size = BYTES;
        set.first[i] = i;
    }
    set.first[samples] = samples;
    cr_assert_eq(epochs_open(&epochs, &spec, &basis, 0), 0);
    cr_assert_eq(follow_open(&follow, &set, epochs, reader_bytes, total_bytes, false), 0);
    folder->inode = VIEW_NODE_INODE + 5;
    folder->parent = VIEW_CURRENT_INODE;
    folder->kind = VIEW_RANK;
    strcpy(folder->name, "rank-0");
    cr_assert(plan_open(&folder->plan, samples, &(struct plan_share){.world = world},
                        &(struct plan_deal){0}));
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

/* A reader in order up to `end`, that finds all but every `stride`-th file in the page cache. */
static void read_on(uint64_t from, uint64_t end, uint64_t stride, bool again)
{
    for (uint64_t p = from; p < end; p++) {
        if (p % FOLLOW_MARK_EVERY == 0)
            follow_looked(follow, folder, p, 1);
        if ((p - from) % stride == 0)
            follow_read(follow, member_at(p), again, 0);
    }
}

/* Does all pushes that may be done now; returns how many, and the first and last position. */
static uint64_t push_all(uint64_t *first, uint64_t *last)
{
    struct follow_push push;
    uint64_t count = 0;

    while (follow_next_push(follow, 0, &push)) {
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
        follow_looked(follow, folder, p, 1);
    cr_assert_eq(push_all(NULL, NULL), 0);
    end();
}

Test(follow, pushes_stay_ahead_of_a_reader_in_order_and_the_window_grows)
{
    uint64_t first = 0, last = 0, before = 0, at = 2;

    begin(1 << 30, 1 << 30, 2);
    follow_listed(follow, folder, folder->plan.length);
    follow_read(follow, member_at(0), false, 0);
    cr_assert_eq(push_all(NULL, NULL), 0, "one read is no reader");
    follow_read(follow, member_at(1), false, 0);
    cr_assert(push_all(&first, &last) > 0);
    cr_assert(first > 1 && last < 200, "the first window is small");
    for (int i = 0; i < 3; i++) {
        before = last;
        for (; at <= last; at++)
            if (at % FOLLOW_MARK_EVERY == 0)
                follow_looked(follow, folder, at, 1);
        read_on(at, at + 1, 1, false);
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
            follow_read(follow, member_at(p), false, 0);
            seen[p]++;
        } else if (p % FOLLOW_MARK_EVERY == 0) {
            follow_looked(follow, folder, p, 1);
        }
        for (int i = 0; i < 3 && follow_next_push(follow, 0, &push); i++) {
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
        read_on(p, p + 50, p ? 50 : 1, false);
        push_all(NULL, NULL);
        cr_assert(follow_figures(follow).ahead <= 500 * BYTES);
    }
    folder->epoch = 1;
    folder->inode++;
    for (uint64_t p = 0; p < 3000; p += 50) {
        read_on(p, p + 50, p ? 50 : 1, false);
        push_all(NULL, NULL);
        cr_assert(follow_figures(follow).ahead <= 800 * BYTES);
    }
    cr_assert(follow_figures(follow).ahead > 700 * BYTES);
    follow_left(follow, folder->inode - 1);
    follow_left(follow, other->inode);
    cr_assert_eq(follow_figures(follow).ahead, 0);
    cr_assert_eq(push_all(NULL, NULL), 0);
    free(other);
    end();
}

Test(follow, what_the_reader_passed_is_no_longer_ahead)
{
    uint64_t last = 0;

    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    follow_read(follow, member_at(0), false, 0);
    follow_read(follow, member_at(1), false, 0);
    push_all(NULL, &last);
    for (uint64_t mark = FOLLOW_MARK_EVERY; mark < SAMPLES; mark += FOLLOW_MARK_EVERY) {
        follow_looked(follow, folder, mark, 1);
        push_all(NULL, &last);
        if (mark < last)
            cr_assert_eq(follow_figures(follow).ahead, (last + 1 - mark) * BYTES);
    }
    follow_looked(follow, folder, SAMPLES - 1, 1);
    cr_assert(follow_figures(follow).ahead <= 2 * BYTES);
    end();
}

Test(follow, a_reader_in_random_order_gets_little_pushed)
{
    uint64_t pushed = 0, random = 12345;

    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    for (int i = 0; i < 4000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        follow_read(follow, member_at((random >> 33) % SAMPLES), false, 0);
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
                if (p % FOLLOW_MARK_EVERY == 0)
                    follow_looked(follow, folder, p, 1);
                if (!seen[p]) {
                    seen[p] = 1;
                    reads++;
                    follow_read(follow, member_at(p), false, 0);
                }
                for (int k = 0; k < 2 && follow_next_push(follow, 0, &push); k++) {
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
        follow_looked(follow, folder, p, 1);
    cr_assert(follow_next_names(follow, &names));
    cr_assert_str_eq(names.path, "current/rank-0");
    cr_assert(names.start <= 8 && names.end > 1000);
    follow_named(follow, &names, names.folder, names.end);
    named = names.end;
    /* Then only the marks are met. */
    for (uint64_t mark = FOLLOW_MARK_EVERY; mark < SAMPLES; mark += FOLLOW_MARK_EVERY) {
        follow_looked(follow, folder, mark, 1);
        while (follow_next_names(follow, &names)) {
            cr_assert_eq(names.start, named, "no gap and nothing twice");
            named = names.end;
            follow_named(follow, &names, names.folder, names.end);
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
    follow_looked(follow, folder, 0, 1);
    follow_read(follow, member_at(0), false, 0);
    follow_looked(follow, folder, 1, 1);
    follow_read(follow, member_at(1), false, 0);
    cr_assert_eq(push_all(NULL, NULL), 0);
    cr_assert(follow_next_names(follow, &names));
    follow_named(follow, &names, names.folder, names.end);
    cr_assert(push_all(NULL, &last) > 0);
    cr_assert(last < names.end);
    end();
}

Test(follow, pages_that_the_kernel_dropped_are_pushed_again)
{
    struct follow_push push;

    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    follow_read(follow, member_at(0), false, 0);
    follow_read(follow, member_at(1), false, 0);
    cr_assert(follow_next_push(follow, 0, &push));
    cr_assert(!push.distrust);
    follow_read(follow, member_at(push.position + 1), true, 0);
    cr_assert(follow_next_push(follow, 0, &push));
    cr_assert(!push.distrust, "one may have been on its way");
    for (uint64_t p = push.position + 1; p < push.position + 5; p++)
        follow_read(follow, member_at(p), true, 0);
    cr_assert(follow_next_push(follow, 0, &push));
    cr_assert(push.distrust);
    end();
}

/* Folders of as many epochs, of which the first READs come in turn, as from the workers of many
 * ranks. Returns how many get pushes. */
static unsigned read_in_turn(unsigned first, unsigned count)
{
    static unsigned char served[1000];
    struct follow_push push;
    unsigned sum = 0;

    memset(served, 0, sizeof served);
    for (uint64_t p = 0; p < 40; p++) {
        for (unsigned i = first; i < first + count; i++) {
            folder->inode = VIEW_NODE_INODE + i;
            folder->epoch = i;
            snprintf(folder->name, 16, "rank-%u", i);
            if (p == 0)
                follow_listed(follow, folder, SAMPLES);
            else
                follow_looked(follow, folder, p, 1);
            follow_read(follow, member_at(p), false, 0);
            while (follow_next_push(follow, 0, &push))
                served[push.epoch] = 1;
        }
    }
    for (unsigned i = first; i < first + count; i++)
        sum += served[i];
    return sum;
}

Test(follow, of_more_readers_than_places_most_are_served)
{
    unsigned served;

    begin(1 << 30, 1 << 30, 1);
    follow_at(follow, 1000000000, false);
    served = read_in_turn(0, 80);
    cr_assert(served >= 32 && served <= 64, "%u", served);
    cr_assert(follow_figures(follow).crowded > 0);
    /* Those went away; others come. */
    follow_at(follow, 8000000000, false);
    served = read_in_turn(100, 60);
    cr_assert(served >= 58, "%u", served);
    end();
}

/* Of a large data set few orders are kept. */
Test(follow, epochs_of_the_past_are_not_worked_out_again_for_each_read)
{
    enum { EPOCHS = 6 };
    struct follow_push push;
    uint64_t pushed = 0;

    samples = 5000000; /* 20 MB an order */
    begin(1 << 20, 1 << 30, 1);
    samples = SAMPLES;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        folder->inode++;
        folder->epoch = epoch;
        follow_listed(follow, folder, 100);
        for (uint64_t p = 0; p < 20; p++)
            follow_read(follow, member_at(p), false, 0);
    }
    do
        for (uint64_t epoch = 0; epoch + 2 < EPOCHS; epoch++)
            cr_assert(!epochs_peek(epochs, epoch), "epoch %llu", (unsigned long long)epoch);
    while (follow_next_push(follow, 0, &push) && ++pushed);
    cr_assert(pushed > 0);
    end();
}

Test(follow, who_went_away_gives_back_its_share_when_others_need_it)
{
    uint64_t last = 0, before;

    begin(600 * BYTES, 800 * BYTES, 1);
    follow_at(follow, 1000000000, false);
    follow_listed(follow, folder, SAMPLES);
    read_on(0, 300, 1, false);
    push_all(NULL, NULL);
    read_on(300, 600, 50, false);
    push_all(NULL, NULL);
    before = follow_figures(follow).ahead;
    cr_assert(before > 500 * BYTES, "%llu", (unsigned long long)before);
    folder->inode++;
    folder->epoch = 7;
    follow_listed(follow, folder, SAMPLES);
    read_on(0, 300, 1, false);
    push_all(NULL, &last);
    cr_assert(follow_is_short(follow));
    cr_assert(!follow_give_back(follow), "the other may still be about");
    follow_at(follow, 7000000000, false);
    read_on(300, 320, 1, false);
    push_all(NULL, NULL);
    cr_assert(follow_is_short(follow));
    cr_assert(follow_give_back(follow));
    cr_assert(push_all(NULL, NULL) > 200);
    cr_assert(!follow_give_back(follow), "nobody else is away");
    /* It comes back, and has its part of what there is. */
    folder->inode--;
    folder->epoch = 0;
    read_on(600, 700, 1, false);
    push_all(NULL, NULL);
    cr_assert(follow_figures(follow).ahead <= 800 * BYTES);
    end();
}

/* A reader takes every position in order, and is met at marks and at what was not pushed. It reads
 * one field, and `looks` at that one. */
static uint64_t looks = 1;

static void read_through(bool cached)
{
    static unsigned char pushed[SAMPLES];
    struct follow_push push;

    memset(pushed, 0, sizeof pushed);
    for (uint64_t p = 0; p < folder->plan.length; p++) {
        if (p % FOLLOW_MARK_EVERY == 0 || p + 1 == folder->plan.length)
            follow_looked(follow, folder, p, looks);
        if (!cached && !pushed[p])
            follow_read(follow, member_at(p), false, 0);
        while (follow_next_push(follow, 0, &push))
            if (push.epoch == folder->epoch)
                pushed[push.position] = 1;
    }
}

Test(follow, the_next_epoch_is_warmed_when_this_one_is_claimed)
{
    struct follow_names names;
    struct follow_push push;
    uint64_t warmed = 0, other = 0;

    begin((uint64_t)500 * BYTES, 1 << 30, 2);
    follow_listed(follow, folder, folder->plan.length);
    read_through(false);
    cr_assert(follow_next_names(follow, &names), "its names first");
    cr_assert_str_eq(names.path, "epoch-1/rank-0");
    cr_assert_eq(names.folder, TRACK_FOLDER_UNKNOWN);
    cr_assert_eq(names.epoch, 1u);
    cr_assert_eq(push_all(NULL, NULL), 0u);
    follow_named(follow, &names, VIEW_NODE_INODE + 77, names.end);
    while (follow_next_push(follow, 0, &push)) {
        cr_assert_eq(push.epoch, 1u);
        cr_assert_eq(push.position, warmed);
        warmed++;
    }
    cr_assert(warmed > 100 && warmed <= 500, "%llu", (unsigned long long)warmed);
    /* `current` moves: the reader finds it in another folder, and nothing is claimed twice. */
    follow_moved(follow, folder->inode, (struct epochs_at){.epoch = 1});
    folder->inode = VIEW_NODE_INODE + 99;
    folder->epoch = 1;
    follow_listed(follow, folder, folder->plan.length);
    for (uint64_t p = 0; p < warmed; p += FOLLOW_MARK_EVERY)
        follow_looked(follow, folder, p, 1);
    follow_read(follow, member_at(warmed), false, 0);
    cr_assert(follow_next_push(follow, 0, &push));
    other = push.position;
    cr_assert(push.epoch == 1 && other > warmed);
    end();
}

Test(follow, a_warmed_epoch_shares_the_bound_of_the_one_before)
{
    struct follow_names names;

    begin((uint64_t)30000 * BYTES, 1 << 30, 1);
    follow_listed(follow, folder, folder->plan.length);
    for (uint64_t p = 0; p < SAMPLES - 16000; p += 60) {
        read_on(p, p + 60, p ? 60 : 1, false);
        push_all(NULL, NULL);
    }
    while (follow_next_names(follow, &names))
        follow_named(follow, &names, VIEW_NODE_INODE + 78, names.end);
    push_all(NULL, NULL);
    cr_assert(follow_figures(follow).ahead <= (uint64_t)30000 * BYTES);
    end();
}

Test(follow, a_switch_warms_what_was_read_and_nothing_else)
{
    struct follow_names names;
    const struct epochs_at to = {.epoch = 4};
    uint64_t first = 9, last = 0;

    begin(1 << 30, 1 << 30, 2);
    follow_listed(follow, folder, 100);
    cr_assert(!follow_moved(follow, folder->inode, to), "listed, not read");
    follow_listed(follow, folder, 100);
    for (uint64_t p = 0; p < 50; p++)
        follow_read(follow, member_at(p), false, 0);
    cr_assert(follow_moved(follow, folder->inode, to));
    cr_assert(follow_next_names(follow, &names));
    cr_assert_str_eq(names.path, "current/rank-0");
    cr_assert_eq(names.epoch, 4u);
    follow_named(follow, &names, VIEW_NODE_INODE + 80, names.end);
    cr_assert(push_all(&first, &last) > 100);
    cr_assert_eq(first, 0u);
    /* And of the old folder nothing is pushed. */
    cr_assert(!follow_next_push(follow, 0, &(struct follow_push){0}));
    end();
}

Test(follow, after_a_resumed_epoch_the_whole_next_one_is_warmed)
{
    struct follow_names names;
    struct follow_push push;
    uint64_t warmed;

    begin((uint64_t)500 * BYTES, 1 << 30, 2);
    cr_assert(plan_resume(&folder->plan, &folder->plan, SAMPLES / 2));
    folder->parent = VIEW_ROOT_INODE;
    strcpy(folder->name, "rank-0.after-10000");
    follow_listed(follow, folder, folder->plan.length);
    read_through(false);
    cr_assert(follow_next_names(follow, &names));
    cr_assert_str_eq(names.path, "epoch-1/rank-0");
    cr_assert(names.epoch == 1 && names.after == 0);
    follow_named(follow, &names, VIEW_NODE_INODE + 77, names.end);
    warmed = push_all(NULL, NULL);
    cr_assert(warmed > 100);
    /* `current` moves to it: it goes on from there, and claims nothing again. */
    follow_moved(follow, folder->inode, (struct epochs_at){.epoch = 1});
    cr_assert(follow_next_names(follow, &names));
    cr_assert(names.epoch == 1 && names.after == 0);
    follow_named(follow, &names, VIEW_NODE_INODE + 78, names.end);
    while (follow_next_push(follow, 0, &push))
        cr_assert(push.epoch == 1 && push.position == warmed++);
    end();
}

Test(follow, a_switch_into_the_midst_of_an_epoch_warms_its_tail)
{
    const struct epochs_at to = {.epoch = 0, .after = SAMPLES - 100};
    struct follow_names names;
    struct follow_push push;
    struct plan tail;

    begin(1 << 30, 1 << 30, 2);
    follow_listed(follow, folder, folder->plan.length);
    read_on(0, 50, 1, false);
    cr_assert(plan_resume(&tail, &folder->plan, to.after));
    cr_assert(follow_moved(follow, folder->inode, to));
    cr_assert(follow_next_names(follow, &names));
    cr_assert(names.epoch == 0 && names.after == to.after && names.end == tail.length);
    follow_named(follow, &names, VIEW_NODE_INODE + 80, names.end);
    folder->plan = tail;
    for (uint64_t p = 0; p < tail.length; p++) {
        cr_assert(follow_next_push(follow, 0, &push));
        cr_assert(push.position == p && push.sample == member_at(p));
    }
    cr_assert(!follow_next_push(follow, 0, &push));
    end();
}

Test(follow, a_switch_past_the_last_sample_warms_nothing)
{
    begin(1 << 30, 1 << 30, 2);
    follow_listed(follow, folder, folder->plan.length);
    read_on(0, 50, 1, false);
    cr_assert(!follow_moved(follow, folder->inode, (struct epochs_at){0, SAMPLES}));
    cr_assert_eq(push_all(NULL, NULL), 0u);
    end();
}

Test(follow, warming_is_not_shown_as_a_reader)
{
    struct follow_reader readers[4];

    begin(1 << 30, 1 << 30, 1);
    follow_warm(follow, "current/rank-0", 3, &folder->plan);
    cr_assert_eq(follow_readers(follow, 0, readers, 4), 0u);
    end();
}

Test(follow, an_epoch_read_twice_is_counted_and_told_of_once)
{
    char path[TRACK_PATH];
    uint64_t epoch, sample;

    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    read_through(false);
    cr_assert_eq(follow_figures(follow).repeated, 0u);
    cr_assert(!follow_next_repeat(follow, path, &epoch));
    for (unsigned pass = 1; pass < 4; pass++) {
        read_through(false);
        cr_assert_eq(follow_figures(follow).repeated, pass);
        cr_assert_eq(follow_next_repeat(follow, path, &epoch), pass == 1);
        cr_assert_str_eq(path, "current/rank-0");
    }
    while (follow_next_probe(follow, &sample))
        ;
    /* Another epoch is none. */
    folder->inode++;
    folder->epoch = 1;
    follow_listed(follow, folder, SAMPLES);
    read_through(false);
    cr_assert_eq(follow_figures(follow).repeated, 3u);
    end();
}

Test(follow, looking_at_all_names_again_is_no_pass_and_reading_what_is_cached_is_one)
{
    char path[TRACK_PATH];
    uint64_t epoch, sample = 0;
    struct order *order;

    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    read_through(false);
    /* `ls -l`: marks alone, and what is probed is not read. */
    follow_looked(follow, folder, 0, 1);
    cr_assert(follow_next_probe(follow, &sample));
    order = epochs_get(epochs, 0);
    cr_assert(sample == order_sample(order, 60), "a little ahead of it");
    epochs_put(epochs, order);
    read_through(true);
    while (follow_next_probe(follow, &sample))
        ;
    cr_assert_eq(follow_figures(follow).repeated, 0u);
    /* A reader whose files are all cached but the one that was probed. */
    follow_looked(follow, folder, 0, 1);
    while (!follow_next_probe(follow, &sample))
        follow_looked(follow, folder, 0, 1);
    follow_read(follow, sample, true, 0);
    cr_assert_eq(follow_figures(follow).repeated, 1u);
    cr_assert_eq(follow_figures(follow).lost, 0u, "dropped on purpose");
    cr_assert(follow_next_repeat(follow, path, &epoch));
    end();
}

/* All labels first, then all pictures. */
Test(follow, reading_an_epochs_fields_one_after_the_other_is_one_pass)
{
    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    for (uint32_t field = 0; field < 3; field++) {
        for (uint64_t i = 0; i < SAMPLES; i++)
            set.members[i].field = field;
        looks = (uint64_t)1 << field;
        read_through(false);
        cr_assert_eq(follow_figures(follow).repeated, 0u, "field %u", field);
    }
    read_through(false);
    cr_assert_eq(follow_figures(follow).repeated, 1u);
    looks = 1;
    end();
}

/* As by a loader that wants all sizes before it reads. */
Test(follow, looking_at_all_names_before_reading_is_no_pass)
{
    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    read_through(true);
    read_through(false);
    cr_assert_eq(follow_figures(follow).repeated, 0u);
    read_through(false);
    cr_assert_eq(follow_figures(follow).repeated, 1u);
    end();
}

Test(follow, pages_dropped_again_and_again_shrink_what_is_pushed)
{
    uint64_t before, after;

    begin((uint64_t)8 << 20, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    for (uint64_t p = 0; p < 4096; p += 64) {
        read_on(p, p + 64, p ? 64 : 1, false);
        push_all(NULL, NULL);
    }
    before = follow_figures(follow).ahead;
    for (uint64_t p = 4096; p < 4136; p++) {
        read_on(p, p + 1, 1, true);
        push_all(NULL, NULL);
    }
    after = follow_figures(follow).ahead;
    cr_assert(before > (uint64_t)6 << 20 && after <= (uint64_t)2 << 20, "%llu, then %llu",
              (unsigned long long)before, (unsigned long long)after);
    cr_assert_eq(follow_figures(follow).lost, 40u);
    end();
}

Test(follow, hits_are_what_was_passed_without_being_asked_for)
{
    struct follow_reader reader;

    begin(1 << 30, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    follow_at(follow, 1000000000, false);
    for (uint64_t p = 0; p < SAMPLES; p += p < 100 ? 1 : 50) {
        follow_at(follow, 1000000000 + p * 100000, false);
        follow_read(follow, member_at(p), false, 50000);
        push_all(NULL, NULL);
    }
    cr_assert_eq(follow_readers(follow, 3000000000, &reader, 1), 1u);
    cr_assert(follow_figures(follow).hits > 19400 && follow_figures(follow).hits < 19500);
    cr_assert(reader.pace.hit_rate > 0.97 && reader.pace.hit_rate < 0.99);
    cr_assert(reader.pace.samples_per_s > 9900 && reader.pace.samples_per_s < 10100);
    cr_assert(reader.pace.bytes_per_s > 9.8e6 && reader.pace.bytes_per_s < 10.2e6);
    /* One read of 50 us in 50 samples of 100 us. */
    cr_assert(reader.pace.wait_share > 0.009 && reader.pace.wait_share < 0.011);
    end();
}

Test(follow, a_reader_in_no_order_is_shown_once_and_hits_nothing)
{
    struct follow_reader readers[64];
    uint64_t random = 99;

    begin(1 << 30, 1 << 30, 1);
    for (int i = 0; i < 5000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        follow_at(follow, 1000000000 + (uint64_t)i * 1000000, false);
        follow_looked(follow, folder, (random >> 33) % SAMPLES, 1);
        follow_read(follow, member_at((random >> 33) % SAMPLES), i > 1000, 100000);
    }
    cr_assert_eq(follow_readers(follow, 6000000000, readers, 64), 1u);
    cr_assert(!readers[0].in_order);
    /* All of its READs count, though few of them are where it was met last. */
    cr_assert(readers[0].pace.samples_per_s > 950 && readers[0].pace.samples_per_s < 1050, "%g",
              readers[0].pace.samples_per_s);
    cr_assert(readers[0].pace.bytes_per_s > 950.0 * BYTES &&
              readers[0].pace.bytes_per_s < 1050.0 * BYTES);
    cr_assert(readers[0].pace.wait_share > 0.095 && readers[0].pace.wait_share < 0.105);
    /* Nothing was pushed for it: nothing is ahead of it or lost, whatever it reads again. */
    cr_assert_eq(follow_figures(follow).ahead, 0u);
    cr_assert_eq(follow_figures(follow).lost, 0u);
    cr_assert(follow_figures(follow).hits < 50, "%llu",
              (unsigned long long)follow_figures(follow).hits);
    cr_assert_eq(follow_figures(follow).crowded, 0u);
    end();
}

Test(follow, a_reader_is_the_same_after_the_kernel_forgot_its_folder)
{
    struct follow_reader readers[4];

    begin(500 * BYTES, 1 << 30, 1);
    follow_listed(follow, folder, SAMPLES);
    for (uint64_t p = 0; p < 600; p++)
        follow_read(follow, member_at(p), false, 0);
    push_all(NULL, NULL);
    folder->inode++;
    follow_looked(follow, folder, 600, 1);
    for (uint64_t p = 600; p < 900; p++)
        follow_read(follow, member_at(p), false, 0);
    push_all(NULL, NULL);
    cr_assert_eq(follow_readers(follow, 0, readers, 4), 1u);
    cr_assert(follow_figures(follow).ahead <= 500 * BYTES);
    end();
}
