/* What the loader costs above decoding: load-overhead FOLDER ROUNDS [NAME=]PATH...
 *
 * First the files of FOLDER (a folder of folders of JPEGs) are read into memory. Then, in turn and
 * ROUNDS times: two threads decode them from memory (RandomResizedCrop 224, flip, float32 NCHW into
 * a batch's memory) with nothing around, and the loader with two workers runs an epoch of each
 * PATH. For each the medians of CPU time (and the kernel's share of it) and wall time an image, and
 * of the rate in relation to the bare threads in the same round, with the quartiles. CPU time tells
 * on a machine that others use too. Who goes first in a round changes from round to round. */
#include "../../loader/catalog.h"
#include "../../loader/image.h"
#include "../../loader/pixels.h"
#include "../../loader/shuffleload.h"
#include "../../loader/tally.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { THREADS = 2, SIDE = 224, BATCH = 128, ROWS = 3 * BATCH, MOST = 64 << 20, WAYS = 16 };

static const float mean[3] = {0.485F, 0.456F, 0.406F}, deviation[3] = {0.229F, 0.224F, 0.225F};

struct file {
    uint8_t *bytes;
    size_t size;
};

static struct file *files;
static uint64_t file_count;
static atomic_ullong next_file;
static float *batches;
static struct pixels_table table;

/* One pass: seconds before it and while it runs, microseconds an image after it. */
struct pass {
    double cpu, system, wall;
};

static struct pass now(void)
{
    struct rusage used;
    double user, system;

    getrusage(RUSAGE_SELF, &used);
    user = (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec / 1e6;
    system = (double)used.ru_stime.tv_sec + (double)used.ru_stime.tv_usec / 1e6;
    return (struct pass){user + system, system, (double)tally_now() / 1e9};
}

static void *bare_main(void *argument)
{
    const struct image_recipe recipe = {.width = SIDE,
                                        .height = SIDE,
                                        .crop = IMAGE_RANDOM_RESIZED,
                                        .shorter = 256,
                                        .area_least = 0.08,
                                        .area_most = 1,
                                        .ratio_least = 0.75,
                                        .ratio_most = 4.0 / 3,
                                        .flip = 0.5,
                                        .pixels_most = 1 << 28,
                                        .scans_most = 500};
    struct image_decoder *decoder;
    struct image_report report;
    uint8_t *rgb = malloc((size_t)SIDE * SIDE * 3);
    uint64_t i;

    if (!rgb || image_decoder_open(&decoder, &recipe))
        exit(1);
    while ((i = atomic_fetch_add(&next_file, 1)) < file_count) {
        struct image_key key = {0, *(uint64_t *)argument, i};

        image_decode(decoder, files[i].bytes, files[i].size, &key, rgb, &report);
        pixels_to_floats(batches + i % ROWS * (size_t)SIDE * SIDE * 3, rgb, (size_t)SIDE * SIDE,
                         &table);
    }
    image_decoder_close(decoder);
    free(rgb);
    return NULL;
}

static uint64_t run_bare(uint64_t epoch)
{
    pthread_t threads[THREADS];

    atomic_store(&next_file, 0);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, bare_main, &epoch);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return file_count;
}

static uint64_t run_loader(struct sl_loader *loader, uint64_t epoch)
{
    struct sl_batch *batch;
    uint64_t count = 0;
    int status = sl_set_epoch(loader, epoch);

    while (status >= 0 && (status = sl_next(loader, &batch, -1)) >= 0 && status != SL_END) {
        count += batch->count;
        sl_release(loader, batch);
    }
    if (status < 0) {
        fprintf(stderr, "%s\n", sl_error(loader));
        exit(1);
    }
    return count;
}

static void read_files(const char *folder)
{
    struct settings settings;
    struct sl_config config = SL_CONFIG_INIT;
    struct catalog *catalog;
    struct fault fault;
    uint8_t *buffer = malloc((size_t)MOST + 1);

    config.path = folder;
    if (!buffer || settings_make(&settings, &config, &fault) ||
        catalog_open_folder(&catalog, folder, false, &settings, &fault)) {
        fprintf(stderr, "%s\n", fault.text);
        exit(1);
    }
    file_count = catalog_count(catalog);
    files = calloc(file_count, sizeof *files);
    for (uint64_t i = 0; i < file_count; i++) {
        struct sample sample;

        catalog_read(catalog, i, buffer, MOST, &sample);
        files[i].bytes = malloc(sample.size);
        files[i].size = sample.size;
        memcpy(files[i].bytes, buffer, sample.size);
    }
    catalog_close(catalog);
    settings_free(&settings);
    free(buffer);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The value below which `share` of them lie. */
static double quantile(double *values, int count, double share)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[(int)(share * (count - 1) + 0.5)];
}

enum { CPU, SYSTEM, WALL, RATE_CPU, RATE_WALL, FIGURES };

static void show(const char *name, const struct pass *passes, const struct pass *bare, int rounds)
{
    double *figures[FIGURES];

    for (int i = 0; i < FIGURES; i++)
        figures[i] = calloc((size_t)rounds, sizeof **figures);
    for (int i = 0; i < rounds; i++) {
        figures[CPU][i] = passes[i].cpu;
        figures[SYSTEM][i] = passes[i].system;
        figures[WALL][i] = passes[i].wall;
        figures[RATE_CPU][i] = bare[i].cpu / passes[i].cpu;
        figures[RATE_WALL][i] = bare[i].wall / passes[i].wall;
    }
    printf("%-40s %6.1f us CPU (%5.1f kernel), %6.1f us wall; rate / bare: "
           "%.3f (%.3f - %.3f) by CPU, %.3f (%.3f - %.3f) by wall\n",
           name, quantile(figures[CPU], rounds, 0.5), quantile(figures[SYSTEM], rounds, 0.5),
           quantile(figures[WALL], rounds, 0.5), quantile(figures[RATE_CPU], rounds, 0.5),
           quantile(figures[RATE_CPU], rounds, 0.25), quantile(figures[RATE_CPU], rounds, 0.75),
           quantile(figures[RATE_WALL], rounds, 0.5), quantile(figures[RATE_WALL], rounds, 0.25),
           quantile(figures[RATE_WALL], rounds, 0.75));
    for (int i = 0; i < FIGURES; i++)
        free(figures[i]);
}

static struct sl_loader *open_way(const char *word)
{
    struct sl_config config = SL_CONFIG_INIT;
    struct sl_loader *loader;
    const char *equals = strchr(word, '=');

    config.path = equals ? equals + 1 : word;
    config.source = strncmp(word, "stream=", 7) == 0 ? SL_SOURCE_MOUNT_TAR : SL_SOURCE_AUTO;
    config.output = SL_FLOAT32_NCHW;
    config.batch_size = BATCH;
    config.flip = 0.5;
    config.workers = THREADS;
    memcpy(config.mean, mean, sizeof mean);
    memcpy(config.deviation, deviation, sizeof deviation);
    if (sl_open(&loader, &config)) {
        fprintf(stderr, "%s\n", sl_error(NULL));
        exit(1);
    }
    return loader;
}

int main(int count, char **arguments)
{
    struct sl_loader *loaders[WAYS] = {0};
    struct pass *passes[WAYS];
    int rounds = count > 2 ? atoi(arguments[2]) : 0, ways = count - 2;

    if (rounds < 1 || ways < 1 || ways > WAYS)
        return 2;
    read_files(arguments[1]);
    pixels_table_fill(&table, mean, deviation);
    batches = mmap(NULL, ROWS * (size_t)SIDE * SIDE * 12, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(batches, ROWS * (size_t)SIDE * SIDE * 12, MADV_HUGEPAGE);
    for (int way = 0; way < ways; way++) {
        passes[way] = calloc((size_t)rounds, sizeof **passes);
        if (way)
            loaders[way] = open_way(arguments[2 + way]);
        (void)(way ? run_loader(loaders[way], 1) : run_bare(1)); /* warm */
    }
    for (int round = 0; round < rounds; round++)
        for (int i = 0; i < ways; i++) {
            int way = (round + i) % ways;
            uint64_t epoch = (uint64_t)round + 2;
            struct pass start = now(), end;
            double done = (double)(way ? run_loader(loaders[way], epoch) : run_bare(epoch));

            end = now();
            passes[way][round] = (struct pass){(end.cpu - start.cpu) / done * 1e6,
                                               (end.system - start.system) / done * 1e6,
                                               (end.wall - start.wall) / done * 1e6};
        }
    for (int way = 0; way < ways; way++)
        show(way ? arguments[2 + way] : "bare threads, from memory", passes[way], passes[0],
             rounds);
    for (int way = 0; way < ways; way++) {
        sl_close(loaders[way]);
        free(passes[way]);
    }
    return 0;
}
