/* One run: source, plan, state, then shard after shard. Owns all of these while it lasts. */
#include "run.h"

#include "../core/clock.h"
#include "../core/progress.h"
#include "../core/report.h"
#include "classes.h"
#include "header.h"
#include "save.h"
#include "shard.h"
#include "state.h"
#include "stopper.h"
#include "work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)1 << 20)

struct run {
    const struct pack_options *options;
    struct pack_summary *summary;
    struct pack_source source;
    struct pack_classes classes;
    struct pack_plan plan;
    int folder_fd;
    struct pack_state state;
    struct pack_shard shard;
    struct pack_counts counts; /* of the shard that is being written */
    struct pack_work *work;
    struct progress progress;
    uint8_t *buffer; /* for members that are copied */
};

/* Would what is written become part of what is read, the next time? */
static int refuse_output_inside(const struct run *run)
{
    const struct pack_options *options = run->options;
    char *source, *folder;
    size_t length;
    int fault = 0;

    if (!run->source.root_path)
        return 0;
    source = realpath(run->source.root_path, NULL);
    folder = realpath(options->output.folder, NULL);
    length = source ? strlen(source) : 0;
    if (source && folder && strncmp(source, folder, length) == 0 &&
        (folder[length] == '/' || folder[length] == '\0' || length == 1)) {
        report_error("-o %s: within %s, which is packed: the next run would pack the shards, too",
                     options->output.folder, run->source.root_path);
        fault = -EINVAL;
    }
    free(source);
    free(folder);
    return fault;
}

/* A folder of shards that gets the packed ones too would have each sample twice. */
static int refuse_output_beside_source(const struct run *run)
{
    struct stat output, source;

    if (!run->source.index || fstat(run->folder_fd, &output))
        return 0;
    for (size_t i = 0; i < run->options->source_count; i++) {
        const char *name = run->options->sources[i];
        if (stat(name, &source) || !S_ISDIR(source.st_mode) || source.st_dev != output.st_dev ||
            source.st_ino != output.st_ino)
            continue;
        report_error("-o %s/%s: within %s, which is packed: its samples would be there twice",
                     run->options->output.folder, run->options->output.text, name);
        return -EINVAL;
    }
    return 0;
}

/* A shard that is read must not be one that is written: it would be gone before all of it was read.
 */
static int refuse_output_over_source(const struct run *run)
{
    const struct pack_pattern *pattern = &run->options->output;
    const struct index *index = run->source.index;
    int copy = openat(run->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fault = 0;
    DIR *open = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    struct stat status;
    uint64_t number;

    if (!open) {
        fault = -errno;
        report_error("%s: %s", pattern->folder, strerror(-fault));
        if (copy >= 0)
            close(copy);
        return fault;
    }
    while (index && !fault && (entry = readdir(open))) {
        if (!pack_pattern_number(pattern, entry->d_name, &number) ||
            fstatat(run->folder_fd, entry->d_name, &status, 0))
            continue;
        for (size_t i = 0; !fault && i < index->shard_count; i++)
            if (index->shards[i].device == status.st_dev && index->shards[i].inode == status.st_ino)
                fault = -EINVAL;
        if (fault)
            report_error("-o %s/%s: %s is one of the shards that are packed", pattern->folder,
                         pattern->text, entry->d_name);
    }
    closedir(open);
    return fault;
}

static int refuse_classes_file(const struct run *run)
{
    const char *path = run->options->classes;

    if (!path || run->options->force || access(path, F_OK) || pack_classes_are(&run->classes, path))
        return 0;
    report_error("--classes %s: is there already; --force overwrites", path);
    return -EEXIST;
}

static int prepare(struct run *run)
{
    const struct pack_options *options = run->options;
    int fault = pack_source_open(&run->source, options);

    memcpy(run->summary->left_out, run->source.listing.left_out, sizeof run->summary->left_out);
    if (!fault)
        fault = refuse_output_inside(run);
    if (!fault)
        fault = pack_classes_make(&run->classes, &run->source.listing, options);
    if (!fault)
        fault = pack_plan_open(&run->plan, &run->source.listing, options);
    if (fault)
        return fault;
    run->folder_fd = open(options->output.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (run->folder_fd < 0) {
        fault = -errno;
        report_error("%s: %s", options->output.folder, strerror(-fault));
        return fault;
    }
    fault = refuse_output_over_source(run);
    if (!fault)
        fault = refuse_output_beside_source(run);
    if (!fault)
        fault = pack_state_open(&run->state, &options->output, run->folder_fd, &run->plan,
                                options->force);
    if (!fault)
        fault = refuse_classes_file(run);
    run->buffer = malloc(COPY_BYTES);
    if (!run->buffer && !fault) {
        report_error("no memory to start");
        fault = -ENOMEM;
    }
    run->summary->shards = run->summary->taken_up = run->state.shards;
    run->summary->counts = run->state.counts;
    return fault;
}

static int copy_member(struct run *run, const struct pack_member *member)
{
    static const char zeros[PACK_BLOCK];
    struct pack_reading reading;
    uint64_t left = member->size;
    int fault = pack_reading_open(&reading, &run->source, member);

    while (!fault && left) {
        size_t size = left < COPY_BYTES ? (size_t)left : COPY_BYTES;
        if (stopper_signal()) {
            fault = -ECANCELED;
            break;
        }
        fault = pack_reading_take(&reading, run->buffer, size);
        if (!fault)
            fault = pack_shard_write(&run->shard, run->buffer, size);
        left -= size;
    }
    pack_reading_close(&reading);
    if (fault)
        return fault;
    return pack_shard_write(&run->shard, zeros, (size_t)(pack_blocks(member->size) - member->size));
}

static int write_sample(struct run *run, const struct pack_prepared *prepared)
{
    size_t at = 0;
    int fault = 0;

    for (size_t i = 0; !fault && i < prepared->streamed_count; i++) {
        const struct pack_streamed *streamed = &prepared->streamed[i];
        fault = pack_shard_write(&run->shard, prepared->bytes + at, streamed->at - at);
        if (!fault)
            fault = copy_member(run, streamed->member);
        at = streamed->at;
    }
    return fault ? fault : pack_shard_write(&run->shard, prepared->bytes + at, prepared->size - at);
}

static int begin_shard(struct run *run, uint64_t number)
{
    const struct pack_pattern *pattern = &run->options->output;

    /* Folders of shards are read in the order of names. */
    if (number == pack_pattern_sorted(pattern))
        report_warning(
            "-o %s: from shard %llu on, names have more digits, and do not sort as numbers "
            "any more",
            pattern->text, (unsigned long long)number);
    run->counts = (struct pack_counts){0};
    return pack_shard_begin(&run->shard, run->options->output.folder, run->folder_fd, pattern,
                            number);
}

/* The shard has positions [first, end). */
static int finish_shard(struct run *run, uint64_t first, uint64_t end)
{
    struct pack_identity identity;
    int fault = pack_shard_seal(&run->shard, &identity);

    if (fault)
        return fault;
    run->counts.bytes = identity.bytes;
    fault = pack_state_add(&run->state, run->shard.number, first, end, &identity, &run->counts);
    if (!fault)
        fault = pack_shard_rename(&run->shard, run->options->force);
    if (fault)
        return fault;
    pack_counts_add(&run->summary->counts, &run->counts);
    run->state.shards = ++run->summary->shards;
    return 0;
}

static void tell_of(struct run *run, const struct pack_prepared *prepared, uint64_t sample)
{
    const struct pack_listing *listing = &run->source.listing;
    const struct pack_member *member = &listing->members[listing->first[sample]];
    unsigned long long alone = prepared->tar_bytes + PACK_TRAILER;

    for (size_t i = 0; i < prepared->damage_count; i++)
        report_warning("%s", prepared->damage[i]);
    if (run->plan.limit == PACK_LIMIT_BYTES && alone > run->plan.limit_value &&
        pack_listing_may_name(listing, run->summary->oversized++))
        report_warning("'%.*s' alone takes %llu bytes: its shard is larger than --shard-size",
                       (int)member->key_length, member->key, alone);
}

/* Writes the samples from `position` on, which starts shard `number`. */
static int write_shards(struct run *run, uint64_t number, uint64_t position)
{
    uint64_t samples = run->source.listing.samples, first = position;
    uint64_t end = pack_plan_end(&run->plan, number, first);
    int fault = begin_shard(run, number);

    while (!fault && position < samples) {
        struct pack_prepared *prepared;
        fault = pack_work_take(run->work, &prepared);
        if (!fault && (position == end ||
                       pack_plan_is_full(&run->plan, run->shard.bytes, prepared->tar_bytes))) {
            fault = finish_shard(run, first, position);
            first = position;
            end = pack_plan_end(&run->plan, ++number, first);
            if (!fault)
                fault = begin_shard(run, number);
        }
        if (!fault) {
            tell_of(run, prepared, pack_plan_sample(&run->plan, position));
            fault = write_sample(run, prepared);
            pack_counts_add(&run->counts, &prepared->counts);
        }
        if (!fault) {
            pack_work_give_back(run->work);
            progress_add(&run->progress, 1);
            position++;
        }
    }
    return fault ? fault : finish_shard(run, first, position);
}

static void stop_work(void *context)
{
    pack_work_stop(context);
}

static int write_all(struct run *run, int *signal)
{
    uint64_t samples = run->source.listing.samples, position = run->state.position;
    int fault;

    if (position == samples)
        return 0;
    fault = pack_work_open(&run->work, &run->source, &run->plan, run->options, position);
    if (fault)
        return fault;
    fault = stopper_open(stop_work, run->work);
    progress_open(&run->progress, "packing", samples, position, PROGRESS_ITEMS);
    if (!fault) {
        fault = write_shards(run, run->state.shards, position);
        pack_shard_abandon(&run->shard);
        *signal = stopper_close();
    }
    progress_close(&run->progress);
    pack_work_close(run->work);
    if (fault && *signal)
        return -EINTR;
    *signal = 0; /* it came after the last shard */
    return fault;
}

/* After the last rename: what belongs to the set as a whole. */
static int finish_set(struct run *run)
{
    int fault = 0;

    if (run->options->classes)
        fault = pack_classes_write(&run->classes, run->options->classes);
    if (!fault)
        fault = pack_state_end(&run->state, run->summary->shards);
    if (!fault)
        pack_save_index(run->options, run->summary->shards);
    return fault;
}

int pack_run(const struct pack_options *options, struct pack_summary *summary, int *signal)
{
    double start = clock_now_s();
    struct run run = {.options = options,
                      .summary = summary,
                      .source = {.root = -1},
                      .folder_fd = -1,
                      .state = {.fd = -1},
                      .shard = {.fd = -1}};
    int fault;

    *summary = (struct pack_summary){0};
    *signal = 0;
    fault = prepare(&run);
    if (!fault)
        fault = write_all(&run, signal);
    if (!fault)
        fault = finish_set(&run);
    pack_state_close(&run.state);
    if (run.folder_fd >= 0)
        close(run.folder_fd);
    pack_plan_close(&run.plan);
    pack_classes_close(&run.classes);
    pack_source_close(&run.source);
    free(run.buffer);
    summary->seconds = clock_now_s() - start;
    return fault;
}
