/* One sample to one row. */
#include "worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
/* A read that lets go of the CPU for longer than this waited for storage, not for the lock of a
 * page. */
#define WAITED_NS 100000

static void fill_recipe(struct image_recipe *recipe, const struct sl_config *config)
{
    *recipe = (struct image_recipe){
        .width = config->width,
        .height = config->height,
        .crop = config->crop == SL_CROP_RANDOM_RESIZED ? IMAGE_RANDOM_RESIZED
                : config->crop == SL_CROP_CENTRE       ? IMAGE_CENTRE
                                                       : IMAGE_STRETCH,
        .shorter = config->shorter,
        .area_least = config->area_least,
        .area_most = config->area_most,
        .ratio_least = config->ratio_least,
        .ratio_most = config->ratio_most,
        .flip = config->flip,
        .orient = config->orient,
        .exact = config->exact,
        .pixels_most = config->pixels_most,
        .scans_most = config->scans_most,
    };
}

int worker_open(struct worker *worker, const struct settings *settings,
                const struct backend *backend, void *state, bool reads, struct fault *fault)
{
    int error = 0;

    memset(worker, 0, sizeof *worker);
    worker->settings = settings;
    worker->backend = backend;
    worker->state = state;
    if (reads) {
        /* Address space: only as much is used as the largest file has needed. */
        worker->buffer_bytes = (settings->config.file_most + 1 + PAGE) / PAGE * PAGE;
        worker->buffer = mmap(NULL, worker->buffer_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (worker->buffer == MAP_FAILED) {
            worker->buffer = NULL;
            error = -ENOMEM;
        }
    }
    if (!error && settings->images) {
        struct image_recipe recipe;

        fill_recipe(&recipe, &settings->config);
        error = image_decoder_open(&worker->decoder, &recipe);
        if (!error && !backend->rows_are_pixels(state)) {
            worker->pixels = aligned_alloc(SETTINGS_ALIGNMENT,
                                           (settings->pixels / SETTINGS_ALIGNMENT + 1) *
                                               SETTINGS_ALIGNMENT);
            if (!worker->pixels)
                error = -ENOMEM;
        }
        if (!error)
            image_decoder_times(worker->decoder, &worker->image_times);
    }
    if (error) {
        fault_set(fault, error, "a worker's decoder cannot be opened: %s", fault_meaning(error));
        worker_close(worker);
    }
    return error;
}

void worker_close(struct worker *worker)
{
    if (worker->buffer)
        munmap(worker->buffer, worker->buffer_bytes);
    image_decoder_close(worker->decoder);
    free(worker->pixels);
    memset(worker, 0, sizeof *worker);
}

void worker_read(struct worker *worker, const struct catalog *catalog, uint64_t number,
                 struct sample *sample)
{
    uint64_t start = tally_now(), start_cpu = tally_thread_now(), took, worked;

    catalog_read(catalog, number, worker->buffer, worker->settings->config.file_most, sample);
    took = tally_now() - start;
    worked = tally_thread_now() - start_cpu;
    /* The two clocks tick differently. */
    if (worked > took)
        worked = took;
    worker->tally.read_ns += worked;
    worker->tally.wait_storage_ns += took - worked;
    worker->waited = took - worked > WAITED_NS;
}

static int write_image(struct worker *worker, uint8_t *row, const struct sample *sample,
                       uint64_t epoch, uint64_t position, const char **why,
                       struct image_report *report)
{
    struct image_key key = {worker->settings->config.seed, epoch, position};
    uint8_t *rgb = worker->pixels ? worker->pixels : row;
    uint64_t start;
    int error = image_decode(worker->decoder, sample->bytes, sample->size, &key, rgb, report);

    worker->tally.decode_ns += worker->image_times.decode_ns;
    worker->tally.resize_ns += worker->image_times.resize_ns;
    worker->image_times = (struct image_times){0};
    *why = report->why;
    if (error)
        return error;
    if (worker->pixels) {
        start = tally_now();
        worker->backend->write_row(worker->state, rgb, row);
        worker->tally.normalise_ns += tally_now() - start;
    }
    return report->damaged ? SL_SAMPLE_DAMAGED : SL_SAMPLE_GOOD;
}

static int write_bytes(struct worker *worker, struct slot *slot, uint64_t row,
                       const struct sample *sample)
{
    const struct settings *settings = worker->settings;
    size_t most = settings->config.length_most, stride = settings->row_bytes;
    size_t length = sample->size < most ? sample->size : most;
    uint8_t *to = slot->data + row * stride;
    uint64_t start = tally_now();

    if (length)
        memcpy(to, sample->bytes, length);
    memset(to + length, settings->config.padding, stride - length);
    if (slot->mask) {
        memset(slot->mask + row * stride, 1, length);
        memset(slot->mask + row * stride + length, 0, stride - length);
    }
    slot->lengths[row] = (int64_t)length;
    worker->tally.decode_ns += tally_now() - start;
    return sample->size > most ? SL_SAMPLE_CUT : SL_SAMPLE_GOOD;
}

void worker_write(struct worker *worker, struct slot *slot, uint64_t row,
                  const struct sample *sample, uint64_t epoch, uint64_t position)
{
    const struct settings *settings = worker->settings;
    uint8_t *data = slot->data + row * settings->row_bytes;
    struct image_report report;
    const char *why = "";
    int status;

    if (sample->error) {
        status = sample->error;
        why = fault_meaning(status);
    } else if (settings->images) {
        status = write_image(worker, data, sample, epoch, position, &why, &report);
    } else {
        status = write_bytes(worker, slot, row, sample);
    }
    if (status < 0) {
        memset(data, 0, settings->row_bytes);
        if (slot->mask)
            memset(slot->mask + row * settings->row_bytes, 0, settings->row_bytes);
        slot->lengths[row] = 0;
    } else if (settings->images) {
        slot->lengths[row] = (int64_t)sample->size;
    }
    if ((status < 0 || (status == SL_SAMPLE_DAMAGED && settings->config.damaged_is_bad)) &&
        !worker->troubled) {
        worker->troubled = true;
        worker->bad_row = row;
        snprintf(worker->last_bad, sizeof worker->last_bad, "%s: %s", sample->name,
                 *why ? why : fault_meaning(status < 0 ? status : EBADMSG));
    }
    slot->labels[row] = sample->label;
    slot->statuses[row] = status;
    slot->positions[row] = position;
    memcpy(slot->name_text + row * SAMPLE_NAME_ROOM, sample->name, strlen(sample->name) + 1);
    worker->tally.bytes += sample->size;
    worker->tally.decoded++;
}
