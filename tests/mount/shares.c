/* shares: for each line `OPTIONS SAMPLES EPOCH NAME` on standard input, one line of the samples
 * that the share NAME of that epoch has, in order; `-` where there is no such share. OPTIONS is a
 * list as for -o. Without a mount, so that many cases take little time: how a name is spelled, what
 * is dealt to it and the order are those that the mount has. Owns nothing but its arguments. */
#include "../../core/basis.h"
#include "../../core/dataset.h"
#include "../../core/report.h"
#include "../../fs/grammar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the name is a share's, of an epoch of this order. */
static bool find_share(const struct dataset *dataset, const char *name, struct plan *plan)
{
    struct grammar grammar;
    struct plan_share share;
    const char *rest;

    grammar_open(&grammar, dataset);
    rest = grammar_parse_share(&grammar, name, true, &share);
    return rest && *rest == '\0' && dataset_plan(dataset, &share, plan);
}

static int print_share(const struct dataset *dataset, uint64_t epoch, const char *name)
{
    struct order *order;
    struct plan plan;
    int fault;

    if (!find_share(dataset, name, &plan)) {
        puts("-");
        return 0;
    }
    fault = dataset_order(dataset, epoch, &order);
    if (fault)
        return fault;
    for (uint64_t p = 0; p < plan.length; p++)
        printf("%s%llu", p ? " " : "",
               (unsigned long long)order_sample(order, plan_global(&plan, p)));
    putchar('\n');
    order_close(order);
    return 0;
}

static int answer(const char *options, const char *samples, const char *epoch, const char *name)
{
    struct config config;
    struct index index = {.sample_count = strtoull(samples, NULL, 10)};
    struct dataset dataset = {.config = &config, .index = &index};
    int fault;

    config_init(&config);
    fault = config_set_options(&config, options, "/");
    if (!fault)
        fault = config_settle(&config);
    if (!fault)
        fault = basis_open(&dataset.basis, &config, index.sample_count, NULL, NULL);
    if (!fault)
        fault = print_share(&dataset, strtoull(epoch, NULL, 10), name);
    basis_close(&dataset.basis);
    config_close(&config);
    return fault;
}

int main(void)
{
    char *line = NULL, *rest, *words[4];
    size_t room = 0, lines = 0;
    int fault = 0;

    report_program("shares");
    while (!fault && getline(&line, &room, stdin) > 0) {
        size_t count = 0;
        lines++;
        rest = line;
        while (count < 4 && (words[count] = strsep(&rest, " \n")))
            count++;
        fault = count < 4 ? -1 : answer(words[0], words[1], words[2], words[3]);
    }
    free(line);
    if (fault)
        report_error("line %zu is no case", lines);
    return fault || fflush(stdout) ? 1 : 0;
}
