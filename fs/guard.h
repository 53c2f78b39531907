/* A process that sees to it that the mount dies with its daemon.
 *
 * The kernel ends a FUSE connection when the last descriptor of it closes, and a process that is
 * killed closes its descriptors when the last of its threads is gone. A pusher (fs/push.h) may just
 * then wait in the kernel for a page that a reader has locked, until the reader's READ is answered;
 * which nobody will do any more. So neither ends, nor can a signal end them, and the mount hangs
 * instead of answering ENOTCONN. The guard gets a signal from the kernel as soon as the daemon's
 * main thread is gone, and aborts the connection; then every READ fails, and all end.
 *
 * It is forked before anything is opened or read, so that it shares next to no memory and no
 * descriptor of the connection; it blocks all signals but SIGKILL. Whoever kills it together with
 * the daemon (a container's end does) may have to `umount -f`. */
#ifndef SHUFFLEFS_GUARD_H
#define SHUFFLEFS_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

struct guard {
    pid_t child; /* 0: there is none */
    int to;      /* the pipe that it listens to */
    const char *mountpoint;
    dev_t device;   /* of the mount's files; 0: it does not answer yet */
    unsigned again; /* guards that were started after the first one */
    bool owned;     /* by the thread that started it: see guard_renew() */
};

/* Forks the guard of what will be mounted at `mountpoint`, which outlives it. From the main thread,
 * while it is the only one: the kernel's signal comes when the thread ends that did this. A failure
 * is reported, and is none of the mount's: it is served without a guard. */
void guard_start(struct guard *guard, const char *mountpoint);
/* The mount answers: `device` is that of its files. Any thread, once. */
void guard_watch(struct guard *guard, dev_t device);
/* A child ended (SIGCHLD): if it was the guard, that is reported, and another one started, up to
 * GUARDS_MOST times. From one thread alone, which ends with the process or calls guard_release()
 * first: the kernel's signal to the new guard comes when that thread ends. */
#define GUARDS_MOST 16
void guard_renew(struct guard *guard);
/* The thread of guard_renew() ends: a guard that it started ends, too. */
void guard_release(struct guard *guard);
/* Before the mount is taken away; waits until the guard has ended. */
void guard_end(struct guard *guard);

#endif
