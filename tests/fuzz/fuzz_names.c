/* libFuzzer's entry: any text as the name of shards: braces, globs, folders, lists. What stands
 * before the first NUL is the name, what follows is a list's text, which `@list` reads. Names are
 * looked for in one folder alone, beside this program, with a few files in it. With FUZZ_SEEDS=DIR
 * the names to begin from are written there.
 *
 * Whatever the text is: a pattern writes as many names as it counts, none longer than it says; what
 * is listed lies in the folder and is a file; what is refused is refused with a message. */
#include "../../core/brace.h"
#include "../../core/report.h"
#include "../../core/shards.h"
#include "seeds.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* More names than this are not looked for on the disk: that is slow, and nothing new. */
enum { NAMES_MOST = 64, LINES_MOST = 16 };

static char folder[PATH_MAX], list[PATH_MAX + 16];
static unsigned lines; /* reported */

static void count_line(const char *line, void *context)
{
    (void)context;
    lines += *line != '\0';
}

static void need(int condition)
{
    if (!condition)
        abort();
}

static void write_file(const char *name, const void *bytes, size_t size)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    need(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
    close(fd);
}

static void make_files(void)
{
    static const char *const files[] = {"0.tar",   "1.tar",   "2.tar",   "a.tar",      "b.tar",
                                        "{a}.tar", "d/x.tar", "d/y.tar", "d/z.tar.gz", "[b].tar"};
    static const char *const folders[] = {"d", "e"};
    char path[PATH_MAX + 32];

    need(mkdir(folder, 0755) == 0 || errno == EEXIST);
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        need(mkdir(path, 0755) == 0 || errno == EEXIST);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        write_file(path, "x", 1);
    }
}

static void write_seeds(const char *to)
{
    static const char *const names[] = {"{0..2}.tar",      "{a,b}.tar",   "*.tar",
                                        "[ab].tar",        "d",           "d/{x,y}.tar",
                                        "\\{a}.tar",       "{a}.tar",     "{{0..1},{a..b}}*",
                                        "{00..10..3}.tar", "{-1..1}.tar", "{a..e..2}{,.tar}",
                                        "@list",           "?.tar",       "{0,1,d/x}.tar",
                                        "\\[b].tar",       "e",           "{99999999999..1}.t",
                                        "{{{{a",           "a}.tar"};
    static const char text[] = "# shards\n\n  0.tar\nd/*.tar\n{1..2}.tar\n";

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]) + 1;
        char seed[256];
        need(length + sizeof text - 1 <= sizeof seed);
        memcpy(seed, names[i], length);
        memcpy(seed + length, text, sizeof text - 1);
        seed_write(to, "names", i, seed, length + sizeof text - 1);
    }
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    const char *seeds = getenv("FUZZ_SEEDS");
    char here[PATH_MAX];

    (void)count;
    if (seeds)
        write_seeds(seeds);
    need(getcwd(here, sizeof here) != NULL);
    need((*arguments)[0][0] == '/' || strlen(here) + strlen((*arguments)[0]) + 16 < sizeof folder);
    snprintf(folder, sizeof folder, "%.2000s%s%.2000s.files", (*arguments)[0][0] == '/' ? "" : here,
             (*arguments)[0][0] == '/' ? "" : "/", (*arguments)[0]);
    snprintf(list, sizeof list, "%s/list", folder);
    make_files();
    report_to_sink(count_line, NULL);
    return 0;
}

/* A slash stays only behind a `d`: so no name is absolute, and none leads out by `../`. */
static void keep_inside(char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (text[i] == '/' && (i == 0 || text[i - 1] != 'd'))
            text[i] = '_';
}

/* Whether the pattern stands for few names; and that it is as it says. */
static int are_few(const char *pattern)
{
    struct brace_fault fault = {0, NULL};
    struct brace *brace;
    uint64_t count;
    char *name;

    if (brace_open(&brace, pattern, &fault)) {
        need(fault.complaint && fault.column >= 1 && fault.column <= strlen(pattern) + 1);
        return 1;
    }
    count = brace_count(brace);
    need(count >= 1);
    name = malloc(brace_longest(brace) + 1);
    need(name != NULL);
    /* More than can be counted have no number. */
    for (uint64_t i = 0; count < UINT64_MAX && i < count && i < NAMES_MOST; i++) {
        memset(name, 0x55, brace_longest(brace) + 1);
        brace_write(brace, i, name);
        need(memchr(name, '\0', brace_longest(brace) + 1) != NULL);
    }
    if (count < UINT64_MAX)
        brace_write(brace, count - 1, name);
    free(name);
    brace_close(brace);
    return count <= NAMES_MOST;
}

static int lines_are_few(char *text)
{
    int count = 0;

    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next = '\0';
        if (++count > LINES_MOST || !are_few(line))
            return 0;
        if (next)
            *next++ = '\n';
    }
    return 1;
}

static void check_list(const struct shard_list *shards)
{
    need(shards->count >= 1);
    for (size_t i = 0; i < shards->count; i++) {
        struct stat status;
        need(strncmp(shards->paths[i], folder, strlen(folder)) == 0);
        need(stat(shards->paths[i], &status) == 0 && S_ISREG(status.st_mode));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct shard_list shards = {0};
    char *name = malloc(size + 1);
    size_t length;
    int fault;

    need(name != NULL);
    memcpy(name, data, size);
    name[size] = '\0';
    keep_inside(name, size);
    length = strlen(name);
    if (name[0] == '@') {
        const char *text = name + length + (length < size);
        char *copy = strdup(text);
        int few = copy && lines_are_few(copy);
        free(copy);
        write_file(list, text, (size_t)(name + size - text));
        if (!few)
            length = 0;
    }
    if (length && are_few(name)) {
        lines = 0;
        fault = shards_add(&shards, name, folder);
        need(fault <= 0 && (fault == 0 || lines >= 1));
        if (!fault) {
            check_list(&shards);
            lines = 0;
            fault = shards_check(&shards);
            need(fault == 0 || (fault == -EINVAL && lines >= 1));
        }
        shards_close(&shards);
    }
    free(name);
    return 0;
}
