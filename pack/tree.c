/* The walk over a folder. Owns nothing once it is done; never opens a file. */
#include "source.h"

#include "../core/member_name.h"
#include "../core/report.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct walk {
    struct pack_source *source;
    size_t root_length; /* of the folder's path as fts has it, with the '/' */
};

static void refuse(struct walk *walk, const FTSENT *entry, const char *why)
{
    if (pack_listing_may_name(&walk->source->listing, walk->source->listing.refused++))
        report_error("%s: %s", entry->fts_path, why);
}

static int take_file(struct walk *walk, const FTSENT *entry)
{
    struct pack_listing *listing = &walk->source->listing;
    const char *path = entry->fts_path + walk->root_length, *dot;
    const struct stat *status = entry->fts_statp;
    enum index_problem problem;
    struct pack_member member;

    dot = member_name_dot(path, &problem);
    if (!dot) {
        pack_listing_leave_out(listing, problem, entry->fts_path);
        return 0;
    }
    if (faccessat(AT_FDCWD, entry->fts_path, R_OK, AT_EACCESS)) {
        refuse(walk, entry, strerror(errno));
        return 0;
    }
    if ((uint64_t)status->st_size > INDEX_SIZE_MAX) {
        refuse(walk, entry, "too large");
        return 0;
    }
    member = (struct pack_member){
        .key_length = (size_t)(dot - path),
        .field = pack_listing_field(listing, dot + 1),
        .path = strdup(path),
        .size = (uint64_t)status->st_size,
        .seconds = status->st_mtim.tv_sec,
        .nanoseconds = (int32_t)status->st_mtim.tv_nsec,
    };
    member.key = member.path;
    if (!member.field || !member.path || pack_listing_add(listing, &member)) {
        free(member.path);
        return -ENOMEM;
    }
    return 0;
}

static int take_entry(struct walk *walk, FTS *fts, FTSENT *entry)
{
    switch (entry->fts_info) {
    case FTS_D:
        if (entry->fts_level > 0 && entry->fts_name[0] == '.') {
            pack_listing_leave_out(&walk->source->listing, INDEX_LITTER, entry->fts_path);
            fts_set(fts, entry, FTS_SKIP);
        }
        return 0;
    case FTS_DP:
    case FTS_DOT:
        return 0;
    case FTS_F:
        return take_file(walk, entry);
    case FTS_SL:
    case FTS_SLNONE:
        refuse(walk, entry, "a link that leads nowhere");
        return 0;
    case FTS_DC:
        refuse(walk, entry, "a link back to a folder that it is in");
        return 0;
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
        refuse(walk, entry, strerror(entry->fts_errno));
        return 0;
    default:
        pack_listing_leave_out(&walk->source->listing, INDEX_NOT_A_FILE, entry->fts_path);
        return 0;
    }
}

int pack_tree_list(struct pack_source *source, const char *folder)
{
    struct walk walk = {source, strlen(folder)};
    char *roots[] = {(char *)folder, NULL}; /* fts_open() leaves it as it is */
    FTSENT *entry;
    FTS *fts;
    int fault = 0;

    source->root_path = folder;
    source->root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    fts = source->root < 0 ? NULL : fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, NULL);
    if (!fts) {
        fault = -errno;
        report_error("%s: %s", folder, strerror(-fault));
        return fault;
    }
    if (folder[walk.root_length - 1] != '/')
        walk.root_length++;
    errno = 0;
    while (!fault && (entry = fts_read(fts)))
        fault = take_entry(&walk, fts, entry);
    if (!fault && errno) {
        fault = -errno;
        report_error("%s: %s", folder, strerror(-fault));
    }
    fts_close(fts);
    if (!fault && source->listing.refused)
        fault = -EACCES;
    return fault;
}
