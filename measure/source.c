/* Listing what is to be read. Opens folders and lists only, never a sample. */
#include "source.h"

#include "../core/clock.h"
#include "../core/report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Deeper than any data set; a symbolic link to a folder above itself ends here. */
#define FOLDERS_DEEP 40
#define ROOM_STEP    (1 << 20)

const char *source_kind_name(enum source_kind kind)
{
    static const char *const names[] = {"folder", "stream", "file", "list"};

    return names[kind];
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);

    return length > end_length && strcmp(text + length - end_length, end) == 0;
}

static char *join(const char *folder, const char *name)
{
    char *path;

    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* Only a shufflefs mount has this file. */
static bool is_mount(const char *path)
{
    char *status = join(path, ".control/status");
    bool found = status && access(status, F_OK) == 0;

    free(status);
    return found;
}

int source_open(struct source *source, const char *given)
{
    const char *path = given;
    struct stat status;

    *source = (struct source){.given = given};
    /* As in the mount's SHARDS, a name that exists as it stands is no list. */
    if (given[0] == '@' && access(given, F_OK) < 0) {
        source->kind = SOURCE_LIST;
        path++;
    }
    if (stat(path, &status) < 0) {
        int fault = -errno;
        report_error("%s: %s", given, strerror(-fault));
        return fault;
    }
    if (!S_ISREG(status.st_mode) && (source->kind == SOURCE_LIST || !S_ISDIR(status.st_mode))) {
        report_error("%s: not a %s", given,
                     source->kind == SOURCE_LIST ? "file" : "file or folder");
        return -EINVAL;
    }
    if (source->kind != SOURCE_LIST)
        source->kind = S_ISDIR(status.st_mode)    ? SOURCE_FOLDER
                       : ends_with(given, ".tar") ? SOURCE_STREAM
                                                  : SOURCE_FILE;
    source->path = source->kind == SOURCE_FOLDER && is_mount(path) ? join(path, "current/rank-0")
                                                                   : strdup(path);
    if (!source->path) {
        report_error("%s: %s", given, strerror(ENOMEM));
        return -ENOMEM;
    }
    return 0;
}

static int add(struct source *source, const char *folder, const char *name, size_t name_length)
{
    size_t folder_length = folder ? strlen(folder) + 1 : 0;
    size_t length = folder_length + name_length + 1;
    char *end;

    if (source->used + length > source->room) {
        size_t room = 2 * source->room + length + ROOM_STEP;
        char *text = realloc(source->text, room);
        if (!text)
            return -ENOMEM;
        source->text = text;
        source->room = room;
    }
    end = source->text + source->used;
    if (folder) {
        memcpy(end, folder, folder_length - 1);
        end[folder_length - 1] = '/';
    }
    memcpy(end + folder_length, name, name_length);
    end[length - 1] = '\0';
    source->used += length;
    source->count++;
    return 0;
}

/* DT_DIR, DT_REG, or what else a link leads to; a link to nothing is a file that cannot be read. */
static unsigned char type_of(DIR *folder, const struct dirent *entry)
{
    struct stat status;

    if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    if (fstatat(dirfd(folder), entry->d_name, &status, 0) < 0)
        return DT_REG;
    return IFTODT(status.st_mode);
}

static int list_folder(struct source *source, const char *path, unsigned deep);

static int list_entry(struct source *source, const char *path, DIR *folder,
                      const struct dirent *entry, unsigned deep)
{
    unsigned char type = entry->d_name[0] == '.' ? DT_FIFO : type_of(folder, entry);
    char *below;
    int fault;

    if (type == DT_REG)
        return add(source, path, entry->d_name, strlen(entry->d_name));
    /* Pipes and devices: opening one might wait for ever. */
    if (type != DT_DIR)
        return 0;
    below = join(path, entry->d_name);
    fault = below ? list_folder(source, below, deep + 1) : -ENOMEM;
    free(below);
    return fault;
}

static int list_folder(struct source *source, const char *path, unsigned deep)
{
    struct dirent *entry;
    DIR *folder = NULL;
    int fault = 0;

    errno = ELOOP;
    if (deep < FOLDERS_DEEP)
        folder = opendir(path);
    if (!folder) {
        fault = -errno;
        report_error("%s: %s", path, strerror(-fault));
        return fault;
    }
    while (!fault && (errno = 0, entry = readdir(folder)))
        fault = list_entry(source, path, folder, entry, deep);
    if (!fault && errno) {
        fault = -errno;
        report_error("listing %s: %s", path, strerror(errno));
    }
    closedir(folder);
    return fault;
}

static int list_file(struct source *source, FILE *file, const char *folder)
{
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int fault = 0;

    while (!fault && (length = getline(&line, &room, file)) >= 0) {
        while (length && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            length--;
        if (length && line[0] != '#')
            fault = add(source, line[0] == '/' ? NULL : folder, line, (size_t)length);
    }
    if (!fault && ferror(file))
        fault = -EIO;
    free(line);
    return fault;
}

static int read_list(struct source *source)
{
    FILE *file = fopen(source->path, "re");
    const char *slash = strrchr(source->path, '/');
    char *folder = slash ? strndup(source->path, (size_t)(slash - source->path)) : NULL;
    int fault = !file ? -errno : slash && !folder ? -ENOMEM : list_file(source, file, folder);

    if (fault && fault != -ENOMEM)
        report_error("%s: %s", source->path, strerror(-fault));
    if (file)
        fclose(file);
    free(folder);
    return fault;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Fisher-Yates over splitmix64. */
static void shuffle(const char **names, uint64_t count, uint64_t seed)
{
    uint64_t state = seed;

    for (uint64_t left = count; left > 1; left--) {
        uint64_t mixed = state += UINT64_C(0x9e3779b97f4a7c15);
        mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
        mixed ^= mixed >> 31;
        const char *last = names[left - 1];
        names[left - 1] = names[mixed % left];
        names[mixed % left] = last;
    }
}

static int set_order(struct source *source, enum source_order order, uint64_t seed)
{
    const char *name = source->text;

    source->names = calloc(source->count, sizeof *source->names);
    if (!source->names)
        return -ENOMEM;
    for (uint64_t i = 0; i < source->count; i++, name += strlen(name) + 1)
        source->names[i] = name;
    if (source->kind == SOURCE_FOLDER)
        qsort(source->names, source->count, sizeof *source->names, by_name);
    if (order == SOURCE_AT_RANDOM)
        shuffle(source->names, source->count, seed);
    return 0;
}

int source_list(struct source *source, enum source_order order, uint64_t seed)
{
    double start;
    int fault;

    free(source->names);
    source->names = NULL;
    source->count = source->used = 0;
    start = clock_now_s();
    if (source->kind == SOURCE_FOLDER)
        fault = list_folder(source, source->path, 0);
    else if (source->kind == SOURCE_LIST)
        fault = read_list(source);
    else
        fault = add(source, NULL, source->path, strlen(source->path));
    source->list_s = clock_now_s() - start;
    if (!fault && !source->count) {
        report_error("%s: nothing to read", source->given);
        fault = -ENOENT;
    }
    if (!fault)
        fault = set_order(source, order, seed);
    if (fault == -ENOMEM)
        report_error("%s: %s", source->given, strerror(ENOMEM));
    return fault;
}

void source_close(struct source *source)
{
    free(source->names);
    free(source->text);
    free(source->path);
    *source = (struct source){0};
}
