/* .control's texts and writes. Owns nothing. */
#include "control.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

char *control_text(void *context, const char *name, enum view_kind kind, uint64_t rank,
                   uint64_t world, size_t *bytes)
{
    const struct control *control = context;
    char *text = NULL;
    int length;

    if (kind == VIEW_TEXT_FILE && strcmp(name, "status") == 0)
        return status_text(control, bytes);
    if (kind == VIEW_TEXT_FILE)
        length = asprintf(&text, "%s\n", control->dataset->fingerprint);
    else
        length = asprintf(&text, "%llu\n",
                          (unsigned long long)(kind == VIEW_RANK_FILE
                                                   ? epochs_of_rank(control->epochs, rank, world)
                                                   : epochs_of_all(control->epochs)));
    if (length < 0)
        return NULL;
    *bytes = (size_t)length;
    return text;
}

int control_parse(const char *text, size_t size, uint64_t *epoch)
{
    if (size && text[size - 1] == '\n')
        size--;
    return config_number(text, size, ORDER_EPOCH_MAX, epoch) ? 0 : -EINVAL;
}
