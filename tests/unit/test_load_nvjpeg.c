/* Pictures decoded on a GPU, both of which are fake ones here: the pixels are those that the host
 * makes of the same decoded picture, bit for bit, in the same order, and what cannot be decoded
 * there the host decodes, one by one. */
#include "fake_cuda.h"
#include "fake_nvjpeg.h"
#include "load.h"
#include "picture.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <png.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIDTH_UNSUPPORTED = 71, WIDTH_BROKEN = 73 };

static struct load_folder folder;

static void begin_fakes(const struct fake_cuda *cuda, const struct fake_nvjpeg *nvjpeg)
{
    fake_cuda_begin(cuda);
    fake_nvjpeg_begin(nvjpeg);
}

static void begin(const struct fake_cuda *cuda, const struct fake_nvjpeg *nvjpeg)
{
    load_folder_make(&folder);
    begin_fakes(cuda, nvjpeg);
}

static void end_fakes(void)
{
    unsigned things = fake_nvjpeg_end(), misuses = fake_nvjpeg_misuses();
    unsigned left = fake_cuda_end(), more = fake_cuda_misuses();

    cr_assert_eq(things, 0, "%u things of nvJPEG were not given back", things);
    cr_assert_eq(misuses, 0, "%u calls that nvJPEG does not allow", misuses);
    cr_assert_eq(left, 0, "%u things of the device were not given back", left);
    cr_assert_eq(more, 0, "%u calls that CUDA does not allow", more);
}

static void end(void)
{
    load_folder_remove(&folder);
    end_fakes();
}

/* What is said on standard error at most once a process, or while closing after a fault. */
static int quiet(void)
{
    int kept = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);

    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
    return kept;
}

static void loud(int kept)
{
    dup2(kept, STDERR_FILENO);
    close(kept);
}

/* All that a batch says, content as it is on the device. */
static uint64_t hash_batch(const struct sl_batch *batch)
{
    size_t element = batch->output == SL_FLOAT32_NCHW                                        ? 4
                     : batch->output == SL_FLOAT16_NCHW || batch->output == SL_BFLOAT16_NCHW ? 2
                                                                                             : 1;
    uint64_t hash = load_hash(LOAD_HASH, batch->data,
                              batch->count * (size_t)batch->strides[0] * element);

    hash = load_hash(hash, &batch->count, sizeof batch->count);
    hash = load_hash(hash, &batch->asked, sizeof batch->asked);
    hash = load_hash(hash, batch->labels, batch->asked * sizeof *batch->labels);
    hash = load_hash(hash, batch->statuses, batch->asked * sizeof *batch->statuses);
    hash = load_hash(hash, batch->positions, batch->asked * sizeof *batch->positions);
    for (uint64_t i = 0; i < batch->asked; i++)
        hash = load_hash(hash, batch->names[i], strlen(batch->names[i]));
    return hash;
}

/* An epoch as one number; `stats` (may be NULL): at its end. */
static uint64_t epoch(const struct sl_config *config, struct sl_stats *stats)
{
    struct sl_loader *loader = load_open(config);
    uint64_t hash = LOAD_HASH;
    struct sl_batch *batch;
    int status;

    while ((status = sl_next(loader, &batch, 60000)) == 0 || status == SL_PARTIAL) {
        uint64_t one;

        cr_assert_eq(batch->device, config->device);
        cr_assert_eq(sl_batch_wait(batch, SL_STREAM_HOST), 0, "%s", sl_error(loader));
        one = hash_batch(batch);
        hash = load_hash(hash, &one, sizeof one);
        cr_assert_eq(sl_batch_release(batch, SL_STREAM_HOST), 0);
    }
    cr_assert_eq(status, SL_END, "%s", sl_error(loader));
    if (stats) {
        stats->size = sizeof *stats;
        cr_assert_eq(sl_stats(loader, stats), 0);
    }
    sl_close(loader);
    return hash;
}

static struct sl_config config_of(const char *name)
{
    struct sl_config config = load_config(load_path(&folder, name));

    config.exact = 1; /* the host, too, resizes whole pictures */
    config.decode_bytes = 4 << 20;
    config.mean[1] = 0.456F;
    config.deviation[0] = config.deviation[1] = config.deviation[2] = 0.225F;
    return config;
}

static uint64_t host_epoch(struct sl_config config)
{
    config.device = SL_DEVICE_HOST;
    config.decode = SL_DECODE_HOST;
    return epoch(&config, NULL);
}

static uint64_t device_epoch(struct sl_config config, struct sl_stats *stats)
{
    config.device = SL_DEVICE_CUDA(0);
    config.decode = SL_DECODE_DEVICE;
    return epoch(&config, stats);
}

Test(load_nvjpeg, every_output_and_crop_has_the_hosts_bits_of_the_same_decoded_picture)
{
    struct sl_stats stats;
    unsigned turn = 0;

    begin(&(struct fake_cuda){.late_us = 30}, &(struct fake_nvjpeg){.late_us = 60});
    load_write_tar(&folder, "s.tar", 45, 44); /* the last one, alone in its batch's end */
    load_write_pictures(&folder, "p/%03u.jpg", 45);
    for (int output = SL_UINT8_NHWC; output <= SL_BFLOAT16_NCHW; output++)
        for (int crop = SL_CROP_RANDOM_RESIZED; crop <= SL_STRETCH; crop++) {
            bool tar = turn % 2;
            struct sl_config config = config_of(tar ? "s.tar" : "p");
            bool odd = turn++ % 3 == 2;

            if (output == SL_BYTES)
                continue;
            config.output = (enum sl_output)output;
            config.crop = (enum sl_crop)crop;
            config.width = odd ? 23 : 24;
            config.height = odd ? 21 : 24;
            cr_assert_eq(host_epoch(config), device_epoch(config, &stats), "output %d, crop %d",
                         output, crop);
            cr_assert_eq(stats.device_decoded, tar ? 44 : 45);
            cr_assert_eq(stats.fallbacks, tar, "%s", stats.last_fallback);
        }
    end();
}

/* --- Odd pictures --- */

static void write_file(const char *name, struct picture_file file)
{
    load_write(&folder, name, file.bytes, file.size);
    free(file.bytes);
}

static struct picture_file jpeg_of(int width, int height, struct picture_jpeg how)
{
    uint8_t *pixels = picture_pixels(width, height, how.channels, (unsigned)width);
    struct picture_file file = picture_jpeg(pixels, width, height, &how);

    free(pixels);
    return file;
}

/* Pictures that the device decodes, in between what it should not. */
static void write_odd(void)
{
    const struct picture_jpeg plain = {.channels = 3, .h = 2, .v = 2};
    struct picture_file file;
    uint8_t *pixels;

    load_write_pictures(&folder, "odd/%02u-a.jpg", 21);
    write_file("odd/01-b.jpg",
               jpeg_of(50, 40, (struct picture_jpeg){.channels = 1, .h = 1, .v = 1}));
    write_file(
        "odd/02-b.jpg",
        jpeg_of(50, 40, (struct picture_jpeg){.channels = 3, .h = 1, .v = 1, .restart_rows = 1}));
    /* Kinds that the host has to decode. */
    write_file(
        "odd/03-b.jpg",
        jpeg_of(51, 40, (struct picture_jpeg){.channels = 3, .h = 2, .v = 2, .progressive = true}));
    write_file("odd/04-b.jpg",
               jpeg_of(52, 40, (struct picture_jpeg){.channels = 4, .h = 1, .v = 1}));
    write_file("odd/05-b.jpg",
               jpeg_of(53, 40, (struct picture_jpeg){.channels = 3, .h = 1, .v = 1, .rgb = true}));
    file = jpeg_of(54, 40, plain);
    picture_orient(&file, 6, true);
    write_file("odd/06-b.jpg", file);
    file = jpeg_of(55, 40, plain);
    file.size -= 2; /* its end marker: the host does not even look that far */
    write_file("odd/07-b.jpg", file);
    file = jpeg_of(156, 140, plain);
    file.size = file.size * 2 / 3; /* damaged */
    write_file("odd/08-b.jpg", file);
    pixels = picture_pixels(57, 40, 3, 9);
    write_file("odd/09-b.png",
               picture_png(pixels, 57, 40,
                           &(struct picture_png){.colour = PNG_COLOR_TYPE_RGB, .depth = 8}));
    free(pixels);
    load_write(&folder, "odd/10-b.jpg", "no picture", 10);
    load_write(&folder, "odd/11-b.jpg", "", 0);
    /* Those that nvJPEG refuses, before and at decoding; and one too large for its memory. */
    write_file("odd/12-b.jpg", jpeg_of(WIDTH_UNSUPPORTED, 40, plain));
    write_file("odd/13-b.jpg", jpeg_of(WIDTH_BROKEN, 40, plain));
    write_file("odd/14-b.jpg", jpeg_of(1000, 900, plain));
}

Test(load_nvjpeg, mixed_pictures_keep_their_order_and_statuses_and_each_fall_back_is_counted)
{
    static const enum sl_bad ways[] = {SL_BAD_REPLACE, SL_BAD_SKIP};
    struct sl_stats stats;

    begin(&(struct fake_cuda){.late_us = 30},
          &(struct fake_nvjpeg){
              .late_us = 60, .unsupported_width = WIDTH_UNSUPPORTED, .broken_width = WIDTH_BROKEN});
    write_odd();
    for (unsigned turn = 0; turn < 8; turn++) {
        struct sl_config config = config_of("odd");
        unsigned kinds = turn % 2 ? 9 : 8;

        config.output = turn / 4 ? SL_FLOAT16_NCHW : SL_UINT8_NHWC;
        config.orient = turn % 2;
        config.bad = ways[turn / 2 % 2];
        config.damaged_is_bad = turn / 4;
        config.batch_size = turn < 4 ? 8 : 5;
        cr_assert_eq(host_epoch(config), device_epoch(config, &stats), "turn %u", turn);
        cr_assert_eq(stats.fallbacks_kind, kinds, "turn %u: %llu", turn,
                     (unsigned long long)stats.fallbacks_kind);
        cr_assert_eq(stats.fallbacks_refused, 2);
        cr_assert_eq(stats.fallbacks_large, 1);
        cr_assert_eq(stats.fallbacks, kinds + 3);
        cr_assert_eq(stats.device_decoded, 21 + 14 - kinds - 3);
        cr_assert_eq(stats.decoded, 21 + 14);
        cr_assert_eq(stats.bad, config.damaged_is_bad ? 2 + stats.damaged : 2);
        cr_assert(strstr(stats.last_fallback, "odd/") == NULL && stats.last_fallback[0], "%s",
                  stats.last_fallback);
    }
    end();
}

Test(load_nvjpeg, a_bad_sample_is_an_error_where_the_configuration_says_so)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;
    int status;

    begin(&(struct fake_cuda){.late_us = 30}, &(struct fake_nvjpeg){.late_us = 60});
    write_odd();
    config = config_of("odd");
    config.bad = SL_BAD_FAIL;
    config.device = SL_DEVICE_CUDA(0);
    config.decode = SL_DECODE_DEVICE;
    loader = load_open(&config);
    while ((status = sl_next(loader, &batch, 60000)) == 0)
        cr_assert_eq(sl_release(loader, batch), 0);
    cr_assert_eq(status, -EBADMSG);
    cr_assert(strstr(sl_error(loader), "10-b.jpg") != NULL, "%s", sl_error(loader));
    sl_close(loader);
    end();
}

/* Damage that no marker shows: nvJPEG refuses it, and the host says what it is. */
Test(load_nvjpeg, a_damaged_picture_that_nvjpeg_refuses_has_the_hosts_status)
{
    struct sl_stats stats;
    struct sl_config config;
    struct picture_file file;

    begin(&(struct fake_cuda){0}, &(struct fake_nvjpeg){0});
    load_write_pictures(&folder, "p/%02u.jpg", 7);
    file = jpeg_of(60, 60, (struct picture_jpeg){.channels = 3, .h = 2, .v = 2});
    for (size_t i = file.size - 200; i < file.size - 2; i++)
        file.bytes[i] = file.bytes[i - 1] == 0xff ? 0 : 0xaa;
    write_file("p/03-b.jpg", file);
    config = config_of("p");
    config.crop = SL_STRETCH;
    cr_assert_eq(host_epoch(config), device_epoch(config, &stats));
    cr_assert_eq(stats.damaged, 1);
    cr_assert_eq(stats.fallbacks_refused, 1, "%s", stats.last_fallback);
    cr_assert(strstr(stats.last_fallback,
                     "03-b.jpg: nvjpegDecodeBatched: NVJPEG_STATUS_BAD_JPEG") != NULL,
              "%s", stats.last_fallback);
    cr_assert_eq(stats.device_decoded, 7);
    end();
}

/* --- Memory --- */

static void write_large(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char name[32];

        snprintf(name, sizeof name, "large/%02u.jpg", i);
        write_file(name, jpeg_of(300 + (int)(i * 37 % 91), 280 + (int)(i * 53 % 67),
                                 (struct picture_jpeg){.channels = 3, .h = 2, .v = 2}));
    }
}

Test(load_nvjpeg, batches_that_the_memory_has_no_room_for_are_decoded_in_parts)
{
    struct sl_stats stats;
    struct sl_config config;

    begin(&(struct fake_cuda){.late_us = 100}, &(struct fake_nvjpeg){.late_us = 300});
    write_large(24);
    config = config_of("large");
    cr_assert_eq(host_epoch(config), device_epoch(config, &stats));
    cr_assert_eq(stats.device_decoded, 24);
    cr_assert(fake_nvjpeg_largest() >= 3 && fake_nvjpeg_largest() < 8, "%u", fake_nvjpeg_largest());
    end();
}

/* All pictures of an epoch, however they are put into batches. */
static uint64_t hash_pictures(struct sl_config config, struct sl_stats *stats)
{
    struct sl_loader *loader;
    struct sl_batch *batch;
    uint64_t hash = LOAD_HASH;

    config.device = SL_DEVICE_CUDA(0);
    config.decode = SL_DECODE_DEVICE;
    loader = load_open(&config);
    while (sl_next(loader, &batch, 60000) != SL_END) {
        cr_assert(batch != NULL, "%s", sl_error(loader));
        cr_assert_eq(sl_batch_wait(batch, SL_STREAM_HOST), 0);
        hash = load_hash(hash, batch->data, batch->count * (size_t)batch->strides[0]);
        cr_assert_eq(sl_batch_release(batch, SL_STREAM_HOST), 0);
    }
    stats->size = sizeof *stats;
    cr_assert_eq(sl_stats(loader, stats), 0);
    sl_close(loader);
    return hash;
}

/* What does not fit its memory beside others is decoded alone, and what it has no room for at all
 * the host decodes: the same ones, whatever came before. */
Test(load_nvjpeg, which_pictures_nvjpeg_has_memory_for_depends_on_nothing_else)
{
    static const uint64_t sizes[] = {8, 1, 3, 16};
    struct sl_stats stats;
    uint64_t first = 0;

    begin(&(struct fake_cuda){0}, &(struct fake_nvjpeg){.bytes_a_pixel = 17});
    write_large(16);
    for (int turn = 0; turn < 4; turn++) {
        struct sl_config config = config_of("large");
        uint64_t hash;

        config.workers = turn + 1;
        config.batch_size = sizes[turn];
        config.exact = 0; /* so that it shows who has decoded a picture */
        hash = hash_pictures(config, &stats);
        cr_assert(stats.device_decoded > 2 && stats.fallbacks_large > 2, "%llu and %llu",
                  (unsigned long long)stats.device_decoded,
                  (unsigned long long)stats.fallbacks_large);
        cr_assert_eq(stats.device_decoded + stats.fallbacks_large, 16);
        cr_assert(turn == 0 || hash == first, "batches of %llu",
                  (unsigned long long)config.batch_size);
        first = hash;
    }
    end();
}

Test(load_nvjpeg, nothing_is_allocated_on_the_device_after_open)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;
    uint64_t made;

    begin(&(struct fake_cuda){0}, &(struct fake_nvjpeg){.bytes_a_pixel = 3});
    write_large(16);
    config = config_of("large");
    config.device = SL_DEVICE_CUDA(0);
    config.decode = SL_DECODE_DEVICE;
    loader = load_open(&config);
    made = fake_cuda_taken();
    for (int epoch = 0; epoch < 3; epoch++) {
        cr_assert_eq(sl_set_epoch(loader, (uint64_t)epoch), 0);
        while (sl_next(loader, &batch, 60000) == 0)
            cr_assert_eq(sl_release(loader, batch), 0);
    }
    cr_assert_eq(fake_cuda_taken(), made);
    sl_close(loader);
    end();
}

/* --- The barrier --- */

#ifdef __SANITIZE_THREAD__
#define RACES true
/* Of the calls that are made to fail: slow here, and the other builds have every one. */
enum { STEP_NVJPEG = 2, STEP_CUDA = 3 };
#else
#define RACES false
enum { STEP_NVJPEG = 1, STEP_CUDA = 1 };
#endif

/* Slots have two events each, and the decoder's comes after them. */
enum { SLOTS = 3, DECODER_EVENT = 2 * SLOTS + 1 };

/* That the tests above can fail: without the host's wait round nvJPEG's call, pictures are resized
 * before they are written, or written over before that. */
Test(load_nvjpeg, without_the_hosts_wait_round_the_decoder_pictures_are_wrong)
{
    unsigned wrong = 0;

    if (RACES)
        cr_skip_test("races on purpose, which this build reports");
    for (int skipped = 0; skipped < 2; skipped++) {
        struct sl_config config;

        begin(&(struct fake_cuda){.late_us = 50, .no_waits_for_event = skipped ? DECODER_EVENT : 0},
              &(struct fake_nvjpeg){.late_us = 2000});
        write_large(24);
        config = config_of("large");
        wrong = host_epoch(config) != device_epoch(config, NULL);
        cr_assert_eq(wrong, (unsigned)skipped);
        if (!skipped) {
            end();
            continue;
        }
        /* What was written over before it was read is a misuse, too: of no interest here. */
        cr_assert_eq(fake_nvjpeg_end(), 0);
        cr_assert_eq(fake_cuda_end(), 0);
        load_folder_remove(&folder);
    }
}

/* --- Faults --- */

Test(load_nvjpeg, a_failing_call_of_nvjpegs_at_every_place_changes_no_byte_and_leaves_nothing)
{
    static const int statuses[] = {NVJPEG_EXECUTION_FAILED, NVJPEG_ALLOCATOR_FAILURE,
                                   NVJPEG_BAD_JPEG};
    struct sl_config config;
    uint64_t host;
    int kept;

    load_folder_make(&folder);
    load_write_pictures(&folder, "p/%03u.jpg", 11);
    host = host_epoch(config_of("p"));
    kept = quiet();

    for (int on = 0; on < 2; on++) {
        uint64_t number = 1;
        bool failed = true;

        for (; failed; number += on ? 5 : STEP_NVJPEG) {
            begin_fakes(&(struct fake_cuda){0},
                        &(struct fake_nvjpeg){.fail_at = number,
                                              .fail_on = on,
                                              .fail_with = statuses[number % 3],
                                              .bytes_a_pixel = 1});
            config = config_of("p");
            config.workers = 1;
            cr_assert_eq(host, device_epoch(config, NULL), "call %llu", (unsigned long long)number);
            failed = fake_nvjpeg_failed();
            end_fakes();
        }
        cr_assert(number > 30, "only %llu calls", (unsigned long long)number);
    }
    loud(kept);
    load_folder_remove(&folder);
}

Test(load_nvjpeg, a_failing_call_of_cudas_at_every_place_is_told_and_leaves_nothing)
{
    int kept;

    load_folder_make(&folder);
    load_write_pictures(&folder, "p/%03u.jpg", 11);
    kept = quiet();

    for (int on = 0; on < 2; on++) {
        uint64_t number = 1;
        bool failed = true;

        for (; failed; number += on ? 7 : STEP_CUDA) {
            struct sl_config config;
            struct sl_loader *loader = NULL;
            struct sl_batch *batch;
            int status;

            begin_fakes(&(struct fake_cuda){.fail_at = number, .fail_on = on},
                        &(struct fake_nvjpeg){.bytes_a_pixel = 1});
            config = config_of("p");
            config.device = SL_DEVICE_CUDA(0);
            config.decode = SL_DECODE_DEVICE;
            status = sl_open(&loader, &config);
            while (loader &&
                   ((status = sl_next(loader, &batch, 60000)) == 0 || status == SL_PARTIAL))
                if (sl_batch_wait(batch, SL_STREAM_HOST) || sl_batch_release(batch, SL_STREAM_HOST))
                    break;
            failed = fake_cuda_failed();
            cr_assert(status != SL_TIMEOUT);
            cr_assert(!failed || strstr(sl_error(loader), "a fault of the fake") != NULL,
                      "call %llu: %s", (unsigned long long)number, sl_error(loader));
            sl_close(loader);
            failed = fake_cuda_failed();
            end_fakes();
        }
        cr_assert(number > 50, "only %llu calls", (unsigned long long)number);
    }
    loud(kept);
    load_folder_remove(&folder);
}

/* --- Where it cannot be used --- */

Test(load_nvjpeg, without_an_engine_the_gpus_own_cores_decode)
{
    struct sl_stats stats;
    struct sl_config config;

    begin(&(struct fake_cuda){0}, &(struct fake_nvjpeg){.no_hardware = true});
    load_write_pictures(&folder, "p/%03u.jpg", 11);
    config = config_of("p");
    cr_assert_eq(host_epoch(config), device_epoch(config, &stats));
    cr_assert_eq(stats.device_decoded, 11);
    end();
}

Test(load_nvjpeg, where_nvjpeg_cannot_be_used_the_host_decodes_and_the_reason_is_told)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;
    struct sl_stats stats = {.size = sizeof stats};
    int kept;

    begin(&(struct fake_cuda){0}, &(struct fake_nvjpeg){.fail_at = 1, .fail_on = true});
    load_write_pictures(&folder, "p/%03u.jpg", 8);
    config = config_of("p");
    config.device = SL_DEVICE_CUDA(0);
    config.decode = SL_DECODE_DEVICE;
    kept = quiet();
    loader = load_open(&config);
    loud(kept);
    cr_assert(strstr(sl_error(loader),
                     "pictures are decoded on the host: nvJPEG cannot be used: "
                     "nvjpegCreateExV2: NVJPEG_STATUS_EXECUTION_FAILED (6)") != NULL,
              "%s", sl_error(loader));
    cr_assert_eq(sl_next(loader, &batch, 60000), 0);
    cr_assert_eq(batch->device, SL_DEVICE_CUDA(0));
    cr_assert_eq(sl_stats(loader, &stats), 0);
    cr_assert_eq(stats.device_decoded + stats.fallbacks, 0);
    sl_close(loader);
    end();
}

/* A loader of a library that has it all but for what the test takes away. */
static int linked_major, linked_gone, linked_open;
static const char *linked_refused;

static int linked_property(int which, int *value)
{
    *value = which == 0 ? linked_major : 0;
    return linked_major ? 0 : 1;
}

static void *linked_open_library(const char *name)
{
    static int library;

    if (linked_refused && strstr(name, linked_refused))
        return NULL;
    linked_open++;
    return &library;
}

static void *linked_symbol(void *library, const char *name)
{
    (void)library;
    if (linked_gone-- == 0)
        return NULL;
    if (strcmp(name, "nvjpegGetProperty") == 0) {
        int (*function)(int, int *) = linked_property;
        void *address;

        memcpy(&address, &function, sizeof address);
        return address;
    }
    return (void *)name; /* never called */
}

static const char *linked_error(void)
{
    return "cannot open shared object file";
}

static void linked_close(void *library)
{
    (void)library;
    linked_open--;
}

static int load_linked(const char *name, int major, int gone, const char *refused,
                       struct fault *why)
{
    static const struct nvjpeg_linker linker = {linked_open_library, linked_symbol, linked_error,
                                                linked_close};
    struct nvjpeg_table table;

    linked_major = major;
    linked_gone = gone;
    linked_refused = refused;
    linked_open = 0;
    why->text[0] = '\0';
    return nvjpeg_load(&table, name, &linker, why);
}

Test(load_nvjpeg, a_library_that_is_not_there_or_of_another_version_or_lacks_a_function_is_named)
{
    struct fault why;

    cr_assert_eq(load_linked(NULL, 13, -1, NULL, &why), 0, "%s", why.text);
    cr_assert_eq(load_linked(NULL, 12, -1, "so.13", &why), 0, "%s", why.text);
    cr_assert_eq(linked_open, 1);
    cr_assert_eq(load_linked(NULL, 13, -1, "libnvjpeg", &why), -ENOENT);
    cr_assert(strstr(why.text, "no libnvjpeg.so.13, and cannot open") != NULL, "%s", why.text);
    cr_assert_eq(load_linked("/opt/mine.so", 13, -1, "mine", &why), -ENOENT);
    cr_assert_str_eq(why.text, "cannot open shared object file");
    for (int major = 0; major < 20; major++) {
        bool good = major == 12 || major == 13;

        cr_assert_eq(load_linked("/opt/mine.so", major, -1, NULL, &why), good ? 0 : -ENOTSUP);
        cr_assert_eq(linked_open, good);
        cr_assert(good ||
                      strstr(why.text, major ? "/opt/mine.so is nvJPEG" : "does not say") != NULL,
                  "%s", why.text);
    }
    for (int gone = 0; gone < 11; gone++) {
        cr_assert_eq(load_linked("/opt/mine.so", 13, gone, NULL, &why), -ENOTSUP);
        cr_assert_eq(linked_open, 0);
        cr_assert(strstr(why.text, "/opt/mine.so has no nvjpeg") != NULL, "%s", why.text);
    }
    cr_assert_eq(load_linked("/opt/mine.so", 13, 11, NULL, &why), 0);
}

Test(load_nvjpeg, decoding_on_a_gpu_is_for_pictures_on_a_gpu)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_stats stats;

    begin(&(struct fake_cuda){0}, &(struct fake_nvjpeg){0});
    load_write_pictures(&folder, "p/%03u.jpg", 8);
    config = config_of("p");
    config.decode = SL_DECODE_DEVICE;
    cr_assert_eq(sl_open(&loader, &config), -EINVAL);
    cr_assert(strstr(sl_error(NULL), "config.decode is 1") != NULL, "%s", sl_error(NULL));
    config.device = SL_DEVICE_CUDA(0);
    config.output = SL_BYTES;
    cr_assert_eq(sl_open(&loader, &config), -EINVAL);
    config.output = SL_UINT8_NHWC;
    config.decode_bytes = (4 << 20) - 1;
    cr_assert_eq(sl_open(&loader, &config), -EINVAL);
    cr_assert(strstr(sl_error(NULL), "config.decode_bytes is") != NULL, "%s", sl_error(NULL));
    config.decode_bytes = 4 << 20;
    config.decode = (enum sl_decode)2;
    cr_assert_eq(sl_open(&loader, &config), -EINVAL);
    /* A program that was built before these members were there. */
    config.size = offsetof(struct sl_config, decode_bytes);
    cr_assert_eq(epoch(&config, &stats), host_epoch(config_of("p")));
    cr_assert_eq(stats.device_decoded, 0);
    end();
}

/* --- The process's end --- */

Test(load_nvjpeg, no_call_of_nvjpeg_is_made_in_a_forked_child)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;
    int status;
    pid_t child;

    begin(&(struct fake_cuda){0}, &(struct fake_nvjpeg){0});
    load_write_pictures(&folder, "p/%03u.jpg", 24);
    config = config_of("p");
    config.device = SL_DEVICE_CUDA(0);
    config.decode = SL_DECODE_DEVICE;
    loader = load_open(&config);
    cr_assert_eq(sl_next(loader, &batch, 60000), 0);
    child = fork();
    if (child == 0) {
        uint64_t before = fake_nvjpeg_calls();

        sl_close(loader);
        _exit(fake_nvjpeg_calls() == before ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    sl_close(loader);
    end();
}
