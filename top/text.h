/* A text made of lines that are safe to print: every line goes through text_line(), which turns
 * control characters, bytes that are no UTF-8, and characters without a width of their own (they
 * can turn or hide what stands around them) into '?', and cuts it to the width in terminal cells.
 *
 * Not for several threads at once. Does not depend on the program's locale. */
#ifndef SHUFFLEFS_TOP_TEXT_H
#define SHUFFLEFS_TOP_TEXT_H

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct text {
    FILE *out;
    char *bytes;
    size_t size;
    size_t width; /* cells; 0: lines are not cut */
    locale_t locale;
    bool utf8; /* false: whatever is not ASCII becomes '?' */
};

/* 0, or a negative errno; then there is nothing to close. */
int text_open(struct text *text, size_t width, bool utf8);

/* One line; a newline is added. A line that was cut ends in '>', for half a number would be
 * another number. */
void text_line(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The cells that `name` takes. */
size_t text_cells(const struct text *text, const char *name);

/* `name` in exactly `cells` cells: padded with blanks, or with its start left out and shown as
 * "..", as names differ at their ends. The caller frees it; NULL: no memory. */
char *text_fit(const struct text *text, const char *name, size_t cells);

/* Closes the text and hands over its bytes, ended by a zero byte; the caller frees them. 0, or a
 * negative errno and NULL. */
int text_close(struct text *text, char **bytes);

#endif
