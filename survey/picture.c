/* Hand-made SVG, a panel an order. Some thousands of dots a panel, one in each of as many equal
 * parts of the epoch, at a place that is drawn: evenly spaced ones would fall in step with orders
 * that take streams in turn. Owns the file while it is written. */
#include "picture.h"

#include "../core/draw.h"
#include "../core/text.h"

#include <stdio.h>
#include <string.h>

/* In pixels. */
enum { LEFT = 110, RIGHT = 20, TOP = 34, BOTTOM = 48, SIDE = 480, PANEL_HEIGHT = 360 };
enum { WIDTH = LEFT + SIDE + RIGHT, HEIGHT = TOP + PANEL_HEIGHT + BOTTOM, COLUMNS = 2 };

/* A dot takes some 12 bytes: the file stays far below a megabyte. */
#define DOTS_OF_A_PANEL 5000
#define DOTS_IN_ALL     40000
/* Lines between more shards would be grey all over. */
#define SHARD_LINES_MOST 64
#define SHORT_FROM       UINT64_C(10000000000)
#define TICKS_MOST       6
#define PICTURE_DRAWS    UINT64_C(0x7069637475726500) /* "picture" */

/* Beyond SHORT_FROM there is no room for all digits. */
static void write_number(FILE *file, double x, double y, const char *anchor, uint64_t value)
{
    char text[TEXT_NUMBER];

    if (value < SHORT_FROM)
        text_count(text, value);
    else
        snprintf(text, sizeof text, "%.4g", (double)value);
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y, anchor, text);
}

/* 1, 2 or 5 times a power of ten, for up to TICKS_MOST ticks. */
static uint64_t tick(uint64_t most)
{
    uint64_t step = 1;

    while (most / step >= TICKS_MOST) {
        uint64_t digit = step;
        while (digit >= 10)
            digit /= 10;
        step = digit == 2 ? step / 2 * 5 : step * 2;
    }
    return step;
}

/* Sample 0 stands at the top, as in a list. */
static void write_axes(FILE *file, const struct survey *survey, uint64_t reads)
{
    for (uint64_t at = 0; at <= reads; at += tick(reads)) {
        double x = LEFT + SIDE * (double)at / (double)(reads ? reads : 1);
        fprintf(file, "<path d=\"M%.1f %dv5\" stroke=\"#333\"/>\n", x, TOP + PANEL_HEIGHT);
        write_number(file, x, TOP + PANEL_HEIGHT + 19, "middle", at);
    }
    for (uint64_t at = 0; at <= survey->samples; at += tick(survey->samples)) {
        double y = TOP +
                   PANEL_HEIGHT * (double)at / (double)(survey->samples ? survey->samples : 1);
        fprintf(file, "<path d=\"M%d %.1fh-5\" stroke=\"#333\"/>\n", LEFT, y);
        write_number(file, LEFT - 8, y + 4, "end", at);
    }
    fprintf(
        file,
        "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">place in what the job reads</text>\n"
        "<text transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"middle\">sample</text>\n"
        "<path d=\"M%d %dv%dh%d\" fill=\"none\" stroke=\"#333\"/>\n",
        LEFT + SIDE / 2, TOP + PANEL_HEIGHT + 38, TOP + PANEL_HEIGHT / 2, LEFT, TOP, PANEL_HEIGHT,
        SIDE);
}

static void write_shards(FILE *file, const struct survey *survey)
{
    const struct index *index = survey->dataset.index;

    if (!index || index->shard_count > SHARD_LINES_MOST)
        return;
    fputs("<path stroke=\"#ddd\" d=\"", file);
    for (size_t i = 1; i < index->shard_count; i++)
        fprintf(file, "M%d %.1fh%d", LEFT,
                TOP +
                    PANEL_HEIGHT * (double)index->shards[i].first_sample / (double)survey->samples,
                SIDE);
    fputs("\"/>\n", file);
}

/* The job reads its ranks in turn. False: this rank has ended. */
static bool sample_at(const struct survey *survey, size_t number, const struct order *order,
                      uint64_t place, uint64_t *sample)
{
    uint64_t world = survey->request->share.world;
    struct plan plan;

    survey_plan(survey, number, place % world, &plan);
    if (place / world >= plan.length)
        return false;
    *sample = order_sample(order, plan_global(&plan, place / world));
    return true;
}

static void write_dots(FILE *file, const struct survey *survey, size_t number,
                       const struct order *order, uint64_t reads)
{
    uint64_t most = DOTS_IN_ALL / survey->request->order_count, dots, from = 0;
    struct draw draw;

    most = most < DOTS_OF_A_PANEL ? most : DOTS_OF_A_PANEL;
    dots = reads < most ? reads : most;
    draw_seed(&draw, 0, number, PICTURE_DRAWS);
    fputs("<path fill=\"none\" stroke=\"#0072b2\" stroke-width=\"1.6\" stroke-linecap=\"round\" "
          "d=\"",
          file);
    for (uint64_t i = 0; i < dots; i++) {
        uint64_t part = reads / dots + (i < reads % dots), sample;
        uint64_t place = from + draw_below(&draw, part);
        from += part;
        if (sample_at(survey, number, order, place, &sample))
            fprintf(file, "M%.1f %.1fh0\n", LEFT + SIDE * ((double)place + 0.5) / (double)reads,
                    TOP + PANEL_HEIGHT * ((double)sample + 0.5) / (double)survey->samples);
    }
    fputs("\"/>\n", file);
}

/* Of the longest rank as often as there are ranks: where uneven ones end is left empty. */
static uint64_t reads_of(const struct survey *survey, size_t number)
{
    uint64_t world = survey->request->share.world;
    struct plan first, last;

    survey_plan(survey, number, 0, &first);
    survey_plan(survey, number, world - 1, &last);
    return (first.length > last.length ? first.length : last.length) * world;
}

static int write_panel(FILE *file, const struct survey *survey, size_t number)
{
    uint64_t reads = reads_of(survey, number);
    struct order *order;
    char world[TEXT_NUMBER];
    int fault = survey_order(survey, number, &order);

    if (fault)
        return fault;
    fprintf(file, "<g transform=\"translate(%zu %zu)\">\n<text x=\"%d\" y=\"20\" font-size=\"14\">",
            number % COLUMNS * WIDTH, number / COLUMNS * HEIGHT, LEFT);
    text_write_xml(file, survey->request->orders[number].name);
    if (survey->request->share.world > 1)
        fprintf(file, ", %s ranks in turn", text_count(world, survey->request->share.world));
    fputs("</text>\n", file);
    write_axes(file, survey, reads);
    if (survey->samples)
        write_shards(file, survey);
    if (survey->samples && reads)
        write_dots(file, survey, number, order, reads);
    fputs("</g>\n", file);
    order_close(order);
    return 0;
}

static int write_picture(FILE *file, const struct survey *survey)
{
    size_t count = survey->request->order_count;
    size_t width = (count < COLUMNS ? count : COLUMNS) * WIDTH;
    size_t height = (count + COLUMNS - 1) / COLUMNS * HEIGHT;
    int fault = 0;

    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%zu\" "
            "viewBox=\"0 0 %zu %zu\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#333\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            width, height, width, height);
    for (size_t i = 0; !fault && i < count; i++)
        fault = write_panel(file, survey, i);
    fputs("</svg>\n", file);
    return fault;
}

static int complain(const char *path, int fault)
{
    report_error("--svg %s: %s", path, strerror(-fault));
    return fault;
}

int survey_picture(const struct survey *survey)
{
    const char *path = survey->request->picture;
    int fault, lost;
    FILE *file;

    if (strcmp(path, "-") == 0)
        return write_picture(stdout, survey);
    file = fopen(path, "we");
    if (!file)
        return complain(path, -errno);
    fault = write_picture(file, survey);
    lost = ferror(file);
    errno = 0;
    if (fclose(file) || lost)
        lost = errno ? -errno : -EIO;
    return fault || !lost ? fault : complain(path, lost);
}
