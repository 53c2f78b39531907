/* Resumed epochs and parts without a kernel: how they are spelled, what a control file takes, and
 * what a switch into the midst of an epoch leaves behind. */
#include "unit.h"

#include "viewed.h"

#include "../../core/report.h"
#include "../../fs/list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 30 };

static struct viewed on;

static void begin(const char *options)
{
    char *members[2 * SAMPLES + 1];

    opened_begin(&on.data);
    for (int i = 0; i < SAMPLES; i++) {
        cr_assert(asprintf(&members[2 * i], "k%d.jpg", i) > 0);
        cr_assert(asprintf(&members[2 * i + 1], "picture %d", i) > 0);
    }
    members[2 * SAMPLES] = NULL;
    folder_add_tar(&on.data.folder, "a.tar", "ustar", (const char *const *)members);
    for (int i = 0; i < 2 * SAMPLES; i++)
        free(members[i]);
    viewed_open(&on, options);
}

static struct view_node *node_at(const char *path)
{
    uint64_t inode = viewed_walk(&on, path);

    cr_assert(inode != 0, "%s", path);
    return view_node(on.view, inode);
}

static uint64_t chance = 1;

/* Of all sizes alike: from 0, below `limit`. */
static uint64_t draw(uint64_t limit)
{
    uint64_t bits;

    chance = chance * 6364136223846793005u + 1442695040888963407u;
    bits = chance >> 33;
    chance = chance * 6364136223846793005u + 1442695040888963407u;
    return (((bits << 31) ^ (chance >> 33)) >> (bits % 62)) % limit;
}

static bool are_equal(const struct plan_share *a, const struct plan_share *b)
{
    return a->rank == b->rank && a->world == b->world && a->after == b->after &&
           a->part == b->part && a->parts == b->parts && a->run == b->run;
}

Test(grammar, every_share_is_read_back_from_its_spelling)
{
    const struct grammar *grammar;
    char name[GRAMMAR_SHARE_BYTES], again[GRAMMAR_SHARE_BYTES], back[GRAMMAR_SHARE_BYTES];

    begin("world=8");
    grammar = view_grammar(on.view);
    for (int i = 0; i < 200000; i++) {
        struct plan_share share = {.world = i % 3 ? draw(PLAN_WORLD_MAX) + 1 : 8}, found;
        const char *rest;
        share.rank = draw(share.world);
        share.after = i % 2 ? draw(ORDER_SAMPLES_MAX + 1) : 0;
        share.parts = i % 5 ? draw(PLAN_PARTS_MAX) + 1 : 0;
        share.part = share.parts ? draw(share.parts) : 0;
        share.run = share.parts ? draw(PLAN_RUN_MAX) + 1 : 0;
        cr_assert_eq(grammar_share_name(grammar, &share, name), strlen(name));
        rest = grammar_parse_share(grammar, name, true, &found);
        cr_assert(rest && *rest == '\0' && are_equal(&share, &found), "%s", name);
        cr_assert(share.after == 0 || strcmp(grammar_parse_share(grammar, name, false, &found),
                                             strchr(name, '.')) == 0);
        /* Resumed elsewhere, and back again. */
        grammar_resumed_name(name, 77, again, sizeof again);
        rest = grammar_parse_share(grammar, again, true, &found);
        cr_assert(rest && *rest == '\0' && found.after == 77, "%s", again);
        found.after = share.after;
        cr_assert(are_equal(&share, &found), "%s", again);
        grammar_resumed_name(again, share.after, back, sizeof back);
        cr_assert_str_eq(back, name);
    }
    viewed_end(&on);
}

Test(grammar, the_longest_name_fits)
{
    const struct plan_share share = {PLAN_WORLD_MAX - 1, PLAN_WORLD_MAX, ORDER_SAMPLES_MAX,
                                     PLAN_PARTS_MAX - 1, PLAN_PARTS_MAX, PLAN_RUN_MAX};
    char name[GRAMMAR_SHARE_BYTES];

    begin("");
    cr_assert(grammar_share_name(view_grammar(on.view), &share, name) + strlen(".classes") <
              sizeof name);
    viewed_end(&on);
}

/* A job makes names of its settings: what is the default may be spelled out. */
Test(grammar, what_may_be_left_out_may_stand)
{
    struct plan_share share;

    begin("world=8");
    cr_assert(grammar_parse_share(view_grammar(on.view), "rank-3-of-8.after-0.part-1-of-2.by-1",
                                  true, &share));
    cr_assert(are_equal(&share, &(struct plan_share){3, 8, 0, 1, 2, 1}));
    cr_assert_str_eq(
        grammar_parse_share(view_grammar(on.view), "rank-3.part-1-of-2.tar", true, &share), ".tar");
    cr_assert(are_equal(&share, &(struct plan_share){3, 8, 0, 1, 2, 1}));
    viewed_end(&on);
}

static int parse(const char *text, struct epochs_at *at)
{
    return control_parse(&on.data.set, "epoch", text, strlen(text), at);
}

Test(control, takes_an_epoch_and_where_it_is_resumed_and_nothing_else)
{
    static const char *const bad[] = {"",
                                      "\n",
                                      "x",
                                      "-1",
                                      "+1",
                                      "1.5",
                                      " 1",
                                      "1 ",
                                      "01",
                                      "1\n\n",
                                      "0x1",
                                      "9223372036854775808",
                                      "1 2",
                                      "7 after",
                                      "7 after ",
                                      "7 after\n",
                                      "7 after 05",
                                      "7 after -5",
                                      "7 after 5 ",
                                      "7 after 5x",
                                      "7 after 5\n\n",
                                      "7 after 5 after 5",
                                      "7 after  5",
                                      "7  after 5",
                                      "7\tafter\t5",
                                      "7 AFTER 5",
                                      "07 after 5",
                                      " after 5",
                                      "after 5",
                                      "7after5",
                                      "9223372036854775808 after 5",
                                      "7 after 31",
                                      "7 after 9223372036854775808",
                                      "7 after 18446744073709551616",
                                      "7 after 18446744073709551621"};
    struct epochs_at at = {77, 78};

    begin("");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_eq(parse(bad[i], &at), -EINVAL, "'%s'", bad[i]);
    cr_assert_eq(control_parse(&on.data.set, "epoch", "7\0", 2, &at), -EINVAL);
    cr_assert_eq(control_parse(&on.data.set, "epoch", "7 after 5\0", 10, &at), -EINVAL);
    cr_assert_eq(parse("7\n", &at), 0);
    cr_assert(at.epoch == 7 && at.after == 0);
    cr_assert_eq(parse("9223372036854775807", &at), 0);
    cr_assert(at.epoch == ORDER_EPOCH_MAX && at.after == 0);
    cr_assert_eq(parse("9223372036854775807 after 30", &at), 0);
    cr_assert(at.epoch == ORDER_EPOCH_MAX && at.after == 30);
    cr_assert_eq(parse("0 after 0\n", &at), 0);
    cr_assert(at.epoch == 0 && at.after == 0);
    viewed_end(&on);
}

static char line[1024];

static void keep_line(const char *text, void *context)
{
    (void)context;
    snprintf(line, sizeof line, "%s", text);
}

Test(control, says_why_an_epoch_is_not_resumed_there)
{
    struct epochs_at at;

    begin("epoch_samples=17");
    report_to_sink(keep_line, NULL);
    cr_assert_eq(parse("3 after 17", &at), 0);
    cr_assert_eq(parse("3 after 18", &at), -EINVAL);
    cr_assert(strstr(line, "epoch: 3 after 18: an epoch has 17 samples"), "%s", line);
    viewed_end(&on);
    begin("order=contiguous,world=3");
    report_to_sink(keep_line, NULL);
    cr_assert_eq(parse("3 after 0", &at), 0);
    cr_assert_eq(parse("3 after 1", &at), -EINVAL);
    cr_assert(strstr(line, "epoch: 3 after 1: order=contiguous cannot be resumed"), "%s", line);
    cr_assert_eq(viewed_walk(&on, "epoch-3/rank-0.after-1"), 0);
    cr_assert(viewed_walk(&on, "epoch-3/rank-0.part-1-of-2.by-4") != 0);
    viewed_end(&on);
}

static void move_to(bool all, uint64_t rank, uint64_t world, struct epochs_at at, size_t expected)
{
    struct view_left *left;
    size_t count;

    cr_assert_eq(view_move(on.view, all, rank, world, at, &left, &count), 0);
    cr_assert_eq(count, expected, "%zu left behind, not %zu", count, expected);
    free(left);
}

Test(view, a_resumed_rank_shows_the_tail_in_current_with_all_its_parts)
{
    struct view_node *whole, *part, *other;

    begin("world=2,order=sequential");
    whole = node_at("current/rank-1");
    part = node_at("current/rank-1-of-2.part-2-of-3.by-4.list");
    other = node_at("current/rank-0.keys");
    move_to(false, 1, 2, (struct epochs_at){0, 11}, 2);
    cr_assert(viewed_walk(&on, "current/rank-1") != whole->inode);
    cr_assert_eq(viewed_walk(&on, "current/rank-0.keys"), other->inode);
    cr_assert_eq(whole->plan.share.after, 0, "an open folder stays with what it was");
    whole = node_at("current/rank-1");
    cr_assert(whole->epoch == 0 && whole->plan.share.after == 11 && whole->plan.length == 10);
    cr_assert_eq(plan_global(&whole->plan, 0), 12);
    part = node_at("current/rank-1-of-2.part-2-of-3.by-4.list");
    cr_assert(part->plan.share.after == 11 && part->plan.length == 2);
    cr_assert_str_eq(node_at(".control/rank-1.epoch")->text, "0 after 11\n");
    cr_assert_str_eq(node_at(".control/rank-0.epoch")->text, "0\n");
    move_to(false, 1, 2, (struct epochs_at){0, 11}, 0);
    /* What is written next clears it, for one as for all. */
    move_to(false, 1, 2, (struct epochs_at){0, 12}, 2);
    move_to(true, 0, 0, (struct epochs_at){3, 30}, 1);
    cr_assert_eq(node_at("current/rank-0")->plan.length, 0);
    cr_assert_str_eq(node_at(".control/epoch")->text, "3 after 30\n");
    cr_assert(strstr(node_at(".control/status")->text, "\"after\": 30") != NULL);
    move_to(true, 0, 0, (struct epochs_at){3, 0}, 1);
    cr_assert_eq(node_at("current/rank-0")->plan.length, 15);
    cr_assert_str_eq(node_at(".control/rank-1.epoch")->text, "3\n");
    viewed_end(&on);
}

/* Where a list leads, each file is what stands at that position. */
Test(list, of_a_resumed_epoch_names_its_own_folder)
{
    static const char *const lists[][2] = {
        {"current/rank-1.list", "../epoch-4/rank-1.after-7/00000000.jpg\n"},
        {"current/rank-1-of-3.part-1-of-2.by-3.list",
         "../epoch-4/rank-1-of-3.after-7.part-1-of-2.by-3/00000000.jpg\n"},
        {"epoch-5/rank-0.after-9.list", "../epoch-5/rank-0.after-9/00000000.jpg\n"},
        {"epoch-5/rank-0.after-0.part-0-of-1.list", "../epoch-5/rank-0.part-0-of-1/00000000.jpg\n"},
        {"current/rank-0.part-0-of-2.list", "../epoch-4/rank-0.after-7.part-0-of-2/00000000.jpg\n"},
    };
    static char text[4096];

    begin("world=2,label=none");
    move_to(true, 0, 0, (struct epochs_at){4, 7}, 0);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct view_node *node = node_at(lists[i][0]);
        uint64_t position = 0, bytes;
        cr_assert_eq(list_prepare(on.view, node), 0);
        bytes = (uint64_t)list_read(on.view, node, text, sizeof text - 1, 0);
        text[bytes] = '\0';
        cr_assert_eq(bytes, node->made_bytes);
        cr_assert(strncmp(text, lists[i][1], strlen(lists[i][1])) == 0, "%s", text);
        for (char *at = text; *at; position++) {
            char path[256], here[300], *past = strchr(at, '\n');
            size_t rank = strcspn(lists[i][0], "/"), name = strlen(lists[i][0]) - strlen(".list");
            *past = '\0';
            snprintf(path, sizeof path, "%s", at + strlen("../"));
            snprintf(here, sizeof here, "%.*s%s", (int)name, lists[i][0], strrchr(at, '/'));
            cr_assert(rank < name && viewed_walk(&on, here) != 0, "%s", here);
            cr_assert_eq(viewed_walk(&on, path), viewed_walk(&on, here), "%s, not %s", path, here);
            at = past + 1;
        }
        cr_assert_eq(position, node->plan.length);
    }
    viewed_end(&on);
}
