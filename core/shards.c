/* From names to shard files (see shards.h): literal names first, then lists, braces (core/brace.h),
 * globs and folders. It owns the list's memory; it looks files up and never opens one, but for
 * @lists. */
#include "shards.h"

#include "brace.h"
#include "report.h"
#include "shard_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A list with a longer line is something else, a tar most likely. Linux's own limit for one
 * argument is twice that. */
#define LINE_BYTES 65536

/* Where a name stands, for messages, and what it is relative to. */
struct place {
    const char *origin; /* NULL: the command line */
    size_t line;        /* of the list `origin`; 0: it is no list */
    const char *base;
    struct shard_list *list;
};

__attribute__((format(printf, 3, 4))) static int complain(const struct place *place, int error,
                                                          const char *format, ...)
{
    char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    const char *shown = text != NULL ? text : strerror(ENOMEM);
    if (place->line > 0)
        report_error("%s:%zu: %s", place->origin, place->line, shown);
    else if (place->origin != NULL)
        report_error("%s: %s", place->origin, shown);
    else
        report_error("%s", shown);
    free(text);
    return error;
}

static int complain_memory(const struct place *place)
{
    return complain(place, -ENOMEM, "no memory for the list of shards");
}

static int complain_count(const struct place *place, const char *name, uint64_t count)
{
    if (count == UINT64_MAX)
        return complain(place, -E2BIG,
                        "%s stands for too many shards: a data set has at most %d of them", name,
                        SHARDS_MAX);
    return complain(place, -E2BIG,
                    "%s makes it %" PRIu64 " shards: a data set has at most %d of them", name,
                    count, SHARDS_MAX);
}

/* NULL when there is no memory. A leading `./` of `name` says nothing and goes. */
static char *join(const char *base, const char *name)
{
    char *path;

    if (name[0] == '/')
        return strdup(name);
    while (name[0] == '.' && name[1] == '/')
        name += 2 + strspn(name + 2, "/");
    const char *slash = base[0] != '\0' && base[strlen(base) - 1] == '/' ? "" : "/";
    return asprintf(&path, "%s%s%s", base, slash, name) < 0 ? NULL : path;
}

static int append(const struct place *place, const char *path)
{
    struct shard_list *list = place->list;

    if (list->count >= SHARDS_MAX)
        return complain_count(place, path, list->count + 1);
    if (list->count >= list->capacity) {
        size_t capacity = list->count < 32 ? 64 : list->count * 2;
        char **paths = realloc(list->paths, capacity * sizeof *paths);
        if (paths == NULL)
            return complain_memory(place);
        list->paths = paths;
        list->capacity = capacity;
    }
    char *copy = strdup(path);
    if (copy == NULL)
        return complain_memory(place);
    list->paths[list->count++] = copy;
    return 0;
}

/* Appends the file at `path`, of which `found` is the stat. */
static int add_file(const struct place *place, const char *path, const struct stat *found)
{
    if (S_ISDIR(found->st_mode))
        return complain(place, -EISDIR, "%s is a folder, not a tar file", path);
    if (!S_ISREG(found->st_mode))
        return complain(place, -EINVAL, "%s is not a regular file", path);
    if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) < 0) {
        int error = errno;
        return complain(place, -error, "%s cannot be read: %s", path, strerror(error));
    }
    return append(place, path);
}

static int choose_entry(const struct dirent *entry)
{
    return entry->d_name[0] != '.' &&
           (shard_name_ends(entry->d_name, ".tar") || shard_name_is_packed(entry->d_name));
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_entry(const struct place *place, const char *folder, const char *name)
{
    char *path = join(folder, name);
    struct stat found;
    int error;

    if (path == NULL)
        return complain_memory(place);
    if (stat(path, &found) == 0) {
        error = add_file(place, path, &found);
    } else {
        error = -errno;
        complain(place, error, "%s: %s", path, strerror(-error));
    }
    free(path);
    return error;
}

static const char *name_of_compressed(struct dirent **entries, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (shard_name_is_packed(entries[i]->d_name))
            return entries[i]->d_name;
    return "";
}

static int add_entries(const struct place *place, const char *folder, struct dirent **entries,
                       size_t count)
{
    size_t compressed = 0;
    int error = 0;

    for (size_t i = 0; i < count; i++)
        compressed += shard_name_is_packed(entries[i]->d_name);
    if (count == 0)
        return complain(place, -ENOENT, "%s has no *.tar", folder);
    if (compressed == count)
        compressed = 0; /* taken */
    if (compressed > 0)
        report_warning("%s: left out, as compressed: %zu of %zu tars (%s)", folder, compressed,
                       count, name_of_compressed(entries, count));
    place->list->left_out += compressed;
    for (size_t i = 0; i < count && error == 0; i++) {
        if (compressed == 0 || !shard_name_is_packed(entries[i]->d_name))
            error = add_entry(place, folder, entries[i]->d_name);
    }
    return error;
}

/* Appends what is at `path`, a tar or a folder of them. */
static int add_found(const struct place *place, const char *path, const struct stat *found)
{
    struct dirent **entries = NULL;

    if (!S_ISDIR(found->st_mode))
        return add_file(place, path, found);
    int count = scandir(path, &entries, choose_entry, compare_entries);
    if (count < 0) {
        int error = errno;
        return complain(place, -error, "%s cannot be listed: %s", path, strerror(error));
    }
    int error = add_entries(place, path, entries, (size_t)count);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    return error;
}

/* Whether glob(3) would look for anything but the name itself. */
static bool has_glob(const char *text)
{
    bool bracket = false;

    for (; *text != '\0'; text++) {
        if (*text == '\\' && text[1] != '\0')
            text++;
        else if (*text == '*' || *text == '?' || (*text == ']' && bracket))
            return true;
        else if (*text == '[')
            bracket = true;
    }
    return false;
}

static char *unescape(const char *text)
{
    char *plain = malloc(strlen(text) + 1);
    char *out = plain;

    if (plain == NULL)
        return NULL;
    for (; *text != '\0'; text++) {
        if (*text == '\\' && text[1] != '\0')
            text++;
        *out++ = *text;
    }
    *out = '\0';
    return plain;
}

static char *escape(const char *plain)
{
    char *text = malloc(2 * strlen(plain) + 1);
    char *out = text;

    if (text == NULL)
        return NULL;
    for (; *plain != '\0'; plain++) {
        if (strchr("\\*?[]", *plain) != NULL)
            *out++ = '\\';
        *out++ = *plain;
    }
    *out = '\0';
    return text;
}

/* glob(3) gives its error handler no context: the place of the call under way on this thread. */
static _Thread_local const struct place *glob_place;

static int glob_fault(const char *path, int error)
{
    if (error == ENOENT || error == ENOTDIR)
        return 0;
    complain(glob_place, -error, "%s cannot be listed: %s", path, strerror(error));
    return 1;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The absolute pattern of `text`, in a base that may have a glob's characters itself. */
static char *escaped_join(const char *base, const char *text)
{
    char *escaped = escape(base);
    char *pattern = escaped == NULL ? NULL : join(escaped, text);

    free(escaped);
    return pattern;
}

static int add_match(const struct place *place, const char *path)
{
    struct stat found;

    if (stat(path, &found) < 0) {
        int error = errno;
        return complain(place, -error, "%s: %s", path, strerror(error));
    }
    return add_found(place, path, &found);
}

/* Appends what the glob `text` matches. *any says whether there is a match. */
static int add_glob(const struct place *place, const char *text, bool *any)
{
    char *pattern = escaped_join(place->base, text);
    glob_t matches = {0};
    int error = 0;

    if (pattern == NULL)
        return complain_memory(place);
    glob_place = place;
    int outcome = glob(pattern, GLOB_NOSORT, glob_fault, &matches);
    glob_place = NULL;
    free(pattern);
    if (outcome == GLOB_NOSPACE)
        error = complain_memory(place);
    else if (outcome == GLOB_ABORTED)
        error = -EIO;
    else if (outcome == 0)
        qsort(matches.gl_pathv, matches.gl_pathc, sizeof *matches.gl_pathv, compare_texts);
    *any = outcome == 0;
    for (size_t i = 0; *any && i < matches.gl_pathc && error == 0; i++)
        error = add_match(place, matches.gl_pathv[i]);
    globfree(&matches);
    return error;
}

/* What a pattern stands for that was not there. */
struct missing {
    uint64_t count;
    char *first; /* path or glob; owned */
    bool first_is_glob;
};

static int count_missing(const struct place *place, const char *path, bool glob,
                         struct missing *missing)
{
    if (missing->count++ > 0)
        return 0;
    missing->first_is_glob = glob;
    missing->first = strdup(path);
    return missing->first != NULL ? 0 : complain_memory(place);
}

/* Appends what `text` stands for: a name without braces but with its backslashes. `path` is the
 * absolute path without them. What is not there is counted. */
static int add_path(const struct place *place, const char *text, const char *path,
                    struct missing *missing)
{
    struct stat found;
    bool glob = has_glob(text);
    bool any = false;

    if (stat(path, &found) == 0)
        return add_found(place, path, &found);
    int error = errno;
    if (glob) {
        error = add_glob(place, text, &any);
        if (error < 0 || any)
            return error;
    } else if (error != ENOENT && error != ENOTDIR) {
        return complain(place, -error, "%s: %s", path, strerror(error));
    }
    return count_missing(place, path, glob, missing);
}

static int add_name(const struct place *place, const char *text, struct missing *missing)
{
    if (text[0] == '\0')
        return complain(place, -EINVAL, "one of the names is empty");
    char *plain = unescape(text);
    char *path = plain == NULL ? NULL : join(place->base, plain);
    int error = path != NULL ? add_path(place, text, path, missing) : complain_memory(place);
    free(path);
    free(plain);
    return error;
}

static int complain_missing(const struct place *place, const char *name,
                            const struct missing *missing, uint64_t count)
{
    struct stat link;
    const char *what = missing->first_is_glob              ? "matches nothing"
                       : lstat(missing->first, &link) == 0 ? "is a link to nothing"
                                                           : "does not exist";

    if (count == 1)
        return complain(place, -ENOENT, "%s %s", missing->first, what);
    return complain(place, -ENOENT, "%s %s: of the %" PRIu64 " names in %s, %" PRIu64 " %s missing",
                    missing->first, what, count, name, missing->count,
                    missing->count == 1 ? "is" : "are");
}

static int add_expansion(const struct place *place, const char *name, const struct brace *brace)
{
    uint64_t count = brace_count(brace);
    struct missing missing = {0};
    int error = 0;

    if (count > SHARDS_MAX - place->list->count)
        return complain_count(place, name,
                              count == UINT64_MAX ? count : place->list->count + count);
    char *text = malloc(brace_longest(brace) + 1);
    if (text == NULL)
        return complain_memory(place);
    for (uint64_t i = 0; i < count && error == 0; i++) {
        brace_write(brace, i, text);
        error = add_name(place, text, &missing);
    }
    free(text);
    if (error == 0 && missing.count > 0)
        error = complain_missing(place, name, &missing, count);
    free(missing.first);
    return error;
}

static int add_pattern(const struct place *place, const char *name)
{
    struct brace *brace;
    struct brace_fault fault;
    int error = brace_open(&brace, name, &fault);

    if (error == -ENOMEM)
        return complain_memory(place);
    if (error < 0)
        return complain(place, error, "%s: column %zu: %s", name, fault.column, fault.complaint);
    error = add_expansion(place, name, brace);
    brace_close(brace);
    return error;
}

static int add_list(const struct place *place, const char *path);

/* Appends what one name, from anywhere, stands for. */
static int add_one(const struct place *place, const char *name)
{
    struct stat found;

    if (name[0] == '\0')
        return complain(place, -EINVAL, "a shard's name is empty");
    char *path = join(place->base, name);
    if (path == NULL)
        return complain_memory(place);
    bool exists = stat(path, &found) == 0;
    int error = exists ? add_found(place, path, &found) : 0;
    free(path);
    if (exists)
        return error;
    if (name[0] != '@')
        return add_pattern(place, name);
    if (place->line > 0)
        return complain(place, -EINVAL, "%s: a list names shards, not another list", name);
    path = join(place->base, name + 1);
    error = path != NULL ? add_list(place, path) : complain_memory(place);
    free(path);
    return error;
}

/* Reads a line into `line` (LINE_BYTES), without its end. Returns 1, 0 at the end of the file, or a
 * negative errno, reported. */
static int read_line(const struct place *place, FILE *file, char *line)
{
    size_t length = 0;
    int byte;

    while ((byte = getc_unlocked(file)) != EOF && byte != '\n') {
        if (byte == '\0')
            return complain(place, -EINVAL, "a NUL byte: this is no list of names");
        if (length == LINE_BYTES - 1)
            return complain(place, -EINVAL,
                            "a line of more than %d bytes: this is no list of names",
                            LINE_BYTES - 1);
        line[length++] = (char)byte;
    }
    if (byte == EOF && ferror(file)) {
        int error = errno;
        return complain(place, -error, "%s", strerror(error));
    }
    line[length] = '\0';
    return byte != EOF || length > 0;
}

/* The name in `line`, without the blanks around it; NULL: the line is blank or a comment. */
static char *trim(char *line, bool first)
{
    static const char blanks[] = " \t\r\v\f";

    if (first && strncmp(line, "\xEF\xBB\xBF", 3) == 0)
        line += 3;
    line += strspn(line, blanks);
    size_t length = strlen(line);
    while (length > 0 && strchr(blanks, line[length - 1]) != NULL)
        length--;
    line[length] = '\0';
    return length == 0 || line[0] == '#' ? NULL : line;
}

/* Appends what the lines of `file` stand for; `line` has room for one. */
static int add_lines(const struct place *place, FILE *file, const char *path, const char *folder,
                     char *line)
{
    struct place here = {.origin = path, .line = 1, .base = folder, .list = place->list};
    bool empty = true;
    int more;

    for (; (more = read_line(&here, file, line)) > 0; here.line++) {
        const char *name = trim(line, here.line == 1);
        if (name == NULL)
            continue;
        empty = false;
        int error = add_one(&here, name);
        if (error < 0)
            return error;
    }
    if (more == 0 && empty)
        return complain(place, -EINVAL, "the list %s names no shard", path);
    return more;
}

static int add_list(const struct place *place, const char *path)
{
    FILE *file = fopen(path, "re");

    if (file == NULL) {
        int error = errno;
        return complain(place, -error, "the list %s cannot be read: %s", path, strerror(error));
    }
    char *line = malloc(LINE_BYTES);
    char *folder = strndup(path, (size_t)(strrchr(path, '/') - path) + 1);
    int error = line != NULL && folder != NULL ? add_lines(place, file, path, folder, line)
                                               : complain_memory(place);
    free(line);
    free(folder);
    fclose(file);
    return error;
}

int shards_add_from(struct shard_list *list, const char *name, const char *base, const char *origin)
{
    struct place place = {.origin = origin, .base = base, .list = list};

    return add_one(&place, name);
}

int shards_add(struct shard_list *list, const char *name, const char *base)
{
    return shards_add_from(list, name, base, NULL);
}

void shards_close(struct shard_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (struct shard_list){0};
}
