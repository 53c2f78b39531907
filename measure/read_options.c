/* Options of `shufflefs-bench read`. Owns nothing; what it returns points into the arguments. */
#include "read_options.h"

#include "options.h"

#include "../core/config.h"
#include "../core/report.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: shufflefs-bench read [OPTION]... PATH...\n"
    "\n"
    "Reads every file of each PATH in order and says how fast that went. Several PATHs are read "
    "in\n"
    "turn, round by round, and compared.\n"
    "\n"
    "A PATH is a folder (or folders of folders), a shufflefs mount (its current/rank-0), a tar "
    "(one\n"
    "stream), another file, or @LIST, a file of paths, which are opened without listing a folder.\n"
    "\n"
    "  --readers N,...    readers that share a PATH (1); several numbers: a sweep\n"
    "  --split HOW        how they share it: batch[:B] (B samples to each in turn; default, B 1),\n"
    "                     block (an unbroken run each), each (every reader reads everything)\n"
    "  --processes        readers are processes; default: threads\n"
    "  --at-once          read all PATHs at the same time, each by its own readers\n"
    "  --rounds N         timed passes (3)\n"
    "  --warm-up N        passes before them that do not count (1; 0 with --cold)\n"
    "  --cold             drop the kernel's caches before each pass (as root)\n"
    "  --order name|random, --seed S     reading order (name), and which random one (0)\n"
    "  --fixed            list once, before everything; default: before each pass, timed apart\n"
    "  --count-listing    the time for listing counts in the rates\n"
    "  --list-only        list, and read nothing\n"
    "  --samples N        only the first N samples of each PATH\n"
    "  --seconds S        end each pass after S seconds (or 500ms, 2m)\n"
    "  --work TIME        a consumer that takes TIME for each sample (1ms, 50us; a bare number is\n"
    "                     seconds), and what share of the time it waited for data\n"
    "  --busy             that consumer computes, as one that decodes; default: it sleeps\n"
    "  --parts N          the rates of N parts of a pass (3: first, middle and last third)\n"
    "  --baseline N       ratios to the N-th PATH (1)\n"
    "  --json             one JSON object\n"
    "  --svg FILE         plot samples/s against readers\n"
    "  -h, --help         this help\n"
    "\n"
    "Exit status: 0, 1 when a file could not be read or there is none, 2 usage.\n";

#define TIMES "500us, 1.5ms or 2s"

enum {
    READERS = OPTIONS_FIRST,
    SPLIT,
    PROCESSES,
    AT_ONCE,
    ROUNDS,
    WARM_UP,
    COLD,
    ORDER,
    SEED,
    FIXED,
    COUNT_LISTING,
    LIST_ONLY,
    SAMPLES,
    SECONDS,
    WORK,
    BUSY,
    PARTS,
    BASELINE,
    JSON,
    SVG,
};

static const struct option known[] = {
    {"readers", required_argument, NULL, READERS},
    {"split", required_argument, NULL, SPLIT},
    {"processes", no_argument, NULL, PROCESSES},
    {"at-once", no_argument, NULL, AT_ONCE},
    {"rounds", required_argument, NULL, ROUNDS},
    {"warm-up", required_argument, NULL, WARM_UP},
    {"cold", no_argument, NULL, COLD},
    {"order", required_argument, NULL, ORDER},
    {"seed", required_argument, NULL, SEED},
    {"fixed", no_argument, NULL, FIXED},
    {"count-listing", no_argument, NULL, COUNT_LISTING},
    {"list-only", no_argument, NULL, LIST_ONLY},
    {"samples", required_argument, NULL, SAMPLES},
    {"seconds", required_argument, NULL, SECONDS},
    {"work", required_argument, NULL, WORK},
    {"busy", no_argument, NULL, BUSY},
    {"parts", required_argument, NULL, PARTS},
    {"baseline", required_argument, NULL, BASELINE},
    {"json", no_argument, NULL, JSON},
    {"svg", required_argument, NULL, SVG},
    {"help", no_argument, NULL, 'h'},
    {0},
};

void read_options_help(void)
{
    fputs(help, stdout);
}

static bool take_readers(struct read_options *options)
{
    const char *next = optarg;

    options->steps = 0;
    for (;;) {
        size_t length = strcspn(next, ",");
        uint64_t readers;
        if (options->steps == READ_STEPS_MAX) {
            report_error("--readers %s: more than %d numbers", optarg, READ_STEPS_MAX);
            return false;
        }
        if (!config_number(next, length, READ_READERS_MAX, &readers) || !readers) {
            report_error("--readers %s: not numbers from 1 to %d with commas between", optarg,
                         READ_READERS_MAX);
            return false;
        }
        options->readers[options->steps++] = (unsigned)readers;
        if (!next[length])
            return true;
        next += length + 1;
    }
}

static bool take_order(struct read_options *options)
{
    options->order = strcmp(optarg, "random") == 0 ? SOURCE_AT_RANDOM : SOURCE_BY_NAME;
    if (options->order == SOURCE_AT_RANDOM || strcmp(optarg, "name") == 0)
        return true;
    report_error("--order %s: neither name nor random", optarg);
    return false;
}

static bool take_flag(struct read_options *options, int option)
{
    switch (option) {
    case PROCESSES:
        options->processes = true;
        return true;
    case AT_ONCE:
        options->at_once = true;
        return true;
    case COLD:
        options->cold = true;
        return true;
    case FIXED:
        options->fixed = true;
        return true;
    case COUNT_LISTING:
        options->count_listing = true;
        return true;
    case LIST_ONLY:
        options->list_only = true;
        return true;
    case BUSY:
        options->busy = true;
        return true;
    case JSON:
        options->json = true;
        return true;
    case 'h':
        options->help = true;
        return true;
    default:
        return false;
    }
}

static bool take_option(void *context, int option)
{
    struct read_options *options = context;
    uint64_t baseline;

    switch (option) {
    case READERS:
        return take_readers(options);
    case SPLIT:
        if (split_parse(&options->split, optarg))
            return true;
        report_error("--split %s: none of batch, batch:B, block, each", optarg);
        return false;
    case ROUNDS:
        return options_small("--rounds", 1, 100000, &options->rounds);
    case WARM_UP:
        return options_small("--warm-up", 0, 100000, &options->warm_up);
    case ORDER:
        return take_order(options);
    case SEED:
        return options_number("--seed", 0, INT64_MAX, &options->seed);
    case SAMPLES:
        return options_number("--samples", 1, UINT64_MAX, &options->samples_most);
    case SECONDS:
        return options_time("--seconds", TIMES, &options->ns_most);
    case WORK:
        return options_time("--work", TIMES, &options->work_ns);
    case PARTS:
        return options_small("--parts", 1, READING_PARTS_MAX, &options->parts);
    case BASELINE:
        if (!options_number("--baseline", 1, 1000000, &baseline))
            return false;
        options->baseline = (size_t)baseline - 1;
        return true;
    case SVG:
        options->svg = optarg;
        return true;
    default:
        return take_flag(options, option);
    }
}

static bool check(const struct read_options *options)
{
    if (!options->path_count)
        report_error("no PATH given; `shufflefs-bench read --help` tells more");
    else if (options->baseline >= options->path_count)
        report_error("--baseline %zu: there %s %zu PATH%s", options->baseline + 1,
                     options->path_count == 1 ? "is" : "are", options->path_count,
                     options->path_count == 1 ? "" : "s");
    else if (options->fixed && options->count_listing)
        report_error("--fixed and --count-listing: give one of them");
    else if (options->list_only && (options->fixed || options->at_once))
        report_error("--list-only and --%s: give one of them",
                     options->fixed ? "fixed" : "at-once");
    else if (options->busy && !options->work_ns)
        report_error("--busy: --work TIME says for how long");
    else if (options->at_once && options->count_listing)
        report_error("--at-once and --count-listing: give one of them");
    else
        return true;
    return false;
}

bool read_options_parse(struct read_options *options, int count, char **arguments)
{
    const unsigned not_given = 1000000;

    *options = (struct read_options){
        .rounds = 3,
        .warm_up = not_given,
        .readers = {1},
        .steps = 1,
        .split = {.kind = SPLIT_BATCH, .batch = 1},
        .ns_most = INT64_MAX,
        .samples_most = UINT64_MAX,
        .parts = 1,
    };
    if (!options_take_all(count, arguments, known, take_option, options, &options->help))
        return false;
    if (options->help)
        return true;
    options->paths = arguments + optind;
    options->path_count = (size_t)(count - optind);
    if (options->warm_up == not_given)
        options->warm_up = options->cold ? 0 : 1;
    return check(options);
}
