/* For the loader's tests: folders of small pictures, tars of them, and an epoch as one number. */
#ifndef SHUFFLEFS_UNIT_LOAD_H
#define SHUFFLEFS_UNIT_LOAD_H

#include "../../loader/shuffleload.h"

#include <stddef.h>
#include <stdint.h>

struct load_folder {
    char path[64];
};

void load_folder_make(struct load_folder *folder);
void load_folder_remove(struct load_folder *folder);

/* "FOLDER/NAME": one of a few texts that take turns. */
const char *load_path(const struct load_folder *folder, const char *name);

/* Writes a file, and the folders on its way. */
void load_write(const struct load_folder *folder, const char *name, const void *bytes, size_t size);

/* A JPEG of its own for each number, of about 40 x 40; free() it. */
unsigned char *load_picture(unsigned number, size_t *size);

/* COUNT pictures: FORMAT (one %u) with their number gives their names. */
void load_write_pictures(const struct load_folder *folder, const char *format, unsigned count);

/* COUNT pictures as NNNNNNNN/kNNN.jpg with a .cls of 10 * number after or (every other one) before
 * it. `bad`: the number of one that is no picture; UINT32_MAX: none. */
void load_write_tar(const struct load_folder *folder, const char *name, unsigned count,
                    unsigned bad);

/* A small configuration: 24 x 24, batches of 8, 2 workers. */
struct sl_config load_config(const char *path);

/* Opens, or fails the test with the library's text. */
struct sl_loader *load_open(const struct sl_config *config);

/* FNV-1a over more bytes. Start with LOAD_HASH. */
#define LOAD_HASH 14695981039346656037u
uint64_t load_hash(uint64_t hash, const void *bytes, size_t size);

/* All that a batch says: content, labels, lengths, mask, names, statuses, positions. */
uint64_t load_batch_hash(const struct sl_batch *batch);

/* Runs an epoch to its end: a hash of all batches in order. */
uint64_t load_epoch(struct sl_loader *loader, uint64_t epoch);

/* Opens, runs epoch 0, closes. */
uint64_t load_once(const struct sl_config *config);

#endif
