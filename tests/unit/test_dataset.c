/* Fields, labels and fingerprints. */
#include "unit.h"

#include "opened.h"

#include "../../core/fields.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct opened on;

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

/* What a folder would list of a sample: "field field", the made one as "(cls)". */
static const char *shown(uint64_t sample)
{
    static char text[256];
    const char *name;
    int64_t member;

    text[0] = '\0';
    for (unsigned place = 0; dataset_field(&on.set, sample, place, &name, &member); place++) {
        int64_t found;
        cr_assert(dataset_find_field(&on.set, sample, name, strlen(name), &found) &&
                  found == member);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s%s%s", place ? " " : "",
                 member < 0 ? "(" : "", name, member < 0 ? ")" : "");
    }
    return text;
}

Test(fields, alternatives_appear_under_the_first_name_and_lacking_samples_are_left_out)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("a.jpg", "1", "a.cls", "5", "a.json", "{}", "b.jpeg", "22", "b.cls", "6",
                        "c.cls", "7", "d.png", "333", "d.jpeg", "4444", "d.cls", "8"));
    folder_add_tar(&on.folder, "b.tar", "ustar", LIST("e.cls", "1"));
    folder_add_tar(&on.folder, "c.tar", "ustar", LIST("f.png", "55555", "f.cls", "9"));
    cr_assert_eq(opened_open(&on, "fields=jpg/jpeg/png:cls"), 0);
    cr_assert_eq(on.set.index->sample_count, 4);
    for (uint64_t s = 0; s < 4; s++)
        cr_assert_str_eq(shown(s), "cls jpg");
    cr_assert_str_eq(index_key(on.set.index, 1), "b");
    cr_assert_str_eq(index_key(on.set.index, 2), "d");
    cr_assert_str_eq(index_key(on.set.index, 3), "f");
    /* d has two alternatives: the one named first wins. */
    int64_t jpg = index_find_field(on.set.index, 2, "jpg", 3);
    cr_assert_eq(on.set.index->members[jpg].size, 4);
    cr_assert_eq(on.set.labels.of[3], 9);
    cr_assert_eq(on.set.index->problems[INDEX_FIELD_MISSING], 2);
    cr_assert_eq(index_shard_of(on.set.index, 2), 0);
    cr_assert_eq(index_shard_of(on.set.index, 3), 2);
    cr_assert_eq(on.set.index->bytes, 1 + 1 + 2 + 1 + 4 + 1 + 5 + 1);
    opened_end(&on);
}

Test(fields, a_first_name_that_no_shard_has_is_fine)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("a.jpeg", "1", "a.txt", "t", "b.zip", "1", "b.txt", "t"));
    cr_assert_eq(opened_open(&on, "fields=aaa/jpeg/zip:txt"), 0);
    cr_assert_str_eq(shown(0), "aaa txt");
    cr_assert_str_eq(shown(1), "aaa txt");
    opened_end(&on);
}

Test(fields, says_which_field_none_has)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar", LIST("a.jpg", "1"));
    cr_assert_eq(opened_open(&on, "fields=jpg:json"), -ENODATA);
    cr_assert(report_watch("1 of 1 lacks json") != NULL);
    opened_end(&on);
}

Test(fields, warns_of_uneven_samples_with_what_mends_it)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("a.jpg", "1", "a.cls", "1", "b.png", "1", "b.cls", "1"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert(report_watch("fields=jpg/png:cls mends that") != NULL);
    opened_end(&on);
}

/* Labels alone are nothing to train on. */
Test(fields, the_advice_keeps_the_pictures)
{
    opened_begin(&on);
    folder_add_tar(
        &on.folder, "a.tar", "ustar",
        LIST("a.jpg", "1", "a.cls", "1", "b.png", "1", "b.cls", "1", "b.json", "1", "c.cls", "1"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert(report_watch("fields=jpg/png:cls mends that, and leaves out 1 sample") != NULL);
    opened_end(&on);
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("a.npy", "1", "a.cls", "1", "b.npy", "1", "b.cls", "1", "c.cls", "1"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert(report_watch("fields=npy:cls mends that, and leaves out 1 sample") != NULL);
    opened_end(&on);
}

Test(fields, primary_is_the_named_one_or_the_image_or_the_first)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("a.json", "1", "a.png", "1", "b.txt", "1", "b.npy", "1"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    struct index *index = on.set.index;
    cr_assert_str_eq(index->fields[index->members[fields_primary(index, NULL, 0)].field], "png");
    cr_assert_str_eq(index->fields[index->members[fields_primary(index, NULL, 1)].field], "txt");
    cr_assert_str_eq(index->fields[index->members[fields_primary(index, "json:png", 0)].field],
                     "json");
    opened_end(&on);
}

Test(labels, integers_stay_and_the_member_is_shown_as_it_is)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("a.jpg", "1", "a.cls", " 12\n", "b.jpg", "1", "b.cls", "-3"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert_eq(on.set.labels.source, CONFIG_LABEL_CLS);
    cr_assert_eq(on.set.labels.of[0], 12);
    cr_assert_eq(on.set.labels.of[1], -3);
    cr_assert_eq(on.set.labels.class_count, 2);
    cr_assert_str_eq(shown(0), "cls jpg");
    opened_end(&on);
}

Test(labels, an_integer_may_have_leading_zeros)
{
    opened_begin(&on);
    folder_add_tar(
        &on.folder, "a.tar", "ustar",
        LIST("a.jpg", "1", "a.cls", "00000000000000000000012", "b.jpg", "1", "b.cls", "-007"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert(!on.set.labels.named);
    cr_assert_eq(on.set.labels.of[0], 12);
    cr_assert_eq(on.set.labels.of[1], -7);
    opened_end(&on);
}

Test(labels, texts_are_numbered_in_byte_order_and_the_number_is_shown)
{
    char text[24];

    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("a.jpg", "1", "a.cls", "dog", "b.jpg", "1", "b.cls", "Zebra", "c.jpg", "1",
                        "c.cls", "cat", "d.jpg", "1", "d.cls", "dog"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert_eq(on.set.labels.of[0], 2);
    cr_assert_eq(on.set.labels.of[1], 0);
    cr_assert_eq(on.set.labels.of[2], 1);
    cr_assert_eq(on.set.labels.of[3], 2);
    cr_assert_eq(on.set.labels.class_count, 3);
    cr_assert_str_eq(shown(0), "(cls) jpg");
    cr_assert_eq(dataset_label_text(&on.set, 3, text), 1);
    cr_assert_str_eq(text, "2");
    opened_end(&on);
}

Test(labels, come_from_folders_where_no_cls_is)
{
    opened_begin(&on);
    folder_add_tar(
        &on.folder, "a.tar", "ustar",
        LIST("t/n02/a.jpg", "1", "t/n01/b.jpg", "1", "t/n02/c.jpg", "1", "t/n02/c.zip", "1"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert_eq(on.set.labels.source, CONFIG_LABEL_DIR);
    cr_assert_eq(on.set.labels.of[0], 1);
    cr_assert_eq(on.set.labels.of[1], 0);
    cr_assert_str_eq(shown(0), "(cls) jpg");
    cr_assert_str_eq(shown(2), "(cls) jpg zip");
    opened_end(&on);
}

Test(labels, a_chosen_folder_hides_the_cls_member)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("3/a.jpg", "1", "3/a.cls", "77", "5/b.jpg", "1", "5/b.cls", "77"));
    cr_assert_eq(opened_open(&on, "label=dir"), 0);
    cr_assert_eq(on.set.labels.of[0], 3);
    cr_assert_eq(on.set.labels.of[1], 5);
    cr_assert_str_eq(shown(0), "(cls) jpg");
    opened_end(&on);
}

Test(labels, one_folder_or_none_is_no_label)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar", LIST("d/a.jpg", "1", "d/b.jpg", "1"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert_eq(on.set.labels.source, CONFIG_LABEL_NONE);
    cr_assert_str_eq(shown(0), "jpg");
    opened_end(&on);
}

Test(labels, missing_ones_are_counted_and_not_shown)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("a.jpg", "1", "b.jpg", "1", "b.cls", "cat", "c.jpg", "1"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert_eq(on.set.index->problems[INDEX_NO_LABEL], 2);
    cr_assert_str_eq(shown(0), "jpg");
    cr_assert_str_eq(shown(1), "(cls) jpg");
    cr_assert(report_watch("2 of 3 samples have no label") != NULL);
    opened_end(&on);
}

Test(labels, a_single_missing_one_is_told_as_one)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar", LIST("a.jpg", "1", "b.jpg", "1", "b.cls", "cat"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert(report_watch("1 of 2 samples has no label; it shows no .cls") != NULL);
    opened_end(&on);
}

Test(labels, a_made_label_hides_the_member_of_a_sample_without_one)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar",
                   LIST("x/a.jpg", "1", "y/b.jpg", "1", "c.jpg", "1", "c.cls", "9"));
    cr_assert_eq(opened_open(&on, "label=dir"), 0);
    cr_assert_str_eq(shown(0), "(cls) jpg");
    cr_assert_str_eq(shown(2), "jpg");
    opened_end(&on);
}

Test(fields, the_advice_keeps_made_labels)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar", LIST("x/a.jpg", "1", "y/b.png", "1"));
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert(report_watch("fields=jpg/png:cls mends that") != NULL);
    opened_end(&on);
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar", LIST("x/a.jpg", "1", "y/b.png", "1"));
    cr_assert_eq(opened_open(&on, "fields=jpg/png:cls"), 0);
    cr_assert_str_eq(shown(0), "(cls) jpg");
    cr_assert_str_eq(shown(1), "(cls) jpg");
    opened_end(&on);
}

Test(labels, thousands_of_texts_are_numbered_right)
{
    enum { COUNT = 12000 };
    const char **members = calloc(4 * COUNT + 1, sizeof *members);
    opened_begin(&on);
    for (int i = 0; i < COUNT; i++) {
        char *name, *cls, *text;
        cr_assert(asprintf(&name, "%d.jpg", i) > 0 && asprintf(&cls, "%d.cls", i) > 0 &&
                  asprintf(&text, "c%05d", (i * 7919) % 10007) > 0);
        members[4 * i] = name;
        members[4 * i + 1] = "1";
        members[4 * i + 2] = cls;
        members[4 * i + 3] = text;
    }
    folder_add_tar(&on.folder, "a.tar", "ustar", members);
    cr_assert_eq(opened_open(&on, NULL), 0);
    cr_assert_eq(on.set.labels.class_count, 10007);
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(on.set.labels.of[i], (i * 7919) % 10007);
    for (int i = 0; i < 4 * COUNT; i++)
        if (i % 4 != 1)
            free((char *)members[i]);
    free(members);
    opened_end(&on);
}

static void fingerprint_with(const char *options, const char *name, const char *content, char *to)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, name, "ustar", LIST("a.jpg", content, "b.jpg", "2"));
    cr_assert_eq(opened_open(&on, options), 0);
    memcpy(to, on.set.fingerprint, DATASET_FINGERPRINT_BYTES);
    opened_end(&on);
}

Test(fingerprint, covers_data_and_order_but_not_path_world_or_epoch)
{
    char base[DATASET_FINGERPRINT_BYTES], other[DATASET_FINGERPRINT_BYTES];
    static const char *const same[] = {"world=8", "epoch=9", "world=3,epoch=2", "prime=7"};
    static const char *const different[] = {"seed=1", "order=sequential", "remainder=drop",
                                            "fields=jpg"};

    fingerprint_with(NULL, "a.tar", "1", base);
    cr_assert_eq(strlen(base), DATASET_FINGERPRINT_BYTES - 1);
    for (size_t i = 0; i < 4; i++) {
        fingerprint_with(same[i], "a.tar", "1", other);
        cr_assert_str_eq(base, other);
        fingerprint_with(different[i], "a.tar", "1", other);
        cr_assert(strcmp(base, other) != 0, "%s", different[i]);
        cr_assert(strncmp(base, other, 16) == 0, "the data is the same");
    }
    fingerprint_with(NULL, "b.tar", "1", other);
    cr_assert(strcmp(base, other) != 0, "another base name");
    fingerprint_with(NULL, "a.tar", "123", other);
    cr_assert(strncmp(base, other, 16) != 0, "another size");
    cr_assert(strcmp(base + 17, other + 17) == 0, "the order is the same");
}

/* A node that spells out what another one leaves out has the same order, and must agree. */
Test(fingerprint, what_is_spelled_out_counts_as_what_is_left_out)
{
    static const char *const pairs[][3] = {
        /* these two are the same, and the third one is not */
        {"order=torch", "order=torch,epoch_samples=2", "order=torch,epoch_samples=3"},
        {"order=contiguous", "order=contiguous,window=1", "order=contiguous,window=2"},
        {"order=block", "order=block,block=8M,window=64,streams=64", "order=block,window=1"},
    };
    char one[DATASET_FINGERPRINT_BYTES], other[DATASET_FINGERPRINT_BYTES];

    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        fingerprint_with(pairs[i][0], "a.tar", "1", one);
        fingerprint_with(pairs[i][1], "a.tar", "1", other);
        cr_assert_str_eq(one, other, "%s", pairs[i][1]);
        fingerprint_with(pairs[i][2], "a.tar", "1", other);
        cr_assert(strcmp(one, other) != 0, "%s", pairs[i][2]);
    }
}

Test(dataset, strict_refuses_any_problem)
{
    opened_begin(&on);
    folder_add_tar(&on.folder, "a.tar", "ustar", LIST("a.jpg", "1", "._a.jpg", "x"));
    cr_assert_eq(opened_open(&on, "strict"), -EINVAL);
    cr_assert(report_watch("strict: refused for 1 litter") != NULL);
    opened_end(&on);
}

Test(dataset, what_can_hardly_be_meant_is_warned_of)
{
    static const char *const cases[][3] = {
        {"world=3,remainder=drop", "world=2,remainder=drop", "fewer than the 3 ranks"},
        {"order=length,lengths=size,bucket=3", "order=length,lengths=size,bucket=2",
         "no bucket of 3 is ever full"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int fine = 0; fine < 2; fine++) {
            opened_begin(&on);
            folder_add_tar(&on.folder, "a.tar", "ustar", LIST("a.jpg", "1", "b.jpg", "2"));
            cr_assert_eq(opened_open(&on, cases[i][fine]), 0);
            cr_assert_eq(report_watch(cases[i][2]) != NULL, !fine);
            opened_end(&on);
        }
    }
}
