/* Tells folders from shards, and reads members' bytes. Owns what is open of either. */
#include "source.h"

#include "../core/report.h"
#include "../core/shard_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 1: the folder has tars, or compressed ones, right in it, as core/shards.h takes them; 0: it has
 * none; or a negative errno, reported. */
static int holds_tars(const char *folder)
{
    DIR *open = opendir(folder);
    struct dirent *entry;
    int found = open ? 0 : -errno;

    if (!open) {
        report_error("%s: %s", folder, strerror(-found));
        return found;
    }
    while (!found && (entry = readdir(open)))
        found = entry->d_name[0] != '.' &&
                (shard_name_ends(entry->d_name, ".tar") || shard_name_is_packed(entry->d_name));
    closedir(open);
    return found;
}

/* Of several SRC that shall be shards: a folder of files among them is told in these words. 0, or a
 * negative errno, reported. */
static int refuse_trees(const struct pack_options *options)
{
    for (size_t i = 0; i < options->source_count; i++) {
        const char *source = options->sources[i];
        struct stat status;
        int tars = stat(source, &status) == 0 && S_ISDIR(status.st_mode) ? holds_tars(source) : 1;
        if (tars < 0)
            return tars;
        if (!tars) {
            report_error("%s has no *.tar; of folders of files, one is packed: the one above them",
                         source);
            return -ENOENT;
        }
    }
    return 0;
}

/* 1: one folder, to be walked; 0: shards; or a negative errno, reported. */
static int is_tree(const struct pack_options *options)
{
    struct stat status;
    bool folder = options->source_count == 1 && stat(options->sources[0], &status) == 0 &&
                  S_ISDIR(status.st_mode);
    int tars;

    if (options->from == PACK_FROM_SHARDS)
        return 0;
    if (options->from == PACK_FROM_TREE) {
        if (folder)
            return 1;
        if (options->source_count == 1)
            report_error("%s: not a folder", options->sources[0]);
        else
            report_error("--from tree takes one folder");
        return -ENOTDIR;
    }
    if (!folder)
        return options->source_count > 1 ? refuse_trees(options) : 0;
    tars = holds_tars(options->sources[0]);
    return tars < 0 ? tars : !tars;
}

int pack_source_open(struct pack_source *source, const struct pack_options *options)
{
    struct pack_listing *listing = &source->listing;
    int fault, tree;

    *source = (struct pack_source){.root = -1};
    listing->name_all = options->verbose;
    tree = is_tree(options);
    if (tree < 0)
        return tree;
    if (tree && options->keep_order) {
        report_error("--keep-order: the files of a folder have no order of their own");
        return -EINVAL;
    }
    fault = tree ? pack_tree_list(source, options->sources[0]) : pack_tars_list(source, options);
    if (!fault)
        fault = pack_listing_settle(listing, options->keep_order);
    if (!fault && !listing->samples) {
        report_error("%s: no file in it can be a sample", options->sources[0]);
        fault = -ENODATA;
    }
    if (!fault && options->convert_png)
        fault = pack_listing_check_converted(listing);
    if (fault == -ENOMEM)
        report_error("no memory for the list of files");
    return fault;
}

void pack_source_close(struct pack_source *source)
{
    reader_close(source->reader);
    index_close(source->index);
    unpack_close(source->unpack);
    shards_close(&source->shards);
    if (source->root >= 0)
        close(source->root);
    pack_listing_close(&source->listing);
}

static int refuse_file(const struct pack_reading *reading, int fault)
{
    report_error("%s/%s: %s", reading->source->root_path, reading->member->path, strerror(fault));
    return -fault;
}

/* Is the file still the one that was listed? */
static int check_file(const struct pack_reading *reading)
{
    const struct pack_member *member = reading->member;
    struct stat status;

    if (fstat(reading->fd, &status))
        return refuse_file(reading, errno);
    if ((uint64_t)status.st_size == member->size && status.st_mtim.tv_sec == member->seconds &&
        status.st_mtim.tv_nsec == member->nanoseconds)
        return 0;
    report_error(
        "%s/%s: offset %llu: the file was changed after it was listed: %lld bytes now, %llu "
        "then",
        reading->source->root_path, member->path, (unsigned long long)reading->offset,
        (long long)status.st_size, (unsigned long long)member->size);
    return -ESTALE;
}

int pack_reading_open(struct pack_reading *reading, const struct pack_source *source,
                      const struct pack_member *member)
{
    *reading = (struct pack_reading){source, member, -1, 0};
    if (source->index)
        return 0;
    reading->fd = openat(source->root, member->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (reading->fd < 0)
        return refuse_file(reading, errno);
    return 0;
}

static int take_from_shard(struct pack_reading *reading, char *to, size_t size)
{
    const struct pack_source *source = reading->source;
    ssize_t got = reader_read(source->reader, reading->member->number, to, size, reading->offset);
    size_t shard = index_shard_of_member(source->index, reading->member->number);

    if (got == (ssize_t)size) {
        reading->offset += size;
        return 0;
    }
    report_error("%s: offset %llu of member '%.*s.%s': it cannot be read",
                 source->index->shards[shard].path, (unsigned long long)reading->offset,
                 (int)reading->member->key_length, reading->member->key, reading->member->field);
    return got < 0 ? (int)got : -EIO;
}

int pack_reading_take(struct pack_reading *reading, void *buffer, size_t size)
{
    char *to = buffer;

    if (reading->source->index)
        return size ? take_from_shard(reading, to, size) : 0;
    while (size) {
        ssize_t got = read(reading->fd, to, size);
        int fault = errno;
        if (got < 0 && fault == EINTR)
            continue;
        if (got < 0) {
            report_error("%s/%s: offset %llu: %s", reading->source->root_path,
                         reading->member->path, (unsigned long long)reading->offset,
                         strerror(fault));
            return -fault;
        }
        if (got == 0) {
            report_error("%s/%s: offset %llu: the file ends here, which had %llu bytes when it was "
                         "listed",
                         reading->source->root_path, reading->member->path,
                         (unsigned long long)reading->offset,
                         (unsigned long long)reading->member->size);
            return -ESTALE;
        }
        to += got;
        size -= (size_t)got;
        reading->offset += (size_t)got;
    }
    return reading->offset == reading->member->size ? check_file(reading) : 0;
}

void pack_reading_close(struct pack_reading *reading)
{
    if (reading->fd >= 0)
        close(reading->fd);
    reading->fd = -1;
}
