/* How many threads this process should run: the cores it may use, not those the machine has.
 * Reads /proc and /sys at each call; keeps nothing. Any thread. */
#ifndef SHUFFLELOAD_CORES_H
#define SHUFFLELOAD_CORES_H

/* The least of the affinity mask and the quotas of the cgroups (versions 1 and 2) that the process
 * is in, rounded up, divided by LOCAL_WORLD_SIZE (torchrun's name for the processes of a node) and
 * rounded down; at least 1. A node that a launcher has not told of is one process. */
int cores_usable(void);

#endif
