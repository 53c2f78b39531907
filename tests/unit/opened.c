/* Data sets for the unit tests. */
#include "opened.h"

#include "unit.h"

void opened_begin(struct opened *opened)
{
    report_watch(NULL);
    *opened = (struct opened){0};
    folder_make(&opened->folder);
    config_init(&opened->config);
    cr_assert_eq(config_set(&opened->config, "index", "none", "-o", "/"), 0);
}

int opened_open(struct opened *opened, const char *options)
{
    struct shard_list *shards = &opened->config.shards;

    if (options)
        cr_assert_eq(config_set_options(&opened->config, options, "/"), 0);
    for (size_t i = shards->count; i < opened->folder.shards.count; i++)
        cr_assert_eq(shards_add(shards, opened->folder.shards.paths[i], "/"), 0);
    cr_assert_eq(config_settle(&opened->config), 0);
    return dataset_open(&opened->set, &opened->config);
}

void opened_end(struct opened *opened)
{
    dataset_close(&opened->set);
    config_close(&opened->config);
    folder_remove(&opened->folder);
    report_stop();
}
