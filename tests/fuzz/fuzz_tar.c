/* libFuzzer's entry: any bytes as a tar stream. The first byte chooses the configuration, and
 * whether headers' checksums are put right first: without that, nothing but the checksums would be
 * tried. With FUZZ_SEEDS=DIR the tars to begin from are written there. */
#include "../../loader/tarstream.h"
#include "tar_bytes.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY = 1 << 16, SEED_MOST = 32768 };
enum { AS_BYTES = 1, PASSING = 2, AS_IT_IS = 4, SMALL = 8 };

static void write_seed(const char *folder, int number, int format, int filter, int choice)
{
    static char long_name[300];
    uint8_t seed[SEED_MOST + 1];
    struct archive *archive = archive_write_new();
    size_t used = 0;

    memset(long_name, 'n', sizeof long_name - 1);
    memcpy(long_name + 280, "/a.jpg", 7);
    archive_write_set_format(archive, format);
    archive_write_add_filter(archive, filter);
    archive_write_set_bytes_per_block(archive, BLOCK);
    archive_write_set_bytes_in_last_block(archive, 1);
    if (archive_write_open_memory(archive, seed + 1, SEED_MOST, &used) != ARCHIVE_OK)
        abort();
    tar_add(archive, "0/a.jpg", "picture", AE_IFREG);
    tar_add(archive, "0/a.cls", "3\n", AE_IFREG);
    if (number % 3 == 0) {
        tar_add(archive, "folder/", "", AE_IFDIR);
        tar_add(archive, "./1/b.cls", " 12 ", AE_IFREG);
        tar_add(archive, "./1/b.TXT", "text", AE_IFREG);
        tar_add(archive, "./1/b.png", "", AE_IFREG);
    }
    if (number % 3 == 1 && format != ARCHIVE_FORMAT_TAR_USTAR)
        tar_add(archive, long_name, "far away", AE_IFREG);
    if (number % 3 == 2) {
        tar_add(archive, "._x.jpg", "litter", AE_IFREG);
        tar_add(archive, "none", "no extension", AE_IFREG);
    }
    archive_write_close(archive);
    archive_write_free(archive);
    seed[0] = (uint8_t)choice;
    seed_write(folder, "tar", (size_t)number, seed, used + 1);
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    static const int formats[] = {ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE,
                                  ARCHIVE_FORMAT_TAR_GNUTAR};
    const char *folder = getenv("FUZZ_SEEDS");

    (void)count;
    (void)arguments;
    for (int i = 0; folder && i < 24; i++)
        write_seed(folder, i, formats[i / 3 % 3],
                   i >= 18 ? ARCHIVE_FILTER_GZIP : ARCHIVE_FILTER_NONE,
                   (i >= 18 ? AS_IT_IS : 0) + i % 4);
    return 0;
}

/* Its end is the end of what there is, so that a byte too far is seen. */
static void *take(void *context, size_t size)
{
    return size <= MEMORY ? (uint8_t *)context + MEMORY - size : NULL;
}

static void read_all(struct tarstream *stream, const struct tarstream_memory *room, uint64_t most)
{
    struct sample sample;
    struct fault fault = {""};
    int result;

    while ((result = tarstream_next(stream, room, &sample, &fault)) == 1) {
        if (!memchr(sample.name, '\0', sizeof sample.name) || !*sample.name || sample.size > most ||
            sample.error > 0)
            abort();
    }
    if (result > 0 || (result < 0 && result != -ECANCELED && !fault.text[0]))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sl_config config = SL_CONFIG_INIT;
    static uint8_t memory[MEMORY];
    struct tarstream_memory room = {take, memory};
    struct settings settings;
    struct tarstream *stream;
    struct fault fault = {""};
    uint8_t *tar;

    if (!size)
        return 0;
    config.path = "fuzz.tar";
    config.output = data[0] & AS_BYTES ? SL_BYTES : SL_UINT8_NHWC;
    config.file_most = data[0] & SMALL ? 100 : MEMORY;
    config.workers = 1;
    if (settings_make(&settings, &config, &fault))
        abort();
    /* Of the exact size, so that a byte too far is seen. */
    tar = malloc(size - 1);
    if (!tar)
        abort();
    memcpy(tar, data + 1, size - 1);
    if (!(data[0] & AS_IT_IS))
        mend_checksums(tar, size - 1);
    if (tarstream_open_bytes(&stream, tar, size - 1, &settings, &fault) == 0) {
        read_all(stream, &room, config.file_most);
        if (data[0] & PASSING)
            room.take = NULL;
        if (tarstream_rewind(stream, &fault))
            abort();
        read_all(stream, &room, config.file_most);
        tarstream_close(stream);
    }
    settings_free(&settings);
    free(tar);
    return 0;
}
