/* What shufflefs-bench is made of: shares, listings, counting in streams, passes, figures, text. */
#include "unit.h"

#include "../../core/report.h"
#include "../../core/text.h"
#include "../../measure/members.h"
#include "../../measure/options.h"
#include "../../measure/plot.h"
#include "../../measure/read_options.h"
#include "../../measure/reading.h"
#include "../../measure/results.h"
#include "../../measure/source.h"
#include "../../measure/split.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- shares --- */

static const char *const splits[] = {"batch", "batch:1", "batch:3", "batch:7", "block"};

Test(split, readers_together_read_every_sample_once)
{
    for (size_t s = 0; s < sizeof splits / sizeof *splits; s++) {
        struct split split;
        cr_assert(split_parse(&split, splits[s]));
        for (uint64_t n = 0; n <= 50; n++) {
            for (unsigned readers = 1; readers <= 9; readers++) {
                unsigned seen[50] = {0};
                for (unsigned r = 0; r < readers; r++) {
                    uint64_t length = split_length(&split, n, readers, r), last = 0;
                    for (uint64_t k = 0; k < length; k++) {
                        uint64_t sample = split_sample(&split, n, readers, r, k);
                        cr_assert(sample < n);
                        cr_assert(!k || sample > last);
                        last = sample;
                        seen[sample]++;
                    }
                }
                for (uint64_t i = 0; i < n; i++)
                    cr_assert_eq(seen[i], 1);
            }
        }
    }
}

Test(split, batches_go_to_readers_in_turn_as_to_loader_workers)
{
    static const uint64_t second[] = {4, 5, 6, 7, 12, 13};
    struct split split;

    cr_assert(split_parse(&split, "batch:4"));
    cr_assert_eq(split_length(&split, 14, 2, 1), 6);
    for (uint64_t k = 0; k < 6; k++)
        cr_assert_eq(split_sample(&split, 14, 2, 1, k), second[k]);
}

Test(split, each_reads_everything_and_blocks_differ_by_one_at_most)
{
    struct split split;

    cr_assert(split_parse(&split, "each"));
    cr_assert_eq(split_length(&split, 10, 3, 2), 10);
    cr_assert_eq(split_sample(&split, 10, 3, 2, 7), 7);
    cr_assert(split_parse(&split, "block"));
    for (unsigned r = 0; r < 7; r++) {
        uint64_t length = split_length(&split, UINT64_MAX, 7, r);
        cr_assert(length - UINT64_MAX / 7 <= 1);
    }
}

Test(split, text_is_checked_and_printed_as_it_is_read)
{
    static const char *const bad[] = {"", "batch:", "batch:0", "batch:-1", "blocks", "each:2"};
    struct split split;
    char text[32];

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(!split_parse(&split, bad[i]));
    cr_assert(split_parse(&split, "batch:64"));
    split_print(&split, text);
    cr_assert_str_eq(text, "batch:64");
}

/* --- a folder to read --- */

struct tree {
    char path[64];
};

static void tree_write(const struct tree *tree, const char *name, const void *bytes, size_t length)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", tree->path, name);
    file = fopen(path, "w");
    cr_assert(file);
    cr_assert_eq(fwrite(bytes, 1, length, file), length);
    cr_assert_eq(fclose(file), 0);
}

static void tree_folder(const struct tree *tree, const char *name)
{
    char path[256];

    snprintf(path, sizeof path, "%s/%s", tree->path, name);
    cr_assert_eq(mkdir(path, 0755), 0);
}

/* Ten files of 0 to 9 bytes in two folders, what no listing may show, and a link to a folder. */
static void tree_open(struct tree *tree)
{
    char name[128];

    strcpy(tree->path, "/tmp/shufflefs-measure-XXXXXX");
    cr_assert(mkdtemp(tree->path));
    tree_folder(tree, "a");
    tree_folder(tree, "b");
    tree_folder(tree, "b/c");
    tree_folder(tree, ".hidden");
    tree_write(tree, ".hidden/x", "x", 1);
    tree_write(tree, ".dot", "x", 1);
    for (int i = 9; i >= 0; i--) {
        snprintf(name, sizeof name, "%s/%d.jpg", i % 2 ? "a" : "b/c", i);
        tree_write(tree, name, "123456789", (size_t)i);
    }
    snprintf(name, sizeof name, "%s/pipe", tree->path);
    cr_assert_eq(mkfifo(name, 0600), 0);
}

static void tree_close(const struct tree *tree)
{
    char command[128];

    snprintf(command, sizeof command, "rm -r %s", tree->path);
    cr_assert_eq(system(command), 0);
}

static void keep_line(const char *line, void *context)
{
    snprintf(context, 256, "%s", line);
}

Test(source, a_folder_is_listed_to_any_depth_in_name_order)
{
    struct source source;
    struct tree tree;

    tree_open(&tree);
    cr_assert_eq(source_open(&source, tree.path), 0);
    for (int again = 0; again < 2; again++) {
        cr_assert_eq(source_list(&source, SOURCE_BY_NAME, 0), 0);
        cr_assert_eq(source.kind, SOURCE_FOLDER);
        cr_assert_eq(source.count, 10);
        for (uint64_t i = 1; i < source.count; i++)
            cr_assert(strcmp(source.names[i - 1], source.names[i]) < 0);
    }
    source_close(&source);
    tree_close(&tree);
}

Test(source, a_random_order_is_the_same_for_a_seed_and_holds_every_file)
{
    struct source one, other;
    unsigned moved = 0, differ = 0;
    struct tree tree;

    tree_open(&tree);
    cr_assert_eq(source_open(&one, tree.path), 0);
    cr_assert_eq(source_open(&other, tree.path), 0);
    cr_assert_eq(source_list(&one, SOURCE_AT_RANDOM, 3), 0);
    cr_assert_eq(source_list(&other, SOURCE_AT_RANDOM, 3), 0);
    for (uint64_t i = 0; i < 10; i++)
        cr_assert_str_eq(one.names[i], other.names[i]);
    cr_assert_eq(source_list(&other, SOURCE_AT_RANDOM, 4), 0);
    for (uint64_t i = 0; i < 10; i++) {
        unsigned found = 0;
        for (uint64_t k = 0; k < 10; k++)
            found += strcmp(one.names[i], other.names[k]) == 0;
        cr_assert_eq(found, 1);
        differ += strcmp(one.names[i], other.names[i]) != 0;
        moved += i && strcmp(one.names[i - 1], one.names[i]) > 0;
    }
    cr_assert(moved && differ);
    source_close(&one);
    source_close(&other);
    tree_close(&tree);
}

Test(source, a_list_keeps_its_order_and_starts_at_its_own_folder)
{
    static const char text[] = "# comment\nb/c/2.jpg\n\na/1.jpg\r\n/absolute";
    struct source source;
    struct tree tree;
    char given[128];

    tree_open(&tree);
    tree_write(&tree, "list", text, sizeof text - 1);
    snprintf(given, sizeof given, "@%s/list", tree.path);
    cr_assert_eq(source_open(&source, given), 0);
    cr_assert_eq(source_list(&source, SOURCE_BY_NAME, 0), 0);
    cr_assert_eq(source.kind, SOURCE_LIST);
    cr_assert_eq(source.count, 3);
    cr_assert(strncmp(source.names[0], tree.path, strlen(tree.path)) == 0);
    cr_assert_str_eq(source.names[0] + strlen(tree.path), "/b/c/2.jpg");
    cr_assert_str_eq(source.names[1] + strlen(tree.path), "/a/1.jpg");
    cr_assert_str_eq(source.names[2], "/absolute");
    source_close(&source);
    tree_close(&tree);
}

Test(source, nothing_to_read_is_a_fault_that_names_it)
{
    char line[256] = "", missing[128];
    struct source source;
    struct tree tree;

    tree_open(&tree);
    tree_folder(&tree, "empty");
    snprintf(missing, sizeof missing, "%s/empty", tree.path);
    report_to_sink(keep_line, line);
    cr_assert_eq(source_open(&source, missing), 0);
    cr_assert_eq(source_list(&source, SOURCE_BY_NAME, 0), -ENOENT);
    cr_assert(strstr(line, missing));
    source_close(&source);
    snprintf(missing, sizeof missing, "%s/none", tree.path);
    cr_assert_eq(source_open(&source, missing), -ENOENT);
    cr_assert(strstr(line, missing));
    report_to_sink(NULL, NULL);
    source_close(&source);
    tree_close(&tree);
}

Test(source, a_link_to_a_folder_above_ends)
{
    char link[128], line[256] = "";
    struct source source;
    struct tree tree;

    tree_open(&tree);
    snprintf(link, sizeof link, "%s/a/up", tree.path);
    cr_assert_eq(symlink("..", link), 0);
    cr_assert_eq(source_open(&source, tree.path), 0);
    report_to_sink(keep_line, line);
    cr_assert_eq(source_list(&source, SOURCE_BY_NAME, 0), -ELOOP);
    report_to_sink(NULL, NULL);
    source_close(&source);
    tree_close(&tree);
}

/* --- members of a tar stream --- */

static size_t put_member(unsigned char *tar, char type, unsigned size, bool base256)
{
    unsigned sum = 0;

    memset(tar, 0, 512);
    memcpy(tar, "name.jpg", 8);
    snprintf((char *)tar + 124, 12, "%011o", size);
    if (base256) {
        memset(tar + 124, 0, 12);
        tar[124] = 0x80;
        for (int i = 0; i < 4; i++)
            tar[135 - i] = (unsigned char)(size >> 8 * i);
    }
    tar[156] = (unsigned char)type;
    memset(tar + 148, ' ', 8);
    for (size_t i = 0; i < 512; i++)
        sum += tar[i];
    snprintf((char *)tar + 148, 8, "%06o", sum);
    /* Bytes that would count as a header, were they taken for one. */
    if (size >= 512)
        memcpy(tar + 512, tar, 512);
    return 512 + (size + 511) / 512 * 512;
}

/* Seven files among headers of other kinds, then the end, then one more that must not count. */
static size_t make_tar(unsigned char *tar)
{
    static const unsigned sizes[] = {0, 1, 511, 512, 513, 3000, 1024};
    size_t used = 0;

    for (size_t i = 0; i < 7; i++) {
        used += put_member(tar + used, i == 3 ? '\0' : '0', sizes[i], i == 5);
        if (i == 2)
            used += put_member(tar + used, 'x', 700, false);
        if (i == 4)
            used += put_member(tar + used, '5', 0, false);
    }
    used += 1024;
    return used + put_member(tar + used, '0', 0, false);
}

Test(members, are_counted_alike_wherever_reads_cut_the_stream)
{
    static const size_t cuts[] = {1, 7, 512, 1000, 65536};
    static unsigned char tar[65536];
    size_t length = make_tar(tar);

    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        struct members members = {0};
        for (size_t done = 0; done < length; done += cuts[c])
            members_take(&members, tar + done, length - done < cuts[c] ? length - done : cuts[c]);
        cr_assert_eq(members.count, 7);
        cr_assert_eq(members_end(&members).lacks, 0);
    }
}

Test(members, a_stream_that_was_cut_says_where_and_what_it_lacks)
{
    static const struct {
        size_t length;
        uint64_t count, lacks, member;
        bool header;
    } cases[] = {
        {0, 0, 0, 0, false},        {1, 0, 511, 0, true},   {511, 0, 1, 0, true},
        {512, 0, 700, 0, false},    {1211, 0, 1, 0, false}, {1212, 1, 0, 0, false},
        {1300, 1, 0, 0, false},     {1536, 1, 0, 0, false}, {1537, 1, 511, 1536, true},
        {2048, 1, 10, 1536, false}, {2058, 2, 0, 0, false},
    };
    static const size_t cuts[] = {1, 100, 65536};
    static unsigned char tar[4096];

    put_member(tar + put_member(tar, '0', 700, false), '0', 10, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            struct members members = {0};
            struct members_cut cut;
            for (size_t done = 0; done < cases[i].length; done += cuts[c]) {
                size_t left = cases[i].length - done;
                members_take(&members, tar + done, left < cuts[c] ? left : cuts[c]);
            }
            cut = members_end(&members);
            cr_assert_eq(members.count, cases[i].count);
            cr_assert_eq(cut.offset, cases[i].length);
            cr_assert_eq(cut.lacks, cases[i].lacks);
            cr_assert_eq(cut.member, cases[i].member);
            cr_assert_eq(cut.header, cases[i].header);
        }
    }
}

Test(members, counting_ends_at_what_is_no_header)
{
    static unsigned char noise[4096];
    struct members members = {0};

    memset(noise, 'x', sizeof noise);
    members_take(&members, noise, sizeof noise);
    cr_assert_eq(members.count, 0);
    cr_assert(members.ended);
}

/* --- passes --- */

static void check_pass(bool processes, unsigned readers, const char *how)
{
    struct reading_request request = {.readers = readers,
                                      .samples_most = UINT64_MAX,
                                      .ns_most = INT64_MAX,
                                      .parts = 2,
                                      .processes = processes};
    const struct source *sources[2];
    struct reading *reading;
    struct source source;
    struct tree tree;

    tree_open(&tree);
    cr_assert_eq(source_open(&source, tree.path), 0);
    cr_assert_eq(source_list(&source, SOURCE_BY_NAME, 0), 0);
    sources[0] = sources[1] = &source;
    cr_assert(split_parse(&request.split, how));
    cr_assert_eq(reading_open(&reading, 2 * (size_t)readers), 0);
    cr_assert_eq(reading_run(reading, sources, 2, &request), 0);
    for (size_t s = 0; s < 2; s++) {
        uint64_t samples = 0, bytes = 0;
        for (unsigned r = 0; r < readers; r++) {
            const struct reading_tally *tally = reading_tally(reading, s, r);
            samples += tally->samples;
            bytes += tally->bytes;
            cr_assert_eq(tally->errors, 0);
            cr_assert_eq(tally->latency.count, tally->samples);
            cr_assert_eq(tally->parts[0].samples + tally->parts[1].samples, tally->samples);
            cr_assert(tally->end >= tally->start);
            cr_assert(tally->waited_ns <= tally->end - tally->start);
        }
        cr_assert_eq(samples, strcmp(how, "each") == 0 ? 10 * readers : 10);
        cr_assert_eq(bytes, strcmp(how, "each") == 0 ? 45 * readers : 45);
    }
    reading_close(reading);
    source_close(&source);
    tree_close(&tree);
}

Test(reading, threads_and_processes_read_all_samples_of_all_sources)
{
    check_pass(false, 1, "batch");
    check_pass(false, 3, "batch:2");
    check_pass(false, 4, "each");
    check_pass(true, 1, "block");
    check_pass(true, 3, "block");
}

Test(reading, a_failed_file_is_named_and_the_others_are_read)
{
    struct reading_request request = {.split = {.batch = 1, .kind = SPLIT_BATCH},
                                      .readers = 1,
                                      .samples_most = UINT64_MAX,
                                      .ns_most = INT64_MAX,
                                      .parts = 1};
    const struct source *sources[1];
    const struct reading_tally *tally;
    struct reading *reading;
    struct source source;
    struct tree tree;
    char path[128];

    tree_open(&tree);
    cr_assert_eq(source_open(&source, tree.path), 0);
    cr_assert_eq(source_list(&source, SOURCE_BY_NAME, 0), 0);
    snprintf(path, sizeof path, "%s/a/3.jpg", tree.path);
    cr_assert_eq(unlink(path), 0);
    sources[0] = &source;
    cr_assert_eq(reading_open(&reading, 1), 0);
    cr_assert_eq(reading_run(reading, sources, 1, &request), 0);
    tally = reading_tally(reading, 0, 0);
    cr_assert_eq(tally->samples, 9);
    cr_assert_eq(tally->errors, 1);
    cr_assert_eq(tally->failure, ENOENT);
    cr_assert_str_eq(tally->failed, path);
    reading_close(reading);
    source_close(&source);
    tree_close(&tree);
}

Test(reading, a_limit_takes_the_first_samples)
{
    struct reading_request request = {.split = {.batch = 1, .kind = SPLIT_BATCH},
                                      .readers = 2,
                                      .samples_most = 5,
                                      .ns_most = INT64_MAX,
                                      .parts = 1};
    const struct source *sources[1];
    struct reading *reading;
    struct source source;
    struct tree tree;

    tree_open(&tree);
    cr_assert_eq(source_open(&source, tree.path), 0);
    cr_assert_eq(source_list(&source, SOURCE_BY_NAME, 0), 0);
    sources[0] = &source;
    cr_assert_eq(reading_open(&reading, 2), 0);
    cr_assert_eq(reading_run(reading, sources, 1, &request), 0);
    /* 1 3 5 7 9 come first. */
    cr_assert_eq(reading_tally(reading, 0, 0)->bytes, 1 + 5 + 9);
    cr_assert_eq(reading_tally(reading, 0, 1)->bytes, 3 + 7);
    cr_assert_eq(reading_run(reading, sources, 2, &request), -EINVAL);
    reading_close(reading);
    source_close(&source);
    tree_close(&tree);
}

/* --- figures --- */

static void set_rates(struct result *result, const double *rates, size_t count)
{
    for (size_t i = 0; i < count; i++)
        result->rounds[i][FIGURE_SAMPLES_PER_S] = rates[i];
    result->round_count = count;
}

Test(results, ratios_are_taken_round_by_round)
{
    static const double base[] = {100, 10, 50, 20}, other[] = {50, 20, 50, 30};
    struct source sources[2] = {{0}};
    struct results results;
    struct spread spread;

    cr_assert_eq(results_open(&results, sources, 2, (unsigned[]){1}, 1, 4, false), 0);
    set_rates(results_at(&results, 0, 0), base, 4);
    set_rates(results_at(&results, 0, 1), other, 4);
    spread = result_spread(results_at(&results, 0, 0), FIGURE_SAMPLES_PER_S);
    cr_assert(spread.median == 35 && spread.least == 10 && spread.most == 100);
    spread = result_ratio(results_at(&results, 0, 1), results_at(&results, 0, 0),
                          FIGURE_SAMPLES_PER_S);
    cr_assert(spread.median == 1.25 && spread.least == 0.5 && spread.most == 2);
    results_at(&results, 0, 1)->rounds[2][FIGURE_SAMPLES_PER_S] = NAN;
    spread = result_spread(results_at(&results, 0, 1), FIGURE_SAMPLES_PER_S);
    cr_assert(isnan(spread.median));
    results_close(&results);
}

/* --- text, options --- */

Test(text, numbers_have_commas_and_three_digits_that_count)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0"},          {0.01234, "0.012"}, {0.9996, "1.00"},
                 {3.14159, "3.14"}, {9.996, "10.0"},    {42.25, "42.2"},
                 {99.96, "100"},    {1234.5, "1,235"},  {1e6, "1,000,000"}};
    char text[TEXT_NUMBER];

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_str_eq(text_number(text, cases[i].value), cases[i].text);
    cr_assert_str_eq(text_number(text, NAN), "-");
    cr_assert_str_eq(text_number(text, INFINITY), "-");
}

Test(text, names_lose_what_no_terminal_or_document_takes)
{
    char text[16];

    cr_assert_str_eq(text_name(text, sizeof text, "a\x1b\n\xff\xc0\xaf."), "a?????.");
    cr_assert_str_eq(text_name(text, sizeof text, "hund \xe7\x8a\xac"), "hund \xe7\x8a\xac");
    cr_assert_str_eq(text_name(text, sizeof text, "\xed\xa0\x80\xef\xbf\xbf"), "??????");
    /* Never cut within a character. */
    cr_assert_str_eq(text_name(text, 4, "ab\xc3\xa4"), "ab");
    cr_assert_str_eq(text_name(text, 5, "ab\xc3\xa4"), "ab\xc3\xa4");
}

Test(read_options, durations_have_units)
{
    static const char *const bad[] = {"",     "ms",  "-1s",    "1e3s", "1x",
                                      "0x1s", " 1s", "1.5.2s", "nan",  "99999h"};
    int64_t ns;

    cr_assert(options_read_time("1.5ms", &ns) && ns == 1500000);
    cr_assert(options_read_time("200us", &ns) && ns == 200000);
    cr_assert(options_read_time("3", &ns) && ns == 3000000000);
    cr_assert(options_read_time("7ns", &ns) && ns == 7);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert(!options_read_time(bad[i], &ns));
}

/* --- the plot --- */

/* Every element that opens closes, in order; no stray & or <. */
static void check_well_formed(const char *text)
{
    const char *open[32];
    size_t deep = 0;

    for (const char *c = text; *c; c++) {
        if (*c == '&') {
            const char *end = strchr(c, ';');
            cr_assert(end && end - c <= 6);
        }
        if (*c != '<')
            continue;
        const char *end = strchr(c, '>');
        cr_assert(end && !memchr(c + 1, '<', (size_t)(end - c - 1)));
        if (c[1] == '/') {
            cr_assert(deep > 0);
            deep--;
            cr_assert_eq(strncmp(open[deep], c + 2, (size_t)(end - c - 2)), 0);
        } else if (c[1] != '?' && end[-1] != '/') {
            cr_assert(deep < 32);
            open[deep++] = c + 1;
        }
        c = end;
    }
    cr_assert_eq(deep, 0);
}

Test(plot, is_well_formed_whatever_names_and_figures_are)
{
    const struct plot_point points[] = {{1, 10, 9, 12}, {2, 20.5, 20, 21}, {4, 1e6, 1, 2e6}};
    const struct plot_series series[] = {
        {"a<b>&\"c\"\xff\x01", points, 3}, {"", points, 1}, {"none", NULL, 0}};
    const struct plot plot = {"title & more", "readers", "samples/s", series, 3};
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);

    cr_assert(file);
    plot_write(file, &plot);
    plot_write(file, &(struct plot){"", "", "", series, 0});
    cr_assert_eq(fclose(file), 0);
    cr_assert(strstr(text, "a&lt;b&gt;&amp;&quot;c&quot;??"));
    cr_assert(strstr(text, "polyline"));
    cr_assert(!strstr(text, "nan") && !strstr(text, "inf"));
    check_well_formed(text);
    free(text);
}

Test(plot, ticks_are_round_and_few)
{
    for (double most = 0.01; most < 1e7; most *= 1.7) {
        double tick = plot_tick(most, 6), digits = tick / pow(10, floor(log10(tick) + 1e-9));
        cr_assert(most / tick <= 6.001 && most / tick >= 1.9);
        cr_assert(fabs(digits - 1) < 1e-6 || fabs(digits - 2) < 1e-6 || fabs(digits - 5) < 1e-6);
    }
}
