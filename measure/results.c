/* Rounds into figures. Owns the rounds. */
#include "results.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int results_open(struct results *results, const struct source *sources, size_t source_count,
                 const unsigned *readers, size_t steps, size_t rounds, bool at_once)
{
    size_t each = source_count + at_once;

    *results = (struct results){
        .count = steps * each, .steps = steps, .each = each, .source_count = source_count};
    results->items = calloc(results->count, sizeof *results->items);
    if (!results->items)
        return -ENOMEM;
    for (size_t i = 0; i < results->count; i++) {
        struct result *result = &results->items[i];
        result->source = i % each < source_count ? &sources[i % each] : NULL;
        result->readers = readers[i / each];
        result->rounds = calloc(rounds, sizeof *result->rounds);
        if (!result->rounds)
            return -ENOMEM;
    }
    return 0;
}

struct result *results_at(const struct results *results, size_t step, size_t source)
{
    return &results->items[step * results->each + source];
}

static double *new_round(struct result *result)
{
    double *round = result->rounds[result->round_count++];

    for (size_t i = 0; i < FIGURES; i++)
        round[i] = NAN;
    return round;
}

/* Sums over a range of readers. */
struct sum {
    double samples, bytes, errors, waited, time, later_waited, later_time;
    double parts[READING_PARTS_MAX];
    int64_t start, end;
};

static void sum_add(struct sum *sum, const struct reading_tally *tally)
{
    int64_t later = tally->end - tally->start - READING_START_NS;

    sum->samples += (double)tally->samples;
    sum->bytes += (double)tally->bytes;
    sum->errors += (double)tally->errors;
    sum->waited += (double)tally->waited_ns;
    sum->time += (double)(tally->end - tally->start);
    sum->later_waited += (double)tally->later_waited_ns;
    sum->later_time += later > 0 ? (double)later : 0;
    /* Readers are not in step: the rates add up, the times do not. NAN where one has no such part.
     */
    for (size_t i = 0; i < READING_PARTS_MAX; i++)
        sum->parts[i] += tally->parts[i].ns
                             ? (double)tally->parts[i].samples * 1e9 / (double)tally->parts[i].ns
                             : NAN;
    if (!sum->start || tally->start < sum->start)
        sum->start = tally->start;
    if (tally->end > sum->end)
        sum->end = tally->end;
}

static void set_figures(double *round, const struct sum *sum, double listing_s)
{
    double read_s = (double)(sum->end - sum->start) / 1e9, all_s = read_s + listing_s;

    round[FIGURE_SAMPLES] = sum->samples;
    round[FIGURE_BYTES] = sum->bytes;
    round[FIGURE_ERRORS] = sum->errors;
    round[FIGURE_READ_S] = read_s;
    round[FIGURE_SAMPLES_PER_S] = all_s > 0 ? sum->samples / all_s : NAN;
    round[FIGURE_BYTES_PER_S] = all_s > 0 ? sum->bytes / all_s : NAN;
    round[FIGURE_WAIT_SHARE] = sum->time > 0 ? sum->waited / sum->time : NAN;
    round[FIGURE_WAIT_SHARE_LATER] = sum->later_time > 0 ? sum->later_waited / sum->later_time
                                                         : NAN;
    for (size_t i = 0; i < READING_PARTS_MAX; i++)
        round[FIGURE_PARTS + i] = sum->parts[i];
}

static void sum_source(struct sum *sum, struct result *result, const struct reading *reading,
                       size_t source)
{
    for (unsigned r = 0; r < result->readers; r++) {
        const struct reading_tally *tally = reading_tally(reading, source, r);
        sum_add(sum, tally);
        histogram_merge(&result->latency, &tally->latency);
    }
}

void result_add_round(struct result *result, const struct reading *reading, size_t source,
                      bool listing)
{
    double *round = new_round(result);
    struct sum sum = {0};

    sum_source(&sum, result, reading, source);
    set_figures(round, &sum, listing ? result->source->list_s : 0);
    round[FIGURE_LIST_S] = result->source->list_s;
}

void result_add_round_of_all(struct result *all, const struct result *first, size_t count,
                             const struct reading *reading)
{
    double *round = new_round(all), least = INFINITY, most = 0;
    struct sum sum = {0};

    for (size_t i = 0; i < count; i++) {
        double rate = first[i].rounds[first[i].round_count - 1][FIGURE_SAMPLES_PER_S];
        sum_source(&sum, all, reading, i);
        least = fmin(least, rate);
        most = fmax(most, rate);
    }
    set_figures(round, &sum, 0);
    round[FIGURE_SLOWEST_FASTEST] = most > 0 ? least / most : NAN;
}

void result_add_listing(struct result *result)
{
    double *round = new_round(result);

    round[FIGURE_LIST_S] = result->source->list_s;
    round[FIGURE_SAMPLES] = (double)result->source->count;
    round[FIGURE_ERRORS] = 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sorts `values`. */
static struct spread spread_of(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return (struct spread){NAN, NAN, NAN};
    qsort(values, count, sizeof *values, by_value);
    return (struct spread){.median = (values[(count - 1) / 2] + values[count / 2]) / 2,
                           .least = values[0],
                           .most = values[count - 1]};
}

struct spread result_ratio(const struct result *result, const struct result *base,
                           enum figure figure)
{
    struct spread spread = {NAN, NAN, NAN};
    size_t count = result->round_count;
    double *values = count && (!base || base->round_count == count) ? calloc(count, sizeof *values)
                                                                    : NULL;

    if (!values)
        return spread;
    for (size_t i = 0; i < count; i++)
        values[i] = result->rounds[i][figure] / (base ? base->rounds[i][figure] : 1);
    spread = spread_of(values, count);
    free(values);
    return spread;
}

struct spread result_spread(const struct result *result, enum figure figure)
{
    return result_ratio(result, NULL, figure);
}

void results_close(struct results *results)
{
    for (size_t i = 0; results->items && i < results->count; i++)
        free(results->items[i].rounds);
    free(results->items);
    *results = (struct results){0};
}
