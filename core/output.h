/* Standard output, with its end checked: a program whose output was lost has not done what was
 * asked. For one thread. */
#ifndef SHUFFLEFS_OUTPUT_H
#define SHUFFLEFS_OUTPUT_H

/* First in main(): a shell, cron or a hook may start us with standard streams closed, and what is
 * opened next would take their numbers. They become /dev/null; writing to standard output then
 * fails as it would have. */
void output_open(void);

/* Writes what stdio still holds. 0, or the negative errno of whatever was lost so far; not
 * reported. */
int output_flush(void);

/* Reports what output_flush() returned, and returns it. */
int output_complain(int fault);

/* Both, at a program's end. That a reader has enough (`| head`) is no fault of anybody's: 0. */
int output_end(void);

#endif
