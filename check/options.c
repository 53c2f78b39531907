/* The command line. Owns nothing. */
#include "options.h"

#include "../core/command_line.h"
#include "../core/report.h"
#include "../core/shards.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define EXAMPLES_DEFAULT 3
#define EXAMPLES_MOST    1000000
#define BATCH_MOST       ((uint64_t)1 << 32)
#define THREADS_MOST     1024

const char check_usage[] =
    "usage: shufflefs-check SHARDS... [OPTION]...\n"
    "\n"
    "Are these shards sound, is the split even, does this node agree. SHARDS as for shufflefs.\n"
    "\n"
    "  --world W          deals the epoch over W ranks, and goes through all of it\n"
    "  --batch B          batches of a rank, and how many samples the last one has\n"
    "  --decode           decodes every JPEG and PNG\n"
    "  --write-lengths FILE  the pixels of each sample's picture, a line each, from its header,\n"
    "                     for `lengths=FILE`; -: to standard output\n"
    "  -j N               threads that decode or measure (as many as cores that may be used)\n"
    "  --expect DATA-ORDER  a fingerprint that this node shall have, too\n"
    "  --write-idx        writes DALI's index SHARD.idx beside each shard\n"
    "  --strict           remarks count as errors do\n"
    "  --examples N       shows the first N of each kind (3)\n"
    "  --json             one JSON object\n"
    "  --samples          with --json: every sample, its fields' sizes and sha256\n"
    "  -c FILE, -o LIST   options as for shufflefs\n"
    "  -h, --help         this help        -V, --version   the version\n"
    "\n"
    "Exit code: 0 sound, 1 something was found, 2 usage.\n";

enum {
    WORLD = 256,
    BATCH,
    DECODE,
    EXPECT,
    WRITE_IDX,
    WRITE_LENGTHS,
    STRICT,
    EXAMPLES,
    JSON,
    SAMPLES
};

static const struct option options[] = {
    {"world", required_argument, NULL, WORLD},
    {"batch", required_argument, NULL, BATCH},
    {"decode", no_argument, NULL, DECODE},
    {"expect", required_argument, NULL, EXPECT},
    {"write-idx", no_argument, NULL, WRITE_IDX},
    {"write-lengths", required_argument, NULL, WRITE_LENGTHS},
    {"strict", no_argument, NULL, STRICT},
    {"examples", required_argument, NULL, EXAMPLES},
    {"json", no_argument, NULL, JSON},
    {"samples", no_argument, NULL, SAMPLES},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {0},
};

/* Two times 16 hexadecimal digits, as .control/fingerprint has them. */
static bool take_fingerprint(char *to)
{
    size_t length = strlen(optarg), digits = strspn(optarg, "0123456789abcdef");

    if (length != DATASET_FINGERPRINT_BYTES - 1 || digits != 16 || optarg[digits] != '-' ||
        strspn(optarg + digits + 1, "0123456789abcdef") != 16) {
        report_error("--expect %s: not a fingerprint, two times 16 hexadecimal digits with a `-` "
                     "between",
                     optarg);
        return false;
    }
    memcpy(to, optarg, length + 1);
    return true;
}

static bool take_option(struct check_request *request, int option, const char *base)
{
    switch (option) {
    case WORLD:
        request->splits = true;
        return config_set(&request->config, "world", optarg, "command line", base) == 0;
    case BATCH:
        request->splits = true;
        return command_line_number("--batch", optarg, 1, BATCH_MOST, &request->batch);
    case EXPECT:
        return take_fingerprint(request->expected);
    case EXAMPLES:
        return command_line_number("--examples", optarg, 0, EXAMPLES_MOST, &request->examples);
    case 'j':
        return command_line_number("-j", optarg, 1, THREADS_MOST, &request->threads);
    case 'c':
        return config_read(&request->config, optarg, base) == 0;
    case 'o':
        return config_set_options(&request->config, optarg, base) == 0;
    case DECODE:
        return request->decode = true;
    case WRITE_IDX:
        return request->write_idx = true;
    case WRITE_LENGTHS:
        request->lengths = optarg;
        return check_lengths_may_write(optarg);
    case STRICT:
        return request->strict = true;
    case JSON:
        return request->json = true;
    case SAMPLES:
        return request->samples = true;
    default:
        return false; /* reported */
    }
}

/* What several options have to say together. */
static bool settle(struct check_request *request)
{
    if (request->config.shards.count == 0)
        report_error("no shards given; `shufflefs-check --help` tells more");
    else if (request->samples && !request->json)
        report_error("--samples needs --json");
    else if (request->json && check_lengths_to_output(request))
        report_error("--json and --write-lengths - both want standard output for themselves");
    else {
        request->splits |= request->config.world > 1;
        request->strict |= request->config.strict;
        request->config.strict = false; /* nothing is refused here: all is told */
        return config_settle(&request->config) == 0;
    }
    return false;
}

enum check_command check_options(struct check_request *request, int count, char **arguments)
{
    char base[4096];
    int option;

    *request = (struct check_request){.examples = EXAMPLES_DEFAULT};
    config_init(&request->config);
    if (!getcwd(base, sizeof base)) {
        report_error("the current folder: %s", strerror(errno));
        return CHECK_FAULT;
    }
    while ((option = command_line_next(count, arguments, ":j:c:o:hV", options)) != -1) {
        if (option == 'h' || option == 'V')
            return option == 'h' ? CHECK_HELP : CHECK_VERSION;
        if (!take_option(request, option, base))
            return CHECK_USAGE;
    }
    for (int i = optind; i < count; i++)
        if (shards_add(&request->config.shards, arguments[i], base))
            return CHECK_FAULT;
    return settle(request) ? CHECK_GO : CHECK_USAGE;
}

void check_request_close(struct check_request *request)
{
    config_close(&request->config);
}
