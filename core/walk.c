/* One pass over one tar: by libarchive, but for the run of plain members that it begins with. Owns
 * the archive handle for the time of the walk; never keeps a member's bytes, never unpacks
 * anything.
 */
#include "walk.h"

#include "links.h"
#include "member_name.h"
#include "pax_global.h"
#include "plain_header.h"
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
    uint64_t start; /* where libarchive counts from: 0, or behind a lone zero block */
    uint64_t end;   /* of the last member's blocks */
    bool any;       /* something was read as a tar */
    bool no_plain;  /* all is libarchive's to read */
    bool has_links; /* a hard link was met: `links` is kept from the first member on */
    struct links links;
    size_t number; /* of the shard, for the observer */
    const struct index_observer *observer;
    uint64_t events, told; /* met in this walk; of them, those that the observer knows */
    char *names;           /* for the observer: of each sample's first member, a NUL after each */
    size_t name_bytes, name_room;
    const char *name; /* while split samples are told of: the name of sample number `named` */
    size_t named;
};

/* The first hard link was met: the walk starts again, and puts down names from the first member
 * on. Most shards have none, and need not pay for that. */
#define MEET_LINKS 2
/* libarchive makes something else of a header that was taken for plain: it walks all of the shard,
 * then. Not known to happen; what it says counts. */
#define MEET_OTHER 3

static bool worth_a_warning(enum index_problem problem)
{
    return problem != INDEX_LITTER && problem != INDEX_METADATA && problem != INDEX_EMPTY &&
           problem != INDEX_UNSAFE_PATH;
}

/* A walk that starts again meets the same once more: the observer is told of nothing twice. */
static bool is_news(struct pass *pass)
{
    if (!pass->observer || ++pass->events <= pass->told)
        return false;
    pass->told = pass->events;
    return true;
}

static void note(struct pass *pass, enum index_problem problem, const char *member, uint64_t offset)
{
    pass->harvest->problems[problem]++;
    if (is_news(pass) && pass->observer->problem)
        pass->observer->problem(pass->observer->context, pass->number, problem, member, offset);
    if (pass->harvest->first_problem || !worth_a_warning(problem))
        return;
    if (asprintf(&pass->harvest->first_problem, "%s: offset %llu: %s%s%s%s", pass->shard->path,
                 (unsigned long long)offset, index_problem_name(problem),
                 member ? " (member '" : "", member ? member : "", member ? "')" : "") < 0)
        pass->harvest->first_problem = NULL;
}

/* The label's text: without the white space around it, which writers leave. Longer texts are no
 * class names. */
static int read_text(struct pass *pass, uint64_t offset, uint64_t size)
{
    char scratch[HARVEST_TEXT_MAX];
    const char *text;
    size_t from = 0, to = (size_t)size;

    if (size == 0 || size > HARVEST_TEXT_MAX)
        return 0;
    text = shard_file_bytes(pass->file, offset, to, scratch);
    if (!text)
        return -pass->file->fault;
    while (from < to && strchr(" \t\r\n", text[from]))
        from++;
    while (to > from && strchr(" \t\r\n", text[to - 1]))
        to--;
    if (memchr(text + from, '\0', to - from))
        return 0;
    memcpy(pass->harvest->text, text + from, to - from);
    pass->harvest->text[to - from] = '\0';
    return 0;
}

/* A shard's hash covers its size, and then each member. */
static void begin_hash(struct pass *pass)
{
    uint64_t size = htole64(pass->shard->size);

    XXH3_64bits_reset(pass->hash);
    XXH3_64bits_update(pass->hash, &size, sizeof size);
}

/* pass->path holds the key, a NUL and the field: hashed with both ends. */
static void hash_member(struct pass *pass, const char *field, uint64_t offset, uint64_t size)
{
    uint64_t numbers[2] = {htole64(offset), htole64(size)};

    XXH3_64bits_update(pass->hash, pass->path, (size_t)(field - pass->path) + strlen(field) + 1);
    XXH3_64bits_update(pass->hash, numbers, sizeof numbers);
}

/* A sample begins with the member `name`. Whether an earlier one has its key is known at the end.
 */
static int keep_name(struct pass *pass, const char *name)
{
    size_t length = strlen(name) + 1;

    if (harvest_grow(&pass->names, &pass->name_room, pass->name_bytes + length, 1))
        return -ENOMEM;
    memcpy(pass->names + pass->name_bytes, name, length);
    pass->name_bytes += length;
    return 0;
}

/* A field that stands at `offset` in the tar, whose bytes are `place`'s. 0 or a negative errno. */
static int add_field(struct pass *pass, const char *name, uint64_t offset,
                     const struct index_member *place)
{
    struct index_member member = *place;
    uint64_t size = place->size;
    size_t samples = pass->harvest->sample_count;
    enum index_problem reason;
    uint16_t number;
    bool unsafe;
    char *field;
    int fresh, fault;

    if (harvest_grow(&pass->path, &pass->path_room, strlen(name) + 3, 1))
        return -ENOMEM;
    if (!member_name_split(name, pass->path, &field, &unsafe, &reason)) {
        note(pass, reason, name, offset);
        return 0;
    }
    if (unsafe)
        note(pass, INDEX_UNSAFE_PATH, name, offset);
    fresh = harvest_field(pass->harvest, pass->path, field, &number);
    if (fresh >= 0 && pass->observer && pass->harvest->sample_count > samples)
        fresh = keep_name(pass, name) ? -ENOMEM : fresh;
    if (fresh < 0)
        return fresh;
    if (!fresh) {
        note(pass, INDEX_DUPLICATE_FIELD, name, offset);
        return 0;
    }
    if (size == 0)
        note(pass, INDEX_EMPTY, name, offset);
    member.field = number;
    fault = harvest_member(pass->harvest, &member);
    if (fault)
        return fault;
    if (is_news(pass) && pass->observer->member)
        pass->observer->member(pass->observer->context, pass->number,
                               pass->harvest->sample_count - 1, name, &member);
    hash_member(pass, field, place->offset, size);
    if (strcmp(field, "cls") == 0)
        return read_text(pass, place->offset, size);
    return 0;
}

/* A member by the name it has in the tar: a field, and what later hard links may point at. */
static int add_member(struct pass *pass, const char *name, uint64_t offset,
                      const struct index_member *place)
{
    int fault = pass->has_links ? links_put(&pass->links, name, place) : 0;

    return fault ? fault : add_field(pass, name, offset, place);
}

/* Where libarchive stands in the shard. */
static uint64_t position(const struct pass *pass)
{
    return pass->start + (uint64_t)archive_filter_bytes(pass->archive, 0);
}

/* Moves past the member's data, which tells where its blocks end: its size does not where it is
 * sparse. Returns 1; 0 where the shard ends before that; or a negative errno. */
static int skip_data(struct pass *pass)
{
    int result = archive_read_data_skip(pass->archive);

    if (pass->file->fault)
        return -pass->file->fault;
    if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
        return 0;
    pass->end = position(pass);
    return 1;
}

/* A member that is no field whatever its name, and whose data was moved past. libarchive takes a
 * second skip for an error, after which it reads nothing. As take_member(). */
static int pass_over(struct pass *pass, enum index_problem problem, const char *name,
                     uint64_t offset)
{
    if (pass->has_links && links_put(&pass->links, name, NULL))
        return -ENOMEM;
    note(pass, problem, name, offset);
    return 1;
}

/* The same before its data was moved past. */
static int leave_out(struct pass *pass, enum index_problem problem, const char *name,
                     uint64_t offset)
{
    int whole = pass_over(pass, problem, name, offset);

    if (whole == 1)
        whole = skip_data(pass);
    if (whole == 0)
        note(pass, INDEX_TRUNCATED, name, offset);
    return whole;
}

/* Where the blocks of a member end. */
static uint64_t end_of_data(uint64_t offset, uint64_t size)
{
    return offset + (size + BLOCK - 1) / BLOCK * BLOCK;
}

/* A file whose bytes stand behind its header. As take_member(). */
static int take_file(struct pass *pass, const char *name, uint64_t offset, uint64_t size)
{
    uint64_t end = end_of_data(offset, size);
    struct index_member place = {.offset = offset & INDEX_OFFSET_MAX,
                                 .size = size & INDEX_SIZE_MAX};
    uint16_t check;
    int whole, fault;

    if (offset > pass->shard->size || size > pass->shard->size - offset) {
        /* A file of holes alone is larger than what is stored of it. */
        whole = skip_data(pass);
        if (whole > 0)
            return pass_over(pass, INDEX_SPARSE, name, offset);
        if (whole == 0)
            note(pass, INDEX_TRUNCATED, name, offset);
        return whole;
    }
    switch (shard_file_header(pass->file, offset, &check)) {
    case SHARD_FILE_GOOD:
        break;
    case SHARD_FILE_NO_SIZE:
        note(pass, INDEX_CORRUPT_HEADER, name, offset - BLOCK);
        return 0;
    case SHARD_FILE_NO_HEADER:
        return leave_out(pass, INDEX_SPARSE, name, offset);
    case SHARD_FILE_OTHER_KIND:
        return leave_out(pass, INDEX_NOT_A_FILE, name, offset);
    case SHARD_FILE_FAULT:
        return -pass->file->fault;
    }
    whole = skip_data(pass);
    if (whole < 0)
        return whole;
    if (whole && pass->end != end)
        return pass_over(pass, INDEX_SPARSE, name, offset);
    place.header = check;
    fault = add_member(pass, name, offset, &place);
    if (fault || whole)
        return fault ?: 1;
    /* The data is whole, so what is missing is padding. */
    note(pass, INDEX_NO_TRAILER, NULL, offset + size);
    return 0;
}

/* A hard link without data of its own has the bytes of the member it points at, an earlier one. As
 * take_member(). */
static int take_link(struct pass *pass, const char *name, const char *target, uint64_t offset)
{
    struct index_member place;
    int found, fault;

    if (!pass->has_links)
        return MEET_LINKS;
    found = links_find(&pass->links, target, &place);
    if (found < 0)
        return found;
    if (!found)
        return leave_out(pass, INDEX_LINK, name, offset);
    fault = add_member(pass, name, offset, &place);
    return fault ? fault : skip_data(pass);
}

/* One member. Returns 1 to go on, 0 at the end of what can be trusted, MEET_LINKS,
 * or a negative errno. */
static int take_member(struct pass *pass, struct archive_entry *entry)
{
    const char *name = archive_entry_pathname(entry);
    uint64_t offset = position(pass);
    int64_t size = archive_entry_size(entry);
    mode_t type = archive_entry_filetype(entry);
    const char *target = archive_entry_hardlink(entry);

    /* NULL is also what cannot be said in the C locale's characters. */
    if (!name)
        name = archive_entry_pathname_utf8(entry);
    if (!target)
        target = archive_entry_hardlink_utf8(entry);
    if (!name || size < 0 || (uint64_t)size > INDEX_SIZE_MAX || offset > INDEX_OFFSET_MAX ||
        offset < INDEX_HEADER_BYTES) {
        note(pass, INDEX_CORRUPT_HEADER, name, pass->end);
        return 0;
    }
    if (target && size == 0)
        return take_link(pass, name, target, offset);
    if (archive_entry_symlink(entry) || type == AE_IFLNK)
        return leave_out(pass, INDEX_LINK, name, offset);
    if (type == AE_IFDIR)
        return skip_data(pass);
    if (type != AE_IFREG)
        return leave_out(pass, INDEX_NOT_A_FILE, name, offset);
    if (archive_entry_sparse_count(entry) > 0)
        return leave_out(pass, INDEX_SPARSE, name, offset);
    return take_file(pass, name, offset, (uint64_t)size);
}

/* libarchive says EOF alike for a sound end, a missing one and a lone zero block. What tells them
 * apart is how far it read past the last member, and what follows. Returns 1 where the tar goes on
 * behind a lone zero block (POSIX: two of them end an archive), else 0. */
static int judge_end(struct pass *pass)
{
    uint64_t size = pass->shard->size, read = position(pass);
    uint64_t zeros = read > pass->end ? read - pass->end : 0;

    if (pass->end < size && size - pass->end < BLOCK &&
        !shard_file_only_zeros(pass->file, pass->end)) {
        note(pass, INDEX_TRUNCATED, NULL, pass->end);
    } else if (zeros < BLOCK) {
        note(pass, INDEX_NO_TRAILER, NULL, pass->end);
    } else if (zeros < 2 * BLOCK) {
        if (!shard_file_only_zeros(pass->file, pass->end + BLOCK)) {
            if (!pass->harvest->problems[INDEX_LONE_ZERO_BLOCK])
                note(pass, INDEX_LONE_ZERO_BLOCK, NULL, pass->end);
            return 1;
        }
        note(pass, INDEX_NO_TRAILER, NULL, pass->end);
    } else if (!shard_file_only_zeros(pass->file, pass->end + 2 * BLOCK)) {
        note(pass, INDEX_TRAILING_DATA, NULL, pass->end + 2 * BLOCK);
    }
    return 0;
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
    snprintf(what, sizeof what, "compressed with %s, and not unpacked", name);
    return whole_shard(pass, INDEX_COMPRESSED, what);
}

/* From pass->start to an end. Returns 1 where the tar goes on behind a lone zero block at
 * pass->end, 0, MEET_LINKS, or a negative errno. */
static int walk_members(struct pass *pass, struct archive_entry *entry)
{
    for (;;) {
        int result = archive_read_next_header2(pass->archive, entry);
        int next;

        if (pass->file->fault)
            return -pass->file->fault;
        if (result == ARCHIVE_EOF) {
            pass->any = true;
            return judge_end(pass);
        }
        /* ARCHIVE_WARN is a name that the C locale cannot show: its bytes are right. */
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN) {
            if (!pass->any)
                return judge_stranger(pass);
            if (pass->end < pass->shard->size && pass->shard->size - pass->end < BLOCK)
                note(pass, INDEX_TRUNCATED, NULL, pass->end);
            else
                note(pass, INDEX_CORRUPT_HEADER, NULL, pass->end);
            return 0;
        }
        pass->any = true;
        if (position(pass) > pass->end + BLOCK &&
            pax_global_matters(pass->file, pass->end, position(pass) - BLOCK))
            note(pass, INDEX_GLOBAL_HEADER, NULL, pass->end);
        next = pass->file->fault ? -pass->file->fault : take_member(pass, entry);
        if (next != 1)
            return next;
    }
}

/* What stands at byte `at` if it is a plain member that lies in the shard whole. False also where
 * the file has a fault. */
static bool is_plain(struct pass *pass, uint64_t at, struct plain_header *header,
                     struct index_member *place)
{
    const char *block = shard_file_block(pass->file, at);
    size_t more;

    if (block && plain_header_is_pax(block, &more)) {
        block = shard_file_block(pass->file, at + BLOCK);
        if (!block || !plain_header_only_times(block, more))
            return false;
        at += (uint64_t)2 * BLOCK;
        block = shard_file_block(pass->file, at);
    }
    if (!block || !plain_header_read(header, block) || at >= INDEX_OFFSET_MAX - BLOCK ||
        end_of_data(at + BLOCK, header->size) > pass->shard->size)
        return false;
    *place = (struct index_member){.offset = (at + BLOCK) & INDEX_OFFSET_MAX,
                                   .header = index_header_check(block),
                                   .size = header->size & INDEX_SIZE_MAX};
    return true;
}

/* Whether what follows the members so far is a sound end and nothing else. */
static bool ends_well(struct pass *pass)
{
    return pass->end <= pass->shard->size && pass->shard->size - pass->end >= (uint64_t)2 * BLOCK &&
           shard_file_only_zeros(pass->file, pass->end);
}

/* Takes the plain members from pass->start on, up to pass->end; the last one begins at `last` then.
 * Returns 1, 0: there was none, or a negative errno. */
static int take_plain(struct pass *pass, uint64_t *last)
{
    struct plain_header header;
    struct index_member place;
    int fault = 0, any = 0;

    while (!fault && is_plain(pass, pass->end, &header, &place)) {
        *last = pass->end;
        any = 1;
        if (!header.folder)
            fault = add_member(pass, header.name, place.offset, &place);
        pass->end = end_of_data(place.offset, place.size);
    }
    pass->any |= any;
    fault = fault ? fault : -pass->file->fault;
    return fault ? fault : any;
}

/* Opens libarchive at the last plain member, which is known and stands at pass->start: from there
 * on it reads as if it had read everything. Returns 0, MEET_OTHER, or a negative errno. */
static int meet_again(struct pass *pass, struct archive_entry *entry)
{
    struct plain_header header;
    struct index_member place;
    uint64_t end = pass->end;
    const char *name;
    int result, whole, fault;

    /* Read before, as libarchive has pointers into the file's buffer. */
    if (!is_plain(pass, pass->start, &header, &place))
        return pass->file->fault ? -pass->file->fault : MEET_OTHER;
    fault = shard_file_archive(pass->file, pass->start, &pass->archive);
    if (fault)
        return fault;
    result = archive_read_next_header2(pass->archive, entry);
    name = archive_entry_pathname(entry);
    whole = (result == ARCHIVE_OK || result == ARCHIVE_WARN) && place.offset == position(pass) &&
            name && strcmp(name, header.name) == 0 &&
            archive_entry_size(entry) == (int64_t)header.size &&
            archive_entry_filetype(entry) == (header.folder ? AE_IFDIR : AE_IFREG);
    if (whole)
        whole = skip_data(pass);
    if (pass->file->fault)
        return -pass->file->fault;
    return whole == 1 && pass->end == end ? 0 : MEET_OTHER;
}

/* From pass->start to an end, as walk_members(). */
static int walk_archive(struct pass *pass, struct archive_entry *entry)
{
    uint64_t last = 0;
    int any = pass->no_plain ? 0 : take_plain(pass, &last), next;

    if (any < 0)
        return any;
    if (any && ends_well(pass))
        return 0;
    if (any)
        pass->start = last;
    next = any ? meet_again(pass, entry)
               : shard_file_archive(pass->file, pass->start, &pass->archive);
    if (!next)
        next = walk_members(pass, entry);
    archive_read_free(pass->archive);
    pass->archive = NULL;
    return next;
}

/* libarchive stops at one zero block, so it is opened anew behind each lone one. As walk_members().
 */
static int walk_archives(struct pass *pass, struct archive_entry *entry)
{
    int next;

    pass->start = pass->end = pass->events = pass->name_bytes = 0;
    begin_hash(pass);
    while ((next = walk_archive(pass, entry)) == 1)
        pass->start = pass->end = pass->end + BLOCK;
    return next ? next : -pass->file->fault;
}

/* Samples come in order, and so do their names. */
static void note_split(void *context, size_t sample, const char *key)
{
    struct pass *pass = context;
    const struct harvest *harvest = pass->harvest;

    for (; pass->names && pass->named < sample; pass->named++)
        pass->name += strlen(pass->name) + 1;
    note(pass, INDEX_SPLIT_SAMPLE, pass->names ? pass->name : key,
         harvest->members[harvest->first[sample]].offset);
}

static int walk_open_shard(struct pass *pass)
{
    struct archive_entry *entry = archive_entry_new();
    int fault = -ENOMEM;

    while (entry) {
        harvest_clear(pass->harvest);
        links_close(&pass->links);
        fault = walk_archives(pass, entry);
        pass->has_links |= fault == MEET_LINKS;
        pass->no_plain |= fault == MEET_OTHER;
        if (fault != MEET_LINKS && fault != MEET_OTHER)
            break;
    }
    if (!fault)
        fault = harvest_end(pass->harvest);
    pass->name = pass->names;
    if (!fault)
        fault = harvest_find_split(pass->harvest, note_split, pass);
    pass->shard->hash = XXH3_64bits_digest(pass->hash);
    archive_entry_free(entry);
    return fault;
}

static int walk_any_way(struct harvest *harvest, struct index_shard *shard, size_t number,
                        const struct index_observer *observer, bool no_plain)
{
    struct pass pass = {.harvest = harvest,
                        .shard = shard,
                        .number = number,
                        .observer = observer,
                        .no_plain = no_plain};
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
    links_close(&pass.links);
    free(pass.path);
    free(pass.names);
    if (!fault && observer && observer->walked)
        observer->walked(observer->context, number);
    return fault;
}

int walk_shard(struct harvest *harvest, struct index_shard *shard, size_t number,
               const struct index_observer *observer)
{
    return walk_any_way(harvest, shard, number, observer, false);
}

int walk_shard_by_libarchive(struct harvest *harvest, struct index_shard *shard, size_t number,
                             const struct index_observer *observer)
{
    return walk_any_way(harvest, shard, number, observer, true);
}
