/* The folder of unpacked copies, as all of its parts use it: names, the lock, waiting. Owns
 * nothing.
 */
#include "copies_folder.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#define POLL_NS 20000000L

void copies_pause(void)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};

    nanosleep(&pause, NULL);
}

void copies_file(char file[COPIES_FILE], const char *name, const char *ending)
{
    snprintf(file, COPIES_FILE, "%s%s", name, ending);
}

bool copies_is_still(const struct copies *copies, int fd, const char *file)
{
    struct stat mine, there;

    return fstat(fd, &mine) == 0 &&
           fstatat(copies->folder, file, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
}

bool copies_lock(struct copies *copies)
{
    uint64_t end = clock_now_ns() + copies->patience_ns;

    pthread_mutex_lock(&copies->mutex);
    if (!copies->locks)
        return false;
    while (flock(copies->lock, LOCK_EX | LOCK_NB)) {
        if (errno == EINTR)
            continue;
        if (errno != EWOULDBLOCK || copies->lock_hangs || clock_now_ns() > end) {
            copies->lock_hangs = true;
            return false;
        }
        copies_pause();
    }
    copies->lock_hangs = false;
    return true;
}

void copies_unlock(struct copies *copies, bool locked)
{
    if (locked)
        flock(copies->lock, LOCK_UN);
    pthread_mutex_unlock(&copies->mutex);
}
