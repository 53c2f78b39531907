/* Which options an order needs, and which mean nothing with it. Owns nothing. */
#include "config.h"

#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_DEFAULT   ((uint64_t)8 << 20)
#define WINDOW_DEFAULT  64
#define STREAMS_DEFAULT 64

/* An option that some orders alone know. */
struct option {
    const char *name;
    bool is_set;
    unsigned orders;   /* that know it, a bit each */
    unsigned required; /* and those that cannot do without */
};

#define BIT(kind) (1u << (kind))

static void list_orders(unsigned orders, char *text, size_t room)
{
    size_t used = 0;

    for (int kind = 0; kind < ORDER_KINDS; kind++)
        if (orders & BIT(kind))
            used += (size_t)snprintf(text + used, room - used, "%s%s", used ? " and " : "",
                                     order_kind_name((enum order_kind)kind));
}

static int check(const struct config *config, const struct option *option)
{
    const char *order = order_kind_name(config->order.kind);
    char orders[128];

    if (option->is_set && !(option->orders & BIT(config->order.kind))) {
        list_orders(option->orders, orders, sizeof orders);
        report_error("%s= means nothing with order=%s: it is for order=%s", option->name, order,
                     orders);
        return -EINVAL;
    }
    if (!option->is_set && (option->required & BIT(config->order.kind))) {
        report_error("order=%s needs %s=", order, option->name);
        return -EINVAL;
    }
    return 0;
}

int config_settle(struct config *config)
{
    struct order_spec *order = &config->order;
    const unsigned block = BIT(ORDER_BLOCK), length = BIT(ORDER_LENGTH),
                   weighted = BIT(ORDER_WEIGHTED);
    const struct option options[] = {
        {"weights", config->weights, weighted, weighted},
        {"lengths", config->lengths, length, length},
        {"bucket", order->bucket, length, length},
        {"block", order->block, block, 0},
        {"streams", order->streams, block, 0},
        {"window", order->window, block | BIT(ORDER_CONTIGUOUS), 0},
    };

    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        int fault = check(config, &options[i]);
        if (fault)
            return fault;
    }
    config->deal.runs = order->kind == ORDER_CONTIGUOUS;
    config->deal.window = config->deal.runs ? order->window : 0;
    if (order->kind == ORDER_BLOCK) {
        order->block = order->block ? order->block : BLOCK_DEFAULT;
        order->window = order->window ? order->window : WINDOW_DEFAULT;
        order->streams = order->streams ? order->streams : STREAMS_DEFAULT;
    }
    return 0;
}
