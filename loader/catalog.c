/* Samples of folders and lists. The names lie in one block of text, in order; an entry says where,
 * and what is known of the label. */
#include "catalog.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    DEPTH_MOST = 64,
    CLS_MOST = 64, /* bytes of a .cls that is an integer */
};

struct entry {
    uint64_t name : 63;  /* offset in `names` */
    uint64_t beside : 1; /* the label is in the .cls beside the sample */
    int64_t label;
};

struct catalog {
    int folder; /* what names are relative to */
    bool grouped;
    char *names;
    uint64_t names_length, names_room;
    struct entry *entries;
    uint64_t count, room;
};

static int add_name(struct catalog *catalog, const char *first, const char *second, int64_t label)
{
    size_t before = *first ? strlen(first) + 1 : 0, length = before + strlen(second) + 1;
    char *to;

    if (!catalog->names || catalog->names_room - catalog->names_length < length) {
        uint64_t room = catalog->names_room * 2 + length + 4096;
        char *names = realloc(catalog->names, room);
        if (!names)
            return -ENOMEM;
        catalog->names = names;
        catalog->names_room = room;
    }
    if (catalog->count == catalog->room) {
        uint64_t room = catalog->room * 2 + 256;
        struct entry *entries = realloc(catalog->entries, room * sizeof *entries);
        if (!entries)
            return -ENOMEM;
        catalog->entries = entries;
        catalog->room = room;
    }
    to = catalog->names + catalog->names_length;
    if (before) {
        memcpy(to, first, before - 1);
        to[before - 1] = '/';
    }
    memcpy(to + before, second, length - before);
    catalog->entries[catalog->count++] = (struct entry){.name = catalog->names_length,
                                                        .label = label};
    catalog->names_length += length;
    return 0;
}

static const char *name_of(const struct catalog *catalog, uint64_t number)
{
    return catalog->names + catalog->entries[number].name;
}

/* Byte order, component by component: '/' sorts before every byte. */
static int compare_paths(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    if (*a == *b)
        return 0;
    if (!*a || !*b)
        return *a ? 1 : -1;
    if (*a == '/' || *b == '/')
        return *a == '/' ? -1 : 1;
    return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
}

static int compare_entries(const void *a, const void *b, void *names)
{
    return compare_paths((char *)names + ((const struct entry *)a)->name,
                         (char *)names + ((const struct entry *)b)->name);
}

static int list_folder(struct catalog *catalog, const char *relative, int depth, bool deep,
                       struct fault *fault)
{
    char path[PATH_MAX];
    struct dirent *entry;
    int error = 0;
    int fd = openat(catalog->folder, *relative ? relative : ".",
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);

    if (!folder) {
        error = fault_file(fault, -errno, *relative ? relative : "the folder");
        if (fd >= 0)
            close(fd);
        return error;
    }
    errno = 0;
    while (!error && (entry = readdir(folder))) {
        unsigned char type = entry->d_type;
        struct stat stat_;

        if (entry->d_name[0] == '.')
            continue;
        if (type == DT_UNKNOWN || type == DT_LNK) {
            /* A link to nothing is no sample, and no reason to stop. */
            if (fstatat(fd, entry->d_name, &stat_, 0))
                continue;
            type = S_ISDIR(stat_.st_mode) ? DT_DIR : S_ISREG(stat_.st_mode) ? DT_REG : DT_UNKNOWN;
        }
        if (type == DT_REG && !sample_is_litter(entry->d_name)) {
            error = add_name(catalog, relative, entry->d_name, SL_NO_LABEL);
            if (error)
                fault_set(fault, error, "no memory for the names of %llu files",
                          (unsigned long long)catalog->count);
        } else if (type == DT_DIR && deep) {
            if (depth == DEPTH_MOST)
                error = fault_set(fault, -ELOOP, "%s: folders lie more than %d deep", relative,
                                  DEPTH_MOST);
            else if (snprintf(path, sizeof path, "%s%s%s", relative, *relative ? "/" : "",
                              entry->d_name) >= (int)sizeof path)
                error = fault_file(fault, -ENAMETOOLONG, relative);
            else
                error = list_folder(catalog, path, depth + 1, deep, fault);
        }
        errno = 0;
    }
    if (!error && errno)
        error = fault_file(fault, -errno, *relative ? relative : "the folder");
    closedir(folder);
    return error;
}

static int sort_names(struct catalog *catalog)
{
    bool sorted = true;

    /* A mount lists in order: a million names need no sorting. */
    for (uint64_t i = 1; sorted && i < catalog->count; i++)
        sorted = compare_paths(name_of(catalog, i - 1), name_of(catalog, i)) < 0;
    if (!sorted)
        qsort_r(catalog->entries, catalog->count, sizeof *catalog->entries, compare_entries,
                catalog->names);
    return 0;
}

/* The entry of this stem and extension, in the sorted names: `count`: none. */
static uint64_t find_beside(const struct catalog *catalog, const struct entry *sorted,
                            uint64_t count, const char *name)
{
    char wanted[PATH_MAX + 8];
    size_t stem = (size_t)(sample_extension(name, true) - name);
    uint64_t low = 0, high = count;

    if (stem + 4 > sizeof wanted)
        return count;
    memcpy(wanted, name, stem);
    memcpy(wanted + stem, "cls", 4);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        int order = compare_paths(catalog->names + sorted[middle].name, wanted);

        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return count;
}

static bool same_class(const char *a, const char *b)
{
    size_t length = strcspn(a, "/");

    return strncmp(a, b, length + 1) == 0 && a[length] == '/';
}

/* Labels by the first folder on the path. Classes are numbered over all folders that have a file
 * of any kind, in their sorted order. */
static void number_classes(struct catalog *catalog)
{
    int64_t class = -1;
    const char *last = NULL;

    for (uint64_t i = 0; i < catalog->count; i++) {
        const char *name = name_of(catalog, i);

        if (!strchr(name, '/'))
            continue;
        if (!last || !same_class(last, name))
            class ++;
        last = name;
        catalog->entries[i].label = class;
    }
}

/* Each file with a content's extension is a sample. `entries` shrinks in place: what is kept is
 * never past what is looked at. */
static int pick_files(struct catalog *catalog, const struct settings *settings)
{
    struct entry *sorted = NULL;
    uint64_t all = catalog->count, kept = 0;
    bool beside = false;

    for (uint64_t i = 0; !beside && i < all; i++)
        beside = strcasecmp(sample_extension(name_of(catalog, i), true), "cls") == 0;
    if (beside) {
        sorted = malloc(all * sizeof *sorted);
        if (!sorted)
            return -ENOMEM;
        memcpy(sorted, catalog->entries, all * sizeof *sorted);
    } else {
        number_classes(catalog);
    }
    for (uint64_t i = 0; i < all; i++) {
        struct entry entry = catalog->entries[i];
        const char *name = catalog->names + entry.name;

        if (!settings_takes(settings, sample_extension(name, true)) &&
            !(settings->field_count && settings_takes(settings, sample_extension(name, false))))
            continue;
        if (sorted && find_beside(catalog, sorted, all, name) < all)
            entry.beside = true;
        catalog->entries[kept++] = entry;
    }
    catalog->count = kept;
    free(sorted);
    return 0;
}

/* Files of one position are one sample: its content is the first that is taken. */
static void pick_positions(struct catalog *catalog, const struct settings *settings)
{
    uint64_t kept = 0;

    for (uint64_t i = 0, next; i < catalog->count; i = next) {
        const char *first = name_of(catalog, i);
        size_t stem = (size_t)(sample_extension(first, false) - first);
        struct entry content = {0};
        bool found = false, labelled = false;

        for (next = i; next < catalog->count; next++) {
            const char *name = name_of(catalog, next);

            if (strncmp(name, first, stem) != 0)
                break;
            if (strcmp(name + stem, "cls") == 0)
                labelled = true;
            if (!found && settings_takes(settings, name + stem)) {
                content = catalog->entries[next];
                found = true;
            }
        }
        if (next == i) /* a name without an extension */
            next++;
        content.beside = labelled;
        if (found)
            catalog->entries[kept++] = content;
    }
    catalog->count = kept;
}

/* A mount's list is made while it is read, and says its size: but what a file gives is what counts.
 */
static int read_text(const char *path, char **out, size_t *length, struct fault *fault)
{
    size_t room = 1 << 16, have = 0;
    char *text = malloc(room + 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = 1;

    if (fd < 0 || !text) {
        int error = fault_file(fault, fd < 0 ? -errno : -ENOMEM, path);
        free(text);
        if (fd >= 0)
            close(fd);
        return error;
    }
    while (got > 0) {
        if (have == room) {
            char *more = realloc(text, room * 2 + 1);
            if (!more) {
                errno = ENOMEM;
                got = -1;
                break;
            }
            text = more;
            room *= 2;
        }
        do
            got = read(fd, text + have, room - have);
        while (got < 0 && errno == EINTR);
        if (got > 0)
            have += (size_t)got;
    }
    if (got < 0) {
        int error = fault_file(fault, -errno, path);
        free(text);
        close(fd);
        return error;
    }
    close(fd);
    *out = text;
    *length = have;
    return 0;
}

/* A line's path and label, both in place: what is left in `line` is the path; "": the line says
 * nothing. 0, or -EINVAL: a label by itself. */
static int parse_line(char *line, int64_t *label)
{
    char *blank, *end = line + strlen(line);

    *label = SL_NO_LABEL;
    while (end > line && (end[-1] == '\r' || end[-1] == ' ' || end[-1] == '\t'))
        *--end = '\0';
    if (*line == '#')
        *line = '\0';
    if (!*line)
        return 0;
    for (blank = end; blank > line && blank[-1] != ' ' && blank[-1] != '\t';)
        blank--;
    if (blank > line && sample_parse_label(blank, (size_t)(end - blank), label))
        while (blank > line && (blank[-1] == ' ' || blank[-1] == '\t'))
            *--blank = '\0';
    return *line ? 0 : -EINVAL;
}

/* The list beside a rank folder has all labels in one read, where each .cls is three system calls
 * and, past the names that a listing primes, a round trip to the mount. Lines and entries are in
 * the same order; an entry without a line, as where there is no list, keeps its .cls. */
void catalog_take_labels(struct catalog *catalog, char *text, size_t length)
{
    uint64_t number = 0;

    for (size_t at = 0; at < length && number < catalog->count;) {
        char *line = text + at, *end = memchr(line, '\n', length - at), *base;
        size_t stem;
        int64_t label;
        uint64_t found = number;

        if (!end)
            end = text + length;
        *end = '\0';
        at = (size_t)(end - text) + 1;
        if (parse_line(line, &label) || label == SL_NO_LABEL)
            continue;
        base = strrchr(line, '/') ? strrchr(line, '/') + 1 : line;
        stem = (size_t)(sample_extension(base, false) - base);
        /* Samples without a content are in the list alone, and others in the folder alone. */
        while (found < catalog->count && strncmp(name_of(catalog, found), base, stem) < 0)
            found++;
        if (found == catalog->count)
            return;
        number = found;
        if (strncmp(name_of(catalog, number), base, stem) == 0) {
            catalog->entries[number].beside = false;
            catalog->entries[number++].label = label;
        }
    }
}

/* Never fails: labels that are not known now are read with their samples. */
static void find_labels(struct catalog *catalog, const char *folder)
{
    char path[PATH_MAX], *text;
    size_t length;
    bool wanted = false;

    for (uint64_t i = 0; !wanted && i < catalog->count; i++)
        wanted = catalog->entries[i].beside;
    if (!wanted || snprintf(path, sizeof path, "%s.list", folder) >= (int)sizeof path ||
        read_text(path, &text, &length, NULL))
        return;
    catalog_take_labels(catalog, text, length);
    free(text);
}

/* NULL: `error` and the fault tell why. */
static struct catalog *make(const char *folder, bool grouped, int *error, struct fault *fault)
{
    struct catalog *catalog = calloc(1, sizeof *catalog);

    if (!catalog) {
        *error = fault_set(fault, -ENOMEM, "no memory for the names of %s", folder);
        return NULL;
    }
    catalog->grouped = grouped;
    catalog->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (catalog->folder < 0) {
        *error = fault_file(fault, -errno, folder);
        free(catalog);
        return NULL;
    }
    *error = 0;
    return catalog;
}

int catalog_open_folder(struct catalog **out, const char *path, bool grouped,
                        const struct settings *settings, struct fault *fault)
{
    struct fault inner = {""};
    uint64_t files;
    int error;
    struct catalog *catalog = make(path, grouped, &error, fault);

    if (!catalog)
        return error;
    error = list_folder(catalog, "", 0, !grouped, &inner);
    if (error) {
        fault_set(fault, error, "%s: %s", path, inner.text);
        catalog_close(catalog);
        return error;
    }
    files = catalog->count;
    error = sort_names(catalog);
    if (!error && grouped) {
        pick_positions(catalog, settings);
        find_labels(catalog, path);
    } else if (!error) {
        error = pick_files(catalog, settings);
    }
    if (error)
        fault_set(fault, error, "no memory for the names of %s", path);
    else if (!catalog->count && files)
        error = fault_set(fault, -ENODATA,
                          "%s: none of its %llu files is a sample's content (the first is %s); "
                          "config.field names its extension",
                          path, (unsigned long long)files, catalog->names);
    else if (!catalog->count)
        error = fault_set(fault, -ENODATA, "%s has no sample", path);
    if (error) {
        catalog_close(catalog);
        return error;
    }
    *out = catalog;
    return 0;
}

static int add_line(struct catalog *catalog, char *line)
{
    int64_t label;
    int error = parse_line(line, &label);

    return error || !*line ? error : add_name(catalog, "", line, label);
}

int catalog_open_text(struct catalog **out, const char *folder, char *text, size_t length,
                      struct fault *fault)
{
    uint64_t line = 1;
    int error;
    struct catalog *catalog = make(folder, false, &error, fault);

    if (!catalog)
        return error;
    for (size_t at = 0; !error && at < length; line++) {
        char *end = memchr(text + at, '\n', length - at);
        size_t stop = end ? (size_t)(end - text) : length;

        text[stop] = '\0';
        if (strlen(text + at) != stop - at)
            error = fault_set(fault, -EBADMSG, "line %llu has a NUL byte: this is no list",
                              (unsigned long long)line);
        else
            error = add_line(catalog, text + at);
        if (error == -EINVAL)
            error = fault_set(fault, -EBADMSG, "line %llu has a label and no path",
                              (unsigned long long)line);
        else if (error == -ENOMEM)
            fault_set(fault, error, "no memory for %llu lines", (unsigned long long)line);
        at = stop + 1;
    }
    if (!error && !catalog->count)
        error = fault_set(fault, -ENODATA, "the list is empty");
    if (error) {
        catalog_close(catalog);
        return error;
    }
    *out = catalog;
    return 0;
}

int catalog_open_list(struct catalog **out, const char *path, struct fault *fault)
{
    struct fault inner = {""};
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    char *text = NULL;
    size_t length = 0;
    int error;

    if (!folder)
        return fault_file(fault, -ENOMEM, path);
    error = read_text(path, &text, &length, fault);
    if (!error) {
        error = catalog_open_text(out, folder, text, length, &inner);
        if (error)
            fault_set(fault, error, "%s: %s", path, inner.text);
    }
    free(text);
    free(folder);
    return error;
}

void catalog_close(struct catalog *catalog)
{
    if (!catalog)
        return;
    close(catalog->folder);
    free(catalog->names);
    free(catalog->entries);
    free(catalog);
}

uint64_t catalog_count(const struct catalog *catalog)
{
    return catalog->count;
}

const char *catalog_name(const struct catalog *catalog, uint64_t number)
{
    return name_of(catalog, number);
}

bool catalog_knows_label(const struct catalog *catalog, uint64_t number, int64_t *label)
{
    *label = catalog->entries[number].label;
    return !catalog->entries[number].beside;
}

/* Of an error in reading a file: 0, it is the file's; else the error of what the file is on. A dead
 * mount, or a device that is gone, says so itself. ESTALE may be a file's that was replaced on a
 * server, and EIO, where another thread's read of a page failed, a mount's that has died: the
 * folder tells. */
static int lost_source(const struct catalog *catalog, int error)
{
    struct statx now;

    if (error == -ESTALE || error == -EIO)
        error = statx(catalog->folder, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_INO, &now)
                    ? -errno
                    : 0;
    return error == -ENOTCONN || error == -ESHUTDOWN || error == -ECONNABORTED ||
                   error == -ENODEV || error == -ESTALE
               ? error
               : 0;
}

/* Reads a whole file: its bytes (up to most + 1), or a negative errno. A regular file gives less
 * than was asked for only at its end, so a read that does not end at a page has seen it. A fifo
 * that a list names must not hang the worker: hence no blocking. */
static ssize_t read_file(int folder, const char *name, void *buffer, size_t most)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    size_t have = 0;
    ssize_t got;

    if (fd < 0)
        return -errno;
    do {
        got = read(fd, (uint8_t *)buffer + have, most + 1 - have);
        if (got > 0)
            have += (size_t)got;
    } while ((got < 0 && errno == EINTR) || (got > 0 && have % 4096 == 0 && have <= most));
    if (got < 0)
        got = -errno;
    close(fd);
    return got < 0 ? got : (ssize_t)have;
}

/* `error`: 0, or why the file could not be read. */
static int64_t read_label(const struct catalog *catalog, const char *name, int *error)
{
    char path[PATH_MAX + 8], text[CLS_MOST + 1];
    size_t stem = (size_t)(sample_extension(name, !catalog->grouped) - name);
    int64_t label = SL_NO_LABEL;
    ssize_t length;

    if (stem + 4 > sizeof path)
        return label;
    memcpy(path, name, stem);
    memcpy(path + stem, "cls", 4);
    length = read_file(catalog->folder, path, text, CLS_MOST);
    *error = length < 0 ? (int)length : 0;
    if (length > 0 && length <= CLS_MOST)
        sample_parse_label(text, (size_t)length, &label);
    return label;
}

void catalog_read(const struct catalog *catalog, uint64_t number, uint8_t *buffer, size_t most,
                  struct sample *sample)
{
    const char *name = name_of(catalog, number);
    ssize_t got = read_file(catalog->folder, name, buffer, most);
    int error = got < 0 ? (int)got : 0;

    sample_set_name(sample, name);
    sample->bytes = buffer;
    sample->size = got > 0 ? (size_t)got : 0;
    sample->error = got < 0 ? (int)got : (size_t)got > most ? -EFBIG : 0;
    sample->label = catalog->entries[number].label;
    if (catalog->entries[number].beside && !error)
        sample->label = read_label(catalog, name, &error);
    error = error ? lost_source(catalog, error) : 0;
    sample->lost = error < 0;
    if (error)
        sample->error = error;
}

void catalog_ahead(const struct catalog *catalog, uint64_t number)
{
    int fd = openat(catalog->folder, name_of(catalog, number),
                    O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0)
        return;
    posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    close(fd);
}
