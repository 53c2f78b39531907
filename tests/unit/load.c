/* Helpers of the loader's tests. */
#include "unit.h"

#include "load.h"
#include "picture.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void load_folder_make(struct load_folder *folder)
{
    strcpy(folder->path, "/tmp/shuffleload-unit.XXXXXX");
    cr_assert(mkdtemp(folder->path) != NULL);
}

static int remove_one(const char *path, const struct stat *stat_, int type, struct FTW *walk)
{
    (void)stat_;
    (void)type;
    (void)walk;
    return remove(path);
}

void load_folder_remove(struct load_folder *folder)
{
    nftw(folder->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *load_path(const struct load_folder *folder, const char *name)
{
    static char texts[8][512];
    static unsigned turn;
    char *text = texts[turn++ % 8];

    snprintf(text, sizeof texts[0], "%s/%s", folder->path, name);
    return text;
}

void load_write(const struct load_folder *folder, const char *name, const void *bytes, size_t size)
{
    char path[512];
    FILE *file;

    snprintf(path, sizeof path, "%s", load_path(folder, name));
    for (char *slash = path + strlen(folder->path) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    file = fopen(path, "wb");
    cr_assert(file != NULL, "%s", path);
    cr_assert_eq(fwrite(bytes, 1, size, file), size);
    cr_assert_eq(fclose(file), 0);
}

unsigned char *load_picture(unsigned number, size_t *size)
{
    int width = 32 + (int)(number * 7 % 23), height = 30 + (int)(number * 5 % 19);
    uint8_t *pixels = picture_pixels(width, height, 3, number + 1);
    struct picture_jpeg how = {.channels = 3, .h = 2, .v = 2};
    struct picture_file file = picture_jpeg(pixels, width, height, &how);

    free(pixels);
    *size = file.size;
    return file.bytes;
}

void load_write_pictures(const struct load_folder *folder, const char *format, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char name[128];
        size_t size;
        unsigned char *bytes = load_picture(i, &size);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(name, sizeof name, format, i);
#pragma GCC diagnostic pop
        load_write(folder, name, bytes, size);
        free(bytes);
    }
}

static void add_member(struct archive *archive, const char *name, const void *bytes, size_t size)
{
    struct archive_entry *entry = archive_entry_new();

    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    cr_assert_eq(archive_write_header(archive, entry), ARCHIVE_OK);
    cr_assert_eq(archive_write_data(archive, bytes, size), (la_ssize_t)size);
    archive_entry_free(entry);
}

void load_write_tar(const struct load_folder *folder, const char *name, unsigned count,
                    unsigned bad)
{
    struct archive *archive = archive_write_new();

    archive_write_set_format_ustar(archive);
    cr_assert_eq(archive_write_open_filename(archive, load_path(folder, name)), ARCHIVE_OK);
    for (unsigned i = 0; i < count; i++) {
        char key[64], member[80], label[16];
        size_t size;
        unsigned char *bytes = load_picture(i, &size);

        snprintf(key, sizeof key, "%08u/k%03u", i, i);
        snprintf(label, sizeof label, "%u\n", 10 * i);
        snprintf(member, sizeof member, "%s.cls", key);
        if (i % 2)
            add_member(archive, member, label, strlen(label));
        snprintf(member, sizeof member, "%s.jpg", key);
        add_member(archive, member, i == bad ? (const void *)"no picture" : bytes,
                   i == bad ? 10 : size);
        snprintf(member, sizeof member, "%s.cls", key);
        if (i % 2 == 0)
            add_member(archive, member, label, strlen(label));
        free(bytes);
    }
    cr_assert_eq(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
}

struct sl_config load_config(const char *path)
{
    struct sl_config config = SL_CONFIG_INIT;

    config.path = path;
    config.batch_size = 8;
    config.width = config.height = 24;
    config.flip = 0.5;
    config.workers = 2;
    config.file_most = 1 << 20;
    config.stream_bytes = 1 << 20;
    return config;
}

struct sl_loader *load_open(const struct sl_config *config)
{
    struct sl_loader *loader;
    int error = sl_open(&loader, config);

    cr_assert_eq(error, 0, "%s", sl_error(NULL));
    return loader;
}

uint64_t load_hash(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
    return hash;
}

uint64_t load_batch_hash(const struct sl_batch *batch)
{
    size_t element = batch->output == SL_FLOAT32_NCHW                                        ? 4
                     : batch->output == SL_FLOAT16_NCHW || batch->output == SL_BFLOAT16_NCHW ? 2
                                                                                             : 1;
    size_t row = (size_t)batch->strides[0] * element;
    uint64_t hash = load_hash(LOAD_HASH, batch->data, batch->asked * row);

    hash = load_hash(hash, &batch->count, sizeof batch->count);
    hash = load_hash(hash, &batch->after, sizeof batch->after);
    hash = load_hash(hash, batch->shape, sizeof batch->shape);
    hash = load_hash(hash, batch->labels, batch->asked * sizeof *batch->labels);
    if (batch->lengths)
        hash = load_hash(hash, batch->lengths, batch->asked * sizeof *batch->lengths);
    if (batch->mask)
        hash = load_hash(hash, batch->mask, batch->asked * row);
    hash = load_hash(hash, batch->statuses, batch->asked * sizeof *batch->statuses);
    hash = load_hash(hash, batch->positions, batch->asked * sizeof *batch->positions);
    for (uint64_t i = 0; i < batch->asked; i++)
        hash = load_hash(hash, batch->names[i], strlen(batch->names[i]));
    return hash;
}

uint64_t load_epoch(struct sl_loader *loader, uint64_t epoch)
{
    uint64_t hash = LOAD_HASH, number = 0;
    struct sl_batch *batch;
    int status = sl_set_epoch(loader, epoch);

    cr_assert_eq(status, 0, "%s", sl_error(loader));
    while ((status = sl_next(loader, &batch, 60000)) == 0 || status == SL_PARTIAL) {
        uint64_t one = load_batch_hash(batch);

        cr_assert_eq(batch->epoch, epoch);
        cr_assert_eq(batch->number, number++);
        hash = load_hash(hash, &one, sizeof one);
        cr_assert_eq(sl_release(loader, batch), 0);
    }
    cr_assert_eq(status, SL_END, "%s", sl_error(loader));
    return hash;
}

uint64_t load_once(const struct sl_config *config)
{
    struct sl_loader *loader = load_open(config);
    uint64_t hash = load_epoch(loader, config->epoch);

    sl_close(loader);
    return hash;
}
