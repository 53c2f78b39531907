/* What came of a check, as text. Owns nothing. */
#include "show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FIELDS_SHOWN 8

/* 1,234,567. `text` has 32 bytes. */
static const char *number(uint64_t value, char *text)
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, value);
    char *to = text;

    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return text;
}

static void put_number(uint64_t value)
{
    char text[32];

    fputs(number(value, text), stdout);
}

/* "1 shard", "2 shards". */
static void put_count(uint64_t count, const char *what)
{
    put_number(count);
    printf(" %s%s", what, count == 1 ? "" : "s");
}

static void put_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    if (unit)
        printf("%.1f %s", value, units[unit]);
    else
        printf("%" PRIu64 " B", bytes);
}

/* Names may hold any byte: none may forge a line or move a terminal. */
static void put_name(const char *name)
{
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        if (*c < 0x20 || *c == 0x7f || *c == '\\')
            printf("\\x%02x", *c);
        else
            putchar(*c);
    }
}

static void show_fields(const struct check_result *result)
{
    const struct index *index = result->dataset.index;
    size_t shown = 0, left = 0;

    printf("fields       ");
    for (size_t f = 0; f < index->field_count; f++) {
        if (!result->fields[f])
            continue;
        if (shown == FIELDS_SHOWN) {
            left++;
            continue;
        }
        printf("%s", shown++ ? ", " : "");
        put_name(index->fields[f]);
        putchar(' ');
        put_number(result->fields[f]);
    }
    if (left) {
        printf(" and ");
        put_count(left, "more");
    }
    printf("%s\n", result->dataset.uneven ? "; samples differ in them" : "");
}

static void show_data(const struct check_request *request, const struct check_result *result)
{
    const struct dataset *dataset = &result->dataset;
    const struct index *index = dataset->index;

    put_count(index->shard_count, "shard");
    printf(", ");
    put_count(index->sample_count, "sample");
    printf(", ");
    put_count(index->member_count, "member");
    printf(", ");
    put_bytes(index->bytes);
    putchar('\n');
    show_fields(result);
    printf("labels       %s", labels_source_name(dataset->labels.source));
    if (dataset->labels.of)
        printf(", %" PRIu64 " class%s", dataset->labels.class_count,
               dataset->labels.class_count == 1 ? "" : "es");
    printf("\nfingerprint  %s", dataset->fingerprint);
    if (*request->expected)
        printf("%s", result->data_agrees && result->order_agrees ? ", as expected"
                     : result->data_agrees                       ? ": DATA agrees, ORDER does not"
                     : result->order_agrees                      ? ": ORDER agrees, DATA does not"
                                                                 : ": neither half agrees");
    putchar('\n');
    if (request->config.shards.left_out) {
        printf("left out     ");
        put_count(request->config.shards.left_out, "compressed tar");
        printf(" beside plain ones\n");
    }
}

static void show_split(const struct check_result *result)
{
    const struct check_split *split = &result->split;

    printf("split        ");
    put_count(split->world, "rank");
    printf(" of ");
    if (split->shortest != split->longest) {
        put_number(split->shortest);
        printf(" to ");
    }
    put_count(split->longest, "sample");
    printf("; ");
    put_number(split->padding);
    printf(" padded, ");
    put_number(split->dropped);
    printf(" dropped; epoch %" PRIu64 " gone through: %s\n", split->epoch,
           split->right ? "each sample once but for these" : "WRONG");
    if (result->dataset.index->shard_count < split->world)
        printf("             fewer shards than ranks: no matter, for samples are dealt, not "
               "shards\n");
    if (!split->batch)
        return;
    printf("batches      of ");
    put_number(split->batch);
    printf(": ");
    if (split->batches_least != split->batches_most) {
        put_number(split->batches_least);
        printf(" to ");
    }
    put_number(split->batches_most);
    printf(" a rank, the last of ");
    if (split->last_of_shortest != split->last_of_longest) {
        put_number(split->last_of_shortest);
        printf(" or ");
    }
    put_number(split->last_of_longest);
    putchar('\n');
}

static void show_images(const struct check_images *images)
{
    printf("pictures     ");
    put_number(images->pictures);
    printf(" in %.1f s with ", images->seconds);
    put_count(images->threads, "thread");
    if (images->seconds > 0)
        printf(", %.0f/s", (double)images->pictures / images->seconds);
    printf("; ");
    put_number(images->jpeg);
    printf(" JPEG, ");
    put_number(images->png);
    printf(" PNG, ");
    put_count(images->others, "other");
    putchar('\n');
}

static void show_idx(const struct check_idx *idx)
{
    printf("idx          ");
    put_number(idx->written);
    printf(" written, ");
    put_number(idx->equal);
    printf(" as they were, ");
    put_number(idx->refused);
    printf(" refused\n");
}

static void show_example(const struct check_request *request, const struct check_example *example)
{
    printf("    ");
    if (example->shard != CHECK_NO_SHARD) {
        put_name(request->config.shards.paths[example->shard]);
        printf(": ");
        if (example->member) {
            put_name(example->member);
            printf(", ");
        }
        printf("byte ");
        put_number(example->offset);
        printf("%s", example->why ? ": " : "");
    }
    if (example->why)
        put_name(example->why);
    putchar('\n');
}

static void show_group(const struct check_request *request, const struct check_result *result,
                       unsigned kind)
{
    const struct check_group *group = &result->problems->groups[kind];

    if (!group->count)
        return;
    printf("%s  %s: ", check_kind_is_error(kind) ? "error " : "remark", check_kind_name(kind));
    put_number(group->count);
    if (group->shards) {
        printf(" in ");
        put_count(group->shards, "shard");
    }
    printf("; %s\n", check_kind_meaning(kind));
    for (size_t i = 0; i < group->example_count; i++)
        show_example(request, &group->examples[i]);
    if (group->count > group->example_count && group->example_count) {
        printf("    and ");
        put_number(group->count - group->example_count);
        printf(" more\n");
    }
}

void check_show_text(const struct check_request *request, const struct check_result *result)
{
    uint64_t errors = check_problems_total(result->problems, true);
    uint64_t remarks = check_problems_total(result->problems, false);

    if (result->opened)
        show_data(request, result);
    if (result->has_split)
        show_split(result);
    if (result->has_images)
        show_images(&result->images);
    if (result->has_idx)
        show_idx(&result->idx);
    for (int errors_first = 1; errors_first >= 0; errors_first--)
        for (unsigned kind = 0; kind < CHECK_KINDS; kind++)
            if (check_kind_is_error(kind) == errors_first)
                show_group(request, result, kind);
    if (errors || remarks) {
        put_count(errors, "error");
        printf(", ");
        put_count(remarks, "remark");
        putchar('\n');
    } else if (!result->faulty) {
        printf("no problem\n");
    }
}
