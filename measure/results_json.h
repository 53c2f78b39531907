/* Results as one JSON object; its keys are in shufflefs-bench(1). */
#ifndef SHUFFLEFS_RESULTS_JSON_H
#define SHUFFLEFS_RESULTS_JSON_H

#include "machine.h"
#include "read_options.h"
#include "results.h"

#include <jansson.h>

/* The caller's to json_decref(); NULL without memory. */
json_t *results_to_json(const struct read_options *options, const struct machine *machine,
                        const struct results *results);

#endif
