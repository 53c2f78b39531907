/* Shares and the shards they read from. Owns a count a share, and a mark a shard. */
#include "touch.h"

#include "../core/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHARDS, SAMPLES, BYTES, SHARD_BYTES, COUNTS };

static const char *const names[COUNTS] = {"shards", "samples", "bytes", "shard_bytes"};

struct share {
    uint64_t counts[COUNTS]; /* SHARD_BYTES: of the whole files that it reads from */
};

/* All shares, rank by rank, each rank's parts together. */
struct touch {
    uint64_t first_rank, ranks, parts; /* parts: of a rank that are looked at */
    struct share *shares;
    uint64_t *marks; /* shard -> 1 + the last share that read from it */
};

static uint64_t share_count(const struct touch *touch)
{
    return touch->ranks * touch->parts;
}

static int open_touch(const struct survey *survey, struct touch *touch)
{
    const struct survey_request *request = survey->request;
    bool one = request->ranked && !request->all;
    uint64_t count;

    *touch = (struct touch){
        .first_rank = one ? request->share.rank : 0,
        .ranks = one ? 1 : request->share.world,
        .parts = request->all_parts ? request->share.parts : 1,
    };
    if (!__builtin_mul_overflow(touch->ranks, touch->parts, &count))
        touch->shares = calloc(count, sizeof *touch->shares);
    touch->marks = calloc(survey->dataset.index->shard_count + 1, sizeof *touch->marks);
    return touch->shares && touch->marks ? 0 : survey_no_memory("the ranks' counts");
}

static void close_touch(struct touch *touch)
{
    free(touch->shares);
    free(touch->marks);
}

static void count_share(const struct index *index, const struct order *order,
                        const struct plan *plan, struct touch *touch, uint64_t number)
{
    struct share *share = &touch->shares[number];

    for (uint64_t p = 0; p < plan->length; p++) {
        uint64_t sample = order_sample(order, plan_global(plan, p));
        size_t shard = index_shard_of(index, sample);
        for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++)
            share->counts[BYTES] += index->members[m].size;
        share->counts[SAMPLES]++;
        if (touch->marks[shard] == number + 1)
            continue;
        touch->marks[shard] = number + 1;
        share->counts[SHARDS]++;
        share->counts[SHARD_BYTES] += index->shards[shard].size;
    }
}

static void count_all(const struct survey *survey, const struct order *order, struct touch *touch)
{
    struct plan_share share = survey->request->share;
    struct plan plan;

    for (uint64_t r = 0; r < touch->ranks; r++) {
        share.rank = touch->first_rank + r;
        for (uint64_t k = 0; k < touch->parts; k++) {
            if (survey->request->all_parts)
                share.part = k;
            plan_open(&plan, order_places(order), &share, &survey_config(survey)->deal);
            count_share(survey->dataset.index, order, &plan, touch, r * touch->parts + k);
        }
    }
}

struct spread {
    uint64_t least, most;
    double median;
};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static int find_spreads(const struct touch *touch, struct spread *spreads)
{
    uint64_t count = share_count(touch);
    uint64_t *values = calloc(count ? count : 1, sizeof *values), low, high;

    if (!values)
        return survey_no_memory("the ranks' counts");
    for (int c = 0; c < COUNTS; c++) {
        for (uint64_t i = 0; i < count; i++)
            values[i] = touch->shares[i].counts[c];
        qsort(values, count, sizeof *values, by_value);
        /* Of an even number of shares, between the two in the middle. */
        low = values[(count - 1) / 2];
        high = values[count / 2];
        spreads[c] = (struct spread){values[0], values[count - 1],
                                     ((double)low + (double)high) / 2};
    }
    free(values);
    return 0;
}

static void print_text(const struct survey *survey, const struct touch *touch,
                       const struct spread *spreads)
{
    static const char *const titles[COUNTS] = {"shards", "samples", "their bytes",
                                               "the shards' bytes"};
    char text[TEXT_NUMBER];

    printf("%s shard%s", text_count(text, survey->dataset.index->shard_count),
           survey->dataset.index->shard_count == 1 ? "" : "s");
    printf(", order %s, %s rank%s", survey->request->orders[0].name, text_count(text, touch->ranks),
           touch->ranks == 1 ? "" : "s");
    if (touch->parts > 1)
        printf(" of %s parts", text_count(text, touch->parts));
    printf("\n%-20s %18s %18s %18s\n", touch->parts > 1 ? "a part reads" : "a rank reads",
           "smallest", "median", "largest");
    for (int c = 0; c < COUNTS; c++) {
        printf("%-20s %18s", titles[c], text_count(text, spreads[c].least));
        printf(" %18s", text_count(text, (uint64_t)(spreads[c].median + 0.5)));
        printf(" %18s\n", text_count(text, spreads[c].most));
    }
}

static void print_lines(const struct survey *survey, const struct touch *touch)
{
    for (uint64_t i = 0; i < share_count(touch); i++) {
        printf("%" PRIu64, touch->first_rank + i / touch->parts);
        if (survey->request->all_parts)
            printf("\t%" PRIu64, i % touch->parts);
        for (int c = 0; c < COUNTS; c++)
            printf("\t%" PRIu64, touch->shares[i].counts[c]);
        putchar('\n');
    }
}

static json_t *shares_json(const struct survey *survey, const struct touch *touch)
{
    json_t *shares = json_array();

    for (uint64_t i = 0; i < share_count(touch); i++) {
        uint64_t rank = touch->first_rank + i / touch->parts;
        json_t *share = json_pack("{s:I}", "rank", (json_int_t)rank);
        if (survey->request->all_parts)
            json_object_set_new(share, "part", json_integer((json_int_t)(i % touch->parts)));
        for (int c = 0; c < COUNTS; c++)
            json_object_set_new(share, names[c],
                                json_integer((json_int_t)touch->shares[i].counts[c]));
        json_array_append_new(shares, share);
    }
    return shares;
}

static int print_json(const struct survey *survey, const struct touch *touch,
                      const struct spread *spreads)
{
    json_t *root = survey_describe(survey);

    json_object_set_new(root, "shards",
                        json_integer((json_int_t)survey->dataset.index->shard_count));
    json_object_set_new(root, "touched", json_object());
    for (int c = 0; c < COUNTS; c++)
        json_object_set_new(json_object_get(root, "touched"), names[c],
                            json_pack("{s:I, s:f, s:I}", "smallest", (json_int_t)spreads[c].least,
                                      "median", spreads[c].median, "largest",
                                      (json_int_t)spreads[c].most));
    if (survey->request->ranked)
        json_object_set_new(root, "ranks", shares_json(survey, touch));
    return survey_write_json(root);
}

int survey_touch(const struct survey *survey)
{
    struct spread spreads[COUNTS];
    struct order *order = NULL;
    struct touch touch;
    int fault = open_touch(survey, &touch);

    if (!fault)
        fault = survey_order(survey, 0, &order);
    if (!fault) {
        count_all(survey, order, &touch);
        fault = find_spreads(&touch, spreads);
    }
    if (!fault && survey->request->json)
        fault = print_json(survey, &touch, spreads);
    else if (!fault && survey->request->ranked)
        print_lines(survey, &touch);
    else if (!fault)
        print_text(survey, &touch, spreads);
    order_close(order);
    close_touch(&touch);
    return fault;
}
