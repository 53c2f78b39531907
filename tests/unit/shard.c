/* Shards for the unit tests. */
#include "shard.h"

#include "../../core/report.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The set-up of a test cannot go on without: abort shows where. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

void folder_make(struct shard_folder *folder)
{
    const char *place = getenv("TMPDIR");

    *folder = (struct shard_folder){0};
    snprintf(folder->path, sizeof folder->path, "%.40s/shards-XXXXXX", place ? place : "/tmp");
    MUST(mkdtemp(folder->path));
}

void folder_remove(struct shard_folder *folder)
{
    DIR *open = opendir(folder->path);
    struct dirent *entry;
    char path[400];

    while (open && (entry = readdir(open))) {
        snprintf(path, sizeof path, "%s/%s", folder->path, entry->d_name);
        unlink(path);
    }
    if (open)
        closedir(open);
    rmdir(folder->path);
    shards_close(&folder->shards);
}

static void path_of(const struct shard_folder *folder, const char *name, char *path, size_t room)
{
    snprintf(path, room, "%s/%s", folder->path, name);
}

static void set_kind(struct archive_entry *entry, const char *name, const char *content)
{
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_mtime(entry, 1600000000, 250000000);
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_size(entry, 0);
    if (name[strlen(name) - 1] == '/') {
        archive_entry_set_filetype(entry, AE_IFDIR);
    } else if (strncmp(content, "->", 2) == 0) {
        archive_entry_set_filetype(entry, AE_IFLNK);
        archive_entry_set_symlink(entry, content + 2);
    } else if (strncmp(content, "=>", 2) == 0) {
        archive_entry_set_hardlink(entry, content + 2);
    } else if (strcmp(content, "|") == 0) {
        archive_entry_set_filetype(entry, AE_IFIFO);
    } else if (strcmp(content, "~") == 0) {
        archive_entry_set_size(entry, 8192);
        archive_entry_sparse_add_entry(entry, 4096, 512);
    } else {
        archive_entry_set_size(entry, (la_int64_t)strlen(content));
    }
}

void folder_add_tar(struct shard_folder *folder, const char *name, const char *format,
                    const char *const *members)
{
    struct archive *archive = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    char path[400];

    path_of(folder, name, path, sizeof path);
    if (strcmp(format, "gzip") == 0)
        archive_write_add_filter_gzip(archive);
    archive_write_set_format_by_name(archive, strcmp(format, "gzip") == 0 ? "ustar" : format);
    archive_write_set_bytes_in_last_block(archive, 1);
    MUST(archive_write_open_filename(archive, path) == ARCHIVE_OK);
    for (; members[0]; members += 2) {
        static const char zeros[8192];
        archive_entry_clear(entry);
        set_kind(entry, members[0], members[1]);
        MUST(archive_write_header(archive, entry) >= ARCHIVE_WARN);
        if (strcmp(members[1], "~") == 0)
            archive_write_data(archive, zeros, sizeof zeros);
        else
            archive_write_data(archive, members[1], strlen(members[1]));
    }
    MUST(archive_write_close(archive) == ARCHIVE_OK);
    archive_write_free(archive);
    archive_entry_free(entry);
    MUST(shards_add(&folder->shards, path, "/") == 0);
}

void folder_add_bytes(struct shard_folder *folder, const char *name, const void *bytes, size_t size)
{
    char path[400];
    FILE *file;

    path_of(folder, name, path, sizeof path);
    file = fopen(path, "w");
    MUST(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
    for (size_t i = 0; i < folder->shards.count; i++)
        if (strcmp(folder->shards.paths[i], path) == 0)
            return;
    MUST(shards_add(&folder->shards, path, "/") == 0);
}

char *folder_read(const struct shard_folder *folder, const char *name, size_t *size)
{
    char path[400], *bytes;
    FILE *file;

    path_of(folder, name, path, sizeof path);
    file = fopen(path, "r");
    MUST(file && fseek(file, 0, SEEK_END) == 0);
    *size = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(*size + 1);
    MUST(bytes && fread(bytes, 1, *size, file) == *size);
    fclose(file);
    return bytes;
}

static char lines[64][2048];
static unsigned line_count;

static void keep(const char *line, void *context)
{
    (void)context;
    snprintf(lines[line_count++ % 64], sizeof *lines, "%s", line);
}

const char *report_watch(const char *text)
{
    if (!text) {
        line_count = 0;
        report_to_sink(keep, NULL);
        return NULL;
    }
    for (unsigned i = line_count; i > 0 && line_count - i < 64; i--)
        if (strstr(lines[(i - 1) % 64], text))
            return lines[(i - 1) % 64];
    return NULL;
}

void report_stop(void)
{
    report_to_sink(NULL, NULL);
}

void shard_put(struct archive *archive, const char *name, const void *bytes, size_t size)
{
    struct archive_entry *entry = archive_entry_new();

    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, (la_int64_t)size);
    MUST(archive_write_header(archive, entry) == ARCHIVE_OK);
    MUST(archive_write_data(archive, bytes, size) == (la_ssize_t)size);
    archive_entry_free(entry);
}
