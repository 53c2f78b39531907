/* What shufflefs-order was asked for, and the data set and orders that answer it. For one thread.
 */
#ifndef SHUFFLEFS_SURVEY_H
#define SHUFFLEFS_SURVEY_H

#include "../core/basis.h"
#include "../core/config.h"
#include "../core/dataset.h"
#include "../core/order.h"
#include "../core/plan.h"
#include "../core/report.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum survey_mode { SURVEY_LIST, SURVEY_TABLE, SURVEY_SHARDS, SURVEY_QUALITY, SURVEY_PICTURE };

/* Orders that one call may look at side by side, the first one included. */
#define SURVEY_ORDERS_MAX 16
#define SURVEY_NAME_BYTES 80

/* An order with its own options. What is not an order's own (world, epoch_samples, remainder) is
 * the same in all of them. */
struct survey_contender {
    char name[SURVEY_NAME_BYTES]; /* for people: `block:window=8` */
    struct config config;         /* settled */
};

struct survey_request {
    enum survey_mode mode;
    struct survey_contender orders[SURVEY_ORDERS_MAX];
    size_t order_count;
    uint64_t count; /* samples of a data set without shards */
    bool counted;   /* `count` was given */
    bool all;       /* every rank */
    bool ranked;    /* a rank was named, or all */
    bool all_parts; /* every part */
    bool keys, json;
    struct plan_share share; /* its world is that of the config */
    uint64_t samples;        /* --samples; UINT64_MAX: not given */
    uint64_t batch;          /* samples of a global batch */
    const char *picture;     /* where the picture goes; NULL: none. Of the arguments */
};

struct survey {
    const struct survey_request *request; /* the caller's, which outlives this */
    struct dataset dataset;               /* with shards; else its index is NULL */
    uint64_t samples;                     /* of the data set */
    struct basis bases[SURVEY_ORDERS_MAX];
    size_t open; /* bases that are */
};

/* Opens the data set and what its orders are made from. Returns 0 or a negative errno, reported:
 * also -EINVAL where the share does not fit the epoch. */
int survey_open(struct survey *survey, const struct survey_request *request);
void survey_close(struct survey *survey);

/* The config of the first order: of what is the same in all. */
const struct config *survey_config(const struct survey *survey);

/* Places of an epoch, of all orders. */
uint64_t survey_places(const struct survey *survey);

/* Works out an order. 0 or a negative errno, reported. */
int survey_order(const struct survey *survey, size_t number, struct order **order);

/* A share of an order's epoch with the request's world and `after`; `rank` is below that world. */
void survey_plan(const struct survey *survey, size_t number, uint64_t rank, struct plan *plan);

/* What every JSON object of this program begins with: samples, world, epoch, seed, order,
 * remainder; where they were asked for after, part, parts, by, epoch_samples; with shards the
 * fingerprint. The caller's. */
json_t *survey_describe(const struct survey *survey);

/* Says that there was no memory for `what`, and returns -ENOMEM. */
static inline int survey_no_memory(const char *what)
{
    report_error("no memory for %s", what);
    return -ENOMEM;
}

/* Writes the object, which it takes, and a newline to standard output. 0 or -ENOMEM, reported. */
int survey_write_json(json_t *object);

#endif
