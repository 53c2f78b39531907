/* Signals that end the program, waited for by a thread of their own while there is something to be
 * cleaned up: SIGINT, SIGTERM and SIGHUP, but for those that were ignored at the start. One at a
 * time in a process; to be opened and closed by the main thread. */
#ifndef SHUFFLEFS_PACK_STOPPER_H
#define SHUFFLEFS_PACK_STOPPER_H

/* `stop` is called once, by the thread, when the first signal comes. 0 or a negative errno,
 * reported. */
int stopper_open(void (*stop)(void *context), void *context);

/* The signal that came, 0: none so far. Any thread. */
int stopper_signal(void);

/* Ends the thread and lets signals have their way again. Returns the signal that came, or 0. */
int stopper_close(void);

#endif
