/* The one place where the version stands. */
#ifndef SHUFFLEFS_VERSION_H
#define SHUFFLEFS_VERSION_H

#define SHUFFLEFS_VERSION "0.1.0"

#endif
