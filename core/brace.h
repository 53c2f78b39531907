/* Brace patterns: `train-{000000..000146}.tar` and its relatives, in the order of Python's
 * braceexpand.
 *
 *   {a,b,}   alternatives, an empty one too; each may hold braces of its own
 *   {1..9}   numbers, either way round, negative too, with a step ({0..9..3}, its sign means
 *            nothing); a leading zero on either end pads all to the longer end's width
 *   {a..f}   letters, A-Z before a-z
 *   {a} {}   anything else in braces stands for itself, braces included
 *   \        takes the next character as it is
 *
 * A pattern is measured before it is expanded, and its names are written one at a time: a mistyped
 * range costs nothing. The names keep their backslashes, for glob(3) has to see them too. One
 * thread at a time. */
#ifndef SHUFFLEFS_BRACE_H
#define SHUFFLEFS_BRACE_H

#include <stddef.h>
#include <stdint.h>

struct brace;

struct brace_fault {
    size_t column; /* of the byte at fault, from 1 */
    const char *complaint;
};

/* Parses `pattern`, which must outlive the result. Returns 0, -ENOMEM, or -EINVAL with `fault`
 * filled: braces that do not balance or are nested too deeply, a number out of range. */
int brace_open(struct brace **out, const char *pattern, struct brace_fault *fault);
void brace_close(struct brace *brace); /* NULL is fine */

/* How many names the pattern stands for, at least 1; UINT64_MAX when there are more than that. */
uint64_t brace_count(const struct brace *brace);

/* An upper bound for the bytes of one name, without the NUL. */
size_t brace_longest(const struct brace *brace);

/* Writes name number `which` < brace_count() < UINT64_MAX and a NUL to `out`, which has
 * brace_longest() + 1 bytes. */
void brace_write(const struct brace *brace, uint64_t which, char *out);

#endif
