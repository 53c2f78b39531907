/* What the loader takes: folders, lists, tars, bytes; what it refuses, and how it says so. */
#include "unit.h"

#include "load.h"

#include "../../loader/catalog.h"
#include "../../loader/place.h"
#include "../../loader/ring.h"
#include "../../loader/sample.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct load_folder folder;

static void begin(void)
{
    load_folder_make(&folder);
}

static void end(void)
{
    load_folder_remove(&folder);
}

static void write_text(const char *name, const char *text)
{
    load_write(&folder, name, text, strlen(text));
}

static struct sl_config bytes_config(const char *name)
{
    struct sl_config config = load_config(load_path(&folder, name));

    config.output = SL_BYTES;
    config.length_most = 32;
    config.batch_size = 64;
    return config;
}

/* The only batch: "NAME=CONTENT:LABEL " for each sample; a label that it has not is "none". */
static const char *whole(const struct sl_config *config)
{
    static char text[4096];
    struct sl_loader *loader = load_open(config);
    struct sl_batch *batch;
    size_t at = 0;
    int status = sl_next(loader, &batch, 60000);

    cr_assert_eq(status, SL_PARTIAL, "%d %s", status, sl_error(loader));
    for (uint64_t i = 0; i < batch->count; i++) {
        char label[24] = "none";

        if (batch->labels[i] != SL_NO_LABEL)
            snprintf(label, sizeof label, "%lld", (long long)batch->labels[i]);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s=%.*s:%s ", batch->names[i],
                               (int)batch->lengths[i],
                               (char *)batch->data + (int64_t)i * batch->strides[0], label);
    }
    sl_close(loader);
    return text;
}

/* Opening, or the first batch, fails with `code` and a text that has `part`. */
static void refused(const struct sl_config *config, int code, const char *part)
{
    struct sl_loader *loader;
    struct sl_batch *batch;
    int status = sl_open(&loader, config);

    if (status == 0) {
        status = sl_next(loader, &batch, 60000);
        cr_assert_eq(status, code, "%d: %s", status, sl_error(loader));
        cr_assert(strstr(sl_error(loader), part) != NULL, "%s", sl_error(loader));
        sl_close(loader);
        return;
    }
    cr_assert(loader == NULL);
    cr_assert_eq(status, code, "%d: %s", status, sl_error(NULL));
    cr_assert(strstr(sl_error(NULL), part) != NULL, "%s", sl_error(NULL));
}

Test(load_sources, a_folder_is_read_in_the_order_of_its_paths_and_its_folders_are_classes)
{
    struct sl_config config;

    begin();
    write_text("f/b/2.txt", "b2");
    write_text("f/a-c/1.txt", "ac1");
    write_text("f/a/9.txt", "a9");
    write_text("f/a/10.txt", "a10");
    write_text("f/a/deep/er/1.txt", "deep");
    write_text("f/top.txt", "top");
    write_text("f/.hidden.txt", "no");
    write_text("f/._litter.txt", "no");
    write_text("f/empty-of-samples/x.json", "{}");
    config = bytes_config("f");
    cr_assert_str_eq(whole(&config), "a/10.txt=a10:0 a/9.txt=a9:0 a/deep/er/1.txt=deep:0 "
                                     "a-c/1.txt=ac1:1 b/2.txt=b2:2 top.txt=top:none ");
    end();
}

Test(load_sources, a_cls_beside_a_file_is_its_label)
{
    struct sl_config config;

    begin();
    write_text("f/a/x.y.txt", "one");
    write_text("f/a/x.y.cls", " 12\n");
    write_text("f/a/z.txt", "two");
    write_text("f/b/w.txt", "three");
    write_text("f/b/w.cls", "twelve");
    config = bytes_config("f");
    cr_assert_str_eq(whole(&config), "a/x.y.txt=one:12 a/z.txt=two:none b/w.txt=three:none ");
    end();
}

/* As a mount shows them; a label that only the list has, one that only the .cls has, lines of
 * samples that are not in the folder, and one cut short. */
Test(load_sources, a_rank_folder_s_labels_come_from_the_list_beside_it)
{
    static const int64_t expected[] = {-7, 20, SL_NO_LABEL, -1, -50};
    struct sl_config config;
    struct settings settings;
    struct catalog *catalog;
    struct sample sample;
    struct fault fault;
    uint8_t buffer[9];
    char name[32];

    begin();
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "rank-0/%08d.txt", 2 * i);
        write_text(name, "x");
        if (i != 2) {
            snprintf(name, sizeof name, "rank-0/%08d.cls", 2 * i);
            write_text(name, i == 1 ? "20" : i == 4 ? "-50" : "1");
        }
    }
    write_text("rank-0.list",
               "../epoch-0/rank-0/00000000.txt -7\n../epoch-0/rank-0/00000001.txt 8\n"
               " 5\n\n../epoch-0/rank-0/00000002.txt\n"
               "../epoch-0/rank-0/00000006.txt -1\nno-name 3\n../epoch-0/rank-0/0000000");
    config = bytes_config("rank-0");
    cr_assert_eq(settings_make(&settings, &config, &fault), 0);
    cr_assert_eq(catalog_open_folder(&catalog, config.path, true, &settings, &fault), 0);
    cr_assert_eq(catalog_count(catalog), 5);
    for (uint64_t i = 0; i < 5; i++) {
        int64_t known;

        cr_assert_eq(catalog_knows_label(catalog, i, &known), i != 1 && i != 4);
        cr_assert(i == 1 || i == 4 || known == expected[i], "%d: %lld", (int)i, (long long)known);
        catalog_read(catalog, i, buffer, 8, &sample);
        cr_assert_eq(sample.label, expected[i], "%d", (int)i);
        cr_assert_eq(sample.size, 1);
    }
    catalog_close(catalog);
    settings_free(&settings);
    end();
}

Test(load_sources, a_list_has_paths_with_blanks_and_labels_at_the_end)
{
    struct sl_config config;

    begin();
    write_text("d/a b.txt", "ab");
    write_text("d/c 7", "c7");
    write_text("d/e.txt", "e");
    write_text("l.list", "# comment\n\nd/a b.txt 5\r\nd/c 7 6\n  \nd/e.txt\nd/a b.txt\t 8");
    config = bytes_config("l.list");
    cr_assert_str_eq(whole(&config), "d/a b.txt=ab:5 d/c 7=c7:6 d/e.txt=e:none d/a b.txt=ab:8 ");
    write_text("bad.list", "d/e.txt 1\n  7\n");
    config = bytes_config("bad.list");
    refused(&config, -EBADMSG, "line 2");
    load_write(&folder, "nul.list", "a\0b 1\n", 6);
    config = bytes_config("nul.list");
    refused(&config, -EBADMSG, "line 1");
    write_text("empty.list", "\n#\n");
    config = bytes_config("empty.list");
    refused(&config, -ENODATA, "empty");
    end();
}

/* -1 is what many data sets write for "unknown", and -100 what torch ignores: read as any other. */
Test(load_sources, negative_labels_are_labels_in_lists_folders_and_tars)
{
    static const char *const texts[] = {"-1", "-100", "0", "-9223372036854775807", "none"};
    const char *expected = "0.txt=x:-1 1.txt=x:-100 2.txt=x:0 3.txt=x:-9223372036854775807 "
                           "4.txt=x:none ";
    struct sl_stats stats = {.size = sizeof stats};
    char list[512] = "", name[32], command[512];
    struct sl_loader *loader;
    struct sl_batch *batch;
    struct sl_config config;

    begin();
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "f/%d.txt", i);
        write_text(name, "x");
        snprintf(name, sizeof name, "f/%d.cls", i);
        write_text(name, texts[i]);
        snprintf(list + strlen(list), sizeof list - strlen(list), "%d.txt %s\n", i,
                 i == 4 ? "" : texts[i]);
    }
    write_text("f/l.list", list);
    snprintf(command, sizeof command,
             "cd %s/f && for i in 0 1 2 3 4; do echo $i.txt $i.cls; done | xargs tar -cf ../s.tar",
             folder.path);
    cr_assert_eq(system(command), 0);
    config = bytes_config("f");
    config.field = "txt";
    cr_assert_str_eq(whole(&config), expected);
    config.path = load_path(&folder, "s.tar");
    cr_assert_str_eq(whole(&config), expected);
    config.path = load_path(&folder, "f/l.list");
    cr_assert_str_eq(whole(&config), expected);
    loader = load_open(&config);
    cr_assert_eq(sl_next(loader, &batch, 60000), SL_PARTIAL);
    cr_assert_eq(sl_stats(loader, &stats), 0);
    cr_assert(stats.unlabelled == 1 && stats.bad == 0);
    sl_close(loader);
    end();
}

Test(load_sources, fields_choose_what_of_a_sample_is_its_content)
{
    struct sl_config config;

    begin();
    write_text("f/1.txt", "t1");
    write_text("f/1.JSON", "j1");
    write_text("f/2.txt", "t2");
    write_text("f/2.md", "m2");
    config = bytes_config("f");
    cr_assert_str_eq(whole(&config), "1.txt=t1:none 2.md=m2:none 2.txt=t2:none ");
    config.field = "Md/json";
    cr_assert_str_eq(whole(&config), "1.JSON=j1:none 2.md=m2:none ");
    config.field = "wav";
    refused(&config, -ENODATA, "config.field");
    config.field = "a//b";
    refused(&config, -EINVAL, "config.field");
    end();
}

Test(load_sources, bytes_are_padded_cut_and_masked)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;
    const uint8_t *row;

    begin();
    write_text("f/1.txt", "abc");
    write_text("f/2.txt", "");
    write_text("f/3.txt", "0123456789012345678901234567890123456789");
    config = bytes_config("f");
    config.padding = '.';
    config.mask = 1;
    loader = load_open(&config);
    cr_assert_eq(sl_next(loader, &batch, 60000), SL_PARTIAL);
    cr_assert_eq(batch->dimensions, 2);
    cr_assert(batch->shape[0] == 3 && batch->shape[1] == 32);
    cr_assert_eq(batch->strides[0], 64);
    cr_assert(batch->lengths[0] == 3 && batch->lengths[1] == 0 && batch->lengths[2] == 32);
    cr_assert(batch->statuses[0] == SL_SAMPLE_GOOD && batch->statuses[2] == SL_SAMPLE_CUT);
    for (int i = 0; i < 3; i++) {
        row = (uint8_t *)batch->data + i * batch->strides[0];
        for (int64_t x = 0; x < batch->strides[0]; x++) {
            cr_assert_eq(batch->mask[i * batch->strides[0] + x], x < batch->lengths[i]);
            cr_assert(x < batch->lengths[i] || row[x] == '.');
        }
    }
    cr_assert(memcmp(batch->data, "abc.", 4) == 0);
    sl_close(loader);
    end();
}

Test(load_sources, files_that_are_missing_or_no_files_are_bad_samples)
{
    struct sl_config config;

    begin();
    write_text("d/a.txt", "a");
    mkdir(load_path(&folder, "d/folder"), 0755);
    cr_assert_eq(mkfifo(load_path(&folder, "d/fifo"), 0600), 0);
    write_text("l.list", "d/a.txt 1\nd/none.txt 2\nd/folder 3\nd/fifo 4\n");
    config = bytes_config("l.list");
    config.bad = SL_BAD_SKIP;
    /* A fifo without a writer is empty; above all it does not hang. */
    cr_assert_str_eq(whole(&config), "d/a.txt=a:1 d/fifo=:4 ");
    config.bad = SL_BAD_FAIL;
    refused(&config, -ENOENT, "none.txt");
    config.file_most = 3;
    write_text("l.list", "d/a.txt 1\nd/large.txt 2\n");
    write_text("d/large.txt", "12345");
    refused(&config, -EFBIG, "large.txt");
    end();
}

Test(load_sources, a_tar_in_any_dialect_and_compressed_gives_the_same)
{
    static const char *const ways[] = {"--format=ustar", "--format=gnu", "--format=pax", "-z"};
    char command[1024], key[160];

    begin();
    memset(key, 'k', 150);
    key[80] = '/'; /* where ustar can split it */
    key[150] = '\0';
    snprintf(command, sizeof command, "f/%s/1.txt", key);
    write_text(command, "one");
    snprintf(command, sizeof command, "f/%s/1.cls", key);
    write_text(command, "4");
    write_text("f/2.x.txt", "two");
    for (int i = 0; i < 4; i++) {
        struct sl_config config = bytes_config(i == 3 ? "a.tar.gz" : "a.tar");
        char expected[1024];

        snprintf(command, sizeof command, "cd %s/f && tar %s -cf %s --sort=name ./2.x.txt %s",
                 folder.path, ways[i], config.path, key);
        cr_assert_eq(system(command), 0);
        config.field = "txt/x.txt";
        snprintf(expected, sizeof expected, "2.x.txt=two:none %s/1.txt=one:4 ", key);
        cr_assert_str_eq(whole(&config), expected);
    }
    end();
}

Test(load_sources, a_tar_that_is_cut_or_none_is_an_error_where_it_breaks)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;

    begin();
    load_write_tar(&folder, "s.tar", 43, UINT32_MAX);
    config = load_config(load_path(&folder, "s.tar"));
    cr_assert_eq(truncate(config.path, 60000), 0);
    loader = load_open(&config);
    for (int epoch = 0; epoch < 2; epoch++) {
        int whole_batches = 0, status;
        while ((status = sl_next(loader, &batch, 60000)) == 0 || status == SL_PARTIAL) {
            whole_batches += status == 0;
            sl_release(loader, batch);
        }
        cr_assert_eq(status, -EBADMSG, "%d", status);
        cr_assert_eq(sl_next(loader, &batch, 60000), -EBADMSG);
        cr_assert(strstr(sl_error(loader), "s.tar") != NULL, "%s", sl_error(loader));
        cr_assert(whole_batches >= 1);
        cr_assert_eq(sl_set_epoch(loader, 1), 0);
    }
    sl_close(loader);
    write_text("n.tar", "this is not a tar at all, as it is far too short");
    config = load_config(load_path(&folder, "n.tar"));
    refused(&config, -EBADMSG, "n.tar");
    load_write(&folder, "e.tar", "", 0);
    config = load_config(load_path(&folder, "e.tar"));
    refused(&config, -EBADMSG, "e.tar");
    load_write(&folder, "z.tar", (char[10240]){0}, 10240);
    config = load_config(load_path(&folder, "z.tar"));
    refused(&config, -ENODATA, "no sample");
    end();
}

/* libarchive asks to try again, and again. */
Test(load_sources, a_sparse_member_whose_blocks_are_out_of_order_is_an_error_and_no_endless_loop)
{
    static char tar[4 * 512];
    struct sl_config config;
    unsigned sum = 8 * ' ';

    begin();
    memcpy(tar, "a.txt", 5);
    memcpy(tar + 100, "0000644", 7);
    memcpy(tar + 124, "00000000002", 11); /* size in the tar */
    tar[156] = 'S';
    memcpy(tar + 257, "ustar  ", 7);
    memcpy(tar + 386, "00000000005", 11); /* a byte at 5, and then one at 0 */
    memcpy(tar + 398, "00000000001", 11);
    memcpy(tar + 410, "00000000000", 11);
    memcpy(tar + 422, "00000000001", 11);
    memcpy(tar + 483, "00000000010", 11); /* its own size */
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)tar[i];
    snprintf(tar + 148, 8, "%06o", sum);
    tar[155] = ' ';
    memcpy(tar + 512, "xy", 2);
    load_write(&folder, "s.tar", tar, sizeof tar);
    config = bytes_config("s.tar");
    refused(&config, -EBADMSG, "a.txt");
    end();
}

Test(load_sources, behind_a_lone_zero_block_a_tar_goes_on)
{
    struct sl_config config;
    char command[1024];

    begin();
    write_text("1.txt", "one");
    write_text("2.txt", "two");
    write_text("3.txt", "three");
    /* One zero block between the first two; two before the third, which is no part of it. */
    snprintf(
        command, sizeof command,
        "cd %s && for i in 1 2 3; do tar -cf $i.part $i.txt; done && (head -c 1536 1.part; head "
        "-c 2048 2.part; cat 3.part) > s.tar && mkfifo p.tar",
        folder.path);
    cr_assert_eq(system(command), 0);
    config = bytes_config("s.tar");
    cr_assert_str_eq(whole(&config), "1.txt=one:none 2.txt=two:none ");
    snprintf(command, sizeof command, "cat %s/s.tar > %s/p.tar &", folder.path, folder.path);
    cr_assert_eq(system(command), 0);
    config = bytes_config("p.tar");
    cr_assert_str_eq(whole(&config), "1.txt=one:none 2.txt=two:none ");
    end();
}

/* Its bytes were passed already, and a sample that is lost in silence is not noticed. */
Test(load_sources, a_link_within_a_tar_is_a_bad_sample)
{
    struct sl_loader *loader;
    struct sl_config config;
    struct sl_batch *batch;
    char command[1024];

    begin();
    write_text("1.txt", "one");
    write_text("4.txt", "four");
    write_text("4.cls", "4");
    snprintf(command, sizeof command,
             "cd %s && ln 1.txt 2.txt && ln -s 1.txt 3.txt && ln 4.cls 5.cls && cp 1.txt 5.txt && "
             "tar -cf s.tar 1.txt 2.txt 3.txt 4.txt 4.cls 5.txt 5.cls",
             folder.path);
    cr_assert_eq(system(command), 0);
    config = bytes_config("s.tar");
    config.bad = SL_BAD_SKIP;
    loader = load_open(&config);
    cr_assert_eq(sl_next(loader, &batch, 60000), SL_PARTIAL);
    cr_assert(batch->count == 2 && batch->asked == 5, "%u", (unsigned)batch->count);
    for (uint64_t i = 2; i < 5; i++)
        cr_assert_eq(batch->statuses[i], -ENOTSUP, "%s: %d", batch->names[i], batch->statuses[i]);
    sl_close(loader);
    end();
}

Test(load_sources, a_small_ring_only_makes_the_tar_wait)
{
    struct sl_config config;
    uint64_t expected;

    begin();
    load_write_tar(&folder, "s.tar", 43, UINT32_MAX);
    config = load_config(load_path(&folder, "s.tar"));
    config.workers = 3;
    expected = load_once(&config);
    config.stream_bytes = 1;
    config.file_most = 8192;
    cr_assert_eq(load_once(&config), expected);
    config.stream_bytes = 5000;
    cr_assert_eq(load_once(&config), expected);
    end();
}

Test(load_sources, a_ring_never_hands_out_a_byte_twice)
{
    enum { BYTES = 1000, LARGEST = 700, PIECES = 9 };
    struct ring ring;
    struct {
        uint8_t *at;
        size_t size;
    } out[PIECES];
    uint64_t given[PIECES], count = 0, numbers[PIECES];
    unsigned seed = 1;

    (void)given;
    cr_assert_eq(ring_open(&ring, BYTES, LARGEST, PIECES), 0);
    for (int step = 0; step < 100000; step++) {
        size_t size = (size_t)rand_r(&seed) % (LARGEST + 1);
        uint8_t *at;

        if (count && (rand_r(&seed) % 2 || !(at = ring_take(&ring, size)))) {
            uint64_t i = (uint64_t)rand_r(&seed) % count;
            for (size_t b = 0; b < out[i].size; b++)
                cr_assert_eq(out[i].at[b], (uint8_t)numbers[i]);
            ring_give(&ring, numbers[i]);
            out[i] = out[--count];
            numbers[i] = numbers[count];
            continue;
        }
        if (!count)
            at = ring_take(&ring, size);
        cr_assert(at != NULL);
        numbers[count] = ring.next - 1;
        memset(at, (int)(uint8_t)numbers[count], size);
        out[count].at = at;
        out[count++].size = size;
    }
    ring_close(&ring);
}

Test(load_sources, wrong_configurations_are_refused_by_the_member_s_name)
{
    struct sl_config good, config;
    struct {
        struct sl_config config;
        uint64_t newer;
    } large;
    struct sl_loader *loader;

    begin();
    load_write_pictures(&folder, "p/%u.jpg", 3);
    good = load_config(load_path(&folder, "p"));
#define REFUSED(member, value)                                                                     \
    do {                                                                                           \
        config = good;                                                                             \
        config.member = value;                                                                     \
        refused(&config, -EINVAL, #member);                                                        \
    } while (0)
    REFUSED(path, NULL);
    REFUSED(source, (enum sl_source)99);
    REFUSED(output, (enum sl_output)99);
    REFUSED(crop, (enum sl_crop)99);
    REFUSED(bad, (enum sl_bad)99);
    REFUSED(rank, 5);
    REFUSED(batch_size, 1000000);
    REFUSED(width, -1);
    REFUSED(height, 1 << 20);
    REFUSED(area_most, 2);
    REFUSED(ratio_most, -1);
    REFUSED(flip, 1.5);
    REFUSED(padding, 256);
    REFUSED(workers, 5000);
    REFUSED(prefetch, -1);
    REFUSED(hold, -1);
    REFUSED(size, 4);
#undef REFUSED
    cr_assert_eq(sl_open(&loader, NULL), -EINVAL);
    cr_assert_eq(sl_open(NULL, &good), -EINVAL);
    config = good;
    config.path = load_path(&folder, "none");
    refused(&config, -ENOENT, "none");
    config.path = load_path(&folder, "p");
    config.source = SL_SOURCE_MOUNT;
    refused(&config, -EINVAL, "mount");
    /* A newer program's longer struct is fine while what is new is 0. */
    memset(&large, 0, sizeof large);
    large.config = good;
    large.config.size = sizeof large;
    loader = load_open(&large.config);
    sl_close(loader);
    large.newer = 1;
    refused(&large.config, -EINVAL, "does not have");
    /* And an older one's shorter struct: the rest has its defaults. */
    config = good;
    config.size = offsetof(struct sl_config, workers);
    loader = load_open(&config);
    sl_close(loader);
    end();
}

Test(load_sources, functions_without_a_loader_say_so)
{
    struct sl_batch *batch;
    struct sl_config config;

    cr_assert_eq(sl_next(NULL, &batch, 0), -EINVAL);
    cr_assert_eq(sl_release(NULL, NULL), -EINVAL);
    cr_assert_eq(sl_set_epoch(NULL, 0), -EINVAL);
    sl_cancel(NULL);
    sl_close(NULL);
    sl_config_init(&config, sizeof config);
    cr_assert_eq(config.size, sizeof config);
    cr_assert_str_eq(sl_status_text(SL_END), "end");
    cr_assert(strlen(sl_status_text(-EBUSY)) > 0);
    cr_assert(strlen(sl_version()) > 0);
}

Test(load_sources, labels_and_numbers_have_one_spelling)
{
    int64_t label;
    uint64_t number;
    const char *rest;

    cr_assert(sample_parse_label(" 7\n", 3, &label) && label == 7);
    cr_assert(sample_parse_label("0012", 4, &label) && label == 12);
    cr_assert(!sample_parse_label("", 0, &label));
    cr_assert(sample_parse_label("-1", 2, &label) && label == -1);
    cr_assert(sample_parse_label("-0", 2, &label) && label == 0);
    cr_assert(sample_parse_label("9223372036854775807", 19, &label) && label == INT64_MAX);
    cr_assert(sample_parse_label("-9223372036854775807", 20, &label) && label == -INT64_MAX);
    cr_assert(!sample_parse_label("9223372036854775808", 19, &label));
    cr_assert(!sample_parse_label("-9223372036854775808", 20, &label));
    cr_assert(!sample_parse_label("-", 1, &label));
    cr_assert(!sample_parse_label("--1", 3, &label));
    cr_assert(!sample_parse_label("- 1", 3, &label));
    cr_assert(!sample_parse_label("+1", 2, &label));
    cr_assert(!sample_parse_label("7 8", 3, &label));
    cr_assert(!sample_parse_label("99999999999999999999", 20, &label));
    cr_assert(place_number("12-of", &rest, &number) && number == 12 && *rest == '-');
    cr_assert(!place_number("012", &rest, &number));
    cr_assert(!place_number("", &rest, &number));
    cr_assert_str_eq(sample_extension("a.b/c.d.e", false), "d.e");
    cr_assert_str_eq(sample_extension("a.b/c.d.e", true), "e");
    cr_assert_str_eq(sample_extension("a.b/c", false), "");
    cr_assert_str_eq(sample_extension("a/.c", false), "");
}
