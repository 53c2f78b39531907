/* libFuzzer's entry: any bytes as the text of -o, and as an ini file. What is refused must be said,
 * in one line for the options; what is taken must be in range, and is then settled, twice. Shards
 * are left out: their names are looked for on the disk. With FUZZ_SEEDS=DIR some good ones are
 * written there. */
#include "../../core/config.h"
#include "../../core/report.h"
#include "seeds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte says which of the two. */
static const char *const seeds[] = {
    "oworld=8,seed=3,epoch=5,order=torch,remainder=drop",
    "ofields=jpg/jpeg/png:cls,label=dir,readahead=64M,readahead_total=1G,prime=100,strict",
    "ouid=0,gid=root,allow_other,debug,log=/l\\,og,index=none,direct=always,nodev,noatime,x-a=b",
    "i[shufflefs]\nworld = 4 ; four\n# comment\nseed: 7\nstrict = yes\nlog = /a\\;b\n",
    "oorder=weighted,weights=balanced,epoch_samples=100000",
    "oorder=weighted,weights=w\\,.txt,order=resampled",
    "oorder=length,lengths=size,bucket=256,epoch_samples=512",
    "oorder=contiguous,window=16,epoch_samples=4611686018427387904",
    "oorder=block,block=1M,window=8,streams=32",
    "oorder=feistel,bucket=2147483648",
    "iorder = length\nlengths = /l/lengths.txt\nbucket: 7\nepoch_samples = 70\n",
    "iorder = sequential\nlabel=none\ndrop_last = true\nindex = /x\n[other]\nworld = 2\n",
};

static unsigned lines;
static int file = -1;

static void count_line(const char *line, void *context)
{
    (void)context;
    if (strchr(line, '\n'))
        abort();
    lines++;
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    const char *folder = getenv("FUZZ_SEEDS");

    (void)count;
    (void)arguments;
    report_to_sink(count_line, NULL);
    file = memfd_create("options", MFD_CLOEXEC);
    for (size_t i = 0; folder && i < sizeof seeds / sizeof *seeds; i++)
        seed_write(folder, "config", i, seeds[i], strlen(seeds[i]));
    return 0;
}

static void check(const struct config *config)
{
    if (config->world < 1 || config->world > PLAN_WORLD_MAX || config->epoch > ORDER_EPOCH_MAX ||
        config->deal.remainder > PLAN_KEEP || config->label > CONFIG_LABEL_NONE ||
        config->direct > READER_DIRECT_NEVER || (config->log && config->log[0] != '/') ||
        (config->fields && !config->fields[0]))
        abort();
}

static bool is_path_or(const char *text, const char *word)
{
    return !text || text[0] == '/' || strcmp(text, word) == 0;
}

static void check_order(const struct config *config)
{
    const struct order_spec *order = &config->order;

    if (order->kind >= ORDER_KINDS || order->seed > ORDER_EPOCH_MAX ||
        order->epoch_samples > ORDER_SAMPLES_MAX || order->bucket > UINT32_MAX ||
        order->window > UINT32_MAX || order->streams > UINT32_MAX ||
        !is_path_or(config->weights, "balanced") || !is_path_or(config->lengths, "size"))
        abort();
}

/* An order has what it needs, and nothing that is another's. */
static void settle(struct config *config)
{
    const struct order_spec *order = &config->order;
    int fault;

    lines = 0;
    fault = config_settle(config);
    if (fault ? fault != -EINVAL || lines != 1 : lines > 0)
        abort();
    if (fault)
        return;
    if ((order->kind == ORDER_WEIGHTED) != (config->weights != NULL) ||
        (order->kind == ORDER_LENGTH) != (config->lengths && order->bucket) ||
        (order->kind == ORDER_BLOCK) != (order->block && order->streams) ||
        config->deal.runs != (order->kind == ORDER_CONTIGUOUS) ||
        (order->window && order->kind != ORDER_BLOCK && order->kind != ORDER_CONTIGUOUS) ||
        config_settle(config) || lines > 0)
        abort();
}

static int read_file(struct config *config, const char *text, size_t size)
{
    char path[64];

    if (ftruncate(file, 0) || pwrite(file, text, size, 0) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return config_read(config, path, "/");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config;
    char *text;
    int fault;

    if (size == 0)
        return 0;
    text = malloc(size);
    if (!text)
        abort();
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (strcasestr(text, "shards")) {
        free(text);
        return 0;
    }
    config_init(&config);
    lines = 0;
    fault = data[0] == 'i' ? read_file(&config, text, size - 1)
                           : config_set_options(&config, text, "/base");
    if ((fault < 0) != (lines > 0) || (data[0] != 'i' && lines > 1))
        abort();
    check(&config);
    check_order(&config);
    if (!fault)
        settle(&config);
    config_close(&config);
    free(text);
    return 0;
}
