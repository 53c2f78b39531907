/* The view without a kernel: inodes, spellings, listings, lists, and what a switch leaves behind.
 */
#include "unit.h"

#include "viewed.h"

#include "../../fs/list.h"
#include "../../fs/listing.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 23 };

static struct viewed on;

static void begin(const char *options)
{
    char *members[4 * SAMPLES + 1];

    opened_begin(&on.data);
    for (int i = 0; i < SAMPLES; i++) {
        cr_assert(asprintf(&members[4 * i], "d/k%d.x.jpg", i) > 0);
        cr_assert(asprintf(&members[4 * i + 1], "picture %d", i) > 0);
        cr_assert(asprintf(&members[4 * i + 2], "d/k%d.cls", i) > 0);
        cr_assert(asprintf(&members[4 * i + 3], "%d", i * 100) > 0);
    }
    members[4 * SAMPLES] = NULL;
    folder_add_tar(&on.data.folder, "a.tar", "ustar", (const char *const *)members);
    for (int i = 0; i < 4 * SAMPLES; i++)
        free(members[i]);
    viewed_open(&on, options);
}

Test(view, only_the_canonical_spelling_of_a_name_exists)
{
    static const char *const there[] = {".control",
                                        "current",
                                        "epoch-0",
                                        "epoch-9223372036854775807",
                                        "current/rank-0",
                                        "current/rank-1",
                                        "current/rank-4-of-5",
                                        "epoch-3/rank-0-of-1.keys",
                                        "epoch-3/rank-1.list",
                                        "current/rank-0-of-4294967296",
                                        "current/rank-1.part-2-of-3",
                                        "current/rank-1.part-0-of-1.tar",
                                        "current/rank-1-of-2.part-3-of-4.by-2147483648.list",
                                        "current/rank-1.part-4294967295-of-4294967296.by-1",
                                        "epoch-3/rank-1.after-0",
                                        "epoch-3/rank-1.after-23.keys",
                                        "epoch-3/rank-4-of-9.after-22.part-3-of-4.by-2.tar",
                                        ".control/rank-0.epoch",
                                        ".control/rank-6-of-7.epoch",
                                        ".control/status",
                                        ".control/epoch",
                                        ".control/fingerprint"};
    static const char *const absent[] = {"epoch-",
                                         "epoch-00",
                                         "epoch-07",
                                         "epoch-9223372036854775808",
                                         "epoch--1",
                                         "epoch-1x",
                                         "current/rank-2",
                                         "current/rank-01",
                                         "current/rank-5-of-5",
                                         "current/rank-0-of-0",
                                         "current/rank-0-of-05",
                                         "current/rank-0.tarx",
                                         "current/rank-0.classes.keys",
                                         "current/rank-0.classes/100",
                                         "current/rank-0.classes/0150",
                                         "current/rank-0.classes/00000000_d_k0.cls",
                                         "current/rank-0.after-0",
                                         "current/rank-0.after-3",
                                         "current/rank-0.part-0-of-2.after-3",
                                         "epoch-3/rank-0.part-0-of-2.after-3",
                                         "epoch-3/rank-0.after-24",
                                         "epoch-3/rank-0.after-",
                                         "epoch-3/rank-0.after-03",
                                         "epoch-3/rank-0.after-3x",
                                         "epoch-3/rank-0.after-3.after-3",
                                         "epoch-3/rank-0.after-18446744073709551617",
                                         "epoch-3/rank-0.part-0",
                                         "epoch-3/rank-0.part-0-of-",
                                         "epoch-3/rank-0.part-0-of-0",
                                         "epoch-3/rank-0.part-2-of-2",
                                         "epoch-3/rank-0.part-00-of-2",
                                         "epoch-3/rank-0.part-0-of-02",
                                         "epoch-3/rank-0.part-0-of-4294967297",
                                         "epoch-3/rank-0.part-0-of-2.by-0",
                                         "epoch-3/rank-0.part-0-of-2.by-02",
                                         "epoch-3/rank-0.part-0-of-2.by-2147483649",
                                         "epoch-3/rank-0.part-0-of-2.by-",
                                         "epoch-3/rank-0.part-0-of-2.part-0-of-2",
                                         "epoch-3/rank-0.by-2",
                                         "epoch-3/rank-0.keys.part-0-of-2",
                                         "rank-0.after-3",
                                         ".control/rank-0.part-0-of-2.epoch",
                                         ".control/rank-0.after-3.epoch",
                                         "current/rank-0-of-4294967297",
                                         "current/RANK-0",
                                         "current/rank-",
                                         "current/rank-0.keysx",
                                         ".control/rank-2.epoch",
                                         ".control/rank-00.epoch",
                                         ".control/x",
                                         "rank-0",
                                         "current/current",
                                         "current/rank-0/00000012.x.jpg"};

    begin("world=2");
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        cr_assert(viewed_walk(&on, there[i]) != 0, "%s", there[i]);
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        cr_assert_eq(viewed_walk(&on, absent[i]), 0, "%s", absent[i]);
    viewed_end(&on);
}

Test(view, sample_names_are_spelled_one_way)
{
    static const char *const there[] = {"00000000.x.jpg", "00000000.cls", "00000022.x.jpg"};
    static const char *const absent[] = {"0.x.jpg",      "00000000",      "00000000.",
                                         "00000000.jpg", "000000000.cls", "00000023.cls",
                                         "00000000.CLS", "-0000000.cls",  "00000000_d_k0.cls"};
    char path[64];

    begin("order=sequential");
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        snprintf(path, sizeof path, "current/rank-0/%s", there[i]);
        cr_assert(viewed_walk(&on, path) != 0, "%s", path);
    }
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        snprintf(path, sizeof path, "current/rank-0/%s", absent[i]);
        cr_assert_eq(viewed_walk(&on, path), 0, "%s", path);
    }
    cr_assert(viewed_walk(&on, "current/rank-0.keys/00000007_d_k7.x.jpg") != 0);
    cr_assert_eq(viewed_walk(&on, "current/rank-0.keys/00000007_d_k8.x.jpg"), 0);
    cr_assert_eq(viewed_walk(&on, "current/rank-0.keys/00000007.x.jpg"), 0);
    cr_assert_eq(viewed_walk(&on, "current/rank-0/00000007.cls"),
                 viewed_walk(&on, "epoch-9/rank-0-of-1.keys/00000007_d_k7.cls"));
    viewed_end(&on);
}

struct taken {
    char names[256][256];
    uint64_t inodes[256];
    int64_t next[256];
    size_t count, most;
};

static bool take(void *context, const struct listing_entry *entry)
{
    struct taken *taken = context;

    if (taken->count == taken->most)
        return false;
    snprintf(taken->names[taken->count], 256, "%s", entry->name);
    taken->inodes[taken->count] = entry->inode;
    taken->next[taken->count++] = entry->next;
    return true;
}

static struct taken *list_from(const char *path, int64_t offset, size_t most)
{
    static struct taken taken;

    taken.count = 0;
    taken.most = most;
    cr_assert_eq(
        listing_give(on.view, view_node(on.view, viewed_walk(&on, path)), offset, take, &taken), 0);
    return &taken;
}

Test(listing, is_in_name_order_and_leads_where_lookup_does)
{
    static const char *const views[] = {"rank-1", "rank-1.keys", "rank-0"};
    char path[600];

    begin("world=3,remainder=keep");
    for (size_t v = 0; v < 3; v++) {
        snprintf(path, sizeof path, "current/%s", views[v]);
        struct taken *taken = list_from(path, 0, 256);
        cr_assert_eq(taken->count, 2 + 2 * 8);
        for (size_t i = 2; i < taken->count; i++) {
            cr_assert(i == 2 || strcmp(taken->names[i - 1], taken->names[i]) < 0);
            snprintf(path, sizeof path, "current/%s/%s", views[v], taken->names[i]);
            cr_assert_eq(viewed_walk(&on, path), taken->inodes[i], "%s", path);
        }
    }
    viewed_end(&on);
}

Test(listing, goes_on_from_every_offset)
{
    static const char *const folders[] = {"current/rank-0",
                                          "current",
                                          "epoch-4",
                                          ".control",
                                          "current/rank-0.classes",
                                          "epoch-4/rank-0-of-1.classes/0700"};
    static struct taken whole;

    begin("world=2,epoch=4");
    for (size_t f = 0; f < 6; f++) {
        whole = *list_from(folders[f], 0, 256);
        for (size_t i = 0; i < whole.count; i++) {
            for (size_t most = 1; most < 5; most++) {
                struct taken *some = list_from(folders[f], whole.next[i], most);
                for (size_t k = 0; k < some->count; k++)
                    cr_assert_str_eq(some->names[k], whole.names[i + 1 + k]);
                cr_assert_eq(some->count, most < whole.count - i - 1 ? most : whole.count - i - 1);
            }
        }
    }
    whole = *list_from("current/rank-0", 0, 256);
    cr_assert_eq(
        listing_give(on.view, view_node(on.view, viewed_walk(&on, "current")), -5, take, &whole),
        -EINVAL);
    viewed_end(&on);
}

/* Labels are 0, 100, ... 2200: too far from each other for a folder each between. */
Test(listing, of_classes_together_is_that_of_the_rank)
{
    char path[600];
    size_t files = 0;

    begin("world=2,remainder=keep");
    static struct taken folders, whole;
    folders = *list_from("epoch-3/rank-1.classes", 0, 256);
    cr_assert_eq(folders.count, 2 + SAMPLES);
    whole = *list_from("epoch-3/rank-1.keys", 0, 256);
    for (size_t f = 2; f < folders.count; f++) {
        cr_assert(f == 2 || strcmp(folders.names[f - 1], folders.names[f]) < 0);
        snprintf(path, sizeof path, "epoch-3/rank-1.classes/%s", folders.names[f]);
        struct taken *taken = list_from(path, 0, 256);
        for (size_t i = 2; i < taken->count; i++, files++) {
            size_t same = 2;
            while (same < whole.count && strcmp(whole.names[same], taken->names[i]) != 0)
                same++;
            cr_assert(same < whole.count && whole.inodes[same] == taken->inodes[i]);
            snprintf(path, sizeof path, "epoch-3/rank-1.classes/%s/%s", folders.names[f],
                     taken->names[i]);
            cr_assert_eq(viewed_walk(&on, path), taken->inodes[i], "%s", path);
        }
    }
    cr_assert_eq(files, whole.count - 2);
    viewed_end(&on);
}

Test(view, what_classes_share_stays_as_long_as_one_of_them)
{
    struct view_left *left;
    struct taken *taken;
    size_t count, before;

    begin("world=2");
    uint64_t all = viewed_walk(&on, "current/rank-0.classes");
    uint64_t class = viewed_walk(&on, "current/rank-0.classes/0700");
    cr_assert_eq(viewed_walk(&on, "current/rank-0.classes/0700"), class);
    before = list_from("current/rank-0.classes/0700", 0, 256)->count;
    cr_assert_eq(view_move(on.view, false, 0, 2, (struct epochs_at){.epoch = 7}, &left, &count), 0);
    cr_assert_eq(count, 1);
    cr_assert(left[0].folder && left[0].inode == all);
    free(left);
    cr_assert(viewed_walk(&on, "current/rank-0.classes/0700") != class);
    /* Looked up five times; each of its folders, of which one is left, holds it once more. */
    view_forget(on.view, all, 4);
    cr_assert(view_node(on.view, all) != NULL);
    static struct taken again;
    again = (struct taken){.most = 256};
    cr_assert_eq(listing_give(on.view, view_node(on.view, class), 0, take, &again), 0);
    cr_assert_eq(again.count, before);
    cr_assert_eq(view_node(on.view, class)->epoch, 0);
    view_forget(on.view, class, 1000);
    cr_assert(view_node(on.view, class) == NULL);
    cr_assert(view_node(on.view, all) == NULL);
    taken = list_from("current/rank-0.classes/0700", 0, 256);
    cr_assert(taken->count >= 2);
    viewed_end(&on);
}

Test(view, a_switch_detaches_what_moved_and_nothing_else)
{
    const struct epochs_at to = {.epoch = 7};
    struct view_left *left;
    char attic[64], path[96];
    size_t count;

    begin("world=2");
    uint64_t zero = viewed_walk(&on, "current/rank-0"), one = viewed_walk(&on, "current/rank-1"),
             fixed = viewed_walk(&on, "epoch-0/rank-0"),
             list = viewed_walk(&on, "current/rank-0.list");
    view_attic_name(on.view, zero, attic);
    snprintf(path, sizeof path, "%s/%s", attic, VIEW_ATTIC_ENTRY);
    cr_assert_eq(viewed_walk(&on, path), 0, "not left behind yet");
    cr_assert_eq(view_move(on.view, false, 0, 2, to, &left, &count), 0);
    cr_assert_eq(count, 2);
    cr_assert_str_eq(left[0].name, "rank-0");
    cr_assert(left[0].folder && left[0].inode == zero);
    cr_assert_str_eq(left[1].name, "rank-0.list");
    cr_assert(!left[1].folder && left[1].inode == list);
    free(left);
    cr_assert_eq(viewed_walk(&on, path), zero, "in the attic it is the same inode");
    cr_assert(viewed_walk(&on, "current/rank-0") != zero);
    cr_assert(viewed_walk(&on, "current/rank-0.list") != list);
    cr_assert_eq(viewed_walk(&on, "current/rank-1"), one);
    cr_assert_eq(viewed_walk(&on, "epoch-0/rank-0"), fixed);
    cr_assert_eq(view_node(on.view, zero)->epoch, 0);
    cr_assert_eq(view_node(on.view, viewed_walk(&on, "current/rank-0"))->epoch, 7);
    /* The value it has: nothing moves. */
    cr_assert_eq(view_move(on.view, false, 0, 2, to, &left, &count), 0);
    cr_assert(left == NULL && count == 0);
    /* Back to the first epoch: a new inode all the same. */
    cr_assert_eq(view_move(on.view, true, 0, 0, (struct epochs_at){0}, &left, &count), 0);
    cr_assert(left != NULL);
    free(left);
    cr_assert(viewed_walk(&on, "current/rank-0") != zero);
    cr_assert_eq(viewed_walk(&on, "current/rank-1"), one);
    viewed_end(&on);
}

Test(view, nodes_live_until_forgotten)
{
    begin("world=2");
    uint64_t inode = viewed_walk(&on, "epoch-5");
    cr_assert_eq(viewed_walk(&on, "epoch-5"), inode);
    view_forget(on.view, inode, 1);
    cr_assert(view_node(on.view, inode) != NULL);
    view_forget(on.view, inode, 1);
    cr_assert(view_node(on.view, inode) == NULL);
    cr_assert(viewed_walk(&on, "epoch-5") != inode);
    viewed_end(&on);
}

Test(view, control_files_are_frozen_when_looked_up)
{
    begin("world=2");
    uint64_t before = viewed_walk(&on, ".control/epoch");
    epochs_move_all(on.epochs, (struct epochs_at){12, 0});
    uint64_t after = viewed_walk(&on, ".control/epoch");
    cr_assert(before != after);
    cr_assert_str_eq(view_node(on.view, before)->text, "0\n");
    cr_assert_str_eq(view_node(on.view, after)->text, "12\n");
    cr_assert(strstr(view_node(on.view, viewed_walk(&on, ".control/status"))->text,
                     "\"epoch\": 12") != NULL);
    viewed_end(&on);
}

/* cp looks at a file twice, and takes another number for another file. */
Test(view, a_control_file_shows_one_inode_number_for_each_name)
{
    struct stat one, two, other;

    begin("world=2");
    cr_assert_eq(view_stat(on.view, viewed_walk(&on, ".control/status"), &one), 0);
    cr_assert_eq(view_stat(on.view, viewed_walk(&on, ".control/status"), &two), 0);
    cr_assert_eq(view_stat(on.view, viewed_walk(&on, ".control/rank-1.epoch"), &other), 0);
    cr_assert_eq(one.st_ino, two.st_ino);
    cr_assert(one.st_ino != other.st_ino);
    viewed_end(&on);
}

Test(listing, of_a_huge_world_ends)
{
    begin("world=4294967296");
    struct taken *taken = list_from("current", 2 + (int64_t)LISTING_RANKS_MOST * 5 - 5, 256);
    cr_assert_eq(taken->count, 5);
    cr_assert_str_eq(taken->names[4], "rank-65535.tar");
    cr_assert(viewed_walk(&on, "current/rank-4294967295") != 0);
    viewed_end(&on);
}

Test(list, reads_the_same_in_pieces_of_any_size)
{
    static char whole[4096], pieces[4096];
    char line[128];

    begin("world=2,seed=3");
    struct view_node *node = view_node(on.view, viewed_walk(&on, "epoch-6/rank-1-of-2.list"));
    cr_assert_eq(list_prepare(on.view, node), 0);
    uint64_t size = node->made_bytes;
    cr_assert_eq(list_read(on.view, node, whole, sizeof whole, 0), (ssize_t)size);
    for (size_t step = 1; step < 90; step += 7) {
        for (uint64_t at = 0; at < size; at += step)
            cr_assert(list_read(on.view, node, pieces + at, step, at) > 0);
        cr_assert(memcmp(whole, pieces, size) == 0);
    }
    cr_assert_eq(list_read(on.view, node, pieces, 10, size), 0);
    struct order *order = epochs_get(on.epochs, 6);
    snprintf(line, sizeof line, "../epoch-6/rank-1-of-2/00000000.x.jpg %llu\n",
             (unsigned long long)order_sample(order, 1) * 100);
    epochs_put(on.epochs, order);
    cr_assert(strncmp(whole, line, strlen(line)) == 0, "%s", whole);
    viewed_end(&on);
}

static void *use_many(void *context)
{
    uint64_t start = *(uint64_t *)context;

    for (uint64_t i = 0; i < 600; i++) {
        uint64_t epoch = (start + i * 31) % 300, sum = 0;
        struct order *order = epochs_get(on.epochs, epoch);
        if (!order)
            return "no order";
        for (uint64_t p = 0; p < SAMPLES; p++)
            sum += order_sample(order, p);
        epochs_put(on.epochs, order);
        if (sum != SAMPLES * (SAMPLES - 1) / 2)
            return "not a permutation";
    }
    return NULL;
}

/* More epochs than are kept, from several threads: each is worked out again when it is needed, and
 * none is freed in use. */
Test(epochs, orders_come_and_go_under_many_threads)
{
    pthread_t threads[4];
    uint64_t starts[4];

    begin("world=1");
    for (int i = 0; i < 4; i++) {
        starts[i] = (uint64_t)i * 70;
        cr_assert_eq(pthread_create(&threads[i], NULL, use_many, &starts[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *fault;
        pthread_join(threads[i], &fault);
        cr_assert(fault == NULL, "%s", (char *)fault);
    }
    viewed_end(&on);
}

/* 32 MiB hold 34 orders of this length. */
Test(epochs, of_a_few_more_epochs_by_turns_than_are_kept_most_are_at_hand)
{
    enum { EPOCHS = 38, ROUNDS = 3 };
    const struct order_basis basis = {.samples = 240000};
    struct order_spec spec = {.kind = ORDER_TORCH};
    struct epochs *many;
    unsigned found = 0;

    cr_assert_eq(epochs_open(&many, &spec, &basis, 0), 0);
    for (unsigned i = 0; i < EPOCHS * (ROUNDS + 1); i++) {
        struct order *order = epochs_peek(many, i % EPOCHS);
        if (order)
            epochs_put(many, order);
        found += order && i >= EPOCHS;
        order = epochs_get(many, i % EPOCHS);
        cr_assert(order != NULL);
        epochs_put(many, order);
    }
    epochs_close(many);
    cr_assert(found > EPOCHS * ROUNDS / 2, "%u of %u were at hand", found, EPOCHS * ROUNDS);
}

Test(epochs, ranks_have_their_own_until_all_move)
{
    uint64_t list[8];

    begin("world=4,epoch=2");
    cr_assert_eq(epochs_move_rank(on.epochs, 1, 4, (struct epochs_at){9, 0}), 0);
    cr_assert_eq(epochs_move_rank(on.epochs, 1, 8, (struct epochs_at){5, 11}), 0);
    cr_assert_eq(epochs_of_rank(on.epochs, 1, 4).epoch, 9);
    cr_assert(epochs_are_same(epochs_of_rank(on.epochs, 1, 8), (struct epochs_at){5, 11}));
    cr_assert(epochs_are_same(epochs_of_rank(on.epochs, 0, 4), (struct epochs_at){2, 0}));
    cr_assert_eq(epochs_list(on.epochs, list, 8), 3);
    cr_assert(list[0] == 2 && list[1] == 5 && list[2] == 9);
    epochs_move_all(on.epochs, (struct epochs_at){3, 4});
    cr_assert(epochs_are_same(epochs_of_rank(on.epochs, 1, 4), (struct epochs_at){3, 4}));
    cr_assert_eq(epochs_list(on.epochs, list, 8), 1);
    viewed_end(&on);
}
