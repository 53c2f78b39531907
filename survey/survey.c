/* The data set and its orders, opened once for all that is asked of them. Owns the data set and
 * the bases of the orders; never prints an answer. */
#include "survey.h"

#include <stdio.h>
#include <string.h>

const struct config *survey_config(const struct survey *survey)
{
    return &survey->request->orders[0].config;
}

uint64_t survey_places(const struct survey *survey)
{
    return survey->bases[0].places;
}

/* A data set has made that of the first order already. */
static void take_first_basis(struct survey *survey)
{
    survey->bases[0] = survey->dataset.basis;
    survey->dataset.basis = (struct basis){0};
    survey->open = 1;
}

static int open_bases(struct survey *survey)
{
    const struct survey_request *request = survey->request;
    const struct index *index = survey->dataset.index;
    int fault = 0;

    if (index)
        take_first_basis(survey);
    for (size_t i = survey->open; !fault && i < request->order_count; i++) {
        fault = basis_open(&survey->bases[i], &request->orders[i].config, survey->samples, index,
                           index ? &survey->dataset.labels : NULL);
        if (fault == -ENOMEM)
            survey_no_memory("what the orders know of the samples");
        survey->open += fault == 0;
    }
    return fault;
}

/* The rest of what makes a share was checked with the command line. */
static int check_after(const struct survey *survey)
{
    uint64_t after = survey->request->share.after, places = survey_places(survey);

    if (after <= places)
        return 0;
    report_error("--after %llu: the epoch has %llu sample%s", (unsigned long long)after,
                 (unsigned long long)places, places == 1 ? "" : "s");
    return -EINVAL;
}

int survey_open(struct survey *survey, const struct survey_request *request)
{
    int fault = 0;

    *survey = (struct survey){.request = request, .samples = request->count};
    if (!request->counted) {
        fault = dataset_open(&survey->dataset, &request->orders[0].config);
        if (!fault)
            survey->samples = survey->dataset.index->sample_count;
    }
    if (!fault)
        fault = open_bases(survey);
    if (!fault)
        fault = check_after(survey);
    if (fault)
        survey_close(survey);
    return fault;
}

void survey_close(struct survey *survey)
{
    while (survey->open)
        basis_close(&survey->bases[--survey->open]);
    if (survey->dataset.index)
        dataset_close(&survey->dataset);
}

int survey_order(const struct survey *survey, size_t number, struct order **order)
{
    const struct survey_contender *contender = &survey->request->orders[number];
    const struct config *config = &contender->config;
    int fault = order_open(order, &config->order, &survey->bases[number].order, config->epoch);

    if (fault)
        report_error("order %s of %llu sample%s: %s", contender->name,
                     (unsigned long long)survey->samples, survey->samples == 1 ? "" : "s",
                     strerror(-fault));
    return fault;
}

void survey_plan(const struct survey *survey, size_t number, uint64_t rank, struct plan *plan)
{
    const struct survey_request *request = survey->request;
    const struct config *config = &request->orders[number].config;

    plan_open(
        plan, survey->bases[number].places,
        &(struct plan_share){.rank = rank, .world = config->world, .after = request->share.after},
        &config->deal);
}

json_t *survey_describe(const struct survey *survey)
{
    const struct survey_request *request = survey->request;
    const struct config *config = survey_config(survey);
    const struct plan_share *share = &request->share;
    json_t *root = json_pack(
        "{s:I, s:I, s:I, s:I, s:s, s:s}", "samples", (json_int_t)survey->samples, "world",
        (json_int_t)config->world, "epoch", (json_int_t)config->epoch, "seed",
        (json_int_t)config->order.seed, "order", order_kind_name(config->order.kind), "remainder",
        plan_remainder_name(config->deal.remainder));

    if (config->order.epoch_samples)
        json_object_set_new(root, "epoch_samples", json_integer((json_int_t)survey_places(survey)));
    if (share->after)
        json_object_set_new(root, "after", json_integer((json_int_t)share->after));
    if (share->parts && !request->all_parts)
        json_object_set_new(root, "part", json_integer((json_int_t)share->part));
    if (share->parts) {
        json_object_set_new(root, "parts", json_integer((json_int_t)share->parts));
        json_object_set_new(root, "by", json_integer((json_int_t)share->run));
    }
    if (survey->dataset.index)
        json_object_set_new(root, "fingerprint", json_string(survey->dataset.fingerprint));
    return root;
}

int survey_write_json(json_t *object)
{
    int fault = object && json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(10)) == 0
                    ? 0
                    : -ENOMEM;

    json_decref(object);
    /* A full disk shows at the output's end, with its own name. */
    if (fault && !ferror(stdout))
        return survey_no_memory("the answer");
    putchar('\n');
    return 0;
}
