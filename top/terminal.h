/* A terminal as a screen: the alternate screen, keys as they are pressed, and all of it put back as
 * it was. Speaks the escape sequences that every terminal of today knows. For one thread. */
#ifndef SHUFFLEFS_TERMINAL_H
#define SHUFFLEFS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

struct terminal {
    bool entered;
    bool keyed; /* standard input is a terminal, and `before` how it was */
    struct termios before;
};

/* Is standard output a terminal that takes escape sequences? */
bool terminal_is_there(void);

/* The size of standard output's terminal, or of $COLUMNS and $LINES, or 80 x 24. */
void terminal_size(size_t *width, size_t *height);

/* Takes the screen; again after terminal_leave(). 0, or a negative errno. */
int terminal_enter(struct terminal *terminal);
/* Puts everything back; nothing to do for one that was not entered. */
void terminal_leave(struct terminal *terminal);

/* Shows the text, whose lines fit the screen. A terminal that was stopped (^S) is not waited for:
 * this text is then not shown. 0, or a negative errno; -EINTR: a signal came. */
int terminal_draw(struct terminal *terminal, const char *text);

/* The key that was pressed, when standard input is readable; 0: none; -1: there will be none any
 * more. */
int terminal_key(struct terminal *terminal);

#endif
