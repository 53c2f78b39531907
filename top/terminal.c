/* The terminal's modes and screen. Owns nothing but the state of the terminal. */
#include "terminal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The alternate screen, no cursor, lines that do not wrap; and back. */
static const char enter_codes[] = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J";
static const char leave_codes[] = "\033[?7h\033[?25h\033[?1049l";

bool terminal_is_there(void)
{
    const char *kind = getenv("TERM");

    return isatty(STDOUT_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

bool terminal_has_keys(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static size_t from_environment(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    char *end;
    unsigned long value = text ? strtoul(text, &end, 10) : 0;

    return value && !*end && value < 10000 ? value : otherwise;
}

void terminal_size(size_t *width, size_t *height)
{
    struct winsize size = {0};

    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    *width = size.ws_col ? size.ws_col : from_environment("COLUMNS", 80);
    *height = size.ws_row ? size.ws_row : from_environment("LINES", 24);
}

static int write_all(const char *bytes, size_t size)
{
    while (size) {
        ssize_t wrote = write(STDOUT_FILENO, bytes, size);
        if (wrote < 0 && errno == EAGAIN) {
            struct pollfd wait = {STDOUT_FILENO, POLLOUT, 0};
            if (poll(&wait, 1, -1) < 0)
                return -errno;
            continue;
        }
        if (wrote < 0)
            return -errno;
        bytes += wrote;
        size -= (size_t)wrote;
    }
    return 0;
}

static void set_keys(struct terminal *terminal)
{
    terminal->keyed = tcgetattr(STDIN_FILENO, &terminal->before) == 0;
    if (terminal->keyed) {
        struct termios keys = terminal->before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        keys.c_cc[VMIN] = 0;
        keys.c_cc[VTIME] = 0;
        if (tcsetattr(STDIN_FILENO, TCSANOW, &keys))
            terminal->keyed = false;
    }
}

void terminal_take_keys(struct terminal *terminal)
{
    pid_t foreground = tcgetpgrp(STDIN_FILENO); /* -1: a terminal without job control */

    /* From the background, setting modes would stop us. */
    if (foreground < 0 || foreground == getpgrp())
        set_keys(terminal);
}

int terminal_enter(struct terminal *terminal)
{
    set_keys(terminal);
    terminal->entered = true;
    return write_all(enter_codes, sizeof enter_codes - 1);
}

void terminal_leave(struct terminal *terminal)
{
    /* One that was stopped would hold up the end. */
    if (terminal->entered)
        tcflow(STDOUT_FILENO, TCOON);
    if (terminal->keyed)
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal->before);
    if (terminal->entered)
        write_all(leave_codes, sizeof leave_codes - 1);
    terminal->entered = terminal->keyed = false;
}

int terminal_draw(struct terminal *terminal, const char *text)
{
    struct pollfd ready = {STDOUT_FILENO, POLLOUT, 0};
    char *bytes = NULL;
    size_t size;
    FILE *frame;
    int fault;

    if (!terminal->entered || poll(&ready, 1, 0) == 0)
        return 0;
    frame = open_memstream(&bytes, &size);
    if (!frame)
        return -errno;
    fputs("\033[H", frame);
    while (*text) {
        size_t length = strcspn(text, "\n");
        /* What is left of the line is cleared first: after a full line the cursor stands on its
         * last cell. */
        fputs("\033[2K", frame);
        fwrite(text, 1, length, frame);
        text += length;
        if (*text && *++text)
            fputs("\r\n", frame);
    }
    fputs("\033[J", frame);
    fault = fclose(frame) ? -ENOMEM : write_all(bytes, size);
    free(bytes);
    return fault;
}

int terminal_key(struct terminal *terminal)
{
    char key;
    ssize_t got = terminal->keyed ? read(STDIN_FILENO, &key, 1) : 0;

    if (got == 1)
        return (unsigned char)key;
    return got < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : -1;
}
