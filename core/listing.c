/* DALI's index of a shard, parsed. Owns its text; never reads a shard. */
#include "listing.h"

#include "harvest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Longer ones, of more than ten million members a shard, are not worth their memory. */
#define TEXT_MOST ((off_t)1 << 30)
#define VERSION   "v1.2 "

static int by_offset(const void *a, const void *b)
{
    uint64_t x = ((const struct listing_member *)a)->offset;
    uint64_t y = ((const struct listing_member *)b)->offset;
    return (x > y) - (x < y);
}

/* The next word of a line, which ends at a blank or at the line's end. False: there is none. */
static bool next_word(char **at, char **word)
{
    size_t length;

    *at += strspn(*at, " ");
    length = strcspn(*at, " \n");
    if (!length)
        return false;
    *word = *at;
    *at += length;
    return true;
}

static bool is_number(const char *word, const char *end, uint64_t *value)
{
    *value = 0;
    if (end - word > 18)
        return false;
    for (; word < end; word++) {
        if (*word < '0' || *word > '9')
            return false;
        *value = *value * 10 + (uint64_t)(*word - '0');
    }
    return true;
}

/* EXTENSION OFFSET SIZE NAME. 1; 0: the line is at its end; -EINVAL: it says something else; or
 * -ENOMEM. */
static int parse_member(struct listing *listing, size_t *room, char **at)
{
    struct listing_member member;
    char *words[4], *ends[4];

    for (int i = 0; i < 4; i++) {
        if (!next_word(at, &words[i]))
            return i ? -EINVAL : 0;
        ends[i] = *at;
    }
    if (!is_number(words[1], ends[1], &member.offset) ||
        !is_number(words[2], ends[2], &member.size))
        return -EINVAL;
    member.name = words[3];
    if (harvest_grow(&listing->members, room, listing->count + 1, sizeof *listing->members))
        return -ENOMEM;
    listing->members[listing->count++] = member;
    return 1;
}

int listing_parse(struct listing *listing, char *text, size_t size)
{
    size_t room = 0;
    char *at = text;
    int found = 0;

    listing->text = text;
    text[size] = '\0';
    if (strlen(text) != size || strncmp(text, VERSION, strlen(VERSION)) != 0)
        return 0;
    at += strcspn(at, "\n");
    while (*at == '\n') {
        at++;
        while ((found = parse_member(listing, &room, &at)) == 1)
            ;
        if (found < 0)
            return found == -EINVAL ? 0 : found;
    }
    if (*at || listing->count == 0)
        return 0;
    /* Names end where their words do; now that nothing is parsed any more. */
    for (size_t i = 0; i < listing->count; i++) {
        char *name = (char *)listing->members[i].name;
        name[strcspn(name, " \n")] = '\0';
    }
    qsort(listing->members, listing->count, sizeof *listing->members, by_offset);
    return 1;
}

char *listing_path(const char *shard)
{
    size_t length = strlen(shard);
    char *path;

    if (length > 4 && strcmp(shard + length - 4, ".tar") == 0)
        length -= 4;
    return asprintf(&path, "%.*s.idx", (int)length, shard) < 0 ? NULL : path;
}

/* NULL: nothing that can be read. */
static char *read_text(int fd, size_t *size)
{
    struct stat status;
    char *text;

    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size > TEXT_MOST)
        return NULL;
    *size = (size_t)status.st_size;
    text = malloc(*size + 1);
    for (size_t have = 0; text && have < *size;) {
        ssize_t got = pread(fd, text + have, *size - have, (off_t)have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            free(text);
            return NULL;
        }
        have += (size_t)got;
    }
    return text;
}

int listing_read(struct listing *listing, const char *shard)
{
    char *path = listing_path(shard), *text;
    size_t size = 0;
    int fd;

    if (!path)
        return -ENOMEM;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    free(path);
    if (fd < 0)
        return 0;
    text = read_text(fd, &size);
    close(fd);
    return text ? listing_parse(listing, text, size) : 0;
}

void listing_close(struct listing *listing)
{
    free(listing->members);
    free(listing->text);
    *listing = (struct listing){0};
}
