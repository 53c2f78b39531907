/* Samples in order. Owns the order while it is read. */
#include "list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_sample(const struct survey *survey, uint64_t rank, uint64_t sample)
{
    if (survey->request->all)
        printf("%" PRIu64 "\t", rank);
    printf("%" PRIu64, sample);
    if (survey->request->keys)
        printf("\t%s", index_key(survey->dataset.index, sample));
    putchar('\n');
}

/* False: no memory. */
static bool print_sample_json(const struct survey *survey, uint64_t sample)
{
    json_t *key;
    int fault;

    if (!survey->request->keys) {
        printf("%" PRIu64, sample);
        return true;
    }
    printf("{\"sample\":%" PRIu64 ",\"key\":", sample);
    /* A key that is no UTF-8 cannot stand in JSON. */
    key = json_string(index_key(survey->dataset.index, sample));
    fault = json_dumpf(key ? key : json_null(), stdout, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(key);
    putchar('}');
    return fault == 0 || ferror(stdout);
}

static int list_rank(const struct survey *survey, const struct order *order, uint64_t rank)
{
    const struct survey_request *request = survey->request;
    struct plan_share share = request->share;
    struct plan plan;
    const char *between = "";

    share.rank = rank;
    if (!plan_open(&plan, order_places(order), &share, &survey_config(survey)->deal))
        return -EINVAL;
    if (request->json)
        printf("{\"rank\":%" PRIu64 ",\"length\":%" PRIu64 ",\"samples\":[", rank, plan.length);
    for (uint64_t p = 0; p < plan.length && p < request->samples && !ferror(stdout); p++) {
        uint64_t sample = order_sample(order, plan_global(&plan, p));
        if (request->json) {
            fputs(between, stdout);
            between = ",";
            if (!print_sample_json(survey, sample))
                return survey_no_memory("the answer");
        } else {
            print_sample(survey, rank, sample);
        }
    }
    if (request->json)
        fputs("]}", stdout);
    return 0;
}

/* The object but for its end, which the ranks come before. */
static int begin_json(const struct survey *survey)
{
    json_t *head = survey_describe(survey);
    char *text = head ? json_dumps(head, JSON_COMPACT) : NULL;

    json_decref(head);
    if (!text)
        return survey_no_memory("the answer");
    text[strlen(text) - 1] = '\0';
    printf("%s,\"ranks\":[", text);
    free(text);
    return 0;
}

int survey_list(const struct survey *survey)
{
    const struct survey_request *request = survey->request;
    uint64_t first = request->all ? 0 : request->share.rank;
    uint64_t past = request->all ? request->share.world : request->share.rank + 1;
    struct order *order;
    int fault = survey_order(survey, 0, &order);

    if (fault)
        return fault;
    if (request->json)
        fault = begin_json(survey);
    for (uint64_t rank = first; !fault && rank < past && !ferror(stdout); rank++) {
        if (request->json && rank > first)
            putchar(',');
        fault = list_rank(survey, order, rank);
    }
    if (request->json && !fault)
        fputs("]}\n", stdout);
    order_close(order);
    return fault;
}
