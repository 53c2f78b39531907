/* What came of a check, as text. Owns nothing. */
#include "show.h"

#include "../core/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIELDS_SHOWN 8

static void put_number(FILE *to, uint64_t value)
{
    char text[TEXT_NUMBER];

    fputs(text_count(text, value), to);
}

/* "1 shard", "2 shards". */
static void put_count(FILE *to, uint64_t count, const char *what)
{
    put_number(to, count);
    fprintf(to, " %s%s", what, count == 1 ? "" : "s");
}

static void put_bytes(FILE *to, uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    if (unit)
        fprintf(to, "%.1f %s", value, units[unit]);
    else
        fprintf(to, "%" PRIu64 " B", bytes);
}

/* Names may hold any byte: none may forge a line or move a terminal. */
static void put_name(FILE *to, const char *name)
{
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        if (*c < 0x20 || *c == 0x7f || *c == '\\')
            fprintf(to, "\\x%02x", *c);
        else
            putc(*c, to);
    }
}

static void show_fields(FILE *to, const struct check_result *result)
{
    const struct index *index = result->dataset.index;
    size_t shown = 0, left = 0;

    fprintf(to, "fields       ");
    for (size_t f = 0; f < index->field_count; f++) {
        if (!result->fields[f])
            continue;
        if (shown == FIELDS_SHOWN) {
            left++;
            continue;
        }
        fprintf(to, "%s", shown++ ? ", " : "");
        put_name(to, index->fields[f]);
        putc(' ', to);
        put_number(to, result->fields[f]);
    }
    if (left) {
        fprintf(to, " and ");
        put_count(to, left, "more");
    }
    fprintf(to, "%s\n", result->dataset.uneven ? "; samples differ in them" : "");
}

static void show_data(FILE *to, const struct check_request *request,
                      const struct check_result *result)
{
    const struct dataset *dataset = &result->dataset;
    const struct index *index = dataset->index;

    put_count(to, index->shard_count, "shard");
    fprintf(to, ", ");
    put_count(to, index->sample_count, "sample");
    fprintf(to, ", ");
    put_count(to, index->member_count, "member");
    fprintf(to, ", ");
    put_bytes(to, index->bytes);
    putc('\n', to);
    show_fields(to, result);
    fprintf(to, "labels       %s", dataset->labels.source_text);
    if (dataset->labels.of)
        fprintf(to, ", %" PRIu64 " class%s", dataset->labels.class_count,
                dataset->labels.class_count == 1 ? "" : "es");
    fprintf(to, "\nfingerprint  %s", dataset->fingerprint);
    if (*request->expected)
        fprintf(to, "%s",
                result->data_agrees && result->order_agrees ? ", as expected"
                : result->data_agrees                       ? ": DATA agrees, ORDER does not"
                : result->order_agrees                      ? ": ORDER agrees, DATA does not"
                                                            : ": neither half agrees");
    putc('\n', to);
    if (request->config.shards.left_out) {
        fprintf(to, "left out     ");
        put_count(to, request->config.shards.left_out, "compressed tar");
        fprintf(to, " beside plain ones\n");
    }
}

static void show_split(FILE *to, const struct check_result *result)
{
    const struct check_split *split = &result->split;

    fprintf(to, "split        ");
    put_count(to, split->world, "rank");
    fprintf(to, " of ");
    if (split->shortest != split->longest) {
        put_number(to, split->shortest);
        fprintf(to, " to ");
    }
    put_count(to, split->longest, "sample");
    fprintf(to, "; ");
    put_number(to, split->padding);
    fprintf(to, " padded, ");
    put_number(to, split->dropped);
    fprintf(to, " dropped; epoch %" PRIu64 " gone through: %s\n", split->epoch,
            !split->right ? "WRONG"
            : split->once ? "each sample once but for these"
                          : "each place once but for these");
    if (!split->once) {
        fprintf(to, "             ");
        put_count(to, split->places, "place");
        fprintf(to, " in an epoch; ");
        put_number(to, split->distinct);
        fprintf(to, " different samples of ");
        put_number(to, split->samples);
        fprintf(to, " read in this one\n");
    }
    if (result->dataset.index->shard_count < split->world)
        fprintf(to, "             fewer shards than ranks: no matter, for samples are dealt, not "
                    "shards\n");
    if (!split->batch)
        return;
    fprintf(to, "batches      of ");
    put_number(to, split->batch);
    fprintf(to, ": ");
    if (split->batches_least != split->batches_most) {
        put_number(to, split->batches_least);
        fprintf(to, " to ");
    }
    put_number(to, split->batches_most);
    fprintf(to, " a rank, the last of ");
    if (split->last_of_shortest != split->last_of_longest) {
        put_number(to, split->last_of_shortest);
        fprintf(to, " or ");
    }
    put_number(to, split->last_of_longest);
    putc('\n', to);
}

static void show_images(FILE *to, const struct check_images *images)
{
    fprintf(to, "pictures     ");
    put_number(to, images->pictures);
    fprintf(to, " in %.1f s with ", images->seconds);
    put_count(to, images->threads, "thread");
    if (images->seconds > 0)
        fprintf(to, ", %.0f/s", (double)images->pictures / images->seconds);
    fprintf(to, "; ");
    put_number(to, images->jpeg);
    fprintf(to, " JPEG, ");
    put_number(to, images->png);
    fprintf(to, " PNG, ");
    put_count(to, images->others, "other");
    putc('\n', to);
}

static void show_lengths(FILE *to, const struct check_request *request,
                         const struct check_lengths *lengths)
{
    fprintf(to, "lengths      ");
    if (lengths->written) {
        put_number(to, lengths->shortest);
        fprintf(to, " to ");
        put_number(to, lengths->longest);
        fprintf(to, " pixels, by headers in %.1f s with ", lengths->seconds);
        put_count(to, lengths->threads, "thread");
        fprintf(to, "; ");
        put_count(to, lengths->samples, "line");
        fprintf(to, " written to ");
        if (check_lengths_to_output(request))
            fprintf(to, "standard output");
        else
            put_name(to, request->lengths);
    } else {
        fprintf(to, "not written: ");
        put_number(to, lengths->samples - lengths->measured);
        fprintf(to, " of ");
        put_count(to, lengths->samples, "sample");
        fprintf(to, " could not be measured");
    }
    putc('\n', to);
}

static void show_idx(FILE *to, const struct check_idx *idx)
{
    fprintf(to, "idx          ");
    put_number(to, idx->written);
    fprintf(to, " written, ");
    put_number(to, idx->equal);
    fprintf(to, " as they were, ");
    put_number(to, idx->refused);
    fprintf(to, " refused\n");
}

static void show_example(FILE *to, const struct check_request *request,
                         const struct check_example *example)
{
    fprintf(to, "    ");
    if (example->shard != CHECK_NO_SHARD) {
        put_name(to, request->config.shards.paths[example->shard]);
        fprintf(to, ": ");
        if (example->member) {
            put_name(to, example->member);
            fprintf(to, ", ");
        }
        fprintf(to, "byte ");
        put_number(to, example->offset);
        fprintf(to, "%s", example->why ? ": " : "");
    }
    if (example->why)
        put_name(to, example->why);
    putc('\n', to);
}

static void show_group(FILE *to, const struct check_request *request,
                       const struct check_result *result, unsigned kind)
{
    const struct check_group *group = &result->problems->groups[kind];

    if (!group->count)
        return;
    fprintf(to, "%s  %s: ", check_kind_is_error(kind) ? "error " : "remark", check_kind_name(kind));
    put_number(to, group->count);
    if (group->shards) {
        fprintf(to, " in ");
        put_count(to, group->shards, "shard");
    }
    fprintf(to, "; %s\n", check_kind_meaning(kind));
    for (size_t i = 0; i < group->example_count; i++)
        show_example(to, request, &group->examples[i]);
    if (group->count > group->example_count && group->example_count) {
        fprintf(to, "    and ");
        put_number(to, group->count - group->example_count);
        fprintf(to, " more\n");
    }
}

void check_show_text(FILE *to, const struct check_request *request,
                     const struct check_result *result)
{
    uint64_t errors = check_problems_total(result->problems, true);
    uint64_t remarks = check_problems_total(result->problems, false);

    if (result->opened)
        show_data(to, request, result);
    if (result->has_split)
        show_split(to, result);
    if (result->has_images)
        show_images(to, &result->images);
    if (result->has_lengths)
        show_lengths(to, request, &result->lengths);
    if (result->has_idx)
        show_idx(to, &result->idx);
    for (int errors_first = 1; errors_first >= 0; errors_first--)
        for (unsigned kind = 0; kind < CHECK_KINDS; kind++)
            if (check_kind_is_error(kind) == errors_first)
                show_group(to, request, result, kind);
    if (errors || remarks) {
        put_count(to, errors, "error");
        fprintf(to, ", ");
        put_count(to, remarks, "remark");
        putc('\n', to);
    } else if (!result->faulty) {
        fprintf(to, "no problem\n");
    }
}
