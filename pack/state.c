/* The state of a run. Owns its file and the lock on it; removes temporary files, and shards only
 * where it was told to. */
#include "state.h"

#include "../core/report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC     "shufflefs-pack 1\n"
#define LINE_ROOM 1024

struct line {
    uint64_t number, first, end;
    struct pack_identity identity;
    struct pack_counts counts;
};

static int fail(const struct pack_state *state, const char *name, int fault)
{
    report_error("%s/%s: %s", state->pattern->folder, name, strerror(fault));
    return -fault;
}

/* Locks the file that has the name at that moment: one that was removed meanwhile, at the end of
 * another run, is opened anew. */
static int open_locked(struct pack_state *state)
{
    for (;;) {
        struct stat ours, named;
        state->fd = openat(state->folder_fd, state->name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (state->fd < 0)
            return fail(state, state->name, errno);
        if (flock(state->fd, LOCK_EX | LOCK_NB)) {
            if (errno == EWOULDBLOCK)
                report_error("%s/%s: another shufflefs-pack writes these shards",
                             state->pattern->folder, state->name);
            else
                fail(state, state->name, errno);
            return -errno;
        }
        if (fstat(state->fd, &ours) == 0 &&
            fstatat(state->folder_fd, state->name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            ours.st_ino == named.st_ino && ours.st_dev == named.st_dev)
            return 0;
        close(state->fd);
    }
}

static bool read_line(const char *text, struct line *line)
{
    uint64_t *counts = &line->counts.samples;
    unsigned long long n[7];
    long long seconds;
    int used = 0;

    if (sscanf(text, "shard %llu %llu %llu %llu %llu %lld %llu%n", &n[0], &n[1], &n[2], &n[3],
               &n[4], &seconds, &n[5], &used) != 7)
        return false;
    line->number = n[0];
    line->first = n[1];
    line->end = n[2];
    line->identity = (struct pack_identity){n[3], n[4], seconds, (int32_t)n[5]};
    text += used;
    for (unsigned i = 0; i < PACK_COUNTS; i++) {
        if (sscanf(text, " %llu%n", &n[6], &used) != 1)
            return false;
        counts[i] = n[6];
        text += used;
    }
    return strcmp(text, ".\n") == 0;
}

static bool is_file(const struct pack_state *state, const char *name,
                    const struct pack_identity *identity)
{
    struct stat status;

    return fstatat(state->folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(status.st_mode) && (uint64_t)status.st_size == identity->bytes &&
           status.st_ino == identity->inode && status.st_mtim.tv_sec == identity->seconds &&
           status.st_mtim.tv_nsec == identity->nanoseconds;
}

/* Is the line's shard there? It may have been killed between the line and the rename: that is made
 * up for. 1, 0, or a negative errno, reported. */
static int verify(struct pack_state *state, const struct line *line)
{
    char name[PACK_NAME_MAX], part[PACK_NAME_MAX + 8];
    struct stat status;

    if (line->number != state->shards || line->first != state->position || line->end < line->first)
        return 0;
    pack_pattern_name(state->pattern, line->number, name);
    pack_shard_part(name, part);
    if (is_file(state, name, &line->identity))
        return 1;
    if (!is_file(state, part, &line->identity))
        return 0;
    if (fstatat(state->folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0)
        return 0; /* another's: refused later, or overwritten */
    if (pack_shard_give_name(state->folder_fd, part, name, false))
        return fail(state, name, errno);
    return 1;
}

/* Reads what an earlier run has left. *kept: how many bytes of the file hold good. */
static int take_up(struct pack_state *state, const char *hash, off_t *kept)
{
    int copy = dup(state->fd), good = 0;
    FILE *file = copy < 0 ? NULL : fdopen(copy, "r");
    char text[LINE_ROOM], wanted[LINE_ROOM];
    struct line line;

    *kept = 0;
    if (!file)
        return fail(state, state->name, errno);
    snprintf(wanted, sizeof wanted, "plan %s\n", hash);
    if (fgets(text, sizeof text, file) && strcmp(text, MAGIC) == 0 &&
        fgets(text, sizeof text, file) && strcmp(text, wanted) == 0) {
        *kept = ftell(file);
        while (fgets(text, sizeof text, file) && read_line(text, &line) &&
               (good = verify(state, &line)) > 0) {
            *kept = ftell(file);
            state->shards++;
            state->position = line.end;
            pack_counts_add(&state->counts, &line.counts);
        }
    }
    fclose(file);
    return good < 0 ? good : 0;
}

static int write_text(struct pack_state *state, const char *text)
{
    size_t length = strlen(text);
    ssize_t put = write(state->fd, text, length);

    if (put != (ssize_t)length)
        return fail(state, state->name, put < 0 ? errno : ENOSPC);
    return 0;
}

static int start_anew(struct pack_state *state, const char *hash)
{
    char text[LINE_ROOM];

    state->fresh = true;
    snprintf(text, sizeof text, "%splan %s\n", MAGIC, hash);
    return write_text(state, text);
}

/* The number of the shard whose temporary file this is. */
static bool is_part(const struct pack_pattern *pattern, const char *name)
{
    char inner[PACK_NAME_MAX];
    size_t length = strlen(name);
    uint64_t number;

    if (name[0] != '.' || length < 7 || length - 6 >= sizeof inner ||
        strcmp(name + length - 5, ".part") != 0)
        return false;
    snprintf(inner, sizeof inner, "%.*s", (int)(length - 6), name + 1);
    return pack_pattern_number(pattern, inner, &number);
}

/* Goes through the folder: temporary files go; shards from number `from` on are counted, and
 * removed with `remove_shards` (what --force is for). `example` gets the name of one. */
static int sweep(struct pack_state *state, uint64_t from, bool remove_shards, uint64_t *found,
                 char *example)
{
    int copy = openat(state->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fault = 0;
    DIR *open = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;
    uint64_t number, least = UINT64_MAX;

    *found = 0;
    if (!open) {
        fault = fail(state, "", errno);
        if (copy >= 0)
            close(copy);
        return fault;
    }
    while (!fault && (entry = readdir(open))) {
        bool shard = pack_pattern_number(state->pattern, entry->d_name, &number) && number >= from;
        if (shard && number < least) {
            least = number;
            snprintf(example, PACK_NAME_MAX, "%s", entry->d_name);
        }
        *found += shard;
        if ((is_part(state->pattern, entry->d_name) || (shard && remove_shards)) &&
            unlinkat(state->folder_fd, entry->d_name, 0) && errno != ENOENT)
            fault = fail(state, entry->d_name, errno);
    }
    closedir(open);
    return fault;
}

static int refuse_foreign(struct pack_state *state)
{
    char example[PACK_NAME_MAX] = "";
    uint64_t found;
    int fault = sweep(state, state->shards, false, &found, example);

    if (fault || !found || state->force)
        return fault;
    report_error("%s/%s: is there already%s, and not of a run that this one could take up; --force "
                 "overwrites",
                 state->pattern->folder, example, found > 1 ? ", as are others" : "");
    return -EEXIST;
}

int pack_state_open(struct pack_state *state, const struct pack_pattern *pattern, int folder_fd,
                    const struct pack_plan *plan, bool force)
{
    off_t kept;
    int fault;

    *state = (struct pack_state){
        .pattern = pattern, .folder_fd = folder_fd, .fd = -1, .force = force};
    snprintf(state->name, sizeof state->name, ".%s.packing", pattern->text);
    fault = open_locked(state);
    if (!fault)
        fault = take_up(state, plan->hash, &kept);
    if (!fault)
        fault = refuse_foreign(state);
    if (fault)
        return fault;
    if (ftruncate(state->fd, kept) || lseek(state->fd, kept, SEEK_SET) < 0)
        return fail(state, state->name, errno);
    return kept ? 0 : start_anew(state, plan->hash);
}

int pack_state_add(struct pack_state *state, uint64_t number, uint64_t first, uint64_t end,
                   const struct pack_identity *identity, const struct pack_counts *counts)
{
    const uint64_t *values = &counts->samples;
    char text[LINE_ROOM];
    int used = snprintf(
        text, sizeof text, "shard %llu %llu %llu %llu %llu %lld %d", (unsigned long long)number,
        (unsigned long long)first, (unsigned long long)end, (unsigned long long)identity->bytes,
        (unsigned long long)identity->inode, (long long)identity->seconds, identity->nanoseconds);
    int fault;

    for (unsigned i = 0; i < PACK_COUNTS; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, " %llu",
                         (unsigned long long)values[i]);
    snprintf(text + used, sizeof text - (size_t)used, ".\n");
    fault = write_text(state, text);
    if (!fault && fdatasync(state->fd))
        fault = fail(state, state->name, errno);
    return fault;
}

int pack_state_end(struct pack_state *state, uint64_t shards)
{
    char example[PACK_NAME_MAX];
    uint64_t found;
    int fault = sweep(state, shards, state->force, &found, example);

    if (!fault && unlinkat(state->folder_fd, state->name, 0))
        fault = fail(state, state->name, errno);
    close(state->fd);
    state->fd = -1;
    return fault;
}

void pack_state_close(struct pack_state *state)
{
    struct stat status;

    if (state->fd < 0)
        return;
    /* With nothing in it that could be taken up, nothing is left behind; but another plan's stays.
     */
    if (state->shards == 0 && fstat(state->fd, &status) == 0 &&
        (state->fresh || status.st_size == 0) && unlinkat(state->folder_fd, state->name, 0))
        report_warning("%s/%s: left behind: %s", state->pattern->folder, state->name,
                       strerror(errno));
    close(state->fd);
    state->fd = -1;
}
