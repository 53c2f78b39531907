/* Makes shards of many tiny members, as fast as the disk takes them: for the figures that count
 * names, not bytes.
 *
 * usage: make-tiny OUT -n SAMPLES -s SHARDS [-b BYTES]
 *
 * OUT/tiny-NNNNNN.tar together hold SAMPLES one-field samples, KEY.jpg, of BYTES bytes (100). A key
 * is a running number of 10 to 14 digits, 12 on average. Plain ustar, written in 1 MiB blocks, the
 * same bytes every time. Exit status: 0, 1 when a file could not be written, 2 for wrong arguments.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TAR_BLOCK   512
#define WRITE_BYTES (1 << 20)
#define BYTES_MAX   (1 << 16)

struct ustar {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct ustar) == TAR_BLOCK, "a ustar header is one block");

struct shard {
    int file;
    size_t used;
    char *buffer; /* WRITE_BYTES */
};

static bool shard_flush(struct shard *shard)
{
    for (size_t done = 0; done < shard->used;) {
        ssize_t wrote = write(shard->file, shard->buffer + done, shard->used - done);
        if (wrote < 0)
            return false;
        done += (size_t)wrote;
    }
    shard->used = 0;
    return true;
}

/* Appends one block; a multiple of blocks fills the buffer exactly. */
static bool shard_append(struct shard *shard, const void *block)
{
    memcpy(shard->buffer + shard->used, block, TAR_BLOCK);
    shard->used += TAR_BLOCK;
    return shard->used < WRITE_BYTES || shard_flush(shard);
}

static void fill_header(struct ustar *header, uint64_t sample, unsigned bytes)
{
    unsigned sum = 0;

    memset(header, 0, sizeof *header);
    snprintf(header->name, sizeof header->name, "%0*" PRIu64 ".jpg", (int)(10 + sample % 5),
             sample);
    memcpy(header->mode, "0000644", 8);
    memcpy(header->uid, "0000000", 8);
    memcpy(header->gid, "0000000", 8);
    snprintf(header->size, sizeof header->size, "%011o", bytes);
    memcpy(header->mtime, "00000000000", 12);
    header->type = '0';
    memcpy(header->magic, "ustar", 6);
    memcpy(header->version, "00", 2);
    /* The sum is taken with its own field blank. */
    memset(header->checksum, ' ', sizeof header->checksum);
    for (size_t i = 0; i < sizeof *header; i++)
        sum += ((const unsigned char *)header)[i];
    snprintf(header->checksum, sizeof header->checksum, "%06o", sum);
}

static bool append_sample(struct shard *shard, uint64_t sample, unsigned bytes)
{
    struct ustar header;
    char data[TAR_BLOCK];

    fill_header(&header, sample, bytes);
    if (!shard_append(shard, &header))
        return false;
    for (unsigned done = 0; done < bytes; done += TAR_BLOCK) {
        unsigned part = bytes - done < TAR_BLOCK ? bytes - done : TAR_BLOCK;
        memset(data, 0, sizeof data);
        memset(data, 'a' + (int)(sample % 26), part);
        if (!shard_append(shard, data))
            return false;
    }
    return true;
}

static bool write_shard(struct shard *shard, uint64_t first, uint64_t end, unsigned bytes)
{
    static const char zeros[TAR_BLOCK];

    for (uint64_t sample = first; sample < end; sample++)
        if (!append_sample(shard, sample, bytes))
            return false;
    return shard_append(shard, zeros) && shard_append(shard, zeros) && shard_flush(shard);
}

static bool make_shard(const char *path, uint64_t first, uint64_t end, unsigned bytes)
{
    struct shard shard = {.file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    bool made = false;

    if (shard.file >= 0) {
        shard.buffer = malloc(WRITE_BYTES);
        made = shard.buffer && write_shard(&shard, first, end, bytes);
        free(shard.buffer);
        if (close(shard.file) < 0)
            made = false;
    }
    if (!made)
        fprintf(stderr, "make-tiny: %s: %s\n", path, strerror(errno));
    return made;
}

static bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = strtoull(text, &end, 10);
    if (*text >= '0' && *text <= '9' && !*end && !errno && *value >= least && *value <= most)
        return true;
    fprintf(stderr, "make-tiny: %s: not a number from %" PRIu64 " to %" PRIu64 "\n", text, least,
            most);
    return false;
}

int main(int argc, char **argv)
{
    uint64_t samples = 0, shards = 0, bytes = 100;
    char path[4096];
    int option;

    while ((option = getopt(argc, argv, "n:s:b:")) != -1) {
        if (option == '?' ||
            !parse_number(optarg, option != 'b', option == 'b' ? BYTES_MAX : 10000000000,
                          option == 'n'   ? &samples
                          : option == 's' ? &shards
                                          : &bytes))
            return 2;
    }
    if (argc - optind != 1 || !samples || !shards || shards > samples) {
        fputs("usage: make-tiny OUT -n SAMPLES -s SHARDS [-b BYTES]\n", stderr);
        return 2;
    }
    if (mkdir(argv[optind], 0755) < 0 && errno != EEXIST) {
        fprintf(stderr, "make-tiny: %s: %s\n", argv[optind], strerror(errno));
        return 1;
    }
    for (uint64_t i = 0; i < shards; i++) {
        int length = snprintf(path, sizeof path, "%s/tiny-%06" PRIu64 ".tar", argv[optind], i);
        if (length < 0 || (size_t)length >= sizeof path) {
            fputs("make-tiny: OUT is too long a path\n", stderr);
            return 2;
        }
        if (!make_shard(path, samples * i / shards, samples * (i + 1) / shards, (unsigned)bytes))
            return 1;
    }
    return 0;
}
