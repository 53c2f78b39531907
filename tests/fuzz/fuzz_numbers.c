/* libFuzzer's entry: any bytes as a file of weights, of lengths, for any number of samples. What is
 * refused must be said, in one line that ends nowhere else; what is taken must be in range, and
 * must be the same again once it is written anew. With FUZZ_SEEDS=DIR some good ones are written
 * there.
 */
#include "../../core/numbers.h"
#include "../../core/report.h"
#include "seeds.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte is how many samples there are, the second one's lowest bit which of the two. */
static const char *const seeds[] = {
    "\3w1\n2.5\n3e-1\n",
    "\4v0\n1\n9223372036854775807\n00012\n",
    "\3w 1\r\n\t.5 \r\n5.\r\n\r\n\n",
    "\2v 7 \n8",
    "\2wnan\n0x10\n",
    "\1w+1e-400\n",
    "\3w1 2\n# x\n-0\n",
    "\2v1\n\n2\n3\n",
    "\2w1e308\n1e308\n",
    "\1v                                                                  7\n",
};

static unsigned lines;
static int file = -1;
static char path[64];

static void need(int condition)
{
    if (!condition)
        abort();
}

static void count_line(const char *line, void *context)
{
    (void)context;
    need(!strchr(line, '\n') && strncmp(line, path, strlen(path)) == 0);
    lines++;
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    const char *folder = getenv("FUZZ_SEEDS");

    (void)count;
    (void)arguments;
    report_to_sink(count_line, NULL);
    file = memfd_create("numbers", MFD_CLOEXEC);
    need(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    for (size_t i = 0; folder && i < sizeof seeds / sizeof *seeds; i++)
        seed_write(folder, "numbers", i, seeds[i], strlen(seeds[i]));
    return 0;
}

static void write_file(const void *bytes, size_t size)
{
    need(ftruncate(file, 0) == 0 && pwrite(file, bytes, size, 0) == (ssize_t)size);
}

static void check_weights(uint64_t count)
{
    double *first = NULL, *second = NULL, sum = 0;
    uint64_t hash = 1, again = 2;
    char text[256 * 32];
    size_t used = 0;
    int fault = numbers_read_weights(path, count, &first, &hash);

    need(fault <= 0 && (fault < 0) == (lines == 1) && lines <= 1);
    if (fault) {
        need(!first && hash == 1);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        need(isfinite(first[i]) && !signbit(first[i]));
        sum += first[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%.17g\n", first[i]);
    }
    need(sum > 0 && isfinite(sum));
    write_file(text, used);
    need(numbers_read_weights(path, count, &second, &again) == 0 && hash == again &&
         memcmp(first, second, count * sizeof *first) == 0);
    free(first);
    free(second);
}

static void check_lengths(uint64_t count)
{
    uint64_t *first = NULL, *second = NULL, hash = 1, again = 2;
    char text[256 * 24];
    size_t used = 0;
    int fault = numbers_read_lengths(path, count, &first, &hash);

    need(fault <= 0 && (fault < 0) == (lines == 1) && lines <= 1);
    if (fault) {
        need(!first && hash == 1);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        need(first[i] <= INT64_MAX);
        used += (size_t)snprintf(text + used, sizeof text - used, "%" PRIu64 "\n", first[i]);
    }
    write_file(text, used);
    need(numbers_read_lengths(path, count, &second, &again) == 0 && hash == again &&
         memcmp(first, second, count * sizeof *first) == 0);
    free(first);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    write_file(data + 2, size - 2);
    lines = 0;
    if (data[1] & 1)
        check_weights(data[0]);
    else
        check_lengths(data[0]);
    return 0;
}
