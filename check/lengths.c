/* Pictures measured by their headers. Owns the lengths, the threads' buffers and the reader. */
#include "lengths.h"

#include "crew.h"
#include "replace.h"

#include "../core/clock.h"
#include "../core/fields.h"
#include "../core/progress.h"
#include "../core/reader.h"
#include "../core/report.h"
#include "../loader/image.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Read of each picture at first, and how many times more whenever that does not do. Headers without
 * a thumbnail or a profile take less than 1 KiB. */
#define FIRST 4096
#define GROWS 8
/* A header that goes on for longer is refused: the loader takes no larger file. */
#define HEADER_MOST ((size_t)64 << 20)
/* Samples that a thread takes at once: neighbours in a shard. */
#define SOME 64

struct work {
    const struct dataset *dataset;
    struct reader *reader;
    struct check_problems *problems;
    uint64_t *pixels; /* of each sample */
    atomic_ullong next;
    atomic_ullong measured, jpeg, png, bytes;
    atomic_int fault;
    struct progress progress;
};

/* One thread's. */
struct hand {
    struct image_decoder *decoder;
    uint8_t *bytes;
    size_t room;
};

/* What is in reach of `hand->bytes` grows from `have` to `want` bytes. 0, -ENOMEM, or -EIO. */
static int read_on(struct work *work, struct hand *hand, uint64_t member, size_t have, size_t want)
{
    if (want > hand->room) {
        uint8_t *larger = realloc(hand->bytes, want);
        if (!larger)
            return -ENOMEM;
        hand->bytes = larger;
        hand->room = want;
    }
    while (have < want) {
        ssize_t got = reader_read(work->reader, member, hand->bytes + have, want - have, have);
        if (got <= 0)
            return -EIO;
        have += (size_t)got;
        atomic_fetch_add(&work->bytes, (unsigned long long)got);
    }
    return 0;
}

/* Why image_decoder_look() did not do, in `text`. */
static void explain(const struct image_report *report, int result, bool whole, char *text,
                    size_t room)
{
    if (result == -ENOTSUP)
        snprintf(text, room, "%s, of which no header is read, only of JPEG and PNG",
                 report->format);
    else if (!whole && report->truncated)
        snprintf(text, room, "the header does not end in the first %zu MiB", HEADER_MOST >> 20);
    else
        snprintf(text, room, "%s", report->why);
}

/* 0, whether it could be measured or not, or -ENOMEM. */
static int measure(struct work *work, struct hand *hand, uint64_t sample)
{
    const struct index *index = work->dataset->index;
    uint64_t member = fields_primary(index, work->dataset->config->fields, sample);
    uint64_t size = index->members[member].size;
    uint64_t most = size < HEADER_MOST ? size : HEADER_MOST;
    size_t have = 0, want = FIRST;
    struct image_report report;
    int width, height, result;
    char why[256];

    do {
        want = want < most ? want : (size_t)most;
        result = read_on(work, hand, member, have, want);
        if (result == -EIO)
            check_problems_add_member(work->problems, CHECK_UNREADABLE, index, member, NULL);
        if (result)
            return result == -EIO ? 0 : result;
        have = want;
        want *= GROWS;
        /* What the bytes end too early for is never taken as it seems. */
        result = image_decoder_look(hand->decoder, hand->bytes, have, &width, &height, &report);
    } while (report.truncated && have < most);
    if (result == -ENOMEM)
        return result;
    if (result) {
        explain(&report, result, have == size, why, sizeof why);
        check_problems_add_member(work->problems, CHECK_NO_LENGTH, index, member, why);
        return 0;
    }
    work->pixels[sample] = (uint64_t)width * (uint64_t)height;
    atomic_fetch_add(&work->measured, 1);
    atomic_fetch_add(strcmp(report.format, "png") == 0 ? &work->png : &work->jpeg, 1);
    return 0;
}

/* Whatever the loader's limits on pixels and scans are: this is not decoding. */
static int open_hand(struct hand *hand)
{
    const struct image_recipe recipe = {
        .width = 1,
        .height = 1,
        .crop = IMAGE_STRETCH,
        .pixels_most = UINT64_MAX,
        .scans_most = INT_MAX,
    };

    return image_decoder_open(&hand->decoder, &recipe);
}

static void *take_some(void *context)
{
    struct work *work = context;
    uint64_t samples = work->dataset->index->sample_count, from;
    struct hand hand = {NULL, NULL, 0};
    int fault = open_hand(&hand);

    while (!fault && !atomic_load(&work->fault) &&
           (from = atomic_fetch_add(&work->next, SOME)) < samples) {
        uint64_t to = samples - from < SOME ? samples : from + SOME;
        for (uint64_t sample = from; !fault && sample < to; sample++)
            fault = measure(work, &hand, sample);
        progress_add(&work->progress, to - from);
    }
    if (fault)
        atomic_store(&work->fault, fault);
    image_decoder_close(hand.decoder);
    free(hand.bytes);
    return NULL;
}

/* Those measured, for a stream. */
struct numbers {
    const uint64_t *pixels;
    uint64_t count;
};

static void fill(FILE *to, const void *context)
{
    const struct numbers *numbers = context;

    for (uint64_t i = 0; i < numbers->count && !ferror(to); i++)
        fprintf(to, "%" PRIu64 "\n", numbers->pixels[i]);
}

/* Into what is no file, and so is not replaced. 0 or a negative errno. */
static int write_through(const char *path, const struct numbers *numbers)
{
    FILE *to = fopen(path, "we");
    int fault;

    if (!to)
        return -errno;
    fill(to, numbers);
    fault = fflush(to) || ferror(to) ? (errno ? -errno : -EIO) : 0;
    if (fclose(to) && !fault)
        fault = -errno;
    return fault;
}

/* 0 or a negative errno, reported; but what is lost on standard output is told of at the program's
 * end (core/output.h). */
static int save(const char *path, const struct numbers *numbers)
{
    struct stat status;
    char *real;
    int fault;

    if (strcmp(path, CHECK_LENGTHS_STDOUT) == 0) {
        fill(stdout, numbers);
        return 0;
    }
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        fault = write_through(path, numbers);
    } else {
        /* Of a symbolic link, what it leads to. */
        real = realpath(path, NULL);
        fault = check_replace(real ? real : path, fill, numbers);
        free(real);
    }
    if (fault)
        report_error("--write-lengths %s: %s", path, strerror(-fault));
    return fault;
}

bool check_lengths_may_write(const char *path)
{
    struct stat status;
    char text[64];
    size_t got, at;
    FILE *file;

    if (strcmp(path, CHECK_LENGTHS_STDOUT) == 0 || stat(path, &status) ||
        !S_ISREG(status.st_mode) || status.st_size == 0)
        return true;
    file = fopen(path, "re");
    if (!file) {
        report_error("--write-lengths %s: %s", path, strerror(errno));
        return false;
    }
    got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = '\0';
    at = strspn(text, "0123456789");
    if (at > 0 && (text[at] == '\n' || text[at] == '\r' || at == (size_t)status.st_size))
        return true;
    report_error("--write-lengths %s: there is such a file, and it does not begin with a number on "
                 "a line; it stays as it is",
                 path);
    return false;
}

static void sum_up(struct check_lengths *lengths, const struct work *work)
{
    lengths->measured = work->measured;
    lengths->jpeg = work->jpeg;
    lengths->png = work->png;
    lengths->bytes = work->bytes;
    if (lengths->measured < lengths->samples)
        return;
    for (uint64_t i = 0; i < lengths->samples; i++) {
        uint64_t pixels = work->pixels[i];
        lengths->longest = pixels > lengths->longest ? pixels : lengths->longest;
        lengths->shortest = i && pixels > lengths->shortest ? lengths->shortest : pixels;
    }
}

int check_lengths_write(const struct dataset *dataset, const char *path, unsigned threads,
                        struct check_problems *problems, struct check_lengths *lengths)
{
    struct index *index = dataset->index;
    struct work work = {.dataset = dataset, .problems = problems};
    double since = clock_now_s();
    int fault;

    *lengths = (struct check_lengths){
        .samples = index->sample_count,
        .threads = check_crew_size(threads),
    };
    work.pixels = calloc(index->sample_count + 1, sizeof *work.pixels);
    fault = work.pixels ? reader_open(&work.reader, index, 0, dataset->config->direct) : -ENOMEM;
    if (!fault) {
        progress_open(&work.progress, "measuring", index->sample_count, 0, PROGRESS_ITEMS);
        check_crew_run(lengths->threads, take_some, &work);
        progress_close(&work.progress);
        fault = atomic_load(&work.fault);
    }
    lengths->seconds = clock_now_s() - since;
    reader_close(work.reader);
    if (fault) {
        report_error("measuring with %u threads: %s", lengths->threads, strerror(-fault));
    } else {
        const struct numbers numbers = {work.pixels, index->sample_count};
        sum_up(lengths, &work);
        if (lengths->measured == lengths->samples)
            fault = save(path, &numbers);
        lengths->written = !fault && lengths->measured == lengths->samples;
    }
    free(work.pixels);
    return fault;
}
