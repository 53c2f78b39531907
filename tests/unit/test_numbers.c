/* Files of numbers: what is taken, what is refused and in which words, from files and pipes. */
#include "unit.h"

#include "shard.h"

#include "../../core/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct shard_folder folder;
static char path[128];
static double *weights;
static uint64_t *lengths, hash;

static void begin(void)
{
    report_watch(NULL);
    folder_make(&folder);
    snprintf(path, sizeof path, "%s/n.txt", folder.path);
}

static void forget(void)
{
    free(weights);
    free(lengths);
    weights = NULL;
    lengths = NULL;
    hash = 0;
}

static void end(void)
{
    forget();
    folder_remove(&folder);
    report_stop();
}

static void write_text(const char *text, size_t size)
{
    FILE *file = fopen(path, "w");

    cr_assert(file && fwrite(text, 1, size, file) == size && fclose(file) == 0);
}

static int read_weights(const char *text, uint64_t count)
{
    forget();
    write_text(text, strlen(text));
    report_watch(NULL);
    return numbers_read_weights(path, count, &weights, &hash);
}

static int read_lengths(const char *text, uint64_t count)
{
    forget();
    write_text(text, strlen(text));
    report_watch(NULL);
    return numbers_read_lengths(path, count, &lengths, &hash);
}

/* The message that ends with this, after the file's name. */
static void expect_said(const char *text, const char *said)
{
    char whole[1024];

    snprintf(whole, sizeof whole, "%s%s", path, said);
    cr_assert(report_watch(whole), "%s: not `%s` but `%s`", text, whole, report_watch(""));
}

Test(numbers, weights_are_what_strtod_makes_of_them)
{
    static const char *const words[] = {"0",
                                        "1",
                                        "0.1",
                                        ".5",
                                        "5.",
                                        "+2",
                                        "1e-3",
                                        "1E+3",
                                        "007",
                                        "3.141592653589793238462643383279502884197",
                                        "2.2250738585072011e-308",
                                        "4.9e-324",
                                        "1e-400",
                                        "1.7976931348623157e307",
                                        "9007199254740993",
                                        "-0",
                                        "-0.0"};
    enum { COUNT = sizeof words / sizeof *words };
    char text[1024] = "";

    begin();
    for (size_t i = 0; i < COUNT; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", words[i]);
    cr_assert_eq(read_weights(text, COUNT), 0);
    for (size_t i = 0; i < COUNT; i++)
        cr_assert(weights[i] == strtod(words[i], NULL) && !signbit(weights[i]), "%s", words[i]);
    end();
}

Test(numbers, blanks_line_ends_of_dos_and_empty_last_lines_are_taken)
{
    static const char *const texts[] = {
        "1\n2.5\n3",       "1\n2.5\n3\n",   "1\r\n2.5\r\n3\r\n",     "1\r\n2.5\r\n3\r",
        " 1\n\t2.5 \t\n3", "1\n2.5\n3\n\n", "1\n2.5\n3\n \r\n\t\n ", " 1 \r\n2.5\t\r\n3"};
    uint64_t first = 0;

    begin();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cr_assert_eq(read_weights(texts[i], 3), 0, "%zu", i);
        cr_assert(weights[0] == 1 && weights[1] == 2.5 && weights[2] == 3);
        /* The hash is the values', not the text's. */
        first = i ? first : hash;
        cr_assert_eq(hash, first);
    }
    cr_assert_eq(read_weights("1\n2.5\n3.0000000000000004", 3), 0);
    cr_assert(hash != first);
    cr_assert_eq(read_lengths("  0\n9223372036854775807 \r\n00012\n", 3), 0);
    cr_assert(lengths[0] == 0 && lengths[1] == INT64_MAX && lengths[2] == 12);
    end();
}

Test(numbers, whatever_is_no_weight_is_refused_by_line_and_value)
{
    static const char *const words[] = {"abc",
                                        "nan",
                                        "inf",
                                        "INFINITY",
                                        "0x10",
                                        "0x1p3",
                                        "-1",
                                        "-1e-300",
                                        "1e",
                                        "e5",
                                        ".",
                                        "+",
                                        "--1",
                                        "1 2",
                                        "1\t2",
                                        "1,5",
                                        "1# x",
                                        "# x",
                                        "1;",
                                        "1e999",
                                        "1_0",
                                        "\xef\xbb\xbf"
                                        "1",
                                        "1\r2",
                                        "1.2.3",
                                        "\"1\"",
                                        "1f",
                                        "\v1",
                                        "1e+-2"};
    char text[64], said[128];

    begin();
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        snprintf(text, sizeof text, "1\n\t%s \n3\n", words[i]);
        cr_assert_eq(read_weights(text, 3), -EINVAL, "%s", words[i]);
        cr_assert(!weights && hash == 0);
        snprintf(said, sizeof said, ":2: %s: a weight is a finite decimal number of at least 0",
                 words[i]);
        for (char *c = said; *c; c++)
            *c = (unsigned char)*c < ' ' ? '?' : *c;
        expect_said(text, said);
    }
    end();
}

Test(numbers, whatever_is_no_length_is_refused_by_line_and_value)
{
    static const char *const words[] = {
        "abc", "-1", "+1", "1.0", "1e3", "0x10", "9223372036854775808", "18446744073709551617",
        "1 2", "-0", "# x"};
    char text[64], said[128];

    begin();
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        snprintf(text, sizeof text, "%s\n3\n", words[i]);
        cr_assert_eq(read_lengths(text, 2), -EINVAL, "%s", words[i]);
        cr_assert(!lengths && hash == 0);
        snprintf(said, sizeof said,
                 ":1: %s: a length is a decimal integer from 0 to 9223372036854775807", words[i]);
        expect_said(text, said);
    }
    end();
}

Test(numbers, an_empty_line_between_numbers_is_refused)
{
    begin();
    cr_assert_eq(read_weights("1\n\n \n2\n", 2), -EINVAL);
    expect_said("gap", ":2: an empty line: a weight is");
    cr_assert_eq(read_lengths("\n1\n2\n", 2), -EINVAL);
    expect_said("gap", ":1: an empty line: a length is");
    end();
}

Test(numbers, a_nul_in_a_number_does_not_end_it)
{
    begin();
    write_text("1\0x\n", 4);
    cr_assert_eq(numbers_read_weights(path, 1, &weights, NULL), -EINVAL);
    expect_said("NUL", ":1: 1?x: a weight is");
    cr_assert_eq(numbers_read_lengths(path, 1, &lengths, NULL), -EINVAL);
    expect_said("NUL", ":1: 1?x: a length is");
    end();
}

Test(numbers, too_few_and_too_many_lines_are_counted)
{
    begin();
    cr_assert_eq(read_weights("1\n2\n3\n", 12), -EINVAL);
    expect_said("few", ": 3 lines for 12 samples");
    cr_assert_eq(read_weights("1\n2\n3\n4\n", 1), -EINVAL);
    expect_said("many", ": 4 lines for 1 sample");
    cr_assert_eq(read_lengths("1\n", 2), -EINVAL);
    expect_said("few", ": 1 line for 2 samples");
    cr_assert_eq(read_lengths("", 2), -EINVAL);
    expect_said("none", ": 0 lines for 2 samples");
    cr_assert_eq(read_lengths("\n\n", 2), -EINVAL);
    expect_said("none", ": 0 lines for 2 samples");
    end();
}

Test(numbers, weights_that_cannot_be_drawn_by_are_refused)
{
    begin();
    cr_assert_eq(read_weights("0\n0.0\n-0\n", 3), -EINVAL);
    expect_said("zeros", ": every weight is 0");
    cr_assert_eq(read_weights("1e308\n1e308\n", 2), -EINVAL);
    expect_said("sum", ": the weights add up to more than a double holds");
    cr_assert_eq(read_lengths("0\n0\n", 2), 0);
    end();
}

Test(numbers, a_line_without_end_is_refused_before_it_fills_memory)
{
    begin();
    cr_assert_eq(numbers_read_weights("/dev/zero", 3, &weights, NULL), -EINVAL);
    cr_assert(report_watch("/dev/zero:1: longer than 4096 bytes"));
    end();
}

Test(numbers, lines_up_to_4096_bytes_are_taken)
{
    char text[5002];

    begin();
    memset(text, ' ', sizeof text);
    memcpy(text, "7", 1);
    memcpy(text + 4096, "\n8\n", 4);
    cr_assert_eq(read_lengths(text, 2), 0);
    cr_assert(lengths[0] == 7 && lengths[1] == 8);
    memcpy(text + 4096, " \n8\n", 5);
    cr_assert_eq(read_lengths(text, 2), -EINVAL);
    expect_said("long", ":1: longer than 4096 bytes");
    end();
}

Test(numbers, a_long_value_is_shown_cut)
{
    char text[300];

    begin();
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    cr_assert_eq(read_weights(text, 1), -EINVAL);
    expect_said("long", ":1: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...: a weight is");
    end();
}

Test(numbers, what_cannot_be_read_is_told_by_name)
{
    begin();
    cr_assert_eq(numbers_read_weights(path, 3, &weights, NULL), -ENOENT);
    expect_said("none", ": No such file or directory");
    cr_assert_eq(numbers_read_lengths(folder.path, 3, &lengths, NULL), -EISDIR);
    cr_assert(report_watch(": Is a directory"));
    cr_assert_eq(read_weights("1\n", UINT64_MAX), -ENOMEM);
    expect_said("many", ": no memory for 18446744073709551615 numbers");
    end();
}

/* In pieces of seven bytes: lines never end where a read does. */
static void *feed(void *context)
{
    FILE *to = fdopen(*(int *)context, "w");
    char text[8];
    size_t used = 0;

    if (!to)
        return NULL;
    setvbuf(to, NULL, _IONBF, 0);
    for (int i = 0; i < 3000; i++) {
        char word[16];
        int size = snprintf(word, sizeof word, "%d\n", i * i);
        for (int c = 0; c < size; c++) {
            text[used++] = word[c];
            if (used == 7) {
                fwrite(text, 1, used, to);
                used = 0;
            }
        }
    }
    fwrite(text, 1, used, to);
    fclose(to);
    return NULL;
}

Test(numbers, a_pipe_is_read_as_a_file_is)
{
    int ends[2], fault;
    pthread_t writer;

    begin();
    cr_assert_eq(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    cr_assert_eq(pthread_create(&writer, NULL, feed, &ends[1]), 0);
    fault = numbers_read_lengths(path, 3000, &lengths, &hash);
    pthread_join(writer, NULL);
    close(ends[0]);
    cr_assert_eq(fault, 0);
    for (uint64_t i = 0; i < 3000; i++)
        cr_assert_eq(lengths[i], i * i);
    end();
}

Test(numbers, an_endless_pipe_of_numbers_is_refused_at_the_first_too_many)
{
    int ends[2], fault;
    static const char text[] = "1\n2\n3\n4\n5\n";

    begin();
    cr_assert_eq(pipe(ends), 0);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    cr_assert_eq(write(ends[1], text, sizeof text - 1), (ssize_t)sizeof text - 1);
    /* The writing end stays open: reading on would wait for ever. */
    fault = numbers_read_lengths(path, 4, &lengths, NULL);
    close(ends[0]);
    close(ends[1]);
    cr_assert_eq(fault, -EINVAL);
    expect_said("endless", ": more than 4 lines for 4 samples");
    end();
}

static void write_many(uint64_t count, bool integers)
{
    FILE *file = fopen(path, "w");

    cr_assert(file);
    for (uint64_t i = 0; i < count; i++) {
        if (integers)
            fprintf(file, "%" PRIu64 "\n", i * 7919 % 1000003);
        else
            fprintf(file, "%.17g\n", (double)(i % 1000) / 999.0);
    }
    cr_assert_eq(fclose(file), 0);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

Test(numbers, none_is_lost_where_pieces_of_the_text_meet)
{
    enum { COUNT = 200000 };

    begin();
    write_many(COUNT, false);
    cr_assert_eq(numbers_read_weights(path, COUNT, &weights, &hash), 0);
    for (uint64_t i = 0; i < COUNT; i++)
        cr_assert(weights[i] == (double)(i % 1000) / 999.0);
    write_many(COUNT, true);
    cr_assert_eq(numbers_read_lengths(path, COUNT, &lengths, &hash), 0);
    for (uint64_t i = 0; i < COUNT; i++)
        cr_assert_eq(lengths[i], i * 7919 % 1000003);
    end();
}

Test(numbers, imagenets_number_of_lines_takes_seconds_at_most)
{
    enum { COUNT = 1281167 };
    double since;

    if (getenv("UNIT_SKIP_LARGE"))
        cr_skip_test("UNIT_SKIP_LARGE is set");
    begin();
    write_many(COUNT, false);
    since = now();
    cr_assert_eq(numbers_read_weights(path, COUNT, &weights, &hash), 0);
    /* 0.2 s where nothing else runs. */
    cr_assert(now() - since < 5, "%.3f s", now() - since);
    end();
}

/* Known from XXH3 over the 8 bytes of each, little-endian: the fingerprint is the same on every
 * machine and in every release. */
Test(numbers, hashes_never_change)
{
    begin();
    cr_assert_eq(read_weights("0\n0.5\n1e10\n", 3), 0);
    cr_assert_eq(hash, UINT64_C(0xa0fb6508cea32ffc), "%" PRIx64, hash);
    cr_assert_eq(read_lengths("0\n1\n9223372036854775807\n", 3), 0);
    cr_assert_eq(hash, UINT64_C(0x7c867840575702ea), "%" PRIx64, hash);
    end();
}

/* A locale made by the test, in which numbers have a decimal comma. */
Test(numbers, a_locales_decimal_comma_changes_nothing)
{
    static const char source[] = "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\n"
                                 "grouping 3;3\nEND LC_NUMERIC\n";
    char command[512];
    bool there, comma;
    int fault;

    begin();
    write_text(source, sizeof source - 1);
    snprintf(command, sizeof command, "cd %s && localedef -c -i ./n.txt ./xx_XX >log 2>&1",
             folder.path);
    there = system(command) >= 0; /* it ends with 1 for what it warns of */
    setenv("LOCPATH", folder.path, 1);
    there = there && setlocale(LC_NUMERIC, "xx_XX");
    comma = there && strtod("1,5", NULL) == 1.5;
    fault = read_weights("1.5\n2\n", 2);
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    if (!comma) {
        end();
        cr_skip_test("needs localedef");
    }
    cr_assert_eq(fault, 0);
    cr_assert(weights[0] == 1.5);
    end();
}
