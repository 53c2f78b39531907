/* The loop of shufflefs-top. Owns the snapshots, the asker and the terminal while it runs.
 *
 * It waits for four things at once: the status, a key, a signal, the time of the next snapshot. So
 * whatever the mount does, keys and signals are heard. */
#include "watch.h"

#include "../core/clock.h"
#include "../core/output.h"
#include "../core/report.h"
#include "asker.h"
#include "screen.h"
#include "snapshot.h"
#include "terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* How long the mount may take to answer: before that is said, and before a report that somebody's
 * script waits for is given up. */
#define SAY_AFTER_S     2
#define GIVE_UP_AFTER_S 5

struct state {
    const struct watch *watch;
    struct asker *asker;
    struct terminal terminal;
    struct snapshot before, now; /* zeroed: not there yet */
    double asked, next; /* when the last snapshot was asked for, and when the next one is */
    uint64_t reports;
    bool keys, told; /* keys may come; that the mount does not answer was said */
};

enum { GO_ON = 0, FINISHED = -4096 }; /* FINISHED is no errno */

/* What handlers leave for the loop. */
static volatile sig_atomic_t ended, stopped;
static int wake_fd = -1;

static void on_signal(int number)
{
    static const uint64_t one = 1;
    int saved = errno;

    if (number == SIGTSTP)
        stopped = 1;
    else if (number != SIGWINCH)
        ended = number;
    if (write(wake_fd, &one, sizeof one) < 0) {
        /* It is full of earlier wakes already. */
    }
    errno = saved;
}

static int watch_signals(bool terminal)
{
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: a write must end */

    wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd < 0)
        return -errno;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (terminal) {
        sigaction(SIGQUIT, &action, NULL);
        sigaction(SIGTSTP, &action, NULL);
        sigaction(SIGWINCH, &action, NULL);
    }
    return 0;
}

static int flush_output(void)
{
    int fault = output_flush();

    if (!fault)
        return GO_ON;
    /* A reader that has enough (`| head`) is no fault of anybody's. */
    if (fault == -EPIPE)
        return FINISHED;
    if (fault == -EINTR && ended)
        return ended;
    return output_complain(fault);
}

static double waited(const struct state *state)
{
    return asker_fd(state->asker) >= 0 ? clock_now_s() - state->asked : 0;
}

static int render(const struct state *state, bool whole, char **text)
{
    struct screen screen = {.mount = asker_mount(state->asker),
                            .before = state->before.root ? &state->before : NULL,
                            .now = state->now.root ? &state->now : NULL,
                            .utf8 = state->watch->utf8};
    char note[64];
    double since = waited(state);
    int fault;

    if (!whole || isatty(STDOUT_FILENO))
        terminal_size(&screen.width, &screen.height);
    if (whole)
        screen.height = 0;
    else if (since >= SAY_AFTER_S) {
        snprintf(note, sizeof note, "no answer for %.0f s", since);
        screen.note = note;
    } else if (!screen.now) {
        screen.note = "waiting for the mount";
    }
    fault = screen_render(&screen, text);
    if (fault)
        report_error("%s", strerror(-fault));
    return fault;
}

static int draw(struct state *state)
{
    char *text;
    int fault = render(state, false, &text);

    if (fault)
        return fault;
    fault = terminal_draw(&state->terminal, text);
    free(text);
    return fault == -EINTR ? GO_ON : fault;
}

static int print_text(struct state *state)
{
    char *text;
    int fault = render(state, true, &text);

    if (fault)
        return fault;
    if (state->reports)
        putchar('\n');
    fputs(text, stdout);
    free(text);
    return flush_output();
}

static int print_json(const struct state *state)
{
    json_t *root = snapshot_to_json(state->before.root ? &state->before : NULL, &state->now,
                                    asker_mount(state->asker));

    if (!root) {
        report_error("%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    json_dumpf(root, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(root);
    return flush_output();
}

/* A snapshot is there: shows it. */
static int show(struct state *state)
{
    const struct watch *watch = state->watch;
    int result;

    /* Rates need two snapshots; a screen shows what it has until then. */
    if (!watch->screen && !state->before.root && watch->interval_s > 0)
        return GO_ON;
    result = watch->screen ? draw(state) : watch->json ? print_json(state) : print_text(state);
    if (result == GO_ON && ++state->reports == watch->count)
        return FINISHED;
    return result;
}

static int complain(const struct state *state, int fault)
{
    const char *mount = asker_mount(state->asker);

    if (state->now.root && (fault == -ENOENT || fault == -ENODEV || fault == -ENOTCONN ||
                            fault == -ECONNABORTED || fault == -ENOTDIR))
        report_error("%s: the mount is gone", mount);
    else if (fault == -ENODEV)
        report_error("%s: neither a shufflefs mount nor in one", mount);
    else if (fault == -EINVAL)
        report_error("%s/.control/status: not what shufflefs writes", mount);
    else
        report_error("%s: %s", mount, strerror(-fault));
    return fault;
}

static int take(struct state *state)
{
    struct snapshot snapshot = {0};
    const char *text = NULL;
    size_t size = 0;
    int got = asker_take(state->asker, &text, &size);

    if (got == 0)
        return GO_ON;
    if (got == 1)
        got = snapshot_parse(&snapshot, text, size, clock_now_s()) ?: 1;
    if (got < 0)
        return ended ? ended : complain(state, got);
    snapshot_close(&state->before);
    state->before = state->now;
    state->now = snapshot;
    state->told = false;
    /* From the answer on, not from the question: no interval is shorter than was asked for. */
    state->next = snapshot.at + state->watch->interval_s;
    return show(state);
}

static int press(struct state *state)
{
    int key = terminal_key(&state->terminal);

    if (key == 'q' || key == 'Q')
        return FINISHED;
    if (key < 0)
        state->keys = false;
    return key > 0 && state->watch->screen ? draw(state) : GO_ON;
}

/* At the start, and after a stop. */
static int take_terminal(struct state *state)
{
    int fault;

    state->keys = state->watch->keys;
    if (!state->watch->screen) {
        if (state->keys)
            terminal_take_keys(&state->terminal);
        return GO_ON;
    }
    fault = terminal_enter(&state->terminal);
    return fault && fault != -EINTR ? fault : draw(state);
}

/* ^Z: the shell gets its terminal as it was, until it is brought back. */
static int pause_here(struct state *state)
{
    stopped = 0;
    terminal_leave(&state->terminal);
    raise(SIGSTOP);
    return take_terminal(state);
}

/* It is time for something: the next snapshot, or to say that there is none. */
static int tick(struct state *state)
{
    const struct watch *watch = state->watch;
    double now = clock_now_s();

    if (asker_fd(state->asker) < 0) {
        int fault;
        if (now < state->next)
            return GO_ON;
        state->asked = now;
        fault = asker_ask(state->asker);
        if (fault)
            report_error("%s: %s", asker_mount(state->asker), strerror(-fault));
        return fault;
    }
    if (watch->screen)
        return waited(state) >= SAY_AFTER_S ? draw(state) : GO_ON;
    if (waited(state) < GIVE_UP_AFTER_S || state->told)
        return GO_ON;
    report_error("%s: no answer for %d s", asker_mount(state->asker), GIVE_UP_AFTER_S);
    state->told = true;
    return watch->count ? -ETIMEDOUT : GO_ON;
}

/* Milliseconds until tick() has something to do. */
static int patience(const struct state *state)
{
    double left = state->next - clock_now_s();

    if (asker_fd(state->asker) >= 0)
        return 500;
    /* One more, so as not to wake a moment early. */
    return left <= 0 ? 0 : left > 60 ? 60000 : (int)(left * 1000) + 1;
}

static int loop(struct state *state)
{
    int result = take_terminal(state);

    while (result == GO_ON && !ended) {
        struct pollfd events[] = {{wake_fd, POLLIN, 0},
                                  {asker_fd(state->asker), POLLIN, 0},
                                  {state->keys ? STDIN_FILENO : -1, POLLIN, 0}};
        uint64_t wakes;
        int ready = poll(events, sizeof events / sizeof *events, patience(state));
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ended)
            break;
        if (ready > 0 && events[0].revents && read(wake_fd, &wakes, sizeof wakes) > 0)
            result = stopped ? pause_here(state) : state->watch->screen ? draw(state) : GO_ON;
        if (result == GO_ON && ready > 0 && events[1].revents)
            result = take(state);
        if (result == GO_ON && ready > 0 && events[2].revents)
            result = press(state);
        if (result == GO_ON)
            result = tick(state);
    }
    return result == GO_ON ? ended : result;
}

int watch_run(const struct watch *watch)
{
    struct state state = {.watch = watch};
    char *last = NULL;
    int result = asker_open(&state.asker, watch->path);

    if (result) {
        report_error("%s: %s", watch->path, strerror(-result));
        return result;
    }
    result = watch_signals(watch->screen || watch->keys);
    if (!result)
        result = loop(&state);
    terminal_leave(&state.terminal);
    /* The last of a number of reports stays to be read. */
    if (result == FINISHED && watch->screen && watch->count && state.reports == watch->count &&
        render(&state, true, &last) == 0) {
        fputs(last, stdout);
        free(last);
        fflush(stdout);
    }
    asker_close(state.asker);
    snapshot_close(&state.before);
    snapshot_close(&state.now);
    if (wake_fd >= 0)
        close(wake_fd);
    return result == FINISHED ? 0 : result;
}
