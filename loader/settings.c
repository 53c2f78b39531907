/* From the caller's configuration to one that can be trusted. */
#include "settings.h"

#include "cores.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_MOST = 65536,
    SIDE_MOST = 16384,
    WORKERS_MOST = 1024,
    SLOTS_MOST = 4096,
    EXTENSION_MOST = 255,
    DEVICES_MOST = 4096,
    CONFIG_MOST = 65536, /* bytes: a larger `size` was never set */
};
#define DECODE_A_SAMPLE ((uint64_t)4 << 20)
#define DECODE_LEAST    ((uint64_t)128 << 20) /* of what 0 is */
#define DECODE_MOST     ((uint64_t)2 << 30)
#define WORLD_MOST      ((uint64_t)1 << 32)
#define BYTES_MOST      ((uint64_t)1 << 40)

static bool within(double value, double least, double most)
{
    return isfinite(value) && value >= least && value <= most;
}

static int refuse(struct fault *fault, const char *member, double value, const char *wanted)
{
    return fault_set(fault, -EINVAL, "config.%s is %.17g: %s", member, value, wanted);
}

static void fill_defaults(struct sl_config *config)
{
    if (!config->batch_size)
        config->batch_size = 1;
    if (!config->width)
        config->width = 224;
    if (!config->height)
        config->height = 224;
    if (!config->shorter) {
        /* Of the larger: so the crop fits into any image, whatever its shape. */
        int side = config->width > config->height ? config->width : config->height;
        long long shorter = (side * 8LL + 3) / 7;
        config->shorter = (int)(shorter < SIDE_MOST ? shorter : SIDE_MOST);
    }
    if (config->area_least == 0 && config->area_most == 0) {
        config->area_least = 0.08;
        config->area_most = 1;
    }
    if (config->ratio_least == 0 && config->ratio_most == 0) {
        config->ratio_least = 3.0 / 4;
        config->ratio_most = 4.0 / 3;
    }
    if (config->deviation[0] == 0 && config->deviation[1] == 0 && config->deviation[2] == 0)
        for (int i = 0; i < 3; i++)
            config->deviation[i] = 1;
    if (!config->pixels_most)
        config->pixels_most = 178956970; /* PIL.Image.MAX_IMAGE_PIXELS * 2 is its error */
    if (!config->scans_most)
        config->scans_most = 500;
    if (!config->length_most)
        config->length_most = 65536;
    if (!config->workers)
        config->workers = cores_usable();
    if (!config->prefetch)
        config->prefetch = 2;
    if (!config->hold)
        config->hold = 1;
    if (!config->file_most)
        config->file_most = (uint64_t)64 << 20;
    if (!config->stream_bytes)
        config->stream_bytes = (uint64_t)32 << 20;
    if (!config->decode_bytes) {
        config->decode_bytes = config->batch_size * DECODE_A_SAMPLE;
        if (config->decode_bytes < DECODE_LEAST)
            config->decode_bytes = DECODE_LEAST;
        if (config->decode_bytes > DECODE_MOST)
            config->decode_bytes = DECODE_MOST;
    }
}

static int check_numbers(const struct sl_config *config, struct fault *fault)
{
    if (config->source < SL_SOURCE_AUTO || config->source > SL_SOURCE_LIST)
        return refuse(fault, "source", config->source, "there is no such source");
    if (config->output < SL_UINT8_NHWC || config->output > SL_BFLOAT16_NCHW)
        return refuse(fault, "output", config->output, "there is no such output");
    if (config->crop < SL_CROP_RANDOM_RESIZED || config->crop > SL_STRETCH)
        return refuse(fault, "crop", config->crop, "there is no such crop");
    if (config->bad < SL_BAD_REPLACE || config->bad > SL_BAD_FAIL)
        return refuse(fault, "bad", config->bad, "there is no such way");
    if (config->world > WORLD_MOST)
        return refuse(fault, "world", (double)config->world, "at most 4294967296");
    if (config->world ? config->rank >= config->world : config->rank >= WORLD_MOST)
        return refuse(fault, "rank", (double)config->rank, "it has to be below the world");
    if (config->start > SETTINGS_POSITION_MOST)
        return refuse(fault, "start", (double)config->start, "at most 2^62");
    if (config->after > SETTINGS_POSITION_MOST)
        return refuse(fault, "after", (double)config->after, "at most 2^62");
    if (config->batch_size > BATCH_MOST)
        return refuse(fault, "batch_size", (double)config->batch_size, "at most 65536");
    if (config->width < 1 || config->width > SIDE_MOST)
        return refuse(fault, "width", config->width, "1 to 16384");
    if (config->height < 1 || config->height > SIDE_MOST)
        return refuse(fault, "height", config->height, "1 to 16384");
    if (config->shorter < 1 || config->shorter > SIDE_MOST)
        return refuse(fault, "shorter", config->shorter, "1 to 16384");
    if (config->crop == SL_CROP_CENTRE &&
        (config->shorter < config->width || config->shorter < config->height))
        return refuse(fault, "shorter", config->shorter, "not below width and height");
    if (!within(config->area_most, 1e-6, 1))
        return refuse(fault, "area_most", config->area_most, "above 0, up to 1");
    if (!within(config->area_least, 1e-6, config->area_most))
        return refuse(fault, "area_least", config->area_least, "above 0, up to area_most");
    if (!within(config->ratio_most, 1e-3, 1e3))
        return refuse(fault, "ratio_most", config->ratio_most, "0.001 to 1000");
    if (!within(config->ratio_least, 1e-3, config->ratio_most))
        return refuse(fault, "ratio_least", config->ratio_least, "0.001 up to ratio_most");
    if (!within(config->flip, 0, 1))
        return refuse(fault, "flip", config->flip, "0 to 1");
    for (int i = 0; i < 3; i++) {
        if (!isfinite(config->mean[i]))
            return refuse(fault, "mean", config->mean[i], "a number");
        if (!within(config->deviation[i], 1e-6, 1e6))
            return refuse(fault, "deviation", config->deviation[i], "above 0");
    }
    if (config->scans_most < 1)
        return refuse(fault, "scans_most", config->scans_most, "at least 1");
    if (config->length_most > BYTES_MOST)
        return refuse(fault, "length_most", (double)config->length_most, "at most 2^40");
    if (config->padding < 0 || config->padding > 255)
        return refuse(fault, "padding", config->padding, "0 to 255");
    if (config->workers < 1 || config->workers > WORKERS_MOST)
        return refuse(fault, "workers", config->workers, "0 to 1024");
    if (config->prefetch < 1 || config->prefetch > SLOTS_MOST)
        return refuse(fault, "prefetch", config->prefetch, "0 to 4096");
    if (config->hold < 1 || config->hold > SLOTS_MOST)
        return refuse(fault, "hold", config->hold, "0 to 4096");
    if (config->file_most > BYTES_MOST)
        return refuse(fault, "file_most", (double)config->file_most, "at most 2^40");
    if (config->device < SL_DEVICE_AUTO || config->device > DEVICES_MOST)
        return refuse(fault, "device", config->device, "SL_DEVICE_AUTO, _HOST or _CUDA(index)");
    if (config->stream_bytes > BYTES_MOST)
        return refuse(fault, "stream_bytes", (double)config->stream_bytes, "at most 2^40");
    if (config->decode < SL_DECODE_HOST || config->decode > SL_DECODE_DEVICE)
        return refuse(fault, "decode", config->decode, "SL_DECODE_HOST or _DEVICE");
    if (config->decode_bytes < DECODE_A_SAMPLE || config->decode_bytes > BYTES_MOST)
        return refuse(fault, "decode_bytes", (double)config->decode_bytes, "2^22 to 2^40");
    if (config->decode == SL_DECODE_DEVICE && config->device == SL_DEVICE_HOST)
        return refuse(fault, "decode", config->decode,
                      "decoding on a GPU is for batches on one: set config.device");
    if (config->decode == SL_DECODE_DEVICE && config->output == SL_BYTES)
        return refuse(fault, "decode", config->decode, "of bytes nothing is decoded");
    return 0;
}

static int split_fields(struct settings *settings, const char *text, struct fault *fault)
{
    char *rest;

    if (!text && settings->images)
        text = "jpg/jpeg/png";
    if (!text)
        return 0;
    settings->field_text = strdup(text);
    if (!settings->field_text)
        return fault_set(fault, -ENOMEM, "no memory for the configuration");
    for (char *at = settings->field_text; *at; at++)
        *at = (char)tolower((unsigned char)*at);
    rest = settings->field_text;
    while (rest) {
        char *field = strsep(&rest, "/");

        if (!*field || *field == '.' || strlen(field) > EXTENSION_MOST)
            return fault_set(fault, -EINVAL,
                             "config.field is '%s': extensions without their "
                             "first dot, with / between several",
                             text);
        if (settings->field_count == SETTINGS_FIELDS_MAX)
            return fault_set(fault, -EINVAL, "config.field is '%s': at most %d", text,
                             SETTINGS_FIELDS_MAX);
        settings->fields[settings->field_count++] = field;
    }
    return 0;
}

int settings_make(struct settings *settings, const struct sl_config *given, struct fault *fault)
{
    struct sl_config *config = &settings->config;
    size_t known;
    int error;

    memset(settings, 0, sizeof *settings);
    if (!given || given->size < offsetof(struct sl_config, path) + sizeof given->path)
        return fault_set(fault, -EINVAL, "config.size is not set: start from SL_CONFIG_INIT");
    if (given->size > CONFIG_MOST)
        return fault_set(fault, -EINVAL,
                         "config.size is %zu, no size of a configuration: start "
                         "from SL_CONFIG_INIT",
                         given->size);
    /* A newer program may know more members than this library: fine while they have their default,
     * a lie to the caller otherwise. */
    known = given->size < sizeof *config ? given->size : sizeof *config;
    for (size_t i = sizeof *config; i < given->size; i++)
        if (((const unsigned char *)given)[i])
            return fault_set(fault, -EINVAL,
                             "the configuration sets members that this library "
                             "(%s) does not have",
                             SETTINGS_VERSION);
    memcpy(config, given, known);
    config->size = sizeof *config;
    if (!config->path || !*config->path) {
        config->path = NULL;
        config->field = NULL;
        return fault_set(fault, -EINVAL, "config.path is not set");
    }
    fill_defaults(config);
    settings->images = config->output != SL_BYTES;
    config->path = strdup(config->path);
    if (!config->path)
        return fault_set(fault, -ENOMEM, "no memory for the configuration");
    error = check_numbers(config, fault);
    if (!error)
        error = split_fields(settings, config->field, fault);
    config->field = NULL;
    if (error) {
        settings_free(settings);
        return error;
    }
    settings->pixels = (size_t)config->width * (size_t)config->height * 3;
    if (settings->images)
        settings->row_bytes = settings->pixels * settings_element_bytes(config->output);
    else
        settings->row_bytes = (config->length_most + SETTINGS_ALIGNMENT - 1) / SETTINGS_ALIGNMENT *
                              SETTINGS_ALIGNMENT;
    settings->slots = (uint64_t)config->prefetch + (uint64_t)config->hold;
    return 0;
}

size_t settings_element_bytes(enum sl_output output)
{
    return output == SL_FLOAT32_NCHW                                 ? 4
           : output == SL_FLOAT16_NCHW || output == SL_BFLOAT16_NCHW ? 2
                                                                     : 1;
}

void settings_free(struct settings *settings)
{
    free((char *)settings->config.path);
    free(settings->field_text);
    memset(settings, 0, sizeof *settings);
}

bool settings_takes(const struct settings *settings, const char *extension)
{
    if (!settings->field_count)
        return *extension && strcasecmp(extension, "cls") != 0 &&
               strcasecmp(extension, "json") != 0;
    for (size_t i = 0; i < settings->field_count; i++)
        if (strcasecmp(extension, settings->fields[i]) == 0)
            return true;
    return false;
}
