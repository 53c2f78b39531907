/* The place to mount at. Owns nothing; takes away dead mounts of this file system, and only these.
 */
#include "mountpoint.h"

#include "../core/report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define TYPE      "fuse.shufflefs"
#define DEVICE    "/dev/fuse"
#define UNMOUNTER "fusermount3"

extern char **environ;

static bool is_dead(int fault)
{
    return fault == ENOTCONN || fault == ECONNABORTED;
}

/* Whether a folder's mount is dead. stat() alone may be answered from attributes that the kernel
 * remembers. */
static bool mount_is_dead(const char *path)
{
    struct stat status;
    int fd;

    if (stat(path, &status))
        return is_dead(errno);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return is_dead(errno);
    close(fd);
    return false;
}

/* The absolute path of a mount point that itself cannot be looked at: its folder is resolved, its
 * name kept. */
static char *resolve_dead(const char *path)
{
    char *copy = strdup(path), *absolute = NULL, *slash, *parent;
    size_t length = strlen(path);

    while (copy && length > 1 && copy[length - 1] == '/')
        copy[--length] = '\0';
    slash = copy ? strrchr(copy, '/') : NULL;
    if (slash)
        *slash = '\0';
    parent = copy ? realpath(!slash ? "." : slash == copy ? "/" : copy, NULL) : NULL;
    if (parent && asprintf(&absolute, "%s/%s", strcmp(parent, "/") ? parent : "",
                           slash ? slash + 1 : copy) < 0)
        absolute = NULL;
    free(parent);
    free(copy);
    return absolute;
}

/* The type of the mount that lies on top at `path`; false: it is no mount point. */
static bool mounted_type(const char *path, char *type, size_t room)
{
    FILE *mounts = setmntent("/proc/self/mounts", "r");
    char buffer[2 * PATH_MAX + 512];
    struct mntent entry;
    bool found = false;

    while (mounts && getmntent_r(mounts, &entry, buffer, sizeof buffer)) {
        if (strcmp(entry.mnt_dir, path) == 0) {
            snprintf(type, room, "%s", entry.mnt_type);
            found = true;
        }
    }
    if (mounts)
        endmntent(mounts);
    return found;
}

static int run_unmounter(const char *path)
{
    char *arguments[] = {UNMOUNTER, "-u", "-z", "-q", "--", (char *)path, NULL};
    pid_t child;
    int status, fault = posix_spawnp(&child, UNMOUNTER, NULL, NULL, arguments, environ);

    if (fault)
        return -fault;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

static int take_away_dead(const char *path)
{
    char type[64];
    int fault = 0;

    if (!mounted_type(path, type, sizeof type) || strcmp(type, TYPE) != 0) {
        report_error("%s: a dead mount (of type %s) is there; unmount it first", path, type);
        return -ENOTCONN;
    }
    if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW))
        fault = errno == EPERM ? run_unmounter(path) : -errno;
    if (fault)
        report_error("%s: a dead mount is there and cannot be unmounted: %s", path,
                     strerror(-fault));
    else
        report_info("%s: took away a dead mount", path);
    return fault;
}

static int refuse_full(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    bool full = false;

    if (!folder) {
        report_error("%s: %s", path, strerror(errno));
        return -EACCES;
    }
    while (!full && (entry = readdir(folder)))
        full = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    if (full)
        report_error("%s: not empty; the mount would hide what is in it", path);
    return full ? -ENOTEMPTY : 0;
}

static bool in_path(const char *program)
{
    const char *path = getenv("PATH");
    char candidate[PATH_MAX];

    for (const char *part = path ? path : ""; *part;) {
        size_t length = strcspn(part, ":");
        snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, part, program);
        if (access(candidate, X_OK) == 0)
            return true;
        part += length + (part[length] == ':');
    }
    return false;
}

static int refuse_without_right(const char *path)
{
    if (access(DEVICE, F_OK)) {
        report_error("%s: %s; load the kernel's fuse module, or give the container this device",
                     DEVICE, strerror(errno));
        return -ENODEV;
    }
    if (geteuid() == 0)
        return 0;
    if (access(DEVICE, R_OK | W_OK)) {
        report_error("%s: %s", DEVICE, strerror(errno));
        return -EACCES;
    }
    if (!in_path(UNMOUNTER)) {
        report_error("%s is not in PATH: without privilege it is needed to mount (package fuse3)",
                     UNMOUNTER);
        return -ENOENT;
    }
    if (access(path, W_OK)) {
        report_error("%s: no right to mount there: it must be writable by you", path);
        return -EACCES;
    }
    return 0;
}

static int refuse_taken(const char *path)
{
    struct stat status;
    char type[64];

    if (stat(path, &status)) {
        report_error("%s: %s", path, strerror(errno));
        return -EIO;
    }
    if (!S_ISDIR(status.st_mode)) {
        report_error("%s: not a folder", path);
        return -ENOTDIR;
    }
    if (mounted_type(path, type, sizeof type) && strcmp(type, TYPE) == 0) {
        report_error("%s: already mounted (%s)", path, type);
        return -EBUSY;
    }
    return 0;
}

int mountpoint_prepare(const char *path, char **absolute)
{
    int fault = 0;

    *absolute = NULL;
    if (!*path) {
        report_error("the mount point is an empty name");
        return -EINVAL;
    }
    *absolute = realpath(path, NULL);
    if (!*absolute && is_dead(errno))
        *absolute = resolve_dead(path);
    if (!*absolute) {
        fault = -errno;
        report_error("%s: %s%s", path, strerror(errno),
                     errno == ENOENT ? "; the mount point must be there" : "");
        return fault;
    }
    while (!fault && mount_is_dead(*absolute))
        fault = take_away_dead(*absolute);
    if (!fault)
        fault = refuse_taken(*absolute);
    if (!fault)
        fault = refuse_full(*absolute);
    if (!fault)
        fault = refuse_without_right(*absolute);
    if (fault) {
        free(*absolute);
        *absolute = NULL;
    }
    return fault;
}

void mountpoint_force(const char *path)
{
    char type[64];

    if (mounted_type(path, type, sizeof type) && strcmp(type, TYPE) == 0)
        umount2(path, MNT_FORCE | UMOUNT_NOFOLLOW);
}

void mountpoint_read_ahead(const struct stat *root, unsigned kilobytes)
{
    char path[96];
    FILE *file;

    snprintf(path, sizeof path, "/sys/class/bdi/%u:%u/read_ahead_kb", major(root->st_dev),
             minor(root->st_dev));
    file = fopen(path, "we");
    if (!file)
        return;
    fprintf(file, "%u\n", kilobytes);
    fclose(file);
}

bool mountpoint_hides(const char *mountpoint, const char *path)
{
    size_t length = strlen(mountpoint);
    char *there = strdup(path), *found = NULL;
    bool hides;

    /* The part of it that is there, links followed. */
    while (there && *there && !(found = realpath(there, NULL))) {
        char *slash = strrchr(there, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    hides = found && strncmp(found, mountpoint, length) == 0 &&
            (found[length] == '\0' || found[length] == '/');
    free(found);
    free(there);
    return hides;
}
