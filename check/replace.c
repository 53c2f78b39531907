/* Files under a temporary name until they are whole. Owns that name and the stream. */
#include "replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Takes `fd` over. 0 or a negative errno. */
static int write_all(int fd, void (*fill)(FILE *to, const void *context), const void *context)
{
    FILE *file = fdopen(fd, "w");
    int fault = 0;

    if (!file) {
        fault = -errno;
        close(fd);
        return fault;
    }
    fill(file, context);
    if (fflush(file) || ferror(file) || fsync(fd))
        fault = errno ? -errno : -EIO;
    if (fclose(file) && !fault)
        fault = -errno;
    return fault;
}

int check_replace(const char *path, void (*fill)(FILE *to, const void *context),
                  const void *context)
{
    mode_t mask = umask(0);
    char *temporary;
    int fd, fault;

    umask(mask);
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
        return -ENOMEM;
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        fault = -errno;
    } else {
        /* mkostemp() makes it for its owner alone. */
        fault = fchmod(fd, 0666 & ~mask) ? -errno : 0;
        if (fault)
            close(fd);
        else
            fault = write_all(fd, fill, context);
        if (!fault && rename(temporary, path))
            fault = -errno;
        if (fault)
            unlink(temporary);
    }
    free(temporary);
    return fault;
}
