/* Compressed shards: what is unpacked is the tar that was packed, once, within the bound; what is
 * cut, corrupt or half never passes for whole. */
#include "unit.h"

#include "shard.h"

#include "../../core/copies.h"
#include "../../core/dataset.h"
#include "../../core/report.h"
#include "../../core/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 200
#define MEMBER      65536

static struct shard_folder folder;
static char cache[96];
static struct unpack *unpacked;

static void begin(void)
{
    report_watch(NULL);
    folder_make(&folder);
    snprintf(cache, sizeof cache, "%s.cache", folder.path);
}

/* Calls `look` for each file in the cache; returns how many end in `ending`. */
static unsigned each_file(const char *ending, void (*look)(const char *path))
{
    DIR *open = opendir(cache);
    struct dirent *entry;
    char path[400];
    unsigned count = 0;

    while (open && (entry = readdir(open))) {
        size_t length = strlen(entry->d_name), tail = strlen(ending);
        if (entry->d_name[0] == '.' || length < tail ||
            strcmp(entry->d_name + length - tail, ending) != 0)
            continue;
        count++;
        snprintf(path, sizeof path, "%s/%s", cache, entry->d_name);
        if (look)
            look(path);
    }
    if (open)
        closedir(open);
    return count;
}

static unsigned files(const char *ending)
{
    return each_file(ending, NULL);
}

static void remove_file(const char *path)
{
    unlink(path);
}

static void end(void)
{
    unpack_close(unpacked);
    unpacked = NULL;
    each_file("", remove_file);
    rmdir(cache);
    folder_remove(&folder);
    report_stop();
}

/* A tar of `count` members of MEMBER bytes; `salt` makes it another one. */
static char *make_tar(unsigned count, unsigned salt, size_t *size)
{
    size_t room = (size_t)count * (MEMBER + 512) + 16384;
    char *tar = malloc(room), bytes[MEMBER];
    struct archive *archive = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    unsigned state = salt + 1;

    archive_write_set_format_ustar(archive);
    archive_write_open_memory(archive, tar, room, size);
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "s%02u-%03u.bin", salt, i);
        for (size_t b = 0; b < MEMBER; b++) {
            state = state * 1664525 + 1013904223;
            bytes[b] = (char)(b % 16 ? 'a' : state >> 24);
        }
        archive_entry_clear(entry);
        archive_entry_set_pathname(entry, name);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0644);
        archive_entry_set_size(entry, MEMBER);
        archive_write_header(archive, entry);
        archive_write_data(archive, bytes, MEMBER);
    }
    archive_write_close(archive);
    archive_write_free(archive);
    archive_entry_free(entry);
    return tar;
}

/* Packs bytes by libarchive's filter of that name. False: there is none. */
static bool pack(const char *filter, const char *bytes, size_t size, char *packed, size_t room,
                 size_t *used)
{
    struct archive *archive = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    /* WARN: by another program, which may not be there. */
    bool done = archive_write_add_filter_by_name(archive, filter) == ARCHIVE_OK;

    (void)archive_write_set_filter_option(archive, NULL, "compression-level",
                                          "1"); /* if it has one */
    archive_write_set_format_raw(archive);
    archive_entry_set_filetype(entry, AE_IFREG);
    done = done && archive_write_open_memory(archive, packed, room, used) == ARCHIVE_OK &&
           archive_write_header(archive, entry) == ARCHIVE_OK &&
           archive_write_data(archive, bytes, size) == (la_ssize_t)size &&
           archive_write_close(archive) == ARCHIVE_OK;
    archive_write_free(archive);
    archive_entry_free(entry);
    return done;
}

/* Adds NAME, a tar of `count` members packed with gzip. */
static void add_gzip(const char *name, unsigned count, unsigned salt)
{
    size_t size, used, room = (size_t)count * (MEMBER + 512) + 65536;
    char *tar = make_tar(count, salt, &size), *packed = malloc(room);

    cr_assert(pack("gzip", tar, size, packed, room, &used));
    folder_add_bytes(&folder, name, packed, used);
    free(tar);
    free(packed);
}

static int unpack_with(uint64_t most)
{
    unpack_close(unpacked);
    return unpack_open(&unpacked, &folder.shards, cache, most, PATIENCE_MS);
}

static struct unpack_figures figures(void)
{
    return unpack_figures(unpacked);
}

static char *copy_bytes(size_t shard, size_t *size)
{
    const char *path = unpack_files(unpacked) ? unpack_files(unpacked)[shard] : NULL;

    cr_assert(path != NULL);
    cr_assert(strncmp(path, cache, strlen(cache)) == 0);
    return folder_read(&(struct shard_folder){.path = "/"}, path, size);
}

static void expect_copy(size_t shard, const char *bytes, size_t size)
{
    size_t got;
    char *copy = copy_bytes(shard, &got);

    cr_assert_eq(got, size, "shard %zu: %zu bytes for %zu", shard, got, size);
    cr_assert(memcmp(copy, bytes, size) == 0);
    free(copy);
}

Test(unpack, every_filter_gives_the_tar_that_was_packed)
{
    static const char *const filters[] = {"gzip", "bzip2", "xz",   "lzma",
                                          "zstd", "lz4",   "lzip", "compress"};
    size_t size, room = 4 << 20, used[8];
    char *tar, *packed = malloc(room);
    unsigned count = 0;

    begin();
    tar = make_tar(6, 1, &size);
    for (unsigned i = 0; i < 8; i++) {
        char name[32];
        if (!pack(filters[i], tar, size, packed, room, &used[count]))
            continue;
        snprintf(name, sizeof name, "%s.tar", filters[i]); /* names tell nothing */
        folder_add_bytes(&folder, name, packed, used[count++]);
    }
    cr_assert(count >= 4);
    cr_assert_eq(unpack_with(0), 0);
    cr_assert_eq(figures().shards, count);
    cr_assert_eq(figures().left_out, 0);
    cr_assert_eq(figures().faulty, 0);
    for (unsigned i = 0; i < count; i++)
        expect_copy(i, tar, size);
    free(tar);
    free(packed);
    end();
}

Test(unpack, a_plain_tar_is_left_alone)
{
    begin();
    folder_add_tar(&folder, "a.tar", "ustar", (const char *const[]){"x.jpg", "1", NULL});
    folder_add_tar(&folder, "b.tar.gz", "v7tar", (const char *const[]){"y.jpg", "1", NULL});
    cr_assert_eq(unpack_with(0), 0);
    cr_assert(unpack_files(unpacked) == NULL);
    cr_assert(access(cache, F_OK) != 0, "the folder was made for nothing");
    end();
}

Test(unpack, members_of_gzip_are_one_stream_and_zeros_behind_them_are_nothing)
{
    size_t size, first, second, room = 4 << 20;
    char *tar, *packed = calloc(1, room);

    begin();
    tar = make_tar(10, 1, &size);
    cr_assert(pack("gzip", tar, 100000, packed, room, &first));
    cr_assert(pack("gzip", tar + 100000, size - 100000, packed + first, room - first, &second));
    folder_add_bytes(&folder, "a.tar", packed, first + second);
    memset(packed + first + second, 0, 5000);
    folder_add_bytes(&folder, "b.tar", packed, first + second + 5000);
    cr_assert_eq(unpack_with(0), 0);
    expect_copy(0, tar, size);
    expect_copy(1, tar, size);
    cr_assert_eq(figures().faulty, 0);
    free(tar);
    free(packed);
    end();
}

/* libarchive reads the first bytes of what follows before it knows better, at most so many. */
#define LOOKED_AT 4

static void expect_trailing(const char *filter)
{
    size_t size, used, room = 4 << 20;
    char *tar, *packed = malloc(room), *end_of_line;
    const char *line;

    begin();
    tar = make_tar(3, 1, &size);
    if (pack(filter, tar, size, packed, room, &used)) {
        memcpy(packed + used, "garbage", 7);
        folder_add_bytes(&folder, "a.tar", packed, used + 7);
        for (int i = 0; i < 2; i++) {
            unsigned long long place;
            report_watch(NULL);
            cr_assert_eq(unpack_with(0), 0);
            expect_copy(0, tar, size);
            cr_assert_eq(figures().faulty, 1, "%s", filter);
            line = report_watch("a.tar: compressed byte");
            cr_assert(line != NULL, "%s", filter);
            place = strtoull(strstr(line, "byte ") + 5, &end_of_line, 10);
            cr_assert(*end_of_line == ':' && place >= used && place <= used + LOOKED_AT,
                      "%s: %llu of %zu", filter, place, used);
        }
    }
    free(tar);
    free(packed);
    end();
}

Test(unpack, what_stands_behind_a_stream_is_warned_of_each_time_and_changes_nothing)
{
    expect_trailing("gzip");
    expect_trailing("bzip2");
    expect_trailing("lz4");
    expect_trailing("lzma");
}

/* Packed bytes of which `cut` are missing at the end: the copy is a beginning of the tar. */
static void expect_beginning(const char *filter, size_t cut)
{
    size_t size, used, got, room = 16 << 20;
    char *tar, *packed = malloc(room), *copy;

    begin();
    tar = make_tar(160, 1, &size);
    if (pack(filter, tar, size, packed, room, &used)) {
        folder_add_bytes(&folder, "a.tar", packed, cut < used ? used - cut : used / 2);
        cr_assert_eq(unpack_with(0), 0);
        cr_assert_eq(figures().shards, 1, "%s", filter);
        cr_assert_eq(figures().faulty, 1, "%s", filter);
        copy = copy_bytes(0, &got);
        cr_assert(got <= size && memcmp(copy, tar, got) == 0, "%s", filter);
        /* What is thrown away is less than a piece. */
        cr_assert(got > size / 4, "%s: %zu of %zu", filter, got, size);
        cr_assert(report_watch("a.tar: compressed byte") != NULL, "%s", filter);
        cr_assert(report_watch("what comes before that is used") != NULL, "%s", filter);
        free(copy);
    }
    free(tar);
    free(packed);
    end();
}

Test(unpack, a_stream_that_is_cut_gives_what_comes_before)
{
    expect_beginning("gzip", SIZE_MAX);
    expect_beginning("gzip", 3); /* in its checksum */
    expect_beginning("zstd", SIZE_MAX);
    expect_beginning("xz", SIZE_MAX);
    expect_beginning("bzip2", SIZE_MAX);
    expect_beginning("lz4", SIZE_MAX);
}

Test(unpack, a_stream_that_contradicts_itself_is_left_out_by_name)
{
    static const char *const filters[] = {"gzip", "bzip2", "xz", "lz4"};
    size_t size, used, room = 16 << 20;
    char *tar = make_tar(10, 1, &size), *packed = malloc(room);

    for (unsigned i = 0; i < 4; i++) {
        begin();
        if (pack(filters[i], tar, size, packed, room, &used)) {
            packed[used / 2] ^= 0x10;
            folder_add_bytes(&folder, "a.tar", packed, used);
            cr_assert_eq(unpack_with(0), 0);
            cr_assert_eq(figures().shards, 0, "%s", filters[i]);
            cr_assert_eq(figures().faulty, 1, "%s", filters[i]);
            cr_assert(report_watch("a.tar: compressed byte") != NULL, "%s", filters[i]);
            cr_assert_eq(files(".tar") + files(".part") + files(".info"), 0U, "%s", filters[i]);
        }
        end();
    }
    free(tar);
    free(packed);
}

Test(unpack, a_wrong_checksum_alone_is_seen)
{
    size_t size, used, room = 4 << 20;
    char *tar = make_tar(5, 1, &size), *packed = malloc(room);

    begin();
    cr_assert(pack("gzip", tar, size, packed, room, &used));
    packed[used - 8] ^= 1;
    folder_add_bytes(&folder, "a.tar", packed, used);
    cr_assert_eq(unpack_with(0), 0);
    cr_assert_eq(figures().shards, 0);
    cr_assert(report_watch("incorrect data check") != NULL);
    free(tar);
    free(packed);
    end();
}

Test(unpack, a_copy_is_made_once_and_anew_for_another_state_of_its_original)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1500000000}};
    char path[128];

    begin();
    add_gzip("a.tar.gz", 5, 1);
    cr_assert_eq(unpack_with(0), 0);
    cr_assert_eq(figures().made, 1);
    cr_assert_eq(unpack_with(0), 0);
    cr_assert_eq(figures().made, 0);
    snprintf(path, sizeof path, "%s/a.tar.gz", folder.path);
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    cr_assert_eq(unpack_with(0), 0);
    cr_assert_eq(figures().made, 1);
    cr_assert_eq(files(".tar"), 2U);
    end();
}

static void cut_file(const char *path)
{
    cr_assert_eq(truncate(path, 100000), 0);
}

static void change_byte(const char *path)
{
    int fd = open(path, O_WRONLY);

    cr_assert(fd >= 0 && pwrite(fd, "!", 1, 70000) == 1);
    close(fd);
}

static void touch(const char *path)
{
    cr_assert_eq(utimensat(AT_FDCWD, path, NULL, 0), 0);
}

static void empty_file(const char *path)
{
    cr_assert_eq(truncate(path, 0), 0);
}

Test(unpack, a_copy_that_is_cut_or_changed_is_made_again)
{
    void (*const damage[])(const char *) = {cut_file, change_byte, empty_file};
    size_t size;
    char *tar = make_tar(5, 1, &size);

    begin();
    add_gzip("a.tar.gz", 5, 1);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(unpack_with(0), 0);
        each_file(".tar", damage[i]);
        cr_assert_eq(unpack_with(0), 0);
        cr_assert_eq(figures().made, 1, "damage %u", i);
        expect_copy(0, tar, size);
        cr_assert(report_watch("unpacked again") != NULL);
    }
    /* Its note, too; and a copy that only has another time, as `cp` leaves it, is compared and
     * kept. */
    each_file(".info", empty_file);
    cr_assert_eq(unpack_with(0), 0);
    cr_assert_eq(figures().made, 1);
    each_file(".tar", touch);
    cr_assert_eq(unpack_with(0), 0);
    cr_assert_eq(figures().made, 0);
    expect_copy(0, tar, size);
    free(tar);
    end();
}

Test(unpack, what_a_killed_process_left_is_swept_up_and_never_taken_for_whole)
{
    begin();
    add_gzip("a.tar.gz", 40, 1);
    add_gzip("b.tar.gz", 40, 2);
    for (unsigned i = 0; i < 8; i++) {
        struct timespec pause = {.tv_nsec = 1000000L * (1 + (long)i * 3)};
        pid_t child = fork();
        if (child == 0) {
            struct unpack *own;
            report_to_sink(NULL, NULL);
            _exit(unpack_open(&own, &folder.shards, cache, 0, PATIENCE_MS) ? 1 : 0);
        }
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    cr_assert_eq(unpack_with(0), 0);
    for (unsigned i = 0; i < 2; i++) {
        size_t size;
        char *tar = make_tar(40, i + 1, &size);
        expect_copy(i, tar, size);
        free(tar);
    }
    cr_assert_eq(files(".part") + files(".new"), 0U);
    cr_assert_eq(files(".tar"), 2U);
    cr_assert_eq(files(".info"), 2U);
    unpack_close(unpacked);
    unpacked = NULL;
    cr_assert_eq(each_file("", NULL), 5U, "copies, notes, and the lock");
    end();
}

Test(unpack, copies_that_nobody_uses_go_when_others_need_the_room)
{
    uint64_t most = 3 * (uint64_t)(10 * (MEMBER + 512) + 10240);
    struct shard_list all;

    begin();
    for (unsigned i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "%u.tar.gz", i);
        add_gzip(name, 10, i);
    }
    cr_assert_eq(unpack_with(most), 0);
    cr_assert_eq(figures().shards, 3);
    add_gzip("3.tar.gz", 10, 3);
    /* While they are in use, none goes: the fourth has no room. */
    struct unpack *other;
    cr_assert_eq(unpack_open(&other, &folder.shards, cache, most, PATIENCE_MS), 0);
    cr_assert_eq(unpack_figures(other).shards, 3);
    cr_assert_eq(unpack_figures(other).left_out, 1);
    cr_assert(report_watch("3.tar.gz: no room for its copy: 1 compressed shard is left out") !=
              NULL);
    cr_assert(report_watch("unpacked_size=") != NULL);
    unpack_close(other);
    unpack_close(unpacked);
    unpacked = NULL;
    /* Used by nobody: what was used first goes. The fourth alone, then all but the second. */
    all = folder.shards;
    folder.shards = (struct shard_list){.paths = all.paths + 1, .count = 1};
    cr_assert_eq(unpack_with(most), 0);
    cr_assert_eq(figures().made, 0);
    folder.shards = (struct shard_list){.paths = all.paths + 3, .count = 1};
    cr_assert_eq(unpack_with(most), 0);
    cr_assert_eq(figures().made, 1);
    folder.shards = (struct shard_list){.paths = all.paths + 1, .count = 1};
    cr_assert_eq(unpack_with(most), 0);
    cr_assert_eq(figures().made, 0, "what was used last has gone");
    cr_assert_eq(files(".tar"), 3U);
    cr_assert_eq(files(".info"), 3U);
    folder.shards = all;
    end();
}

Test(unpack, a_bomb_fills_no_more_than_the_bound_and_costs_no_other_shard)
{
    size_t size = 64 << 20, used, room = 4 << 20;
    char *zeros = calloc(1, size), *packed = malloc(room), name[32];

    begin();
    cr_assert(pack("gzip", zeros, size, packed, room, &used));
    free(zeros);
    folder_add_bytes(&folder, "bomb.tar.gz", packed, used);
    free(packed);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%u.tar.gz", i);
        add_gzip(name, 10, i);
    }
    cr_assert_eq(unpack_with(4 << 20), 0);
    cr_assert_eq(figures().shards, 3);
    cr_assert_eq(figures().left_out, 1);
    cr_assert(unpack_files(unpacked)[0] == NULL);
    cr_assert(report_watch("bomb.tar.gz: no room") != NULL);
    cr_assert_eq(files(".part"), 0U);
    end();
}

Test(unpack, of_a_process_that_hangs_nobody_waits_for_ever)
{
    size_t size;
    char *tar = make_tar(5, 1, &size), name[COPIES_NAME], part[400];
    struct stat status;
    int fd;

    begin();
    add_gzip("a.tar.gz", 5, 1);
    cr_assert_eq(stat(folder.shards.paths[0], &status), 0);
    copies_name(name, folder.shards.paths[0], "a", (uint64_t)status.st_size, &status.st_mtim,
                status.st_ino);
    snprintf(part, sizeof part, "%s/%s.part", cache, name);
    cr_assert_eq(mkdir(cache, 0700), 0);
    fd = open(part, O_RDWR | O_CREAT, 0600);
    cr_assert(fd >= 0 && flock(fd, LOCK_EX) == 0);
    cr_assert_eq(unpack_with(0), 0);
    expect_copy(0, tar, size);
    cr_assert(report_watch("the process that unpacks it hangs; going on beside it") != NULL);
    cr_assert_eq(access(part, F_OK), 0, "what lives is not swept up");
    close(fd);
    /* It has died. */
    cr_assert_eq(unpack_with(0), 0);
    cr_assert(access(part, F_OK) != 0);
    free(tar);
    end();
}

struct rival {
    pthread_t thread;
    struct unpack *unpack;
    int fault;
};

static void *compete(void *context)
{
    struct rival *rival = context;

    rival->fault = unpack_open(&rival->unpack, &folder.shards, cache, 0, 20000);
    return NULL;
}

Test(unpack, several_at_once_make_each_copy_once)
{
    struct rival rivals[4];
    size_t made = 0;

    begin();
    for (unsigned i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "%u.tar.gz", i);
        add_gzip(name, 20, i);
    }
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&rivals[i].thread, NULL, compete, &rivals[i]), 0);
    for (unsigned i = 0; i < 4; i++) {
        pthread_join(rivals[i].thread, NULL);
        cr_assert_eq(rivals[i].fault, 0);
        cr_assert_eq(unpack_figures(rivals[i].unpack).shards, 6);
        made += unpack_figures(rivals[i].unpack).made;
        unpack_close(rivals[i].unpack);
    }
    cr_assert_eq(made, 6);
    cr_assert_eq(files(".tar"), 6U);
    end();
}

Test(unpack, none_unpacks_nothing_and_a_folder_that_cannot_be_is_one_line)
{
    begin();
    add_gzip("a.tar.gz", 2, 1);
    cr_assert_eq(unpack_open(&unpacked, &folder.shards, "none", 0, PATIENCE_MS), 0);
    cr_assert(!unpack_files(unpacked) || !unpack_files(unpacked)[0]);
    cr_assert_eq(figures().left_out, 1);
    unpack_close(unpacked);
    cr_assert_eq(unpack_open(&unpacked, &folder.shards, "/proc/nothing/here", 0, PATIENCE_MS), 0);
    cr_assert_eq(figures().left_out, 1);
    cr_assert(report_watch("/proc/nothing/here: ") != NULL);
    cr_assert(report_watch("unpacked=DIR") != NULL);
    end();
}

Test(unpack, a_data_set_is_the_same_one_compressed_or_not)
{
    struct config config;
    struct dataset set;
    char plain[DATASET_FINGERPRINT_BYTES];
    size_t size, used, room = 4 << 20;
    char *tar, *packed = malloc(room);

    begin();
    tar = make_tar(5, 1, &size);
    config_init(&config);
    cr_assert_eq(config_set(&config, "index", "none", "-o", "/"), 0);
    folder_add_bytes(&folder, "a.tar", tar, size);
    cr_assert_eq(shards_add(&config.shards, "a.tar", folder.path), 0);
    cr_assert_eq(dataset_open(&set, &config), 0);
    snprintf(plain, sizeof plain, "%s", set.fingerprint);
    dataset_close(&set);
    config_close(&config);
    cr_assert(pack("gzip", tar, size, packed, room, &used));
    for (unsigned i = 0; i < 3; i++) {
        static const char *const names[] = {"a.tar.gz", "a.tgz", "a.tar"};
        folder_add_bytes(&folder, names[i], packed, used);
        cr_assert_eq(shards_add(&config.shards, names[i], folder.path), 0);
        cr_assert_eq(config_set(&config, "unpacked", cache, "-o", "/"), 0);
        cr_assert_eq(dataset_open(&set, &config), 0);
        cr_assert_str_eq(set.fingerprint, plain);
        cr_assert_eq(set.index->sample_count, 5);
        dataset_close(&set);
        config_close(&config);
    }
    free(tar);
    free(packed);
    end();
}
