/* The samples of a folder or list, by number: names and labels in memory, content read on request.
 *
 * A folder is read with those in it. On a mount's rank folder a sample is all files of one
 * position, and labels are taken from the rank-R.list beside it. In any other folder each file with
 * a content's extension is a sample, in the order of their paths, component by component in byte
 * order; its label is the integer in the .cls beside it (its name with the last extension
 * exchanged), and where the folder has no .cls at all, the number of the first folder on its path
 * among the sorted ones: a folder of classes.
 *
 * A list has a line a sample: PATH, blanks, LABEL; relative to the list's folder. Empty lines and
 * those that start with # are passed over. A line that does not end in an integer is all path. */
#ifndef SHUFFLELOAD_CATALOG_H
#define SHUFFLELOAD_CATALOG_H

#include "fault.h"
#include "sample.h"
#include "settings.h"

#include <stdbool.h>
#include <stdint.h>

struct catalog;

/* `grouped`: it is a mount's rank folder. 0; -ENODATA: no sample, with what there was instead in
 * the text; -ENOMEM, or what reading gave. Blocks; not for two threads at once. */
int catalog_open_folder(struct catalog **out, const char *path, bool grouped,
                        const struct settings *settings, struct fault *fault);
int catalog_open_list(struct catalog **out, const char *path, struct fault *fault);
/* The same from a list's text, which is changed; paths are relative to `folder`. For tests. */
int catalog_open_text(struct catalog **out, const char *folder, char *text, size_t length,
                      struct fault *fault);
/* Labels from the text of a rank folder's list, which is changed. For tests. */
void catalog_take_labels(struct catalog *catalog, char *text, size_t length);
void catalog_close(struct catalog *catalog); /* NULL is fine */

uint64_t catalog_count(const struct catalog *catalog);
/* Name and label as they are known without reading; false: the label is in a .cls. Any thread. */
const char *catalog_name(const struct catalog *catalog, uint64_t number);
bool catalog_knows_label(const struct catalog *catalog, uint64_t number, int64_t *label);

/* Reads sample `number` < count into `buffer` of `most` + 1 bytes; a larger one is -EFBIG. Fills
 * all of `sample`; sample->error tells how it went. Any thread. */
void catalog_read(const struct catalog *catalog, uint64_t number, uint8_t *buffer, size_t most,
                  struct sample *sample);

/* Asks the kernel to read the sample's file ahead; never fails, never waits for the bytes. */
void catalog_ahead(const struct catalog *catalog, uint64_t number);

#endif
