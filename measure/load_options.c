/* Options of `shufflefs-bench load`. Owns nothing; what it returns points into the arguments. */
#include "load_options.h"

#include "options.h"
#include "read_options.h"

#include "../core/config.h"
#include "../core/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: shufflefs-bench load [OPTION]... PATH...\n"
    "\n"
    "Loads every sample of each PATH into batches, by libshuffleload, and throws them away: the\n"
    "rate is what a training job can have at most. Says what limits it. A PATH is a shufflefs\n"
    "mount, a rank's folder, list or stream, a tar, a folder, or a list.\n"
    "\n"
    "  --workers N,...    threads (0: the cores this process may use); several numbers: a sweep\n"
    "  --batch N          samples a batch (128)\n"
    "  --output WHAT      uint8, float32 (default), float16, bfloat16, bytes (any files, no "
    "decoding)\n"
    "  --size W[xH]       pixels of an image (224)\n"
    "  --crop HOW         random (RandomResizedCrop; default), centre, stretch\n"
    "  --flip P           probability of a left-right flip (0.5)\n"
    "  --field EXT[/...]  which files are samples (jpg/jpeg/png)\n"
    "  --length N         bytes a sample at most, with --output bytes (65536)\n"
    "  --rank R, --world W, --epoch E    of a mount (0, the mount's, 0)\n"
    "  --stream           of a mount: the rank's tar stream\n"
    "  --prefetch N       batches made ahead (2)\n"
    "  --device WHERE     batches are made on host (default), a GPU's number, or auto: the GPU\n"
    "                     where there is one\n"
    "  --decode WHERE     JPEGs are decoded on host (default), or device: by nvJPEG on that GPU\n"
    "  --rounds N         timed passes (3); each is an epoch of its own\n"
    "  --warm-up N        passes before them that do not count (1)\n"
    "  --samples N        end a pass after N samples\n"
    "  --seconds S        end a pass after S seconds (or 500ms, 2m)\n"
    "  --need RATE        samples/s that the training takes: what share of it is met\n"
    "  --json             one JSON object\n"
    "  --svg FILE         plot samples/s against workers\n"
    "  -h, --help         this help\n"
    "\n"
    "Exit status: 0, 1 when samples were bad or nothing could be loaded, 2 usage.\n";

enum {
    WORKERS = OPTIONS_FIRST,
    BATCH,
    OUTPUT,
    SIZE,
    CROP,
    FLIP,
    FIELD,
    LENGTH,
    RANK,
    WORLD,
    EPOCH,
    STREAM,
    PREFETCH,
    DEVICE,
    DECODE,
    ROUNDS,
    WARM_UP,
    SAMPLES,
    SECONDS,
    NEED,
    JSON,
    SVG,
};

static const struct option known[] = {
    {"workers", required_argument, NULL, WORKERS},
    {"batch", required_argument, NULL, BATCH},
    {"output", required_argument, NULL, OUTPUT},
    {"size", required_argument, NULL, SIZE},
    {"crop", required_argument, NULL, CROP},
    {"flip", required_argument, NULL, FLIP},
    {"field", required_argument, NULL, FIELD},
    {"length", required_argument, NULL, LENGTH},
    {"rank", required_argument, NULL, RANK},
    {"world", required_argument, NULL, WORLD},
    {"epoch", required_argument, NULL, EPOCH},
    {"stream", no_argument, NULL, STREAM},
    {"prefetch", required_argument, NULL, PREFETCH},
    {"device", required_argument, NULL, DEVICE},
    {"decode", required_argument, NULL, DECODE},
    {"rounds", required_argument, NULL, ROUNDS},
    {"warm-up", required_argument, NULL, WARM_UP},
    {"samples", required_argument, NULL, SAMPLES},
    {"seconds", required_argument, NULL, SECONDS},
    {"need", required_argument, NULL, NEED},
    {"json", no_argument, NULL, JSON},
    {"svg", required_argument, NULL, SVG},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static const char *const outputs[] = {
    [SL_UINT8_NHWC] = "uint8", [SL_FLOAT32_NCHW] = "float32",   [SL_FLOAT16_NCHW] = "float16",
    [SL_BYTES] = "bytes",      [SL_BFLOAT16_NCHW] = "bfloat16",
};
static const char *const crops[] = {
    [SL_CROP_RANDOM_RESIZED] = "random",
    [SL_CROP_CENTRE] = "centre",
    [SL_STRETCH] = "stretch",
};

static const char *const decoders[] = {
    [SL_DECODE_HOST] = "host",
    [SL_DECODE_DEVICE] = "device",
};

void load_options_help(void)
{
    fputs(help, stdout);
}

const char *load_options_output(enum sl_output output)
{
    return outputs[output];
}

static bool take_word(const char *option, const char *const *words, size_t count, size_t *index)
{
    for (*index = 0; *index < count; (*index)++)
        if (strcmp(optarg, words[*index]) == 0)
            return true;
    report_error("%s %s: see `shufflefs-bench load --help`", option, optarg);
    return false;
}

static bool take_workers(struct load_options *options)
{
    const char *next = optarg;

    options->steps = 0;
    for (;;) {
        size_t length = strcspn(next, ",");
        uint64_t workers;

        if (options->steps == LOAD_STEPS_MAX ||
            !config_number(next, length, READ_READERS_MAX, &workers)) {
            report_error("--workers %s: not up to %d numbers from 0 to %d with commas between",
                         optarg, LOAD_STEPS_MAX, READ_READERS_MAX);
            return false;
        }
        options->workers[options->steps++] = (int)workers;
        if (!next[length])
            return true;
        next += length + 1;
    }
}

static bool take_size(struct sl_config *config)
{
    size_t length = strcspn(optarg, "x");
    const char *second = optarg[length] ? optarg + length + 1 : optarg;
    uint64_t width, height;

    if (!config_number(optarg, length, 16384, &width) || !width ||
        !config_number(second, optarg[length] ? strlen(second) : length, 16384, &height) ||
        !height) {
        report_error("--size %s: neither a number nor WxH, from 1 to 16384", optarg);
        return false;
    }
    config->width = (int)width;
    config->height = (int)height;
    return true;
}

static bool take_flip(struct sl_config *config)
{
    char *end;

    config->flip = strtod(optarg, &end);
    if (end != optarg && !*end && config->flip >= 0 && config->flip <= 1)
        return true;
    report_error("--flip %s: not a number from 0 to 1", optarg);
    return false;
}

static bool take_device(struct sl_config *config)
{
    uint64_t number;

    if (strcmp(optarg, "host") == 0) {
        config->device = SL_DEVICE_HOST;
    } else if (strcmp(optarg, "auto") == 0) {
        config->device = SL_DEVICE_AUTO;
    } else if (config_number(optarg, strlen(optarg), 4095, &number)) {
        config->device = SL_DEVICE_CUDA((int)number);
    } else {
        report_error("--device %s: host, auto, or a GPU's number", optarg);
        return false;
    }
    return true;
}

static bool take_numbers(struct load_options *options, int option)
{
    struct sl_config *config = &options->config;
    uint64_t number = 0;

    switch (option) {
    case BATCH:
        return options_number("--batch", 1, 65536, &config->batch_size);
    case LENGTH:
        return options_number("--length", 1, (uint64_t)1 << 40, &config->length_most);
    case RANK:
        return options_number("--rank", 0, UINT32_MAX, &config->rank);
    case WORLD:
        return options_number("--world", 1, (uint64_t)1 << 32, &config->world);
    case EPOCH:
        return options_number("--epoch", 0, INT64_MAX, &config->epoch);
    case SAMPLES:
        return options_number("--samples", 1, UINT64_MAX, &options->samples_most);
    case NEED:
        return options_number("--need", 1, UINT32_MAX, &options->need);
    case PREFETCH:
        if (!options_number("--prefetch", 1, 4096, &number))
            return false;
        config->prefetch = (int)number;
        return true;
    case ROUNDS:
        return options_small("--rounds", 1, 100000, &options->rounds);
    default:
        return options_small("--warm-up", 0, 100000, &options->warm_up);
    }
}

static bool take_option(void *context, int option)
{
    struct load_options *options = context;
    size_t index;

    switch (option) {
    case WORKERS:
        return take_workers(options);
    case OUTPUT:
        if (!take_word("--output", outputs, sizeof outputs / sizeof *outputs, &index))
            return false;
        options->config.output = (enum sl_output)index;
        return true;
    case CROP:
        if (!take_word("--crop", crops, sizeof crops / sizeof *crops, &index))
            return false;
        options->config.crop = (enum sl_crop)index;
        return true;
    case DEVICE:
        return take_device(&options->config);
    case DECODE:
        if (!take_word("--decode", decoders, sizeof decoders / sizeof *decoders, &index))
            return false;
        options->config.decode = (enum sl_decode)index;
        return true;
    case SIZE:
        return take_size(&options->config);
    case FLIP:
        return take_flip(&options->config);
    case FIELD:
        options->config.field = optarg;
        return true;
    case STREAM:
        options->stream = true;
        return true;
    case SECONDS:
        return options_time("--seconds", "500ms or 2s", &options->ns_most);
    case JSON:
        options->json = true;
        return true;
    case SVG:
        options->svg = optarg;
        return true;
    case 'h':
        options->help = true;
        return true;
    default:
        return take_numbers(options, option);
    }
}

bool load_options_parse(struct load_options *options, int count, char **arguments)
{
    static const float mean[3] = {0.485F, 0.456F, 0.406F}, deviation[3] = {0.229F, 0.224F, 0.225F};

    *options = (struct load_options){
        .config = SL_CONFIG_INIT,
        .steps = 1,
        .rounds = 3,
        .warm_up = 1,
        .ns_most = INT64_MAX,
        .samples_most = UINT64_MAX,
    };
    options->config.batch_size = 128;
    options->config.output = SL_FLOAT32_NCHW;
    options->config.flip = 0.5;
    options->config.bad = SL_BAD_SKIP;
    memcpy(options->config.mean, mean, sizeof mean);
    memcpy(options->config.deviation, deviation, sizeof deviation);
    if (!options_take_all(count, arguments, known, take_option, options, &options->help))
        return false;
    if (options->help)
        return true;
    options->paths = arguments + optind;
    options->path_count = (size_t)(count - optind);
    if (options->config.decode == SL_DECODE_DEVICE && options->config.device == SL_DEVICE_HOST) {
        report_error("--decode device: name the GPU with --device");
        return false;
    }
    if (options->config.decode == SL_DECODE_DEVICE && options->config.output == SL_BYTES) {
        report_error("--decode device: of --output bytes nothing is decoded");
        return false;
    }
    if (!options->path_count)
        report_error("no PATH given; `shufflefs-bench load --help` tells more");
    return options->path_count > 0;
}
