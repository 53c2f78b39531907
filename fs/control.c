/* .control's texts and writes. Owns nothing. */
#include "control.h"

#include "../core/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Between an epoch and the samples of it that were read before. */
#define AFTER " after "

char *control_text(void *context, const char *name, enum view_kind kind, uint64_t rank,
                   uint64_t world, size_t *bytes)
{
    const struct control *control = context;
    struct epochs_at at;
    char *text = NULL;
    int length;

    if (kind == VIEW_TEXT_FILE && strcmp(name, "status") == 0)
        return status_text(control, bytes);
    at = kind == VIEW_RANK_FILE ? epochs_of_rank(control->epochs, rank, world)
                                : epochs_of_all(control->epochs);
    if (kind == VIEW_TEXT_FILE)
        length = asprintf(&text, "%s\n", control->dataset->fingerprint);
    else if (at.after)
        length = asprintf(&text, "%llu" AFTER "%llu\n", (unsigned long long)at.epoch,
                          (unsigned long long)at.after);
    else
        length = asprintf(&text, "%llu\n", (unsigned long long)at.epoch);
    if (length < 0)
        return NULL;
    *bytes = (size_t)length;
    return text;
}

/* Whether an epoch can be resumed there. */
static int check_after(const struct dataset *dataset, const char *name, struct epochs_at at)
{
    const struct config *config = dataset->config;

    if (at.after == 0)
        return 0;
    if (config->deal.runs) {
        report_error("%s: %llu" AFTER "%llu: order=%s cannot be resumed within an epoch: each rank "
                     "reads a run of its own, so what all have read is no start of the epoch",
                     name, (unsigned long long)at.epoch, (unsigned long long)at.after,
                     order_kind_name(config->order.kind));
        return -EINVAL;
    }
    if (at.after > dataset->basis.places) {
        report_error("%s: %llu" AFTER "%llu: an epoch has %llu samples", name,
                     (unsigned long long)at.epoch, (unsigned long long)at.after,
                     (unsigned long long)dataset->basis.places);
        return -EINVAL;
    }
    return 0;
}

int control_parse(const struct dataset *dataset, const char *name, const char *text, size_t size,
                  struct epochs_at *at)
{
    const char *after;

    if (size && text[size - 1] == '\n')
        size--;
    after = memmem(text, size, AFTER, strlen(AFTER));
    *at = (struct epochs_at){0};
    if (!config_number(text, after ? (size_t)(after - text) : size, ORDER_EPOCH_MAX, &at->epoch))
        return -EINVAL;
    if (!after)
        return 0;
    after += strlen(AFTER);
    if (!config_number(after, size - (size_t)(after - text), UINT64_MAX, &at->after))
        return -EINVAL;
    return check_after(dataset, name, *at);
}
