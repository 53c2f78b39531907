/* Results as a table that people read. */
#ifndef SHUFFLEFS_TABLE_H
#define SHUFFLEFS_TABLE_H

#include "machine.h"
#include "read_options.h"
#include "results.h"

#include <stdio.h>

void table_print(FILE *file, const struct read_options *options, const struct machine *machine,
                 const struct results *results);

#endif
