/* The yardstick: reads every file of a folder on one thread and says how fast that went. A folder
 * of folders is listed one level down. It takes any folder, so a mount and its peers are measured
 * alike.
 *
 * usage: read-all [-s] [-l] [--json] DIR
 *   -s      read in a random order (the same one every time) instead of name order
 *   -l      list only
 *   --json  one JSON object instead of a line of text
 *
 * Each file is opened by its full path, as a loader does, asked for its size, read to that size and
 * closed. A file that gives an error or fewer bytes than its size has failed. Exit status: 0, 1
 * when a file failed or there is none, 2 when the arguments or the folder are no good. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES (1 << 20)

/* Paths, one after the other with a NUL between: growing one block costs a listing of a million
 * names less than a million allocations would. */
struct listing {
    char *text;
    size_t used, room;
    uint64_t count;
};

struct totals {
    uint64_t files, bytes, failed;
};

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *need(void *memory)
{
    if (!memory) {
        fputs("read-all: out of memory\n", stderr);
        exit(2);
    }
    return memory;
}

static void listing_add(struct listing *listing, const char *folder, const char *name)
{
    size_t folder_length = strlen(folder), name_length = strlen(name);
    size_t length = folder_length + name_length + 2;

    if (listing->used + length > listing->room) {
        listing->room = 2 * listing->room + length + (1 << 20);
        listing->text = need(realloc(listing->text, listing->room));
    }
    char *end = listing->text + listing->used;
    memcpy(end, folder, folder_length);
    end[folder_length] = '/';
    memcpy(end + folder_length + 1, name, name_length + 1);
    listing->used += length;
    listing->count++;
}

/* Files go to `files`, folders to `folders` (NULL: left out). */
static void list_folder(const char *path, struct listing *files, struct listing *folders)
{
    DIR *folder = opendir(path);
    struct dirent *entry;

    if (!folder) {
        fprintf(stderr, "read-all: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    while (errno = 0, (entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        if (entry->d_type != DT_DIR)
            listing_add(files, path, entry->d_name);
        else if (folders)
            listing_add(folders, path, entry->d_name);
    }
    if (errno) {
        fprintf(stderr, "read-all: listing %s: %s\n", path, strerror(errno));
        exit(2);
    }
    closedir(folder);
}

static void list_all(const char *path, struct listing *files)
{
    struct listing folders = {0};
    const char *folder;

    list_folder(path, files, &folders);
    folder = folders.text;
    for (uint64_t i = 0; i < folders.count; i++, folder += strlen(folder) + 1)
        list_folder(folder, files, NULL);
    free(folders.text);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char **sorted(const struct listing *files)
{
    const char **paths = need(calloc(files->count + 1, sizeof *paths));
    const char *path = files->text;

    for (uint64_t i = 0; i < files->count; i++, path += strlen(path) + 1)
        paths[i] = path;
    if (files->count)
        qsort(paths, files->count, sizeof *paths, by_name);
    return paths;
}

/* Fisher-Yates over splitmix64 with a fixed seed. */
static void shuffle(const char **paths, uint64_t count)
{
    uint64_t state = 1;

    for (uint64_t left = count; left > 1; left--) {
        uint64_t mixed = state += UINT64_C(0x9e3779b97f4a7c15);
        mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
        mixed ^= mixed >> 31;
        const char *last = paths[left - 1];
        paths[left - 1] = paths[mixed % left];
        paths[mixed % left] = last;
    }
}

/* Bytes read, or -1 with errno set; a file that ends early is EIO. */
static int64_t read_file(const char *path, char *buffer)
{
    struct stat status;
    int64_t done = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);

    if (file < 0)
        return -1;
    if (fstat(file, &status) < 0)
        done = -1;
    while (done >= 0 && done < status.st_size) {
        int64_t left = status.st_size - done;
        ssize_t got = read(file, buffer, left < READ_BYTES ? (size_t)left : READ_BYTES);
        if (got > 0) {
            done += got;
        } else {
            errno = got ? errno : EIO;
            done = -1;
        }
    }
    int error = errno;
    close(file);
    errno = error;
    return done;
}

static void read_files(const char **paths, uint64_t count, struct totals *totals)
{
    char *buffer = need(malloc(READ_BYTES));

    for (uint64_t i = 0; i < count; i++) {
        int64_t got = read_file(paths[i], buffer);
        if (got < 0) {
            if (!totals->failed++)
                fprintf(stderr, "read-all: %s: %s\n", paths[i], strerror(errno));
            continue;
        }
        totals->files++;
        totals->bytes += (uint64_t)got;
    }
    free(buffer);
}

static void print_result(bool json, const struct listing *files, const struct totals *totals,
                         double list_s, double read_s)
{
    double files_per_s = read_s > 0 ? (double)totals->files / read_s : 0;
    double bytes_per_s = read_s > 0 ? (double)totals->bytes / read_s : 0;

    if (json)
        printf(
            "{\"names\": %" PRIu64 ", \"files\": %" PRIu64 ", \"bytes\": %" PRIu64
            ", \"failed\": %" PRIu64
            ", \"list_s\": %.6f, \"read_s\": %.6f, \"files_per_s\": %.1f, \"bytes_per_s\": %.0f}\n",
            files->count, totals->files, totals->bytes, totals->failed, list_s, read_s, files_per_s,
            bytes_per_s);
    else
        printf("%" PRIu64 " names listed in %.3f s; %" PRIu64
               " files, %.1f MB read in %.3f s: %.0f files/s, %.0f "
               "MB/s; %" PRIu64 " failed\n",
               files->count, list_s, totals->files, (double)totals->bytes / 1e6, read_s,
               files_per_s, bytes_per_s / 1e6, totals->failed);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'}, {0}};
    bool at_random = false, list_only = false, json = false;
    int option;

    while ((option = getopt_long(argc, argv, "sl", options, NULL)) != -1) {
        switch (option) {
        case 's':
            at_random = true;
            break;
        case 'l':
            list_only = true;
            break;
        case 'j':
            json = true;
            break;
        default:
            return 2;
        }
    }
    if (argc - optind != 1) {
        fputs("usage: read-all [-s] [-l] [--json] DIR\n", stderr);
        return 2;
    }

    struct listing files = {0};
    struct totals totals = {0};
    double start = seconds_now();
    list_all(argv[optind], &files);
    double list_s = seconds_now() - start, read_s = 0;

    if (!list_only) {
        const char **paths = sorted(&files);
        if (at_random)
            shuffle(paths, files.count);
        start = seconds_now();
        read_files(paths, files.count, &totals);
        read_s = seconds_now() - start;
        free(paths);
    }
    print_result(json, &files, &totals, list_s, read_s);
    free(files.text);
    return totals.failed || !files.count;
}
