/* Every picture decoded. Owns the threads, a decoder and a buffer for each, and the reader. */
#include "images.h"

#include "crew.h"

#include "../core/clock.h"
#include "../core/progress.h"
#include "../core/reader.h"
#include "../core/report.h"
#include "../loader/image.h"
#include "../loader/settings.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Pixels that come out are thrown away: a small picture, so that most of a JPEG's inverse DCT is
 * left out; all of its entropy-coded data is read all the same. */
#define SIDE 32

/* Extensions of pictures, and the format that each promises. */
static const struct {
    const char *extension, *format;
} formats[] = {
    {"jpg", "jpeg"},   {"jpeg", "jpeg"},  {"jpe", "jpeg"},   {"jfif", "jpeg"},    {"png", "png"},
    {"webp", "webp"},  {"gif", "gif"},    {"bmp", "bmp"},    {"tif", "tiff"},     {"tiff", "tiff"},
    {"ppm", "netpbm"}, {"pgm", "netpbm"}, {"pbm", "netpbm"}, {"pnm", "netpbm"},   {"avif", "avif"},
    {"heic", "heif"},  {"heif", "heif"},  {"jxl", "jpegxl"}, {"jp2", "jpeg2000"},
};

struct work {
    const struct index *index;
    struct reader *reader;
    struct check_problems *problems;
    const char **formats; /* field -> what its extension promises; NULL: no picture */
    struct image_recipe recipe;
    uint64_t file_most;
    pthread_mutex_t lock; /* guards `next`, and the order of reads: one at a time, in the shards'
                             order */
    uint64_t next;        /* member */
    atomic_ullong pictures, bytes, jpeg, png;
    atomic_int fault;
    struct progress progress;
};

/* One thread's. */
struct hand {
    struct image_decoder *decoder;
    uint8_t *bytes;
    size_t room;
    uint8_t pixels[SIDE * SIDE * 3];
};

/* A picture read, and where it stands. */
struct picture {
    uint64_t member;
    size_t size;
    bool whole; /* its bytes are there */
};

static const char *promised(const char *field)
{
    const char *dot = strrchr(field, '.'), *extension = dot ? dot + 1 : field;

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].extension, extension) == 0)
            return formats[i].format;
    return NULL;
}

static void tell(const struct work *work, unsigned kind, uint64_t member, const char *why)
{
    check_problems_add_member(work->problems, kind, work->index, member, why);
}

static int make_room(struct hand *hand, size_t size)
{
    uint8_t *larger;

    if (hand->room >= size)
        return 0;
    larger = realloc(hand->bytes, size);
    if (!larger)
        return -ENOMEM;
    hand->bytes = larger;
    hand->room = size;
    return 0;
}

/* Reads the next picture. 1; 0: there is none any more; or -ENOMEM. The lock is held. */
static int read_next(struct work *work, struct hand *hand, struct picture *picture)
{
    const struct index *index = work->index;
    const struct index_member *member;

    while (work->next < index->member_count && !work->formats[index->members[work->next].field])
        work->next++;
    if (work->next == index->member_count)
        return 0;
    picture->member = work->next++;
    member = &index->members[picture->member];
    picture->whole = false;
    picture->size = (size_t)member->size;
    if (member->size > work->file_most)
        return 1;
    if (make_room(hand, picture->size + 1))
        return -ENOMEM;
    picture->whole = reader_read(work->reader, picture->member, hand->bytes, picture->size, 0) ==
                     (ssize_t)picture->size;
    return 1;
}

static void judge_picture(const struct work *work, uint64_t member,
                          const struct image_report *report)
{
    char text[64];

    if (strcmp(report->format, "jpeg") == 0 && report->components == 4)
        tell(work, CHECK_IMAGE_CMYK, member, NULL);
    if (report->components == 1 || report->components == 2)
        tell(work, CHECK_IMAGE_GREY, member, NULL);
    if (report->orientation != 1) {
        snprintf(text, sizeof text, "orientation %d", report->orientation);
        tell(work, CHECK_IMAGE_ROTATED, member, text);
    }
}

/* What image_decode() made of it. */
static void judge(struct work *work, uint64_t member, int result, const struct image_report *report)
{
    const char *promise = work->formats[work->index->members[member].field];
    bool known = strcmp(report->format, "unknown") != 0 && strcmp(report->format, "empty") != 0;
    char text[256];

    if (known && strcmp(report->format, promise) != 0) {
        snprintf(text, sizeof text, "%s bytes", report->format);
        tell(work, CHECK_IMAGE_WRONG_FORMAT, member, text);
    }
    if (result == -ENOTSUP) {
        if (strcmp(report->format, promise) == 0)
            tell(work, CHECK_IMAGE_OTHER_FORMAT, member, report->format);
        return;
    }
    if (report->truncated) {
        tell(work, CHECK_IMAGE_TRUNCATED, member, report->why);
    } else if (result) {
        tell(work, result == -EFBIG ? CHECK_IMAGE_REFUSED : CHECK_IMAGE_UNDECODABLE, member,
             report->why);
    } else if (report->damaged) {
        tell(work, CHECK_IMAGE_DAMAGED, member, report->why);
    }
    if (!result)
        judge_picture(work, member, report);
}

static int check_picture(struct work *work, struct hand *hand, const struct picture *picture)
{
    const struct image_key key = {0, 0, 0};
    struct image_report report;
    char text[96];
    int result;

    atomic_fetch_add(&work->pictures, 1);
    if (picture->size > work->file_most) {
        snprintf(text, sizeof text, "%llu bytes, more than %llu", (unsigned long long)picture->size,
                 (unsigned long long)work->file_most);
        tell(work, CHECK_IMAGE_REFUSED, picture->member, text);
        return 0;
    }
    if (!picture->whole) {
        tell(work, CHECK_UNREADABLE, picture->member, NULL);
        return 0;
    }
    atomic_fetch_add(&work->bytes, picture->size);
    result = image_decode(hand->decoder, hand->bytes, picture->size, &key, hand->pixels, &report);
    if (result == -ENOMEM)
        return -ENOMEM;
    atomic_fetch_add(&work->jpeg, strcmp(report.format, "jpeg") == 0);
    atomic_fetch_add(&work->png, strcmp(report.format, "png") == 0);
    judge(work, picture->member, result, &report);
    return 0;
}

static void *take_some(void *context)
{
    struct work *work = context;
    struct hand *hand = calloc(1, sizeof *hand);
    int fault = hand ? image_decoder_open(&hand->decoder, &work->recipe) : -ENOMEM, more = 1;

    while (!fault && more > 0 && !atomic_load(&work->fault)) {
        struct picture picture;
        pthread_mutex_lock(&work->lock);
        more = read_next(work, hand, &picture);
        pthread_mutex_unlock(&work->lock);
        fault = more < 0 ? more : more ? check_picture(work, hand, &picture) : 0;
        progress_add(&work->progress, more > 0);
    }
    if (fault)
        atomic_store(&work->fault, fault);
    if (hand) {
        image_decoder_close(hand->decoder);
        free(hand->bytes);
    }
    free(hand);
    return NULL;
}

static uint64_t count_pictures(const struct work *work)
{
    uint64_t count = 0;

    for (uint64_t m = 0; m < work->index->member_count; m++)
        count += work->formats[work->index->members[m].field] != NULL;
    return count;
}

/* What the loader decodes by default. */
static int set_limits(struct work *work)
{
    struct sl_config config = SL_CONFIG_INIT;
    struct settings settings;
    struct fault fault;
    int result;

    config.path = "/";
    result = settings_make(&settings, &config, &fault);
    if (result)
        return result;
    work->file_most = settings.config.file_most;
    work->recipe = (struct image_recipe){
        .width = SIDE,
        .height = SIDE,
        .crop = IMAGE_STRETCH,
        .orient = true,
        .pixels_most = settings.config.pixels_most,
        .scans_most = settings.config.scans_most,
    };
    settings_free(&settings);
    return 0;
}

int check_images(const struct dataset *dataset, unsigned threads, struct check_problems *problems,
                 struct check_images *images)
{
    struct index *index = dataset->index;
    struct work work = {.index = index, .problems = problems};
    double since = clock_now_s();
    int fault = set_limits(&work);

    threads = check_crew_size(threads);
    pthread_mutex_init(&work.lock, NULL);
    work.formats = calloc(index->field_count + 1, sizeof *work.formats);
    if (!work.formats)
        fault = -ENOMEM;
    for (size_t f = 0; !fault && f < index->field_count; f++)
        work.formats[f] = promised(index->fields[f]);
    if (!fault)
        fault = reader_open(&work.reader, index, 0, dataset->config->direct);
    if (!fault) {
        progress_open(&work.progress, "decoding", count_pictures(&work), 0, PROGRESS_ITEMS);
        check_crew_run(threads, take_some, &work);
        progress_close(&work.progress);
        fault = atomic_load(&work.fault);
    }
    reader_close(work.reader);
    pthread_mutex_destroy(&work.lock);
    free(work.formats);
    *images = (struct check_images){
        .pictures = work.pictures,
        .bytes = work.bytes,
        .jpeg = work.jpeg,
        .png = work.png,
        .others = work.pictures - work.jpeg - work.png,
        .threads = threads,
        .seconds = clock_now_s() - since,
    };
    if (fault)
        report_error("decoding with %u threads: %s", threads, strerror(-fault));
    return fault;
}
