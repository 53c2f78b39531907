/* Headers that are read by our own eyes: those that common writers write, and none of which
 * libarchive would make something else. Where a tar is walked both ways, a link at its end sees to
 * it that libarchive goes on behind the plain members. */
#include "unit.h"

#include "shard.h"

#include "../../core/plain_header.h"
#include "../../core/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK     512
#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define LONG_NAME                                                                                  \
    "a/folder/of/some/length/so/that/ustar/has/to/keep/the/name/in/two/parts/"                     \
    "a/folder/of/some/length/so/that/ustar/has/to/keep/the/name/x.jpg"

static struct shard_folder folder;

static void begin(void)
{
    report_watch(NULL);
    folder_make(&folder);
}

static void end(void)
{
    folder_remove(&folder);
    report_stop();
}

/* The first header of a tar with this one member. */
static bool is_plain(struct plain_header *header, const char *format, const char *name,
                     const char *content)
{
    size_t size;
    char *tar;
    bool plain;

    folder_add_tar(&folder, "one.tar", format, LIST(name, content));
    tar = folder_read(&folder, "one.tar", &size);
    plain = plain_header_read(header, tar);
    free(tar);
    return plain;
}

Test(plain_header, what_ustar_and_gnu_writers_write_is_plain)
{
    struct plain_header header;

    begin();
    cr_assert(is_plain(&header, "ustar", "n1/x.jpg", "eleven char"));
    cr_assert_str_eq(header.name, "n1/x.jpg");
    cr_assert(header.size == 11 && !header.folder);
    cr_assert(is_plain(&header, "gnutar", "x.jpg", ""));
    cr_assert(header.size == 0 && !header.folder);
    cr_assert(is_plain(&header, "ustar", LONG_NAME, "x"));
    cr_assert_str_eq(header.name, LONG_NAME);
    cr_assert(is_plain(&header, "gnutar", "n1/", ""));
    cr_assert(header.folder);
    end();
}

Test(plain_header, what_more_than_one_block_says_is_not)
{
    struct plain_header header;

    begin();
    cr_assert(!is_plain(&header, "ustar", "x.jpg", "->y.jpg"));
    cr_assert(!is_plain(&header, "ustar", "x.jpg", "|"));
    cr_assert(!is_plain(&header, "gnutar", LONG_NAME, "x"));
    cr_assert(!is_plain(&header, "pax", LONG_NAME LONG_NAME, "x"));
    cr_assert(!is_plain(&header, "ustar", "caf\xc3\xa9.jpg", "x"));
    end();
}

Test(plain_header, pax_records_of_times_alone_are_plain)
{
    static const char *const plain[] = {
        "22 mtime=1600000000.5\n", "28 mtime=1600000000.1234567\n",
        "15 atime=-1.25\n22 mtime=1600000000.5\n20 ctime=1600000000\n"};
    static const char *const others[] = {
        "12 path=a.b\n",
        "22 mtime=1600000000.5\n12 path=a.b\n",
        "10 size=9\n",
        "9 mtime=\n",
        "10 mtime=1\n",
        "12 mtime=1\n",
        "11 mtime=1\n\n",
        "10 mtime=1",
        "11 mtime=1 ",
        "11 mtime=x\n",
        "11 Mtime=1\n",
        "0 mtime=1\n",
        "99 mtime=1\n",
        " mtime=1\n",
        "10mtime=11\n",
        "99999999999999999999 mtime=1\n",
        "32 mtime=1234567890123456789.25\n",
    };

    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        cr_assert(plain_header_only_times(plain[i], strlen(plain[i])), "%s", plain[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_assert(!plain_header_only_times(others[i], strlen(others[i])), "%s", others[i]);
    /* None of them looks beyond its end. */
    for (size_t size = strlen(plain[0]) - 1; size; size--) {
        char *records = malloc(size);
        memcpy(records, plain[0], size);
        cr_assert(!plain_header_only_times(records, size), "%zu", size);
        free(records);
    }
}

Test(plain_header, the_header_of_pax_records_is_told_from_others)
{
    size_t size, more = 0;
    char *tar;

    begin();
    folder_add_tar(&folder, "pax.tar", "pax", LIST("n1/x.jpg", "eleven char"));
    tar = folder_read(&folder, "pax.tar", &size);
    cr_assert(plain_header_is_pax(tar, &more));
    cr_assert(more > 0 && plain_header_only_times(tar + BLOCK, more));
    cr_assert(!plain_header_is_pax(tar + (size_t)2 * BLOCK, &more));
    free(tar);
    end();
}

static void mend_checksum(unsigned char *header)
{
    char digits[8];
    unsigned sum = 0;

    memset(header + 148, ' ', 8);
    for (int i = 0; i < BLOCK; i++)
        sum += header[i];
    snprintf(digits, sizeof digits, "%06o", sum);
    memcpy(header + 148, digits, 7);
}

/* Walks the shard both ways. */
static void compare(size_t at, unsigned char value)
{
    struct index_shard ours = {.path = folder.shards.paths[0]}, theirs = ours;
    struct harvest mine = {0}, judge = {0};

    cr_assert_eq(walk_shard(&mine, &ours, 0, NULL), 0);
    cr_assert_eq(walk_shard_by_libarchive(&judge, &theirs, 0, NULL), 0);
    cr_assert(ours.hash == theirs.hash && mine.member_count == judge.member_count &&
                  mine.sample_count == judge.sample_count && mine.key_bytes == judge.key_bytes,
              "byte %zu as %u", at, value);
    cr_assert(!mine.member_count || memcmp(mine.members, judge.members,
                                           mine.member_count * sizeof *mine.members) == 0,
              "byte %zu as %u", at, value);
    cr_assert(!mine.key_bytes || memcmp(mine.keys, judge.keys, mine.key_bytes) == 0);
    cr_assert(memcmp(mine.problems, judge.problems, sizeof mine.problems) == 0, "byte %zu as %u",
              at, value);
    harvest_close(&mine);
    harvest_close(&judge);
    free(ours.complaint);
    free(theirs.complaint);
}

/* Any other byte in the block `number`, a header's sum put right: the walk finds what libarchive
 * finds. */
static void change_each_byte(const char *format, size_t number, bool header)
{
    static const unsigned char values[] = {0, ' ', '5', 0x80};
    unsigned char *tar;
    size_t size;

    folder_add_tar(&folder, "a.tar", format,
                   LIST("n1/x.jpg", "one", "n1/x.cls", "7", "n1/y.jpg", "two", "l.jpg", "->x.jpg"));
    tar = (unsigned char *)folder_read(&folder, "a.tar", &size);
    for (size_t i = 0; i < BLOCK; i++)
        for (size_t v = 0; v < sizeof values; v++) {
            unsigned char before[BLOCK], *at = tar + number * BLOCK;
            memcpy(before, at, BLOCK);
            at[i] = values[v];
            if (header && (i < 148 || i >= 156))
                mend_checksum(at);
            folder_add_bytes(&folder, "a.tar", tar, size);
            compare(i, values[v]);
            memcpy(at, before, BLOCK);
        }
    free(tar);
}

Test(plain_header, whatever_a_first_header_says_libarchive_agrees)
{
    begin();
    change_each_byte("ustar", 0, true);
    end();
    begin();
    change_each_byte("pax", 0, true);
    end();
}

Test(plain_header, whatever_a_later_header_says_libarchive_agrees)
{
    begin();
    change_each_byte("ustar", 2, true);
    end();
    begin();
    change_each_byte("gnutar", 2, true);
    end();
}

Test(plain_header, whatever_pax_records_and_what_is_behind_them_say_libarchive_agrees)
{
    for (size_t number = 4; number < 7; number++) {
        begin();
        change_each_byte("pax", number, number != 5);
        end();
    }
}
