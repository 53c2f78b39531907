/* The command line of shufflefs-pack. Owns nothing; looks at no file. */
#include "options.h"

#include "../core/command_line.h"
#include "../core/config.h"
#include "../core/report.h"
#include "../loader/cores.h"
#include "../loader/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHARD_SIZE_DEFAULT ((uint64_t)1 << 30)
#define QUALITY_DEFAULT    90
#define MTIME_MAX          077777777777u

const char pack_usage[] =
    "usage: shufflefs-pack SRC... -o 'train-%06d.tar' [OPTION]...\n"
    "\n"
    "Packs a folder's files, or the samples of shards, into tar shards. SRC is a folder, or tars, "
    "patterns\n"
    "and @LISTs as for shufflefs.\n"
    "\n"
    "  -o, --output PATTERN     the shards' names, with one %d or %06d for the number\n"
    "  --shard-size SIZE        most bytes of a shard, with K, M, G or T (1G)\n"
    "  --shard-count N          N shards with as many samples each as can be\n"
    "  --samples-per-shard N    N samples in each but the last\n"
    "  --shuffle SEED           in the order of torch.randperm(SEED); else sorted by key\n"
    "  --keep-order             of shards: in the order they have\n"
    "  --label dir|dir:first|FILE|none\n"
    "                           make .cls from the last or first folder, or from lines NAME LABEL "
    "(none)\n"
    "  --classes FILE           write the classes' names, a line each, in the order of their "
    "numbers\n"
    "  --resize-short N         JPEGs whose short side is longer are made smaller\n"
    "  --quality Q              of JPEGs that are made, 1 to 100 (90)\n"
    "  --convert-png            PNGs become JPEGs\n"
    "  --damaged keep|skip|stop what becomes of a picture that cannot be decoded (keep)\n"
    "  --from tree|shards       what SRC is, where it could be either\n"
    "  --mtime SECONDS          the time of every member, in place of its file's\n"
    "  --index PATH|none        where the index of the shards is saved (user's cache folder)\n"
    "  --force                  overwrite shards that are there\n"
    "  -j, --jobs N             threads that read and resize (the cores this process may use)\n"
    "  --json                   the summary as JSON\n"
    "  -v, --verbose            name every file that is left out\n"
    "  -h, --help               this help        -V, --version   the version\n";

enum {
    SHARD_SIZE = 256,
    SHARD_COUNT,
    SAMPLES,
    SHUFFLE,
    KEEP_ORDER,
    LABEL,
    CLASSES,
    INDEX,
    RESIZE,
    QUALITY,
    CONVERT_PNG,
    DAMAGED,
    FROM,
    MTIME,
    FORCE,
    JSON
};

static const struct option long_options[] = {
    {"output", required_argument, NULL, 'o'},
    {"shard-size", required_argument, NULL, SHARD_SIZE},
    {"shard-count", required_argument, NULL, SHARD_COUNT},
    {"samples-per-shard", required_argument, NULL, SAMPLES},
    {"shuffle", required_argument, NULL, SHUFFLE},
    {"keep-order", no_argument, NULL, KEEP_ORDER},
    {"label", required_argument, NULL, LABEL},
    {"classes", required_argument, NULL, CLASSES},
    {"resize-short", required_argument, NULL, RESIZE},
    {"quality", required_argument, NULL, QUALITY},
    {"convert-png", no_argument, NULL, CONVERT_PNG},
    {"damaged", required_argument, NULL, DAMAGED},
    {"from", required_argument, NULL, FROM},
    {"mtime", required_argument, NULL, MTIME},
    {"index", required_argument, NULL, INDEX},
    {"force", no_argument, NULL, FORCE},
    {"jobs", required_argument, NULL, 'j'},
    {"json", no_argument, NULL, JSON},
    {"verbose", no_argument, NULL, 'v'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {0},
};

struct choice {
    const char *word;
    int means;
};

static bool take_size(const char *option, const char *text, uint64_t *value)
{
    static const char letters[] = "KMGT";
    size_t length = strlen(text);
    const char *letter = length ? strchr(letters, text[length - 1]) : NULL;
    int shift = letter ? 10 * (int)(letter - letters + 1) : 0;

    if (config_number(text, length - (letter != NULL), INT64_MAX >> shift, value) && *value) {
        *value <<= shift;
        return true;
    }
    report_error("%s %s: not a number of bytes, with K, M, G or T for powers of 1024", option,
                 text);
    return false;
}

static bool take_choice(const char *option, const char *text, const struct choice *choices,
                        size_t count, int *chosen)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(text, choices[i].word) == 0) {
            *chosen = choices[i].means;
            return true;
        }
    }
    report_error("%s %s: takes %s, %s%s%s", option, text, choices[0].word, choices[1].word,
                 count > 2 ? " or " : "", count > 2 ? choices[2].word : "");
    return false;
}

static bool take_limit(struct pack_options *options, const char *option, enum pack_limit limit,
                       unsigned *limits)
{
    options->limit = limit;
    ++*limits;
    if (limit == PACK_LIMIT_BYTES)
        return take_size(option, optarg, &options->limit_value);
    return command_line_number(option, optarg, 1, UINT32_MAX, &options->limit_value);
}

static void take_label(struct pack_options *options)
{
    options->label_file = NULL;
    if (strcmp(optarg, "none") == 0) {
        options->label = PACK_LABEL_NONE;
    } else if (strcmp(optarg, "dir") == 0) {
        options->label = PACK_LABEL_LAST;
    } else if (strcmp(optarg, "dir:first") == 0) {
        options->label = PACK_LABEL_FIRST;
    } else {
        options->label = PACK_LABEL_FILE;
        options->label_file = optarg;
    }
}

static bool take_threads(struct pack_options *options)
{
    uint64_t value;

    if (!command_line_number("-j", optarg, 1, PACK_THREADS_MAX, &value))
        return false;
    options->threads = (unsigned)value;
    return true;
}

static bool take_picture_option(struct pack_options *options, int option)
{
    static const struct choice damaged[] = {
        {"keep", PACK_DAMAGED_KEEP}, {"skip", PACK_DAMAGED_SKIP}, {"stop", PACK_DAMAGED_STOP}};
    uint64_t value;
    int chosen;

    switch (option) {
    case RESIZE:
        if (!command_line_number("--resize-short", optarg, 1, IMAGE_TARGET_MAX, &value))
            return false;
        options->short_side = (int)value;
        return true;
    case QUALITY:
        if (!command_line_number("--quality", optarg, 1, 100, &value))
            return false;
        options->quality = (int)value;
        return true;
    case CONVERT_PNG:
        options->convert_png = true;
        return true;
    case DAMAGED:
        if (!take_choice("--damaged", optarg, damaged, 3, &chosen))
            return false;
        options->damaged = (enum pack_damaged)chosen;
        return true;
    default:
        return false; /* reported */
    }
}

static bool take_option(struct pack_options *options, int option, unsigned *limits, bool *output)
{
    static const struct choice from[] = {{"tree", PACK_FROM_TREE}, {"shards", PACK_FROM_SHARDS}};
    int chosen;

    switch (option) {
    case 'o':
        *output = true;
        return pack_pattern_parse(&options->output, optarg) == 0;
    case SHARD_SIZE:
        return take_limit(options, "--shard-size", PACK_LIMIT_BYTES, limits);
    case SHARD_COUNT:
        return take_limit(options, "--shard-count", PACK_LIMIT_SHARDS, limits);
    case SAMPLES:
        return take_limit(options, "--samples-per-shard", PACK_LIMIT_SAMPLES, limits);
    case SHUFFLE:
        options->shuffled = true;
        return command_line_number("--shuffle", optarg, 0, INT64_MAX, &options->seed);
    case KEEP_ORDER:
        options->keep_order = true;
        return true;
    case LABEL:
        take_label(options);
        return true;
    case CLASSES:
        options->classes = optarg;
        return true;
    case INDEX:
        options->index = optarg;
        if (!*optarg)
            report_error("--index: an empty name; it is a path, or none");
        return *optarg;
    case FROM:
        if (!take_choice("--from", optarg, from, 2, &chosen))
            return false;
        options->from = (enum pack_from)chosen;
        return true;
    case MTIME:
        options->mtime_given = true;
        return command_line_number("--mtime", optarg, 0, MTIME_MAX, &options->mtime);
    case FORCE:
        options->force = true;
        return true;
    case 'j':
        return take_threads(options);
    case JSON:
        options->json = true;
        return true;
    case 'v':
        options->verbose = true;
        return true;
    default:
        return take_picture_option(options, option);
    }
}

static bool check(const struct pack_options *options, unsigned limits, bool output)
{
    if (options->source_count == 0)
        report_error("nothing to pack; `shufflefs-pack --help` tells more");
    else if (!output)
        report_error("-o is missing: the shards' names, as in -o 'train-%%06d.tar'");
    else if (limits > 1)
        report_error("--shard-size, --shard-count, --samples-per-shard: give one of them, once");
    else if (options->shuffled && options->keep_order)
        report_error("--shuffle and --keep-order: give one of them");
    else if (options->classes && options->label == PACK_LABEL_NONE)
        report_error("--classes needs --label");
    else
        return true;
    return false;
}

bool pack_options_parse(struct pack_options *options, int count, char **arguments)
{
    unsigned limits = 0;
    bool output = false;
    int option;

    *options = (struct pack_options){
        .limit_value = SHARD_SIZE_DEFAULT,
        .quality = QUALITY_DEFAULT,
    };
    while ((option = command_line_next(count, arguments, ":o:j:vhV", long_options)) != -1) {
        if (option == 'h' || option == 'V') {
            options->help = option == 'h';
            options->version = option == 'V';
            return true;
        }
        if (!take_option(options, option, &limits, &output))
            return false;
    }
    options->sources = arguments + optind;
    options->source_count = (size_t)(count - optind);
    if (!options->threads)
        options->threads = (unsigned)cores_usable();
    if (options->threads > PACK_THREADS_MAX)
        options->threads = PACK_THREADS_MAX;
    return check(options, limits, output);
}
