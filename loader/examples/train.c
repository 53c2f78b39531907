/* The skeleton of a training loop: train PATH [RANK WORLD [EPOCHS [BATCH]]].
 *
 * PATH is a shufflefs mount, a tar, a folder or a list. Put your step where train_step() is: it
 * gets float32 NCHW images and int64 labels, which are yours until the batch is released. */
#include <shuffleload.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static double train_step(const struct sl_batch *batch)
{
    const float *images = batch->data;
    double sum = 0;

    /* One pixel of each image, and nothing learnt. */
    for (uint64_t i = 0; i < batch->count; i++)
        sum += images[(int64_t)i * batch->strides[0]] + (double)batch->labels[i];
    return sum;
}

int main(int count, char **arguments)
{
    struct sl_config config = SL_CONFIG_INIT;
    struct sl_stats stats = {.size = sizeof stats};
    struct sl_position position = {.size = sizeof position};
    struct sl_loader *loader;
    struct sl_batch *batch;
    uint64_t epochs = count > 4 ? strtoull(arguments[4], NULL, 10) : 1;
    int status = 0;

    config.path = count > 1 ? arguments[1] : NULL;
    config.rank = count > 2 ? strtoull(arguments[2], NULL, 10) : 0;
    config.world = count > 3 ? strtoull(arguments[3], NULL, 10) : 0;
    config.batch_size = count > 5 ? strtoull(arguments[5], NULL, 10) : 128;
    config.output = SL_FLOAT32_NCHW;
    config.flip = 0.5;
    for (int i = 0; i < 3; i++) {
        config.mean[i] = (float[]){0.485F, 0.456F, 0.406F}[i];
        config.deviation[i] = (float[]){0.229F, 0.224F, 0.225F}[i];
    }
    if (sl_open(&loader, &config) < 0) {
        fprintf(stderr, "%s\n", sl_error(NULL));
        return 1;
    }
    for (uint64_t epoch = 0; epoch < epochs && status >= 0; epoch++) {
        double sum = 0;

        status = sl_set_epoch(loader, epoch);
        while (status >= 0 && (status = sl_next(loader, &batch, -1)) >= 0 && status != SL_END) {
            sum += train_step(batch);
            sl_release(loader, batch);
        }
        sl_position(loader, &position); /* for a checkpoint: epoch and after */
        sl_stats(loader, &stats);
        printf("epoch %" PRIu64 ": %" PRIu64 " samples, sum %.3f; %.0f samples/s so far\n",
               position.epoch, position.taken, sum,
               (double)stats.samples / ((double)stats.wall_ns / 1e9));
    }
    if (status < 0)
        fprintf(stderr, "%s\n", sl_error(loader));
    if (stats.bad)
        fprintf(stderr, "%" PRIu64 " bad samples; the last: %s\n", stats.bad, stats.last_bad);
    sl_close(loader);
    return status < 0;
}
