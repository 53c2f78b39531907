/* The work on a sample. Owns a thread's decoder and buffers; never writes a file. */
#include "prepare.h"

#include "../core/report.h"
#include "../loader/shrink.h"
#include "header.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kept from sample to sample. */
#define ROOM_KEPT ((size_t)256 << 10)

struct pack_preparer {
    const struct pack_source *source;
    const struct pack_options *options;
    struct shrink *shrink; /* NULL: pictures stay as they are */
    struct pack_header header;
    uint8_t *picture; /* the file in work */
    size_t picture_room;
};

int pack_preparer_open(struct pack_preparer **out, const struct pack_source *source,
                       const struct pack_options *options)
{
    struct shrink_settings settings = {options->short_side, options->quality, options->convert_png};
    struct pack_preparer *preparer = calloc(1, sizeof *preparer);
    int fault;

    if (!preparer)
        return -ENOMEM;
    preparer->source = source;
    preparer->options = options;
    if ((options->short_side || options->convert_png) &&
        (fault = shrink_open(&preparer->shrink, &settings))) {
        free(preparer);
        return fault;
    }
    *out = preparer;
    return 0;
}

void pack_preparer_close(struct pack_preparer *preparer)
{
    if (!preparer)
        return;
    shrink_close(preparer->shrink);
    pack_header_close(&preparer->header);
    free(preparer->picture);
    free(preparer);
}

/* By its name: is it worth to look at its bytes? */
static bool is_picture(const struct pack_options *options, const struct pack_member *member)
{
    static const char *const endings[] = {"jpg", "jpeg", "jpe", "jfif", "png"};
    const char *dot = strrchr(member->field, '.'), *last = dot ? dot + 1 : member->field;

    if (member->made || !(options->short_side || options->convert_png))
        return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strcmp(last, endings[i]) == 0)
            return true;
    return false;
}

uint64_t pack_prepare_cost(const struct pack_source *source, const struct pack_options *options,
                           uint64_t sample)
{
    const struct pack_listing *listing = &source->listing;
    uint64_t bytes = 0;

    for (uint64_t i = listing->first[sample]; i < listing->first[sample + 1]; i++) {
        const struct pack_member *member = &listing->members[i];
        if (member->size <= PACK_STREAM_FROM ||
            (is_picture(options, member) && member->size <= PACK_PICTURE_MOST))
            bytes += member->size + (uint64_t)3 * PACK_BLOCK;
    }
    return bytes;
}

/* Memory for `size` more bytes; NULL: there is none. */
static uint8_t *more(struct pack_prepared *prepared, size_t size)
{
    if (prepared->size + size > prepared->room) {
        size_t room = (prepared->size + size) + (prepared->size + size) / 4 + 4096;
        uint8_t *larger = realloc(prepared->bytes, room);
        if (!larger)
            return NULL;
        prepared->bytes = larger;
        prepared->room = room;
    }
    return prepared->bytes + prepared->size;
}

static void spell_name(const struct pack_member *member, const char *field, char **name)
{
    if (asprintf(name, "%.*s.%s", (int)member->key_length, member->key, field) < 0)
        *name = NULL;
}

/* Header and room for the data with its padding, which is zeroed. *data: where; NULL for a member
 * that is streamed. */
static int put_header(struct pack_preparer *preparer, struct pack_prepared *prepared,
                      const struct pack_member *member, const char *field, uint64_t size,
                      bool streamed, uint8_t **data)
{
    const struct pack_options *options = preparer->options;
    struct pack_header *header = &preparer->header;
    uint64_t padded = pack_blocks(size);
    uint8_t *to;
    char *name;
    int fault = -ENOMEM;

    *data = NULL;
    spell_name(member, field, &name);
    if (name)
        fault = pack_header_make(header, name, size,
                                 options->mtime_given ? (int64_t)options->mtime : member->seconds);
    if (fault == -EINVAL)
        report_error("'%s' cannot stand in a tar: %s", name, header->why);
    free(name);
    if (fault)
        return fault;
    to = more(prepared, header->size + (streamed ? 0 : padded));
    if (!to)
        return -ENOMEM;
    memcpy(to, header->bytes, header->size);
    prepared->size += header->size;
    prepared->tar_bytes += header->size + padded;
    prepared->counts.members++;
    prepared->counts.pax += header->pax;
    if (!streamed) {
        *data = to + header->size;
        memset(*data + size, 0, padded - size);
        prepared->size += padded;
    }
    return 0;
}

static int put_bytes(struct pack_preparer *preparer, struct pack_prepared *prepared,
                     const struct pack_member *member, const char *field, const void *bytes,
                     size_t size)
{
    uint8_t *data;
    int fault = put_header(preparer, prepared, member, field, size, false, &data);

    if (!fault && size)
        memcpy(data, bytes, size);
    return fault;
}

static int put_label(struct pack_preparer *preparer, struct pack_prepared *prepared,
                     const struct pack_member *member)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)(int64_t)member->number);

    prepared->counts.made++;
    return put_bytes(preparer, prepared, member, member->field, digits, (size_t)length);
}

static int put_streamed(struct pack_preparer *preparer, struct pack_prepared *prepared,
                        const struct pack_member *member)
{
    uint8_t *none;
    int fault;

    if (prepared->streamed_count == prepared->streamed_room) {
        size_t room = prepared->streamed_room * 2 + 4;
        struct pack_streamed *larger = reallocarray(prepared->streamed, room, sizeof *larger);
        if (!larger)
            return -ENOMEM;
        prepared->streamed = larger;
        prepared->streamed_room = room;
    }
    fault = put_header(preparer, prepared, member, member->field, member->size, true, &none);
    if (!fault)
        prepared->streamed[prepared->streamed_count++] = (struct pack_streamed){prepared->size,
                                                                                member};
    return fault;
}

static int read_member(struct pack_preparer *preparer, const struct pack_member *member, void *to)
{
    struct pack_reading reading;
    int fault = pack_reading_open(&reading, preparer->source, member);

    if (!fault)
        fault = pack_reading_take(&reading, to, (size_t)member->size);
    pack_reading_close(&reading);
    return fault;
}

/* As it is, straight from the source. */
static int put_as_it_is(struct pack_preparer *preparer, struct pack_prepared *prepared,
                        const struct pack_member *member)
{
    uint8_t *data;
    int fault;

    prepared->counts.passed++;
    if (member->size > PACK_STREAM_FROM)
        return put_streamed(preparer, prepared, member);
    fault = put_header(preparer, prepared, member, member->field, member->size, false, &data);
    return fault ? fault : read_member(preparer, member, data);
}

static int note_damage(struct pack_preparer *preparer, struct pack_prepared *prepared,
                       const struct pack_member *member, const char *why)
{
    enum pack_damaged way = preparer->options->damaged;
    char **larger, *line;

    if (way == PACK_DAMAGED_STOP) {
        report_error("%.*s.%s: damaged: %s", (int)member->key_length, member->key, member->field,
                     why);
        return -EBADMSG;
    }
    larger = reallocarray(prepared->damage, prepared->damage_count + 1, sizeof *larger);
    if (!larger)
        return -ENOMEM;
    prepared->damage = larger;
    if (asprintf(&line, "%.*s.%s: damaged: %s: %s", (int)member->key_length, member->key,
                 member->field, why,
                 way == PACK_DAMAGED_KEEP ? "kept as it is" : "the sample is left out") < 0)
        return -ENOMEM;
    prepared->damage[prepared->damage_count++] = line;
    prepared->counts.damaged++;
    prepared->left_out |= way == PACK_DAMAGED_SKIP;
    return 0;
}

static int read_picture(struct pack_preparer *preparer, const struct pack_member *member)
{
    if (preparer->picture_room < member->size || !preparer->picture) {
        size_t room = (size_t)member->size + (size_t)member->size / 2 + 65536;
        free(preparer->picture);
        preparer->picture = malloc(room);
        preparer->picture_room = preparer->picture ? room : 0;
        if (!preparer->picture)
            return -ENOMEM;
    }
    return read_member(preparer, member, preparer->picture);
}

static int put_picture(struct pack_preparer *preparer, struct pack_prepared *prepared,
                       const struct pack_member *member)
{
    char converted[INDEX_FIELD_MAX + 1];
    const char *field = member->field;
    struct shrink_result result;
    bool png;
    int fault;

    if (member->size > PACK_PICTURE_MOST) {
        fault = note_damage(preparer, prepared, member, "too large for a picture");
        return fault ? fault : put_as_it_is(preparer, prepared, member);
    }
    fault = read_picture(preparer, member);
    if (!fault)
        fault = shrink_picture(preparer->shrink, preparer->picture, (size_t)member->size, &result);
    if (fault)
        return fault;
    png = strcmp(result.report.format, "png") == 0;
    /* A name that says PNG is right only as long as the bytes are one. */
    if (preparer->options->convert_png &&
        (result.outcome == SHRINK_MADE || result.outcome == SHRINK_KEPT)) {
        pack_listing_converted(field, converted);
        field = converted;
    }
    if (result.outcome == SHRINK_MADE) {
        prepared->counts.resized += !png;
        prepared->counts.converted += png;
        return put_bytes(preparer, prepared, member, field, result.bytes, result.size);
    }
    if (result.outcome == SHRINK_DAMAGED)
        fault = note_damage(preparer, prepared, member, result.report.why);
    prepared->counts.passed++;
    return fault ? fault
                 : put_bytes(preparer, prepared, member, field, preparer->picture,
                             (size_t)member->size);
}

int pack_prepare(struct pack_preparer *preparer, uint64_t sample, struct pack_prepared *prepared)
{
    const struct pack_listing *listing = &preparer->source->listing;
    int fault = 0;

    for (uint64_t i = listing->first[sample];
         !fault && !prepared->left_out && i < listing->first[sample + 1]; i++) {
        const struct pack_member *member = &listing->members[i];
        if (member->made)
            fault = put_label(preparer, prepared, member);
        else if (is_picture(preparer->options, member))
            fault = put_picture(preparer, prepared, member);
        else
            fault = put_as_it_is(preparer, prepared, member);
    }
    if (fault == -ENOMEM)
        report_error(
            "no memory for a sample of %llu bytes",
            (unsigned long long)pack_prepare_cost(preparer->source, preparer->options, sample));
    if (prepared->left_out) {
        prepared->counts = (struct pack_counts){.damaged = prepared->counts.damaged,
                                                .samples_left_out = 1};
        prepared->size = 0;
        prepared->tar_bytes = 0;
        prepared->streamed_count = 0;
    } else {
        prepared->counts.samples = 1;
    }
    return fault;
}

void pack_prepared_clear(struct pack_prepared *prepared)
{
    for (size_t i = 0; i < prepared->damage_count; i++)
        free(prepared->damage[i]);
    prepared->damage_count = 0;
    prepared->streamed_count = 0;
    prepared->size = 0;
    prepared->tar_bytes = 0;
    prepared->counts = (struct pack_counts){0};
    prepared->left_out = false;
    if (prepared->room > ROOM_KEPT) {
        free(prepared->bytes);
        prepared->bytes = NULL;
        prepared->room = 0;
    }
}

void pack_prepared_close(struct pack_prepared *prepared)
{
    pack_prepared_clear(prepared);
    free(prepared->bytes);
    free(prepared->streamed);
    free(prepared->damage);
}
