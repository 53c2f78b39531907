/* What a loader gives, as text, for the mount tests: load-dump NAME=VALUE...
 *
 * Names are those of sl_config's numbers and texts, and epochs=A,B,C: epochs to run one after the
 * other, leave=N: after N batches an epoch is left (0: at its end). A line a sample (epoch, batch,
 * position, label, status, name, and a hash of the row), one a batch, one an epoch. Ends with 1 and
 * the library's text on an error. */
#include "../../loader/shuffleload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash(const void *bytes, size_t size)
{
    uint64_t value = 14695981039346656037u; /* FNV-1a */

    for (size_t i = 0; i < size; i++)
        value = (value ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
    return value;
}

static int set(struct sl_config *config, const char *name, const char *value)
{
    uint64_t number = strtoull(value, NULL, 10);

#define NUMBER(member, type)                                                                       \
    if (strcmp(name, #member) == 0) {                                                              \
        config->member = (type)number;                                                             \
        return 1;                                                                                  \
    }
    NUMBER(source, enum sl_source)
    NUMBER(output, enum sl_output)
    NUMBER(rank, uint64_t)
    NUMBER(world, uint64_t)
    NUMBER(epoch, uint64_t)
    NUMBER(after, uint64_t)
    NUMBER(start, uint64_t)
    NUMBER(seed, uint64_t)
    NUMBER(batch_size, uint64_t)
    NUMBER(drop_last, int)
    NUMBER(bad, enum sl_bad)
    NUMBER(width, int)
    NUMBER(height, int)
    NUMBER(crop, enum sl_crop)
    NUMBER(length_most, uint64_t)
    NUMBER(mask, int)
    NUMBER(workers, int)
    NUMBER(prefetch, int)
    NUMBER(hold, int)
    NUMBER(file_most, uint64_t)
    NUMBER(stream_bytes, uint64_t)
#undef NUMBER
    if (strcmp(name, "path") == 0)
        config->path = value;
    else if (strcmp(name, "field") == 0)
        config->field = value;
    else
        return 0;
    return 1;
}

static void show(const struct sl_batch *batch)
{
    size_t element = batch->output == SL_FLOAT32_NCHW                                        ? 4
                     : batch->output == SL_FLOAT16_NCHW || batch->output == SL_BFLOAT16_NCHW ? 2
                                                                                             : 1;

    for (uint64_t i = 0; i < batch->asked; i++) {
        size_t length = batch->lengths ? (size_t)batch->lengths[i]
                                       : (size_t)batch->strides[0] * element;
        const uint8_t *row = (const uint8_t *)batch->data + i * (size_t)batch->strides[0] * element;

        printf("sample %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRId64 " %d %s %016" PRIx64 "\n",
               batch->epoch, batch->number, batch->positions[i], batch->labels[i],
               batch->statuses[i], batch->names[i], hash(row, length));
    }
    printf("batch %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", batch->epoch,
           batch->number, batch->count, batch->asked, batch->after);
}

int main(int count, char **arguments)
{
    struct sl_config config = SL_CONFIG_INIT;
    struct sl_position position = {.size = sizeof position};
    struct sl_loader *loader;
    struct sl_batch *batch;
    char *epochs = NULL, *word;
    uint64_t leave = 0;
    int status = 0;

    for (int i = 1; i < count; i++) {
        char *value = strchr(arguments[i], '=');

        if (!value)
            return 2;
        *value++ = '\0';
        if (strcmp(arguments[i], "epochs") == 0)
            epochs = value;
        else if (strcmp(arguments[i], "leave") == 0)
            leave = strtoull(value, NULL, 10);
        else if (!set(&config, arguments[i], value))
            return 2;
    }
    if (sl_open(&loader, &config) < 0) {
        fprintf(stderr, "%s\n", sl_error(NULL));
        return 1;
    }
    do {
        word = epochs ? strsep(&epochs, ",") : NULL;
        if (word)
            status = sl_set_epoch(loader, strtoull(word, NULL, 10));
        while (status >= 0 && (status = sl_next(loader, &batch, -1)) >= 0 && status != SL_END) {
            uint64_t taken = batch->number + 1;

            show(batch);
            sl_release(loader, batch);
            if (taken == leave)
                break;
        }
        sl_position(loader, &position);
        printf("epoch %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", position.epoch,
               position.after, position.taken, position.samples);
    } while (status >= 0 && epochs);
    if (status < 0)
        fprintf(stderr, "%s\n", sl_error(loader));
    sl_close(loader);
    return status < 0;
}
