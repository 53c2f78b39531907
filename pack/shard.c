/* A shard's file. Owns the descriptor and the temporary name. What has its final name is whole, and
 * stays so when the power fails right after: bytes reach storage before the name does. */
#include "shard.h"

#include "../core/report.h"
#include "header.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Storage is set to work each time so much was written, so that little is left to wait for at the
 * end. */
#define START_EVERY ((uint64_t)8 << 20)

static int fail(const struct pack_shard *shard, const char *name, int fault)
{
    report_error("%s/%s: offset %llu: %s", shard->folder, name, (unsigned long long)shard->bytes,
                 strerror(fault));
    return -fault;
}

void pack_shard_part(const char *name, char *part)
{
    snprintf(part, PACK_NAME_MAX + 8, ".%s.part", name);
}

int pack_shard_begin(struct pack_shard *shard, const char *folder, int folder_fd,
                     const struct pack_pattern *pattern, uint64_t number)
{
    *shard = (struct pack_shard){
        .folder = folder, .folder_fd = folder_fd, .fd = -1, .number = number};
    pack_pattern_name(pattern, number, shard->name);
    pack_shard_part(shard->name, shard->part);
    /* One that a killed run left is not written over: somebody may hold it open. */
    if (unlinkat(folder_fd, shard->part, 0) && errno != ENOENT)
        return fail(shard, shard->part, errno);
    shard->fd = openat(folder_fd, shard->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (shard->fd < 0)
        return fail(shard, shard->part, errno);
    return 0;
}

int pack_shard_write(struct pack_shard *shard, const void *bytes, size_t size)
{
    const char *from = bytes;

    while (size) {
        ssize_t put = write(shard->fd, from, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fail(shard, shard->part, put < 0 ? errno : EIO);
        from += put;
        size -= (size_t)put;
        shard->bytes += (size_t)put;
    }
    if (shard->bytes - shard->started >= START_EVERY) {
        /* Advice: where it cannot be followed, fsync() has more to do, and tells of faults. */
        sync_file_range(shard->fd, (off_t)shard->started, (off_t)(shard->bytes - shard->started),
                        SYNC_FILE_RANGE_WRITE);
        shard->started = shard->bytes;
    }
    return 0;
}

int pack_shard_seal(struct pack_shard *shard, struct pack_identity *identity)
{
    static const char trailer[PACK_TRAILER];
    struct stat status;
    int fault = pack_shard_write(shard, trailer, sizeof trailer);

    if (fault)
        return fault;
    /* The time too: it is part of the identity. */
    if (fsync(shard->fd) || fstat(shard->fd, &status))
        return fail(shard, shard->part, errno);
    *identity = (struct pack_identity){
        .bytes = (uint64_t)status.st_size,
        .inode = status.st_ino,
        .seconds = status.st_mtim.tv_sec,
        .nanoseconds = (int32_t)status.st_mtim.tv_nsec,
    };
    return 0;
}

int pack_shard_give_name(int folder_fd, const char *part, const char *name, bool force)
{
    if (force)
        return renameat(folder_fd, part, folder_fd, name);
    if (renameat2(folder_fd, part, folder_fd, name, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* A file system that cannot see to it by itself. */
    if (faccessat(folder_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    return renameat(folder_fd, part, folder_fd, name);
}

int pack_shard_rename(struct pack_shard *shard, bool force)
{
    int fd = shard->fd;

    if (pack_shard_give_name(shard->folder_fd, shard->part, shard->name, force))
        return fail(shard, shard->name, errno);
    shard->fd = -1;
    if (close(fd))
        return fail(shard, shard->name, errno);
    /* Some file systems cannot sync a folder: EINVAL. */
    if (fsync(shard->folder_fd) && errno != EINVAL)
        return fail(shard, shard->name, errno);
    return 0;
}

void pack_shard_abandon(struct pack_shard *shard)
{
    if (shard->fd < 0)
        return;
    close(shard->fd);
    shard->fd = -1;
    if (unlinkat(shard->folder_fd, shard->part, 0) && errno != ENOENT)
        report_warning("%s/%s: left behind: %s", shard->folder, shard->part, strerror(errno));
}
