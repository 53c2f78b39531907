/* The ini file of options (see config.h), by inih: its lines, and which of them set what. */
#include "config.h"

#include "config_keys.h"
#include "report.h"

#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECTION "shufflefs"

/* An ini file on its way through inih, which knows nothing of lines and cuts long ones in two. */
struct reading {
    struct config *config;
    FILE *file;
    const char *path;                /* as given, for messages */
    const char *folder;              /* what the file's relative names start from */
    size_t line;                     /* the one that inih has, from 1 */
    size_t set_at[CONFIG_KEYS_MOST]; /* the line that set an option; 0: none yet */
    bool awaited;                    /* the line has to reach the handler */
    int error;                       /* the first one, reported: nothing after it counts */
};

__attribute__((format(printf, 3, 4))) static void stop(struct reading *reading, int error,
                                                       const char *format, ...)
{
    char *text = NULL;
    va_list arguments;

    va_start(arguments, format);
    if (vasprintf(&text, format, arguments) < 0)
        text = NULL;
    va_end(arguments);
    report_error("%s:%zu: %s", reading->path, reading->line,
                 text != NULL ? text : strerror(ENOMEM));
    free(text);
    reading->error = error;
}

/* inih tells only at the end that some line was no setting: here it is seen before the next one. */
static void check_handled(struct reading *reading)
{
    if (reading->awaited && reading->error == 0)
        stop(reading, -EINVAL,
             "this line has no =; a setting is `key = value`, a switch `key = yes`");
    reading->awaited = false;
}

static void check_section(struct reading *reading, const char *line)
{
    static const char head[] = "[" SECTION "]";
    size_t length = strlen(head);
    const char *rest = strncmp(line, head, length) == 0 ? line + length : NULL;

    if (rest != NULL)
        rest += strspn(rest, " \t\r");
    if (rest == NULL || (*rest != '\0' && *rest != ';' && *rest != '#'))
        stop(reading, -EINVAL, "the only section is %s, on a line of its own", head);
}

/* Reads a line without the blanks before it, of a comment only the start. Returns its length, -1:
 * nothing is left, or an error was reported. */
static int read_line(struct reading *reading, char *line, int most)
{
    int length = 0, byte;

    reading->line++;
    while ((byte = getc_unlocked(reading->file)) != EOF && byte != '\n') {
        if (byte == '\0') {
            stop(reading, -EINVAL, "a NUL byte: this is no ini file");
            return -1;
        }
        if (length == 0 ? byte == ' ' || byte == '\t' : line[0] == ';' || line[0] == '#')
            continue;
        if (length == most) {
            stop(reading, -EINVAL,
                 "a line of more than %d bytes: long patterns go to a list, shards = @FILE", most);
            return -1;
        }
        line[length++] = (char)byte;
        if (length == 3 && reading->line == 1 && memcmp(line, "\xEF\xBB\xBF", 3) == 0)
            length = 0;
    }
    if (byte == EOF && ferror(reading->file)) {
        int error = errno;
        stop(reading, -error, "%s", strerror(error));
        return -1;
    }
    return byte == EOF && length == 0 ? -1 : length;
}

static char *next_line(char *line, int size, void *stream)
{
    struct reading *reading = stream;

    check_handled(reading);
    if (reading->error < 0)
        return NULL;
    int length = read_line(reading, line, size - 2);
    if (length < 0)
        return NULL;
    line[length] = '\0';
    if (line[0] == '[')
        check_section(reading, line);
    else
        reading->awaited = line[0] != '\0' && strchr(";#\r", line[0]) == NULL;
    line[length] = '\n';
    line[length + 1] = '\0';
    return reading->error < 0 ? NULL : line;
}

/* Refuses a setting that the file has already: the later one winning would be a trap. */
static void check_twice(struct reading *reading, const char *name)
{
    size_t number;
    const char *sets = config_sets(name, &number);

    if (sets == NULL)
        return;
    if (reading->set_at[number] > 0)
        stop(reading, -EINVAL, "%s: line %zu has set %s already", name, reading->set_at[number],
             sets);
    reading->set_at[number] = reading->line;
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
    struct reading *reading = user;
    char *origin;

    (void)section; /* next_line() has seen to it */
    if (reading->error < 0 || value == NULL || name[0] == '\0')
        return 0;
    reading->awaited = false;
    check_twice(reading, name);
    if (reading->error < 0)
        return 0;
    if (asprintf(&origin, "%s:%zu", reading->path, reading->line) < 0) {
        stop(reading, -ENOMEM, "%s", strerror(ENOMEM));
        return 0;
    }
    if (strcmp(name, "shards") == 0)
        reading->error = shards_add_from(&reading->config->shards, value, reading->folder, origin);
    else
        reading->error = config_set(reading->config, name, value, origin, reading->folder);
    free(origin);
    return reading->error == 0;
}

int config_read(struct config *config, const char *path, const char *base)
{
    struct reading reading = {.config = config, .path = path};
    char *folder = config_absolute(base, path);

    if (folder == NULL) {
        report_error("%s: %s", path, strerror(ENOMEM));
        return -ENOMEM;
    }
    reading.file = fopen(folder, "re");
    if (reading.file == NULL) {
        int error = errno;
        report_error("%s: %s", path, strerror(error));
        free(folder);
        return -error;
    }
    strrchr(folder, '/')[1] = '\0';
    reading.folder = folder;
    int outcome = ini_parse_stream(next_line, &reading, handle, &reading);
    check_handled(&reading);
    if (reading.error == 0 && outcome != 0)
        stop(&reading, outcome == -2 ? -ENOMEM : -EINVAL, "inih gives up on this file");
    fclose(reading.file);
    free(folder);
    return reading.error;
}
