/* Pictures measured by their headers, for `lengths=`: each by as little of it as tells, in the
 * order of the samples, into a file that is whole or not there. */
#include "unit.h"

#include "picture.h"
#include "shard.h"

#include "../../check/lengths.h"
#include "../../core/numbers.h"
#include "../../loader/image.h"

#include <archive.h>
#include <archive_entry.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KINDS = 8, ROUNDS = 25, MEGABYTE = 1000000 };

static const struct {
    int width, height;
} sizes[KINDS] = {{120, 90}, {64, 48}, {1, 1}, {31, 70}, {33, 17}, {80, 60}, {200, 3}, {48, 64}};

static struct shard_folder folder;
static struct check_problems *problems;
static struct picture_file files[KINDS];
static char path[128];

static struct picture_file jpeg_of(int kind, struct picture_jpeg how)
{
    int width = sizes[kind].width, height = sizes[kind].height;
    uint8_t *pixels = picture_pixels(width, height, how.channels, 1);
    struct picture_file file = picture_jpeg(pixels, width, height, &how);

    free(pixels);
    return file;
}

static struct picture_file png_of(int kind, struct picture_png how, int channels)
{
    int width = sizes[kind].width, height = sizes[kind].height;
    uint8_t *pixels = picture_pixels(width, height, channels, 1);
    struct picture_file file = picture_png(pixels, width, height, &how);

    free(pixels);
    return file;
}

/* Puts an APP2 of 65,535 bytes after SOI, as of a colour profile. */
static void push_back(struct picture_file *file)
{
    enum { LENGTH = 65535 };
    uint8_t *segment = calloc(1, LENGTH + 2);

    cr_assert(segment != NULL);
    memcpy(segment, "\xff\xe2\xff\xff", 4);
    picture_insert(file, 2, segment, LENGTH + 2);
    free(segment);
}

static void make_pictures(void)
{
    files[0] = jpeg_of(0, (struct picture_jpeg){.channels = 3, .h = 2, .v = 2});
    files[1] = jpeg_of(1,
                       (struct picture_jpeg){.channels = 3, .h = 1, .v = 1, .progressive = true});
    files[2] = jpeg_of(2, (struct picture_jpeg){.channels = 1, .h = 1, .v = 1});
    files[3] = jpeg_of(3, (struct picture_jpeg){.channels = 4, .h = 1, .v = 1});
    files[4] = png_of(4, (struct picture_png){.colour = 2, .depth = 8}, 3);
    files[5] = png_of(5, (struct picture_png){.colour = 2, .depth = 8, .interlaced = true}, 3);
    files[6] = jpeg_of(6, (struct picture_jpeg){.channels = 3, .h = 2, .v = 1});
    push_back(&files[6]);
    files[7] = jpeg_of(7, (struct picture_jpeg){.channels = 3, .h = 2, .v = 2});
    picture_orient(&files[7], 6, true);
}

/* A sample of each kind, in so many rounds, and after each third one a sample without a picture,
 * which `fields=` leaves out. `bad`: one more, of these bytes. */
static void make_shard(int rounds, const char *bad, size_t bad_size)
{
    struct archive *archive = archive_write_new();
    char file[256], key[64];

    snprintf(file, sizeof file, "%s/a.tar", folder.path);
    archive_write_set_format_ustar(archive);
    cr_assert_eq(archive_write_open_filename(archive, file), ARCHIVE_OK);
    for (int i = 0; i < rounds * KINDS; i++) {
        bool png = i % KINDS == 4 || i % KINDS == 5;
        snprintf(key, sizeof key, "%05d.txt", i);
        shard_put(archive, key, "text", 4);
        snprintf(key, sizeof key, "%05d.%s", i, png ? "png" : "jpg");
        shard_put(archive, key, files[i % KINDS].bytes, files[i % KINDS].size);
        snprintf(key, sizeof key, "%05dx.txt", i);
        if (i % 3 == 0)
            shard_put(archive, key, "text", 4);
    }
    if (bad)
        shard_put(archive, "bad.jpg", bad, bad_size);
    archive_write_close(archive);
    archive_write_free(archive);
    cr_assert_eq(shards_add(&folder.shards, file, "/"), 0);
}

static void begin(void)
{
    report_watch(NULL);
    folder_make(&folder);
    snprintf(path, sizeof path, "%s/lengths.txt", folder.path);
    cr_assert_eq(check_problems_open(&problems, 2, 3), 0);
    make_pictures();
}

static void end(void)
{
    check_problems_close(problems);
    problems = NULL;
    for (int i = 0; i < KINDS; i++)
        free(files[i].bytes);
    folder_remove(&folder);
    report_stop();
}

static struct check_lengths write_lengths(unsigned threads)
{
    struct check_lengths lengths;
    struct dataset dataset;
    struct config config;

    config_init(&config);
    cr_assert_eq(config_set(&config, "index", "none", "-o", "/"), 0);
    cr_assert_eq(config_set(&config, "fields", "jpg/png", "-o", "/"), 0);
    config.label = CONFIG_LABEL_NONE;
    for (size_t i = 0; i < folder.shards.count; i++)
        cr_assert_eq(shards_add(&config.shards, folder.shards.paths[i], "/"), 0);
    cr_assert_eq(dataset_open(&dataset, &config), 0);
    cr_assert_eq(check_lengths_write(&dataset, path, threads, problems, &lengths), 0);
    dataset_close(&dataset);
    config_close(&config);
    return lengths;
}

Test(lengths, a_line_a_sample_in_order_whatever_the_number_of_threads)
{
    static const unsigned threads[] = {1, 4};
    struct check_lengths lengths;
    uint64_t *read, hash, first = 0;

    begin();
    make_shard(ROUNDS, NULL, 0);
    for (size_t t = 0; t < 2; t++) {
        lengths = write_lengths(threads[t]);
        cr_assert(lengths.written);
        cr_assert_eq(lengths.samples, ROUNDS * KINDS);
        cr_assert_eq(lengths.png, ROUNDS * 2);
        cr_assert_eq(lengths.jpeg, ROUNDS * 6);
        cr_assert_eq(lengths.shortest, 1);
        cr_assert_eq(lengths.longest, 120 * 90);
        cr_assert_eq(numbers_read_lengths(path, ROUNDS * KINDS, &read, &hash), 0);
        for (int i = 0; i < ROUNDS * KINDS; i++)
            cr_assert_eq(read[i],
                         (uint64_t)sizes[i % KINDS].width * (uint64_t)sizes[i % KINDS].height,
                         "sample %d: %llu", i, (unsigned long long)read[i]);
        free(read);
        first = t ? first : hash;
        cr_assert_eq(hash, first);
    }
    cr_assert_eq(check_problems_total(problems, true), 0);
    end();
}

Test(lengths, pictures_are_not_read_beyond_their_headers)
{
    struct check_lengths lengths;
    size_t most = 0;

    begin();
    /* Long pictures with short headers. */
    for (int i = 0; i < KINDS; i++) {
        files[i].bytes = realloc(files[i].bytes, files[i].size + MEGABYTE);
        cr_assert(files[i].bytes != NULL);
        memset(files[i].bytes + files[i].size, 0, MEGABYTE);
        files[i].size += MEGABYTE;
        /* The sixth one's header is 5 * 64 KiB: 4 KiB, 32, 256, 2 MiB, of which the file is less.
         */
        most += i == 6 ? 256 * 1024 : 4096;
    }
    make_shard(1, NULL, 0);
    lengths = write_lengths(2);
    cr_assert(lengths.written);
    cr_assert_eq(lengths.bytes, most, "%llu", (unsigned long long)lengths.bytes);
    end();
}

Test(lengths, one_that_cannot_be_measured_is_named_and_nothing_is_written)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *why;
    } rows[] = {
        {"RIFF....WEBPVP8 ", 16, "webp, of which no header is read, only of JPEG and PNG"},
        {"GIF89a..........", 16, "gif, of which no header is read, only of JPEG and PNG"},
        {"noise, and no picture", 21, "no picture format that is known"},
        {"", 0, "no bytes"},
        {"\xff\xd8\xff\xd9", 4, "JPEG datastream contains no image"},
        {"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0", 18, "file ends too early"},
    };
    struct check_lengths lengths;
    struct check_example *example;

    begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_shard(1, rows[i].bytes, rows[i].size);
        lengths = write_lengths(2);
        free(folder.shards.paths[--folder.shards.count]);
        cr_assert(!lengths.written);
        cr_assert_eq(lengths.measured, KINDS);
        cr_assert(access(path, F_OK) != 0);
        cr_assert_eq(problems->groups[CHECK_NO_LENGTH].count, 1);
        example = &problems->groups[CHECK_NO_LENGTH].examples[0];
        cr_assert_str_eq(example->member, "bad.jpg");
        cr_assert(example->shard == 0 && example->offset % 512 == 0 && example->offset > 512);
        cr_assert(strncmp(example->why, rows[i].why, strlen(rows[i].why)) == 0, "%s", example->why);
        check_problems_close(problems);
        cr_assert_eq(check_problems_open(&problems, 2, 3), 0);
    }
    end();
}

/* What measuring by a part of a file stands on: as long as the header is not whole, the decoder
 * says that bytes are missing, whatever it takes the part for. */
Test(lengths, no_part_of_a_header_is_taken_for_the_whole)
{
    const struct image_recipe recipe = {.width = 1,
                                        .height = 1,
                                        .crop = IMAGE_STRETCH,
                                        .pixels_most = UINT64_MAX,
                                        .scans_most = INT_MAX};
    struct image_decoder *decoder;
    struct image_report report;
    int width, height;

    begin();
    cr_assert_eq(image_decoder_open(&decoder, &recipe), 0);
    for (int i = 0; i < KINDS; i++) {
        size_t all = files[i].size;
        bool known = false;
        /* Each size, but in the long ones' segments. */
        for (size_t size = 8; size <= all; size += all - size > 2000 ? 997 : 1) {
            /* Of its own length, so that a sanitizer sees what is read behind it. */
            uint8_t *part = malloc(size);
            int result;
            cr_assert(part != NULL);
            memcpy(part, files[i].bytes, size);
            result = image_decoder_look(decoder, part, size, &width, &height, &report);
            free(part);
            cr_assert(result == 0 || !known, "kind %d, %zu bytes", i, size);
            if (report.truncated)
                continue;
            cr_assert_eq(result, 0, "kind %d, %zu bytes: %s", i, size, report.why);
            cr_assert(width == sizes[i].width && height == sizes[i].height, "kind %d, %zu bytes", i,
                      size);
            known = true;
        }
        cr_assert(known);
    }
    image_decoder_close(decoder);
    end();
}

static bool may_write(const char *text)
{
    FILE *file = fopen(path, "w");

    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
    return check_lengths_may_write(path);
}

Test(lengths, no_file_but_one_of_numbers_is_written_over)
{
    begin();
    cr_assert(check_lengths_may_write(path));
    cr_assert(check_lengths_may_write("-"));
    cr_assert(check_lengths_may_write("/dev/null"));
    cr_assert(may_write(""));
    cr_assert(may_write("12"));
    cr_assert(may_write("12\n13\n"));
    cr_assert(may_write("12\r\n13\r\n"));
    cr_assert(!may_write("x"));
    cr_assert(report_watch("it stays as it is"));
    cr_assert(!may_write("12 apples\n"));
    cr_assert(!may_write("\n"));
    cr_assert(!may_write("0001.jpg"));
    end();
}
