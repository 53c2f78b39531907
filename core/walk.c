/* One pass of libarchive over one tar. Owns the archive handle for the time of the walk; never
 * keeps a member's bytes, never unpacks anything. */
#include "walk.h"

#include "report.h"
#include "shard_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define BLOCK INDEX_HEADER_BYTES

struct pass {
    struct harvest *harvest;
    struct index_shard *shard;
    struct shard_file *file;
    struct archive *archive;
    XXH3_state_t *hash;
    char *path; /* scratch: the member's path without its odd components */
    size_t path_room;
    uint64_t end; /* of the last member's blocks */
};

static bool worth_a_warning(enum index_problem problem)
{
    return problem != INDEX_LITTER && problem != INDEX_METADATA && problem != INDEX_EMPTY &&
           problem != INDEX_UNSAFE_PATH;
}

static void note(struct pass *pass, enum index_problem problem, const char *member, uint64_t offset)
{
    pass->harvest->problems[problem]++;
    if (pass->harvest->first_problem || !worth_a_warning(problem))
        return;
    if (asprintf(&pass->harvest->first_problem, "%s: offset %llu: %s%s%s%s", pass->shard->path,
                 (unsigned long long)offset, index_problem_name(problem),
                 member ? " (member '" : "", member ? member : "", member ? "')" : "") < 0)
        pass->harvest->first_problem = NULL;
}

/* Splits the member's path into key and field, both in pass->path, one after the other. False: it
 * is no sample's field, and was counted. */
static bool split_path(struct pass *pass, const char *name, uint64_t offset, char **field)
{
    const char *base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
    const char *dot = strchr(base, '.');
    size_t length = strlen(base);
    bool unsafe = name[0] == '/';
    char *to = pass->path;

    if (strncmp(base, "._", 2) == 0) {
        note(pass, INDEX_LITTER, name, offset);
        return false;
    }
    if (length >= 4 && strncmp(base, "__", 2) == 0 && strcmp(base + length - 2, "__") == 0) {
        note(pass, INDEX_METADATA, name, offset);
        return false;
    }
    if (!dot || dot == base || base[length - 1] == '.') {
        note(pass, INDEX_NO_EXTENSION, name, offset);
        return false;
    }
    if (strlen(dot + 1) > INDEX_FIELD_MAX) {
        note(pass, INDEX_LONG_EXTENSION, name, offset);
        return false;
    }
    for (const char *part = name; part < base;) {
        size_t size = (size_t)(strchr(part, '/') - part);
        bool parent = size == 2 && part[0] == '.' && part[1] == '.';
        unsafe |= parent;
        if (size && !parent && !(size == 1 && part[0] == '.')) {
            memcpy(to, part, size + 1);
            to += size + 1;
        }
        part += size + 1;
    }
    memcpy(to, base, (size_t)(dot - base));
    to += dot - base;
    *to++ = '\0';
    *field = to;
    for (const char *c = dot + 1; *c; c++)
        *to++ = (char)(*c >= 'A' && *c <= 'Z' ? *c + ('a' - 'A') : *c);
    *to = '\0';
    if (unsafe)
        note(pass, INDEX_UNSAFE_PATH, name, offset);
    return true;
}

/* The label's text: without the white space around it, which writers leave. Longer texts are no
 * class names. */
static void read_text(struct pass *pass, uint64_t size)
{
    char text[HARVEST_TEXT_MAX];
    la_ssize_t got;
    size_t from = 0, to;

    if (size > HARVEST_TEXT_MAX)
        return;
    got = archive_read_data(pass->archive, text, (size_t)size);
    if (got < 0 || (uint64_t)got != size)
        return; /* cut: the next header says so */
    to = (size_t)got;
    while (from < to && strchr(" \t\r\n", text[from]))
        from++;
    while (to > from && strchr(" \t\r\n", text[to - 1]))
        to--;
    if (memchr(text + from, '\0', to - from))
        return;
    memcpy(pass->harvest->text, text + from, to - from);
    pass->harvest->text[to - from] = '\0';
}

/* pass->path holds the key, a NUL and the field: hashed with both ends. */
static void hash_member(struct pass *pass, const char *field, uint64_t offset, uint64_t size)
{
    uint64_t numbers[2] = {htole64(offset), htole64(size)};

    XXH3_64bits_update(pass->hash, pass->path, (size_t)(field - pass->path) + strlen(field) + 1);
    XXH3_64bits_update(pass->hash, numbers, sizeof numbers);
}

static int add_field(struct pass *pass, const char *name, uint64_t offset, uint64_t size,
                     uint16_t header)
{
    struct index_member member = {.offset = offset & INDEX_OFFSET_MAX,
                                  .size = size & INDEX_SIZE_MAX};
    uint16_t number;
    char *field;
    int fresh, fault;

    if (harvest_grow(&pass->path, &pass->path_room, strlen(name) + 3, 1))
        return -ENOMEM;
    if (!split_path(pass, name, offset, &field))
        return 0;
    fresh = harvest_field(pass->harvest, pass->path, field, &number);
    if (fresh < 0)
        return fresh;
    if (!fresh) {
        note(pass, INDEX_DUPLICATE_FIELD, name, offset);
        return 0;
    }
    if (size == 0)
        note(pass, INDEX_EMPTY, name, offset);
    member.header = header;
    member.field = number;
    fault = harvest_member(pass->harvest, &member);
    if (fault)
        return fault;
    hash_member(pass, field, offset, size);
    if (strcmp(field, "cls") == 0)
        read_text(pass, size);
    return 0;
}

/* One member. Returns 1 to go on, 0 at the end of what can be trusted, or a negative errno. */
static int take_member(struct pass *pass, struct archive_entry *entry)
{
    const char *name = archive_entry_pathname(entry);
    uint64_t offset = (uint64_t)archive_filter_bytes(pass->archive, 0);
    int64_t size = archive_entry_size(entry);
    mode_t type = archive_entry_filetype(entry);
    uint16_t header;
    int numeric;
    uint64_t end = offset + ((uint64_t)size + BLOCK - 1) / BLOCK * BLOCK;

    if (!name)
        name = archive_entry_pathname_utf8(entry);
    if (!name || size < 0 || (uint64_t)size > INDEX_SIZE_MAX || offset > INDEX_OFFSET_MAX ||
        offset < INDEX_HEADER_BYTES) {
        note(pass, INDEX_CORRUPT_HEADER, name, pass->end);
        return 0;
    }
    if (archive_entry_hardlink(entry) || archive_entry_symlink(entry) || type == AE_IFLNK) {
        note(pass, INDEX_LINK, name, offset);
        pass->end = end;
        return 1;
    }
    if (type == AE_IFDIR || type != AE_IFREG) {
        if (type != AE_IFDIR)
            note(pass, INDEX_NOT_A_FILE, name, offset);
        pass->end = end;
        return 1;
    }
    if (archive_entry_sparse_count(entry) > 0) {
        note(pass, INDEX_SPARSE, name, offset);
        /* What it occupies shows when the next header is read: archive_filter_bytes() of that one.
         */
        pass->end = 0;
        return 1;
    }
    if (offset > pass->shard->size || (uint64_t)size > pass->shard->size - offset) {
        note(pass, INDEX_TRUNCATED, name, offset);
        pass->end = 0;
        return 0;
    }
    numeric = shard_file_header(pass->file, offset, &header);
    if (numeric < 0)
        return numeric;
    if (!numeric) {
        note(pass, INDEX_CORRUPT_HEADER, name, offset - INDEX_HEADER_BYTES);
        return 0;
    }
    pass->end = end;
    return add_field(pass, name, offset, (uint64_t)size, header) ?: 1;
}

/* libarchive says EOF alike for a sound end, a missing one and a lone zero block. What tells them
 * apart is how far it read past the last member, and what follows. */
static void judge_end(struct pass *pass)
{
    uint64_t size = pass->shard->size, read = (uint64_t)archive_filter_bytes(pass->archive, 0);
    uint64_t zeros;

    if (pass->end == 0 && pass->harvest->problems[INDEX_SPARSE])
        return; /* the last member was sparse: where it ends is not known */
    if (pass->end < size && size - pass->end < BLOCK &&
        !shard_file_only_zeros(pass->file, pass->end)) {
        note(pass, INDEX_TRUNCATED, NULL, pass->end);
        return;
    }
    zeros = read > pass->end ? read - pass->end : 0;
    if (zeros < BLOCK)
        note(pass, INDEX_NO_TRAILER, NULL, pass->end);
    else if (zeros < 2 * BLOCK && size - pass->end >= 2 * BLOCK)
        note(pass, INDEX_LONE_ZERO_BLOCK, NULL, pass->end);
    else if (zeros < 2 * BLOCK)
        note(pass, INDEX_NO_TRAILER, NULL, pass->end);
    else if (!shard_file_only_zeros(pass->file, pass->end + 2 * BLOCK))
        note(pass, INDEX_TRAILING_DATA, NULL, pass->end + 2 * BLOCK);
}

static int whole_shard(struct pass *pass, enum index_problem problem, const char *what)
{
    free(pass->shard->complaint);
    pass->shard->complaint = strdup(what);
    note(pass, problem, NULL, 0);
    free(pass->harvest->first_problem);
    if (asprintf(&pass->harvest->first_problem, "%s: %s: left out", pass->shard->path, what) < 0)
        pass->harvest->first_problem = NULL;
    return pass->shard->complaint ? 0 : -ENOMEM;
}

/* Nothing was read as a tar. */
static int judge_stranger(struct pass *pass)
{
    char name[32], what[96];

    if (pass->shard->size == 0)
        return whole_shard(pass, INDEX_NOT_A_TAR, "an empty file, not a tar");
    if (!shard_file_compression(pass->file, name, sizeof name))
        return whole_shard(pass, INDEX_NOT_A_TAR, "not a tar");
    snprintf(what, sizeof what, "compressed with %s; unpack it, this version reads plain tars",
             name);
    return whole_shard(pass, INDEX_COMPRESSED, what);
}

static int walk_members(struct pass *pass, struct archive_entry *entry)
{
    bool any = false;

    for (;;) {
        int result = archive_read_next_header2(pass->archive, entry);
        int next;

        if (pass->file->fault)
            return -pass->file->fault;
        if (result == ARCHIVE_EOF) {
            judge_end(pass);
            return 0;
        }
        /* ARCHIVE_WARN is a name that the C locale cannot show: its bytes are right. */
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
            if (!any)
                return judge_stranger(pass);
            if (pass->end >
                pass->shard->size) /* the last member's padding is cut, its data is not */
                note(pass, INDEX_NO_TRAILER, NULL, pass->end);
            else if (pass->end < pass->shard->size && pass->shard->size - pass->end < BLOCK)
                note(pass, INDEX_TRUNCATED, NULL, pass->end);
            else
                note(pass, INDEX_CORRUPT_HEADER, NULL, pass->end);
            return 0;
        }
        any = true;
        next = take_member(pass, entry);
        if (next <= 0)
            return next;
    }
}

static int walk_open_shard(struct pass *pass)
{
    struct archive_entry *entry = archive_entry_new();
    uint64_t size = htole64(pass->shard->size);
    int fault = entry ? shard_file_archive(pass->file, 0, &pass->archive) : -ENOMEM;

    if (!fault) {
        XXH3_64bits_reset(pass->hash);
        XXH3_64bits_update(pass->hash, &size, sizeof size);
        fault = walk_members(pass, entry);
    }
    if (!fault)
        fault = harvest_end(pass->harvest);
    pass->shard->hash = XXH3_64bits_digest(pass->hash);
    archive_entry_free(entry);
    archive_read_free(pass->archive);
    return fault;
}

int walk_shard(struct harvest *harvest, struct index_shard *shard)
{
    struct pass pass = {.harvest = harvest, .shard = shard};
    int fault = shard_file_open(&pass.file, shard);

    pass.hash = XXH3_createState();
    if (!fault && !pass.hash)
        fault = -ENOMEM;
    if (!fault)
        fault = walk_open_shard(&pass);
    if (fault == -EOVERFLOW)
        report_error("%s: offset %llu: more than %u different extensions or %llu members; an "
                     "extension is all "
                     "that follows the first dot of a name",
                     shard->path, (unsigned long long)pass.end, HARVEST_FIELDS_MAX,
                     (unsigned long long)INDEX_MEMBERS_MAX);
    else if (fault)
        report_error("%s: offset %llu: %s", shard->path,
                     (unsigned long long)(pass.file ? pass.file->offset : 0), strerror(-fault));
    shard_file_close(pass.file);
    XXH3_freeState(pass.hash);
    free(pass.path);
    return fault;
}
