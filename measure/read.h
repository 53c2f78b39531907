/* `shufflefs-bench read`: reads paths in turn or at once, and prints what it found. */
#ifndef SHUFFLEFS_READ_H
#define SHUFFLEFS_READ_H

/* arguments[0] is the subcommand's name. Returns the exit status: 0, 1 (a fault, reported), 2
 * (usage, reported). */
int read_command(int count, char **arguments);

#endif
