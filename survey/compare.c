/* Figures of all orders and of a full shuffle. Owns what the figures are made from: where shards
 * begin, and classes. */
#include "compare.h"

#include "../core/text.h"
#include "quality.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of a column; names are longer now and then. */
#define COLUMN 20

struct compare {
    struct quality_space space;
    uint64_t *shard_first;
    uint32_t *classes;
    double figures[SURVEY_ORDERS_MAX][QUALITY_FIGURES];
    struct blocks_quality windows[SURVEY_ORDERS_MAX]; /* of each order=block: what would do */
    double reference[QUALITY_FIGURES];
    uint64_t shuffles;
    struct progress progress;
};

static int find_shards(const struct survey *survey, struct compare *compare)
{
    const struct index *index = survey->dataset.index;
    size_t count = index ? index->shard_count : 1;

    compare->shard_first = calloc(count + 1, sizeof *compare->shard_first);
    if (!compare->shard_first)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        compare->shard_first[i] = index ? index->shards[i].first_sample : 0;
    compare->shard_first[count] = survey->samples;
    compare->space.shard_first = compare->shard_first;
    compare->space.shard_count = count;
    return 0;
}

static int by_label(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Labels may be any integers: the different ones in rising order, at the start of `labels`. */
static uint64_t keep_different(int64_t *labels, uint64_t count)
{
    uint64_t kept = 0;

    qsort(labels, count, sizeof *labels, by_label);
    for (uint64_t i = 0; i < count; i++)
        if (labels[i] != LABELS_MISSING && (kept == 0 || labels[kept - 1] != labels[i]))
            labels[kept++] = labels[i];
    return kept;
}

static int find_classes(const struct survey *survey, struct compare *compare)
{
    const int64_t *labels = survey->dataset.index ? survey->dataset.labels.of : NULL;
    uint64_t count = survey->samples, different;
    int64_t *sorted;

    if (!labels)
        return 0;
    sorted = calloc(count, sizeof *sorted);
    compare->classes = calloc(count, sizeof *compare->classes);
    if (!sorted || !compare->classes) {
        free(sorted);
        return -ENOMEM;
    }
    memcpy(sorted, labels, count * sizeof *sorted);
    different = keep_different(sorted, count);
    for (uint64_t i = 0; i < count; i++) {
        const int64_t *found = bsearch(&labels[i], sorted, different, sizeof *sorted, by_label);
        compare->classes[i] = found ? (uint32_t)(found - sorted) : QUALITY_NO_CLASS;
    }
    free(sorted);
    compare->space.classes = compare->classes;
    compare->space.class_count = (uint32_t)different;
    return 0;
}

/* One cut for all, that of the first order=block, and the largest pool: or their figures would not
 * compare. A rank keeps twice what the pools of its streams have: what was used last is not always
 * what is done with. */
static void find_blocks(const struct survey *survey, struct compare *compare)
{
    const struct survey_request *request = survey->request;
    struct quality_space *space = &compare->space;

    for (size_t i = 0; i < request->order_count; i++) {
        const struct order_spec *spec = &request->orders[i].config.order;
        uint64_t world = request->share.world, pool;
        if (spec->kind != ORDER_BLOCK)
            continue;
        if (!space->block_first) {
            space->block_first = survey->bases[i].blocks.starts;
            space->block_count = survey->bases[i].blocks.count;
        }
        pool = 2 * spec->window * ((spec->streams + world - 1) / world);
        space->pool = space->pool > pool ? space->pool : pool;
    }
}

static int compare_open(const struct survey *survey, struct compare *compare)
{
    int fault;

    *compare = (struct compare){.space = {.samples = survey->samples}};
    fault = find_shards(survey, compare);
    if (!fault)
        fault = find_classes(survey, compare);
    if (!fault)
        find_blocks(survey, compare);
    return fault ? survey_no_memory("the figures") : 0;
}

static void compare_close(struct compare *compare)
{
    free(compare->shard_first);
    free(compare->classes);
}

static uint64_t sample_of(const void *context, uint64_t place)
{
    return order_sample(context, place);
}

static struct quality_sequence sequence_of(const struct survey *survey, struct compare *compare,
                                           size_t number, const struct order *order)
{
    const struct survey_request *request = survey->request;

    return (struct quality_sequence){.sample = sample_of,
                                     .context = order,
                                     .places = survey_places(survey),
                                     .world = request->share.world,
                                     .after = request->share.after,
                                     .deal = request->orders[number].config.deal,
                                     .batch = request->batch,
                                     .progress = &compare->progress};
}

static int measure(const struct survey *survey, struct compare *compare, size_t number)
{
    const struct order_spec *spec = &survey->request->orders[number].config.order;
    struct quality_sequence sequence;
    struct order *order;
    int fault = survey_order(survey, number, &order);

    if (fault)
        return fault;
    sequence = sequence_of(survey, compare, number, order);
    if (quality_measure(&compare->space, &sequence, compare->figures[number]) ||
        (spec->kind == ORDER_BLOCK && blocks_window(&survey->bases[number], &survey->dataset.labels,
                                                    spec, &compare->windows[number])))
        fault = survey_no_memory("the figures");
    order_close(order);
    return fault;
}

/* One order at a time: each has its table. */
static int measure_all(const struct survey *survey, struct compare *compare)
{
    struct quality_sequence sequence = sequence_of(survey, compare, 0, NULL);
    uint64_t rounds = quality_shuffles(&sequence) + survey->request->order_count;
    uint64_t lookups = (compare->space.classes ? 2 : 1) * (sequence.places - sequence.after);
    int fault;

    compare->shuffles = quality_shuffles(&sequence);
    progress_open(&compare->progress, "measuring", rounds * lookups, 0, PROGRESS_ITEMS);
    fault = quality_reference(&compare->space, &sequence, compare->reference);
    if (fault)
        survey_no_memory("a full shuffle");
    for (size_t i = 0; !fault && i < survey->request->order_count; i++)
        fault = measure(survey, compare, i);
    progress_close(&compare->progress);
    return fault;
}

/* Entropies with the digits that tell them apart, counts as counts. */
static const char *show_value(char *text, double value)
{
    if (value >= 1000)
        return text_count(text, (uint64_t)(value + 0.5));
    if (isnan(value))
        snprintf(text, TEXT_NUMBER, "-");
    else
        snprintf(text, TEXT_NUMBER, "%.5g", value);
    return text;
}

static double ratio(double value, double reference)
{
    return reference > 0 ? value / reference : NAN;
}

static void print_head(const struct survey *survey, const struct compare *compare)
{
    const struct survey_request *request = survey->request;
    char text[TEXT_NUMBER];

    printf("%s samples", text_count(text, survey_places(survey) - request->share.after));
    if (survey->dataset.index)
        printf(" in %s shard%s", text_count(text, compare->space.shard_count),
               compare->space.shard_count == 1 ? "" : "s");
    printf(", %s rank%s", text_count(text, request->share.world),
           request->share.world == 1 ? "" : "s");
    printf(", batches of %s", text_count(text, request->batch));
    if (compare->space.block_first) {
        printf("; %s blocks", text_count(text, compare->space.block_count));
        printf(", a rank keeps %s", text_count(text, compare->space.pool));
    }
    puts("\nin brackets: the ratio to a full shuffle");
}

/* What a window does to the classes of a batch, and which one would do. */
static void print_window(const struct survey *survey, const struct compare *compare, size_t number)
{
    const struct blocks_quality *window = &compare->windows[number];
    uint64_t asked = survey->request->orders[number].config.order.window;
    char text[TEXT_NUMBER];

    if (!window->known)
        return;
    printf("%s: ", survey->request->orders[number].name);
    if (window->ratio >= BLOCKS_NEAR)
        printf("batches are as mixed as a full shuffle's");
    else
        printf("batches are less mixed than a full shuffle's");
    printf(" (%.2f of its class entropy); ", window->ratio);
    if (window->window == 0)
        printf("no window mends that, smaller blocks or fewer streams do\n");
    else if (window->window <= asked)
        printf("window=%s is enough\n", text_count(text, window->window));
    else
        printf("window=%s would do\n", text_count(text, window->window));
}

static void print_text(const struct survey *survey, const struct compare *compare)
{
    const struct survey_request *request = survey->request;
    char text[TEXT_NUMBER];

    print_head(survey, compare);
    printf("%-36s", "");
    for (size_t i = 0; i < request->order_count; i++)
        printf(" %*s", COLUMN, request->orders[i].name);
    printf(" %*s\n", COLUMN, "full shuffle");
    for (int f = 0; f < QUALITY_FIGURES; f++) {
        if (isnan(compare->reference[f]))
            continue; /* known of none */
        printf("%-36s", quality_title((enum quality_figure)f));
        for (size_t i = 0; i < request->order_count; i++) {
            double value = compare->figures[i][f], to = ratio(value, compare->reference[f]);
            int width = (int)strlen(request->orders[i].name);
            printf(" %*s", (width > COLUMN ? width : COLUMN) - 10, show_value(text, value));
            *text = '\0';
            if (!isnan(to))
                snprintf(text, sizeof text, "(%.*f)", to < 10 ? 3 : to < 100 ? 2 : to < 1000, to);
            printf(" %9s", text);
        }
        printf(" %*s\n", COLUMN, show_value(text, compare->reference[f]));
    }
    for (size_t i = 0; i < request->order_count; i++)
        print_window(survey, compare, i);
}

static json_t *number_json(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *figures_json(const struct compare *compare, const double *figures)
{
    json_t *json = json_object();

    for (int f = 0; f < QUALITY_FIGURES; f++)
        json_object_set_new(json, quality_name((enum quality_figure)f),
                            json_pack("{s:o, s:o}", "value", number_json(figures[f]), "ratio",
                                      number_json(ratio(figures[f], compare->reference[f]))));
    return json;
}

static json_t *order_json(const struct survey *survey, const struct compare *compare, size_t number)
{
    const struct survey_contender *order = &survey->request->orders[number];
    const struct blocks_quality *window = &compare->windows[number];
    char name[SURVEY_NAME_BYTES];
    json_t *json;

    /* What was typed may be no UTF-8. */
    text_name(name, sizeof name, order->name);
    json = json_pack("{s:s, s:I, s:I, s:o}", "order", name, "epoch",
                     (json_int_t)order->config.epoch, "seed", (json_int_t)order->config.order.seed,
                     "figures", figures_json(compare, compare->figures[number]));
    if (window->known)
        json_object_set_new(
            json, "window",
            json_pack("{s:I, s:f, s:o}", "asked", (json_int_t)order->config.order.window, "ratio",
                      window->ratio, "enough",
                      window->window ? json_integer((json_int_t)window->window) : json_null()));
    return json;
}

static int print_json(const struct survey *survey, const struct compare *compare)
{
    const struct survey_request *request = survey->request;
    json_t *root = survey_describe(survey), *orders = json_array(), *full = json_object();

    for (size_t i = 0; i < request->order_count; i++)
        json_array_append_new(orders, order_json(survey, compare, i));
    for (int f = 0; f < QUALITY_FIGURES; f++)
        json_object_set_new(full, quality_name((enum quality_figure)f),
                            number_json(compare->reference[f]));
    json_object_set_new(root, "batch", json_integer((json_int_t)request->batch));
    if (compare->space.block_first) {
        json_object_set_new(root, "blocks", json_integer((json_int_t)compare->space.block_count));
        json_object_set_new(root, "kept_blocks", json_integer((json_int_t)compare->space.pool));
    }
    json_object_set_new(root, "orders", orders);
    json_object_set_new(root, "full_shuffle", full);
    json_object_set_new(root, "shuffles", json_integer((json_int_t)compare->shuffles));
    return survey_write_json(root);
}

int survey_compare(const struct survey *survey)
{
    uint64_t places = survey_places(survey) - survey->request->share.after;
    struct compare compare;
    int fault;

    if (survey->request->share.world > places || places < 2) {
        report_error("--quality: %llu sample%s over %llu rank%s: nothing stands side by side",
                     (unsigned long long)places, places == 1 ? "" : "s",
                     (unsigned long long)survey->request->share.world,
                     survey->request->share.world == 1 ? "" : "s");
        return -EINVAL;
    }
    fault = compare_open(survey, &compare);
    if (!fault)
        fault = measure_all(survey, &compare);
    if (!fault && survey->request->json)
        fault = print_json(survey, &compare);
    else if (!fault)
        print_text(survey, &compare);
    compare_close(&compare);
    return fault;
}
