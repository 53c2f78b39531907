/* The index: WebDataset's samples, offsets that hold, and every odd member counted and never
 * served. */
#include "unit.h"

#include "shard.h"

#include "../../core/index.h"
#include "../../core/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct shard_folder folder;
static struct index *set;

static void begin(void)
{
    report_watch(NULL);
    folder_make(&folder);
}

static int open_index(void)
{
    return index_open(&set, &folder.shards, 0, "none");
}

static void end(void)
{
    index_close(set);
    set = NULL;
    folder_remove(&folder);
    report_stop();
}

/* "KEY: field field" of a sample. */
static const char *describe(uint64_t sample)
{
    static char text[1024];
    int used = snprintf(text, sizeof text, "%s:", index_key(set, sample));

    for (uint64_t m = set->first[sample]; m < set->first[sample + 1]; m++)
        used += snprintf(text + used, sizeof text - (size_t)used, " %s",
                         set->fields[set->members[m].field]);
    return text;
}

static void expect_samples(const char *const *expected)
{
    uint64_t s = 0;

    for (; expected[s]; s++) {
        cr_assert(s < set->sample_count, "sample %s is missing", expected[s]);
        cr_assert_str_eq(describe(s), expected[s]);
    }
    cr_assert_eq(set->sample_count, s);
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(index, groups_adjacent_members_by_key_up_to_the_first_dot)
{
    begin();
    folder_add_tar(&folder, "a.tar", "ustar",
                   LIST("x.jpg", "1", "x.seg.png", "2", "d/v1.0/y.jpg", "3", "d/v1.0/y.CLS", "4",
                        "./n/z.jpg", "5", "z.jpg", "6", "x.jpg", "7"));
    cr_assert_eq(open_index(), 0);
    expect_samples(LIST("x: jpg seg.png", "d/v1.0/y: cls jpg", "n/z: jpg", "z: jpg", "x: jpg"));
    end();
}

Test(index, a_shard_border_ends_a_sample)
{
    begin();
    folder_add_tar(&folder, "a.tar", "ustar", LIST("x.jpg", "1"));
    folder_add_tar(&folder, "b.tar", "ustar", LIST("x.cls", "1"));
    cr_assert_eq(open_index(), 0);
    expect_samples(LIST("x: jpg", "x: cls"));
    end();
}

Test(index, offsets_lead_to_the_bytes_in_every_format)
{
    static const char *const formats[] = {"ustar", "pax", "gnutar", "v7tar"};
    char deep[400];

    snprintf(deep, sizeof deep, "%0250d/key.jpg", 7);
    for (size_t f = 0; f < 4; f++) {
        struct reader *reader;
        char bytes[16];
        begin();
        folder_add_tar(&folder, "a.tar", formats[f],
                       LIST("a.jpg", "first", "a.cls", "12", "empty.txt", "", "b.jpg", "second"));
        if (f == 1 || f == 2)
            folder_add_tar(&folder, "b.tar", formats[f], LIST(deep, "deep one"));
        cr_assert_eq(open_index(), 0);
        cr_assert_eq(reader_open(&reader, set, 0, READER_DIRECT_AUTO), 0);
        cr_assert_eq(
            reader_read(reader, (uint64_t)index_find_field(set, 0, "jpg", 3), bytes, 16, 0), 5);
        cr_assert(memcmp(bytes, "first", 5) == 0);
        cr_assert_eq(
            reader_read(reader, (uint64_t)index_find_field(set, 1, "txt", 3), bytes, 16, 0), 0);
        cr_assert_eq(reader_read(reader, (uint64_t)index_find_field(set, 2, "jpg", 3), bytes, 3, 3),
                     3);
        cr_assert(memcmp(bytes, "ond", 3) == 0);
        if (set->sample_count > 3) {
            cr_assert_eq(
                reader_read(reader, (uint64_t)index_find_field(set, 3, "jpg", 3), bytes, 16, 0), 8);
            cr_assert(memcmp(bytes, "deep one", 8) == 0);
        }
        reader_close(reader);
        end();
    }
}

Test(index, odd_members_are_counted_and_do_not_split_a_sample)
{
    begin();
    folder_add_tar(&folder, "a.tar", "pax",
                   LIST("d/", "", "d/a.jpg", "1", "d/._a.jpg", "litter", "d/__meta__", "x",
                        "d/a.lnk", "->a.jpg", "d/a.hard", "=>d/a.jpg", "d/a.fifo", "|", "d/a.big",
                        "~", "d/plain", "x", "d/.hidden", "x", "d/ends.", "x", "d/a.jpg", "again",
                        "d/a.cls", "", "../up.jpg", "1", "/abs.jpg", "1"));
    cr_assert_eq(open_index(), 0);
    expect_samples(LIST("d/a: cls hard jpg", "up: jpg", "abs: jpg"));
    cr_assert_eq(set->problems[INDEX_LITTER], 1);
    cr_assert_eq(set->problems[INDEX_METADATA], 1);
    cr_assert_eq(set->problems[INDEX_LINK], 1);
    cr_assert_eq(set->problems[INDEX_NOT_A_FILE], 1);
    cr_assert_eq(set->problems[INDEX_SPARSE], 1);
    cr_assert_eq(set->problems[INDEX_NO_EXTENSION], 3);
    cr_assert_eq(set->problems[INDEX_DUPLICATE_FIELD], 1);
    cr_assert_eq(set->problems[INDEX_EMPTY], 1);
    cr_assert_eq(set->problems[INDEX_UNSAFE_PATH], 2);
    cr_assert(report_watch("a.tar: offset") != NULL);
    end();
}

Test(index, shards_that_are_no_tar_are_left_out_by_name)
{
    char noise[4096];

    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (char)(i * 7919 >> 3);
    begin();
    folder_add_tar(&folder, "good.tar", "ustar", LIST("a.jpg", "1"));
    folder_add_tar(&folder, "gzip.tar", "gzip", LIST("z.jpg", "1"));
    folder_add_bytes(&folder, "noise.tar", noise, sizeof noise);
    folder_add_bytes(&folder, "zero.tar", "", 0);
    cr_assert_eq(open_index(), 0);
    expect_samples(LIST("a: jpg"));
    cr_assert_eq(set->problems[INDEX_COMPRESSED], 1);
    cr_assert_eq(set->problems[INDEX_NOT_A_TAR], 2);
    cr_assert(report_watch("gzip.tar: compressed with gzip") != NULL);
    cr_assert(report_watch("noise.tar: not a tar") != NULL);
    end();
}

/* Cuts good.tar to `size` bytes, or writes over `at`, as bad.tar. */
static void damage(size_t keep, size_t at, const char *bytes, size_t length)
{
    size_t size;
    char *tar = folder_read(&folder, "good.tar", &size);

    cr_assert(keep <= size && at + length <= size);
    memcpy(tar + at, bytes, length);
    folder_add_bytes(&folder, "bad.tar", tar, keep);
    free(tar);
}

Test(index, a_damaged_shard_gives_what_stands_before_the_damage)
{
    static const struct {
        size_t keep, at;
        const char *bytes;
        size_t length;
        enum index_problem problem;
        uint64_t samples;
    } cases[] = {
        {2 * 512 + 512 + 2, 0, "", 0, INDEX_TRUNCATED, 1},       /* within b.jpg's data */
        {2 * 512 + 100, 0, "", 0, INDEX_TRUNCATED, 1},           /* within b.jpg's header */
        {4 * 512, 0, "", 0, INDEX_NO_TRAILER, 2},                /* no end blocks */
        {3 * 512 + 40, 0, "", 0, INDEX_NO_TRAILER, 2},           /* b.jpg's padding is cut */
        {5 * 512, 0, "", 0, INDEX_NO_TRAILER, 2},                /* one, and nothing more */
        {6 * 512, 2 * 512, "Q", 1, INDEX_CORRUPT_HEADER, 1},     /* b.jpg's name is wrong */
        {6 * 512, 5 * 512, "more", 4, INDEX_LONE_ZERO_BLOCK, 2}, /* the second end block is none */
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin();
        folder_add_tar(&folder, "good.tar", "ustar", LIST("a.jpg", "1", "b.jpg", "2345"));
        damage(cases[i].keep, cases[i].at, cases[i].bytes, cases[i].length);
        /* The good one would be refused as a copy where the damage is none to its members. */
        shards_close(&folder.shards);
        folder.shards = (struct shard_list){0};
        cr_assert_eq(shards_add(&folder.shards, "bad.tar", folder.path), 0);
        cr_assert_eq(open_index(), 0);
        cr_assert_eq(set->sample_count, cases[i].samples, "case %zu", i);
        cr_assert_eq(set->problems[cases[i].problem], 1, "case %zu", i);
        end();
    }
}

/* libarchive takes such a size for 0, and the data that follows for headers. */
Test(index, a_size_that_is_no_number_is_a_corrupt_header)
{
    static const char *const sizes[] = {"zzzzzzzzzzz", "           "};

    for (size_t i = 0; i < 2; i++) {
        char *tar;
        size_t size;
        unsigned sum = 0;
        begin();
        folder_add_tar(&folder, "good.tar", "ustar", LIST("a.jpg", "1", "b.jpg", "2345"));
        tar = folder_read(&folder, "good.tar", &size);
        memcpy(tar + 1024 + 124, sizes[i], 11);
        memset(tar + 1024 + 148, ' ', 8);
        for (int k = 0; k < 512; k++)
            sum += (unsigned char)tar[1024 + k];
        snprintf(tar + 1024 + 148, 7, "%06o", sum);
        tar[1024 + 155] = ' ';
        folder_add_bytes(&folder, "good.tar", tar, size);
        free(tar);
        cr_assert_eq(open_index(), 0);
        cr_assert_eq(set->sample_count, 1);
        cr_assert_eq(set->problems[INDEX_CORRUPT_HEADER], 1);
        cr_assert_eq(set->problems[INDEX_EMPTY], 0);
        end();
    }
}

Test(index, what_follows_the_end_is_reported_and_not_read)
{
    size_t size;
    char *tar, twice[16384];

    begin();
    folder_add_tar(&folder, "good.tar", "ustar", LIST("a.jpg", "1"));
    tar = folder_read(&folder, "good.tar", &size);
    cr_assert(size * 2 <= sizeof twice);
    memcpy(twice, tar, size);
    memcpy(twice + size, tar, size);
    free(tar);
    folder_add_bytes(&folder, "good.tar", twice, size * 2);
    cr_assert_eq(open_index(), 0);
    cr_assert_eq(set->sample_count, 1);
    cr_assert_eq(set->problems[INDEX_TRAILING_DATA], 1);
    end();
}

/* POSIX: two zero blocks end an archive, one does not. */
Test(index, reads_on_behind_lone_zero_blocks)
{
    static const char zeros[3 * 512];
    size_t size;
    char *tar, apart[16384];

    begin();
    folder_add_tar(&folder, "good.tar", "ustar", LIST("a.jpg", "1", "b.jpg", "2", "b.cls", "3"));
    tar = folder_read(&folder, "good.tar", &size);
    cr_assert(size >= 6 * 512 && size + 2 * 512 <= sizeof apart);
    memset(apart, 0, sizeof apart);
    memcpy(apart + 512, tar, 2 * 512);
    memcpy(apart + 4 * 512, tar + 2 * 512, 4 * 512);
    free(tar);
    folder_add_bytes(&folder, "good.tar", apart, 8 * 512 + sizeof zeros);
    cr_assert_eq(open_index(), 0);
    expect_samples(LIST("a: jpg", "b: cls jpg"));
    cr_assert_eq(set->problems[INDEX_LONE_ZERO_BLOCK], 1);
    cr_assert_eq(set->members[1].offset, 7 * 512);
    cr_assert_eq(set->members[2].offset, 5 * 512);
    cr_assert(report_watch("offset 0: lone-zero-block") != NULL);
    end();
}

Test(index, a_key_met_again_later_is_one_more_sample_and_told_of)
{
    begin();
    folder_add_tar(
        &folder, "a.tar", "ustar",
        LIST("b.jpg", "1", "a.jpg", "2", "b.cls", "3", "c.jpg", "4", "a.cls", "5", "b.jpg", "6"));
    /* A key of another shard is none, nor is what stands side by side. */
    folder_add_tar(&folder, "b.tar", "ustar", LIST("a.jpg", "7", "a.cls", "8", "b.jpg", "9"));
    cr_assert_eq(open_index(), 0);
    expect_samples(
        LIST("b: jpg", "a: jpg", "b: cls", "c: jpg", "a: cls", "b: jpg", "a: cls jpg", "b: jpg"));
    cr_assert_eq(set->problems[INDEX_SPLIT_SAMPLE], 3);
    cr_assert(report_watch("offset 2560: split-sample (member 'b'), and 2 more") != NULL);
    end();
}

/* What an observer was told, a line each: shard, what, member. Tars here have one shard at a time,
 * so that lines come in order. */
static char told[1024];

static void tell_problem(void *context, size_t shard, enum index_problem problem,
                         const char *member, uint64_t offset)
{
    char *text = context;
    size_t used = strlen(text);

    snprintf(text + used, sizeof told - used, "%zu %s %s %llu\n", shard,
             index_problem_name(problem), member ? member : "-", (unsigned long long)offset);
}

static void tell_member(void *context, size_t shard, uint64_t sample, const char *member,
                        const struct index_member *place)
{
    char *text = context;
    size_t used = strlen(text);

    snprintf(text + used, sizeof told - used, "%zu %llu %s %llu\n", shard,
             (unsigned long long)sample, member, (unsigned long long)place->offset);
}

static void tell_end(void *context, size_t shard)
{
    char *text = context;
    size_t used = strlen(text);

    snprintf(text + used, sizeof told - used, "%zu walked\n", shard);
}

Test(index, an_observer_is_told_of_each_problem_and_member_once_though_hard_links_begin_anew)
{
    const struct index_observer observer = {told, tell_problem, tell_member, tell_end};

    begin();
    told[0] = '\0';
    folder_add_tar(&folder, "a.tar", "ustar",
                   LIST("./b.JPG", "1", "._b.cls", "2", "a.jpg", "", "b.cls", "=>./b.JPG", "README",
                        "3", "c.jpg", "=>none"));
    cr_assert_eq(index_open_observed(&set, &folder.shards, 0, &observer), 0);
    cr_assert_str_eq(told, "0 0 ./b.JPG 512\n"
                           "0 litter ._b.cls 1536\n"
                           "0 empty a.jpg 2560\n"
                           "0 1 a.jpg 2560\n"
                           "0 2 b.cls 512\n"
                           "0 no-extension README 3584\n"
                           "0 link c.jpg 4608\n"
                           "0 split-sample b.cls 512\n"
                           "0 walked\n");
    /* The lines are the observer's to write. */
    cr_assert(report_watch("a.tar") == NULL);
    end();
}

Test(index, a_hard_link_has_the_bytes_of_the_earlier_member)
{
    begin();
    folder_add_tar(&folder, "a.tar", "ustar",
                   LIST("./a.jpg", "first", "a.cls", "7", "b.jpg", "=>a.jpg", "b.cls", "=>./a.cls",
                        "c.jpg", "=>b.jpg", "d.jpg", "=>e.jpg", "e.jpg", "later", "e.lnk",
                        "->a.jpg", "f.jpg", "=>e.lnk", "g.jpg", "=>none.jpg"));
    cr_assert_eq(open_index(), 0);
    expect_samples(LIST("a: cls jpg", "b: cls jpg", "c: jpg", "e: jpg"));
    cr_assert_eq(set->problems[INDEX_LINK], 4);
    /* Members stand by field: a.cls, a.jpg, b.cls, b.jpg, c.jpg. */
    cr_assert_eq(set->members[2].offset, set->members[0].offset);
    cr_assert_eq(set->members[3].offset, set->members[1].offset);
    cr_assert_eq(set->members[4].offset, set->members[1].offset);
    cr_assert_eq(set->members[4].size, 5);
    cr_assert_str_eq(set->class_texts + 2, "7");
    end();
}

Test(index, refuses_a_copy_of_a_shard_under_another_name)
{
    size_t size;
    char *tar;

    begin();
    folder_add_tar(&folder, "one.tar", "ustar", LIST("a.jpg", "1"));
    tar = folder_read(&folder, "one.tar", &size);
    folder_add_bytes(&folder, "two.tar", tar, size);
    free(tar);
    cr_assert_eq(open_index(), -EINVAL);
    cr_assert(report_watch("two.tar is a copy of") != NULL ||
              report_watch("one.tar is a copy of") != NULL);
    end();
}

/* Same names and sizes, other bytes: synthetic sets look like that. */
Test(index, takes_shards_that_differ_in_their_bytes_alone)
{
    begin();
    folder_add_tar(&folder, "one.tar", "ustar", LIST("a.jpg", "1"));
    folder_add_tar(&folder, "two.tar", "ustar", LIST("a.jpg", "2"));
    cr_assert_eq(open_index(), 0);
    cr_assert_eq(set->sample_count, 2);
    end();
}

Test(index, refuses_a_data_set_without_samples)
{
    begin();
    folder_add_tar(&folder, "a.tar", "ustar", LIST("no-dot", "1"));
    cr_assert_eq(open_index(), -ENODATA);
    cr_assert(report_watch("no sample") != NULL);
    end();
}

Test(index, refuses_a_shard_that_went_away)
{
    char path[400];

    begin();
    folder_add_tar(&folder, "a.tar", "ustar", LIST("a.jpg", "1"));
    snprintf(path, sizeof path, "%s/a.tar", folder.path);
    unlink(path);
    cr_assert_eq(open_index(), -ENOENT);
    cr_assert(report_watch("a.tar") != NULL);
    end();
}

Test(index, finds_shard_and_sample_of_every_member)
{
    begin();
    folder_add_tar(&folder, "a.tar", "ustar", LIST("a.jpg", "1", "a.cls", "1", "b.jpg", "1"));
    folder_add_tar(&folder, "empty.tar", "ustar", LIST("no-dot", "1"));
    folder_add_tar(&folder, "c.tar", "ustar", LIST("c.jpg", "1", "c.cls", "1", "c.txt", "1"));
    cr_assert_eq(open_index(), 0);
    cr_assert_eq(set->member_count, 6);
    for (uint64_t m = 0; m < 6; m++) {
        uint64_t sample = m < 2 ? 0 : m < 3 ? 1 : 2;
        cr_assert_eq(index_sample_of(set, m), sample);
        cr_assert_eq(index_shard_of(set, sample), sample < 2 ? 0 : 2);
        cr_assert_eq(index_shard_of_member(set, m), sample < 2 ? 0 : 2);
    }
    end();
}

Test(index, finds_keys_past_every_mark)
{
    char *members[2 * 100 + 1];

    begin();
    for (int i = 0; i < 100; i++) {
        cr_assert(asprintf(&members[2 * i], "k%d%s.jpg", i, i % 3 ? "-long-tail" : "") > 0);
        members[2 * i + 1] = "1";
    }
    members[200] = NULL;
    folder_add_tar(&folder, "a.tar", "ustar", (const char *const *)members);
    cr_assert_eq(open_index(), 0);
    for (int i = 0; i < 100; i++) {
        char key[32];
        snprintf(key, sizeof key, "k%d%s", i, i % 3 ? "-long-tail" : "");
        cr_assert_str_eq(index_key(set, (uint64_t)i), key);
        free(members[2 * i]);
    }
    end();
}

/* A shard's hash covers what is in it, not where it is or when it was written. */
Test(index, hash_follows_content_not_path_or_time)
{
    uint64_t hashes[3];
    static const char *const names[] = {"a.tar", "other.tar", "a.tar"};

    for (int i = 0; i < 3; i++) {
        begin();
        folder_add_tar(&folder, names[i], "ustar", i < 2 ? LIST("a.jpg", "1") : LIST("b.jpg", "1"));
        cr_assert_eq(open_index(), 0);
        hashes[i] = set->shards[0].hash;
        end();
    }
    cr_assert_eq(hashes[0], hashes[1]);
    cr_assert(hashes[0] != hashes[2]);
}
