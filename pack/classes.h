/* Labels that the source has not: a made `cls` member for each sample without one of its own.
 *
 * A class's text is a folder's name, or what a file says. Texts become numbers as in a mount
 * (core/labels.h): integers stay, others are numbered from 0 in byte order. */
#ifndef SHUFFLEFS_PACK_CLASSES_H
#define SHUFFLEFS_PACK_CLASSES_H

#include "listing.h"
#include "options.h"

struct pack_classes {
    char **names; /* number -> text; NULL: the texts are integers, or no labels are made */
    uint64_t count;
    uint64_t made; /* labels */
};

/* Adds the members to the listing and settles it anew. A sample that gets no label is refused by
 * name, as is a file that cannot be read or says two things of one name. 0 or a negative errno,
 * reported. `classes` is to be closed in any case. */
int pack_classes_make(struct pack_classes *classes, struct pack_listing *listing,
                      const struct pack_options *options);
void pack_classes_close(struct pack_classes *classes);

/* Does the file hold just these names? */
bool pack_classes_are(const struct pack_classes *classes, const char *path);

/* Writes the names, a line each, by way of a temporary file. 0 or a negative errno, reported. */
int pack_classes_write(const struct pack_classes *classes, const char *path);

/* A label file: lines `NAME LABEL`. NAME is a sample's key, or a file's name with its folders;
 * LABEL is the line's last word, so that a name may have blanks. Blank lines, and lines that start
 * with
 * `#`, are skipped. */
struct pack_label_file;
int pack_label_file_open(struct pack_label_file **out, const char *path);
void pack_label_file_close(struct pack_label_file *file); /* NULL is fine */

/* The label of a name; NULL: it is not in the file. */
const char *pack_label_file_find(struct pack_label_file *file, const char *name, size_t length);
/* Lines that were never found, and the first of their names. */
uint64_t pack_label_file_unused(const struct pack_label_file *file, const char **name);

#endif
