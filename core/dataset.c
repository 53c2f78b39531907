/* A data set, settled. Owns index and labels; borrows the config. */
#include "dataset.h"

#include "fields.h"
#include "json_labels.h"
#include "report.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

static void add_text(XXH3_state_t *hash, const char *text)
{
    XXH3_64bits_update(hash, text, strlen(text) + 1);
}

static void add_number(XXH3_state_t *hash, uint64_t number)
{
    number = htole64(number);
    XXH3_64bits_update(hash, &number, sizeof number);
}

static uint64_t hash_data(XXH3_state_t *hash, const struct index *index)
{
    XXH3_64bits_reset(hash);
    for (size_t i = 0; i < index->shard_count; i++) {
        char name[SHARDS_NAME];
        shards_base_name(name, index->shards[i].path);
        add_text(hash, name);
        add_number(hash, index->shards[i].hash);
    }
    return XXH3_64bits_digest(hash);
}

static uint64_t hash_order(XXH3_state_t *hash, const struct dataset *dataset)
{
    const struct config *config = dataset->config;
    const struct order_spec *order = &config->order;
    /* What is spelled out counts as what is left out, where it is the same order. */
    uint64_t epoch_samples = dataset->basis.places == dataset->index->sample_count
                                 ? 0
                                 : order->epoch_samples;
    uint64_t window = config->deal.runs && order->window == 1 ? 0 : order->window;
    const uint64_t numbers[] = {epoch_samples,  order->block,  window,
                                order->streams, order->bucket, dataset->basis.hash};

    XXH3_64bits_reset(hash);
    add_text(hash, order_kind_name(config->order.kind));
    add_number(hash, order_version(config->order.kind));
    add_number(hash, config->order.seed);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add_number(hash, numbers[i]);
    add_text(hash, plan_remainder_name(config->deal.remainder));
    add_text(hash, config->fields ? config->fields : "");
    add_text(hash, dataset->labels.source_text);
    return XXH3_64bits_digest(hash);
}

static int make_fingerprint(struct dataset *dataset)
{
    XXH3_state_t *hash = XXH3_createState();

    if (!hash)
        return -ENOMEM;
    snprintf(dataset->fingerprint, sizeof dataset->fingerprint, "%016llx-%016llx",
             (unsigned long long)hash_data(hash, dataset->index),
             (unsigned long long)hash_order(hash, dataset));
    XXH3_freeState(hash);
    return 0;
}

static bool names_cls(const char *fields)
{
    for (const char *group = fields; *group;) {
        size_t length = strcspn(group, ":");
        if (strcspn(group, "/:") == 3 && strncmp(group, "cls", 3) == 0)
            return true;
        group += length + (group[length] == ':');
    }
    return false;
}

/* The members' own bytes are the label only when it comes from them and was not numbered. */
static bool shall_make_cls(const struct dataset *dataset)
{
    const struct labels *labels = &dataset->labels;

    if (labels->source == CONFIG_LABEL_NONE ||
        (dataset->config->fields && !names_cls(dataset->config->fields)))
        return false;
    return labels->source != CONFIG_LABEL_CLS || labels->named;
}

static int refuse_problems(const struct index *index, size_t compressed)
{
    char text[1024] = "";
    size_t used = 0;

    if (compressed)
        used = (size_t)snprintf(text, sizeof text, "%zu compressed beside plain ones", compressed);

    for (int p = 0; p < INDEX_PROBLEM_KINDS; p++)
        if (index->problems[p] && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%llu %s", used ? ", " : "",
                                     (unsigned long long)index->problems[p],
                                     index_problem_name((enum index_problem)p));
    if (!used)
        return 0;
    report_error("strict: refused for %s", text);
    return -EINVAL;
}

/* `fields=jpg:cls` with label=dir names a field that no shard has: it is made, so it cannot be
 * missing. */
static int apply_fields(struct dataset *dataset, const struct index_observer *observer)
{
    const char *fields = dataset->config->fields;
    bool from_cls = dataset->config->label == CONFIG_LABEL_CLS ||
                    (dataset->config->label == CONFIG_LABEL_AUTO && dataset->index->class_texts);
    char members[strlen(fields ? fields : "") + 1];
    char *to = members;

    if (!fields || from_cls || dataset->config->label == CONFIG_LABEL_NONE || !names_cls(fields))
        return fields_apply(dataset->index, fields, observer);
    for (const char *group = fields; *group;) {
        size_t length = strcspn(group, ":");
        if (!(strcspn(group, "/:") == 3 && strncmp(group, "cls", 3) == 0)) {
            if (to > members)
                *to++ = ':';
            memcpy(to, group, length);
            to += length;
        }
        group += length + (group[length] == ':');
    }
    *to = '\0';
    return fields_apply(dataset->index, to > members ? members : NULL, observer);
}

static void tell_observer(void *context, size_t shard, uint64_t offset)
{
    const struct index_observer *observer = context;

    if (observer->problem)
        observer->problem(observer->context, shard, INDEX_CORRUPT_STREAM, NULL, offset);
}

/* The index, of copies where shards are compressed. */
static int open_index(struct dataset *dataset, const struct index_observer *observer)
{
    const struct config *config = dataset->config;
    struct shard_list list = config->shards;
    int fault = unpack_open(&dataset->unpack, &config->shards, config->unpacked,
                            config->unpacked_size, UNPACK_PATIENCE_MS);

    if (fault)
        return fault;
    list.files = unpack_files(dataset->unpack);
    fault = observer ? index_open_observed(&dataset->index, &list, 0, observer)
                     : index_open(&dataset->index, &list, 0, config->index);
    if (!fault && observer)
        unpack_faults(dataset->unpack, tell_observer, (void *)observer);
    if (!fault)
        dataset->index->problems[INDEX_CORRUPT_STREAM] += unpack_figures(dataset->unpack).faulty;
    return fault;
}

/* What is no fault, and yet can hardly be meant. */
static void warn_of_oddities(const struct dataset *dataset)
{
    const struct config *config = dataset->config;
    uint64_t places = dataset->basis.places, samples = dataset->index->sample_count;

    if (places && plan_dropped(places, config->world, &config->deal) == places)
        report_warning("remainder=drop: an epoch has %" PRIu64 " sample%s, fewer than the %" PRIu64
                       " ranks: none gets any",
                       places, places == 1 ? "" : "s", config->world);
    if (config->order.kind == ORDER_LENGTH && config->order.bucket > samples)
        report_warning("order=length: no bucket of %" PRIu64 " is ever full, as there are %" PRIu64
                       " samples: nothing is sorted by length",
                       config->order.bucket, samples);
}

int dataset_open(struct dataset *dataset, const struct config *config)
{
    return dataset_open_observed(dataset, config, NULL);
}

int dataset_open_observed(struct dataset *dataset, const struct config *config,
                          const struct index_observer *observer)
{
    int fault;

    *dataset = (struct dataset){.config = config};
    fault = shards_check(&config->shards);
    if (!fault)
        fault = open_index(dataset, observer);
    if (!fault && config->label == CONFIG_LABEL_JSON)
        fault = json_labels_apply(dataset->index, config->label_key, config->direct);
    if (!fault)
        fault = apply_fields(dataset, observer);
    if (!fault)
        fault = labels_open(&dataset->labels, dataset->index, config->label, config->label_key);
    if (!fault)
        fault = basis_open(&dataset->basis, config, dataset->index->sample_count, dataset->index,
                           &dataset->labels);
    if (!fault && config->strict)
        fault = refuse_problems(dataset->index, config->shards.left_out);
    if (!fault) {
        dataset->makes_cls = shall_make_cls(dataset);
        if (dataset->makes_cls && dataset->index->longest_field < 3)
            dataset->index->longest_field = 3;
        dataset->uneven = fields_warn_uneven(dataset->index, dataset->makes_cls);
        warn_of_oddities(dataset);
        fault = make_fingerprint(dataset);
    }
    if (fault == -ENOMEM)
        report_error("no memory for a data set of %zu shards", config->shards.count);
    if (fault)
        dataset_close(dataset);
    return fault;
}

void dataset_close(struct dataset *dataset)
{
    basis_close(&dataset->basis);
    labels_close(&dataset->labels);
    index_close(dataset->index);
    dataset->index = NULL;
    unpack_close(dataset->unpack);
    dataset->unpack = NULL;
}

int dataset_order(const struct dataset *dataset, uint64_t epoch, struct order **order)
{
    return order_open(order, &dataset->config->order, &dataset->basis.order, epoch);
}

bool dataset_plan(const struct dataset *dataset, const struct plan_share *share, struct plan *plan)
{
    return plan_open(plan, dataset->basis.places, share, &dataset->config->deal);
}

static bool shows_made_cls(const struct dataset *dataset, uint64_t sample)
{
    return dataset->makes_cls && dataset->labels.of[sample] != LABELS_MISSING;
}

static bool is_cls(const struct index *index, uint64_t member)
{
    return strcmp(index->fields[index->members[member].field], "cls") == 0;
}

/* Where labels are made, a member named cls is hidden, also of a sample that has no label: or two
 * kinds of label would stand side by side. */
static bool made_field(const struct dataset *dataset, uint64_t sample, unsigned place,
                       const char **name, int64_t *member)
{
    const struct index *index = dataset->index;
    bool left = shows_made_cls(dataset, sample);
    unsigned at = 0;

    for (uint64_t m = index->first[sample]; m < index->first[sample + 1]; m++) {
        *name = index->fields[index->members[m].field];
        if (left && strcmp(*name, "cls") >= 0) {
            left = false;
            if (at++ == place) {
                *name = "cls";
                *member = -1;
                return true;
            }
        }
        *member = (int64_t)m;
        if (!is_cls(index, m) && at++ == place)
            return true;
    }
    *name = "cls";
    *member = -1;
    return left && at == place;
}

bool dataset_field(const struct dataset *dataset, uint64_t sample, unsigned place,
                   const char **name, int64_t *member)
{
    const struct index *index = dataset->index;
    uint64_t m = (uint64_t)index->first[sample] + place;

    if (dataset->makes_cls)
        return made_field(dataset, sample, place, name, member);
    if (m >= index->first[sample + 1])
        return false;
    *name = index->fields[index->members[m].field];
    *member = (int64_t)m;
    return true;
}

bool dataset_find_field(const struct dataset *dataset, uint64_t sample, const char *name,
                        size_t length, int64_t *member)
{
    if (dataset->makes_cls && length == 3 && memcmp(name, "cls", 3) == 0) {
        *member = -1;
        return shows_made_cls(dataset, sample);
    }
    *member = index_find_field(dataset->index, sample, name, length);
    return *member >= 0;
}

size_t dataset_label_text(const struct dataset *dataset, uint64_t sample, char *text)
{
    return (size_t)snprintf(text, 24, "%lld", (long long)dataset->labels.of[sample]);
}
