/* `shufflefs-bench load`: how many samples a second libshuffleload gives, and what limits it. */
#ifndef SHUFFLEFS_LOAD_H
#define SHUFFLEFS_LOAD_H

/* Runs it; arguments[0] is the subcommand's name. Returns the exit status. */
int load_command(int count, char **arguments);

#endif
