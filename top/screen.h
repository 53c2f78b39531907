/* What a person sees of a mount: snapshots in, lines of text out. Pure. */
#ifndef SHUFFLEFS_SCREEN_H
#define SHUFFLEFS_SCREEN_H

#include "snapshot.h"

#include <stdbool.h>
#include <stddef.h>

struct screen {
    const char *mount;             /* its path */
    const char *note;              /* shown on a line of its own; NULL: none */
    const struct snapshot *before; /* NULL: figures since the mount was made, and no rates */
    const struct snapshot *now;    /* NULL: nothing was read yet */
    size_t width, height;          /* cells and lines at most; 0: as many as it takes */
    bool utf8;                     /* what the output takes; false: ASCII alone */
};

/* Each line ends in a newline and is safe to print, whatever names the status holds. The caller
 * frees the text. 0, or a negative errno. */
int screen_render(const struct screen *screen, char **text);

#endif
