/* Headers that are read by our own eyes: those that common writers write, and none of which
 * libarchive would make something else. */
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

/* Any other byte in a header, the sum put right: the walk finds what libarchive finds. */
static void change_each_byte(const char *format, size_t member)
{
    static const unsigned char values[] = {0, ' ', '5', 0x80};
    unsigned char *tar;
    size_t size;

    folder_add_tar(&folder, "a.tar", format,
                   LIST("n1/x.jpg", "one", "n1/x.cls", "7", "n1/y.jpg", "two"));
    tar = (unsigned char *)folder_read(&folder, "a.tar", &size);
    for (size_t i = 0; i < BLOCK; i++)
        for (size_t v = 0; v < sizeof values; v++) {
            unsigned char header[BLOCK], *at = tar + member * 2 * BLOCK;
            memcpy(header, at, BLOCK);
            at[i] = values[v];
            if (i < 148 || i >= 156)
                mend_checksum(at);
            folder_add_bytes(&folder, "a.tar", tar, size);
            compare(i, values[v]);
            memcpy(at, header, BLOCK);
        }
    free(tar);
}

Test(plain_header, whatever_a_first_header_says_libarchive_agrees)
{
    begin();
    change_each_byte("ustar", 0);
    end();
}

Test(plain_header, whatever_a_later_header_says_libarchive_agrees)
{
    begin();
    change_each_byte("ustar", 1);
    end();
    begin();
    change_each_byte("gnutar", 1);
    end();
}
