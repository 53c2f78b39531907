/* Shard names: what each way of naming shards gives, in which order, and what is said of those that
 * give nothing. Every test works in a folder of its own, which the next test removes, or the end.
 */
#include "unit.h"

#include "../../core/brace.h"
#include "../../core/report.h"
#include "../../core/shards.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[256];
static char said[4096];
static unsigned lines;

static void hear(const char *line, void *context)
{
    (void)context;
    lines++;
    snprintf(said, sizeof said, "%s", line);
}

static int remove_entry(const char *path, const struct stat *found, int kind, struct FTW *walk)
{
    (void)found, (void)kind, (void)walk;
    return remove(path);
}

/* A failed test never gets to its end: its folder goes here. */
static void clear(void)
{
    if (folder[0] != '\0')
        nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    folder[0] = '\0';
}

static void start(void)
{
    static bool registered;
    const char *temporary = getenv("TMPDIR");

    if (!registered)
        atexit(clear);
    registered = true;
    clear();
    snprintf(folder, sizeof folder, "%s/shards-XXXXXX", temporary != NULL ? temporary : "/tmp");
    cr_assert(mkdtemp(folder) != NULL);
    said[0] = '\0';
    lines = 0;
    report_to_sink(hear, NULL);
}

static void finish(void)
{
    report_to_sink(NULL, NULL);
    clear();
}

static const char *in_folder(const char *name)
{
    static char path[1024];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const void *bytes, size_t length)
{
    FILE *file = fopen(in_folder(name), "w");

    cr_assert(file != NULL);
    cr_assert_eq(fwrite(bytes, 1, length, file), length);
    cr_assert_eq(fclose(file), 0);
}

static void write_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

/* `names` parted by blanks; those that end in a slash become folders. */
static void touch(const char *names)
{
    char copy[1024], *rest = NULL;

    snprintf(copy, sizeof copy, "%s", names);
    for (char *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        if (name[strlen(name) - 1] == '/')
            cr_assert_eq(mkdir(in_folder(name), 0777), 0);
        else
            write_text(name, name);
    }
}

/* The list's paths below the folder, parted by blanks. */
static const char *shown(const struct shard_list *list)
{
    static char text[4096];
    size_t length = 0;

    text[0] = '\0';
    for (size_t i = 0; i < list->count; i++) {
        const char *path = list->paths[i];
        cr_assert(strncmp(path, folder, strlen(folder)) == 0);
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i > 0 ? " " : "",
                                   path + strlen(folder) + 1);
    }
    return text;
}

static void gives(const char *name, const char *expected)
{
    struct shard_list list = {0};
    char text[4096];

    int error = shards_add(&list, name, folder);
    snprintf(text, sizeof text, "%s", shown(&list));
    shards_close(&list);
    cr_assert_eq(error, 0, "%s: %s", name, said);
    cr_assert(strcmp(text, expected) == 0, "%s gave %s, not %s", name, text, expected);
}

static void fails(const char *name, int error, const char *message)
{
    struct shard_list list = {0};

    lines = 0;
    said[0] = '\0';
    int outcome = shards_add(&list, name, folder);
    shards_close(&list);
    cr_assert_eq(outcome, error, "%s gave %d: %s", name, outcome, said);
    cr_assert_eq(lines, 1U, "%s was reported %u times", name, lines);
    cr_assert(strstr(said, message) != NULL, "%s was reported as: %s", name, said);
}

Test(shards, a_file_is_kept_whatever_its_ending)
{
    start();
    touch("a.tar b.bin");
    gives("a.tar", "a.tar");
    gives("./b.bin", "b.bin");
    gives(in_folder("a.tar"), "a.tar");
    finish();
}

Test(shards, links_are_not_resolved)
{
    start();
    touch("a.tar");
    cr_assert_eq(symlink("a.tar", in_folder("link.tar")), 0);
    cr_assert_eq(symlink("nothing", in_folder("dangling.tar")), 0);
    gives("link.tar", "link.tar");
    fails("dangling.tar", -ENOENT, "dangling.tar is a link to nothing");
    finish();
}

Test(shards, a_folder_gives_its_tars_in_byte_order)
{
    start();
    touch("d/ d/b.tar d/a.tar d/B.tar d/a-1.tar d/a10.tar d/a9.tar d/.hidden.tar d/x.tar.part "
          "d/notes");
    gives("d", "d/B.tar d/a-1.tar d/a.tar d/a10.tar d/a9.tar d/b.tar");
    gives("d/", "d/B.tar d/a-1.tar d/a.tar d/a10.tar d/a9.tar d/b.tar");
    touch("d/folder.tar/");
    fails("d", -EISDIR, "d/folder.tar is a folder");
    finish();
}

Test(shards, a_folder_without_tars_is_an_error)
{
    start();
    touch("none/ none/a.txt");
    fails("none", -ENOENT, "none has no *.tar");
    finish();
}

Test(shards, a_folder_of_compressed_tars_alone_gives_these)
{
    start();
    touch("packed/ packed/a.tar.gz packed/b.tgz packed/c.tar.zst packed/d.tar.lz4 packed/e.txz "
          "packed/notes.gz");
    gives("packed", "packed/a.tar.gz packed/b.tgz packed/c.tar.zst packed/d.tar.lz4 packed/e.txz");
    cr_assert_eq(lines, 0U);
    finish();
}

Test(shards, a_base_name_is_that_of_the_plain_tar)
{
    static const char *const cases[][2] = {{"/d/a.tar", "a.tar"},
                                           {"/d/a.tar.gz", "a.tar"},
                                           {"a.tgz", "a.tar"},
                                           {"/a.b.tar.zst", "a.b.tar"},
                                           {"/d.tar.gz/x", "x"},
                                           {"/d/.tar.gz", ".tar.gz"},
                                           {"/d/a.tar.gz.tar", "a.tar.gz.tar"}};
    char name[SHARDS_NAME];

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        shards_base_name(name, cases[i][0]);
        cr_assert_str_eq(name, cases[i][1]);
    }
}

Test(shards, compressed_tars_beside_plain_ones_are_warned_of)
{
    start();
    touch("d/ d/a.tar d/b.tar.zst d/c.tar.xz");
    gives("d", "d/a.tar");
    cr_assert_eq(lines, 1U);
    cr_assert(strstr(said, "d: left out, as compressed: 2 of 3 tars (b.tar.zst)") != NULL, "%s",
              said);
    finish();
}

Test(shards, braces_expand_in_braceexpands_order)
{
    /* Worked out by braceexpand 0.1.7, but for the backslashes, which stay for glob(3). */
    static const char *const cases[][2] = {
        {"plain", "plain"},
        {"t-{08..11}.tar", "t-08.tar t-09.tar t-10.tar t-11.tar"},
        {"{1..3}", "1 2 3"},
        {"{3..1}", "3 2 1"},
        {"{2..-1}", "2 1 0 -1"},
        {"{-05..5..5}", "-05 000 005"},
        {"{-0..1}", "0 1"},
        {"{001..5}", "001 002 003 004 005"},
        {"{1..010..4}", "001 005 009"},
        {"{0..9..-4}", "0 4 8"},
        {"{0..2..0}", "0 1 2"},
        {"{5..5}", "5"},
        {"{0..3..99999999999999999999}", "0"},
        {"{a..g..2}", "a c e g"},
        {"{c..a}", "c b a"},
        {"{Y..b}", "Y Z a b"},
        {"{B..A..2}", "B"},
        {"{a,b}{1,2}", "a1 a2 b1 b2"},
        {"p{2.{5..7},3.{2,3}}", "p2.5 p2.6 p2.7 p3.2 p3.3"},
        {"x{,.bak}", "x x.bak"},
        {"{a}", "{a}"},
        {"{}", "{}"},
        {"{{a,b}}", "{a} {b}"},
        {"{a,{}}", "a {}"},
        {"{1..{2,3}}", "{1..2} {1..3}"},
        {"{1..a}", "{1..a}"},
        {"{1...3}", "{1...3}"},
        {"{a\\,b}", "{a\\,b}"},
        {"\\{a,b\\}", "\\{a,b\\}"},
        {"a\\\\{1,2}", "a\\\\1 a\\\\2"},
        {"a,b", "a,b"},
        {"end\\", "end\\"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct brace *brace;
        struct brace_fault fault;
        char all[1024] = "", one[128];
        cr_assert_eq(brace_open(&brace, cases[i][0], &fault), 0, "%s", cases[i][0]);
        cr_assert(brace_longest(brace) < sizeof one);
        for (uint64_t which = 0; which < brace_count(brace); which++) {
            brace_write(brace, which, one);
            cr_assert(strlen(one) <= brace_longest(brace), "%s", cases[i][0]);
            if (which > 0)
                strcat(all, " ");
            strcat(all, one);
        }
        brace_close(brace);
        cr_assert(strcmp(all, cases[i][1]) == 0, "%s gave %s", cases[i][0], all);
    }
}

Test(shards, a_pattern_gives_its_files_in_order)
{
    start();
    touch("t-00.tar t-01.tar t-02.tar v/ v/b.tar v/a.tar w/ w/c.tar");
    gives("t-{00..02}.tar", "t-00.tar t-01.tar t-02.tar");
    gives("t-{02,00}.tar", "t-02.tar t-00.tar");
    gives("{w,v,t-01.tar}", "w/c.tar v/a.tar v/b.tar t-01.tar");
    finish();
}

Test(shards, a_name_that_exists_is_never_expanded)
{
    start();
    touch("odd{1,2}.tar odd1.tar odd2.tar [x].tar x.tar @list a\\b.tar s{0}-1.tar s{0}-2.tar");
    gives("odd{1,2}.tar", "odd{1,2}.tar");
    gives("[x].tar", "[x].tar");
    gives("@list", "@list");
    gives("a\\b.tar", "a\\b.tar");
    gives("s{0}-{1..2}.tar", "s{0}-1.tar s{0}-2.tar");
    finish();
}

Test(shards, a_backslash_takes_the_next_character_as_it_is)
{
    start();
    touch("{1,2}-a.tar {1,2}-b.tar x*.tar xy.tar a;b.tar");
    gives("\\{1,2\\}-{a,b}.tar", "{1,2}-a.tar {1,2}-b.tar");
    gives("{1\\,2}-a.tar", "{1,2}-a.tar");
    gives("x\\*.tar", "x*.tar");
    gives("a\\;b.tar", "a;b.tar");
    gives("x\\*{.tar,.tar}", "x*.tar x*.tar");
    finish();
}

Test(shards, missing_files_are_counted_and_the_first_one_named)
{
    start();
    touch("t-0.tar t-2.tar");
    fails("none.tar", -ENOENT, "none.tar does not exist");
    fails("t-{0..4}.tar", -ENOENT, "t-1.tar does not exist: of the 5 names in t-{0..4}.tar, 3 are");
    fails("{x*,t-*}.tar", -ENOENT, "x*.tar matches nothing: of the 2 names in {x*,t-*}.tar, 1 is");
    fails("x?.tar", -ENOENT, "x?.tar matches nothing");
    fails("t-0.tar/x.tar", -ENOENT, "t-0.tar/x.tar does not exist");
    fails("t-{000000..199999}.tar", -ENOENT, "200000 are missing");
    finish();
}

Test(shards, a_glob_matches_in_byte_order)
{
    start();
    touch("[d]*/ [d]*/b.tar [d]*/a.tar [d]*/B.tar [d]*/.h.tar [d]*/s/ [d]*/s/z.tar [d]*/s/y.tar "
          "d/ d/wrong.tar");
    gives("\\[d\\]\\*/*.tar", "[d]*/B.tar [d]*/a.tar [d]*/b.tar");
    gives("\\[d]\\*/[a-b].tar", "[d]*/a.tar [d]*/b.tar");
    finish();
}

Test(shards, a_glob_takes_its_base_as_it_is)
{
    start();
    touch("[d]{x}*\\y/ [d]{x}*\\y/b.tar [d]{x}*\\y/a.tar d/ d/wrong.tar");
    struct shard_list list = {0};
    char base[1024];
    snprintf(base, sizeof base, "%s", in_folder("[d]{x}*\\y"));
    int error = shards_add(&list, "*.tar", base);
    cr_assert_eq(error, 0, "%s", said);
    cr_assert_str_eq(shown(&list), "[d]{x}*\\y/a.tar [d]{x}*\\y/b.tar");
    shards_close(&list);
    finish();
}

Test(shards, a_globs_folders_give_their_tars)
{
    start();
    touch("p2/ p2/b.tar p2/a.tar p10/ p10/z.tar");
    gives("p*", "p10/z.tar p2/a.tar p2/b.tar");
    gives("p{2,10}/*.tar", "p2/a.tar p2/b.tar p10/z.tar");
    finish();
}

Test(shards, braces_that_do_not_balance_are_named_by_column)
{
    start();
    fails("t-{0..3.tar", -EINVAL, "t-{0..3.tar: column 3: this { is never closed");
    fails("a{b{c}", -EINVAL, "column 2: this { is never closed");
    fails("a}b{", -EINVAL, "column 2: this } closes no {");
    fails("{a,b}}", -EINVAL, "column 6: this } closes no {");
    fails("{a\\}", -EINVAL, "column 1: this { is never closed");
    finish();
}

Test(shards, a_pattern_of_too_many_names_costs_nothing)
{
    char deep[400] = "";

    start();
    fails("t-{1..10000001}.tar", -E2BIG, "makes it 10000001 shards");
    fails("{1..5000}{1..5000}", -E2BIG, "makes it 25000000 shards");
    fails("{1..999999999999}{1..999999999999}", -E2BIG, "too many shards");
    fails("{{1..999999999999999999},{1..999999999999999999}}{0..99}", -E2BIG, "too many shards");
    fails("x{1..1000000000000000000}", -EINVAL,
          "column 3: this range has a number of more than 18");
    fails("{0..99999999999999999999999}", -EINVAL, "column 2: this range");
    for (int i = 0; i < 100; i++)
        strcat(deep, "{");
    for (int i = 0; i < 100; i++)
        strcat(deep, "}");
    fails(deep, -EINVAL, "column 65: braces are nested more than 64 deep");
    finish();
}

Test(shards, what_is_no_file_is_refused)
{
    start();
    cr_assert_eq(mkfifo(in_folder("pipe.tar"), 0600), 0);
    fails("pipe.tar", -EINVAL, "pipe.tar is not a regular file");
    fails("", -EINVAL, "name is empty");
    fails("{,x}", -EINVAL, "one of the names is empty");
    finish();
}

Test(shards, what_cannot_be_read_is_refused)
{
    if (geteuid() == 0)
        cr_skip_test("root reads everything");
    start();
    touch("a.tar d/ d/b.tar");
    cr_assert_eq(chmod(in_folder("a.tar"), 0), 0);
    fails("a.tar", -EACCES, "a.tar cannot be read");
    cr_assert_eq(chmod(in_folder("d"), 0), 0);
    fails("d", -EACCES, "d cannot be listed");
    fails("d/b.tar", -EACCES, "d/b.tar: Permission denied");
    fails("d/*.tar", -EIO, "d cannot be listed");
    cr_assert_eq(chmod(in_folder("d"), 0700), 0);
    finish();
}

Test(shards, a_list_gives_its_names_relative_to_itself)
{
    start();
    touch("l/ l/a.tar l/b.tar l/c.tar l/d/ l/d/e.tar top.tar");
    write_text("l/list.txt",
               "\xEF\xBB\xBF# shards\r\n\r\n  b.tar  \r\n{a,c}.tar\n#x\nd\n../top.tar");
    gives("@l/list.txt", "l/b.tar l/a.tar l/c.tar l/d/e.tar l/../top.tar");
    finish();
}

Test(shards, a_fault_in_a_list_names_list_and_line)
{
    start();
    touch("a.tar");
    write_text("missing", "a.tar\n\n# c\nb.tar\n");
    fails("@missing", -ENOENT, "/missing:4: ");
    fails("@missing", -ENOENT, "b.tar does not exist");
    write_text("braces", "a.tar\n{a\n");
    fails("@braces", -EINVAL, "/braces:2: {a: column 1:");
    write_text("nested", "@missing\n");
    fails("@nested", -EINVAL, "/nested:1: @missing: a list names shards, not another list");
    write_text("empty", "# nothing\n\n");
    fails("@empty", -EINVAL, "/empty names no shard");
    fails("@none", -ENOENT, "/none cannot be read: No such file");
    fails("@.", -EISDIR, "Is a directory");
    finish();
}

Test(shards, what_is_no_list_is_refused_early)
{
    static char line[70000];

    start();
    put("tar", "a\0b\n", 4);
    fails("@tar", -EINVAL, "/tar:1: a NUL byte");
    memset(line, 'x', sizeof line);
    put("long", line, sizeof line);
    fails("@long", -EINVAL, "/long:1: a line of more than 65535 bytes");
    finish();
}

Test(shards, an_origin_starts_the_message)
{
    struct shard_list list = {0};

    start();
    cr_assert_eq(shards_add_from(&list, "none.tar", folder, "my.conf:7"), -ENOENT);
    cr_assert(strstr(said, "my.conf:7: /") != NULL, "%s", said);
    shards_close(&list);
    finish();
}

Test(shards, names_append_in_the_order_given)
{
    struct shard_list list = {0};

    start();
    touch("a.tar b.tar c.tar");
    cr_assert_eq(shards_add(&list, "c.tar", folder), 0);
    cr_assert_eq(shards_add(&list, "{b,a}.tar", folder), 0);
    cr_assert_str_eq(shown(&list), "c.tar b.tar a.tar");
    cr_assert_eq(shards_check(&list), 0);
    cr_assert_eq(lines, 0U);
    shards_close(&list);
    cr_assert_eq(list.count, 0U);
    finish();
}

Test(shards, thousands_of_shards_are_added_and_checked)
{
    struct shard_list list = {0};
    char name[32];

    start();
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "t-%04d.tar", i);
        touch(name);
    }
    cr_assert_eq(shards_add(&list, "t-{0000..2999}.tar", folder), 0);
    cr_assert_eq(list.count, 3000U);
    cr_assert(strstr(list.paths[2999], "/t-2999.tar") != NULL);
    cr_assert_eq(shards_check(&list), 0);
    shards_close(&list);
    finish();
}

Test(shards, an_empty_list_is_refused)
{
    struct shard_list list = {0};

    start();
    cr_assert_eq(shards_check(&list), -EINVAL);
    cr_assert(strstr(said, "no shards were given") != NULL, "%s", said);
    shards_close(&list);
    finish();
}

Test(shards, a_file_listed_twice_is_refused_by_both_places)
{
    struct shard_list list = {0};
    char twin[1024];

    start();
    touch("a.tar b.tar c.tar");
    cr_assert_eq(symlink("b.tar", in_folder("again.tar")), 0);
    snprintf(twin, sizeof twin, "%s", in_folder("twin.tar"));
    cr_assert_eq(link(in_folder("a.tar"), twin), 0);
    cr_assert_eq(shards_add(&list, "{a,b,c,again,twin}.tar", folder), 0);
    cr_assert_eq(shards_check(&list), -EINVAL);
    cr_assert(strstr(said, "/b.tar (shard 2) and ") != NULL, "%s", said);
    cr_assert(strstr(said, "/again.tar (shard 4); repeated: 2") != NULL, "%s", said);
    shards_close(&list);
    finish();
}

Test(shards, a_file_that_went_away_is_named_by_the_check)
{
    struct shard_list list = {0};

    start();
    touch("a.tar");
    cr_assert_eq(shards_add(&list, "a.tar", folder), 0);
    cr_assert_eq(unlink(in_folder("a.tar")), 0);
    cr_assert_eq(shards_check(&list), -ENOENT);
    cr_assert(strstr(said, "a.tar: No such file") != NULL, "%s", said);
    shards_close(&list);
    finish();
}
