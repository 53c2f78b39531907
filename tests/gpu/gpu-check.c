/* What only a GPU can show, one part a run: gpu-check PART [NAME=VALUE...].
 *
 *     pictures dir= count= width= height=    writes JPEGs to measure with
 *     equal    path= [batch=]                every output's bits on the device and on the host
 *     copies   [batch=] [rounds=]            the loader's copies beside plain ones, nothing decoded
 *     overlap  [batch=] [rounds=]            copies and kernels behind a consumer's kernel
 *     rate     path= [batch=] [workers=] [ms=]   images/s: host, device idle, device busy
 *     decode   path= [batch=] [workers=] [ms=]   nvJPEG: its pixels beside the host's, images/s of
 *                                            few threads (workers=, or 1 and 4) with it and without
 *
 * Prints a line a figure: NAME, a tab, VALUE. Exit: 0; 1: bits differ, or a call failed (standard
 * error says which); 2: usage. */
#include "consumer.h"

#include "../../loader/backend.h"
#include "../../loader/cuda_table.h"
#include "../../loader/settings.h"
#include "../../loader/tally.h"
#include "../unit/picture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *path, *dir;
static uint64_t batch_size, rounds, milliseconds, count, width, height, workers;

static const struct {
    const char *name;
    enum sl_output output;
} outputs[] = {{"uint8", SL_UINT8_NHWC},
               {"float32", SL_FLOAT32_NCHW},
               {"float16", SL_FLOAT16_NCHW},
               {"bfloat16", SL_BFLOAT16_NCHW},
               {"bytes", SL_BYTES}};
enum { OUTPUTS = sizeof outputs / sizeof *outputs };

static bool failed(const char *what, int error)
{
    if (error)
        fprintf(stderr, "gpu-check: %s: %s (%d)\n", what, cuda_table()->error_text(error), error);
    return error != 0;
}

static bool refused(const char *what, int error, const char *text)
{
    if (error < 0)
        fprintf(stderr, "gpu-check: %s: %s\n", what, text);
    return error < 0;
}

static void normalise(struct sl_config *config)
{
    static const float mean[3] = {0.485F, 0.456F, 0.406F}, deviation[3] = {0.229F, 0.224F, 0.225F};

    memcpy(config->mean, mean, sizeof mean);
    memcpy(config->deviation, deviation, sizeof deviation);
}

static bool write_pictures(void)
{
    for (uint64_t i = 0; i < count; i++) {
        uint8_t *pixels = picture_pixels((int)width, (int)height, 3, (unsigned)i + 1);
        struct picture_jpeg how = {.channels = 3, .h = 2, .v = 2};
        struct picture_file file = picture_jpeg(pixels, (int)width, (int)height, &how);
        char name[4096];
        FILE *out;
        bool bad;

        snprintf(name, sizeof name, "%s/%06" PRIu64 ".jpg", dir, i);
        out = fopen(name, "wb");
        bad = !out || fwrite(file.bytes, 1, file.size, out) != file.size;
        if ((out && fclose(out)) || bad) {
            fprintf(stderr, "gpu-check: %s: %s\n", name, strerror(errno));
            bad = true;
        }
        free(pixels);
        free(file.bytes);
        if (bad)
            return false;
    }
    return true;
}

/* The same of a call of the library's; NULL: of sl_open(). */
static bool refused_by(struct sl_loader *loader, const char *what, int error)
{
    return error < 0 && refused(what, error, sl_error(loader));
}

/* --- The same bits --- */

/* The next batch of both; false: an error. *status: what both said. */
static bool next_of_both(struct sl_loader *loaders[2], struct sl_batch *batches[2], int *status)
{
    int one = sl_next(loaders[0], &batches[0], 60000);

    *status = sl_next(loaders[1], &batches[1], 60000);
    if (refused_by(loaders[0], "the host's batch", one) ||
        refused_by(loaders[1], "the device's batch", *status))
        return false;
    if (one != *status || one == SL_TIMEOUT) {
        fprintf(stderr, "gpu-check: host and device gave %s and %s\n", sl_status_text(one),
                sl_status_text(*status));
        return false;
    }
    return true;
}

/* Bytes that differ; UINT64_MAX: an error. */
static uint64_t compare(struct sl_loader *loaders[2], void *stream)
{
    struct sl_batch *batches[2];
    uint64_t different = 0, compared = 0;
    uint8_t *copy = NULL;
    int status;

    while (next_of_both(loaders, batches, &status)) {
        size_t bytes, labels;

        if (status == SL_END) {
            free(copy);
            return compared ? different : UINT64_MAX;
        }
        bytes = batches[0]->count * (size_t)batches[0]->strides[0] *
                settings_element_bytes(batches[0]->output);
        labels = batches[0]->count * sizeof *batches[0]->labels;
        free(copy);
        copy = malloc(bytes + labels + 1);
        if (!copy || refused_by(loaders[1], "sl_batch_wait", sl_batch_wait(batches[1], stream)) ||
            failed("copying out", consumer_copy_out(copy, batches[1]->data, bytes, stream)) ||
            failed("copying out",
                   consumer_copy_out(copy + bytes, batches[1]->device_labels, labels, stream)))
            break;
        different += batches[0]->count != batches[1]->count;
        for (size_t i = 0; i < bytes; i++)
            different += copy[i] != ((const uint8_t *)batches[0]->data)[i];
        for (size_t i = 0; i < labels; i++)
            different += copy[bytes + i] != ((const uint8_t *)batches[0]->labels)[i];
        compared += bytes;
        if (refused_by(loaders[0], "sl_release", sl_release(loaders[0], batches[0])) ||
            refused_by(loaders[1], "sl_batch_release", sl_batch_release(batches[1], stream)))
            break;
    }
    free(copy);
    return UINT64_MAX;
}

static bool compare_output(enum sl_output output, int side, void *stream, uint64_t *different)
{
    struct sl_loader *loaders[2] = {NULL, NULL};
    bool fine = true;

    for (int i = 0; i < 2 && fine; i++) {
        struct sl_config config = SL_CONFIG_INIT;

        config.path = path;
        config.output = output;
        config.batch_size = batch_size ? batch_size : 32;
        config.width = side;
        config.height = side - side % 2;
        config.flip = 0.5;
        config.hold = 2;
        config.device = i ? SL_DEVICE_CUDA(0) : SL_DEVICE_HOST;
        normalise(&config);
        fine = !refused_by(NULL, "sl_open", sl_open(&loaders[i], &config));
    }
    *different = fine ? compare(loaders, stream) : UINT64_MAX;
    sl_close(loaders[0]);
    sl_close(loaders[1]);
    return *different != UINT64_MAX;
}

/* Sides of 224, and of 93, whose pictures are no multiple of four pixels. */
static bool check_equal(void *stream)
{
    bool same = true;

    for (int i = 0; i < OUTPUTS; i++)
        for (int odd = 0; odd < 2; odd++) {
            uint64_t different;

            if (!compare_output(outputs[i].output, odd ? 93 : 224, stream, &different))
                return false;
            printf("%s %s, bytes that differ\t%" PRIu64 "\n", outputs[i].name,
                   odd ? "93 x 92" : "224 x 224", different);
            same = same && different == 0;
        }
    return same;
}

/* --- Copies, without decoding --- */

enum { SLOTS = 3 };

/* The back end alone, with batches that are there already. */
struct bare {
    struct settings settings;
    void *state;
    void *arena;
    size_t bytes; /* of a batch */
    struct sl_batch batches[SLOTS];
};

static bool bare_open(struct bare *bare, enum sl_output output)
{
    struct sl_config config = SL_CONFIG_INIT;
    struct fault fault = {""};

    memset(bare, 0, sizeof *bare);
    config.path = "-";
    config.output = output;
    config.batch_size = batch_size ? batch_size : 256;
    config.prefetch = SLOTS - 1;
    config.device = SL_DEVICE_CUDA(0);
    normalise(&config);
    if (refused("settings", settings_make(&bare->settings, &config, &fault), fault.text))
        return false;
    if (refused("the back end", backend_cuda.open(&bare->state, &bare->settings, &fault),
                fault.text))
        return false;
    bare->bytes = config.batch_size * bare->settings.pixels;
    bare->arena = backend_cuda.memory_take(bare->state, SLOTS * bare->bytes, &fault);
    if (refused("pinned memory", bare->arena ? 0 : -ENOMEM, fault.text))
        return false;
    for (size_t i = 0; i < SLOTS; i++) {
        backend_cuda.describe(bare->state, i, &bare->batches[i]);
        bare->batches[i].count = config.batch_size;
    }
    return true;
}

static void bare_close(struct bare *bare)
{
    if (bare->arena)
        backend_cuda.memory_give(bare->state, bare->arena, SLOTS * bare->bytes);
    if (bare->state)
        backend_cuda.close(bare->state);
    settings_free(&bare->settings);
}

/* Batches through the slots in turn, as workers and a consumer do it; 0: no consumer's kernel.
 * Seconds; below 0: an error. */
static double bare_run(struct bare *bare, void *stream, bool copies, unsigned busy_us)
{
    struct fault fault = {""};
    uint64_t start = tally_now(), turns = rounds ? rounds : 100;
    int error = 0;

    for (uint64_t i = 0; i < turns && !error; i++) {
        size_t slot = i % SLOTS;
        struct backend_arrays arrays = {.data = (uint8_t *)bare->arena + slot * bare->bytes};

        if (copies) {
            error = backend_cuda.row_begin(bare->state, slot, &fault);
            if (!error)
                error = backend_cuda.batch_ready(bare->state, slot, &bare->batches[slot], &arrays,
                                                 &fault);
            if (!error)
                error = backend_cuda.batch_wait(bare->state, slot, stream, &fault);
        }
        if (!error && busy_us && failed("the consumer's kernel", consumer_busy(stream, busy_us)))
            return -1;
        if (copies && !error)
            error = backend_cuda.batch_used(bare->state, slot, stream, &fault);
    }
    if (refused("the back end", error, fault.text) ||
        failed("the consumer's stream", consumer_finish(stream)))
        return -1;
    return (double)(tally_now() - start) / 1e9;
}

/* Plain copies of the same size from the same memory, on one stream. */
static double plain_copies(struct bare *bare, void *stream)
{
    uint64_t start, turns = rounds ? rounds : 100;
    void *device;

    if (failed("device memory", cuda_table()->device_take(&device, SLOTS * bare->bytes)))
        return -1;
    start = tally_now();
    for (uint64_t i = 0; i < turns; i++) {
        size_t at = i % SLOTS * bare->bytes;

        if (failed("a plain copy",
                   cuda_table()->copy_in((uint8_t *)device + at, (uint8_t *)bare->arena + at,
                                         bare->bytes, stream)))
            return -1;
    }
    if (failed("plain copies", consumer_finish(stream)))
        return -1;
    start = tally_now() - start;
    if (failed("device memory", cuda_table()->device_give(device)))
        return -1;
    return (double)start / 1e9;
}

static bool check_copies(void *stream)
{
    uint64_t turns = rounds ? rounds : 100;
    struct bare bare;
    bool fine = true;

    for (int i = 0; i < OUTPUTS - 1 && fine; i++) {
        double plain = 0, ours = 0, gigabytes;

        fine = bare_open(&bare, outputs[i].output) && bare_run(&bare, stream, true, 0) >= 0;
        gigabytes = (double)(bare.bytes * turns) / 1e9;
        if (fine && i == 0) {
            plain = plain_copies(&bare, stream);
            fine = plain > 0;
            if (fine)
                printf("plain pinned copies, GB/s\t%.2f\n", gigabytes / plain);
        }
        if (fine)
            ours = bare_run(&bare, stream, true, 0);
        fine = fine && ours > 0;
        if (fine)
            printf("the loader's batches, %s, GB/s\t%.2f\n", outputs[i].name, gigabytes / ours);
        bare_close(&bare);
    }
    return fine;
}

static bool check_overlap(void *stream)
{
    uint64_t turns = rounds ? rounds : 100;
    struct bare bare;
    double copies, kernels, both, less;
    bool fine = bare_open(&bare, SL_FLOAT16_NCHW) && bare_run(&bare, stream, true, 0) >= 0;
    unsigned busy;

    copies = fine ? bare_run(&bare, stream, true, 0) : -1;
    busy = copies > 0 ? (unsigned)(copies / (double)turns * 1e6 * 1.25) + 1 : 1;
    kernels = copies > 0 ? bare_run(&bare, stream, false, busy) : -1;
    both = kernels > 0 ? bare_run(&bare, stream, true, busy) : -1;
    bare_close(&bare);
    if (both <= 0)
        return false;
    less = copies < kernels ? copies : kernels;
    printf("copies alone, ms a batch\t%.3f\n", copies / (double)turns * 1e3);
    printf("consumer's kernel alone, ms a batch\t%.3f\n", kernels / (double)turns * 1e3);
    printf("both, ms a batch\t%.3f\n", both / (double)turns * 1e3);
    printf("part of the shorter one that is hidden\t%.3f\n", (copies + kernels - both) / less);
    return true;
}

/* --- Images a second --- */

static double rate(int device, enum sl_decode decode, int threads, unsigned busy_us, void *stream)
{
    struct sl_config config = SL_CONFIG_INIT;
    struct sl_loader *loader;
    struct sl_batch *batch;
    uint64_t start = 0, images = 0, epoch = 0,
             wanted = (milliseconds ? milliseconds : 10000) * 1000000u;
    int status = 0;

    config.path = path;
    config.output = device == SL_DEVICE_HOST ? SL_UINT8_NHWC : SL_FLOAT16_NCHW;
    config.batch_size = batch_size ? batch_size : 256;
    config.flip = 0.5;
    config.device = device;
    config.decode = decode;
    config.workers = threads;
    config.drop_last = 1;
    normalise(&config);
    if (refused_by(NULL, "sl_open", sl_open(&loader, &config)))
        return -1;
    /* The first epoch warms up: the files, the caches, the clocks. */
    while (status >= 0 && (!start || tally_now() - start < wanted)) {
        status = sl_next(loader, &batch, 60000);
        if (status == SL_END) {
            status = sl_set_epoch(loader, ++epoch);
            if (!start)
                start = tally_now();
            continue;
        }
        if (status == 0)
            status = sl_batch_wait(batch, stream);
        if (status == 0 && busy_us &&
            failed("the consumer's kernel", consumer_busy(stream, busy_us)))
            break;
        if (status == 0) {
            images += start ? batch->count : 0;
            status = sl_batch_release(batch, stream);
        } else if (status > 0) {
            status = -ETIMEDOUT;
        }
    }
    refused_by(loader, "the loader", status);
    if (!failed("the stream", consumer_finish(stream)) && status >= 0 && start && images) {
        double took = (double)(tally_now() - start) / 1e9;

        sl_close(loader);
        return (double)images / took;
    }
    sl_close(loader);
    return -1;
}

static bool check_rate(void *stream)
{
    uint64_t rows = batch_size ? batch_size : 256;
    int threads = (int)workers;
    double host = rate(SL_DEVICE_HOST, SL_DECODE_HOST, threads, 0, stream), idle, busy;
    unsigned kernel;

    if (host <= 0)
        return false;
    printf("decoding alone (uint8 on the host), images/s\t%.0f\n", host);
    idle = rate(SL_DEVICE_CUDA(0), SL_DECODE_HOST, threads, 0, stream);
    if (idle <= 0)
        return false;
    printf("float16 on an idle device, images/s\t%.0f\n", idle);
    /* A step that takes the device nine tenths of the time. */
    kernel = (unsigned)((double)rows / idle * 1e6 * 0.9) + 1;
    busy = rate(SL_DEVICE_CUDA(0), SL_DECODE_HOST, threads, kernel, stream);
    if (busy <= 0)
        return false;
    printf("float16 on a busy device, images/s\t%.0f\n", busy);
    return true;
}

/* --- nvJPEG --- */

struct difference {
    uint64_t values, sum, worst, off; /* off: values that differ by more than a level */
};

/* One batch's pixels; false: an error. */
static bool add_difference(struct sl_loader *loader, struct sl_batch *batches[2], void *stream,
                           struct difference *difference)
{
    size_t bytes = batches[0]->count * (size_t)batches[0]->strides[0];
    const uint8_t *host = batches[0]->data;
    uint8_t *copy = malloc(bytes + 1);
    bool fine = copy && !refused_by(loader, "sl_batch_wait", sl_batch_wait(batches[1], stream)) &&
                !failed("copying out", consumer_copy_out(copy, batches[1]->data, bytes, stream));

    for (size_t i = 0; i < bytes && fine; i++) {
        uint64_t apart = (uint64_t)abs(copy[i] - host[i]);

        difference->sum += apart;
        difference->off += apart > 1;
        difference->worst = apart > difference->worst ? apart : difference->worst;
    }
    difference->values += bytes;
    free(copy);
    return fine;
}

/* An epoch by both decoders, whole pictures resized by both. `reason`: why the host decodes; "" */
static bool compare_decoders(void *stream, struct difference *difference, struct sl_stats *stats,
                             char reason[512])
{
    struct sl_loader *loaders[2] = {NULL, NULL};
    struct sl_batch *batches[2];
    bool fine = true;
    int status = 0;

    for (int i = 0; i < 2 && fine; i++) {
        struct sl_config config = SL_CONFIG_INIT;

        config.path = path;
        config.batch_size = batch_size ? batch_size : 64;
        config.exact = 1;
        config.flip = 0.5;
        config.device = i ? SL_DEVICE_CUDA(0) : SL_DEVICE_HOST;
        config.decode = i ? SL_DECODE_DEVICE : SL_DECODE_HOST;
        fine = !refused_by(NULL, "sl_open", sl_open(&loaders[i], &config));
    }
    if (fine)
        snprintf(reason, 512, "%s", sl_error(loaders[1]));
    while (fine && (fine = next_of_both(loaders, batches, &status)) && status != SL_END)
        fine = add_difference(loaders[1], batches, stream, difference) &&
               !refused_by(loaders[0], "sl_release", sl_release(loaders[0], batches[0])) &&
               !refused_by(loaders[1], "sl_batch_release", sl_batch_release(batches[1], stream));
    stats->size = sizeof *stats;
    if (fine)
        fine = !refused_by(loaders[1], "sl_stats", sl_stats(loaders[1], stats));
    sl_close(loaders[0]);
    sl_close(loaders[1]);
    return fine;
}

static bool check_decode(void *stream)
{
    struct difference difference = {0};
    struct sl_stats stats;
    char reason[512] = "";

    if (!compare_decoders(stream, &difference, &stats, reason))
        return false;
    if (!stats.device_decoded) {
        printf("nvJPEG\tnot used: %s\n", *reason ? reason : stats.last_fallback);
        return true;
    }
    printf("nvJPEG, pictures decoded (left to the host)\t%" PRIu64 " (%" PRIu64 "%s%s)\n",
           stats.device_decoded, stats.fallbacks, stats.fallbacks ? ", the last: " : "",
           stats.last_fallback);
    printf("nvJPEG, mean difference to the host's pixels, levels\t%.4f\n",
           (double)difference.sum / (double)difference.values);
    printf("nvJPEG, largest difference, levels\t%" PRIu64 "\n", difference.worst);
    printf("nvJPEG, values more than a level apart, %%\t%.3f\n",
           100.0 * (double)difference.off / (double)difference.values);
    for (int threads = workers ? (int)workers : 1; threads <= (workers ? (int)workers : 4);
         threads += 3)
        for (int decode = SL_DECODE_HOST; decode <= SL_DECODE_DEVICE; decode++) {
            double images = rate(SL_DEVICE_CUDA(0), (enum sl_decode)decode, threads, 0, stream);

            if (images <= 0)
                return false;
            printf("%s, %d thread%s, images/s\t%.0f\n",
                   decode == SL_DECODE_DEVICE ? "decoded by nvJPEG" : "decoded by the host",
                   threads, threads == 1 ? "" : "s", images);
        }
    return true;
}

/* --- The command line --- */

static bool take(const char *word)
{
    static const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {{"batch", &batch_size}, {"rounds", &rounds}, {"ms", &milliseconds},
                   {"count", &count},      {"width", &width},   {"height", &height},
                   {"workers", &workers}};
    const char *value = strchr(word, '=');
    size_t length = value ? (size_t)(value++ - word) : 0;
    char *end;

    if (!value || !*value)
        return false;
    if (length == 4 && memcmp(word, "path", 4) == 0)
        return path = value, true;
    if (length == 3 && memcmp(word, "dir", 3) == 0)
        return dir = value, true;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (strlen(numbers[i].name) == length && memcmp(word, numbers[i].name, length) == 0) {
            *numbers[i].value = strtoull(value, &end, 10);
            return !*end && *numbers[i].value > 0 && *numbers[i].value < 1000000;
        }
    return false;
}

static int usage(void)
{
    fputs("usage: gpu-check pictures|equal|copies|overlap|rate|decode NAME=VALUE...\n", stderr);
    return 2;
}

static int on_device(bool (*part)(void *stream))
{
    char name[512] = "";
    void *stream = NULL;
    bool fine;

    if (!cuda_runtime_table() && !cuda_table()) {
        fprintf(stderr, "gpu-check: built without CUDA\n");
        return 1;
    }
    if (failed("the device's name", consumer_name(name, sizeof name)) ||
        failed("a stream", consumer_stream_make(&stream)))
        return 1;
    printf("device\t%s\n", name);
    fine = part(stream);
    if (failed("the stream's end", consumer_stream_end(stream)))
        fine = false;
    return fine ? 0 : 1;
}

int main(int argument_count, char **arguments)
{
    static const struct {
        const char *name;
        bool (*part)(void *stream);
        bool needs_path;
    } parts[] = {{"equal", check_equal, true},
                 {"copies", check_copies, false},
                 {"overlap", check_overlap, false},
                 {"rate", check_rate, true},
                 {"decode", check_decode, true}};
    int result = 2, error;

    for (int i = 2; i < argument_count; i++)
        if (!take(arguments[i]))
            return usage();
    if (argument_count < 2)
        return usage();
    if (strcmp(arguments[1], "pictures") == 0)
        return dir && count && width && height ? write_pictures() ? 0 : 1 : usage();
    error = consumer_begin();
    if (error) {
        fprintf(stderr, "gpu-check: no device can be used (%d)\n", error);
        return 1;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(arguments[1], parts[i].name) == 0 && (path || !parts[i].needs_path))
            result = on_device(parts[i].part);
    error = consumer_end();
    if (error) {
        fprintf(stderr, "gpu-check: the device's end (%d)\n", error);
        result = 1;
    }
    return result == 2 ? usage() : result;
}
