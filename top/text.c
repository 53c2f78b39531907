/* Lines that are safe to print. Owns the bytes until text_close(). */
#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* What is printed for one character of a name. */
struct piece {
    const char *bytes;
    size_t size;
    size_t taken; /* bytes of the name */
    size_t cells;
};

int text_open(struct text *text, size_t width, bool utf8)
{
    *text = (struct text){.width = width};
    text->out = open_memstream(&text->bytes, &text->size);
    if (!text->out)
        return -errno;
    if (utf8)
        text->locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    text->utf8 = text->locale != (locale_t)0;
    return 0;
}

/* A letter with its accent after it is fine; other characters without a width are not. */
static bool is_accent(wchar_t wide)
{
    return wide >= 0x300 && wide <= 0x36f;
}

static struct piece next_piece(const struct text *text, const char *at)
{
    struct piece piece = {"?", 1, 1, 1};
    mbstate_t state = {0};
    wchar_t wide;
    size_t taken;
    int cells;

    if ((unsigned char)*at < 0x80) {
        if (*at >= 0x20 && *at != 0x7f)
            piece.bytes = at;
        return piece;
    }
    if (!text->utf8) {
        while (((unsigned char)at[piece.taken] & 0xc0) == 0x80)
            piece.taken++;
        return piece;
    }
    taken = mbrtowc(&wide, at, strnlen(at, 4), &state);
    if (taken == (size_t)-1 || taken == (size_t)-2)
        return piece;
    piece.taken = taken;
    cells = wcwidth(wide);
    if (cells > 0 || is_accent(wide)) {
        piece.bytes = at;
        piece.size = taken;
        piece.cells = cells > 0 ? (size_t)cells : 0;
    }
    return piece;
}

/* Prints pieces while they fit and returns their cells; `*at` is then the first that did not. */
static size_t put(const struct text *text, FILE *out, const char **at, size_t room)
{
    size_t cells = 0;

    while (**at) {
        struct piece piece = next_piece(text, *at);
        if (cells + piece.cells > room)
            break;
        fwrite(piece.bytes, 1, piece.size, out);
        cells += piece.cells;
        *at += piece.taken;
    }
    return cells;
}

static locale_t enter(const struct text *text)
{
    return text->utf8 ? uselocale(text->locale) : (locale_t)0;
}

static void leave(locale_t before)
{
    if (before != (locale_t)0)
        uselocale(before);
}

static size_t cells_of(const struct text *text, const char *name)
{
    size_t cells = 0;

    for (struct piece piece; *name; name += piece.taken) {
        piece = next_piece(text, name);
        cells += piece.cells;
    }
    return cells;
}

size_t text_cells(const struct text *text, const char *name)
{
    locale_t before = enter(text);
    size_t cells = cells_of(text, name);

    leave(before);
    return cells;
}

void text_line(struct text *text, const char *format, ...)
{
    locale_t before;
    va_list arguments;
    char *line = NULL;
    const char *at;
    size_t end;
    int length;

    va_start(arguments, format);
    length = vasprintf(&line, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    for (end = (size_t)length; end && line[end - 1] == ' '; end--)
        line[end - 1] = '\0';
    before = enter(text);
    at = line;
    if (!text->width || cells_of(text, line) <= text->width) {
        put(text, text->out, &at, (size_t)-1);
    } else {
        /* A wide character may leave one cell over. */
        for (size_t cells = put(text, text->out, &at, text->width - 1); cells < text->width - 1;
             cells++)
            putc(' ', text->out);
        putc('>', text->out);
    }
    putc('\n', text->out);
    leave(before);
    free(line);
}

char *text_fit(const struct text *text, const char *name, size_t cells)
{
    char *bytes = NULL;
    size_t size, all, used = 0;
    FILE *out = open_memstream(&bytes, &size);
    locale_t before;

    if (!out)
        return NULL;
    before = enter(text);
    all = cells_of(text, name);
    if (all > cells && cells > 2) {
        for (struct piece piece; all > cells - 2; name += piece.taken) {
            piece = next_piece(text, name);
            all -= piece.cells;
        }
        fputs("..", out);
        used = 2;
    }
    for (used += put(text, out, &name, cells - used); used < cells; used++)
        putc(' ', out);
    leave(before);
    if (fclose(out)) {
        free(bytes);
        return NULL;
    }
    return bytes;
}

int text_close(struct text *text, char **bytes)
{
    int fault = ferror(text->out) ? -ENOMEM : 0;

    if (fclose(text->out))
        fault = -ENOMEM;
    if (text->locale != (locale_t)0)
        freelocale(text->locale);
    if (fault)
        free(text->bytes);
    *bytes = fault ? NULL : text->bytes;
    return fault;
}
