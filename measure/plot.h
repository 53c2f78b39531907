/* A line chart as SVG: one line a series over shared axes that start at zero, with ticks, a legend,
 * and a bar from least to most at each point. Knows nothing of what is plotted. */
#ifndef SHUFFLEFS_PLOT_H
#define SHUFFLEFS_PLOT_H

#include <stddef.h>
#include <stdio.h>

struct plot_point {
    double x, y, least, most; /* finite and not negative */
};

struct plot_series {
    const char *name; /* any bytes */
    const struct plot_point *points;
    size_t count;
};

struct plot {
    const char *title, *x_title, *y_title;
    const struct plot_series *series;
    size_t count;
};

/* Writes the chart; errors are for the caller to find by ferror(). */
void plot_write(FILE *file, const struct plot *plot);

/* The step of axis ticks: 1, 2 or 5 times a power of ten, for about `ticks` up to `most`. */
double plot_tick(double most, unsigned ticks);

#endif
