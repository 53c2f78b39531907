/* Runs a fuzzer's entry without libFuzzer, so that any compiler builds it: the seeds first, then
 * seeds changed at random, always the same for the same number of them. It finds less than
 * libFuzzer, which sees what its inputs reach, and is there for what once was found and for what
 * breaks at once.
 *
 *   PROGRAM SECONDS
 *
 * Ends with 0 and a line of counts. The input in work is kept in PROGRAM.input, which is left
 * behind only where the program died of it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUT_MOST = 16384, SEEDS_MOST = 256, CHANGES_MOST = 6 };

static struct {
    uint8_t *bytes;
    size_t size;
} seeds[SEEDS_MOST];
static size_t seed_count;
static uint64_t state = 1;

/* Marsaglia's xorshift64*. */
static uint64_t dice(uint64_t sides)
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (state * 0x2545f4914f6cdd1d >> 16) % sides;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Takes all files of the folder, and the folder away. */
static int take_seeds(const char *folder)
{
    struct dirent **entries;
    int count = scandir(folder, &entries, NULL, by_name);

    for (int i = 0; i < count; i++) {
        char path[PATH_MAX + 260];
        FILE *file;
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        file = entries[i]->d_name[0] == '.' || seed_count == SEEDS_MOST ? NULL : fopen(path, "rb");
        if (file) {
            seeds[seed_count].bytes = malloc(INPUT_MOST);
            if (seeds[seed_count].bytes)
                seeds[seed_count].size = fread(seeds[seed_count].bytes, 1, INPUT_MOST, file);
            seed_count++;
            fclose(file);
            unlink(path);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return rmdir(folder);
}

/* One change of `size` bytes, of which there may be INPUT_MOST. Returns how many they are then. */
static size_t change(uint8_t *bytes, size_t size)
{
    size_t at = dice(size + 1), length = 1 + dice(dice(4) ? 8 : 600);
    size_t other = dice(seed_count), from;

    switch (dice(5)) {
    case 0: /* a bit */
        if (at < size)
            bytes[at] ^= (uint8_t)(1 << dice(8));
        return size;
    case 1: /* a byte, digits more often: sizes are written in them */
        if (at < size)
            bytes[at] = (uint8_t)(dice(2) ? '0' + dice(10) : dice(256));
        return size;
    case 2: /* some bytes less */
        length = length < size - at ? length : size - at;
        memmove(bytes + at, bytes + at + length, size - at - length);
        return size - length;
    case 3: /* some bytes twice */
        length = length < size - at ? length : size - at;
        length = length < INPUT_MOST - size ? length : INPUT_MOST - size;
        memmove(bytes + at + length, bytes + at, size - at);
        return size + length;
    default: /* some of another seed's over these */
        from = dice(seeds[other].size + 1);
        length = length < size - at ? length : size - at;
        if (length > seeds[other].size - from)
            length = seeds[other].size - from;
        memcpy(bytes + at, seeds[other].bytes + from, length);
        return size;
    }
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* `kept` is the file that the input in work is seen in. */
static void run(uint8_t *kept, size_t size)
{
    memcpy(kept + INPUT_MOST, &size, sizeof size);
    LLVMFuzzerTestOneInput(kept, size);
}

static uint64_t run_all(uint8_t *kept, double seconds)
{
    double end = now() + seconds;
    uint64_t runs = 0;

    for (size_t i = 0; i < seed_count; i++, runs++) {
        memcpy(kept, seeds[i].bytes, seeds[i].size);
        run(kept, seeds[i].size);
    }
    for (; now() < end; runs++) {
        size_t seed = dice(seed_count), size = seeds[seed].size;
        memcpy(kept, seeds[seed].bytes, size);
        for (uint64_t changes = 1 + dice(CHANGES_MOST); changes; changes--)
            size = change(kept, size);
        run(kept, size);
    }
    return runs;
}

int main(int count, char **arguments)
{
    char folder[PATH_MAX], path[PATH_MAX];
    uint8_t *kept;
    uint64_t runs;
    int fd;

    if (count != 2 || atof(arguments[1]) <= 0) {
        fprintf(stderr, "usage: %s SECONDS\n", arguments[0]);
        return 2;
    }
    snprintf(path, sizeof path, "%s.input", arguments[0]);
    snprintf(folder, sizeof folder, "%s.XXXXXX", arguments[0]);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || ftruncate(fd, INPUT_MOST + sizeof(size_t)) || !mkdtemp(folder)) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    kept = mmap(NULL, INPUT_MOST + sizeof(size_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    setenv("FUZZ_SEEDS", folder, 1);
    if (kept == MAP_FAILED || LLVMFuzzerInitialize(&count, &arguments) || take_seeds(folder) ||
        !seed_count) {
        fprintf(stderr, "%s: no seeds\n", folder);
        return 1;
    }
    runs = run_all(kept, atof(arguments[1]));
    unlink(path);
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].bytes);
    printf("%llu inputs\n1 passed, 0 failed, 0 skipped\n", (unsigned long long)runs);
    return 0;
}
