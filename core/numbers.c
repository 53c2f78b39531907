/* Numbers out of a text file. Owns the piece of text in work; never holds the whole text. */
#include "numbers.h"

#include "report.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

/* Small while fuzzing, so that lines stand across the ends of pieces. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define PIECE     64
#define LINE_MOST 40
#else
#define PIECE     (256 * 1024)
#define LINE_MOST 4096
#endif

/* Of a value that a message shows. */
#define SHOWN_MOST 40

struct text {
    const char *path;
    int fd;
    bool regular;       /* it ends, so that all its lines can be counted */
    bool ended;         /* nothing is left to be read */
    int fault;          /* negative errno of what ended it early, reported; 0: none */
    char *piece;        /* PIECE bytes, and one for a NUL */
    size_t from, to;    /* what of it is still to be taken */
    uint64_t line;      /* number of the line taken last, from 1 */
    uint64_t first_gap; /* the first of the empty lines taken last; 0: none */
};

/* What the lines hold. */
struct kind {
    const char *allowed; /* for messages */
    /* `length` bytes, at least one, and a NUL. Whether they are such a number. */
    bool (*parse)(const char *word, size_t length, locale_t locale, void *value);
};

static bool parse_weight(const char *word, size_t length, locale_t locale, void *value)
{
    double number;
    char *end;

    /* strtod() would take hexadecimal digits, and words for what is no number. */
    if (strspn(word, "0123456789.eE+-") != length)
        return false;
    number = strtod_l(word, &end, locale);
    if (end != word + length || !isfinite(number) || number < 0)
        return false;
    number += 0.0; /* -0 + 0 is 0 */
    memcpy(value, &number, sizeof number);
    return true;
}

static bool parse_length(const char *word, size_t length, locale_t locale, void *value)
{
    uint64_t number = 0;

    (void)locale;
    for (size_t i = 0; i < length; i++) {
        unsigned digit = (unsigned)(unsigned char)word[i] - '0';
        if (digit > 9 || number > ((uint64_t)INT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    memcpy(value, &number, sizeof number);
    return true;
}

static const struct kind weight_kind = {
    "a weight is a finite decimal number of at least 0, such as 2, 0.25 or 1e-3; one stands on "
    "each line, and nothing else",
    parse_weight,
};
static const struct kind length_kind = {
    "a length is a decimal integer from 0 to 9223372036854775807; one stands on each line, and "
    "nothing else",
    parse_length,
};

static int open_text(struct text *text, const char *path)
{
    struct stat status;
    int fault = 0;

    *text = (struct text){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)};
    if (text->fd < 0 || fstat(text->fd, &status))
        fault = -errno;
    else if (!(text->piece = malloc(PIECE + 1)))
        fault = -ENOMEM;
    else
        text->regular = S_ISREG(status.st_mode);
    if (fault)
        report_error("%s: %s", path, strerror(-fault));
    return fault;
}

static void close_text(struct text *text)
{
    if (text->fd >= 0)
        close(text->fd);
    free(text->piece);
}

/* Adds to what is in the piece. False: a fault. */
static bool read_more(struct text *text)
{
    ssize_t got;

    memmove(text->piece, text->piece + text->from, text->to - text->from);
    text->to -= text->from;
    text->from = 0;
    do
        got = read(text->fd, text->piece + text->to, PIECE - text->to);
    while (got < 0 && errno == EINTR);
    if (got < 0) {
        text->fault = -errno;
        report_error("%s: %s", text->path, strerror(-text->fault));
        return false;
    }
    text->to += (size_t)got;
    text->ended = got == 0;
    return true;
}

/* Takes the next line: `length` bytes, without what ends it, and one more that may be written to.
 * False: there is none, or a fault. */
static bool next_line(struct text *text, char **line, size_t *length)
{
    for (;;) {
        size_t left = text->to - text->from;
        char *from = text->piece + text->from;
        char *end = memchr(from, '\n', left);
        if (end || text->ended || left > LINE_MOST) {
            *line = from;
            *length = end ? (size_t)(end - from) : left;
            if (left == 0)
                return false;
            text->line++;
            text->from += *length + (end != NULL);
            if (*length <= LINE_MOST)
                return true;
            report_error("%s:%llu: longer than %d bytes, where one number stands on each line",
                         text->path, (unsigned long long)text->line, LINE_MOST);
            text->fault = -EINVAL;
            return false;
        }
        if (!read_more(text))
            return false;
    }
}

/* The next line with anything on it, without what is around that. False: none is left, or a fault.
 * Empty lines before it are kept in mind. */
static bool next_word(struct text *text, char **word, size_t *length)
{
    text->first_gap = 0;
    while (next_line(text, word, length)) {
        char *from = *word, *to = *word + *length;
        if (to > from && to[-1] == '\r')
            to--;
        while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
            to--;
        while (from < to && (*from == ' ' || *from == '\t'))
            from++;
        if (from < to) {
            *to = '\0';
            *word = from;
            *length = (size_t)(to - from);
            return true;
        }
        if (!text->first_gap)
            text->first_gap = text->line;
    }
    return false;
}

/* Returns -EINVAL. */
static int complain(const struct text *text, uint64_t line, const char *word, size_t length,
                    const struct kind *kind)
{
    size_t shown = length < SHOWN_MOST ? length : SHOWN_MOST;
    char value[SHOWN_MOST + 1];

    memcpy(value, word, shown);
    value[shown] = '\0';
    for (char *nul = value; (nul = memchr(nul, '\0', shown - (size_t)(nul - value)));)
        *nul = '?';
    report_error("%s:%llu: %s%s: %s", text->path, (unsigned long long)line,
                 length ? value : "an empty line", shown < length ? "..." : "", kind->allowed);
    return -EINVAL;
}

/* Returns -EINVAL. */
static int complain_of_lines(const struct text *text, const char *more, uint64_t lines,
                             uint64_t samples)
{
    report_error("%s: %s%llu line%s for %llu sample%s", text->path, more, (unsigned long long)lines,
                 lines == 1 ? "" : "s", (unsigned long long)samples, samples == 1 ? "" : "s");
    return -EINVAL;
}

/* There are more lines than samples: how many, where that can be known. Returns a negative errno,
 * reported. */
static int count_rest(struct text *text, uint64_t samples)
{
    uint64_t lines = samples + 1;
    size_t length;
    char *word;

    if (!text->regular)
        return complain_of_lines(text, "more than ", samples, samples);
    while (next_word(text, &word, &length))
        lines++;
    return text->fault ? text->fault : complain_of_lines(text, "", lines, samples);
}

static int read_values(struct text *text, uint64_t count, const struct kind *kind, char *values)
{
    locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    uint64_t taken = 0;
    size_t length;
    char *word;
    int fault = 0;

    if (!locale) {
        report_error("%s: no memory for the C locale", text->path);
        return -ENOMEM;
    }
    while (!fault && next_word(text, &word, &length)) {
        if (taken == count)
            fault = count_rest(text, count);
        else if (text->first_gap)
            fault = complain(text, text->first_gap, "", 0, kind);
        else if (!kind->parse(word, length, locale, values + taken * sizeof(uint64_t)))
            fault = complain(text, text->line, word, length, kind);
        else
            taken++;
    }
    freelocale(locale);
    if (fault || text->fault)
        return fault ? fault : text->fault;
    return taken == count ? 0 : complain_of_lines(text, "", taken, count);
}

int numbers_hash(const void *values, uint64_t count, uint64_t *hash)
{
    XXH3_state_t *state = XXH3_createState();

    if (!state)
        return -ENOMEM;
    XXH3_64bits_reset(state);
    for (uint64_t at = 0; at < count;) {
        uint64_t some[512];
        size_t n = 0;
        for (; n < sizeof some / sizeof *some && at < count; n++, at++) {
            memcpy(&some[n], (const char *)values + at * sizeof *some, sizeof *some);
            some[n] = htole64(some[n]);
        }
        XXH3_64bits_update(state, some, n * sizeof *some);
    }
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return 0;
}

static int hash_read(const char *path, const void *values, uint64_t count, uint64_t *hash)
{
    int fault = numbers_hash(values, count, hash);

    if (fault)
        report_error("%s: %s", path, strerror(-fault));
    return fault;
}

/* Values of 8 bytes each. */
static int read_file(const char *path, uint64_t count, const struct kind *kind, void **values)
{
    struct text text;
    int fault = open_text(&text, path);

    *values = NULL;
    if (!fault) {
        /* Never of no bytes, which may give NULL. */
        *values = count < SIZE_MAX ? calloc(count + 1, sizeof(uint64_t)) : NULL;
        if (*values) {
            fault = read_values(&text, count, kind, *values);
        } else {
            fault = -ENOMEM;
            report_error("%s: no memory for %llu numbers", path, (unsigned long long)count);
        }
    }
    close_text(&text);
    return fault;
}

static int check_sum(const char *path, const double *weights, uint64_t count)
{
    double sum = 0;

    for (uint64_t i = 0; i < count; i++)
        sum += weights[i];
    if (sum > 0 && isfinite(sum))
        return 0;
    report_error("%s: %s", path,
                 sum > 0 ? "the weights add up to more than a double holds (1.8e308)"
                         : "every weight is 0, so that no sample can be drawn");
    return -EINVAL;
}

/* `check` may be NULL. 0 and *`values`, allocated, or a negative errno, reported. */
static int read_checked(const char *path, uint64_t count, const struct kind *kind,
                        int (*check)(const char *path, const double *weights, uint64_t count),
                        uint64_t *hash, void **values)
{
    void *read = NULL;
    int fault = read_file(path, count, kind, &read);

    if (!fault && check)
        fault = check(path, read, count);
    if (!fault && hash)
        fault = hash_read(path, read, count, hash);
    if (fault)
        free(read);
    else
        *values = read;
    return fault;
}

int numbers_read_weights(const char *path, uint64_t count, double **values, uint64_t *hash)
{
    void *read;
    int fault = read_checked(path, count, &weight_kind, check_sum, hash, &read);

    if (!fault)
        *values = read;
    return fault;
}

int numbers_read_lengths(const char *path, uint64_t count, uint64_t **values, uint64_t *hash)
{
    void *read;
    int fault = read_checked(path, count, &length_kind, NULL, hash, &read);

    if (!fault)
        *values = read;
    return fault;
}
