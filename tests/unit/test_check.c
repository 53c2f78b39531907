/* shufflefs-check's parts: what is kept of many problems, the split, pictures, DALI's index. */
#include "unit.h"

#include "picture.h"
#include "shard.h"

#include "../../check/idx.h"
#include "../../check/images.h"
#include "../../check/problems.h"
#include "../../check/split.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct shard_folder folder;
static struct check_problems *problems;

static void begin(size_t shards, size_t examples)
{
    report_watch(NULL);
    folder_make(&folder);
    cr_assert_eq(check_problems_open(&problems, shards, examples), 0);
}

static void end(void)
{
    check_problems_close(problems);
    problems = NULL;
    folder_remove(&folder);
    report_stop();
}

Test(check, a_million_of_a_kind_is_a_count_and_the_first_few)
{
    const struct check_group *group;

    begin(4, 3);
    for (int i = 0; i < 1000000; i++)
        check_problems_add(problems, INDEX_LITTER, (size_t)(i % 2 ? 1 : 3), "._x",
                           (uint64_t)(1000000 - i), NULL);
    group = &problems->groups[INDEX_LITTER];
    cr_assert_eq(group->count, 1000000);
    cr_assert_eq(group->shards, 2);
    cr_assert_eq(group->by_shard[1], 500000);
    cr_assert_eq(group->by_shard[3], 500000);
    cr_assert_eq(group->example_count, 3);
    /* The first by shard and offset, which came last here. */
    cr_assert_eq(group->examples[0].shard, 1);
    cr_assert_eq(group->examples[0].offset, 1);
    cr_assert_eq(group->examples[2].offset, 5);
    cr_assert_eq(check_problems_total(problems, false), 1000000);
    cr_assert_eq(check_problems_total(problems, true), 0);
    end();
}

Test(check, problems_of_one_place_stay_in_the_order_they_came)
{
    begin(1, 8);
    check_problems_add(problems, CHECK_NO_IDX, 0, "b", 512, "second");
    check_problems_add(problems, CHECK_NO_IDX, 0, "c", 512, "third");
    check_problems_add(problems, CHECK_NO_IDX, 0, NULL, 0, "first");
    check_problems_add(problems, CHECK_NO_IDX, CHECK_NO_SHARD, NULL, 0, "last");
    cr_assert_str_eq(problems->groups[CHECK_NO_IDX].examples[0].why, "first");
    cr_assert_str_eq(problems->groups[CHECK_NO_IDX].examples[1].member, "b");
    cr_assert_str_eq(problems->groups[CHECK_NO_IDX].examples[2].member, "c");
    cr_assert_str_eq(problems->groups[CHECK_NO_IDX].examples[3].why, "last");
    cr_assert_eq(problems->groups[CHECK_NO_IDX].shards, 1);
    end();
}

Test(check, no_examples_may_be_asked_for)
{
    begin(1, 0);
    check_problems_add(problems, INDEX_LINK, 0, "a", 512, NULL);
    cr_assert_eq(problems->groups[INDEX_LINK].count, 1);
    cr_assert_eq(problems->groups[INDEX_LINK].example_count, 0);
    cr_assert_eq(problems->fault, 0);
    end();
}

Test(check, every_kind_has_a_name_of_its_own_and_a_meaning)
{
    for (unsigned kind = 0; kind < CHECK_KINDS; kind++) {
        cr_assert(check_kind_name(kind) && *check_kind_name(kind));
        cr_assert(check_kind_meaning(kind) && *check_kind_meaning(kind));
        for (unsigned other = 0; other < kind; other++)
            cr_assert(strcmp(check_kind_name(kind), check_kind_name(other)) != 0);
    }
}

static void expect_split(const struct config *config, uint64_t samples, uint64_t batch)
{
    uint64_t world = config->world, over = samples % world;
    bool keep = config->deal.remainder == PLAN_KEEP, pad = config->deal.remainder == PLAN_PAD;
    struct check_split split;

    cr_assert_eq(check_split_make(&split, config,
                                  &(struct basis){.order = {.samples = samples}, .places = samples},
                                  batch),
                 0);
    cr_assert(split.right);
    cr_assert_eq(split.padding, pad && over ? world - over : 0);
    cr_assert_eq(split.dropped, config->deal.remainder == PLAN_DROP ? over : 0);
    cr_assert_eq(split.longest, samples / world + (over && (pad || keep)));
    cr_assert_eq(split.shortest, samples / world + (over && pad));
    cr_assert_eq(split.longer_ranks, keep && over ? over : world);
    cr_assert_eq(split.batches_most, (split.longest + batch - 1) / batch);
    cr_assert_eq(check_split_ends_in_one(&split),
                 batch > 1 && (split.longest % batch == 1 || split.shortest % batch == 1));
    if (check_split_ends_in_one(&split) && split.better_batch)
        cr_assert(split.better_batch < batch && split.longest % split.better_batch != 1 &&
                  split.shortest % split.better_batch != 1);
    else
        cr_assert_eq(split.better_batch, 0);
}

Test(check, a_split_gone_through_is_as_it_is_worked_out)
{
    struct config config;

    config_init(&config);
    cr_assert_eq(config_set(&config, "index", "none", "-o", "/"), 0);
    for (int kind = 0; kind < 2; kind++) {
        config.order.kind = kind ? ORDER_SEQUENTIAL : ORDER_TORCH;
        for (int remainder = 0; remainder < 3; remainder++)
            for (config.world = 1; config.world < 9; config.world++)
                for (uint64_t samples = 1; samples < 40; samples++) {
                    config.deal.remainder = (enum plan_remainder)remainder;
                    expect_split(&config, samples, 1 + samples % 5);
                }
    }
    config_close(&config);
}

/* What is dealt once are the places; how many samples that is, is counted. */
Test(check, a_split_of_an_epoch_that_repeats_samples_is_proved_by_its_places)
{
    static const enum order_kind kinds[] = {ORDER_TORCH, ORDER_FEISTEL, ORDER_RESAMPLED};
    struct config config;

    config_init(&config);
    config.world = 3;
    for (size_t k = 0; k < 3; k++)
        for (int remainder = 0; remainder < 3; remainder++)
            for (uint64_t places = 1; places < 60; places++) {
                struct basis basis = {.order = {.samples = 20}, .places = places};
                bool met[20] = {false};
                struct check_split split;
                struct order *order;
                config.order = (struct order_spec){
                    .kind = kinds[k], .seed = places, .epoch_samples = places};
                config.deal.remainder = (enum plan_remainder)remainder;
                cr_assert_eq(check_split_make(&split, &config, &basis, 0), 0);
                cr_assert(split.right);
                cr_assert_eq(split.once, places == 20 && kinds[k] != ORDER_RESAMPLED);
                cr_assert_eq(split.read, places + split.padding - split.dropped);
                cr_assert_eq(order_open(&order, &config.order, &basis.order, config.epoch), 0);
                for (uint64_t p = 0; p < places - split.dropped; p++)
                    met[order_sample(order, p)] = true;
                order_close(order);
                for (int i = 0; i < 20; i++)
                    split.distinct -= met[i];
                cr_assert_eq(split.distinct, 0);
            }
    config_close(&config);
}

Test(check, a_last_batch_of_one_is_seen_and_a_batch_without_one_is_named)
{
    struct config config;
    struct check_split split;

    config_init(&config);
    cr_assert_eq(config_set(&config, "index", "none", "-o", "/"), 0);
    config.world = 2;
    cr_assert_eq(check_split_make(&split, &config,
                                  &(struct basis){.order = {.samples = 66}, .places = 66}, 32),
                 0);
    cr_assert_eq(split.last_of_longest, 1);
    cr_assert(check_split_ends_in_one(&split));
    cr_assert_eq(split.better_batch, 31);
    cr_assert_eq(split.batches_most, 2);
    cr_assert_eq(check_split_make(&split, &config,
                                  &(struct basis){.order = {.samples = 68}, .places = 68}, 32),
                 0);
    cr_assert(!check_split_ends_in_one(&split));
    config_close(&config);
}

/* A picture of each kind, repeated under other names, so that several threads have work. */
static void add_pictures(void)
{
    uint8_t *colour = picture_pixels(120, 90, 3, 1), *grey = picture_pixels(120, 90, 1, 2);
    uint8_t *inks = picture_pixels(120, 90, 4, 3);
    const struct picture_jpeg plain = {.channels = 3, .h = 2, .v = 2};
    const struct picture_jpeg one = {.channels = 1, .h = 1, .v = 1};
    const struct picture_jpeg four = {.channels = 4, .h = 1, .v = 1};
    const struct picture_png png = {.colour = 2, .depth = 8};
    struct picture_file good = picture_jpeg(colour, 120, 90, &plain);
    struct picture_file flat = picture_jpeg(grey, 120, 90, &one);
    struct picture_file cmyk = picture_jpeg(inks, 120, 90, &four);
    struct picture_file turned = picture_jpeg(colour, 120, 90, &plain);
    struct picture_file drawn = picture_png(colour, 120, 90, &png);
    struct picture_file bad = picture_jpeg(colour, 120, 90, &plain);
    struct archive *archive = archive_write_new();
    size_t room = (size_t)16 << 20, used = 0;
    char *tar = malloc(room);

    picture_orient(&turned, 6, false);
    /* In the scan, and no 0xff, so that no marker comes of it. */
    memset(bad.bytes + bad.size / 2, 0x55, 200);
    cr_assert(tar != NULL);
    archive_write_set_format_ustar(archive);
    cr_assert_eq(archive_write_open_memory(archive, tar, room, &used), ARCHIVE_OK);
    for (int i = 0; i < 20; i++) {
        const struct {
            const char *name;
            const struct picture_file *file;
            size_t size;
        } rows[] = {
            {"good.jpg", &good, good.size},       {"cut.jpg", &good, good.size * 6 / 10},
            {"grey.jpeg", &flat, flat.size},      {"cmyk.jpg", &cmyk, cmyk.size},
            {"turned.jpg", &turned, turned.size}, {"named.jpg", &drawn, drawn.size},
            {"drawn.png", &drawn, drawn.size},    {"cut.png", &drawn, drawn.size / 2},
            {"bad.jpg", &bad, bad.size},          {"none.jpg", &good, 2},
            {"text.txt", &good, good.size},       {"left.seg.png", &drawn, drawn.size},
        };
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            char name[64];
            snprintf(name, sizeof name, "%03d%s", i * 100 + (int)r, rows[r].name);
            shard_put(archive, name, rows[r].file->bytes, rows[r].size);
        }
        shard_put(archive, "web.webp", "RIFF....WEBPVP8 ", 16);
        shard_put(archive, "noise.jpg", "noise, and no picture", 21);
    }
    archive_write_close(archive);
    archive_write_free(archive);
    folder_add_bytes(&folder, "pictures.tar", tar, used);
    free(tar);
    free(good.bytes);
    free(flat.bytes);
    free(cmyk.bytes);
    free(turned.bytes);
    free(drawn.bytes);
    free(bad.bytes);
    free(colour);
    free(grey);
    free(inks);
}

static void check_pictures(unsigned threads)
{
    struct check_images images;
    struct dataset dataset;
    struct config config;

    config_init(&config);
    cr_assert_eq(config_set(&config, "index", "none", "-o", "/"), 0);
    config.label = CONFIG_LABEL_NONE;
    cr_assert_eq(shards_add(&config.shards, folder.shards.paths[0], "/"), 0);
    cr_assert_eq(dataset_open(&dataset, &config), 0);
    cr_assert_eq(check_images(&dataset, threads, problems, &images), 0);
    cr_assert_eq(images.pictures, 20 * 13);
    cr_assert_eq(images.jpeg, 20 * 7);
    cr_assert_eq(images.png, 20 * 4);
    cr_assert_eq(images.others, 20 * 2);
    dataset_close(&dataset);
    config_close(&config);
}

static uint64_t count_of(unsigned kind)
{
    return problems->groups[kind].count;
}

Test(check, pictures_are_told_apart_whatever_the_number_of_threads)
{
    static const unsigned threads[] = {1, 4};

    for (size_t i = 0; i < 2; i++) {
        begin(1, 2);
        add_pictures();
        check_pictures(threads[i]);
        /* Cut: a JPEG, a PNG, and one of which only the first two bytes are there. */
        cr_assert_eq(count_of(CHECK_IMAGE_TRUNCATED), 60);
        cr_assert_eq(count_of(CHECK_IMAGE_DAMAGED), 20);
        cr_assert_eq(count_of(CHECK_IMAGE_UNDECODABLE), 20);
        cr_assert_eq(count_of(CHECK_IMAGE_WRONG_FORMAT), 20);
        cr_assert_eq(count_of(CHECK_IMAGE_OTHER_FORMAT), 20);
        cr_assert_eq(count_of(CHECK_IMAGE_GREY), 20);
        cr_assert_eq(count_of(CHECK_IMAGE_CMYK), 20);
        cr_assert_eq(count_of(CHECK_IMAGE_ROTATED), 20);
        cr_assert_eq(count_of(CHECK_IMAGE_REFUSED), 0);
        cr_assert_str_eq(problems->groups[CHECK_IMAGE_ROTATED].examples[0].member, "004turned.jpg");
        cr_assert_str_eq(problems->groups[CHECK_IMAGE_ROTATED].examples[0].why, "orientation 6");
        cr_assert_str_eq(problems->groups[CHECK_IMAGE_WRONG_FORMAT].examples[1].member,
                         "105named.jpg");
        end();
    }
}

static struct check_idx write_idx(void)
{
    struct check_idx idx;

    cr_assert_eq(check_idx_write(&folder.shards, problems, &idx), 0);
    return idx;
}

static ino_t inode_of(const char *name)
{
    char path[128];
    struct stat status;

    snprintf(path, sizeof path, "%s/%s", folder.path, name);
    return stat(path, &status) ? 0 : status.st_ino;
}

Test(check, an_idx_has_each_member_as_stored_and_is_written_once)
{
    static const char expected[] = "v1.2 3\n"
                                   "JPG 512 1 ./d/x.JPG seg.png 2048 2 ./d/x.seg.png\n"
                                   "jpg 4096 3 y.jpg\n"
                                   "cls 4096 3 z.cls\n";
    struct check_idx idx;
    char path[128], *text;
    ino_t inode;
    size_t size;

    begin(1, 3);
    folder_add_tar(&folder, "a.b.tar", "ustar",
                   LIST("./d/x.JPG", "1", "d/", "", "./d/x.seg.png", "22", "._x.jpg", "l", "y.jpg",
                        "333", "z.cls", "=>y.jpg"));
    idx = write_idx();
    cr_assert(idx.written == 1 && idx.equal == 0 && idx.refused == 0);
    text = folder_read(&folder, "a.b.idx", &size);
    cr_assert_eq(size, strlen(expected));
    cr_assert_eq(memcmp(text, expected, size), 0);
    free(text);
    inode = inode_of("a.b.idx");
    idx = write_idx();
    cr_assert(idx.written == 0 && idx.equal == 1);
    cr_assert_eq(inode_of("a.b.idx"), inode);
    /* Another one, longer or shorter, is not left in place. */
    snprintf(path, sizeof path, "%s/a.b.idx", folder.path);
    cr_assert_eq(truncate(path, 40), 0);
    idx = write_idx();
    cr_assert(idx.written == 1 && idx.equal == 0);
    cr_assert_eq(count_of(CHECK_NO_IDX), 0);
    end();
}

Test(check, no_idx_is_written_of_what_dali_would_misread)
{
    struct check_idx idx;
    size_t size;
    char *tar;

    begin(5, 8);
    folder_add_tar(&folder, "blank.tar", "ustar", LIST("a.jpg", "1", "b b.jpg", "2"));
    folder_add_tar(&folder, "gz.tar", "gzip", LIST("a.jpg", "1"));
    folder_add_tar(&folder, "empty.tar", "ustar", LIST("README", "1"));
    folder_add_tar(&folder, "whole.tar", "ustar", LIST("a.jpg", "1", "b.jpg", "2"));
    tar = folder_read(&folder, "whole.tar", &size);
    folder_add_bytes(&folder, "cut.tar", tar, 1024 + 512);
    free(tar);
    idx = write_idx();
    cr_assert_eq(idx.written, 1);
    cr_assert_eq(idx.refused, 4);
    cr_assert_eq(inode_of("blank.idx"), 0);
    cr_assert_eq(inode_of("gz.idx"), 0);
    cr_assert_eq(inode_of("empty.idx"), 0);
    cr_assert_eq(inode_of("cut.idx"), 0);
    cr_assert(inode_of("whole.idx") != 0);
    cr_assert_str_eq(problems->groups[CHECK_NO_IDX].examples[0].member, "b b.jpg");
    end();
}

Test(check, an_idx_that_cannot_be_written_is_told_of)
{
    char path[128];
    struct check_idx idx;

    begin(1, 3);
    folder_add_tar(&folder, "a.tar", "ustar", LIST("a.jpg", "1"));
    snprintf(path, sizeof path, "%s/a.idx", folder.path);
    cr_assert_eq(mkdir(path, 0755), 0);
    idx = write_idx();
    cr_assert_eq(idx.refused, 1);
    cr_assert(strstr(problems->groups[CHECK_NO_IDX].examples[0].why, "a.idx: ") != NULL);
    cr_assert_eq(rmdir(path), 0);
    end();
}
