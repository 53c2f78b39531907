/* Where the user's caches stand. Owns nothing. */
#include "cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes `path` and every folder on the way to it. */
static int make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
        int made;
        if (slash)
            *slash = '\0';
        made = mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -errno;
        /* A folder on the way that is there may stand where nothing can be made. */
        if (made == -EROFS && access(path, F_OK) == 0)
            made = 0;
        if (slash)
            *slash = '/';
        if (made || !slash)
            return made;
    }
}

int cache_folder(const char *name, char **path)
{
    const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
    int length;

    *path = NULL;
    if (base && base[0] == '/')
        length = asprintf(path, "%s/shufflefs/%s", base, name);
    else if (home && home[0] == '/' && home[1])
        length = asprintf(path, "%s/.cache/shufflefs/%s", home, name);
    else if (geteuid() == 0)
        length = asprintf(path, "/var/cache/shufflefs/%s", name);
    else
        return -ENOENT;
    if (length < 0) {
        *path = NULL;
        return -ENOMEM;
    }
    return make_folders(*path);
}

int cache_read(int fd, void *to, size_t bytes, size_t from)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t got = pread(fd, (char *)to + at, bytes - at, (off_t)(from + at));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? -errno : -EBADMSG;
        at += (size_t)got;
    }
    return 0;
}
