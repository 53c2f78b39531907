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

/* rank-R[-of-W][.after-G][.part-K-of-M[.by-B]] and a view's suffix. */
struct view_name {
    uint64_t rank, world, after; /* 0: not told */
    uint64_t part, parts, by;
    char part_text[64];
    const char *suffix;
    enum place_kind kind;
    bool in_classes; /* by classes: no order of an epoch */
};

static bool parse_part(const char **name, struct view_name *view)
{
    const char *start = *name, *at = start + 6;

    view->part = 0;
    view->parts = view->by = 1;
    view->part_text[0] = '\0';
    if (strncmp(start, ".part-", 6) != 0)
        return true;
    if (!place_number(at, &at, &view->part) || strncmp(at, "-of-", 4) != 0 ||
        !place_number(at + 4, &at, &view->parts) || view->part >= view->parts)
        return false;
    if (strncmp(at, ".by-", 4) == 0 && (!place_number(at + 4, &at, &view->by) || !view->by))
        return false;
    if ((size_t)(at - start) >= sizeof view->part_text)
        return false;
    memcpy(view->part_text, start, (size_t)(at - start));
    view->part_text[at - start] = '\0';
    if (view->parts == 1)
        view->by = 1;
    *name = at;
    return true;
}

/* False when it is another name. */
static bool parse_view_name(const char *name, struct view_name *view)
{
    static const struct {
        const char *suffix;
        enum place_kind kind;
    } views[] = {{"", PLACE_FOLDER},
                 {".keys", PLACE_FOLDER},
                 {".tar", PLACE_TAR},
                 {".list", PLACE_LIST},
                 {".classes", PLACE_FOLDER}};

    *view = (struct view_name){0};
    if (strncmp(name, "rank-", 5) != 0 || !place_number(name + 5, &name, &view->rank))
        return false;
    if (strncmp(name, "-of-", 4) == 0 && !place_number(name + 4, &name, &view->world))
        return false;
    if (strncmp(name, ".after-", 7) == 0 && !place_number(name + 7, &name, &view->after))
        return false;
    if (!parse_part(&name, view))
        return false;
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        if (strcmp(name, views[i].suffix) != 0)
            continue;
        view->suffix = views[i].suffix;
        view->kind = views[i].kind;
        view->in_classes = strcmp(name, ".classes") == 0;
        return true;
    }
    return false;
}

/* A mount's epoch shows rank-0 .. rank-(W-1), the first 65,536 of them. 0: it does not tell. */
static uint64_t count_ranks(const char *path)
{
    enum { LISTED_MOST = 65536 };
    DIR *folder = opendir(path);
    struct dirent *entry;
    uint64_t most = 0;

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
    char current[PATH_MAX];

    if (!place->world &&
        snprintf(current, sizeof current, "%s/current", place->path) < (int)sizeof current)
        place->world = count_ranks(current);
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

/* Where all ranks are side by side, or where one is class by class, a loader would find samples,
 * but not one rank's in an epoch's order: what to open instead. 0: it is no such folder. `path` is
 * without links. */
static int refuse_folder(const char *path, struct fault *fault)
{
    char name[PATH_MAX], *last;
    struct view_name view;
    uint64_t epoch;

    if (is_mount_root(path))
        return fault_set(fault, -EINVAL,
                         "%s is a mount's root, which as a folder has all ranks: open it as a "
                         "mount, or its current/rank-0",
                         path);
    if (snprintf(name, sizeof name, "%s/rank-0", path) < (int)sizeof name &&
        read_number_xattr(name, "user.shufflefs.epoch", &epoch))
        return fault_set(fault, -EINVAL,
                         "%s has the folders of all ranks, each in several views: open one of "
                         "them, as %s/rank-0, or the mount's root",
                         path, path);
    if (!read_number_xattr(path, "user.shufflefs.epoch", &epoch))
        return 0;
    /* rank-R.classes, or the folder of a class in it. */
    snprintf(name, sizeof name, "%s", path);
    for (int up = 0; up < 2 && (last = strrchr(name, '/')); up++) {
        if (parse_view_name(last + 1, &view) && view.in_classes) {
            name[strlen(name) - strlen(view.suffix)] = '\0';
            return fault_set(fault, -EINVAL,
                             "%s goes class by class, not in the epoch's order: open %s, whose "
                             "samples have the same labels",
                             path, name);
        }
        *last = '\0';
    }
    return 0;
}

/* ROOT/current/rank-R or ROOT/epoch-E/rank-R, a view of a mount: from then on ROOT is the place.
 * `found` tells whether it is one. What else is of a mount would be the same samples in every
 * epoch, and is an error. */
static int find_view(struct place *place, const struct settings *settings, bool *found,
                     struct fault *fault)
{
    char real[PATH_MAX];
    char *name, *epoch_name;
    const char *end;
    struct view_name view;
    uint64_t epoch, named, resumed = 0;
    int error;

    *found = false;
    if (!realpath(place->path, real))
        return 0;
    error = refuse_folder(real, fault);
    if (error || !read_number_xattr(real, "user.shufflefs.epoch", &epoch))
        return error;
    read_number_xattr(real, "user.shufflefs.after", &resumed);
    name = strrchr(real, '/');
    if (name)
        *name = '\0';
    epoch_name = strrchr(real, '/');
    if (!name || !parse_view_name(name + 1, &view) || !epoch_name ||
        (strcmp(epoch_name, "/current") != 0 &&
         (strncmp(epoch_name, "/epoch-", 7) != 0 || !place_number(epoch_name + 7, &end, &named) ||
          *end)))
        return fault_set(fault, -EINVAL,
                         "%s is of a shufflefs mount, but not under the name that it has there, "
                         "so other epochs cannot be found: open MOUNT/current/rank-R",
                         place->path);
    if (view.after)
        return fault_set(fault, -EINVAL, "%s: give the folder without .after, and config.after",
                         place->path);
    *epoch_name = '\0';
    snprintf(place->path, sizeof place->path, "%s", *real ? real : "/");
    place->mounted = *found = true;
    place->kind = view.kind;
    place->suffix = view.suffix;
    place->rank = view.rank;
    place->world = view.world ? view.world : settings->config.world;
    place->part = view.part;
    place->parts = view.parts;
    place->by = view.by;
    memcpy(place->part_text, view.part_text, sizeof place->part_text);
    place->epoch = settings->config.epoch ? settings->config.epoch : epoch;
    /* `current` may have been resumed: its folder, which is what was asked for, is the rest then.
     */
    if (!place->after && !settings->config.epoch)
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
    struct stat stat_;
    bool found;
    int error;

    memset(place, 0, sizeof *place);
    place->parts = place->by = 1;
    place->suffix = "";
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
        place->suffix = source == SL_SOURCE_MOUNT ? "" : ".tar";
        return find_world(place, fault);
    }
    if ((source == SL_SOURCE_FOLDER) != S_ISDIR(stat_.st_mode))
        return fault_file(fault, source == SL_SOURCE_FOLDER ? -ENOTDIR : -EISDIR, place->path);
    error = find_view(place, settings, &found, fault);
    if (error || found)
        return error;
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
    /* Another rank may have one sample more, and another part a run. */
    if (at->skip <= samples + (place->parts > 1 ? place->by : place->world > 1))
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

uint64_t place_position(const struct place *place, const struct place_epoch *at, uint64_t number)
{
    uint64_t run = number / place->by;

    return at->base + place->rank +
           ((run * place->parts + place->part) * place->by + number % place->by) * place->world;
}

uint64_t place_after(const struct place *place, const struct place_epoch *at, uint64_t rows,
                     bool ended)
{
    uint64_t runs = rows / place->by + (ended && rows % place->by);

    return at->base + runs * place->by * place->parts * place->world;
}

/* Samples of the global order in which each rank and part has a run: without a folder that starts
 * elsewhere, the places to go on from. */
static uint64_t step_of(const struct place *place)
{
    uint64_t step;

    return __builtin_mul_overflow(place->world, place->parts, &step) ||
                   __builtin_mul_overflow(step, place->by, &step)
               ? UINT64_MAX
               : step;
}

int place_epoch(const struct place *place, uint64_t epoch, uint64_t after, struct place_epoch *out,
                struct fault *fault)
{
    uint64_t start = place->mounted ? 0 : place->start, step = step_of(place), samples;
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
            if (snprintf(out->path, sizeof out->path, "%s/epoch-%llu/rank-%llu-of-%llu%s%s%s",
                         place->path, (unsigned long long)epoch, (unsigned long long)place->rank,
                         (unsigned long long)place->world, resumed, place->part_text,
                         place->suffix) >= (int)sizeof out->path)
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
            (after % step || after - samples >= step))
            return fault_set(fault, -EINVAL,
                             "cannot go on after sample %llu: epoch %llu of %s has %llu samples",
                             (unsigned long long)after, (unsigned long long)epoch, place->path,
                             (unsigned long long)samples);
    }
    if ((after - start) % step)
        return fault_set(fault, -EINVAL,
                         "cannot go on after sample %llu: %s can only be resumed at multiples of "
                         "%s, %llu",
                         (unsigned long long)after, place->path,
                         place->parts > 1 ? "a run of each of its ranks' parts" : "its world",
                         (unsigned long long)step);
    out->skip = (after - start) / (place->world * place->parts);
    return 0;
}
