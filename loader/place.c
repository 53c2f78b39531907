/* What a path names. */
#include "place.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

bool place_number(const char *text, const char **end, uint64_t *number)
{
    uint64_t value = 0;
    const char *at = text;

    if (*at < '0' || *at > '9' || (*at == '0' && at[1] >= '0' && at[1] <= '9'))
        return false;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (value > (UINT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(*at - '0');
    }
    *end = at;
    *number = value;
    return true;
}

/* rank-R[-of-W][.after-G][.tar|.list]: false when it is another name. World and after are left
 * alone where they are not told. */
static bool parse_rank_name(const char *name, uint64_t *rank, uint64_t *world, uint64_t *after,
                            enum place_kind *kind)
{
    if (strncmp(name, "rank-", 5) != 0 || !place_number(name + 5, &name, rank))
        return false;
    if (strncmp(name, "-of-", 4) == 0 && !place_number(name + 4, &name, world))
        return false;
    if (strncmp(name, ".after-", 7) == 0 && !place_number(name + 7, &name, after))
        return false;
    if (!*name)
        *kind = PLACE_FOLDER;
    else if (strcmp(name, ".tar") == 0)
        *kind = PLACE_TAR;
    else if (strcmp(name, ".list") == 0)
        *kind = PLACE_LIST;
    else
        return false;
    return true;
}

/* A mount shows rank-0 .. rank-(W-1), the first 65,536 of them. */
static uint64_t count_ranks(const char *root)
{
    enum { LISTED_MOST = 65536 };
    char path[PATH_MAX];
    DIR *folder;
    struct dirent *entry;
    uint64_t most = 0;

    if (snprintf(path, sizeof path, "%s/current", root) >= (int)sizeof path)
        return 0;
    folder = opendir(path);
    if (!folder)
        return 0;
    while ((entry = readdir(folder))) {
        const char *end;
        uint64_t rank;

        if (strncmp(entry->d_name, "rank-", 5) == 0 &&
            place_number(entry->d_name + 5, &end, &rank) && !*end && rank + 1 > most)
            most = rank + 1;
    }
    closedir(folder);
    return most < LISTED_MOST ? most : 0;
}

static bool is_mount_root(const char *path)
{
    char file[PATH_MAX];
    struct stat stat_;

    return snprintf(file, sizeof file, "%s/.control/fingerprint", path) < (int)sizeof file &&
           stat(file, &stat_) == 0;
}

static bool read_number_xattr(const char *path, const char *name, uint64_t *number)
{
    char text[32];
    const char *end;
    ssize_t length = getxattr(path, name, text, sizeof text - 1);

    if (length <= 0)
        return false;
    text[length] = '\0';
    return place_number(text, &end, number);
}

static int find_world(struct place *place, struct fault *fault)
{
    if (!place->world)
        place->world = count_ranks(place->path);
    if (!place->world)
        return fault_set(fault, -EINVAL,
                         "config.world is 0, and %s/current does not tell it: name the world",
                         place->path);
    if (place->rank >= place->world)
        return fault_set(fault, -EINVAL, "rank %llu does not exist in %s: its world is %llu",
                         (unsigned long long)place->rank, place->path,
                         (unsigned long long)place->world);
    return 0;
}

/* ROOT/current/rank-R or ROOT/epoch-E/rank-R, a view of a mount: from then on ROOT is the place.
 * `found` tells whether it is one. */
static int find_view(struct place *place, const struct settings *settings, uint64_t *after,
                     bool *found, struct fault *fault)
{
    char real[PATH_MAX];
    char *name, *epoch_name;
    const char *end;
    uint64_t rank, world = 0, epoch, named, resumed = 0;
    enum place_kind kind;

    *found = false;
    if (!realpath(place->path, real) || !read_number_xattr(real, "user.shufflefs.epoch", &epoch))
        return 0;
    read_number_xattr(real, "user.shufflefs.after", &resumed);
    name = strrchr(real, '/');
    if (!name || name == real || !parse_rank_name(name + 1, &rank, &world, after, &kind))
        return 0;
    *name = '\0';
    epoch_name = strrchr(real, '/');
    if (!epoch_name || (strcmp(epoch_name, "/current") != 0 &&
                        (strncmp(epoch_name, "/epoch-", 7) != 0 ||
                         !place_number(epoch_name + 7, &end, &named) || *end)))
        return 0;
    *epoch_name = '\0';
    snprintf(place->path, sizeof place->path, "%s", *real ? real : "/");
    place->mounted = *found = true;
    place->kind = kind;
    place->rank = rank;
    place->world = world ? world : settings->config.world;
    place->epoch = settings->config.epoch ? settings->config.epoch : epoch;
    /* `current` may have been resumed: its folder, which is what was asked for, is the rest then.
     */
    if (!place->after && !settings->config.epoch && !*after)
        place->after = resumed;
    return find_world(place, fault);
}

static bool named_as_tar(const char *path)
{
    static const char *const ends[] = {".tar",     ".tar.gz",  ".tgz",   ".tar.zst",
                                       ".tar.bz2", ".tar.lz4", ".tar.xz"};
    size_t length = strlen(path);

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (length >= strlen(ends[i]) && strcasecmp(path + length - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

int place_find(struct place *place, const struct settings *settings, struct fault *fault)
{
    const struct sl_config *config = &settings->config;
    enum sl_source source = config->source;
    uint64_t after = 0;
    struct stat stat_;
    bool found;
    int error;

    memset(place, 0, sizeof *place);
    place->rank = config->rank;
    place->world = config->world;
    place->start = config->start;
    place->epoch = config->epoch;
    place->after = config->after;
    if (snprintf(place->path, sizeof place->path, "%s", config->path) >= (int)sizeof place->path)
        return fault_set(fault, -ENAMETOOLONG, "config.path is longer than %d bytes", PATH_MAX - 1);
    if (stat(place->path, &stat_))
        return fault_file(fault, -errno, place->path);
    if (source == SL_SOURCE_AUTO)
        source = S_ISDIR(stat_.st_mode)
                     ? (is_mount_root(place->path) ? SL_SOURCE_MOUNT : SL_SOURCE_FOLDER)
                 : !S_ISREG(stat_.st_mode) || named_as_tar(place->path) ? SL_SOURCE_TAR
                                                                        : SL_SOURCE_LIST;
    if (source == SL_SOURCE_MOUNT || source == SL_SOURCE_MOUNT_TAR) {
        if (!is_mount_root(place->path))
            return fault_set(fault, -EINVAL, "%s is not the root of a shufflefs mount",
                             place->path);
        place->mounted = true;
        place->kind = source == SL_SOURCE_MOUNT ? PLACE_FOLDER : PLACE_TAR;
        return find_world(place, fault);
    }
    if ((source == SL_SOURCE_FOLDER) != S_ISDIR(stat_.st_mode))
        return fault_file(fault, source == SL_SOURCE_FOLDER ? -ENOTDIR : -EISDIR, place->path);
    error = find_view(place, settings, &after, &found, fault);
    if (error || found)
        return !error && after ? fault_set(fault, -EINVAL,
                                           "%s: give the folder without .after, and "
                                           "config.after",
                                           config->path)
                               : error;
    place->kind = source == SL_SOURCE_FOLDER ? PLACE_FOLDER
                  : source == SL_SOURCE_TAR  ? PLACE_TAR
                                             : PLACE_LIST;
    if (!place->world)
        place->world = 1;
    if (place->rank >= place->world)
        return fault_set(fault, -EINVAL, "config.rank is %llu: it has to be below the world, %llu",
                         (unsigned long long)place->rank, (unsigned long long)place->world);
    return 0;
}

/* The epoch's samples, all ranks' together: those of a world of one. */
static bool count_epoch(const struct place *place, uint64_t epoch, uint64_t *samples)
{
    char path[PATH_MAX];

    return snprintf(path, sizeof path, "%s/epoch-%llu/rank-0-of-1", place->path,
                    (unsigned long long)epoch) < (int)sizeof path &&
           read_number_xattr(path, "user.shufflefs.samples", samples);
}

int place_check_end(const struct place *place, const struct place_epoch *at, uint64_t samples,
                    struct fault *fault)
{
    /* Another rank may have one sample more. */
    if (at->skip <= samples + (place->world > 1))
        return 0;
    if (place->world == 1)
        return fault_set(fault, -EINVAL, "cannot go on after sample %llu: %s has %llu samples",
                         (unsigned long long)at->base, at->path, (unsigned long long)samples);
    return fault_set(
        fault, -EINVAL,
        "cannot go on after sample %llu: %s has %llu samples, and is one of %llu ranks",
        (unsigned long long)at->base, at->path, (unsigned long long)samples,
        (unsigned long long)place->world);
}

int place_epoch(const struct place *place, uint64_t epoch, uint64_t after, struct place_epoch *out,
                struct fault *fault)
{
    static const char *const suffixes[] = {"", ".tar", ".list"};
    uint64_t start = place->mounted ? 0 : place->start, samples;
    char resumed[40] = "";
    struct stat stat_;

    if (after > SETTINGS_POSITION_MOST)
        return fault_set(fault, -EINVAL, "cannot go on after sample %llu: at most 2^62",
                         (unsigned long long)after);
    if (after < start)
        after = start;
    out->base = after;
    out->skip = 0;
    if (!place->mounted) {
        snprintf(out->path, sizeof out->path, "%s", place->path);
    } else {
        for (int attempt = 0; attempt < 2; attempt++) {
            if (after && !attempt)
                snprintf(resumed, sizeof resumed, ".after-%llu", (unsigned long long)after);
            else
                *resumed = '\0';
            if (snprintf(out->path, sizeof out->path, "%s/epoch-%llu/rank-%llu-of-%llu%s%s",
                         place->path, (unsigned long long)epoch, (unsigned long long)place->rank,
                         (unsigned long long)place->world, resumed,
                         suffixes[place->kind]) >= (int)sizeof out->path)
                return fault_file(fault, -ENAMETOOLONG, place->path);
            if (!after || stat(out->path, &stat_) == 0)
                break;
            /* An older mount, an order without such a prefix, or a place past the end. */
            if (errno != ENOENT && errno != EINVAL)
                return fault_file(fault, -errno, out->path);
        }
        if (*resumed)
            return 0;
        /* At the end of its padding it is over, which is no fault. */
        if (after && count_epoch(place, epoch, &samples) && after > samples &&
            (after % place->world || after - samples >= place->world))
            return fault_set(fault, -EINVAL,
                             "cannot go on after sample %llu: epoch %llu of %s has %llu samples",
                             (unsigned long long)after, (unsigned long long)epoch, place->path,
                             (unsigned long long)samples);
    }
    if ((after - start) % place->world)
        return fault_set(fault, -EINVAL,
                         "cannot go on after sample %llu: %s can only be resumed at multiples of "
                         "its world, %llu",
                         (unsigned long long)after, place->path, (unsigned long long)place->world);
    out->skip = (after - start) / place->world;
    return 0;
}
