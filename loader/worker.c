/* One sample to one row. */
#include "worker.h"

#include "exif.h"
#include "jpeg_plain.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
/* A read that lets go of the CPU for longer than this waited for storage, not for the lock of a
 * page. */
#define WAITED_NS 100000
/* Away from the CPU for longer than this in a read, and it is worth a system call to know why. */
#define ASKED_NS 20000

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
        fill_recipe(&worker->recipe, &settings->config);
        error = image_decoder_open(&worker->decoder, &worker->recipe);
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
    uint64_t blocks = tally_thread_blocks(), took, worked;
    uint64_t start = tally_now(), start_cpu = tally_thread_now();

    catalog_read(catalog, number, worker->buffer, worker->settings->config.file_most, sample);
    took = tally_now() - start;
    worked = tally_thread_now() - start_cpu;
    /* The two clocks tick differently. */
    if (worked > took)
        worked = took;
    /* Who never let go of the core did not wait for storage: others had it meanwhile, as they may
     * in decoding. */
    if (took - worked > ASKED_NS && tally_thread_blocks() == blocks)
        worked = took;
    worker->tally.read_ns += worked;
    worker->tally.wait_storage_ns += took - worked;
    worker->waited = took - worked > WAITED_NS;
}

static void note_fallback(struct worker *worker, uint64_t *counter, const char *name,
                          const char *why)
{
    worker->tally.fallbacks++;
    ++*counter;
    worker->fell_back = true;
    snprintf(worker->last_fallback, sizeof worker->last_fallback, "%s: %s", name, why);
}

/* Keeps the JPEG for the device, with what is to become of it: the host's crop, from the same
 * random numbers. False: the host decodes it. */
static bool keep(struct worker *worker, struct slot *slot, uint64_t row,
                 const struct sample *sample, uint64_t epoch, uint64_t position)
{
    struct image_key key = {worker->settings->config.seed, epoch, position};
    struct kept *kept = &slot->kept[row];
    struct jpeg_plain plain;
    uint64_t start = tally_now();
    const char *why = jpeg_plain_look(sample->bytes, sample->size, &plain);

    if (!why && worker->recipe.orient && exif_orientation_jpeg(sample->bytes, sample->size) != 1)
        why = "EXIF turns it";
    if (!why && (uint64_t)plain.width * (uint64_t)plain.height > worker->recipe.pixels_most)
        why = "larger than config.pixels_most";
    if (!why) {
        kept->bytes = slots_keep_file(slot, sample->bytes, sample->size);
        if (!kept->bytes)
            why = "no room for its batch's files";
    }
    if (why) {
        note_fallback(worker, &worker->tally.fallbacks_kind, sample->name, why);
    } else {
        kept->state = KEPT_WAITING;
        kept->size = sample->size;
        kept->width = plain.width;
        kept->height = plain.height;
        crop_plan_make(&kept->plan, &worker->recipe, &key, plain.width, plain.height);
    }
    worker->tally.decode_ns += tally_now() - start;
    return !why;
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

/* What a row's status has to do with the rest of the row. */
static void conclude(struct worker *worker, struct slot *slot, uint64_t row, int status,
                     const char *why, const char *name)
{
    const struct settings *settings = worker->settings;
    uint8_t *data = slot->data + row * settings->row_bytes;

    slot->statuses[row] = status;
    if (status < 0) {
        memset(data, 0, settings->row_bytes);
        if (slot->mask)
            memset(slot->mask + row * settings->row_bytes, 0, settings->row_bytes);
        slot->lengths[row] = 0;
    }
    if ((status < 0 || (status == SL_SAMPLE_DAMAGED && settings->config.damaged_is_bad)) &&
        !worker->troubled) {
        worker->troubled = true;
        worker->bad_row = row;
        snprintf(worker->last_bad, sizeof worker->last_bad, "%s: %s", name,
                 *why ? why : fault_meaning(status < 0 ? status : EBADMSG));
    }
}

void worker_write(struct worker *worker, struct slot *slot, uint64_t row,
                  const struct sample *sample, uint64_t epoch, uint64_t position)
{
    const struct settings *settings = worker->settings;
    uint8_t *data = slot->data + row * settings->row_bytes;
    struct image_report report;
    const char *why = "";
    int status;

    if (slot->kept) {
        slot->kept[row].state = KEPT_NOT;
        slot->sources[row] = -1;
    }
    if (settings->images)
        slot->lengths[row] = (int64_t)sample->size;
    if (sample->error) {
        status = sample->error;
        why = fault_meaning(status);
    } else if (slot->kept && keep(worker, slot, row, sample, epoch, position)) {
        status = SL_SAMPLE_GOOD;
    } else if (settings->images) {
        status = write_image(worker, data, sample, epoch, position, &why, &report);
    } else {
        status = write_bytes(worker, slot, row, sample);
    }
    conclude(worker, slot, row, status, why, sample->name);
    slot->labels[row] = sample->label;
    slot->positions[row] = position;
    memcpy(slot->name_text + row * SAMPLE_NAME_ROOM, sample->name, strlen(sample->name) + 1);
    worker->tally.bytes += sample->size;
    worker->tally.decoded++;
}

void worker_decode_left(struct worker *worker, struct slot *slot, uint64_t row)
{
    const struct kept *kept = &slot->kept[row];
    struct sample sample = {.bytes = kept->bytes, .size = kept->size};
    uint8_t *data = slot->data + row * worker->settings->row_bytes;
    struct tally *tally = &worker->tally;
    struct image_report report;
    const char *why = "";
    int status;

    note_fallback(
        worker, kept->state == KEPT_TOO_LARGE ? &tally->fallbacks_large : &tally->fallbacks_refused,
        slot->names[row], kept->why);
    status = write_image(worker, data, &sample, slot->batch.epoch, slot->positions[row], &why,
                         &report);
    conclude(worker, slot, row, status, why, slot->names[row]);
}
