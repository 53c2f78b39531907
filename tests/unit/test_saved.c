/* The saved index: what comes from it is what a walk finds, whatever happened to the shards or to
 * the file. */
#include "unit.h"

#include "shard.h"

#include "../../core/index.h"
#include "../../core/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct shard_folder folder;
static struct index *set;
static char place[80];

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static void begin(void)
{
    report_watch(NULL);
    folder_make(&folder);
    snprintf(place, sizeof place, "%s/set.index", folder.path);
    folder_add_tar(&folder, "a-0.tar", "ustar",
                   LIST("n1/x.jpg", "one", "n1/x.cls", "7", "n1/y.jpg", "three", "n1/y.cls", "8"));
    folder_add_tar(
        &folder, "a-1.tar", "ustar",
        LIST("n2/x.png", "png", "n2/x.txt", "words", "._z.jpg", "litter", "n2/y.png", ""));
    folder_add_tar(&folder, "a-2.tar", "ustar", LIST("n1/x.jpg", "again", "n1/x.json", "{}"));
}

static void close_index(void)
{
    index_close(set);
    set = NULL;
}

static void end(void)
{
    close_index();
    folder_remove(&folder);
    report_stop();
}

static int open_at(const char *where)
{
    close_index();
    return index_open(&set, &folder.shards, 0, where);
}

static bool same_texts(const char *a, const char *b, uint64_t count)
{
    if (!a || !b)
        return a == b;
    for (uint64_t s = 0; s < count; s++, a += strlen(a) + 1, b += strlen(b) + 1)
        if (strcmp(a, b) != 0)
            return false;
    return true;
}

/* NULL, or what differs between the index that is open and one made by a walk. */
static const char *difference(void)
{
    struct index *walk;
    const char *found = NULL;

    cr_assert_eq(index_open(&walk, &folder.shards, 0, "none"), 0);
    if (set->shard_count != walk->shard_count || set->sample_count != walk->sample_count ||
        set->member_count != walk->member_count || set->field_count != walk->field_count ||
        set->longest_field != walk->longest_field || set->bytes != walk->bytes ||
        set->key_bytes != walk->key_bytes)
        found = "counts";
    else if (memcmp(set->members, walk->members, walk->member_count * sizeof *walk->members) != 0)
        found = "members";
    else if (memcmp(set->first, walk->first, (walk->sample_count + 1) * sizeof *walk->first) != 0)
        found = "first members";
    else if (memcmp(set->problems, walk->problems, sizeof walk->problems) != 0)
        found = "problems";
    else if (!same_texts(set->class_texts, walk->class_texts, walk->sample_count))
        found = "class texts";
    for (uint64_t s = 0; !found && s < walk->sample_count; s++)
        if (strcmp(index_key(set, s), index_key(walk, s)) != 0)
            found = "keys";
    for (size_t f = 0; !found && f < walk->field_count; f++)
        if (strcmp(set->fields[f], walk->fields[f]) != 0)
            found = "fields";
    for (size_t i = 0; !found && i < walk->shard_count; i++) {
        const struct index_shard *a = &set->shards[i], *b = &walk->shards[i];
        if (strcmp(a->path, b->path) != 0 || a->first_sample != b->first_sample ||
            a->size != b->size || a->modified.tv_sec != b->modified.tv_sec ||
            a->modified.tv_nsec != b->modified.tv_nsec || a->device != b->device ||
            a->inode != b->inode || a->hash != b->hash || !a->complaint != !b->complaint ||
            (a->complaint && strcmp(a->complaint, b->complaint) != 0))
            found = "shards";
    }
    if (!found && set->shards[set->shard_count].first_sample != walk->sample_count)
        found = "the end";
    index_close(walk);
    return found;
}

static void expect(size_t walked)
{
    const char *different;

    cr_assert_eq(open_at(place), 0);
    different = difference();
    cr_assert(!different, "%s differ", different);
    cr_assert(set->walked == walked, "%zu shards were walked", set->walked);
    cr_assert(set->place && strcmp(set->place, place) == 0, "not saved");
}

static void drop_shard(size_t i)
{
    free(folder.shards.paths[i]);
    memmove(&folder.shards.paths[i], &folder.shards.paths[i + 1],
            (--folder.shards.count - i) * sizeof *folder.shards.paths);
}

static void write_at(const char *name, off_t at, const void *bytes, size_t size)
{
    char path[400];
    int fd;

    snprintf(path, sizeof path, "%s/%s", folder.path, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    cr_assert(fd >= 0 && pwrite(fd, bytes, size, at) == (ssize_t)size, "%s", path);
    close(fd);
}

Test(saved, the_second_time_no_shard_is_read)
{
    begin();
    expect(3);
    expect(0);
    expect(0);
    cr_assert(!set->class_texts || set->saved, "tables stand in the file");
    end();
}

Test(saved, warnings_of_shards_come_again)
{
    begin();
    folder_add_tar(&folder, "bad.tar", "ustar", LIST("noext", "x", "k.jpg", "y"));
    folder_add_bytes(&folder, "noise.tar", "no tar at all, but some noise", 30);
    expect(5);
    report_watch(NULL);
    expect(0);
    cr_assert(report_watch("bad.tar: offset 512: no-extension (member 'noext')"));
    cr_assert(report_watch("noise.tar: not a tar: left out"));
    end();
}

Test(saved, a_changed_shard_alone_is_read_again)
{
    begin();
    expect(3);
    drop_shard(1);
    folder_add_tar(&folder, "a-1.tar", "ustar", LIST("n2/new.png", "new and longer than before"));
    expect(1);
    expect(0);
    end();
}

Test(saved, a_shard_rewritten_with_size_and_time_kept_is_seen_by_its_headers)
{
    struct stat before;
    char path[400];

    begin();
    expect(3);
    snprintf(path, sizeof path, "%s/a-2.tar", folder.path);
    cr_assert_eq(stat(path, &before), 0);
    drop_shard(2);
    folder_add_tar(&folder, "a-2.tar", "ustar", LIST("n1/q.jpg", "again", "n1/q.json", "{}"));
    cr_assert_eq(utimensat(AT_FDCWD, path, (struct timespec[]){before.st_mtim, before.st_mtim}, 0),
                 0);
    expect(1);
    end();
}

/* The headers are all as they were; when its inode changed nobody can set back. */
Test(saved, labels_rewritten_under_size_and_time_are_seen)
{
    struct stat before;
    char path[400];

    begin();
    expect(3);
    snprintf(path, sizeof path, "%s/a-0.tar", folder.path);
    cr_assert_eq(stat(path, &before), 0);
    write_at("a-0.tar", 3 * 512, "9", 1);
    cr_assert_eq(utimensat(AT_FDCWD, path, (struct timespec[]){before.st_mtim, before.st_mtim}, 0),
                 0);
    expect(1);
    cr_assert_str_eq(set->class_texts, "9");
    end();
}

Test(saved, shards_added_taken_away_and_moved_leave_the_rest)
{
    char *last;

    begin();
    expect(3);
    folder_add_tar(&folder, "b.tar", "pax", LIST("k.webp", "w", "k.cls", "kind"));
    expect(1);
    /* Its fields go with it: names are cut by the longest one of all. */
    drop_shard(3);
    drop_shard(1);
    expect(0);
    cr_assert_eq(set->field_count, 3);
    last = folder.shards.paths[1];
    folder.shards.paths[1] = folder.shards.paths[0];
    folder.shards.paths[0] = last;
    expect(0);
    end();
}

Test(saved, a_damaged_file_is_never_believed)
{
    size_t size;
    char *whole;

    begin();
    expect(3);
    whole = folder_read(&folder, "set.index", &size);
    for (size_t i = 0; i < size; i++) {
        char wrong = (char)(whole[i] ^ (1 << i % 8));
        const char *different;
        folder_add_bytes(&folder, "set.index", whole, size);
        drop_shard(folder.shards.count - 1);
        write_at("set.index", (off_t)i, &wrong, 1);
        cr_assert_eq(open_at(place), 0);
        different = difference();
        cr_assert(!different, "byte %zu: %s differ", i, different);
    }
    free(whole);
    end();
}

Test(saved, a_cut_file_is_made_anew)
{
    size_t size;
    char *whole;

    begin();
    expect(3);
    whole = folder_read(&folder, "set.index", &size);
    for (size_t cut = 0; cut < size; cut += cut < 200 ? 1 : 37) {
        const char *different;
        folder_add_bytes(&folder, "set.index", whole, cut);
        drop_shard(folder.shards.count - 1);
        cr_assert_eq(open_at(place), 0);
        different = difference();
        cr_assert(!different, "%zu bytes: %s differ", cut, different);
        /* Shorter than a header it could be anybody's file, unless it is empty. */
        cr_assert((set->place != NULL) == (cut == 0 || cut >= sizeof(struct saved_header)),
                  "%zu bytes", cut);
    }
    free(whole);
    end();
}

/* Nothing is synchronised: the name may be on the disk before the bytes are. */
Test(saved, what_a_power_cut_leaves_is_made_anew)
{
    size_t size;
    char *whole;

    begin();
    expect(3);
    whole = folder_read(&folder, "set.index", &size);
    memset(whole, 0, size);
    folder_add_bytes(&folder, "set.index", whole, size);
    free(whole);
    drop_shard(3);
    expect(3);
    expect(0);
    end();
}

Test(saved, what_is_no_index_of_ours_is_not_replaced)
{
    static const char novel[] = "It was a dark and stormy night; the rain fell in torrents, except "
                                "at occasional intervals, when it was checked by a violent gust.";
    size_t size;
    char *left;

    begin();
    folder_add_bytes(&folder, "set.index", novel, sizeof novel);
    drop_shard(3);
    cr_assert_eq(open_at(place), 0);
    cr_assert(!set->place);
    cr_assert(report_watch("not an index of this program"));
    left = folder_read(&folder, "set.index", &size);
    cr_assert(size == sizeof novel && memcmp(left, novel, size) == 0);
    free(left);
    end();
}

Test(saved, another_versions_file_is_not_replaced)
{
    uint32_t version = SAVED_VERSION + 1, kept;
    size_t size;
    char *left;

    begin();
    expect(3);
    write_at("set.index", offsetof(struct saved_header, version), &version, sizeof version);
    cr_assert_eq(open_at(place), 0);
    cr_assert(!set->place && set->walked == 3);
    cr_assert(report_watch("of another version of this program"));
    left = folder_read(&folder, "set.index", &size);
    memcpy(&kept, left + offsetof(struct saved_header, version), sizeof kept);
    cr_assert_eq(kept, version);
    free(left);
    end();
}

Test(saved, in_a_folder_kin_lend_their_parts)
{
    char first[200];

    begin();
    cr_assert_eq(open_at(folder.path), 0);
    cr_assert(set->walked == 3 && set->place);
    snprintf(first, sizeof first, "%s", set->place);
    folder_add_tar(&folder, "a-3.tar", "ustar", LIST("z.jpg", "z"));
    cr_assert_eq(open_at(folder.path), 0);
    cr_assert(set->walked == 1 && set->place && strcmp(set->place, first) != 0);
    cr_assert(!difference());
    drop_shard(3);
    cr_assert_eq(open_at(folder.path), 0);
    cr_assert(set->walked == 0 && strcmp(set->place, first) == 0);
    cr_assert(!difference());
    end();
}

Test(saved, a_place_that_cannot_be_written_is_said_once_and_nothing_lost)
{
    begin();
    cr_assert_eq(open_at("/nonexistent/folder/set.index"), 0);
    cr_assert(!set->place && set->walked == 3);
    cr_assert(report_watch("/nonexistent/folder/set.index: No such file or directory; the index is "
                           "not saved"));
    cr_assert(!difference());
    end();
}

Test(saved, a_killed_writers_remains_are_taken_over)
{
    char remains[100];

    begin();
    snprintf(remains, sizeof remains, "%s.new", place);
    folder_add_bytes(&folder, "set.index.new", "\7\0\0\0\0\0\0\0half of it", 18);
    drop_shard(3);
    expect(3);
    expect(0);
    cr_assert(access(remains, F_OK) != 0);
    end();
}

Test(saved, what_is_no_writers_remains_is_left_alone)
{
    size_t size;
    char *left;

    begin();
    folder_add_bytes(&folder, "set.index.new", "somebody's notes", 16);
    drop_shard(3);
    cr_assert_eq(open_at(place), 0);
    cr_assert(!set->place && set->walked == 3);
    cr_assert(report_watch("set.index.new: not a file of this program's"));
    left = folder_read(&folder, "set.index.new", &size);
    cr_assert(size == 16 && memcmp(left, "somebody's notes", 16) == 0);
    free(left);
    end();
}

/* Counts and starts that fit each other but no table: with a right checksum they must be refused
 * all the same. */
Test(saved, a_file_that_lies_is_refused)
{
    struct saved *saved;
    size_t size;
    char *whole, *block;

    begin();
    expect(3);
    whole = folder_read(&folder, "set.index", &size);
    for (size_t word = 0; word < sizeof(struct saved_header) / 8 + 3 * 4; word++) {
        block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert(block != MAP_FAILED);
        memcpy(block, whole, size);
        memset(block + word * 8, 0x7f, 8);
        cr_assert(saved_take(&saved, block, size) < 0, "word %zu", word);
    }
    free(whole);
    end();
}
