/* shufflefs-top without a mount or a terminal: from the status's text to figures, and to a screen.
 */
#include "unit.h"

#include "../../top/figures.h"
#include "../../top/screen.h"
#include "../../top/snapshot.h"
#include "../../top/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char status_before[] =
    "{\"version\":\"0.9\",\"fingerprint\":\"aa-bb\",\"uptime_s\":3661.5,\"samples\":1281167,"
    "\"member_bytes\":148176371712,\"shards\":147,\"epoch\":7,\"world\":2,\"order\":\"torch\","
    "\"reads\":1000,\"bytes\":52428800,\"hits\":9000,\"pushed_files\":4000,\"pushed\":209715200,"
    "\"pushed_unread\":134217728,\"pushed_limit\":268435456,\"pushed_lost\":1,\"failed_ahead\":0,"
    "\"storage\":{\"reads\":4000,\"bytes\":209715200,\"direct_reads\":1000,\"seconds\":2.0,"
    "\"failed\":0},"
    "\"readers\":[{\"path\":\"current/rank-1\",\"epoch\":7,\"rank\":1,\"world\":2,"
    "\"position\":99,\"length\":640584,\"samples_per_s\":50.0,\"idle_s\":0.1}],"
    "\"errors\":{\"/data/a.tar\":2}}";

static const char status_after[] =
    "{\"version\":\"0.9\",\"fingerprint\":\"aa-bb\",\"uptime_s\":3663.5,\"samples\":1281167,"
    "\"member_bytes\":148176371712,\"shards\":147,\"epoch\":7,\"world\":2,\"order\":\"torch\","
    "\"reads\":1200,\"bytes\":157286400,\"hits\":10800,\"pushed_files\":6000,\"pushed\":314572800,"
    "\"pushed_unread\":134217728,\"pushed_limit\":268435456,\"pushed_lost\":4,\"failed_ahead\":0,"
    "\"storage\":{\"reads\":6000,\"bytes\":314572800,\"direct_reads\":2500,\"seconds\":2.8,"
    "\"failed\":0},\"read_latency\":{\"p50_us\":40,\"p90_us\":99,\"p99_us\":1250,"
    "\"max_us\":3100000},"
    "\"readers\":[{\"path\":\"current/rank-10\",\"epoch\":7,\"rank\":10,\"world\":20,"
    "\"position\":64058,\"length\":64059,\"samples_per_s\":0,\"idle_s\":65.2},"
    "{\"path\":\"current/rank-2\",\"epoch\":7,\"rank\":2,\"world\":20,\"position\":320291,"
    "\"length\":640584,\"samples_per_s\":0,\"idle_s\":65.2,\"hit_rate\":0.5,\"wait_share\":0},"
    "{\"path\":\"current/rank-1\",\"epoch\":7,\"rank\":1,\"world\":2,\"position\":320291,"
    "\"length\":640584,\"samples_per_s\":3202.92,\"bytes_per_s\":104857600,\"idle_s\":0.1,"
    "\"hit_rate\":0.975,\"wait_share\":1.4}],"
    "\"warnings\":[\"epoch 7 of rank-1 is read again\"],\"repeated_epochs\":2,"
    "\"left_out\":{\"link\":3},\"bad_shards\":{\"/data/b.tar\":\"compressed\"},"
    "\"errors\":{\"/data/a.tar\":5,\"/data/c.tar\":1}}";

static struct snapshot parse(const char *text, double at)
{
    struct snapshot snapshot;

    cr_assert_eq(snapshot_parse(&snapshot, text, strlen(text), at), 0);
    return snapshot;
}

static bool is_near(double one, double other)
{
    return fabs(one - other) < 1e-6 * fabs(other) + 1e-9;
}

/* Renders; without `before_text`, one snapshot alone. */
static char *render(const char *before_text, const char *text, size_t width, size_t height)
{
    struct snapshot before = {0}, now = parse(text, 12);
    struct screen screen = {
        .mount = "/mnt/imagenet", .now = &now, .width = width, .height = height, .utf8 = true};
    char *out = NULL;

    if (before_text) {
        before = parse(before_text, 10);
        screen.before = &before;
    }
    cr_assert_eq(screen_render(&screen, &out), 0);
    snapshot_close(&before);
    snapshot_close(&now);
    return out;
}

static size_t lines_of(const char *text)
{
    size_t lines = 0;

    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

/* No line has more than `width` cells (all texts here have one cell a character), and nothing but
 * newlines moves the cursor. */
static void expect_fits(const char *text, size_t width)
{
    size_t cells = 0;

    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        cr_assert(*c == '\n' || (*c >= 0x20 && *c != 0x7f));
        cells = *c == '\n' ? 0 : cells + ((*c & 0xc0) != 0x80);
        cr_assert(cells <= width);
    }
}

static bool has(const char *text, const char *part)
{
    if (strstr(text, part))
        return true;
    printf("not found: %s\nin:\n%s", part, text);
    return false;
}

Test(top, figures_are_short_and_say_what_they_are)
{
    cr_assert_str_eq(figure_count(1281167).text, "1,281,167");
    cr_assert_str_eq(figure_count(999).text, "999");
    cr_assert_str_eq(figure_count(0.25).text, "0.2");
    cr_assert_str_eq(figure_count(NAN).text, "-");
    cr_assert_str_eq(figure_count(1e300).text, "1e+300");
    cr_assert_str_eq(figure_count(-5).text, "-5");
    cr_assert_str_eq(figure_bytes(0).text, "0 B");
    cr_assert_str_eq(figure_bytes(1023.0 * 1024).text, "1023.0 KiB");
    cr_assert_str_eq(figure_bytes(1024.0 * 1024 - 1).text, "1.0 MiB");
    cr_assert_str_eq(figure_bytes(INFINITY).text, "inf");
    cr_assert_str_eq(figure_share(0.974).text, "97.4 %");
    cr_assert_str_eq(figure_share(0.99996).text, "99.9 %");
    cr_assert_str_eq(figure_share(1).text, "100.0 %");
    cr_assert_str_eq(figure_share(1.4).text, "140.0 %");
    cr_assert_str_eq(figure_span(83).text, "1:23");
    cr_assert_str_eq(figure_span(14706).text, "4:05:06");
    cr_assert_str_eq(figure_span(273900).text, "3d 04:05");
    cr_assert_str_eq(figure_span(1e14).text, "> 999d");
    cr_assert_str_eq(figure_micros(40).text, "40 us");
    cr_assert_str_eq(figure_micros(1250).text, "1.25 ms");
    cr_assert_str_eq(figure_micros(3.1e6).text, "3.10 s");
}

Test(top, only_a_json_object_is_a_status)
{
    struct snapshot snapshot;

    cr_assert_eq(snapshot_parse(&snapshot, "", 0, 0), -EINVAL);
    cr_assert_eq(snapshot_parse(&snapshot, "[1]", 3, 0), -EINVAL);
    cr_assert_eq(snapshot_parse(&snapshot, "{\"reads\":", 9, 0), -EINVAL);
    cr_assert(!snapshot.root);
    snapshot_close(&snapshot);
}

Test(top, rates_are_what_two_readings_differ_by)
{
    struct snapshot before = parse(status_before, 10), now = parse(status_after, 12);
    struct rates rates = snapshot_rates(&before, &now);

    cr_assert(!rates.restarted);
    cr_assert(is_near(rates.interval_s, 2));
    cr_assert(is_near(rates.reads_per_s, 100));
    cr_assert(is_near(rates.bytes_per_s, 52428800));
    cr_assert(is_near(rates.hit_rate, 0.9));
    cr_assert(is_near(rates.storage_reads_per_s, 1000));
    cr_assert(is_near(rates.storage_direct_share, 0.75));
    cr_assert(is_near(rates.storage_read_us, 400));
    cr_assert(is_near(rates.pushed_files_per_s, 1000));
    cr_assert(is_near(rates.pushed_lost, 3));
    cr_assert(is_near(rates.errors, 4));
    snapshot_close(&before);
    snapshot_close(&now);
}

Test(top, one_reading_gives_totals_and_no_rates)
{
    struct snapshot now = parse(status_after, 12);
    struct rates rates = snapshot_rates(NULL, &now);

    cr_assert(isnan(rates.interval_s) && isnan(rates.reads_per_s) && isnan(rates.bytes_per_s));
    cr_assert(is_near(rates.hit_rate, 0.9));
    cr_assert(is_near(rates.pushed_lost, 4));
    cr_assert(is_near(rates.errors, 6));
    snapshot_close(&now);
}

Test(top, a_mount_made_anew_gives_no_rates)
{
    struct snapshot before = parse(status_after, 10), now = parse(status_before, 12);
    struct rates rates = snapshot_rates(&before, &now);
    char *text;

    cr_assert(rates.restarted);
    cr_assert(isnan(rates.interval_s) && isnan(rates.reads_per_s) && isnan(rates.hit_rate) &&
              isnan(rates.errors) && isnan(rates.storage_read_us));
    snapshot_close(&before);
    snapshot_close(&now);
    text = render(status_after, status_before, 80, 24);
    cr_assert(has(text, "mounted again since the last snapshot"));
    expect_fits(text, 80);
    free(text);
}

/* The counts of one status are read one after the other, while readers go on. */
Test(top, shares_stay_between_nothing_and_all)
{
    struct snapshot now = parse("{\"storage\":{\"reads\":3,\"direct_reads\":4},\"readers\":[{"
                                "\"position\":-5,\"length\":10,\"hit_rate\":1.5}]}",
                                12);
    struct top_reader *readers;

    cr_assert(is_near(snapshot_rates(NULL, &now).storage_direct_share, 1));
    cr_assert_eq(snapshot_readers(NULL, &now, &readers), 1);
    cr_assert(readers[0].progress <= 0 && is_near(readers[0].hit_rate, 1));
    free(readers);
    snapshot_close(&now);
}

Test(top, another_data_set_is_another_mount)
{
    struct snapshot before = parse("{\"fingerprint\":\"a\",\"reads\":1}", 10);
    struct snapshot now = parse("{\"fingerprint\":\"b\",\"reads\":5}", 12);

    cr_assert(snapshot_rates(&before, &now).restarted);
    snapshot_close(&before);
    snapshot_close(&now);
}

Test(top, readers_stand_in_an_order_that_stays)
{
    struct snapshot now = parse(status_after, 12);
    struct top_reader *readers;

    cr_assert_eq(snapshot_readers(NULL, &now, &readers), 3);
    cr_assert_str_eq(readers[0].path, "current/rank-1"); /* at work */
    cr_assert_str_eq(readers[1].path, "current/rank-2"); /* 2 before 10 */
    cr_assert_str_eq(readers[2].path, "current/rank-10");
    cr_assert(is_near(readers[0].progress, 0.5));
    cr_assert(is_near(readers[0].eta_s, 320292 / 3202.92));
    cr_assert(is_near(readers[2].progress, 1));
    cr_assert(!readers[0].idle && readers[1].idle);
    free(readers);
    snapshot_close(&now);
}

Test(top, a_slow_reader_that_is_seldom_met_is_not_idle)
{
    struct snapshot now = parse("{\"readers\":[{\"path\":\"slow\",\"samples_per_s\":10.0,"
                                "\"idle_s\":30.0},{\"path\":\"x\",\"samples_per_s\":10.0,"
                                "\"idle_s\":300.0}]}",
                                12);
    struct top_reader *readers;

    cr_assert_eq(snapshot_readers(NULL, &now, &readers), 2);
    cr_assert(!readers[0].idle && readers[1].idle);
    free(readers);
    snapshot_close(&now);
}

Test(top, a_reader_in_no_order_has_no_progress_and_no_end)
{
    struct snapshot now = parse("{\"readers\":[{\"path\":\"p\",\"position\":499,\"length\":1000,"
                                "\"samples_per_s\":10.0,\"idle_s\":0.1,\"in_order\":false}]}",
                                12);
    struct top_reader *readers;

    cr_assert_eq(snapshot_readers(NULL, &now, &readers), 1);
    cr_assert(readers[0].random && isnan(readers[0].progress) && isnan(readers[0].eta_s));
    free(readers);
    snapshot_close(&now);
}

Test(top, a_reader_without_a_rate_gets_one_from_its_positions)
{
    static const char form[] = "{\"readers\":[{\"path\":\"current/rank-0\",\"epoch\":1,"
                               "\"position\":%d,\"length\":1000}]}";
    char text[2][128];
    struct snapshot before, now;
    struct top_reader *readers;

    snprintf(text[0], sizeof text[0], form, 100);
    snprintf(text[1], sizeof text[1], form, 300);
    before = parse(text[0], 10);
    now = parse(text[1], 12);
    cr_assert_eq(snapshot_readers(&before, &now, &readers), 1);
    cr_assert(is_near(readers[0].samples_per_s, 100));
    free(readers);
    /* It began anew: no rate below 0. */
    now.at = 8;
    cr_assert_eq(snapshot_readers(&now, &before, &readers), 1);
    cr_assert(isnan(readers[0].samples_per_s));
    free(readers);
    snapshot_close(&before);
    snapshot_close(&now);
}

Test(top, the_screen_shows_rates_progress_and_troubles)
{
    char *text = render(status_before, status_after, 100, 40);

    cr_assert(has(text, "/mnt/imagenet  shufflefs 0.9  up 1:01:03\n"));
    cr_assert(has(text, "epoch 7  ranks 2  torch  1,281,167 samples, 138.0 GiB in 147 shards\n"));
    cr_assert(has(text, "reads          100   50.0 MiB         1,200  150.0 MiB   hits 90.0 %\n"));
    cr_assert(has(text, "direct 75.0 %\n"));
    cr_assert(has(text, "lost 3\n"));
    cr_assert(has(text, "unread   [#####-----] 128.0 MiB of 256.0 MiB\n"));
    cr_assert(has(text, "latency  p50 40 us  p99 1.25 ms  max 3.10 s  storage 400 us\n"));
    cr_assert(has(text, "50.0 %     3,203  100.0 MiB  97.5 % 140.0 %      1:40\n"));
    cr_assert(has(text, "idle 65 s\n"));
    cr_assert(has(text, "done\n"));
    cr_assert(has(text, "! epoch 7 of rank-1 is read again\n"));
    cr_assert(has(text, "! errors 5 +3  /data/a.tar\n"));
    cr_assert(has(text, "! errors 1 +1  /data/c.tar\n"));
    cr_assert(has(text, "! 2 epochs were read again\n"));
    cr_assert(has(text, "! left out whole: /data/b.tar: compressed\n"));
    cr_assert(has(text, "! odd members: 3 link\n"));
    expect_fits(text, 100);
    free(text);
}

Test(top, a_resumed_epoch_says_so)
{
    static const char whole[] = "{\"epoch\":7,\"after\":0}";
    static const char resumed[] = "{\"epoch\":7,\"after\":4611686018427387904}";
    char *first = render(whole, whole, 100, 40), *second = render(resumed, resumed, 100, 40);

    cr_assert(has(first, "epoch 7  ranks"), "%s", first);
    cr_assert(has(second, "epoch 7 after 4611686018427387904  ranks"), "%s", second);
    free(first);
    free(second);
}

Test(top, one_of_a_kind_is_told_as_one)
{
    char *text = render("{}",
                        "{\"samples\":1,\"shards\":1,\"member_bytes\":5,\"repeated_epochs\":1,"
                        "\"failed_ahead\":1,\"storage\":{\"failed\":1},\"undone_stores\":1}",
                        80, 24);

    cr_assert(has(text, "  1 sample, 5 B in 1 shard\n"));
    cr_assert(has(text, "! 1 epoch was read again\n"));
    cr_assert(has(text, "! 1 read ahead failed\n"));
    cr_assert(has(text, "! 1 read of storage failed\n"));
    cr_assert(has(text, "! 1 store to a read-only file was undone\n"));
    free(text);
}

Test(top, every_width_and_height_holds)
{
    for (size_t width = 1; width <= 220; width += width < 100 ? 1 : 20)
        for (size_t height = 1; height < 40; height += 6) {
            char *text = render(status_before, status_after, width, height);
            expect_fits(text, width);
            cr_assert(lines_of(text) <= height);
            free(text);
        }
}

Test(top, a_narrow_screen_keeps_who_how_far_how_fast_and_how_long)
{
    char *text = render(status_before, status_after, 40, 40);

    cr_assert(has(text, "READER          DONE SAMPLES/S      LEFT\n"));
    cr_assert(has(text, "..ent/rank-1  50.0 %     3,203      1:40\n"));
    free(text);
    text = render(status_before, status_after, 80, 40);
    cr_assert(has(text, "current/rank-1"));
    cr_assert(has(text, "WAIT"));
    free(text);
    text = render(status_before, status_after, 200, 40);
    cr_assert(has(text, "[##################------------------]"));
    free(text);
}

Test(top, a_low_screen_says_what_it_does_not_show)
{
    char *text = render(status_before, status_after, 80, 14);

    cr_assert_eq(lines_of(text), 14);
    cr_assert(has(text, "\nand 2 more\n"));
    cr_assert(has(text, "! and 6 more\n"));
    free(text);
}

Test(top, missing_keys_show_a_dash_and_unknown_ones_nothing)
{
    char *text = render("{}", "{\"brand_new\":{\"deep\":[1]},\"readers\":[{}]}", 80, 24);

    cr_assert(has(text, "shufflefs -  up -\n"));
    cr_assert(has(text, "epoch -  ranks -  -  - samples, - in - shards\n"));
    cr_assert(has(text, "reads            -          -             -          -   hits -\n"));
    cr_assert(has(text, "unread   - of -\n"));
    cr_assert(!strstr(text, "brand") && !strstr(text, "nan") && !strstr(text, "!"));
    free(text);
}

Test(top, keys_of_another_kind_do_no_harm)
{
    char *text = render("{\"readers\":7,\"errors\":[1],\"reads\":\"x\"}",
                        "{\"readers\":[3,null,{\"path\":5,\"length\":-1,\"position\":1e308,"
                        "\"idle_s\":1e300,\"epoch\":1e300,\"samples_per_s\":-1e300}],"
                        "\"warnings\":{\"a\":1},\"errors\":\"x\",\"bad_shards\":{\"a\":1},"
                        "\"left_out\":{\"b\":[]},\"version\":3,\"uptime_s\":-1,\"storage\":9,"
                        "\"epoch\":\"x\",\"bytes\":1e305,\"pushed_unread\":1e300,"
                        "\"pushed_limit\":1e-300}",
                        80, 40);

    cr_assert(has(text, "! left out whole: a: -\n"));
    expect_fits(text, 80);
    free(text);
}

Test(top, hostile_names_cannot_move_the_terminal_or_forge_lines)
{
    char *text = render(
        NULL,
        "{\"version\":\"\\u001b[2J\",\"order\":\"a\\nb\",\"readers\":[{\"path\":"
        "\"x\\u001b]0;t\\u0007\\u009b31m\\u202e/\\u00e9\"}],\"errors\":{\"/d\\r/\\u007f\":1},"
        "\"warnings\":[\"w\\u2028\\t%s%n\"]}",
        80, 40);

    expect_fits(text, 80);
    cr_assert(has(text, "shufflefs ?[2J  up -\n"));
    cr_assert(has(text, "a?b"));
    cr_assert(has(text, "x?]0;t??31m?/\xc3\xa9"));
    cr_assert(has(text, "/d?/?\n"));
    cr_assert(has(text, "! w??%s%n\n"));
    free(text);
}

Test(top, a_cut_never_splits_a_character)
{
    struct text text;
    char *bytes, *name;

    cr_assert_eq(text_open(&text, 6, true), 0);
    text_line(&text, "%s", "\xe5\x9b\xbe\xe5\x9b\xbe\xe5\x9b\xbe\xe5\x9b\xbe"); /* 2 cells each */
    text_line(&text, "%s", "e\xcc\x81zzzzz");                                   /* with an accent */
    text_line(&text, "a\xff\xc3(b");                                            /* no UTF-8 */
    cr_assert_eq(text_cells(&text, "\xe5\x9b\xbe"
                                   "a"),
                 3);
    name = text_fit(&text, "\xe5\x9b\xbe\xe5\x9b\xbe\xe5\x9b\xbe", 5);
    cr_assert_str_eq(name, "..\xe5\x9b\xbe ");
    free(name);
    cr_assert_eq(text_close(&text, &bytes), 0);
    cr_assert_str_eq(bytes, "\xe5\x9b\xbe\xe5\x9b\xbe >\ne\xcc\x81zzzzz\na?"
                            "?(b\n");
    free(bytes);
    cr_assert_eq(text_open(&text, 0, false), 0);
    text_line(&text, "%s", "\xe5\x9b\xbe.\xc3\xa9");
    cr_assert_eq(text_close(&text, &bytes), 0);
    cr_assert_str_eq(bytes, "?.?\n");
    free(bytes);
}

Test(top, before_the_first_reading_the_screen_says_so)
{
    struct screen screen = {.mount = "/m\033nt", .note = "waiting", .width = 40, .height = 10};
    char *text;

    cr_assert_eq(screen_render(&screen, &text), 0);
    cr_assert_str_eq(text, "/m?nt  shufflefs\nwaiting\n");
    free(text);
}

Test(top, json_holds_the_status_as_it_was_and_null_for_what_is_not_known)
{
    struct snapshot before = parse(status_before, 10), now = parse(status_after, 12);
    json_t *both = snapshot_to_json(&before, &now, "/mnt/imagenet");
    json_t *one = snapshot_to_json(NULL, &now, "\xff");
    json_t *rates = json_object_get(both, "rates");

    cr_assert(json_equal(json_object_get(both, "status"), now.root));
    cr_assert_str_eq(json_string_value(json_object_get(both, "mount")), "/mnt/imagenet");
    cr_assert(is_near(json_number_value(json_object_get(rates, "reads_per_s")), 100));
    cr_assert_eq(json_array_size(json_object_get(rates, "readers")), 3);
    cr_assert(json_is_null(json_object_get(one, "mount")));
    cr_assert(json_is_null(json_object_get(one, "interval_s")));
    cr_assert(json_is_null(json_object_get(json_object_get(one, "rates"), "reads_per_s")));
    json_decref(both);
    json_decref(one);
    snapshot_close(&before);
    snapshot_close(&now);
}
