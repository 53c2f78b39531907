/* What orders know of the samples. Owns its tables; borrows the rest. */
#include "basis.h"

#include "report.h"

#include <errno.h>

static int check_window(const struct config *config, uint64_t places)
{
    if (config->deal.window <= places)
        return 0;
    report_error("window=%llu: an epoch has %llu sample%s", (unsigned long long)config->deal.window,
                 (unsigned long long)places, places == 1 ? "" : "s");
    return -EINVAL;
}

int basis_open(struct basis *basis, const struct config *config, uint64_t samples,
               const struct index *index, const struct labels *labels)
{
    (void)index;
    (void)labels;
    *basis = (struct basis){.order = {.samples = samples},
                            .places = order_spec_places(&config->order, samples)};
    return check_window(config, basis->places);
}

void basis_close(struct basis *basis)
{
    *basis = (struct basis){0};
}
