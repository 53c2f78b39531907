/* Labels out of shards' names and json members, classes' names, and labels that are saved. */
#include "unit.h"

#include "opened.h"

#include "../../core/json_labels.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct opened on;

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void labels_are(size_t count, const int64_t *labels)
{
    cr_assert_eq(on.set.index->sample_count, count);
    for (size_t i = 0; i < count; i++)
        cr_assert(on.set.labels.of[i] == labels[i], "sample %d", (int)i);
}

#define LABELS_ARE(...)                                                                            \
    labels_are(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]){__VA_ARGS__})
#define NONE LABELS_MISSING

Test(labels, a_shards_whole_name_without_its_ending_is_the_class)
{
    char options[128];

    opened_begin(&on);
    folder_add_tar(&on.folder, "n02.tar", "ustar", LIST("a.jpg", "1", "b.jpg", "1"));
    folder_add_tar(&on.folder, "n01-0007.v2.tar", "ustar", LIST("x/a.jpg", "2", "x/a.cls", "9"));
    folder_add_tar(&on.folder, "bare", "ustar", LIST("a.jpg", "3"));
    folder_add_tar(&on.folder, "n10.tgz", "gzip", LIST("a.jpg", "4"));
    snprintf(options, sizeof options, "label=shard,unpacked=%s", on.folder.path);
    cr_assert_eq(opened_open(&on, options), 0);
    cr_assert_str_eq(on.set.labels.source_text, "shard");
    cr_assert(on.set.labels.named);
    LABELS_ARE(2, 2, 1, 0, 3);
    cr_assert_eq(on.set.labels.class_count, 4);
    cr_assert_str_eq(labels_class_name(&on.set.labels, 0), "bare");
    cr_assert_str_eq(labels_class_name(&on.set.labels, 1), "n01-0007.v2");
    cr_assert_str_eq(labels_class_name(&on.set.labels, 2), "n02");
    cr_assert_str_eq(labels_class_name(&on.set.labels, 3), "n10");
    cr_assert(on.set.makes_cls);
    opened_end(&on);
}

Test(labels, numbers_as_shards_names_are_the_labels_also_past_empty_shards_and_left_out_samples)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "07.tar", "ustar", LIST("a.jpg", "1", "b.txt", "1"));
    folder_add_tar(&on.folder, "5.tar", "ustar", LIST("._a", "1"));
    folder_add_tar(&on.folder, "6.tar", "ustar", LIST("b.txt", "1"));
    folder_add_tar(&on.folder, "3.tar", "ustar", LIST("c.jpg", "1", "d.jpg", "1"));
    cr_assert_eq(opened_open(&on, "label=shard,fields=jpg"), 0);
    LABELS_ARE(7, 3, 3);
    cr_assert_eq(on.set.labels.least, 3);
    cr_assert_eq(on.set.labels.most, 7);
    cr_assert(labels_class_name(&on.set.labels, 0) == NULL);
    opened_end(&on);
}

/* The text that a member gives; "?WHY" where it is no label. */
static const char *text_of(const char *json, const char *key)
{
    static char text[512];
    char found[JSON_LABELS_TEXT_MAX + 1];
    const char *why;

    json_labels_text(json, strlen(json), key, found);
    why = json_labels_why_not(found);
    snprintf(text, sizeof text, "%s%s", why ? "?" : "", why ? why : found);
    return text;
}

Test(labels, json_values_that_are_integers_or_strings_are_classes_and_others_say_why_not)
{
    static const struct {
        const char *json, *key, *text;
    } cases[] = {
        {"{\"label\": 7}", "label", "7"},
        {" {\"label\":\n-7 }\n", "label", "-7"},
        {"{\"label\": \"a cat\"}", "label", "a cat"},
        {"{\"label\": \"\\u00e9t\\u00e9\"}", "label", "\xc3\xa9t\xc3\xa9"},
        {"{\"a\": {\"b\": {\"c\": 3}}}", "a.b.c", "3"},
        {"{\"a.b\": 3}", "a.b", "?its json has no such key"},
        {"{\"a\": 5}", "a.b", "?its json has no such key"},
        {"{\"a\": [5]}", "a.0", "?its json has no such key"},
        {"{\"a\": {\"b\": 1}}", "a", "?the value is an object"},
        {"{\"a\": 1.0}", "a", "?the value is a number with a fraction"},
        {"{\"a\": true}", "a", "?the value is true or false"},
        {"{\"a\": false}", "a", "?the value is true or false"},
        {"{\"a\": null}", "a", "?the value is null"},
        {"{\"a\": []}", "a", "?the value is an array"},
        {"{\"a\": \"\"}", "a", "?the value is an empty string"},
        {"{\"a\": \"x\\u0000y\"}", "a", "?the value has a NUL in it"},
        {"{\"b\": \"x\\u0000y\", \"a\": 1}", "a", "1"},
        {"{\"a\": 1", "a", "?its json is broken"},
        {"{\"a\": 1} x", "a", "?its json is broken"},
        {"{\"a\": NaN}", "a", "?its json is broken"},
        {"", "a", "?its json is broken"},
        {"\xff\xfe", "a", "?its json is broken"},
        {"[1, 2]", "a", "?its json is no object"},
        {"7", "a", "?its json is no object"},
        /* Hashes of 64 bits without sign stand in many data sets. */
        {"{\"hash\": 18446744073709551615, \"a\": 1000}", "a", "1000"},
        {"{\"hash\": 18446744073709551615, \"a\": 0.5}", "a",
         "?the value is a number with a fraction"},
        {"{\"a\": 18446744073709551615}", "a", "?the value is a number with a fraction"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert(strcmp(text_of(cases[i].json, cases[i].key), cases[i].text) == 0,
                  "%s: %s, not %s", cases[i].json, text_of(cases[i].json, cases[i].key),
                  cases[i].text);
}

Test(labels, a_json_text_of_255_bytes_is_a_class_and_a_longer_one_is_none)
{
    char json[400], key[256];

    memset(key, 'k', 255);
    key[255] = '\0';
    snprintf(json, sizeof json, "{\"a\": \"%s\"}", key);
    cr_assert_str_eq(text_of(json, "a"), key);
    snprintf(json, sizeof json, "{\"a\": \"%sx\"}", key);
    cr_assert_str_eq(text_of(json, "a"), "?the value is longer than 255 bytes");
    snprintf(json, sizeof json, "{\"%s\": 1}", key);
    cr_assert_str_eq(text_of(json, key), "1");
}

Test(labels, json_integers_are_labels_and_do_not_need_to_appear)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("a.jpg", "1", "a.json", "{\"m\": {\"l\": 12}}", "b.json",
                        "{\"m\": {\"l\": 4}}", "b.jpg", "1", "x.json", "{}"));
    folder_add_tar(&on.folder, "b.tar", "ustar",
                   LIST("c.cls", "1", "c.jpg", "1", "c.json", "{\"m\": {\"l\": \"5\"}}"));
    cr_assert_eq(opened_open(&on, "label=json:m.l,fields=jpg:cls"), 0);
    LABELS_ARE(12, 4, 5);
    cr_assert(!on.set.labels.named);
    cr_assert_str_eq(on.set.labels.source_text, "json:m.l");
    cr_assert_eq(on.set.index->problems[INDEX_NO_LABEL], 0);
    opened_end(&on);
}

Test(labels, json_strings_are_numbered_and_those_without_are_counted_and_the_first_one_named)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("a.json", "{\"l\": \"zebra\"}", "d/b.json", "{\"l\": 1.5}", "c.jpg", "1"));
    folder_add_tar(
        &on.folder, "b.tar", "ustar",
        LIST("a.json", "{\"l\": \"ant\"}", "b.json", "{\"l\": \"zebra\"}", "c.json", "{"));
    cr_assert_eq(opened_open(&on, "label=json:l"), 0);
    LABELS_ARE(1, NONE, NONE, 0, 1, NONE);
    cr_assert_eq(on.set.index->problems[INDEX_NO_LABEL], 3);
    cr_assert(report_watch("label=json:l: 3 of 6 samples have no label") != NULL);
    cr_assert(report_watch("the first is d/b in ") != NULL);
    cr_assert(report_watch("a.tar: the value is a number with a fraction") != NULL);
    cr_assert_str_eq(labels_class_name(&on.set.labels, 1), "zebra");
    opened_end(&on);
}

Test(labels, a_key_that_no_json_has_is_an_error_that_says_so)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar", LIST("a.json", "{\"l\": 1}", "b.json", "{}"));
    cr_assert_eq(opened_open(&on, "label=json:meta.l"), -ENODATA);
    cr_assert(report_watch("label=json:meta.l: no sample has one; the first is a in ") != NULL);
    cr_assert(report_watch("its json has no such key") != NULL);
    opened_end(&on);
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar", LIST("a.jpg", "1", "b.jpg", "1"));
    cr_assert_eq(opened_open(&on, "label=json:l"), -ENODATA);
    cr_assert(report_watch("it has no json member") != NULL);
    opened_end(&on);
}

static void fingerprint_of(const char *options, char to[DATASET_FINGERPRINT_BYTES])
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar", LIST("a.json", "{\"l\": 1, \"m\": 1}"));
    cr_assert_eq(opened_open(&on, options), 0);
    memcpy(to, on.set.fingerprint, DATASET_FINGERPRINT_BYTES);
    opened_end(&on);
}

Test(labels, the_fingerprint_covers_where_they_come_from_and_the_json_key)
{
    static const char *const options[] = {"label=none", "label=shard", "label=json:l",
                                          "label=json:m"};
    char prints[4][DATASET_FINGERPRINT_BYTES];

    for (size_t i = 0; i < 4; i++)
        fingerprint_of(options[i], prints[i]);
    for (size_t i = 0; i < 4; i++)
        for (size_t j = 0; j < i; j++) {
            cr_assert(strncmp(prints[i], prints[j], 16) == 0, "the data is the same");
            cr_assert(strcmp(prints[i], prints[j]) != 0, "%s %s", options[i], options[j]);
        }
}

/* Large ones, far from each other, close together, and more than one thread takes at a time. */
Test(labels, json_members_are_read_wherever_they_stand)
{
    enum { COUNT = 9000, LARGE = 1500000 };
    const char **members = calloc(4 * COUNT + 1, sizeof *members);
    char *large = malloc(LARGE + 64), *wide = malloc(40000);
    int64_t expected[COUNT];

    opened_begin(&on);
    memset(large, ' ', LARGE);
    memset(wide, 'w', 39999);
    wide[39999] = '\0';
    snprintf(large + LARGE, 64, "{\"l\": 123456}");
    for (int i = 0; i < COUNT; i++) {
        char *name, *json, *text;
        cr_assert(asprintf(&name, "%d.jpg", i) > 0 && asprintf(&json, "%d.json", i) > 0 &&
                  asprintf(&text, "{\"l\": %d}", i * 7919 % 10007) > 0);
        members[4 * i] = name;
        members[4 * i + 1] = i % 50 == 3 ? wide : "1";
        members[4 * i + 2] = json;
        members[4 * i + 3] = i == 777 || i == 8999 ? large : text;
        expected[i] = i == 777 || i == 8999 ? 123456 : i * 7919 % 10007;
        if (members[4 * i + 3] == large)
            free(text);
    }
    folder_add_tar(&on.folder, "a.tar", "ustar", members);
    cr_assert_eq(opened_open(&on, "label=json:l"), 0);
    labels_are(COUNT, expected);
    for (int i = 0; i < 4 * COUNT; i++)
        if (i % 4 != 1 && members[i] != large)
            free((char *)members[i]);
    free(members);
    free(large);
    free(wide);
    opened_end(&on);
}

/* The one file of labels in the folder. */
static const char *saved_labels(void)
{
    static char path[256];
    char pattern[128];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/set.index.*.labels*", on.folder.path);
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
    cr_assert_eq(found.gl_pathc, 1);
    snprintf(path, sizeof path, "%s", found.gl_pathv[0]);
    globfree(&found);
    return path;
}

static void reopen(const char *options)
{
    char with[256];

    snprintf(with, sizeof with, "index=%s/set.index,%s", on.folder.path, options);
    dataset_close(&on.set);
    cr_assert_eq(opened_open(&on, with), 0);
}

static ino_t inode_of(const char *path)
{
    struct stat status;

    cr_assert_eq(stat(path, &status), 0);
    return status.st_ino;
}

static void begin_saved(void)
{
    opened_begin(&on);
    folder_add_tar(
        &on.folder, "a.tar", "ustar",
        LIST("a.json", "{\"l\": 4, \"m\": 1}", "b.json", "{\"l\": 6, \"m\": 2}", "c.jpg", "1"));
    reopen("label=json:l");
    LABELS_ARE(4, 6, NONE);
}

static void overwrite(const char *path, off_t at, const char *bytes, size_t size)
{
    int fd;

    cr_assert_eq(chmod(path, 0644), 0);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert(fd >= 0);
    cr_assert_eq(pwrite(fd, bytes, size, at), (ssize_t)size);
    close(fd);
}

/* Labels that stand in the saved file alone show where they came from. */
Test(labels, json_labels_are_saved_beside_the_index_and_not_read_again)
{
    ino_t before;

    begin_saved();
    before = inode_of(saved_labels());
    reopen("label=json:l");
    LABELS_ARE(4, 6, NONE);
    cr_assert_eq(inode_of(saved_labels()), before);
    cr_assert(report_watch("the first is c in ") != NULL);
    opened_end(&on);
}

Test(labels, saved_ones_of_another_key_or_shard_are_not_taken)
{
    char first[256];

    begin_saved();
    snprintf(first, sizeof first, "%s", saved_labels());
    cr_assert_eq(unlink(first), 0);
    reopen("label=json:m");
    LABELS_ARE(1, 2, NONE);
    /* Under the name of the other key it is still no label of that. */
    cr_assert_eq(rename(saved_labels(), first), 0);
    reopen("label=json:l");
    LABELS_ARE(4, 6, NONE);
    cr_assert_eq(unlink(on.folder.shards.paths[0]), 0);
    shards_close(&on.folder.shards);
    folder_add_tar(
        &on.folder, "a.tar", "ustar",
        LIST("a.json", "{\"l\": 9, \"m\": 1}", "b.json", "{\"l\": 6, \"m\": 2}", "c.jpg", "1"));
    reopen("label=json:l");
    LABELS_ARE(9, 6, NONE);
    opened_end(&on);
}

Test(labels, a_damaged_file_of_labels_is_made_anew)
{
    struct stat status;

    begin_saved();
    cr_assert_eq(stat(saved_labels(), &status), 0);
    for (off_t at = 0; at < status.st_size; at++) {
        char byte;
        int fd = open(saved_labels(), O_RDONLY | O_CLOEXEC);
        cr_assert_eq(pread(fd, &byte, 1, at), 1);
        close(fd);
        byte ^= 1;
        if (at < 16)
            continue;
        overwrite(saved_labels(), at, &byte, 1);
        reopen("label=json:l");
        LABELS_ARE(4, 6, NONE);
    }
    cr_assert(report_watch("damaged, made anew") != NULL);
    for (off_t length = 0; length < status.st_size; length += length < 64 ? 64 : 1) {
        cr_assert_eq(chmod(saved_labels(), 0644), 0);
        cr_assert_eq(truncate(saved_labels(), length), 0);
        reopen("label=json:l");
        LABELS_ARE(4, 6, NONE);
        cr_assert_eq(stat(saved_labels(), &status), 0);
    }
    opened_end(&on);
}

Test(labels, somebody_elses_file_at_their_place_stays)
{
    char text[64] = "";
    int fd;

    begin_saved();
    overwrite(saved_labels(), 0, "notes, not labels", 17);
    reopen("label=json:l");
    LABELS_ARE(4, 6, NONE);
    cr_assert(report_watch("not a file of this program's, so it is not replaced") != NULL);
    fd = open(saved_labels(), O_RDONLY | O_CLOEXEC);
    cr_assert_eq(pread(fd, text, 17, 0), 17);
    close(fd);
    cr_assert_str_eq(text, "notes, not labels");
    opened_end(&on);
}
