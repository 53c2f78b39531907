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

static int cut_blocks(struct basis *basis, const struct config *config, const struct index *index)
{
    int fault;

    if (!index) {
        report_error("order=block needs shards: blocks are cut by their bytes");
        return -EINVAL;
    }
    fault = blocks_open(&basis->blocks, index, config->order.block);
    basis->order.blocks = basis->blocks.starts;
    basis->order.block_count = basis->blocks.count;
    return fault;
}

int basis_open(struct basis *basis, const struct config *config, uint64_t samples,
               const struct index *index, const struct labels *labels)
{
    int fault = 0;

    (void)labels;
    *basis = (struct basis){.order = {.samples = samples},
                            .places = order_spec_places(&config->order, samples)};
    if (config->order.kind == ORDER_BLOCK)
        fault = cut_blocks(basis, config, index);
    if (!fault)
        fault = check_window(config, basis->places);
    if (fault)
        basis_close(basis);
    return fault;
}

void basis_close(struct basis *basis)
{
    blocks_close(&basis->blocks);
    *basis = (struct basis){0};
}
