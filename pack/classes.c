/* Made labels. Owns the classes' names; core/labels.c gives the numbers. */
#include "classes.h"

#include "../core/labels.h"
#include "../core/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The texts of the samples that are to get a label, one after the other as core/labels.c reads
 * them, and which samples these are. */
struct wanted {
    uint64_t *samples;
    uint64_t count;
    char *texts;
    size_t bytes, room;
};

struct span {
    const char *text;
    size_t length;
};

static bool has_label(const struct pack_listing *listing, uint64_t sample)
{
    for (uint64_t i = listing->first[sample]; i < listing->first[sample + 1]; i++)
        if (strcmp(listing->members[i].field, "cls") == 0)
            return true;
    return false;
}

static struct span folder_of(const struct pack_member *member, bool first)
{
    const char *key = member->key, *end = memrchr(key, '/', member->key_length), *start;

    if (!end)
        return (struct span){key, 0};
    if (first)
        return (struct span){key, (size_t)((char *)memchr(key, '/', member->key_length) - key)};
    for (start = end; start > key && start[-1] != '/'; start--)
        ;
    return (struct span){start, (size_t)(end - start)};
}

/* By the sample's key, or by the name of one of its files. */
static struct span look_up(struct pack_label_file *file, const struct pack_listing *listing,
                           uint64_t sample)
{
    const struct pack_member *member = &listing->members[listing->first[sample]];
    const char *label = pack_label_file_find(file, member->key, member->key_length);
    char name[8192];

    for (uint64_t i = listing->first[sample]; !label && i < listing->first[sample + 1]; i++) {
        member = &listing->members[i];
        if (member->path)
            label = pack_label_file_find(file, member->path, strlen(member->path));
        if (!label && snprintf(name, sizeof name, "%.*s.%s", (int)member->key_length, member->key,
                               member->field) < (int)sizeof name)
            label = pack_label_file_find(file, name, strlen(name));
    }
    return label ? (struct span){label, strlen(label)} : (struct span){"", 0};
}

static int append(struct wanted *wanted, uint64_t sample, struct span span)
{
    if (!wanted->texts || wanted->bytes + span.length + 1 > wanted->room) {
        size_t room = (wanted->bytes + span.length + 1) * 2 + 4096;
        char *larger = realloc(wanted->texts, room);
        if (!larger)
            return -ENOMEM;
        wanted->texts = larger;
        wanted->room = room;
    }
    memcpy(wanted->texts + wanted->bytes, span.text, span.length);
    wanted->texts[wanted->bytes + span.length] = '\0';
    wanted->bytes += span.length + 1;
    wanted->samples[wanted->count++] = sample;
    return 0;
}

static int find_texts(struct wanted *wanted, const struct pack_listing *listing,
                      const struct pack_options *options, struct pack_label_file *file)
{
    uint64_t missing = 0;
    int fault = 0;

    wanted->samples = malloc(listing->samples * sizeof *wanted->samples + 1);
    if (!wanted->samples)
        return -ENOMEM;
    for (uint64_t s = 0; !fault && s < listing->samples; s++) {
        const struct pack_member *member = &listing->members[listing->first[s]];
        struct span span;
        if (has_label(listing, s))
            continue;
        span = file ? look_up(file, listing, s)
                    : folder_of(member, options->label == PACK_LABEL_FIRST);
        if (span.length)
            fault = append(wanted, s, span);
        else if (pack_listing_may_name(listing, missing++))
            report_error("'%.*s' has no label: %s", (int)member->key_length, member->key,
                         file ? "its name is not in the file" : "it is in no folder");
    }
    return fault ? fault : missing ? -ENODATA : 0;
}

/* One name for each number, from the texts that got it. */
static int keep_names(struct pack_classes *classes, const struct wanted *wanted,
                      const struct labels *labels)
{
    const char *text = wanted->texts;

    classes->names = calloc(labels->class_count, sizeof *classes->names);
    if (!classes->names)
        return -ENOMEM;
    classes->count = labels->class_count;
    for (uint64_t i = 0; i < wanted->count; i++, text += strlen(text) + 1) {
        char **name = &classes->names[labels->of[i]];
        if (!*name && !(*name = strdup(text)))
            return -ENOMEM;
    }
    return 0;
}

static int add_labels(struct pack_listing *listing, const struct wanted *wanted,
                      const struct labels *labels)
{
    const char *field = pack_listing_field(listing, "cls");

    if (!field)
        return -ENOMEM;
    for (uint64_t i = 0; i < wanted->count; i++) {
        struct pack_member label = listing->members[listing->first[wanted->samples[i]]];
        char digits[24];
        label.field = field;
        label.path = NULL;
        label.number = (uint64_t)labels->of[i];
        label.size = (uint64_t)snprintf(digits, sizeof digits, "%lld", (long long)labels->of[i]);
        label.made = true;
        if (pack_listing_add(listing, &label))
            return -ENOMEM;
    }
    return 0;
}

/* An index of nothing but class texts is what core/labels.c numbers. */
static int number(struct pack_classes *classes, struct pack_listing *listing,
                  const struct wanted *wanted)
{
    struct index index = {.sample_count = wanted->count};
    struct labels labels;
    int fault;

    index.class_texts = malloc(wanted->bytes);
    if (!index.class_texts)
        return -ENOMEM;
    memcpy(index.class_texts, wanted->texts, wanted->bytes);
    fault = labels_open(&labels, &index, CONFIG_LABEL_CLS, NULL); /* takes the texts */
    if (fault)
        return fault;
    if (labels.named)
        fault = keep_names(classes, wanted, &labels);
    if (!fault)
        fault = add_labels(listing, wanted, &labels);
    classes->made = wanted->count;
    labels_close(&labels);
    return fault;
}

static void warn_unused(const struct pack_label_file *file, const char *path)
{
    const char *name = NULL;
    uint64_t unused = pack_label_file_unused(file, &name);

    if (unused)
        report_warning("%s: %llu line%s name%s nothing that is packed, '%s' first", path,
                       (unsigned long long)unused, unused == 1 ? "" : "s", unused == 1 ? "s" : "",
                       name);
}

/* A name with a line's end in it would be two lines. */
static int refuse_lines(const struct pack_classes *classes, const char *path)
{
    for (uint64_t i = 0; i < classes->count; i++) {
        if (!strchr(classes->names[i], '\n'))
            continue;
        report_error("--classes %s: the name of class %llu has a line's end in it: '%s'", path,
                     (unsigned long long)i, classes->names[i]);
        return -EINVAL;
    }
    return 0;
}

int pack_classes_make(struct pack_classes *classes, struct pack_listing *listing,
                      const struct pack_options *options)
{
    struct pack_label_file *file = NULL;
    struct wanted wanted = {0};
    int fault = 0;

    *classes = (struct pack_classes){0};
    if (options->label == PACK_LABEL_NONE)
        return 0;
    if (options->label == PACK_LABEL_FILE)
        fault = pack_label_file_open(&file, options->label_file);
    if (!fault)
        fault = find_texts(&wanted, listing, options, file);
    if (!fault && file)
        warn_unused(file, options->label_file);
    if (!fault && wanted.count)
        fault = number(classes, listing, &wanted);
    if (!fault && classes->made)
        fault = pack_listing_settle(listing, options->keep_order);
    if (!fault && options->classes && !classes->names) {
        report_error("--classes %s: no class has a name%s", options->classes,
                     classes->made ? ": all are numbers already" : ", as no label is made");
        fault = -EINVAL;
    }
    if (!fault && options->classes)
        fault = refuse_lines(classes, options->classes);
    if (fault == -ENOMEM)
        report_error("no memory for the labels");
    free(wanted.samples);
    free(wanted.texts);
    pack_label_file_close(file);
    return fault;
}

void pack_classes_close(struct pack_classes *classes)
{
    for (uint64_t i = 0; classes->names && i < classes->count; i++)
        free(classes->names[i]);
    free(classes->names);
    *classes = (struct pack_classes){0};
}

bool pack_classes_are(const struct pack_classes *classes, const char *path)
{
    FILE *file = fopen(path, "re");
    uint64_t same = 0;
    char *text = NULL;
    size_t room = 0;
    ssize_t length;

    if (!file)
        return false;
    while ((length = getline(&text, &room, file)) > 0 && same < classes->count &&
           text[length - 1] == '\n' && (size_t)length == strlen(classes->names[same]) + 1 &&
           memcmp(text, classes->names[same], (size_t)length - 1) == 0)
        same++;
    same = same == classes->count && length < 0 && !ferror(file);
    free(text);
    fclose(file);
    return same;
}

int pack_classes_write(const struct pack_classes *classes, const char *path)
{
    char *beside = NULL;
    FILE *to = NULL;
    int fault = 0;

    if (asprintf(&beside, "%s.part", path) < 0)
        return -ENOMEM;
    to = fopen(beside, "we");
    if (!to) {
        fault = -errno;
    } else {
        for (uint64_t i = 0; i < classes->count; i++)
            fprintf(to, "%s\n", classes->names[i]);
        if (fflush(to) || fsync(fileno(to)))
            fault = -errno;
        if (fclose(to) && !fault)
            fault = -errno;
        if (!fault && rename(beside, path))
            fault = -errno;
        if (fault)
            unlink(beside);
    }
    if (fault)
        report_error("--classes %s: %s", path, strerror(-fault));
    free(beside);
    return fault;
}
