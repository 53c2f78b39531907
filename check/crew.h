/* The threads that look into pictures. */
#ifndef SHUFFLEFS_CHECK_CREW_H
#define SHUFFLEFS_CHECK_CREW_H

/* How many threads to run where `wanted` are asked for; 0: as many as the cores that the process
 * may use. */
unsigned check_crew_size(unsigned wanted);

/* Calls work(context) in `threads` threads, of which the caller's is one, and returns when all are
 * back. Threads that cannot be started are no fault: the others have their work. */
void check_crew_run(unsigned threads, void *(*work)(void *context), void *context);

#endif
