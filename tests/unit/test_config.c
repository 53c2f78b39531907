/* Options and ini files: what is taken, what is refused, and what is said of it. Every test works
 * in a folder of its own, which the next test removes, or the end. */
#include "unit.h"

#include "../../core/config.h"
#include "../../core/report.h"

#include <errno.h>
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

static void start(struct config *config)
{
    static bool registered;
    const char *temporary = getenv("TMPDIR");

    if (!registered)
        atexit(clear);
    registered = true;
    clear();
    snprintf(folder, sizeof folder, "%s/config-XXXXXX", temporary != NULL ? temporary : "/tmp");
    cr_assert(mkdtemp(folder) != NULL);
    said[0] = '\0';
    lines = 0;
    report_to_sink(hear, NULL);
    config_init(config);
}

static void finish(struct config *config)
{
    config_close(config);
    report_to_sink(NULL, NULL);
    clear();
}

static void put(const char *name, const void *bytes, size_t length)
{
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert(file != NULL);
    cr_assert_eq(fwrite(bytes, 1, length, file), length);
    cr_assert_eq(fclose(file), 0);
}

/* Reads `text` as an ini file into a fresh `config`. */
static int read_text(struct config *config, const char *text)
{
    put("mount.conf", text, strlen(text));
    config_close(config);
    config_init(config);
    lines = 0;
    said[0] = '\0';
    return config_read(config, "mount.conf", folder);
}

static void file_fails(const char *text, const char *message)
{
    struct config config;

    config_init(&config);
    int error = read_text(&config, text);
    config_close(&config);
    cr_assert(error < 0, "taken: %s", text);
    cr_assert_eq(lines, 1U, "%s was reported %u times", text, lines);
    cr_assert(strstr(said, message) != NULL, "%s was reported as: %s", text, said);
}

static void takes(struct config *config, const char *options)
{
    lines = 0;
    cr_assert_eq(config_set_options(config, options, folder), 0, "%s: %s", options, said);
    cr_assert_eq(lines, 0U, "%s: %s", options, said);
}

static void refuses(const char *options, const char *message)
{
    struct config config;

    config_init(&config);
    lines = 0;
    said[0] = '\0';
    int error = config_set_options(&config, options, folder);
    config_close(&config);
    cr_assert_eq(error, -EINVAL, "taken: %s", options);
    cr_assert_eq(lines, 1U, "%s was reported %u times", options, lines);
    cr_assert(strstr(said, message) != NULL, "%s was reported as: %s", options, said);
}

Test(config, sizes_take_units)
{
    struct config config;

    start(&config);
    cr_assert_eq(config.readahead, (uint64_t)256 << 20);
    cr_assert_eq(config_set_options(&config, "readahead=3m,readahead_total=2G", "/"), 0);
    cr_assert_eq(config.readahead, (uint64_t)3 << 20);
    cr_assert_eq(config.readahead_total, (uint64_t)2 << 30);
    cr_assert_eq(config_set_options(&config, "readahead=0", "/"), 0);
    cr_assert_eq(config.readahead, 0);
    cr_assert_eq(config_set_options(&config, "unpacked_size=20G", "/"), 0);
    cr_assert_eq(config.unpacked_size, (uint64_t)20 << 30);
    refuses("readahead=", "-o: readahead");
    refuses("readahead=M", "-o: readahead");
    refuses("readahead=1X", "-o: readahead");
    refuses("readahead=1.5G", "-o: readahead");
    refuses("readahead=99999999T", "-o: readahead");
    finish(&config);
}

Test(config, unpacked_is_a_folder_or_none)
{
    struct config config;

    start(&config);
    cr_assert(config.unpacked == NULL);
    cr_assert_eq(config_set_options(&config, "unpacked=some/where", "/base"), 0);
    cr_assert_str_eq(config.unpacked, "/base/some/where");
    cr_assert_eq(config_set_options(&config, "unpacked=none", "/base"), 0);
    cr_assert_str_eq(config.unpacked, "none");
    cr_assert_eq(config_set_options(&config, "unpacked=./none", "/base"), 0);
    cr_assert_str_eq(config.unpacked, "/base/./none");
    refuses("unpacked=", "takes the path of a folder, or none");
    refuses("unpacked", "takes the path of a folder, or none");
    finish(&config);
}

Test(config, defaults_are_the_manuals)
{
    struct config config;

    start(&config);
    cr_assert_eq(config.world, 1U);
    cr_assert_eq(config.epoch, 0U);
    cr_assert_eq(config.order.kind, ORDER_TORCH);
    cr_assert_eq(config.order.seed, 0U);
    cr_assert_eq(config.deal.remainder, PLAN_PAD);
    cr_assert(config.fields == NULL);
    cr_assert_eq(config.label, CONFIG_LABEL_AUTO);
    cr_assert_eq(config.prime, 0U);
    cr_assert_eq(config.uid, CONFIG_ID_UNSET);
    cr_assert_eq(config.gid, CONFIG_ID_UNSET);
    cr_assert(!config.strict && !config.allow_other && !config.debug);
    cr_assert(config.log == NULL && config.mount_options == NULL);
    cr_assert_eq(config.shards.count, 0U);
    finish(&config);
}

Test(config, every_option_is_set)
{
    struct config config;
    char path[512];

    start(&config);
    takes(&config, "world=8,seed=42,epoch=7,order=sequential,remainder=keep,fields=jpg/JPEG:cls,"
                   "label=dir,prime=1000,strict,uid=12,gid=34,allow_other=yes,debug=on,log=x.log");
    cr_assert_eq(config.world, 8U);
    cr_assert_eq(config.order.seed, 42U);
    cr_assert_eq(config.epoch, 7U);
    cr_assert_eq(config.order.kind, ORDER_SEQUENTIAL);
    cr_assert_eq(config.deal.remainder, PLAN_KEEP);
    cr_assert_str_eq(config.fields, "jpg/jpeg:cls");
    cr_assert_eq(config.label, CONFIG_LABEL_DIR);
    cr_assert_eq(config.prime, 1000U);
    cr_assert(config.strict && config.allow_other && config.debug);
    cr_assert_eq(config.uid, 12U);
    cr_assert_eq(config.gid, 34U);
    snprintf(path, sizeof path, "%s/x.log", folder);
    cr_assert_str_eq(config.log, path);
    finish(&config);
}

Test(config, later_options_win)
{
    struct config config;

    start(&config);
    takes(&config, "world=8,strict,log=/a,fields=jpg,drop_last,label=json:a\\,b.c");
    cr_assert_eq(config.label, CONFIG_LABEL_JSON);
    cr_assert_str_eq(config.label_key, "a,b.c");
    takes(&config, "world=4,strict=no,log=/b,,fields=png,label=auto");
    cr_assert_eq(config.world, 4U);
    cr_assert(!config.strict);
    cr_assert_str_eq(config.log, "/b");
    cr_assert_str_eq(config.fields, "png");
    cr_assert_eq(config.label, CONFIG_LABEL_AUTO);
    cr_assert_eq(config.deal.remainder, PLAN_DROP);
    takes(&config, "drop_last=false");
    cr_assert_eq(config.deal.remainder, PLAN_PAD);
    takes(&config, "remainder=drop_last");
    cr_assert_eq(config.deal.remainder, PLAN_DROP);
    takes(&config, "");
    finish(&config);
}

Test(config, numbers_have_one_spelling_and_bounds)
{
    struct config config;
    uint64_t value = 5;

    start(&config);
    takes(&config, "world=4294967296,seed=9223372036854775807,epoch=9223372036854775807,prime=1");
    cr_assert_eq(config.world, PLAN_WORLD_MAX);
    cr_assert_eq(config.epoch, ORDER_EPOCH_MAX);
    refuses("world=0", "-o: world=0: takes a decimal number from 1 to 4294967296");
    refuses("world=4294967297", "from 1 to 4294967296");
    refuses("seed=9223372036854775808", "from 0 to 9223372036854775807");
    refuses("seed=18446744073709551616", "seed=18446744073709551616: takes a decimal number");
    refuses("epoch=-1", "epoch=-1");
    refuses("epoch=01", "epoch=01");
    refuses("epoch=+1", "epoch=+1");
    refuses("epoch= 1", "epoch= 1");
    refuses("epoch=1x", "epoch=1x");
    refuses("epoch=", "epoch=:");
    refuses("epoch", "epoch: takes a decimal number");
    refuses("prime=0", "from 1 to");
    cr_assert(config_number("17rest", 2, 17, &value));
    cr_assert_eq(value, 17U);
    cr_assert(!config_number("18", 2, 17, &value));
    cr_assert(!config_number("", 0, 17, &value));
    cr_assert(!config_number("00", 2, 17, &value));
    cr_assert(config_number("18446744073709551615", 20, UINT64_MAX, &value));
    cr_assert_eq(value, UINT64_MAX);
    cr_assert(!config_number("99999999999999999999", 20, UINT64_MAX, &value));
    cr_assert_eq(value, UINT64_MAX);
    finish(&config);
}

Test(config, bad_values_are_told_what_is_allowed)
{
    struct config config;

    start(&config);
    refuses("order=random", "order=random: takes torch, sequential, contiguous, ");
    refuses("order", "order: takes torch, sequential, contiguous, ");
    refuses("window=0", "window=0: takes a decimal number from 1");
    refuses("epoch_samples=0", "epoch_samples=0: takes a decimal number from 1");
    refuses("weights=", "takes the path of a file, or balanced");
    refuses("lengths=", "takes the path of a file, or size");
    refuses("remainder=no", "takes pad, drop or keep");
    refuses("label=class", "takes cls, dir, shard, json:KEY, none or auto");
    refuses("label=json", "takes cls, dir, shard, json:KEY, none or auto");
    refuses("label=json:", "takes a key behind json:");
    refuses("label=json:.a", "a name on each side of its dots");
    refuses("label=json:a.", "a name on each side of its dots");
    refuses("label=json:a..b", "a name on each side of its dots");
    refuses("strict=maybe", "strict=maybe: takes yes or no");
    refuses("strict=", "takes yes or no");
    refuses("log=", "takes the path of a file");
    refuses("uid=no-such-user-here", "takes the name of a user of this machine");
    refuses("uid=4294967295", "up to 4294967294");
    refuses("gid", "gid: takes the name of a group");
    finish(&config);
}

Test(config, fields_are_checked_for_form)
{
    struct config config;

    start(&config);
    takes(&config, "fields=seg.png");
    refuses("fields", "jpg/jpeg/png:cls");
    refuses("fields=", "one of the names is empty");
    refuses("fields=jpg//png", "one of the names is empty");
    refuses("fields=:jpg", "one of the names is empty");
    refuses("fields=jpg:", "one of the names is empty");
    refuses("fields=.jpg", "starts with a dot");
    refuses("fields=jpg:c ls", "has a blank");
    refuses("fields=jpg/png:JPG", "there twice");
    takes(&config, "fields=jpg/jp:jpgs");
    finish(&config);
}

/* 0 stands for what was not asked for, so it must not be taken for that. */
Test(config, a_block_of_no_bytes_is_refused)
{
    struct config config;

    start(&config);
    refuses("order=block,block=0", "block=0: takes a size: a decimal number above 0");
    refuses("order=block,block=0K", "above 0");
    takes(&config, "order=block,block=1,readahead=0");
    finish(&config);
}

/* What means nothing with the order that was asked for is refused, wherever it stood. */
Test(config, options_of_other_orders_are_refused)
{
    struct config config;

    start(&config);
    takes(&config, "order=contiguous,window=5");
    cr_assert_eq(config_settle(&config), 0);
    cr_assert(config.deal.runs && config.deal.window == 5);
    takes(&config, "order=torch");
    lines = 0;
    cr_assert_eq(config_settle(&config), -EINVAL);
    cr_assert_eq(lines, 1U);
    cr_assert(strstr(said, "window= means nothing with order=torch: it is for order=contiguous and "
                           "block") != NULL,
              "%s", said);
    finish(&config);
}

Test(config, an_order_is_given_what_it_needs)
{
    static const struct {
        const char *options, *refusal; /* NULL: none */
    } cases[] = {
        {"order=weighted", "order=weighted needs weights="},
        {"order=weighted,weights=balanced", NULL},
        {"order=resampled,weights=balanced",
         "weights= means nothing with order=resampled: it is for order=weighted"},
        {"order=length,bucket=4", "order=length needs lengths="},
        {"order=length,lengths=size", "order=length needs bucket="},
        {"order=length,lengths=size,bucket=4", NULL},
        {"order=feistel,bucket=4", "bucket= means nothing with order=feistel"},
        {"order=feistel,epoch_samples=4611686018427387904", NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config config;
        int fault;

        start(&config);
        takes(&config, cases[i].options);
        lines = 0;
        fault = config_settle(&config);
        cr_assert_eq(fault, cases[i].refusal ? -EINVAL : 0, "%s", cases[i].options);
        cr_assert_eq(lines, cases[i].refusal ? 1U : 0U);
        cr_assert(!cases[i].refusal || strstr(said, cases[i].refusal) != NULL, "%s", said);
        finish(&config);
    }
}

Test(config, paths_of_numbers_start_from_the_folder_and_words_are_words)
{
    struct config config;
    char path[512];

    start(&config);
    takes(&config, "weights=balanced,lengths=size");
    cr_assert_str_eq(config.weights, "balanced");
    cr_assert_str_eq(config.lengths, "size");
    takes(&config, "weights=./balanced,lengths=l.txt");
    snprintf(path, sizeof path, "%s/./balanced", folder);
    cr_assert_str_eq(config.weights, path);
    snprintf(path, sizeof path, "%s/l.txt", folder);
    cr_assert_str_eq(config.lengths, path);
    refuses("bucket=0", "bucket=0: takes a decimal number from 1");
    refuses("epoch_samples=4611686018427387905", "from 1 to 4611686018427387904");
    finish(&config);
}

Test(config, users_may_be_named)
{
    struct config config;

    start(&config);
    takes(&config, "uid=root,gid=root");
    cr_assert_eq(config.uid, 0U);
    cr_assert_eq(config.gid, 0U);
    finish(&config);
}

Test(config, unknown_options_are_refused_with_the_nearest)
{
    struct config config;

    start(&config);
    refuses("wrold=8", "-o: wrold: there is no such option; did you mean world?");
    refuses("drop-last", "did you mean drop_last?");
    refuses("Seed=1", "did you mean seed?");
    refuses("elephant=w", "-o: elephant: there is no such option (");
    refuses("shards=a.tar", "not an option but an argument");
    refuses("=x", "no such option");
    finish(&config);
}

Test(config, the_place_of_the_index_is_a_path_or_none)
{
    struct config config;

    start(&config);
    cr_assert(config.index == NULL);
    takes(&config, "index=kept/set.index");
    cr_assert(strstr(config.index, "/kept/set.index") != NULL && config.index[0] == '/');
    takes(&config, "index=none");
    cr_assert_str_eq(config.index, "none");
    refuses("index", "takes the path of a file, of a folder, or none");
    refuses("index=", "takes the path of a file, of a folder, or none");
    finish(&config);
}

Test(config, a_backslash_keeps_a_comma_in_a_value)
{
    struct config config;

    start(&config);
    takes(&config, "log=/a\\,b\\\\c\\d\\,,strict");
    cr_assert_str_eq(config.log, "/a,b\\c\\d,");
    cr_assert(config.strict);
    finish(&config);
}

Test(config, words_of_mount_are_passed_dropped_or_refused)
{
    struct config config;

    start(&config);
    takes(&config, "rw,defaults,auto,nofail,_netdev,user,x-systemd.automount,comment=mine,relatime,"
                   "norelatime,default_permissions");
    cr_assert(config.mount_options == NULL);
    takes(&config, "nodev,nosuid,noexec,noatime,dirsync,auto_unmount,nodev");
    cr_assert_str_eq(config.mount_options, "nosuid,noexec,noatime,dirsync,auto_unmount,nodev");
    takes(&config, "dev,exec,atime");
    cr_assert_str_eq(config.mount_options, "nosuid,dirsync,auto_unmount,dev,exec");
    refuses("ro", "ro: the files are read-only anyway");
    refuses("fsname=x", "fsname=x: the program sets it");
    refuses("max_read=1", "the program sets it");
    refuses("nodev=maybe", "takes yes or no");
    refuses("nodev=no", "leave it out instead");
    finish(&config);
}

Test(config, dropped_words_leave_no_list_behind)
{
    struct config config;

    start(&config);
    takes(&config, "noatime,atime,sync,async");
    cr_assert(config.mount_options == NULL);
    finish(&config);
}

Test(config, a_file_sets_what_options_set)
{
    struct config config;
    char path[512];

    start(&config);
    put("a.tar", "a", 1);
    put("b;#.tar", "b", 1);
    put("c ;d.tar", "c", 1);
    cr_assert_eq(read_text(&config, "\xEF\xBB\xBF; a comment\r\n"
                                    "[shufflefs] # ours\r\n"
                                    "\r\n"
                                    "   \r\n"
                                    "shards = a.tar ; the first\r\n"
                                    "  # indented\r\n"
                                    "  world: 8\r\n"
                                    "\tseed=3\r\n"
                                    "strict = yes\r\n"
                                    "nodev = yes\r\n"
                                    "log = logs/x.log\r\n"
                                    "shards = b;#.tar\r\n"
                                    "shards = c \\;d.tar"),
                 0, "%s", said);
    cr_assert_eq(config.world, 8U);
    cr_assert_eq(config.order.seed, 3U);
    cr_assert(config.strict);
    cr_assert_str_eq(config.mount_options, "nodev");
    snprintf(path, sizeof path, "%s/logs/x.log", folder);
    cr_assert_str_eq(config.log, path);
    cr_assert_eq(config.shards.count, 3U);
    snprintf(path, sizeof path, "%s/a.tar", folder);
    cr_assert_str_eq(config.shards.paths[0], path);
    cr_assert(strstr(config.shards.paths[1], "/b;#.tar") != NULL);
    cr_assert(strstr(config.shards.paths[2], "/c ;d.tar") != NULL);
    finish(&config);
}

Test(config, a_file_needs_no_section)
{
    struct config config;

    start(&config);
    cr_assert_eq(read_text(&config, "world = 3\n"), 0, "%s", said);
    cr_assert_eq(config.world, 3U);
    cr_assert_eq(read_text(&config, ""), 0, "%s", said);
    cr_assert_eq(read_text(&config, "\xEF\xBB\xBF"), 0, "%s", said);
    cr_assert_eq(read_text(&config, "\xEF\xBB\xBF\n\n"), 0, "%s", said);
    cr_assert_eq(config.world, 1U);
    finish(&config);
}

Test(config, an_absolute_path_gives_its_own_folder)
{
    struct config config;
    char path[512];

    start(&config);
    put("a.tar", "a", 1);
    put("x.conf", "shards = a.tar\n", 15);
    snprintf(path, sizeof path, "%s/x.conf", folder);
    cr_assert_eq(config_read(&config, path, "/"), 0, "%s", said);
    cr_assert_eq(config.shards.count, 1U);
    finish(&config);
}

Test(config, faults_name_file_and_line)
{
    struct config config;

    start(&config);
    file_fails("world = 1\n\nsede = 3\n", "mount.conf:3: sede: there is no such option; did you");
    file_fails("world = x\nseed = y\n", "mount.conf:1: world=x: takes a decimal number");
    file_fails("# c\nseed = 7 # mine\n", "mount.conf:2: seed=7 # mine: takes a decimal number");
    file_fails("\nshards = none.tar\n", "mount.conf:2: /");
    file_fails("\nshards = none.tar\n", "none.tar does not exist");
    file_fails("shards =\n", "mount.conf:1: a shard's name is empty");
    file_fails("world = 1\nstrict\nsede = 1\n", "mount.conf:2: this line has no =");
    file_fails("world = 1\nstrict", "mount.conf:2: this line has no =");
    file_fails("= 1\n", "mount.conf:1: this line has no");
    file_fails("fsname = x\n", "mount.conf:1: fsname=x: the program sets it");
    finish(&config);
}

Test(config, only_one_section_is_known)
{
    struct config config;

    start(&config);
    file_fails("[shuflefs]\nworld = 1\n", "mount.conf:1: the only section is [shufflefs]");
    file_fails("\n[shufflefs\n", "mount.conf:2: the only section is");
    file_fails("[shufflefs] world = 2\n", "mount.conf:1: the only section is");
    file_fails("[other]\n", "mount.conf:1: the only section is");
    finish(&config);
}

Test(config, a_key_twice_in_a_file_is_refused_with_both_lines)
{
    struct config config;

    start(&config);
    file_fails("world = 1\nseed = 1\nworld = 1\n", "mount.conf:3: world: line 1 has set world");
    file_fails("drop_last = no\nremainder = keep\n", "mount.conf:2: remainder: line 1 has set");
    cr_assert_eq(read_text(&config, "world = 2\nseed = 2\n"), 0, "%s", said);
    finish(&config);
}

Test(config, a_long_line_is_never_cut)
{
    struct config config;
    char text[800] = "# ";

    start(&config);
    memset(text + 2, 'c', 500);
    strcpy(text + 400, "\nlog = /");
    size_t length = strlen(text);
    memset(text + length, 'x', 191);
    text[length + 191] = '\0';
    cr_assert_eq(read_text(&config, text), 0, "%s", said);
    cr_assert_eq(strlen(config.log), 192U);
    text[length + 191] = 'y';
    text[length + 192] = '\0';
    file_fails(text, "mount.conf:2: a line of more than 198 bytes: long patterns go to a list");
    finish(&config);
}

Test(config, what_is_no_ini_file_is_refused)
{
    struct config config;

    start(&config);
    put("zero", "world\0=1\n", 9);
    cr_assert_eq(config_read(&config, "zero", folder), -EINVAL);
    cr_assert(strstr(said, "zero:1: a NUL byte") != NULL, "%s", said);
    cr_assert_eq(config_read(&config, "none", folder), -ENOENT);
    cr_assert(strstr(said, "none: No such file") != NULL, "%s", said);
    cr_assert_eq(config_read(&config, ".", folder), -EISDIR);
    cr_assert(strstr(said, "Is a directory") != NULL, "%s", said);
    finish(&config);
}

Test(config, closing_twice_is_harmless)
{
    struct config config;

    start(&config);
    takes(&config, "log=/a,fields=jpg,nodev");
    config_close(&config);
    config_close(&config);
    finish(&config);
}
