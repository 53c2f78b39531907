/* Views for the unit tests. */
#include "viewed.h"

#include "unit.h"

#include <stdio.h>
#include <string.h>

void viewed_open(struct viewed *viewed, const char *options)
{
    struct config *config = &viewed->data.config;
    struct dataset *set = &viewed->data.set;

    cr_assert_eq(opened_open(&viewed->data, options), 0);
    cr_assert_eq(epochs_open(&viewed->epochs, &config->order, &set->basis.order, config->epoch), 0);
    cr_assert_eq(reader_open(&viewed->reader, set->index, 0, READER_DIRECT_AUTO), 0);
    viewed->control = (struct control){set, viewed->epochs, viewed->reader, &viewed->serve, 0};
    cr_assert_eq(view_open(&viewed->view, set, viewed->epochs, control_text, &viewed->control), 0);
}

void viewed_end(struct viewed *viewed)
{
    view_close(viewed->view);
    reader_close(viewed->reader);
    epochs_close(viewed->epochs);
    opened_end(&viewed->data);
}

uint64_t viewed_walk(const struct viewed *viewed, const char *path)
{
    char copy[512], *rest = copy, *name;
    uint64_t inode = VIEW_ROOT_INODE;

    snprintf(copy, sizeof copy, "%s", path);
    while ((name = strsep(&rest, "/"))) {
        struct view_node *node = view_node(viewed->view, inode);
        if (!node || view_lookup(viewed->view, node, name, &inode) != 0)
            return 0;
    }
    return inode;
}
