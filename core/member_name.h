/* A member's path in a tar, as WebDataset takes it apart: the key up to the first dot of the base
 * name, and the field behind it. Pure: any thread. */
#ifndef SHUFFLEFS_MEMBER_NAME_H
#define SHUFFLEFS_MEMBER_NAME_H

#include "record.h"

#include <stdbool.h>

/* Where the key ends in the base name of a path: at its first dot. NULL: it is no sample's field,
 * for `reason`. */
const char *member_name_dot(const char *name, enum index_problem *reason);

/* Splits `name` into key and field, both in `room` (of strlen(name) + 3 bytes), one right after the
 * other, a NUL behind each: the key without `./`, `//`, `..` and a leading slash, which `unsafe`
 * tells of where it is not harmless; the field in lower case, at *`field`. False: it is no sample's
 * field, for `reason`. */
bool member_name_split(const char *name, char *room, char **field, bool *unsafe,
                       enum index_problem *reason);

#endif
