/* The reader: the same bytes whatever way they come, and none of a shard that changed. */
#include "unit.h"

#include "shard.h"

#include "../../core/batch.h"
#include "../../core/clock.h"
#include "../../core/index.h"
#include "../../core/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct shard_folder folder;
static struct index *set;

static void begin(void)
{
    report_watch(NULL);
    folder_make(&folder);
}

static int open_index(void)
{
    return index_open(&set, &folder.shards, 0, "none");
}

static void end(void)
{
    index_close(set);
    set = NULL;
    folder_remove(&folder);
    report_stop();
}

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

Test(reader, a_changed_shard_gives_eio_until_it_is_back)
{
    struct reader *reader;
    struct stat status;
    struct timespec times[2];
    char path[400], byte;

    begin();
    folder_add_tar(&folder, "a.tar", "ustar", LIST("a.jpg", "1"));
    folder_add_tar(&folder, "b.tar", "ustar", LIST("b.jpg", "2"));
    cr_assert_eq(open_index(), 0);
    cr_assert_eq(reader_open(&reader, set, 0, READER_DIRECT_AUTO), 0);
    snprintf(path, sizeof path, "%s/a.tar", folder.path);
    cr_assert_eq(reader_read(reader, 0, &byte, 1, 0), 1);
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(truncate(path, 700), 0);
    cr_assert_eq(reader_read(reader, 0, &byte, 1, 0), -EIO);
    cr_assert_eq(reader_read(reader, 1, &byte, 1, 0), 1);
    cr_assert(byte == '2');
    cr_assert_eq(reader_errors(reader, 0), 1);
    cr_assert_eq(reader_errors(reader, 1), 0);
    cr_assert(report_watch("a.tar: offset 512") != NULL);
    cr_assert_eq(truncate(path, status.st_size), 0);
    times[0] = status.st_atim;
    times[1] = status.st_mtim;
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
    cr_assert_eq(reader_read(reader, 0, &byte, 1, 0), 1);
    reader_close(reader);
    end();
}

Test(reader, serves_more_shards_than_it_may_keep_open)
{
    struct reader *reader;
    char name[32], text[16], byte[8];

    begin();
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "%02d.tar", i);
        snprintf(text, sizeof text, "%02d", i);
        folder_add_tar(&folder, name, "ustar", LIST("a.jpg", text));
    }
    cr_assert_eq(open_index(), 0);
    cr_assert_eq(reader_open(&reader, set, 4, READER_DIRECT_AUTO), 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++) {
            int member = (i * 17) % 40;
            snprintf(text, sizeof text, "%02d", member);
            cr_assert_eq(reader_read(reader, (uint64_t)member, byte, 8, 0), 2);
            cr_assert(memcmp(byte, text, 2) == 0);
        }
    }
    reader_close(reader);
    end();
}

/* Bytes that tell their place, for a member of `size`. */
static char *pattern(size_t size, unsigned salt)
{
    char *bytes = malloc(size + 1);

    cr_assert(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)('a' + (i * 7 + i / 512 + salt) % 26);
    bytes[size] = '\0';
    return bytes;
}

static void drop_from_cache(void)
{
    char path[400];
    int fd;

    snprintf(path, sizeof path, "%s/a.tar", folder.path);
    fd = open(path, O_RDONLY);
    cr_assert(fd >= 0);
    fsync(fd);
    cr_assert_eq(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    close(fd);
}

enum { ROOM = (1 << 17) + READER_SLACK };

static void expect_same_bytes(struct reader *reader, char *const *bytes, const size_t *sizes,
                              size_t count)
{
    char *buffer = aligned_alloc(READER_ALIGN, ROOM), *data[2] = {NULL, NULL};

    cr_assert(buffer);
    for (size_t i = 0; i < count; i++) {
        uint64_t members[2] = {2 * i, 2 * i + 1};
        for (size_t from = 0; from < sizes[i]; from += 30011) {
            ssize_t got = reader_read_ahead(reader, members[0], buffer, ROOM, from, 30011, data);
            cr_assert(got > 0);
            cr_assert(memcmp(data[0], bytes[i] + from, (size_t)got) == 0);
        }
        cr_assert_eq(reader_read_members(reader, members, 2, buffer, ROOM, data), 0);
        cr_assert(memcmp(data[0], bytes[i], sizes[i]) == 0);
        cr_assert(memcmp(data[1], "label", 5) == 0);
        cr_assert_eq(reader_read_members(reader, members, 2, buffer, READER_SLACK + 512, data),
                     -E2BIG);
    }
    free(buffer);
}

static int read_extent(struct reader *reader, const uint64_t *members, size_t count, char *place,
                       uint64_t from, size_t size)
{
    struct reader_piece piece = {
        .members = members, .count = count, .buffer = place, .from = from, .size = size};

    reader_read_pieces(reader, NULL, &piece, 1);
    return piece.fault;
}

/* An extent is what lies in the file, and nothing is written beside it. Around the page cache it
 * may be refused, but only there. */
static void expect_extent(struct reader *reader, const uint64_t *members, char *memory,
                          uint64_t from, size_t size, bool may_refuse)
{
    char *place = memory + 4096, *meant = malloc(size);
    char path[400];
    int fd, fault;

    snprintf(path, sizeof path, "%s/a.tar", folder.path);
    fd = open(path, O_RDONLY);
    cr_assert(meant && fd >= 0 && pread(fd, meant, size, (off_t)from) == (ssize_t)size);
    if (may_refuse) /* what was read to compare with is in the page cache now */
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    memset(memory, '#', ROOM);
    fault = read_extent(reader, members, 2, place, from, size);
    cr_assert(fault == 0 || (may_refuse && fault == -EINVAL));
    if (fault == 0)
        cr_assert(memcmp(place, meant, size) == 0);
    for (char *at = memory; at < memory + ROOM; at++)
        cr_assert(fault == 0 && at >= place && at < place + size ? 1 : *at == '#');
    free(meant);
}

static void expect_extents(struct reader *reader, size_t count, bool cold)
{
    char *memory = aligned_alloc(READER_ALIGN, ROOM);

    cr_assert(memory);
    for (size_t i = 0; i < count; i++) {
        uint64_t members[2] = {2 * i, 2 * i + 1};
        uint64_t start = set->members[2 * i].offset - 512;
        uint64_t end = (set->members[2 * i + 1].offset + 5 + 511) / 512 * 512;
        expect_extent(reader, members, memory, start, (size_t)(end - start), cold);
        for (uint64_t from = start; from < end; from += 8192)
            for (uint64_t to = end; to > from; to = to > from + 12800 ? to - 12800 : from)
                expect_extent(reader, members, memory, from, (size_t)(to - from), cold);
    }
    cr_assert_eq(read_extent(reader, (uint64_t[]){0}, 1, memory, 0, ROOM * 1000ul), -EINVAL);
    free(memory);
}

enum { PAIRS_MOST = 16 };

/* a.tar: a picture of each size, and its label. Returns the pictures' bytes, to be freed. */
static void add_pairs(const size_t *sizes, size_t count, char **bytes)
{
    static char names[PAIRS_MOST * 2][32];
    const char *members[PAIRS_MOST * 4 + 1];

    for (size_t i = 0; i < count; i++) {
        bytes[i] = pattern(sizes[i], (unsigned)i);
        snprintf(names[2 * i], sizeof *names, "%02zu.jpg", i);
        snprintf(names[2 * i + 1], sizeof *names, "%02zu.txt", i);
        members[4 * i] = names[2 * i];
        members[4 * i + 1] = bytes[i];
        members[4 * i + 2] = names[2 * i + 1];
        members[4 * i + 3] = "label";
    }
    members[count * 4] = NULL;
    folder_add_tar(&folder, "a.tar", "ustar", members);
}

Test(reader, gives_the_same_bytes_through_the_page_cache_and_around_it)
{
    static const size_t sizes[] = {1, 511, 512, 4096, 5000, 40000, 70001};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    char *bytes[COUNT];

    begin();
    add_pairs(sizes, COUNT, bytes);
    cr_assert_eq(open_index(), 0);
    for (int way = READER_DIRECT_AUTO; way <= READER_DIRECT_NEVER; way++) {
        struct reader *reader;
        cr_assert_eq(reader_open(&reader, set, 0, (enum reader_direct)way), 0);
        for (int cold = 0; cold < 2; cold++) {
            if (cold)
                drop_from_cache();
            expect_same_bytes(reader, bytes, sizes, COUNT);
            expect_extents(reader, COUNT, cold);
        }
        cr_assert(way != READER_DIRECT_NEVER || reader_figures(reader).direct_reads == 0);
        cr_assert(reader_figures(reader).reads > COUNT);
        reader_close(reader);
    }
    for (size_t i = 0; i < COUNT; i++)
        free(bytes[i]);
    end();
}

Test(reader, a_read_ahead_that_fails_is_counted_apart_and_not_told)
{
    char *buffer = aligned_alloc(READER_ALIGN, ROOM), *data, path[400], header[512] = "changed";
    struct reader *reader;
    struct stat status;
    uint64_t member = 0;
    int fd;

    begin();
    folder_add_tar(&folder, "a.tar", "ustar", LIST("a.jpg", "1"));
    cr_assert_eq(open_index(), 0);
    cr_assert_eq(reader_open(&reader, set, 0, READER_DIRECT_AUTO), 0);
    snprintf(path, sizeof path, "%s/a.tar", folder.path);
    cr_assert_eq(stat(path, &status), 0);
    cr_assert_eq(truncate(path, 700), 0);
    cr_assert_eq(reader_read_ahead(reader, 0, buffer, ROOM, 0, 1, &data), -EIO);
    cr_assert_eq(reader_read_members(reader, &member, 1, buffer, ROOM, &data), -EIO);
    cr_assert_eq(reader_figures(reader).failed, 2u);
    cr_assert_eq(reader_errors(reader, 0), 0u);
    cr_assert(report_watch("a.tar") == NULL);
    /* The same size and time, another header. */
    cr_assert_eq(truncate(path, status.st_size), 0);
    fd = open(path, O_WRONLY);
    cr_assert(fd >= 0 && pwrite(fd, header, sizeof header, 0) == 512);
    close(fd);
    cr_assert_eq(utimensat(AT_FDCWD, path, (struct timespec[2]){status.st_atim, status.st_mtim}, 0),
                 0);
    cr_assert_eq(reader_read_ahead(reader, 0, buffer, ROOM, 0, 1, &data), -EIO);
    cr_assert_eq(reader_read_members(reader, &member, 1, buffer, ROOM, &data), -EIO);
    cr_assert_eq(read_extent(reader, &member, 1, buffer, 0, 1024), -EIO);
    cr_assert_eq(read_extent(reader, &member, 1, buffer, 512, 512), -EIO);
    reader_close(reader);
    free(buffer);
    end();
}

/* Reads asked for at once. */

static int open_around(const char *name)
{
    char path[400];
    int fd;

    snprintf(path, sizeof path, "%s/%s", folder.path, name);
    fd = open(path, O_RDONLY | O_DIRECT);
    if (fd < 0) {
        end();
        cr_skip_test("the file system of %s has no O_DIRECT", folder.path);
    }
    return fd;
}

Test(batch, gives_each_read_its_own_bytes_or_its_own_error)
{
    enum { PAGE = 4096, PAGES = 16 };
    char *bytes = pattern((size_t)PAGE * PAGES, 3), *memory = aligned_alloc(PAGE, PAGE * PAGES);
    struct batch *batch = batch_open();
    struct batch_read reads[BATCH_MOST];
    int fd;

    begin();
    folder_add_bytes(&folder, "a.bin", bytes, (size_t)PAGE * PAGES);
    fd = open_around("a.bin");
    cr_assert(batch && memory);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < BATCH_MOST; i++)
            reads[i] = (struct batch_read){fd, memory + (size_t)i * 2 * PAGE,
                                           i % 2 ? PAGE : 2 * PAGE,
                                           (uint64_t)((i * 5 + round) % (PAGES - 1)) * PAGE, 0};
        reads[2].offset = (PAGES - 1) * PAGE; /* ends early */
        reads[4].offset = PAGES * PAGE;       /* is past the end */
        reads[5].fd = -1;
        batch_read(batch, reads, BATCH_MOST);
        for (int i = 0; i < BATCH_MOST; i++) {
            ssize_t meant = i == 2 ? PAGE : i == 4 ? 0 : i % 2 ? PAGE : 2 * PAGE;
            if (i >= 5) { /* what comes after a fault may not have been taken */
                cr_assert(i == 5 ? reads[i].got < 0 : reads[i].got < 0 || reads[i].got == meant);
                continue;
            }
            cr_assert_eq(reads[i].got, meant);
            cr_assert(memcmp(reads[i].to, bytes + reads[i].offset, (size_t)meant) == 0);
        }
    }
    batch_read(batch, reads, 0);
    batch_close(batch);
    close(fd);
    free(memory);
    free(bytes);
    end();
}

/* Seconds that it takes to close as many as a mount has. */
static double close_many(int fd, char *memory)
{
    enum { MANY = 64 };
    struct batch *batches[MANY];
    uint64_t since;

    for (int i = 0; i < MANY; i++) {
        struct batch_read read = {fd, memory, 4096, 0, 0};
        batches[i] = batch_open();
        cr_assert(batches[i]);
        batch_read(batches[i], &read, 1);
    }
    since = clock_now_ns();
    for (int i = 0; i < MANY; i++)
        batch_close(batches[i]);
    return (double)(clock_now_ns() - since) / 1e9;
}

/* The kernel takes a context back in up to 30 ms: a second and more for a mount's. */
Test(batch, closing_takes_no_time_so_that_a_mount_ends_at_once)
{
    char *memory = aligned_alloc(4096, 4096);
    double least = 1;
    int fd;

    begin();
    memset(memory, 7, 4096);
    folder_add_bytes(&folder, "a.bin", memory, 4096);
    fd = open_around("a.bin");
    for (int i = 0; i < 3 && least > 0.1; i++) {
        double seconds = close_many(fd, memory);
        least = seconds < least ? seconds : least;
    }
    close(fd);
    free(memory);
    end();
    cr_assert(least <= 0.1, "%g s", least);
}

/* All samples in an order of their own, eight pieces at once: some whole, some as they lie. */
static void expect_pieces(struct reader *reader, struct batch *batch, size_t samples,
                          char *const *bytes, const size_t *sizes)
{
    static uint64_t members[8][2];
    char *data[8][2], *buffers[8];
    struct reader_piece pieces[8];

    for (size_t i = 0; i < 8; i++)
        cr_assert((buffers[i] = aligned_alloc(READER_ALIGN, ROOM)));
    for (size_t start = 0; start < samples; start++) {
        for (size_t i = 0; i < 8; i++) {
            size_t sample = (start + i * 3) % samples;
            members[i][0] = 2 * sample;
            members[i][1] = 2 * sample + 1;
            pieces[i] = (struct reader_piece){
                .members = members[i], .count = 2, .buffer = buffers[i]};
            if (i % 2) {
                pieces[i].from = set->members[2 * sample].offset - 512;
                pieces[i].size = (sizes[sample] + 511) / 512 * 512 + 512;
            } else {
                pieces[i].room = i == 6 ? READER_SLACK + 512 : ROOM; /* too little for any two */
                pieces[i].data = data[i];
            }
        }
        reader_read_pieces(reader, batch, pieces, 8);
        for (size_t i = 0; i < 8; i++) {
            size_t sample = (start + i * 3) % samples;
            const char *at = i % 2 ? buffers[i] + 512 : data[i][0];
            if (i == 6) {
                cr_assert_eq(pieces[i].fault, -E2BIG);
                continue;
            }
            cr_assert(pieces[i].fault == 0 || (i % 2 && pieces[i].fault == -EINVAL));
            if (pieces[i].fault == 0)
                cr_assert(memcmp(at, bytes[sample], sizes[sample]) == 0);
            if (i % 2 == 0)
                cr_assert(memcmp(data[i][1], "label", 5) == 0);
        }
    }
    for (size_t i = 0; i < 8; i++)
        free(buffers[i]);
}

Test(reader, gives_the_same_bytes_when_several_are_asked_for_at_once)
{
    enum { COUNT = 11 };
    char *bytes[COUNT];
    size_t sizes[COUNT];
    struct batch *batch = batch_open();

    begin();
    for (size_t i = 0; i < COUNT; i++)
        sizes[i] = 1 + i * i * 997 % 70000;
    add_pairs(sizes, COUNT, bytes);
    cr_assert_eq(open_index(), 0);
    for (int way = READER_DIRECT_AUTO; way <= READER_DIRECT_NEVER; way++) {
        struct reader *reader;
        cr_assert_eq(reader_open(&reader, set, 0, (enum reader_direct)way), 0);
        for (int cold = 0; cold < 2; cold++) {
            if (cold)
                drop_from_cache();
            expect_pieces(reader, batch, COUNT, bytes, sizes);
        }
        cr_assert_eq(reader_figures(reader).failed, 0u);
        reader_close(reader);
    }
    batch_close(batch);
    for (size_t i = 0; i < COUNT; i++)
        free(bytes[i]);
    end();
}

/* Reads eight samples at once again and again, in a thread that may not ask for several reads at
 * once; returns how many were wrong, or -1: that cannot be forbidden here. */
static void *read_without_batches(void *context)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    struct batch *batch = batch_open();
    struct reader *reader = context;
    char *buffers = aligned_alloc(READER_ALIGN, 8 * ROOM), *data[8];
    struct reader_piece pieces[8];
    uint64_t members[8];
    intptr_t faults = 0;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        faults = -1;
    for (int round = 0; round < 10 && faults == 0; round++) {
        for (size_t i = 0; i < 8; i++) {
            members[i] = i;
            pieces[i] = (struct reader_piece){.members = &members[i],
                                              .count = 1,
                                              .buffer = buffers + i * ROOM,
                                              .room = ROOM,
                                              .data = &data[i]};
        }
        reader_read_pieces(reader, batch, pieces, 8);
        for (size_t i = 0; i < 8; i++)
            faults += pieces[i].fault != 0 || memcmp(data[i], "sample ", 7) ||
                      data[i][7] != '0' + (char)i;
    }
    batch_close(batch);
    free(buffers);
    return (void *)faults;
}

Test(reader, keeps_its_shards_open_where_several_cannot_be_asked_for_at_once)
{
    struct reader *reader;
    struct inotify_event event;
    pthread_t thread;
    void *faults;
    bool closed;
    int watch = inotify_init1(IN_NONBLOCK);
    char path[300];

    begin();
    folder_add_tar(&folder, "a.tar", "ustar",
                   LIST("0.txt", "sample 0", "1.txt", "sample 1", "2.txt", "sample 2", "3.txt",
                        "sample 3", "4.txt", "sample 4", "5.txt", "sample 5", "6.txt", "sample 6",
                        "7.txt", "sample 7"));
    cr_assert_eq(open_index(), 0);
    cr_assert_eq(reader_open(&reader, set, 0, READER_DIRECT_ALWAYS), 0);
    drop_from_cache();
    snprintf(path, sizeof path, "%s/a.tar", folder.path);
    cr_assert(inotify_add_watch(watch, path, IN_CLOSE_NOWRITE) >= 0);
    cr_assert_eq(pthread_create(&thread, NULL, read_without_batches, reader), 0);
    cr_assert_eq(pthread_join(thread, &faults), 0);
    closed = read(watch, &event, sizeof event) > 0;
    close(watch);
    reader_close(reader);
    end();
    if ((intptr_t)faults == -1)
        cr_skip_test("no seccomp filter can be set here");
    cr_assert_eq((intptr_t)faults, 0);
    cr_assert(!closed);
}

Test(reader, of_several_asked_for_at_once_only_those_of_the_changed_shard_fail)
{
    char *bytes = pattern(9000, 5), *buffer[4], *data[4][1], path[400];
    struct batch *batch = batch_open();
    struct reader_piece pieces[4];
    const uint64_t members[4] = {0, 1, 2, 3};
    struct reader *reader;

    begin();
    folder_add_tar(&folder, "a.tar", "ustar", LIST("0.jpg", bytes, "1.jpg", bytes));
    folder_add_tar(&folder, "b.tar", "ustar", LIST("2.jpg", bytes, "3.jpg", bytes));
    cr_assert_eq(open_index(), 0);
    cr_assert_eq(reader_open(&reader, set, 0, READER_DIRECT_AUTO), 0);
    snprintf(path, sizeof path, "%s/b.tar", folder.path);
    cr_assert_eq(truncate(path, 12000), 0);
    drop_from_cache();
    for (int i = 0; i < 4; i++) {
        cr_assert((buffer[i] = aligned_alloc(READER_ALIGN, ROOM)));
        pieces[i] = (struct reader_piece){
            .members = &members[i], .count = 1, .buffer = buffer[i], .room = ROOM, .data = data[i]};
    }
    reader_read_pieces(reader, batch, pieces, 4);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pieces[i].fault, i < 2 ? 0 : -EIO);
        if (i < 2)
            cr_assert(memcmp(data[i][0], bytes, 9000) == 0);
        free(buffer[i]);
    }
    cr_assert_eq(reader_figures(reader).failed, 2u);
    cr_assert_eq(reader_errors(reader, 1), 0u);
    reader_close(reader);
    batch_close(batch);
    free(bytes);
    end();
}
