/* Saved class texts of json members. Owns the file beside the saved index, and its lock while it is
 * written; knows nothing of JSON. */
#include "json_saved.h"

#include "cache.h"
#include "json_labels.h"
#include "report.h"
#include "shards.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define BYTE_ORDER_MARK 0x01020304u

static const char magic[16] = "shufflefs label";

static void add_number(XXH3_state_t *hash, uint64_t number)
{
    number = htole64(number);
    XXH3_64bits_update(hash, &number, sizeof number);
}

static void add_time(XXH3_state_t *hash, const struct timespec *at)
{
    add_number(hash, (uint64_t)at->tv_sec);
    add_number(hash, (uint64_t)at->tv_nsec);
}

static int identify(const struct index *index, const char *key, uint64_t *identity)
{
    XXH3_state_t *hash = XXH3_createState();

    if (!hash)
        return -ENOMEM;
    XXH3_64bits_reset(hash);
    add_number(hash, JSON_LABELS_VERSION);
    XXH3_64bits_update(hash, key, strlen(key) + 1);
    for (size_t i = 0; i < index->shard_count; i++) {
        const struct index_shard *shard = &index->shards[i];
        char name[SHARDS_NAME];
        shards_base_name(name, shard->path);
        XXH3_64bits_update(hash, name, strlen(name) + 1);
        add_number(hash, shard->hash);
        add_number(hash, shard->size);
        add_time(hash, &shard->modified);
        add_time(hash, &shard->changed);
    }
    *identity = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return 0;
}

static int sum(const struct json_saved_header *header, const char *texts, uint64_t *checksum)
{
    struct json_saved_header without = *header;
    XXH3_state_t *hash = XXH3_createState();

    if (!hash)
        return -ENOMEM;
    without.checksum = 0;
    XXH3_64bits_reset(hash);
    XXH3_64bits_update(hash, &without, sizeof without);
    XXH3_64bits_update(hash, texts, header->bytes);
    *checksum = XXH3_64bits_digest(hash);
    XXH3_freeState(hash);
    return 0;
}

static char *place_of(const struct index *index, const char *key, const char *ending)
{
    char *path;

    return asprintf(&path, "%s.%016llx.labels%s", index->place,
                    (unsigned long long)XXH3_64bits(key, strlen(key)), ending) < 0
               ? NULL
               : path;
}

/* 0; -EINVAL: none of ours; -EBADMSG: damaged. Zeros are what a power cut leaves. */
static int read_header(int fd, struct json_saved_header *header)
{
    static const char zeros[sizeof magic];
    struct stat status;
    int fault;

    if (fstat(fd, &status))
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -EINVAL;
    if (status.st_size == 0)
        return -EBADMSG;
    if ((size_t)status.st_size < sizeof *header)
        return -EINVAL;
    fault = cache_read(fd, header, sizeof *header, 0);
    if (fault)
        return fault;
    if (memcmp(header->magic, zeros, sizeof zeros) == 0)
        return -EBADMSG;
    if (memcmp(header->magic, magic, sizeof magic) != 0)
        return -EINVAL;
    return (uint64_t)status.st_size - sizeof *header == header->bytes ? 0 : -EBADMSG;
}

/* One text a sample, and nothing else. */
static bool texts_fit(const char *texts, uint64_t bytes, uint64_t samples)
{
    uint64_t at = 0;

    for (uint64_t s = 0; s < samples; s++) {
        const char *end = at < bytes ? memchr(texts + at, '\0', bytes - at) : NULL;
        if (!end)
            return false;
        at = (uint64_t)(end - texts) + 1;
    }
    return at == bytes;
}

/* 0; -ESTALE: of other shards or of another version. */
static int read_texts(int fd, const struct index *index, uint64_t identity, char **texts)
{
    struct json_saved_header header = {0};
    uint64_t checksum = 0;
    int fault = read_header(fd, &header);

    if (fault)
        return fault;
    if (header.version != JSON_LABELS_VERSION || header.byte_order != BYTE_ORDER_MARK ||
        header.identity != identity || header.samples != index->sample_count)
        return -ESTALE;
    *texts = malloc(header.bytes + 1);
    if (!*texts)
        return -ENOMEM;
    fault = cache_read(fd, *texts, header.bytes, sizeof header);
    if (!fault)
        fault = sum(&header, *texts, &checksum);
    if (!fault &&
        (checksum != header.checksum || !texts_fit(*texts, header.bytes, index->sample_count)))
        fault = -EBADMSG;
    if (fault) {
        free(*texts);
        *texts = NULL;
    }
    return fault;
}

int json_saved_load(const struct index *index, const char *key, char **texts)
{
    char *path = index->place ? place_of(index, key, "") : NULL;
    uint64_t identity;
    int fd, fault;

    *texts = NULL;
    if (!path)
        return index->place ? -ENOMEM : -ENOENT;
    fault = identify(index, key, &identity);
    fd = fault ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (!fault)
        fault = fd < 0 ? -errno : read_texts(fd, index, identity, texts);
    if (fd >= 0)
        close(fd);
    if (fault == -EBADMSG)
        report_warning("labels: %s: damaged, made anew", path);
    else if (fault && fault != -ENOENT && fault != -ESTALE && fault != -ENOMEM && fault != -EINVAL)
        report_warning("labels: %s: %s; the labels are read anew", path, strerror(-fault));
    free(path);
    return fault && fault != -ENOMEM ? -ENOENT : fault;
}

static int write_all(int fd, const void *from, size_t bytes, size_t to)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t put = pwrite(fd, (const char *)from + at, bytes - at, (off_t)(to + at));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        at += (size_t)put;
    }
    return 0;
}

static int write_file(int fd, const struct index *index, const char *key, const char *texts,
                      size_t bytes)
{
    struct json_saved_header header = {.version = JSON_LABELS_VERSION,
                                       .byte_order = BYTE_ORDER_MARK,
                                       .samples = index->sample_count,
                                       .bytes = bytes};
    int fault = identify(index, key, &header.identity);

    memcpy(header.magic, magic, sizeof magic);
    if (!fault)
        fault = sum(&header, texts, &header.checksum);
    if (!fault && ftruncate(fd, 0))
        fault = -errno;
    if (!fault)
        fault = write_all(fd, texts, bytes, sizeof header);
    return fault ? fault : write_all(fd, &header, sizeof header, 0);
}

/* Whether what stands at the path may be replaced: nothing, or what read_header() knows. */
static bool is_ours(const char *path)
{
    struct json_saved_header header = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
    int fault;

    if (fd < 0)
        return errno == ENOENT;
    fault = read_header(fd, &header);
    close(fd);
    return fault == 0 || fault == -EBADMSG;
}

static bool is_still(int fd, const char *path)
{
    struct stat mine, there;

    return fstat(fd, &mine) == 0 && stat(path, &there) == 0 && mine.st_ino == there.st_ino &&
           mine.st_dev == there.st_dev;
}

/* As core/store.c does it: what a killed writer left is taken over by the next one, a living one
 * holds a lock. No fsync: the checksum tells what a power cut leaves. */
static int keep(const struct index *index, const char *key, const char *texts, size_t bytes,
                const char *path, const char *fresh)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(fresh, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0644);
    int fault = fd < 0 ? -errno : 0;

    if (!fault && fcntl(fd, F_OFD_SETLK, &whole))
        fault = errno == EACCES || errno == EAGAIN ? -EBUSY : -errno;
    if (!fault && !is_still(fd, fresh))
        fault = -EBUSY;
    if (!fault) {
        fault = write_file(fd, index, key, texts, bytes);
        if (!fault && (fchmod(fd, 0444) || rename(fresh, path)))
            fault = -errno;
        if (fault)
            unlink(fresh);
    }
    if (fd >= 0)
        close(fd);
    return fault;
}

void json_saved_keep(const struct index *index, const char *key, const char *texts, size_t bytes)
{
    char *path, *fresh;
    int fault;

    if (!index->place)
        return;
    path = place_of(index, key, "");
    fresh = place_of(index, key, ".new");
    if (!path || !fresh)
        fault = -ENOMEM;
    else if (!is_ours(path) || !is_ours(fresh))
        fault = -EINVAL;
    else
        fault = keep(index, key, texts, bytes, path, fresh);
    if (fault == -EINVAL)
        report_warning("labels: %s: not a file of this program's, so it is not replaced; the "
                       "labels are not saved",
                       path);
    else if (fault && fault != -EBUSY)
        report_warning("labels: %s: %s; the labels are not saved", path ? path : index->place,
                       strerror(-fault));
    free(path);
    free(fresh);
}
