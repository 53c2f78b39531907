/* A file of labels, as a table sorted by name. Owns the file's text, which the table points into.
 */
#include "classes.h"

#include "../core/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
    const char *name, *label;
    size_t length; /* of the name */
    unsigned long number;
    bool used;
};

struct pack_label_file {
    char **texts; /* one a line */
    struct line *lines;
    size_t count, room;
};

static int compare(const char *a, size_t a_length, const char *b, size_t b_length)
{
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order ? order : (a_length > b_length) - (a_length < b_length);
}

static int by_name(const void *first, const void *second)
{
    const struct line *a = first, *b = second;
    int order = compare(a->name, a->length, b->name, b->length);
    return order ? order : (a->number > b->number) - (a->number < b->number);
}

static int take_line(struct pack_label_file *file, const char *path, char *text,
                     unsigned long number)
{
    char *name = text + strspn(text, " \t"), *end = name + strlen(name), *label;

    while (end > name && strchr(" \t\r\n", end[-1]))
        *--end = '\0';
    if (*name == '\0' || *name == '#')
        return 0;
    for (label = end; label > name && label[-1] != ' ' && label[-1] != '\t'; label--)
        ;
    end = label;
    while (end > name && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    if (end == name) {
        report_error("%s:%lu: '%s': a name and a label are wanted", path, number, name);
        return -EINVAL;
    }
    if (strncmp(name, "./", 2) == 0 && end > name + 2)
        name += 2;
    if (file->count == file->room) {
        size_t room = file->room ? file->room * 2 : 1024;
        struct line *lines = reallocarray(file->lines, room, sizeof *lines);
        char **texts;
        if (!lines)
            return -ENOMEM;
        file->lines = lines;
        texts = reallocarray(file->texts, room, sizeof *texts);
        if (!texts)
            return -ENOMEM;
        file->texts = texts;
        file->room = room;
    }
    text = strdup(name);
    if (!text)
        return -ENOMEM;
    file->texts[file->count] = text;
    file->lines[file->count++] = (struct line){
        .name = text,
        .label = text + (label - name),
        .length = (size_t)(end - name),
        .number = number,
    };
    return 0;
}

static int read_lines(struct pack_label_file *file, const char *path, FILE *from)
{
    unsigned long number = 0;
    char *text = NULL;
    size_t room = 0;
    int fault = 0;

    while (!fault && getline(&text, &room, from) >= 0)
        fault = take_line(file, path, text, ++number);
    if (!fault && ferror(from)) {
        fault = -EIO;
        report_error("%s:%lu: %s", path, number + 1, strerror(EIO));
    }
    free(text);
    return fault;
}

int pack_label_file_open(struct pack_label_file **out, const char *path)
{
    struct pack_label_file *file = *out = calloc(1, sizeof *file);
    FILE *from = file ? fopen(path, "re") : NULL;
    int fault;

    if (!file)
        return -ENOMEM;
    if (!from) {
        report_error("--label %s: %s", path, strerror(errno));
        return -errno;
    }
    fault = read_lines(file, path, from);
    fclose(from);
    if (fault == -ENOMEM)
        report_error("%s: no memory for its lines", path);
    if (fault || !file->count)
        return fault;
    qsort(file->lines, file->count, sizeof *file->lines, by_name);
    for (size_t i = 1; i < file->count; i++) {
        const struct line *a = &file->lines[i - 1], *b = a + 1;
        if (compare(a->name, a->length, b->name, b->length) == 0) {
            report_error("%s:%lu: '%.*s' has a label already, in line %lu", path, b->number,
                         (int)b->length, b->name, a->number);
            return -EEXIST;
        }
    }
    return 0;
}

void pack_label_file_close(struct pack_label_file *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->count; i++)
        free(file->texts[i]);
    free(file->texts);
    free(file->lines);
    free(file);
}

const char *pack_label_file_find(struct pack_label_file *file, const char *name, size_t length)
{
    size_t low = 0, high = file->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct line *line = &file->lines[middle];
        int order = compare(name, length, line->name, line->length);
        if (order == 0) {
            line->used = true;
            return line->label;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

uint64_t pack_label_file_unused(const struct pack_label_file *file, const char **name)
{
    unsigned long first = 0;
    uint64_t count = 0;

    for (size_t i = 0; i < file->count; i++) {
        if (file->lines[i].used)
            continue;
        count++;
        if (!first || file->lines[i].number < first) {
            first = file->lines[i].number;
            *name = file->lines[i].name;
        }
    }
    return count;
}
