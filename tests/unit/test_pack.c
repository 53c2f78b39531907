/* Packing: names of shards, headers, which files are samples, where shards end. */
#include "shard.h"
#include "unit.h"

#include "../../core/index.h"
#include "../../core/member_name.h"
#include "../../pack/classes.h"
#include "../../pack/header.h"
#include "../../pack/listing.h"
#include "../../pack/pattern.h"
#include "../../pack/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Test(pack, a_pattern_has_one_number_and_nothing_else)
{
    static const char *const bad[] = {
        "train.tar", "t-%d-%d.tar", "t-%s.tar",    "t-%%d.tar",   "t-%d%%.tar",
        "t-%6d.tar", "t-%-6d",      "t-%ld.tar",   "%06d/t.tar",  "out/",
        "",          "t-%00d.tar",  "t-%019d.tar", "t-%0d.tar",   "t-%06x",
        "t-%06d%n",  "t-%099999d",  "%",           "t-%0006d.tar"};
    struct pack_pattern pattern;

    report_watch(NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(pack_pattern_parse(&pattern, bad[i]), -EINVAL, "%s", bad[i]);
        cr_assert(report_watch("-o "), "%s", bad[i]);
    }
    report_stop();
}

Test(pack, names_of_shards_are_made_and_told_from_others)
{
    struct pack_pattern pattern;
    char name[PACK_NAME_MAX];
    uint64_t number;

    cr_assert_eq(pack_pattern_parse(&pattern, "/data/x/train-%06d.tar"), 0);
    cr_assert_str_eq(pattern.folder, "/data/x");
    pack_pattern_name(&pattern, 12, name);
    cr_assert_str_eq(name, "train-000012.tar");
    pack_pattern_name(&pattern, 12345678, name);
    cr_assert_str_eq(name, "train-12345678.tar");
    cr_assert(pack_pattern_number(&pattern, "train-12345678.tar", &number) && number == 12345678);
    cr_assert(!pack_pattern_number(&pattern, "train-12.tar", &number));
    cr_assert(!pack_pattern_number(&pattern, "train-0000012.tar", &number));
    cr_assert(!pack_pattern_number(&pattern, "train-000012.tar.gz", &number));
    cr_assert(!pack_pattern_number(&pattern, "train--00012.tar", &number));
    cr_assert(!pack_pattern_number(&pattern, "train-99999999999999999999999.tar", &number));
    cr_assert_eq(pack_pattern_parse(&pattern, "%d"), 0);
    cr_assert_str_eq(pattern.folder, ".");
    pack_pattern_name(&pattern, 0, name);
    cr_assert_str_eq(name, "0");
    cr_assert_eq(pack_pattern_parse(&pattern, "/%03d.tar"), 0);
    cr_assert_str_eq(pattern.folder, "/");
}

/* Field of a ustar header. */
static const char *field(const struct pack_header *header, size_t at)
{
    return (const char *)header->bytes + header->size - PACK_BLOCK + at;
}

Test(pack, headers_are_plain_ustar)
{
    struct pack_header header = {0};
    char name[300];

    cr_assert_eq(pack_header_make(&header, "a/b.jpg", 1000, 1600000000), 0);
    cr_assert_eq(header.size, PACK_BLOCK);
    cr_assert(!header.pax);
    cr_assert_str_eq(field(&header, 0), "a/b.jpg");
    cr_assert(memcmp(field(&header, 100), "000644 ", 7) == 0);
    cr_assert(memcmp(field(&header, 108),
                     "000000 \0"
                     "000000 ",
                     15) == 0,
              "uid and gid");
    cr_assert(memcmp(field(&header, 124), "00000001750 13727410000 ", 24) == 0, "size, time");
    cr_assert(memcmp(field(&header, 257),
                     "ustar\0"
                     "00",
                     8) == 0);
    cr_assert_str_eq(field(&header, 265), "");
    /* Bytes above 127, and a name that ustar splits, need no PAX header. */
    snprintf(name, sizeof name, "%0150d/\xc3\xbc\xff.jpg", 1);
    cr_assert_eq(pack_header_make(&header, name, 1, 0), 0);
    cr_assert(!header.pax && header.size == PACK_BLOCK);
    cr_assert_str_eq(field(&header, 0), "\xc3\xbc\xff.jpg");
    pack_header_close(&header);
}

Test(pack, a_pax_header_comes_only_where_ustar_has_no_room)
{
    struct pack_header header = {0};
    char name[300];

    snprintf(name, sizeof name, "%0101d.jpg", 1);
    cr_assert_eq(pack_header_make(&header, name, 1, 0), 0);
    cr_assert(header.pax && header.size == (size_t)3 * PACK_BLOCK);
    cr_assert_eq(header.bytes[156], 'x');
    cr_assert(strstr((const char *)header.bytes + PACK_BLOCK, " path=0000"));
    cr_assert_eq(pack_header_make(&header, "a.bin", UINT64_C(077777777777), 0), 0);
    cr_assert(!header.pax, "the last size that has room");
    cr_assert_eq(pack_header_make(&header, "a.bin", UINT64_C(0100000000000), 0), 0);
    cr_assert(header.pax);
    cr_assert(strstr((const char *)header.bytes + PACK_BLOCK, " size=8589934592\n"));
    cr_assert(!strstr((const char *)header.bytes + PACK_BLOCK, "mtime"));
    pack_header_close(&header);
}

Test(pack, times_that_ustar_cannot_hold_are_the_nearest_it_can)
{
    struct pack_header header = {0};

    cr_assert_eq(pack_header_make(&header, "a.b", 1, -5), 0);
    cr_assert(!header.pax && memcmp(field(&header, 136), "00000000000 ", 12) == 0);
    cr_assert_eq(pack_header_make(&header, "a.b", 1, INT64_C(1) << 40), 0);
    cr_assert(!header.pax && memcmp(field(&header, 136), "77777777777 ", 12) == 0);
    pack_header_close(&header);
}

/* A member that is run over in a tar is taken apart by another function than a file's name. */
Test(pack, files_are_samples_where_members_are)
{
    static const char *const names[] = {"a.jpg", "x/b.tar.gz", "x.y/c.jpg", "._a.jpg", "__a.x__",
                                        "__a__", "noext",      ".hid",      ".a.b",    "a.",
                                        "a..b",  "d/.x.y",     "__.x__",    "___",     "a.b."};
    const char *members[2 * sizeof names / sizeof *names + 1];
    struct shard_folder folder;
    struct index *index;
    uint64_t left_out[INDEX_PROBLEM_KINDS] = {0}, samples = 0;
    size_t count = sizeof names / sizeof *names;

    for (size_t i = 0; i < count; i++) {
        enum index_problem problem;
        const char *dot = member_name_dot(names[i], &problem);
        members[2 * i] = names[i];
        members[2 * i + 1] = "bytes";
        if (dot)
            samples++;
        else
            left_out[problem]++;
    }
    members[2 * count] = NULL;
    report_watch(NULL);
    folder_make(&folder);
    folder_add_tar(&folder, "a.tar", "ustar", members);
    cr_assert_eq(index_open(&index, &folder.shards, 1, "none"), 0);
    cr_assert_eq(index->sample_count, samples);
    for (int kind = INDEX_LITTER; kind <= INDEX_NO_EXTENSION; kind++)
        cr_assert_eq(index->problems[kind], left_out[kind], "%s",
                     index_problem_name((enum index_problem)kind));
    for (size_t i = 0; i < count; i++) {
        enum index_problem problem;
        const char *dot = member_name_dot(names[i], &problem);
        bool found = !dot;
        for (uint64_t s = 0; !found && s < index->sample_count; s++)
            found = strlen(index_key(index, s)) == (size_t)(dot - names[i]) &&
                    strncmp(index_key(index, s), names[i], (size_t)(dot - names[i])) == 0;
        cr_assert(found, "%s", names[i]);
    }
    index_close(index);
    folder_remove(&folder);
    report_stop();
}

static void add(struct pack_listing *listing, const char *path, uint64_t size)
{
    enum index_problem problem;
    struct pack_member member = {.path = strdup(path), .size = size};
    const char *dot = member_name_dot(path, &problem);

    member.key = member.path;
    member.key_length = (size_t)(dot - path);
    member.field = pack_listing_field(listing, dot + 1);
    cr_assert_eq(pack_listing_add(listing, &member), 0);
}

Test(pack, members_of_a_sample_are_adjacent_whatever_sorts_between_their_names)
{
    struct pack_listing listing = {0};

    add(&listing, "a.jpg", 1);
    add(&listing, "a.d/x.jpg", 1);
    add(&listing, "a-b.jpg", 1);
    add(&listing, "a.JSON", 1);
    add(&listing, "a.cls", 1);
    cr_assert_eq(pack_listing_settle(&listing, false), 0);
    cr_assert_eq(listing.samples, 3);
    cr_assert_eq(listing.first[1], 3, "a: cls, jpg, json");
    cr_assert_str_eq(listing.members[2].field, "json");
    cr_assert_eq(listing.members[3].key_length, 3, "a-b");
    pack_listing_close(&listing);
}

Test(pack, two_members_of_one_name_are_refused_and_named)
{
    struct pack_listing listing = {0};

    report_watch(NULL);
    add(&listing, "a/x.jpg", 1);
    add(&listing, "a/x.JPG", 1);
    cr_assert_eq(pack_listing_settle(&listing, false), -EEXIST);
    cr_assert(report_watch("'a/x.jpg': "));
    pack_listing_close(&listing);
    add(&listing, "a/x.seg.png", 1);
    add(&listing, "a/x.seg.jpg", 1);
    cr_assert_eq(pack_listing_settle(&listing, false), 0);
    cr_assert_eq(pack_listing_check_converted(&listing), -EEXIST);
    cr_assert(report_watch("'a/x.seg.jpg' is there already"));
    pack_listing_close(&listing);
    report_stop();
}

static struct pack_listing some_samples(unsigned count)
{
    struct pack_listing listing = {0};
    char path[32];

    for (unsigned i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%05u.jpg", i);
        add(&listing, path, 1000);
    }
    cr_assert_eq(pack_listing_settle(&listing, false), 0);
    return listing;
}

Test(pack, shards_are_evened_by_samples)
{
    struct pack_options options = {.limit = PACK_LIMIT_SHARDS};
    struct pack_listing listing = some_samples(1003);
    struct pack_plan plan;

    report_watch(NULL);
    for (options.limit_value = 1; options.limit_value <= 1003; options.limit_value += 7) {
        uint64_t at = 0;
        cr_assert_eq(pack_plan_open(&plan, &listing, &options), 0);
        for (uint64_t number = 0; number < options.limit_value; number++) {
            uint64_t end = pack_plan_end(&plan, number, at), least = 1003 / options.limit_value;
            cr_assert(end - at == least || end - at == least + 1);
            at = end;
        }
        cr_assert_eq(at, 1003);
        pack_plan_close(&plan);
    }
    options.limit_value = 1004;
    cr_assert_eq(pack_plan_open(&plan, &listing, &options), -EINVAL);
    cr_assert(report_watch("--shard-count 1004: there are 1003 samples"));
    pack_listing_close(&listing);
    report_stop();
}

Test(pack, a_shard_never_takes_more_than_its_size_but_for_one_sample)
{
    struct pack_options options = {.limit = PACK_LIMIT_BYTES, .limit_value = 10240};
    struct pack_listing listing = some_samples(3);
    struct pack_plan plan;

    cr_assert_eq(pack_plan_open(&plan, &listing, &options), 0);
    cr_assert(!pack_plan_is_full(&plan, 0, 20480), "a sample that is larger than any shard");
    cr_assert(!pack_plan_is_full(&plan, 5120, 4096));
    cr_assert(pack_plan_is_full(&plan, 5120, 4608), "the trailer counts");
    pack_plan_close(&plan);
    pack_listing_close(&listing);
}

Test(pack, the_plans_hash_covers_what_changes_the_output)
{
    struct pack_options options = {.limit_value = 1 << 30, .quality = 90}, other;
    struct pack_listing listing = some_samples(10);
    struct pack_plan plan, again;

    pack_pattern_parse(&options.output, "t-%06d.tar");
    cr_assert_eq(pack_plan_open(&plan, &listing, &options), 0);
    for (int what = 0; what < 10; what++) {
        other = options;
        other.threads = 7; /* does not */
        other.json = other.verbose = other.force = true;
        if (what == 1)
            other.quality = 91;
        else if (what == 2)
            other.short_side = 320;
        else if (what == 3)
            other.shuffled = true;
        else if (what == 4)
            other.limit_value++;
        else if (what == 5)
            other.convert_png = true;
        else if (what == 6)
            other.damaged = PACK_DAMAGED_SKIP;
        else if (what == 7)
            other.mtime_given = true;
        else if (what == 8)
            listing.members[3].nanoseconds++;
        else if (what == 9)
            listing.members[3].size++;
        cr_assert_eq(pack_plan_open(&again, &listing, &other), 0);
        cr_assert_eq(strcmp(plan.hash, again.hash) == 0, what == 0, "change %d", what);
        pack_plan_close(&again);
        if (what == 8)
            listing.members[3].nanoseconds--;
    }
    pack_plan_close(&plan);
    pack_listing_close(&listing);
}

Test(pack, label_files_take_names_with_blanks_and_refuse_two_answers)
{
    struct pack_label_file *file;
    struct shard_folder folder;
    const char *unused;
    char path[128];

    static const char labels[] = "# comment\n\na/b c.jpg  17 \n./x\tdog\r\nlast cat";

    folder_make(&folder);
    snprintf(path, sizeof path, "%s/labels", folder.path);
    folder_add_bytes(&folder, "labels", labels, strlen(labels));
    report_watch(NULL);
    cr_assert_eq(pack_label_file_open(&file, path), 0);
    cr_assert_str_eq(pack_label_file_find(file, "a/b c.jpg", 9), "17");
    cr_assert_str_eq(pack_label_file_find(file, "x", 1), "dog");
    cr_assert(!pack_label_file_find(file, "a/b", 3));
    cr_assert_eq(pack_label_file_unused(file, &unused), 1);
    cr_assert(strncmp(unused, "last", 4) == 0);
    cr_assert_str_eq(pack_label_file_find(file, "last", 4), "cat");
    pack_label_file_close(file);
    folder_add_bytes(&folder, "labels", "a 1\nb 2\na 1\n", 12);
    cr_assert_eq(pack_label_file_open(&file, path), -EEXIST);
    cr_assert(report_watch("labels:3: 'a' has a label already, in line 1"));
    pack_label_file_close(file);
    folder_add_bytes(&folder, "labels", "a 1\nalone\n", 10);
    cr_assert_eq(pack_label_file_open(&file, path), -EINVAL);
    cr_assert(report_watch("labels:2: 'alone'"));
    pack_label_file_close(file);
    report_stop();
    folder_remove(&folder);
}
