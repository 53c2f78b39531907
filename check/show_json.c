/* What came of a check, as JSON. Samples are written one by one, so that a large data set needs no
 * more memory than a small one. Owns the reader while members are read. */
#include "show.h"

#include "../core/reader.h"
#include "../core/report.h"
#include "../core/version.h"

#include <errno.h>
#include <jansson.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)256 * 1024)

/* A name as a string, or where it is no UTF-8 as {"hex": ...}; NULL as null. */
static json_t *name_json(const char *name)
{
    json_t *text;
    size_t length;
    char *hex;

    if (!name)
        return json_null();
    text = json_string(name);
    if (text)
        return text;
    length = strlen(name);
    hex = malloc(2 * length + 1);
    if (!hex)
        return NULL;
    for (size_t i = 0; i < length; i++)
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)name[i]);
    text = json_pack("{s:s}", "hex", hex);
    free(hex);
    return text;
}

static json_t *fields_json(const struct check_result *result)
{
    const struct index *index = result->dataset.index;
    json_t *fields = json_array();

    for (size_t f = 0; f < index->field_count; f++)
        if (result->fields[f])
            json_array_append_new(fields,
                                  json_pack("{s:o, s:I}", "name", name_json(index->fields[f]),
                                            "members", (json_int_t)result->fields[f]));
    return fields;
}

static void add_data(json_t *root, const struct check_request *request,
                     const struct check_result *result)
{
    const struct dataset *dataset = &result->dataset;
    const struct index *index = dataset->index;

    json_object_update_new(
        root,
        json_pack("{s:I, s:I, s:I, s:o, s:b, s:s, s:I, s:s}", "samples",
                  (json_int_t)index->sample_count, "members", (json_int_t)index->member_count,
                  "bytes", (json_int_t)index->bytes, "fields", fields_json(result), "uneven_fields",
                  dataset->uneven, "label", dataset->labels.source_text, "classes",
                  (json_int_t)dataset->labels.class_count, "fingerprint", dataset->fingerprint));
    if (*request->expected)
        json_object_set_new(root, "expected",
                            json_pack("{s:s, s:b, s:b}", "fingerprint", request->expected,
                                      "data_agrees", result->data_agrees, "order_agrees",
                                      result->order_agrees));
}

static json_t *split_json(const struct check_request *request, const struct check_split *split)
{
    json_t *json = json_pack(
        "{s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "world",
        (json_int_t)split->world, "epoch", (json_int_t)split->epoch, "order",
        order_kind_name(request->config.order.kind), "remainder",
        plan_remainder_name(request->config.deal.remainder), "longest_rank",
        (json_int_t)split->longest, "shortest_rank", (json_int_t)split->shortest, "longest_ranks",
        (json_int_t)split->longer_ranks, "padding", (json_int_t)split->padding, "dropped",
        (json_int_t)split->dropped, "repeated", (json_int_t)split->repeated, "right", split->right);

    if (json && !split->once) {
        json_object_set_new(json, "epoch_samples", json_integer((json_int_t)split->places));
        json_object_set_new(json, "distinct", json_integer((json_int_t)split->distinct));
    }
    if (json && split->batch)
        json_object_set_new(json, "batches",
                            json_pack("{s:I, s:I, s:I, s:I, s:I}", "size", (json_int_t)split->batch,
                                      "most", (json_int_t)split->batches_most, "least",
                                      (json_int_t)split->batches_least, "last_of_longest_rank",
                                      (json_int_t)split->last_of_longest, "last_of_shortest_rank",
                                      (json_int_t)split->last_of_shortest));
    return json;
}

static json_t *images_json(const struct check_images *images)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:i, s:f}", "pictures",
                     (json_int_t)images->pictures, "bytes", (json_int_t)images->bytes, "jpeg",
                     (json_int_t)images->jpeg, "png", (json_int_t)images->png, "others",
                     (json_int_t)images->others, "threads", (int)images->threads, "seconds",
                     images->seconds);
}

static json_t *lengths_json(const struct check_request *request,
                            const struct check_lengths *lengths)
{
    json_t *json = json_pack("{s:o, s:b, s:I, s:I, s:I, s:I, s:i, s:f}", "file",
                             name_json(request->lengths), "written", lengths->written, "measured",
                             (json_int_t)lengths->measured, "jpeg", (json_int_t)lengths->jpeg,
                             "png", (json_int_t)lengths->png, "bytes", (json_int_t)lengths->bytes,
                             "threads", (int)lengths->threads, "seconds", lengths->seconds);

    if (json && lengths->written)
        json_object_update_new(json,
                               json_pack("{s:I, s:I}", "shortest", (json_int_t)lengths->shortest,
                                         "longest", (json_int_t)lengths->longest));
    return json;
}

static json_t *example_json(const struct check_request *request,
                            const struct check_example *example)
{
    json_t *json = json_object();

    if (example->shard != CHECK_NO_SHARD)
        json_object_update_new(
            json, json_pack("{s:o, s:o, s:I}", "shard",
                            name_json(request->config.shards.paths[example->shard]), "member",
                            name_json(example->member), "offset", (json_int_t)example->offset));
    if (example->why)
        json_object_set_new(json, "why", name_json(example->why));
    return json;
}

static json_t *group_json(const struct check_request *request, const struct check_group *group,
                          unsigned kind)
{
    json_t *json, *by_shard = json_array(), *examples = json_array();

    for (size_t i = 0; group->by_shard && i < request->config.shards.count; i++)
        if (group->by_shard[i])
            json_array_append_new(by_shard, json_pack("{s:o, s:I}", "shard",
                                                      name_json(request->config.shards.paths[i]),
                                                      "count", (json_int_t)group->by_shard[i]));
    for (size_t i = 0; i < group->example_count; i++)
        json_array_append_new(examples, example_json(request, &group->examples[i]));
    json = json_pack("{s:s, s:b, s:s, s:I, s:o, s:o}", "kind", check_kind_name(kind), "error",
                     check_kind_is_error(kind), "meaning", check_kind_meaning(kind), "count",
                     (json_int_t)group->count, "shards", by_shard, "examples", examples);
    return json;
}

static json_t *problems_json(const struct check_request *request,
                             const struct check_problems *problems)
{
    json_t *json = json_array();

    for (unsigned kind = 0; kind < CHECK_KINDS; kind++)
        if (problems->groups[kind].count)
            json_array_append_new(json, group_json(request, &problems->groups[kind], kind));
    return json;
}

static json_t *describe(const struct check_request *request, const struct check_result *result)
{
    const struct check_problems *problems = result->problems;
    json_t *root = json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:o}", "version", SHUFFLEFS_VERSION,
                             "sound", check_is_sound(request, result), "shards",
                             (json_int_t)request->config.shards.count, "left_out_compressed",
                             (json_int_t)request->config.shards.left_out, "errors",
                             (json_int_t)check_problems_total(problems, true), "remarks",
                             (json_int_t)check_problems_total(problems, false), "problems",
                             problems_json(request, problems));

    if (result->opened)
        add_data(root, request, result);
    if (result->has_split)
        json_object_set_new(root, "split", split_json(request, &result->split));
    if (result->has_images)
        json_object_set_new(root, "decoded", images_json(&result->images));
    if (result->has_lengths)
        json_object_set_new(root, "lengths", lengths_json(request, &result->lengths));
    if (result->has_idx)
        json_object_set_new(root, "idx",
                            json_pack("{s:I, s:I, s:I}", "written", (json_int_t)result->idx.written,
                                      "equal", (json_int_t)result->idx.equal, "refused",
                                      (json_int_t)result->idx.refused));
    return root;
}

/* The sha256 of a member's bytes, in hexadecimal: 64 digits and a NUL. 0 or a negative errno. */
static int digest(struct reader *reader, uint64_t member, char *piece, char *hex)
{
    struct sha256_ctx context;
    uint8_t sum[SHA256_DIGEST_SIZE];
    uint64_t at = 0;
    ssize_t got;

    sha256_init(&context);
    while ((got = reader_read(reader, member, piece, PIECE, at)) > 0) {
        sha256_update(&context, (size_t)got, (const uint8_t *)piece);
        at += (uint64_t)got;
    }
    if (got < 0)
        return (int)got;
    sha256_digest(&context, sizeof sum, sum);
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    return 0;
}

/* Reported by the reader where a shard cannot be read. */
static int put_sample(const struct check_request *request, const struct check_result *result,
                      struct reader *reader, char *piece, uint64_t sample)
{
    const struct dataset *dataset = &result->dataset;
    const struct index *index = dataset->index;
    json_t *fields = json_array(), *json;
    int fault = fields ? 0 : -ENOMEM;

    for (uint64_t m = index->first[sample]; !fault && m < index->first[sample + 1]; m++) {
        char hex[2 * SHA256_DIGEST_SIZE + 1];
        fault = digest(reader, m, piece, hex);
        if (!fault)
            json_array_append_new(fields,
                                  json_pack("{s:o, s:I, s:I, s:s}", "name",
                                            name_json(index->fields[index->members[m].field]),
                                            "offset", (json_int_t)index->members[m].offset, "size",
                                            (json_int_t)index->members[m].size, "sha256", hex));
    }
    if (fault) {
        json_decref(fields);
        return fault;
    }
    json = json_pack("{s:o, s:o, s:o}", "key", name_json(index_key(index, sample)), "shard",
                     name_json(request->config.shards.paths[index_shard_of(index, sample)]),
                     "fields", fields);
    if (json && dataset->labels.of && dataset->labels.of[sample] != LABELS_MISSING)
        json_object_set_new(json, "label", json_integer(dataset->labels.of[sample]));
    fault = json ? 0 : -ENOMEM;
    if (json)
        json_dumpf(json, stdout, JSON_COMPACT);
    json_decref(json);
    return fault;
}

static int put_samples(const struct check_request *request, const struct check_result *result)
{
    struct reader *reader = NULL;
    char *piece = malloc(PIECE);
    int fault = piece ? reader_open(&reader, result->dataset.index, 0, request->config.direct)
                      : -ENOMEM;

    printf(",\"sample_list\":[");
    for (uint64_t s = 0; !fault && s < result->dataset.index->sample_count && !ferror(stdout);
         s++) {
        printf("%s", s ? ",\n" : "\n");
        fault = put_sample(request, result, reader, piece, s);
    }
    printf("]}\n");
    reader_close(reader);
    free(piece);
    if (fault == -ENOMEM)
        report_error("no memory for the list of samples");
    return fault;
}

int check_show_json(const struct check_request *request, const struct check_result *result)
{
    json_t *root = describe(request, result);
    char *text = root ? json_dumps(root, JSON_COMPACT) : NULL;
    size_t length = text ? strlen(text) : 0;
    int fault = 0;

    json_decref(root);
    if (!length) {
        report_error("no memory for the report");
        free(text);
        return -ENOMEM;
    }
    if (request->samples && result->opened) {
        /* The object goes on: without its brace. */
        fwrite(text, 1, length - 1, stdout);
        fault = put_samples(request, result);
    } else {
        puts(text);
    }
    free(text);
    return fault;
}
