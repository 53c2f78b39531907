/* Splits over worlds, and what an epoch reads more than once. Owns the counts of samples while they
 * are made. */
#include "table.h"

#include "../core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LISTED_DEFAULT 8
#define LISTED_MOST    1000000

/* Ranks whose ends are looked at for what they share. */
#define RANKS_LOOKED_AT 1000000

static void split(uint64_t places, uint64_t after, uint64_t world, const struct plan_deal *deal,
                  struct survey_split *row)
{
    struct plan first, last;

    /* Dealt in turn, the first ranks have one more; in runs, the first run is as short as any and
     * the last as long. */
    plan_open(&first, places, &(struct plan_share){.world = world, .after = after}, deal);
    plan_open(&last, places,
              &(struct plan_share){.rank = world - 1, .world = world, .after = after}, deal);
    *row = (struct survey_split){
        .world = world,
        .shortest = first.length < last.length ? first.length : last.length,
        .longest = first.length > last.length ? first.length : last.length,
        .padding = plan_padding(places - after, world, deal),
        .dropped = plan_dropped(places - after, world, deal),
    };
    row->reads = places - after - row->dropped + row->padding;
}

size_t survey_split(uint64_t places, uint64_t after, uint64_t world, const struct plan_deal *deal,
                    struct survey_split *splits)
{
    size_t count = 0;

    for (uint64_t some = 1; some < world; some *= 2)
        split(places, after, some, deal, &splits[count++]);
    split(places, after, world, deal, &splits[count++]);
    return count;
}

/* Where a run starts before those of lower ranks have ended. */
static size_t repeats_of_runs(uint64_t places, uint64_t world, const struct plan_deal *deal,
                              uint64_t *repeats, size_t most)
{
    uint64_t looked = world < RANKS_LOOKED_AT ? world : RANKS_LOOKED_AT, end = 0, from = 0;
    size_t count = 0;

    for (uint64_t rank = 0; rank < looked && count < most; rank++) {
        struct plan run;
        plan_open(&run, places, &(struct plan_share){.rank = rank, .world = world}, deal);
        if (!run.length)
            continue;
        from = from > run.start ? from : run.start;
        for (; from < end && from < run.start + run.length && count < most; from++)
            repeats[count++] = from;
        end = end > run.start + run.length ? end : run.start + run.length;
    }
    return count;
}

size_t survey_repeats(uint64_t places, uint64_t after, uint64_t world, const struct plan_deal *deal,
                      uint64_t *repeats, size_t most)
{
    uint64_t tail = places - after, padding = plan_padding(tail, world, deal);
    uint64_t count = padding < tail ? padding : tail;

    if (!padding)
        return 0;
    if (deal->runs)
        return repeats_of_runs(places, world, deal, repeats, most);
    /* The tail's beginning once more. */
    for (uint64_t i = 0; i < count && i < most; i++)
        repeats[i] = after + i;
    return (size_t)(count < most ? count : most);
}

/* What an order that draws has drawn. */
struct drawn {
    uint64_t distinct; /* samples */
    uint64_t times;    /* that the most frequent one stands in the epoch */
    uint64_t sample;   /* which that is, the lowest of several */
};

/* A sample may stand at several places of one epoch. */
static bool draws(const struct survey *survey)
{
    return order_draws(survey_config(survey)->order.kind) ||
           survey_places(survey) > survey->samples;
}

static int count_drawn(const struct survey *survey, const struct order *order, struct drawn *drawn)
{
    uint32_t *times = calloc(survey->samples ? survey->samples : 1, sizeof *times);

    *drawn = (struct drawn){0};
    if (!times)
        return survey_no_memory("the samples' counts");
    for (uint64_t p = survey->request->share.after; p < order_places(order); p++) {
        uint32_t *count = &times[order_sample(order, p)];
        *count += *count < UINT32_MAX;
    }
    for (uint64_t s = 0; s < survey->samples; s++) {
        drawn->distinct += times[s] > 0;
        if (times[s] > drawn->times)
            *drawn = (struct drawn){drawn->distinct, times[s], s};
    }
    free(times);
    return 0;
}

/* The answer. */
struct table {
    struct survey_split splits[SURVEY_SPLITS_MAX];
    size_t count;
    uint64_t *repeated; /* samples */
    size_t repeated_count;
    bool counted;
    struct drawn drawn;
};

/* The order itself is worked out only for what it alone tells. */
static int look_into_order(const struct survey *survey, struct table *table, size_t most)
{
    const struct config *config = survey_config(survey);
    struct order *order;
    int fault = 0;

    table->repeated = calloc(most ? most : 1, sizeof *table->repeated);
    if (!table->repeated)
        return survey_no_memory("the list of what is repeated");
    table->repeated_count = survey_repeats(survey_places(survey), survey->request->share.after,
                                           config->world, &config->deal, table->repeated, most);
    if (!table->repeated_count && !(most && draws(survey)))
        return 0;
    fault = survey_order(survey, 0, &order);
    if (fault)
        return fault;
    for (size_t i = 0; i < table->repeated_count; i++)
        table->repeated[i] = order_sample(order, table->repeated[i]);
    if (draws(survey)) {
        fault = count_drawn(survey, order, &table->drawn);
        table->counted = !fault;
    }
    order_close(order);
    return fault;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static void print_cell(int width, uint64_t value)
{
    char text[TEXT_NUMBER];

    printf(" %*s", width - 1, text_count(text, value));
}

static void print_text(const struct survey *survey, const struct table *table)
{
    const struct config *config = survey_config(survey);
    const struct survey_split *last = &table->splits[table->count - 1];
    char count[TEXT_NUMBER];

    printf("%s samples, order %s, remainder %s\n",
           text_count(count, survey_places(survey) - survey->request->share.after),
           survey->request->orders[0].name, plan_remainder_name(config->deal.remainder));
    printf("%13s %15s %15s %15s %13s %13s %13s\n", "world", "shortest rank", "longest rank",
           "reads", "padding", "of reads", "dropped");
    for (size_t i = 0; i < table->count; i++) {
        const struct survey_split *row = &table->splits[i];
        print_cell(13, row->world);
        print_cell(16, row->shortest);
        print_cell(16, row->longest);
        print_cell(16, row->reads);
        print_cell(14, row->padding);
        printf(" %11.5f %%", 100 * share(row->padding, row->reads));
        print_cell(14, row->dropped);
        putchar('\n');
    }
    if (table->repeated_count) {
        printf("world %s reads again: sample%s", text_count(count, last->world),
               last->padding == 1 ? "" : "s");
        for (size_t i = 0; i < table->repeated_count; i++)
            printf(" %llu", (unsigned long long)table->repeated[i]);
        if (last->padding > table->repeated_count)
            printf("; %s repetitions in all", text_count(count, last->padding));
        putchar('\n');
    }
    if (table->counted) {
        printf("%s different samples", text_count(count, table->drawn.distinct));
        printf(", %.3g %% of the data set; sample %llu most often, %s times\n",
               100 * share(table->drawn.distinct, survey->samples),
               (unsigned long long)table->drawn.sample, text_count(count, table->drawn.times));
    }
}

/* Windows of 2^32 ranks may read more than JSON's integers here can say. */
static json_t *count_json(uint64_t count)
{
    return count <= INT64_MAX ? json_integer((json_int_t)count) : json_real((double)count);
}

static int print_json(const struct survey *survey, const struct table *table)
{
    json_t *root = survey_describe(survey), *worlds = json_array(), *repeated = json_array();

    for (size_t i = 0; i < table->count; i++) {
        const struct survey_split *row = &table->splits[i];
        json_array_append_new(
            worlds,
            json_pack("{s:I, s:I, s:I, s:o, s:o, s:f, s:I}", "world", (json_int_t)row->world,
                      "shortest_rank", (json_int_t)row->shortest, "longest_rank",
                      (json_int_t)row->longest, "reads", count_json(row->reads), "padding",
                      count_json(row->padding), "padding_share", share(row->padding, row->reads),
                      "dropped", (json_int_t)row->dropped));
    }
    for (size_t i = 0; i < table->repeated_count; i++)
        json_array_append_new(repeated, json_integer((json_int_t)table->repeated[i]));
    json_object_set_new(root, "worlds", worlds);
    json_object_set_new(root, "repeated", repeated);
    if (table->counted)
        json_object_set_new(root, "drawn",
                            json_pack("{s:I, s:I, s:I}", "distinct",
                                      (json_int_t)table->drawn.distinct, "most_frequent",
                                      (json_int_t)table->drawn.sample, "times",
                                      (json_int_t)table->drawn.times));
    return survey_write_json(root);
}

int survey_table(const struct survey *survey)
{
    const struct survey_request *request = survey->request;
    const struct config *config = survey_config(survey);
    uint64_t most = request->samples == UINT64_MAX ? LISTED_DEFAULT : request->samples;
    struct table table = {0};
    int fault;

    table.count = survey_split(survey_places(survey), request->share.after, config->world,
                               &config->deal, table.splits);
    fault = look_into_order(survey, &table, most < LISTED_MOST ? (size_t)most : LISTED_MOST);
    if (!fault && request->json)
        fault = print_json(survey, &table);
    else if (!fault)
        print_text(survey, &table);
    free(table.repeated);
    return fault;
}
