/* Slots: layout of the arena, and settling a batch. */
#include "slots.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096 };
/* Address space for kept files, of all slots: far less than there is. */
#define FILES_MOST ((size_t)1 << 43)

static size_t aligned(size_t bytes, size_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

/* Hands out the next piece of a slot; without memory, only counts. */
static void *piece(uint8_t *memory, size_t *at, size_t bytes)
{
    void *start = memory ? memory + *at : NULL;

    *at += aligned(bytes, SETTINGS_ALIGNMENT);
    return start;
}

/* All that a copy to a device may read lies in the arena. Returns a slot's bytes. */
static size_t lay_out(const struct settings *settings, struct slot *slot, uint8_t *memory)
{
    size_t rows = settings->config.batch_size, at = 0;

    slot->data = piece(memory, &at, rows * settings->row_bytes);
    if (!settings->images && settings->config.mask)
        slot->mask = piece(memory, &at, rows * settings->row_bytes);
    slot->labels = piece(memory, &at, rows * sizeof *slot->labels);
    slot->lengths = piece(memory, &at, rows * sizeof *slot->lengths);
    slot->statuses = piece(memory, &at, rows * sizeof *slot->statuses);
    slot->positions = piece(memory, &at, rows * sizeof *slot->positions);
    return aligned(at, PAGE);
}

/* What never changes from batch to batch. */
static void describe(const struct settings *settings, struct slot *slot)
{
    struct sl_batch *batch = &slot->batch;
    int64_t width = settings->config.width, height = settings->config.height;
    int64_t row = (int64_t)settings->pixels;

    batch->output = settings->config.output;
    batch->data = slot->data;
    batch->labels = slot->labels;
    batch->lengths = settings->images ? NULL : slot->lengths;
    batch->mask = slot->mask;
    batch->names = slot->names;
    batch->statuses = slot->statuses;
    batch->positions = slot->positions;
    if (!settings->images) {
        batch->dimensions = 2;
        batch->strides[0] = (int64_t)settings->row_bytes;
        batch->strides[1] = 1;
    } else if (batch->output == SL_UINT8_NHWC) {
        batch->dimensions = 4;
        memcpy(batch->shape, (int64_t[]){0, height, width, 3}, sizeof batch->shape);
        memcpy(batch->strides, (int64_t[]){row, width * 3, 3, 1}, sizeof batch->strides);
    } else {
        batch->dimensions = 4;
        memcpy(batch->shape, (int64_t[]){0, 3, height, width}, sizeof batch->shape);
        memcpy(batch->strides, (int64_t[]){row, width * height, width, 1}, sizeof batch->strides);
    }
}

static int open_kept(const struct slots *slots, struct slot *slot)
{
    const struct sl_config *config = &slots->settings->config;
    size_t rows = config->batch_size, most = FILES_MOST / slots->count / PAGE * PAGE;
    size_t one = aligned(config->file_most, SETTINGS_ALIGNMENT);

    slot->kept = calloc(rows, sizeof *slot->kept);
    slot->sources = calloc(rows, sizeof *slot->sources);
    slot->files_bytes = one < most / rows ? aligned(one * rows, PAGE) : most;
    slot->files = mmap(NULL, slot->files_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slot->files == MAP_FAILED)
        slot->files = NULL;
    return slot->kept && slot->sources && slot->files ? 0 : -ENOMEM;
}

const uint8_t *slots_keep_file(struct slot *slot, const uint8_t *bytes, size_t size)
{
    size_t used = atomic_load(&slot->files_used), end;

    do {
        end = used + aligned(size, SETTINGS_ALIGNMENT);
        if (end > slot->files_bytes)
            return NULL;
    } while (!atomic_compare_exchange_weak(&slot->files_used, &used, end));
    memcpy(slot->files + used, bytes, size);
    return slot->files + used;
}

int slots_open(struct slots *slots, const struct settings *settings, const struct backend *backend,
               void *state, struct fault *fault)
{
    size_t rows = settings->config.batch_size, slot_bytes;
    struct slot probe = {0};
    struct fault why = {""};

    memset(slots, 0, sizeof *slots);
    slots->settings = settings;
    slots->backend = backend;
    slots->state = state;
    slots->count = settings->slots;
    if (settings->row_bytes > (SIZE_MAX >> 2) / rows / settings->slots)
        return fault_set(fault, -ENOMEM, "%llu batches of %zu rows of %zu bytes are too much",
                         (unsigned long long)settings->slots, rows, settings->row_bytes);
    slot_bytes = lay_out(settings, &probe, NULL);
    slots->slots = calloc(slots->count, sizeof *slots->slots);
    slots->arena_bytes = slot_bytes * slots->count;
    slots->arena = slots->slots ? backend->memory_take(state, slots->arena_bytes, &why) : NULL;
    if (!slots->arena)
        goto none;
    for (size_t i = 0; i < slots->count; i++) {
        struct slot *slot = &slots->slots[i];

        lay_out(settings, slot, (uint8_t *)slots->arena + i * slot_bytes);
        slot->names = calloc(rows, sizeof *slot->names);
        slot->name_text = calloc(rows, SAMPLE_NAME_ROOM);
        if (!slot->names || !slot->name_text)
            goto none;
        for (size_t row = 0; row < rows; row++)
            slot->names[row] = slot->name_text + row * SAMPLE_NAME_ROOM;
        if (backend->decodes(state, NULL) && open_kept(slots, slot))
            goto none;
        describe(settings, slot);
        backend->describe(state, i, &slot->batch);
    }
    return 0;
none:
    fault_set(fault, -ENOMEM, "no memory for %zu batches of %zu rows: %zu MiB%s%s", slots->count,
              rows, slots->arena_bytes >> 20, why.text[0] ? ": " : "", why.text);
    slots_close(slots);
    return -ENOMEM;
}

void slots_close(struct slots *slots)
{
    for (size_t i = 0; slots->slots && i < slots->count; i++) {
        free(slots->slots[i].names);
        free(slots->slots[i].name_text);
        free(slots->slots[i].kept);
        free(slots->slots[i].sources);
    }
    if (slots->arena)
        slots->backend->memory_give(slots->state, slots->arena, slots->arena_bytes);
    /* After a fault a device may read files until then. */
    for (size_t i = 0; slots->slots && i < slots->count; i++)
        if (slots->slots[i].files)
            munmap(slots->slots[i].files, slots->slots[i].files_bytes);
    free(slots->slots);
    slots->slots = NULL;
    slots->arena = NULL;
}

void slots_begin(struct slots *slots, struct slot *slot, uint64_t epoch, uint64_t number)
{
    (void)slots;
    slot->state = SLOT_FILLING;
    slot->done = 0;
    slot->released = false;
    slot->error = 0;
    slot->bad_row = UINT64_MAX;
    atomic_store(&slot->files_used, 0);
    slot->batch.epoch = epoch;
    slot->batch.number = number;
}

static bool is_bad(const struct settings *settings, int32_t status)
{
    return status < 0 || (status == SL_SAMPLE_DAMAGED && settings->config.damaged_is_bad);
}

static void copy_row(struct slots *slots, struct slot *slot, uint64_t to, uint64_t from)
{
    size_t bytes = slots->settings->row_bytes;

    memcpy(slot->data + to * bytes, slot->data + from * bytes, bytes);
    if (slot->mask)
        memcpy(slot->mask + to * bytes, slot->mask + from * bytes, bytes);
    slot->labels[to] = slot->labels[from];
    slot->lengths[to] = slot->lengths[from];
    if (slot->sources)
        slot->sources[to] = slot->sources[from];
}

static void clear_row(struct slots *slots, struct slot *slot, uint64_t row)
{
    size_t bytes = slots->settings->row_bytes;

    memset(slot->data + row * bytes, 0, bytes);
    if (slot->mask)
        memset(slot->mask + row * bytes, 0, bytes);
    slot->labels[row] = SL_NO_LABEL;
    slot->lengths[row] = 0;
}

/* Replaces from the end, so that the next row of a bad one is good already; the run of bad rows at
 * the end takes the batch's first good one. */
static void replace(struct slots *slots, struct slot *slot, uint64_t asked, struct tally *tally)
{
    uint64_t next = 0;

    while (is_bad(slots->settings, slot->statuses[next]))
        next++;
    for (uint64_t row = asked; row-- > 0;) {
        if (!is_bad(slots->settings, slot->statuses[row])) {
            next = row;
            continue;
        }
        copy_row(slots, slot, row, next);
        tally->replaced++;
    }
    for (uint64_t row = 0; row < asked; row++)
        if (is_bad(slots->settings, slot->statuses[row]))
            slot->statuses[row] = SL_SAMPLE_REPLACED;
}

/* A bubble a bad row: few of them, and their own order has to stay. */
static void leave_out(struct slots *slots, struct slot *slot, uint64_t asked, uint64_t good)
{
    uint64_t to = 0, bad = 0;
    struct skipped {
        int32_t status;
        uint64_t position;
        char name[SAMPLE_NAME_ROOM];
    } *skipped = calloc(asked - good, sizeof *skipped);

    for (uint64_t row = 0; row < asked; row++) {
        if (is_bad(slots->settings, slot->statuses[row])) {
            if (skipped) {
                skipped[bad].status = slot->statuses[row];
                skipped[bad].position = slot->positions[row];
                memcpy(skipped[bad].name, slot->names[row], SAMPLE_NAME_ROOM);
                bad++;
            }
            continue;
        }
        if (to != row) {
            copy_row(slots, slot, to, row);
            slot->statuses[to] = slot->statuses[row];
            slot->positions[to] = slot->positions[row];
            memcpy(slot->name_text + to * SAMPLE_NAME_ROOM,
                   slot->name_text + row * SAMPLE_NAME_ROOM, SAMPLE_NAME_ROOM);
        }
        to++;
    }
    for (uint64_t i = 0; to < asked; i++, to++) {
        clear_row(slots, slot, to);
        slot->statuses[to] = skipped ? skipped[i].status : -ENOMEM;
        slot->positions[to] = skipped ? skipped[i].position : 0;
        memcpy(slot->name_text + to * SAMPLE_NAME_ROOM, skipped ? skipped[i].name : "",
               skipped ? SAMPLE_NAME_ROOM : 1);
    }
    free(skipped);
}

void slots_settle(struct slots *slots, struct slot *slot, uint64_t asked, uint64_t after,
                  struct tally *tally)
{
    const struct settings *settings = slots->settings;
    struct sl_batch *batch = &slot->batch;
    uint64_t bad = 0, first_bad = 0;
    int64_t longest = 0;

    for (uint64_t row = asked; row-- > 0;) {
        if (is_bad(settings, slot->statuses[row])) {
            bad++;
            first_bad = row;
        }
        tally->damaged += slot->statuses[row] == SL_SAMPLE_DAMAGED;
        tally->cut += slot->statuses[row] == SL_SAMPLE_CUT;
        tally->unlabelled += slot->labels[row] == SL_NO_LABEL;
    }
    tally->bad += bad;
    batch->asked = batch->count = asked;
    batch->after = after;
    if (bad && (settings->config.bad == SL_BAD_FAIL ||
                (settings->config.bad == SL_BAD_REPLACE && bad == asked))) {
        int32_t status = slot->statuses[first_bad];

        slot->error = fault_set(
            &slot->fault, status < 0 ? status : -EBADMSG, "sample %llu of the global order, %s%s",
            (unsigned long long)slot->positions[first_bad], slot->bad_text,
            settings->config.bad == SL_BAD_FAIL ? ""
                                                : ", and no other sample of its batch is good");
    } else if (bad && settings->config.bad == SL_BAD_REPLACE) {
        replace(slots, slot, asked, tally);
    } else if (bad) {
        leave_out(slots, slot, asked, asked - bad);
        batch->count = asked - bad;
        tally->skipped += bad;
    }
    batch->shape[0] = (int64_t)batch->count;
    if (settings->images)
        return;
    for (uint64_t row = 0; row < batch->count; row++)
        longest = slot->lengths[row] > longest ? slot->lengths[row] : longest;
    batch->shape[1] = longest;
}
