/* Hand-made SVG. Colours are Okabe and Ito's, which colour-blind eyes tell apart. */
#include "plot.h"

#include "../core/text.h"

#include <math.h>

enum { WIDTH = 720, HEIGHT = 420, LEFT = 80, RIGHT = 20, TOP = 40, BOTTOM = 55, LEGEND_LINE = 18 };

static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000", "#999999"};

struct scale {
    double x_most, y_most; /* of the axes */
    double x_tick, y_tick;
};

static const char *colour_of(size_t series)
{
    return colours[series % (sizeof colours / sizeof *colours)];
}

double plot_tick(double most, unsigned ticks)
{
    double raw = most / ticks, power = pow(10, floor(log10(raw))), digits = raw / power;

    if (!(most > 0))
        return 1;
    return power * (digits <= 1 ? 1 : digits <= 2 ? 2 : digits <= 5 ? 5 : 10);
}

static double to_x(const struct scale *scale, double x)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * x / scale->x_most;
}

static double to_y(const struct scale *scale, double y)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y / scale->y_most;
}

static void fit(struct scale *scale, const struct plot *plot)
{
    double x = 0, y = 0;

    for (size_t i = 0; i < plot->count; i++) {
        for (size_t k = 0; k < plot->series[i].count; k++) {
            x = fmax(x, plot->series[i].points[k].x);
            y = fmax(y, fmax(plot->series[i].points[k].y, plot->series[i].points[k].most));
        }
    }
    /* Readers are whole: no ticks between. */
    scale->x_tick = fmax(1, plot_tick(x, 8));
    scale->y_tick = plot_tick(y, 6);
    scale->x_most = scale->x_tick * fmax(1, ceil(x / scale->x_tick));
    scale->y_most = scale->y_tick * fmax(1, ceil(y / scale->y_tick));
}

static void write_axes(FILE *file, const struct plot *plot, const struct scale *scale)
{
    char number[TEXT_NUMBER];
    double bottom = to_y(scale, 0);

    fputs("<g font-size=\"12\" fill=\"#333\">\n", file);
    for (unsigned i = 0; i * scale->y_tick < scale->y_most * 1.001; i++) {
        double y = to_y(scale, i * scale->y_tick);
        fprintf(file,
                "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\"/>"
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                LEFT, y, WIDTH - RIGHT, y, i ? "#ddd" : "#333", LEFT - 8, y + 4,
                text_number(number, i * scale->y_tick));
    }
    for (unsigned i = 0; i * scale->x_tick < scale->x_most * 1.001; i++) {
        double x = to_x(scale, i * scale->x_tick);
        fprintf(file,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#333\"/>"
                "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.15g</text>\n",
                x, bottom, x, bottom + 5, x, bottom + 20, i * scale->x_tick);
    }
    fprintf(file, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%.1f\" stroke=\"#333\"/>\n", LEFT, TOP,
            LEFT, bottom);
    fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"middle\">", (LEFT + WIDTH - RIGHT) / 2,
            bottom + 42);
    text_write_xml(file, plot->x_title);
    fprintf(file,
            "</text>\n<text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">",
            (TOP + HEIGHT - BOTTOM) / 2);
    text_write_xml(file, plot->y_title);
    fputs("</text>\n</g>\n", file);
}

static void write_series(FILE *file, const struct plot_series *series, const struct scale *scale,
                         const char *colour)
{
    fprintf(file, "<g stroke=\"%s\" fill=\"%s\">\n", colour, colour);
    if (series->count > 1) {
        fputs("<polyline fill=\"none\" stroke-width=\"2\" points=\"", file);
        for (size_t i = 0; i < series->count; i++)
            fprintf(file, "%s%.1f,%.1f", i ? " " : "", to_x(scale, series->points[i].x),
                    to_y(scale, series->points[i].y));
        fputs("\"/>\n", file);
    }
    for (size_t i = 0; i < series->count; i++) {
        const struct plot_point *point = &series->points[i];
        double x = to_x(scale, point->x);
        fprintf(file,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>"
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n",
                x, to_y(scale, point->y), x, to_y(scale, point->least), x,
                to_y(scale, point->most));
    }
    fputs("</g>\n", file);
}

static void write_legend(FILE *file, const struct plot *plot)
{
    fputs("<g font-size=\"12\" fill=\"#333\">\n", file);
    for (size_t i = 0; i < plot->count; i++) {
        int y = HEIGHT + (int)i * LEGEND_LINE;
        fprintf(file,
                "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" stroke=\"%s\" stroke-width=\"3\"/>"
                "<text x=\"%d\" y=\"%d\">",
                LEFT, y, LEFT + 24, y, colour_of(i), LEFT + 32, y + 4);
        text_write_xml(file, plot->series[i].name);
        fputs("</text>\n", file);
    }
    fputs("</g>\n", file);
}

void plot_write(FILE *file, const struct plot *plot)
{
    /* The legend stands below the axes, so that no name, however long, hides a line. */
    int height = HEIGHT + (int)plot->count * LEGEND_LINE;
    struct scale scale;

    fit(&scale, plot);
    fprintf(file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
            "<text x=\"%d\" y=\"22\" font-size=\"14\">",
            WIDTH, height, WIDTH, height, LEFT);
    text_write_xml(file, plot->title);
    fputs("</text>\n", file);
    write_axes(file, plot, &scale);
    for (size_t i = 0; i < plot->count; i++)
        write_series(file, &plot->series[i], &scale, colour_of(i));
    write_legend(file, plot);
    fputs("</svg>\n", file);
}
