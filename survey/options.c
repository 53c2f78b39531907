/* The command line: which option sets what, and which of them contradict each other. Owns
 * nothing. */
#include "options.h"

#include "../core/command_line.h"
#include "../core/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BATCH_DEFAULT 256
#define BATCH_MOST    ((uint64_t)1 << 32)

const char survey_usage[] =
    "usage: shufflefs-order (-n N | SHARDS...) [OPTION]...\n"
    "\n"
    "Prints which samples a rank reads in an epoch, in order, one sample index a line; the same as "
    "the\n"
    "folder rank-R of a mount with these options. Or says what an order is like.\n"
    "\n"
    "  -n N               a data set of N samples, no shards needed\n"
    "  --world W          ranks that the epoch is dealt over (1)\n"
    "  --rank R|all       which rank (0); `all` prints RANK, tab, SAMPLE\n"
    "  --part K-of-M      the K-th of M parts of each rank, dealt in runs of\n"
    "  --by B             B samples (1): a data loader's worker K of M with batches of B\n"
    "  --after G          what is left once the whole job has read G samples of the epoch\n"
    "  --samples K        the first K of each rank\n"
    "  --keys             adds a tab and the sample's key (needs shards)\n"
    "  --json             one JSON object\n"
    "\n"
    "Instead of samples:\n"
    "  --table            lengths, padding and what is dropped, for worlds 1, 2, 4, ... and W;\n"
    "                     --samples K: list K samples that are repeated (8)\n"
    "  --shards           how many shards a rank touches, and their bytes; a line a rank with "
    "--rank;\n"
    "                     --part all-of-M: each of the M parts\n"
    "  --quality          how random it is, beside a full shuffle; --batch B: samples of a batch "
    "of\n"
    "                     the whole job (256)\n"
    "  --svg FILE         a picture of it, by itself or with --quality; `-`: standard output\n"
    "  --against ORDER[:KEY=VALUE,...]  with --quality and --svg, as often as wanted: another "
    "order\n"
    "                     beside it, with seed, epoch and its own options\n"
    "\n"
    "As for shufflefs:\n"
    "  --epoch E, --seed S, --order NAME, --remainder pad|drop|keep, --drop-last, "
    "--epoch-samples N,\n"
    "  --weights FILE|balanced, --lengths FILE|size, --bucket B, --block SIZE, --window N, "
    "--streams N\n"
    "  -c FILE, -o LIST   a configuration file, options\n"
    "  -h, --help         this help        -V, --version   the version\n";

/* Each is a bit in what was given. */
enum {
    WORLD = COMMAND_LINE_FIRST,
    RANK,
    PART,
    BY,
    AFTER,
    SAMPLES,
    KEYS,
    JSON,
    TABLE,
    SHARDS,
    QUALITY,
    BATCH,
    SVG,
    AGAINST,
    EPOCH,
    SEED,
    ORDER,
    REMAINDER,
    DROP_LAST,
    EPOCH_SAMPLES,
    WEIGHTS,
    LENGTHS,
    BUCKET,
    BLOCK,
    WINDOW,
    STREAMS,
};
#define GIVEN(option) ((uint64_t)1 << ((option)-WORLD))

static const struct option options[] = {
    {"world", required_argument, NULL, WORLD},
    {"rank", required_argument, NULL, RANK},
    {"part", required_argument, NULL, PART},
    {"by", required_argument, NULL, BY},
    {"after", required_argument, NULL, AFTER},
    {"samples", required_argument, NULL, SAMPLES},
    {"keys", no_argument, NULL, KEYS},
    {"json", no_argument, NULL, JSON},
    {"table", no_argument, NULL, TABLE},
    {"shards", no_argument, NULL, SHARDS},
    {"quality", no_argument, NULL, QUALITY},
    {"batch", required_argument, NULL, BATCH},
    {"svg", required_argument, NULL, SVG},
    {"against", required_argument, NULL, AGAINST},
    {"epoch", required_argument, NULL, EPOCH},
    {"seed", required_argument, NULL, SEED},
    {"order", required_argument, NULL, ORDER},
    {"remainder", required_argument, NULL, REMAINDER},
    {"drop-last", no_argument, NULL, DROP_LAST},
    {"epoch-samples", required_argument, NULL, EPOCH_SAMPLES},
    {"weights", required_argument, NULL, WEIGHTS},
    {"lengths", required_argument, NULL, LENGTHS},
    {"bucket", required_argument, NULL, BUCKET},
    {"block", required_argument, NULL, BLOCK},
    {"window", required_argument, NULL, WINDOW},
    {"streams", required_argument, NULL, STREAMS},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {0},
};

#define LIST_MODE    (1u << SURVEY_LIST)
#define TABLE_MODE   (1u << SURVEY_TABLE)
#define SHARDS_MODE  (1u << SURVEY_SHARDS)
#define QUALITY_MODE (1u << SURVEY_QUALITY)
#define PICTURE_MODE (1u << SURVEY_PICTURE)

static const char *const mode_options[] = {NULL, "--table", "--shards", "--quality", "--svg"};

/* What means something in some modes alone. */
static const struct {
    const char *name;
    int option;
    unsigned modes;
} belongs[] = {
    {"--rank", RANK, LIST_MODE | SHARDS_MODE},
    {"--part", PART, LIST_MODE | SHARDS_MODE},
    {"--samples", SAMPLES, LIST_MODE | TABLE_MODE},
    {"--keys", KEYS, LIST_MODE},
    {"--json", JSON, ~PICTURE_MODE},
    {"--batch", BATCH, QUALITY_MODE},
    {"--against", AGAINST, QUALITY_MODE | PICTURE_MODE},
};

/* What the command line says, before it is looked at as a whole. */
struct line {
    struct survey_request *request;
    struct config *config; /* the first order's */
    const char *base;      /* the current folder */
    uint64_t given;
    const char *against[SURVEY_ORDERS_MAX]; /* made once the first order is known */
};

/* K-of-M, or all-of-M. */
static bool take_part(struct survey_request *request)
{
    const char *of = strstr(optarg, "-of-");
    struct plan_share *share = &request->share;

    request->all_parts = of && of - optarg == 3 && memcmp(optarg, "all", 3) == 0;
    if (!of || !config_number(of + 4, strlen(of + 4), PLAN_PARTS_MAX, &share->parts) ||
        !share->parts ||
        (!request->all_parts &&
         !config_number(optarg, (size_t)(of - optarg), share->parts - 1, &share->part))) {
        report_error("--part %s: takes K-of-M, as 0-of-4: M from 1 to %llu, K below it", optarg,
                     (unsigned long long)PLAN_PARTS_MAX);
        return false;
    }
    return true;
}

static bool take_against(struct line *line)
{
    if (line->request->order_count == SURVEY_ORDERS_MAX) {
        report_error("--against %s: at most %d orders stand side by side", optarg,
                     SURVEY_ORDERS_MAX);
        return false;
    }
    line->against[line->request->order_count++] = optarg;
    return true;
}

/* What the config knows under a name of its own. */
static const char *setting_of(int option)
{
    static const struct {
        int option;
        const char *key;
    } settings[] = {{WORLD, "world"},
                    {EPOCH, "epoch"},
                    {SEED, "seed"},
                    {ORDER, "order"},
                    {REMAINDER, "remainder"},
                    {DROP_LAST, "drop_last"},
                    {EPOCH_SAMPLES, "epoch_samples"},
                    {WEIGHTS, "weights"},
                    {LENGTHS, "lengths"},
                    {BUCKET, "bucket"},
                    {BLOCK, "block"},
                    {WINDOW, "window"},
                    {STREAMS, "streams"}};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (option == settings[i].option)
            return settings[i].key;
    return NULL;
}

static bool take_option(struct line *line, int option)
{
    struct survey_request *request = line->request;
    const char *key = setting_of(option);

    if (option >= WORLD)
        line->given |= GIVEN(option);
    if (key)
        return config_set(line->config, key, optarg, "command line", line->base) == 0;
    switch (option) {
    case 'n':
        request->counted = true;
        return command_line_number("-n", optarg, 0, ORDER_SAMPLES_MAX, &request->count);
    case 'c':
        return config_read(line->config, optarg, line->base) == 0;
    case 'o':
        return config_set_options(line->config, optarg, line->base) == 0;
    case RANK:
        request->ranked = true;
        request->all = strcmp(optarg, "all") == 0;
        return request->all ||
               command_line_number("--rank", optarg, 0, PLAN_WORLD_MAX, &request->share.rank);
    case PART:
        return take_part(request);
    case BY:
        return command_line_number("--by", optarg, 1, PLAN_RUN_MAX, &request->share.run);
    case AFTER:
        return command_line_number("--after", optarg, 0, ORDER_SAMPLES_MAX, &request->share.after);
    case SAMPLES:
        return command_line_number("--samples", optarg, 0, UINT64_MAX - 1, &request->samples);
    case BATCH:
        return command_line_number("--batch", optarg, 1, BATCH_MOST, &request->batch);
    case SVG:
        request->picture = optarg;
        return true;
    case AGAINST:
        return take_against(line);
    case KEYS:
        return request->keys = true;
    case JSON:
        return request->json = true;
    default:
        return option >= WORLD; /* a mode; others were reported */
    }
}

/* Which question it is. At most one of them, but for the picture beside the figures. */
static bool find_mode(struct line *line)
{
    static const int modes[] = {TABLE, SHARDS, QUALITY};
    struct survey_request *request = line->request;

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        enum survey_mode mode = SURVEY_TABLE + (enum survey_mode)i;
        if (!(line->given & GIVEN(modes[i])))
            continue;
        if (request->mode) {
            report_error("%s and %s: give one of them", mode_options[request->mode],
                         mode_options[mode]);
            return false;
        }
        request->mode = mode;
    }
    if (!request->picture)
        return true;
    if (request->mode == SURVEY_LIST)
        request->mode = SURVEY_PICTURE;
    if (request->mode == SURVEY_PICTURE || request->mode == SURVEY_QUALITY)
        return true;
    report_error("%s and --svg: give one of them", mode_options[request->mode]);
    return false;
}

static bool check_belonging(const struct line *line)
{
    enum survey_mode mode = line->request->mode;

    for (size_t i = 0; i < sizeof belongs / sizeof *belongs; i++) {
        char where[64] = "";
        if (!(line->given & GIVEN(belongs[i].option)) || (belongs[i].modes & (1u << mode)))
            continue;
        if (mode != SURVEY_LIST) {
            report_error("%s means nothing with %s", belongs[i].name, mode_options[mode]);
            return false;
        }
        for (int other = SURVEY_TABLE; other <= SURVEY_PICTURE; other++)
            if (belongs[i].modes & (1u << other))
                snprintf(where + strlen(where), sizeof where - strlen(where), "%s%s",
                         *where ? " or " : "", mode_options[other]);
        report_error("%s is for %s", belongs[i].name, where);
        return false;
    }
    return true;
}

static bool check_shards(const struct line *line)
{
    const struct survey_request *request = line->request;
    bool shards = line->config->shards.count > 0;

    if (request->counted && shards)
        report_error("-n and shards: give one of them");
    else if (!request->counted && !shards)
        report_error("neither -n nor shards given; `shufflefs-order --help` tells more");
    else if (request->counted && (request->keys || request->mode == SURVEY_SHARDS))
        report_error("%s needs shards", request->keys ? "--keys" : "--shards");
    else
        return true;
    return false;
}

static bool check_share(const struct line *line)
{
    struct survey_request *request = line->request;
    const struct plan_share *share = &request->share;
    unsigned long long rank = share->rank, world = line->config->world;

    if (!request->all && rank && world == 1)
        report_error("--rank %llu: world 1 has rank 0 alone", rank);
    else if (!request->all && rank >= world)
        report_error("--rank %llu: ranks of world %llu go from 0 to %llu", rank, world, world - 1);
    else if (request->all_parts && request->mode != SURVEY_SHARDS)
        report_error("--part all-of-%llu is for --shards; a list is of one part",
                     (unsigned long long)share->parts);
    else if ((line->given & GIVEN(BY)) && !share->parts)
        report_error("--by needs --part");
    else if (request->mode == SURVEY_QUALITY && request->picture &&
             strcmp(request->picture, "-") == 0)
        report_error("--svg -: standard output is for the figures of --quality");
    else
        return true;
    return false;
}

/* Orders that have no first G samples. */
static bool check_after(const struct line *line)
{
    const struct survey_request *request = line->request;

    for (size_t i = 0; request->share.after && i < request->order_count; i++) {
        const struct config *config = &request->orders[i].config;
        if (!config->deal.runs)
            continue;
        report_error("--after %llu: order=%s has no such beginning, as all ranks read at once: "
                     "each its own run",
                     (unsigned long long)request->share.after, order_kind_name(config->order.kind));
        return false;
    }
    return true;
}

/* As the block size was given, or could have been. */
static void add_setting(struct survey_contender *first, const char *key, uint64_t value)
{
    static const char units[] = "\0KMGT";
    size_t used = strlen(first->name), unit = 0;

    for (; strcmp(key, "block") == 0 && value % 1024 == 0 && unit < 4; unit++)
        value /= 1024;
    snprintf(first->name + used, sizeof first->name - used, "%c%s=%llu%.1s",
             strchr(first->name, ':') ? ',' : ':', key, (unsigned long long)value, &units[unit]);
}

/* `block:window=8`: of what the order has been given. Paths are left out. */
static void name_first(struct survey_contender *first)
{
    const struct order_spec *spec = &first->config.order;
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"bucket", spec->bucket},
                   {"block", spec->block},
                   {"window", spec->window},
                   {"streams", spec->streams}};

    snprintf(first->name, sizeof first->name, "%s", order_kind_name(spec->kind));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].value)
            add_setting(first, numbers[i].key, numbers[i].value);
}

/* What an order beside the first one may have of its own: all else is how the same samples are
 * dealt. */
static bool set_own(struct config *config, char *setting, const char *base)
{
    static const char *const own[] = {"seed",   "epoch", "weights", "lengths",
                                      "bucket", "block", "window",  "streams"};
    char *value = strchr(setting, '=');

    if (value)
        *value++ = '\0';
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(setting, own[i]) == 0)
            return config_set(config, setting, value, "--against", base) == 0;
    report_error("--against: %s: takes seed, epoch, weights, lengths, bucket, block, window and "
                 "streams",
                 setting);
    return false;
}

static bool make_contender(const struct line *line, struct survey_contender *made, const char *text)
{
    const struct config *first = line->config;
    char *copy = strdup(text), *settings, *rest, *setting;
    bool good;

    made->config.world = first->world;
    made->config.epoch = first->epoch;
    made->config.order.seed = first->order.seed;
    made->config.order.epoch_samples = first->order.epoch_samples;
    made->config.deal.remainder = first->deal.remainder;
    /* Whose bytes lengths=size counts. */
    made->config.fields = first->fields ? strdup(first->fields) : NULL;
    if (!copy || (first->fields && !made->config.fields)) {
        free(copy);
        survey_no_memory("the orders");
        return false;
    }
    snprintf(made->name, sizeof made->name, "%s", text);
    settings = strchr(copy, ':');
    if (settings)
        *settings++ = '\0';
    good = config_set(&made->config, "order", copy, "--against", line->base) == 0;
    for (setting = settings ? strtok_r(settings, ",", &rest) : NULL; good && setting;
         setting = strtok_r(NULL, ",", &rest))
        good = set_own(&made->config, setting, line->base);
    free(copy);
    return good && config_settle(&made->config) == 0;
}

/* What several options have to say together. */
static bool settle(struct line *line)
{
    struct survey_request *request = line->request;

    if (!find_mode(line) || !check_belonging(line) || !check_shards(line) || !check_share(line))
        return false;
    name_first(&request->orders[0]);
    if (config_settle(line->config))
        return false;
    for (size_t i = 1; i < request->order_count; i++)
        if (!make_contender(line, &request->orders[i], line->against[i]))
            return false;
    request->share.world = line->config->world;
    if (request->share.parts && !request->share.run)
        request->share.run = 1;
    return check_after(line);
}

enum survey_command survey_options(struct survey_request *request, int count, char **arguments)
{
    struct line line = {.request = request, .config = &request->orders[0].config};
    char base[4096];
    int option;

    *request = (struct survey_request){
        .order_count = 1, .samples = UINT64_MAX, .batch = BATCH_DEFAULT};
    for (size_t i = 0; i < SURVEY_ORDERS_MAX; i++)
        config_init(&request->orders[i].config);
    if (!getcwd(base, sizeof base)) {
        report_error("the current folder: %s", strerror(errno));
        return SURVEY_FAULT;
    }
    line.base = base;
    while ((option = command_line_next(count, arguments, ":n:c:o:hV", options)) != -1) {
        if (option == 'h' || option == 'V')
            return option == 'h' ? SURVEY_HELP : SURVEY_VERSION;
        if (!take_option(&line, option))
            return SURVEY_USAGE;
    }
    for (int i = optind; i < count; i++)
        if (shards_add(&line.config->shards, arguments[i], base))
            return SURVEY_FAULT;
    return settle(&line) ? SURVEY_GO : SURVEY_USAGE;
}

void survey_request_close(struct survey_request *request)
{
    for (size_t i = 0; i < SURVEY_ORDERS_MAX; i++)
        config_close(&request->orders[i].config);
}
