/* A terminal as a screen: the alternate screen, keys as they are pressed, and all of it put back as
 * it was. Speaks the escape sequences that every terminal of today knows. For one thread. */
#ifndef SHUFFLEFS_TERMINAL_H
#define SHUFFLEFS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

struct terminal {
    bool entered;
    bool keyed; /* keys come as they are pressed, and `before` is how it was */
    struct termios before;
};

/* Is standard output a terminal that takes escape sequences? */
bool terminal_is_there(void);

/* Can somebody press keys, and see what comes of it? True where standard input and output are
 * terminals. Behind a pipe it is the pager that has the keys. */
bool terminal_has_keys(void);

/* The size of standard output's terminal, or of $COLUMNS and $LINES, or 80 x 24. */
void terminal_size(size_t *width, size_t *height);

/* Takes the screen and the keys; again after terminal_leave(). 0, or a negative errno. */
int terminal_enter(struct terminal *terminal);
/* Takes the keys alone; nothing to do in the background, where they are somebody else's. */
void terminal_take_keys(struct terminal *terminal);
/* Puts everything back that was taken. */
void terminal_leave(struct terminal *terminal);

/* Shows the text, whose lines fit the screen. A terminal that was stopped (^S) is not waited for:
 * this text is then not shown. 0, or a negative errno; -EINTR: a signal came. */
int terminal_draw(struct terminal *terminal, const char *text);

/* The key that was pressed, when standard input is readable; 0: none; -1: there will be none any
 * more. */
int terminal_key(struct terminal *terminal);

#endif
