/* Aborts the connection of a daemon that was killed: by its control file, else by a forced unmount.
 * Owns the child and the pipe to it. */
#include "guard.h"

#include "mountpoint.h"

#include "../core/report.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

/* The child's descriptors. */
enum { NULL_0, NULL_1, NULL_2, PIPE, DEATH, FREE };

/* In which a process that can end does so. */
#define PATIENCE_MS 1000

/* Opened while the connection lives: once that is gone, the file does nothing, even if another
 * connection has got its number. -1: fusectl is not mounted here (containers). */
static int open_abort_file(dev_t device)
{
    char path[64];

    snprintf(path, sizeof path, "/sys/fs/fuse/connections/%u/abort", minor(device));
    return open(path, O_WRONLY | O_CLOEXEC);
}

/* The kernel says that the thread which forked this is gone; from anybody else the signal means
 * nothing. */
static bool is_death(pid_t daemon)
{
    struct signalfd_siginfo info;

    return read(DEATH, &info, sizeof info) == (ssize_t)sizeof info &&
           info.ssi_pid == (uint32_t)daemon;
}

/* Waits for a death without an end. True: abort; false: the pipe is closed, so the daemon closed
 * its descriptors, and the connection with them. */
static bool is_needed(pid_t daemon, int *abort_file)
{
    struct pollfd events[] = {{.fd = PIPE, .events = POLLIN}, {.fd = DEATH, .events = POLLIN}};
    bool dead = false;
    dev_t device;
    int count;

    while ((count = poll(events, dead ? 1 : 2, dead ? PATIENCE_MS : -1)) > 0) {
        if (events[0].revents) {
            if (read(PIPE, &device, sizeof device) != (ssize_t)sizeof device)
                return false;
            *abort_file = open_abort_file(device);
        } else {
            dead = is_death(daemon);
        }
    }
    return count == 0;
}

static void watch_over(pid_t daemon, const char *mountpoint)
{
    int abort_file = -1;

    if (is_needed(daemon, &abort_file) && (abort_file < 0 || write(abort_file, "1", 1) != 1))
        mountpoint_force(mountpoint);
}

/* The child's life. Nothing of the daemon's stays open in it, or who waits for the end of a pipe
 * would wait for this. */
static void be_guard(int from, pid_t daemon, const char *mountpoint, const sigset_t *death)
{
    int null = open("/dev/null", O_RDWR), signals;

    prctl(PR_SET_NAME, "shufflefs-guard");
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    if (getppid() != daemon || null < 0 || chdir("/"))
        return;
    setsid();
    signals = signalfd(-1, death, 0);
    /* Above all that are wanted, then down to their places. */
    from = fcntl(from, F_DUPFD, FREE);
    signals = fcntl(signals, F_DUPFD, FREE);
    if (from < 0 || signals < 0)
        return;
    for (int fd = NULL_0; fd <= NULL_2; fd++)
        dup2(null, fd);
    dup2(from, PIPE);
    dup2(signals, DEATH);
    closefrom(FREE);
    watch_over(daemon, mountpoint);
}

/* Forks a guard. Returns success; a failure is reported. */
static bool start(struct guard *guard)
{
    pid_t daemon = getpid();
    sigset_t all, death, before;
    int pipes[2];

    if (pipe2(pipes, O_CLOEXEC)) {
        report_warning("no guard over the mount: %s", strerror(errno));
        return false;
    }
    sigfillset(&all);
    sigemptyset(&death);
    sigaddset(&death, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    guard->child = fork();
    if (guard->child == 0) {
        be_guard(pipes[0], daemon, guard->mountpoint, &death);
        _exit(0);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(pipes[0]);
    if (guard->child < 0) {
        report_warning("no guard over the mount: %s", strerror(errno));
        close(pipes[1]);
        guard->child = 0;
        return false;
    }
    guard->to = pipes[1];
    return true;
}

void guard_start(struct guard *guard, const char *mountpoint)
{
    *guard = (struct guard){.to = -1, .mountpoint = mountpoint};
    start(guard);
}

void guard_watch(struct guard *guard, dev_t device)
{
    guard->device = device;
    /* One that has just been killed is seen to by guard_renew(). */
    if (guard->child && write(guard->to, &device, sizeof device) != (ssize_t)sizeof device &&
        errno != EPIPE)
        report_warning("no guard over the mount: %s", strerror(errno));
}

/* How it ended, for people. */
static void describe_end(int status, char *text, size_t room)
{
    if (WIFSIGNALED(status))
        snprintf(text, room, "was ended by signal %d", WTERMSIG(status));
    else
        snprintf(text, room, "ended with %d", WEXITSTATUS(status));
}

void guard_renew(struct guard *guard)
{
    char how[64];
    int status;

    if (!guard->child || waitpid(guard->child, &status, WNOHANG) != guard->child)
        return;
    close(guard->to);
    guard->child = 0;
    describe_end(status, how, sizeof how);
    if (guard->again == GUARDS_MOST) {
        report_warning("%s: its guard (process shufflefs-guard) %s, once too often: there is none "
                       "from now on, and a reader may hang when the daemon is killed",
                       guard->mountpoint, how);
        return;
    }
    guard->again++;
    guard->owned = start(guard);
    if (!guard->owned)
        return;
    report_warning("%s: its guard (process shufflefs-guard) %s; another one was started",
                   guard->mountpoint, how);
    if (guard->device)
        guard_watch(guard, guard->device);
}

void guard_release(struct guard *guard)
{
    if (guard->owned)
        guard_end(guard);
}

void guard_end(struct guard *guard)
{
    if (!guard->child)
        return;
    close(guard->to);
    while (waitpid(guard->child, NULL, 0) < 0 && errno == EINTR)
        ;
    guard->child = 0;
}
