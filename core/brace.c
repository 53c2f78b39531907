/* Brace patterns (see brace.h): a small tree of what the pattern says, and the arithmetic that
 * finds the n-th name in it. It owns the tree and never the pattern's text, knows nothing of files,
 * and reports nothing: the caller knows where the pattern came from.
 *
 * Source: braceexpand 0.1.7 (parse_pattern, make_int_range, make_char_range), but for braces that
 * do not balance: all are refused here, `}{` too. */
#include "brace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Parsing and writing recurse once a level: the pattern must not choose how deep. */
#define DEPTH_MAX 64
/* Ends and steps of a range stay below this, so that no difference of two overflows. */
#define NUMBER_MAX ((int64_t)1000000000000000000)

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

enum piece_kind { PIECE_TEXT, PIECE_NUMBERS, PIECE_LETTERS, PIECE_CHOICE };

struct sequence {
    struct piece *pieces;
    size_t piece_count;
    uint64_t count;  /* names it stands for */
    uint64_t before; /* names of the choice's branches that come before this one */
    size_t longest;
};

struct piece {
    enum piece_kind kind;
    uint64_t count;
    size_t longest;
    union {
        struct {
            const char *start;
            size_t length;
        } text;
        struct {
            int64_t first, step;
            int width;
        } range; /* of letters: places in `letters` */
        struct {
            struct sequence *branches;
            size_t branch_count; /* 1: no choice, and the braces stand for themselves */
        } choice;
    };
};

struct brace {
    struct sequence whole;
};

static int parse_sequence(struct sequence *sequence, const char *start, const char *end,
                          const char *pattern, struct brace_fault *fault);

static uint64_t add_counts(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t multiply_counts(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* The character after `at`, or after the one that a backslash at `at` takes along. */
static const char *skip(const char *at, const char *end)
{
    return *at == '\\' && at + 1 < end ? at + 2 : at + 1;
}

static int refuse(struct brace_fault *fault, const char *pattern, const char *at,
                  const char *complaint)
{
    fault->column = (size_t)(at - pattern) + 1;
    fault->complaint = complaint;
    return -EINVAL;
}

static int check_balance(const char *pattern, const char *end, struct brace_fault *fault)
{
    const char *open[DEPTH_MAX];
    size_t depth = 0;

    for (const char *at = pattern; at < end; at = skip(at, end)) {
        if (*at == '{') {
            if (depth == DEPTH_MAX)
                return refuse(fault, pattern, at, "braces are nested more than 64 deep");
            open[depth++] = at;
        } else if (*at == '}') {
            if (depth == 0)
                return refuse(fault, pattern, at, "this } closes no {");
            depth--;
        }
    }
    return depth == 0 ? 0 : refuse(fault, pattern, open[depth - 1], "this { is never closed");
}

/* The } that closes the { at `at`. */
static const char *find_close(const char *at, const char *end)
{
    size_t depth = 0;

    for (; at < end; at = skip(at, end)) {
        if (*at == '{')
            depth++;
        else if (*at == '}' && --depth == 0)
            break;
    }
    return at;
}

/* The next comma outside inner braces, or `end`. */
static const char *find_comma(const char *at, const char *end)
{
    for (; at < end && *at != ','; at = skip(at, end)) {
        if (*at == '{')
            at = find_close(at, end);
    }
    return at < end ? at : end;
}

struct number {
    int64_t value; /* NUMBER_MAX stands for more */
    size_t length;
    bool padded;
};

/* Reads `-?[0-9]+` at *at and moves *at behind it. */
static bool read_number(const char **at, const char *end, struct number *number)
{
    const char *digit = *at;
    bool negative = digit < end && *digit == '-';
    int64_t value = 0;

    digit += negative;
    const char *digits = digit;
    for (; digit < end && *digit >= '0' && *digit <= '9'; digit++) {
        value = value > NUMBER_MAX / 10 ? NUMBER_MAX : value * 10 + (*digit - '0');
        if (value > NUMBER_MAX)
            value = NUMBER_MAX;
    }
    if (digit == digits)
        return false;
    number->value = negative ? -value : value;
    number->length = (size_t)(digit - *at);
    number->padded = *digits == '0' && digit - digits > 1;
    *at = digit;
    return true;
}

static bool read_dots(const char **at, const char *end)
{
    if (end - *at < 2 || (*at)[0] != '.' || (*at)[1] != '.')
        return false;
    *at += 2;
    return true;
}

/* Reads what may follow the two ends of a range: `..STEP`, of which the sign is dropped and 0 is 1.
 */
static bool read_step(const char *at, const char *end, int64_t *step)
{
    struct number number = {.value = 1};

    if (at < end && !(read_dots(&at, end) && read_number(&at, end, &number)))
        return false;
    *step = number.value < 0 ? -number.value : number.value > 0 ? number.value : 1;
    return at == end;
}

static void set_range(struct piece *piece, int64_t first, int64_t last, int64_t step)
{
    int64_t distance = first < last ? last - first : first - last;

    piece->count = (uint64_t)(distance / step) + 1;
    piece->range.first = first;
    piece->range.step = first < last ? step : -step;
}

/* Fills `piece` when start..end is `3..17`, `001..100..3` and the like. Returns 1 when it is, else
 * 0 or -EINVAL. */
static int parse_numbers(struct piece *piece, const char *start, const char *end,
                         const char *pattern, struct brace_fault *fault)
{
    struct number first, last;
    const char *at = start;
    int64_t step;

    if (!read_number(&at, end, &first) || !read_dots(&at, end) || !read_number(&at, end, &last) ||
        !read_step(at, end, &step))
        return 0;
    if (llabs(first.value) == NUMBER_MAX || llabs(last.value) == NUMBER_MAX)
        return refuse(fault, pattern, start, "this range has a number of more than 18 digits");
    size_t width = first.length > last.length ? first.length : last.length;
    piece->kind = PIECE_NUMBERS;
    piece->longest = width;
    set_range(piece, first.value, last.value, step);
    piece->range.width = first.padded || last.padded ? (int)width : 0;
    return 1;
}

static bool parse_letters(struct piece *piece, const char *start, const char *end)
{
    int64_t step;

    if (end - start < 4 || start[1] != '.' || start[2] != '.' || !read_step(start + 4, end, &step))
        return false;
    const char *first = strchr(letters, start[0]);
    const char *last = strchr(letters, start[3]);
    if (first == NULL || last == NULL)
        return false;
    piece->kind = PIECE_LETTERS;
    piece->longest = 1;
    set_range(piece, first - letters, last - letters, step);
    return true;
}

/* Parses what stands between two braces. */
static int parse_group(struct piece *piece, const char *start, const char *end, const char *pattern,
                       struct brace_fault *fault)
{
    int numbers = parse_numbers(piece, start, end, pattern, fault);
    if (numbers != 0)
        return numbers < 0 ? numbers : 0;
    if (parse_letters(piece, start, end))
        return 0;

    size_t branch_count = 1;
    for (const char *comma = find_comma(start, end); comma < end;
         comma = find_comma(comma + 1, end))
        branch_count++;
    piece->kind = PIECE_CHOICE;
    piece->choice.branches = calloc(branch_count, sizeof *piece->choice.branches);
    if (piece->choice.branches == NULL)
        return -ENOMEM;
    piece->choice.branch_count = branch_count;
    piece->longest = 0;
    piece->count = 0;
    for (size_t i = 0; i < branch_count; i++) {
        struct sequence *branch = &piece->choice.branches[i];
        const char *comma = find_comma(start, end);
        int error = parse_sequence(branch, start, comma, pattern, fault);
        if (error < 0)
            return error;
        branch->before = piece->count;
        piece->count = add_counts(piece->count, branch->count);
        if (branch->longest > piece->longest)
            piece->longest = branch->longest;
        start = comma + 1;
    }
    if (branch_count == 1)
        piece->longest += 2;
    return 0;
}

static void set_text(struct piece *piece, const char *start, const char *end)
{
    piece->kind = PIECE_TEXT;
    piece->count = 1;
    piece->longest = (size_t)(end - start);
    piece->text.start = start;
    piece->text.length = (size_t)(end - start);
}

/* What is filled so far is freed by brace_close(), on an error too. */
static int parse_sequence(struct sequence *sequence, const char *start, const char *end,
                          const char *pattern, struct brace_fault *fault)
{
    size_t most = 1; /* a text before each group, and one behind the last */
    for (const char *at = start; at < end; at = skip(at, end)) {
        if (*at == '{') {
            most += 2;
            at = find_close(at, end);
        }
    }
    sequence->pieces = calloc(most, sizeof *sequence->pieces);
    if (sequence->pieces == NULL)
        return -ENOMEM;
    sequence->count = 1;

    const char *text = start;
    for (const char *at = start; at < end; at = skip(at, end)) {
        if (*at != '{')
            continue;
        if (text < at)
            set_text(&sequence->pieces[sequence->piece_count++], text, at);
        const char *close = find_close(at, end);
        struct piece *group = &sequence->pieces[sequence->piece_count++];
        int error = parse_group(group, at + 1, close, pattern, fault);
        if (error < 0)
            return error;
        at = close;
        text = close + 1;
    }
    if (text < end)
        set_text(&sequence->pieces[sequence->piece_count++], text, end);
    for (size_t i = 0; i < sequence->piece_count; i++) {
        sequence->count = multiply_counts(sequence->count, sequence->pieces[i].count);
        sequence->longest += sequence->pieces[i].longest;
    }
    return 0;
}

static void free_sequence(struct sequence *sequence)
{
    for (size_t i = 0; i < sequence->piece_count; i++) {
        struct piece *piece = &sequence->pieces[i];
        if (piece->kind != PIECE_CHOICE)
            continue;
        for (size_t branch = 0; branch < piece->choice.branch_count; branch++)
            free_sequence(&piece->choice.branches[branch]);
        free(piece->choice.branches);
    }
    free(sequence->pieces);
}

int brace_open(struct brace **out, const char *pattern, struct brace_fault *fault)
{
    const char *end = pattern + strlen(pattern);
    int error = check_balance(pattern, end, fault);
    if (error < 0)
        return error;
    struct brace *brace = calloc(1, sizeof *brace);
    if (brace == NULL)
        return -ENOMEM;
    error = parse_sequence(&brace->whole, pattern, end, pattern, fault);
    if (error < 0) {
        brace_close(brace);
        return error;
    }
    *out = brace;
    return 0;
}

void brace_close(struct brace *brace)
{
    if (brace == NULL)
        return;
    free_sequence(&brace->whole);
    free(brace);
}

uint64_t brace_count(const struct brace *brace)
{
    return brace->whole.count;
}

size_t brace_longest(const struct brace *brace)
{
    return brace->whole.longest;
}

static char *write_sequence(const struct sequence *sequence, uint64_t which, char *out);

static char *write_choice(const struct piece *piece, uint64_t which, char *out)
{
    const struct sequence *branches = piece->choice.branches;
    size_t low = 0, high = piece->choice.branch_count;

    if (high == 1) {
        *out++ = '{';
        out = write_sequence(branches, which, out);
        *out++ = '}';
        return out;
    }
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (branches[middle].before <= which)
            low = middle;
        else
            high = middle;
    }
    return write_sequence(&branches[low], which - branches[low].before, out);
}

static char *write_piece(const struct piece *piece, uint64_t which, char *out)
{
    switch (piece->kind) {
    case PIECE_TEXT:
        memcpy(out, piece->text.start, piece->text.length);
        return out + piece->text.length;
    case PIECE_NUMBERS: {
        int64_t number = piece->range.first + (int64_t)which * piece->range.step;
        return out + sprintf(out, "%0*" PRId64, piece->range.width, number);
    }
    case PIECE_LETTERS:
        *out = letters[piece->range.first + (int64_t)which * piece->range.step];
        return out + 1;
    case PIECE_CHOICE:
        return write_choice(piece, which, out);
    }
    return out;
}

/* The pieces of a sequence count like the digits of a number: the last one turns fastest. */
static char *write_sequence(const struct sequence *sequence, uint64_t which, char *out)
{
    uint64_t below = sequence->count;

    for (size_t i = 0; i < sequence->piece_count; i++) {
        below /= sequence->pieces[i].count;
        out = write_piece(&sequence->pieces[i], which / below, out);
        which %= below;
    }
    return out;
}

void brace_write(const struct brace *brace, uint64_t which, char *out)
{
    *write_sequence(&brace->whole, which, out) = '\0';
}
