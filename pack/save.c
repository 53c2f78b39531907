/* The saved index of packed shards. Owns their list while it lasts; core/index.c does the rest. */
#include "save.h"

#include "../core/index.h"
#include "../core/report.h"
#include "../core/store.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void pack_save_index(const struct pack_options *options, uint64_t shards)
{
    struct shard_list list = {0};
    struct index *index = NULL;
    char base[PATH_MAX], path[PATH_MAX + PACK_NAME_MAX + 1], place[2 * PATH_MAX];
    const char *given = options->index;
    size_t used;
    int fault = 0;

    if (shards == 0 || (given && strcmp(given, STORE_NONE) == 0))
        return;
    if (!getcwd(base, sizeof base)) {
        report_warning("the index is not saved: the working folder is gone");
        return;
    }
    used = (size_t)snprintf(path, sizeof path, "%s/", options->output.folder);
    for (uint64_t i = 0; !fault && i < shards; i++) {
        pack_pattern_name(&options->output, i, path + used);
        fault = shards_add(&list, path, base);
    }
    if (given)
        snprintf(place, sizeof place, "%s%s%s", given[0] == '/' ? "" : base,
                 given[0] == '/' ? "" : "/", given);
    if (!fault)
        fault = index_open(&index, &list, options->threads, given ? place : NULL);
    /* Why was said where it was met. */
    if (fault)
        report_warning("the shards are whole; their index is not saved");
    index_close(index);
    shards_close(&list);
}
