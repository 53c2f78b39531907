/* Files of numbers, one a line, of which the n-th is sample n's: weights (`weights=FILE`) and
 * lengths (`lengths=FILE`).
 *
 * The text: lines that end with a newline, or a carriage return and a newline; the last one may
 * lack it. Blanks and tabs may stand around a number. Empty lines may stand at the end alone. There
 * are no comments, and no line has a second number. A line holds at most 4,096 bytes. What a number
 * looks like does not depend on the locale.
 *
 * The file is read once, from start to end and in pieces, so it may be a pipe (one that nobody
 * writes to is waited for), and memory is that of the values alone: 8 bytes each.
 *
 * Both that read: `path` is opened as it stands, and named so in messages. `count` is the number of
 * samples, and of lines that there must be. On success *values is allocated and the caller's to
 * free(), and *hash (NULL: not wanted) is XXH3 over the values, not the text, each in 8 bytes,
 * little-endian: equal on any machine. Returns 0, or a negative errno, reported once: of a file
 * that cannot be read; -EINVAL, naming line, value and what is allowed; -EINVAL, when there are
 * more or fewer lines than samples; -ENOMEM. On a fault neither *values nor *hash is set. Any
 * thread. */
#ifndef SHUFFLEFS_NUMBERS_H
#define SHUFFLEFS_NUMBERS_H

#include <stdint.h>

/* Decimal numbers, with or without a fraction or an exponent, rounded as strtod() rounds (so one
 * below 4.9e-324 is 0): finite, at least 0, their sum finite and more than 0. -0 becomes 0. */
int numbers_read_weights(const char *path, uint64_t count, double **values, uint64_t *hash);

/* Decimal integers from 0 to 2^63 - 1, without a sign. */
int numbers_read_lengths(const char *path, uint64_t count, uint64_t **values, uint64_t *hash);

/* The same hash over `count` values of 8 bytes that come from elsewhere. 0, or -ENOMEM, not
 * reported. */
int numbers_hash(const void *values, uint64_t count, uint64_t *hash);

#endif
