/* Reads just the headers of plain ustar shards, one pread each: what an index cannot do without.
 *
 * usage: read-headers SHARD...
 *
 * Prints `MEMBERS SECONDS`. Exit status: 0, 1 when a shard cannot be read, 2 for wrong arguments.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TAR_BLOCK   512
#define SIZE_OFFSET 124

static long read_shard(const char *path)
{
    char header[TAR_BLOCK];
    int file = open(path, O_RDONLY | O_CLOEXEC);
    long members = 0;
    ssize_t got = 0;

    if (file < 0)
        return -1;
    for (off_t at = 0; (got = pread(file, header, sizeof header, at)) == TAR_BLOCK && header[0];
         members++) {
        off_t size = strtol(header + SIZE_OFFSET, NULL, 8);
        at += TAR_BLOCK + (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    }
    close(file);
    return got < 0 ? -1 : members;
}

int main(int count, char **arguments)
{
    struct timespec start, end;
    long members = 0;

    if (count < 2) {
        fprintf(stderr, "usage: read-headers SHARD...\n");
        return 2;
    }
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 1; i < count; i++) {
        long more = read_shard(arguments[i]);
        if (more < 0) {
            fprintf(stderr, "read-headers: %s: %s\n", arguments[i], strerror(errno));
            return 1;
        }
        members += more;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%ld %.6f\n", members,
           (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9);
    return 0;
}
