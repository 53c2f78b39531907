/* Numbers as people read them. Owns nothing. */
#include "figures.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* From here on a number is shown by its first digits and its exponent. */
#define LARGE 1e15

static bool is_odd(double value, struct figure *figure)
{
    if (isnan(value))
        strcpy(figure->text, "-");
    else if (value < 0 || value >= LARGE)
        snprintf(figure->text, sizeof figure->text, "%.3g", value);
    else
        return false;
    return true;
}

struct figure figure_count(double count)
{
    struct figure figure;
    char digits[24];
    size_t length, used = 0;

    if (is_odd(count, &figure))
        return figure;
    if (count > 0 && count < 10 && count != floor(count)) {
        snprintf(figure.text, sizeof figure.text, "%.1f", count);
        return figure;
    }
    length = (size_t)snprintf(digits, sizeof digits, "%.0f", count);
    for (size_t i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            figure.text[used++] = ',';
        figure.text[used++] = digits[i];
    }
    figure.text[used] = '\0';
    return figure;
}

struct figure figure_bytes(double bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct figure figure;
    size_t unit = 0;

    if (isnan(bytes) || bytes < 0 || bytes >= 1e21) {
        is_odd(bytes, &figure);
        return figure;
    }
    /* What would round to 1024.0 is one of the next unit. */
    for (; bytes >= 1023.95 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1024;
    snprintf(figure.text, sizeof figure.text, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return figure;
}

struct figure figure_share(double share)
{
    struct figure figure;

    if (is_odd(share, &figure))
        return figure;
    /* Only all of it is 100 %: an epoch at 99.96 % is not done. */
    if (share < 1 && share > 0.999)
        share = 0.999;
    snprintf(figure.text, sizeof figure.text, share < 100 ? "%.1f %%" : "%.3g %%", share * 100);
    return figure;
}

struct figure figure_span(double seconds)
{
    struct figure figure;
    unsigned long long whole;

    if (is_odd(seconds, &figure))
        return figure;
    whole = (unsigned long long)seconds;
    if (whole < 3600)
        snprintf(figure.text, sizeof figure.text, "%llu:%02llu", whole / 60, whole % 60);
    else if (whole < 86400)
        snprintf(figure.text, sizeof figure.text, "%llu:%02llu:%02llu", whole / 3600,
                 whole / 60 % 60, whole % 60);
    else if (whole < 86400000)
        snprintf(figure.text, sizeof figure.text, "%llud %02llu:%02llu", whole / 86400,
                 whole / 3600 % 24, whole / 60 % 60);
    else
        strcpy(figure.text, "> 999d");
    return figure;
}

struct figure figure_micros(double micros)
{
    struct figure figure;

    if (is_odd(micros, &figure))
        return figure;
    if (micros < 1000)
        snprintf(figure.text, sizeof figure.text, "%.0f us", micros);
    else if (micros < 1e6)
        snprintf(figure.text, sizeof figure.text, "%.2f ms", micros / 1e3);
    else
        snprintf(figure.text, sizeof figure.text, "%.2f s", micros / 1e6);
    return figure;
}
