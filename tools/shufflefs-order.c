/* shufflefs-order: the order of an epoch without a mount, one sample a line. Owns nothing but its
 * output. */
#include "../core/dataset.h"
#include "../core/output.h"
#include "../core/report.h"
#include "../core/version.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EXIT_FAULT = 1, EXIT_USAGE = 2 };

struct request {
    struct config config;
    uint64_t count; /* -n; 0 with shards */
    bool counted, all, keys, json;
    uint64_t rank, samples;
    struct dataset dataset;     /* with shards */
    struct basis counted_basis; /* with -n */
};

static const char usage[] =
    "usage: shufflefs-order (-n N | SHARDS...) [OPTION]...\n"
    "\n"
    "Prints which samples a rank reads in an epoch, in order, one sample index a line; the same as "
    "the\n"
    "folder rank-R of a mount with these options.\n"
    "\n"
    "  -n N               a data set of N samples, no shards needed\n"
    "  --world W          ranks that the epoch is dealt over (1)\n"
    "  --rank R|all       which rank (0); `all` prints RANK, tab, SAMPLE\n"
    "  --epoch E, --seed S, --order torch|sequential, --remainder pad|drop|keep, --drop-last\n"
    "  --samples K        the first K of each rank\n"
    "  --keys             adds a tab and the sample's key (needs shards)\n"
    "  --json             one JSON object\n"
    "  -c FILE, -o LIST   options as for shufflefs\n"
    "  -h, --help         this help        -V, --version   the version\n";

enum { WORLD = 256, RANK, EPOCH, SEED, ORDER, REMAINDER, DROP_LAST, SAMPLES, KEYS, JSON };

static const struct option options[] = {
    {"world", required_argument, NULL, WORLD},
    {"rank", required_argument, NULL, RANK},
    {"epoch", required_argument, NULL, EPOCH},
    {"seed", required_argument, NULL, SEED},
    {"order", required_argument, NULL, ORDER},
    {"remainder", required_argument, NULL, REMAINDER},
    {"drop-last", no_argument, NULL, DROP_LAST},
    {"samples", required_argument, NULL, SAMPLES},
    {"keys", no_argument, NULL, KEYS},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {0},
};

static bool take_number(const char *option, const char *text, uint64_t most, uint64_t *value)
{
    if (config_number(text, strlen(text), most, value))
        return true;
    report_error("%s %s: not a number from 0 to %llu", option, text, (unsigned long long)most);
    return false;
}

static bool take_option(struct request *request, int option, const char *base)
{
    static const struct {
        int option;
        const char *key;
    } settings[] = {{WORLD, "world"}, {EPOCH, "epoch"},         {SEED, "seed"},
                    {ORDER, "order"}, {REMAINDER, "remainder"}, {DROP_LAST, "drop_last"}};

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (option == settings[i].option)
            return config_set(&request->config, settings[i].key, optarg, "command line", base) == 0;
    switch (option) {
    case 'n':
        request->counted = true;
        return take_number("-n", optarg, ORDER_SAMPLES_MAX, &request->count);
    case 'c':
        return config_read(&request->config, optarg, base) == 0;
    case 'o':
        return config_set_options(&request->config, optarg, base) == 0;
    case RANK:
        request->all = strcmp(optarg, "all") == 0;
        return request->all || take_number("--rank", optarg, PLAN_WORLD_MAX, &request->rank);
    case SAMPLES:
        return take_number("--samples", optarg, UINT64_MAX, &request->samples);
    case KEYS:
        request->keys = true;
        return true;
    case JSON:
        request->json = true;
        return true;
    default:
        return false; /* getopt named it */
    }
}

static bool check(const struct request *request)
{
    bool shards = request->config.shards.count > 0;

    if (request->counted && shards)
        report_error("-n and shards: give one of them");
    else if (!request->counted && !shards)
        report_error("neither -n nor shards given; `shufflefs-order --help` tells more");
    else if (request->counted && request->keys)
        report_error("--keys needs shards");
    else if (!request->all && request->rank && request->config.world == 1)
        report_error("--rank %llu: world 1 has rank 0 alone", (unsigned long long)request->rank);
    else if (!request->all && request->rank >= request->config.world)
        report_error("--rank %llu: ranks of world %llu go from 0 to %llu",
                     (unsigned long long)request->rank, (unsigned long long)request->config.world,
                     (unsigned long long)request->config.world - 1);
    else
        return true;
    return false;
}

static void print_sample(const struct request *request, uint64_t rank, uint64_t sample)
{
    if (request->all)
        printf("%llu\t", (unsigned long long)rank);
    printf("%llu", (unsigned long long)sample);
    if (request->keys)
        printf("\t%s", index_key(request->dataset.index, sample));
    putchar('\n');
}

static json_t *to_json(const struct request *request, uint64_t sample)
{
    json_t *key;

    if (!request->keys)
        return json_integer((json_int_t)sample);
    key = json_string(index_key(request->dataset.index, sample));
    /* A key that is no UTF-8 cannot stand in JSON. */
    return json_pack("{s:I, s:o}", "sample", (json_int_t)sample, "key", key ? key : json_null());
}

static int print_rank(const struct request *request, const struct order *order, uint64_t rank,
                      json_t *ranks)
{
    json_t *samples = ranks ? json_array() : NULL;
    struct plan plan;

    if (!plan_open(&plan, order_places(order),
                   &(struct plan_share){.rank = rank, .world = request->config.world},
                   &request->config.deal))
        return -EINVAL;
    for (uint64_t p = 0; p < plan.length && p < request->samples && !ferror(stdout); p++) {
        uint64_t sample = order_sample(order, plan_global(&plan, p));
        if (samples)
            json_array_append_new(samples, to_json(request, sample));
        else
            print_sample(request, rank, sample);
    }
    if (samples)
        json_array_append_new(ranks,
                              json_pack("{s:I, s:I, s:o}", "rank", (json_int_t)rank, "length",
                                        (json_int_t)plan.length, "samples", samples));
    return 0;
}

static json_t *describe(const struct request *request, json_t *ranks)
{
    const struct config *config = &request->config;
    json_t *root = json_pack(
        "{s:I, s:I, s:I, s:I, s:s, s:s, s:o}", "samples", (json_int_t)request->count, "world",
        (json_int_t)config->world, "epoch", (json_int_t)config->epoch, "seed",
        (json_int_t)config->order.seed, "order", order_kind_name(config->order.kind), "remainder",
        plan_remainder_name(config->deal.remainder), "ranks", ranks);

    if (request->dataset.index)
        json_object_set_new(root, "fingerprint", json_string(request->dataset.fingerprint));
    return root;
}

static int print(const struct request *request)
{
    uint64_t first = request->all ? 0 : request->rank;
    uint64_t past = request->all ? request->config.world : request->rank + 1;
    json_t *ranks = request->json ? json_array() : NULL, *root;
    struct order *order;
    const struct order_basis *basis = request->dataset.index ? &request->dataset.basis.order
                                                             : &request->counted_basis.order;
    int fault = order_open(&order, &request->config.order, basis, request->config.epoch);

    if (fault) {
        report_error("the order of %llu sample%s: %s", (unsigned long long)request->count,
                     request->count == 1 ? "" : "s", strerror(-fault));
        json_decref(ranks);
        return fault;
    }
    for (uint64_t rank = first; !fault && rank < past && !ferror(stdout); rank++)
        fault = print_rank(request, order, rank, ranks);
    if (ranks) {
        root = describe(request, ranks);
        json_dumpf(root, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(root);
    }
    order_close(order);
    return fault ? fault : output_end();
}

static int run(struct request *request)
{
    int fault = config_settle(&request->config);

    if (fault)
        return EXIT_USAGE;
    if (request->counted) {
        fault = basis_open(&request->counted_basis, &request->config, request->count, NULL, NULL);
    } else {
        fault = dataset_open(&request->dataset, &request->config);
        if (!fault)
            request->count = request->dataset.index->sample_count;
    }
    if (!fault)
        fault = print(request);
    dataset_close(&request->dataset);
    basis_close(&request->counted_basis);
    return fault ? EXIT_FAULT : 0;
}

int main(int count, char **arguments)
{
    struct request request = {.samples = UINT64_MAX};
    char base[4096];
    int option, code = 0;

    output_open();
    report_program("shufflefs-order");
    config_init(&request.config);
    if (!getcwd(base, sizeof base)) {
        report_error("the current folder: %s", strerror(errno));
        return EXIT_FAULT;
    }
    while (!code && (option = getopt_long(count, arguments, "n:c:o:hV", options, NULL)) != -1) {
        if (option == 'h' || option == 'V') {
            if (option == 'h')
                fputs(usage, stdout);
            else
                printf("shufflefs-order %s\n", SHUFFLEFS_VERSION);
            config_close(&request.config);
            return output_end() ? EXIT_FAULT : 0;
        }
        if (!take_option(&request, option, base))
            code = EXIT_USAGE;
    }
    for (int i = optind; !code && i < count; i++)
        if (shards_add(&request.config.shards, arguments[i], base))
            code = EXIT_FAULT;
    if (!code && !check(&request))
        code = EXIT_USAGE;
    if (!code)
        code = run(&request);
    config_close(&request.config);
    return code;
}
