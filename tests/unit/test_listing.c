/* DALI's index beside a shard: what comes of it is what a walk finds, whatever it says. */
#include "unit.h"

#include "shard.h"

#include "../../core/index.h"
#include "../../core/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct shard_folder folder;
static struct index *set, *walk;

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define LONG_NAME                                                                                  \
    "a/folder/of/some/length/so/that/ustar/has/to/keep/the/name/in/two/parts/"                     \
    "a/folder/of/some/length/so/that/ustar/has/to/keep/the/name/x.jpg"

static const char *const plain[] = {"n1/x.jpg", "one",      "n1/x.cls", "7",       "n1/y.jpg",
                                    "",         "n1/y.cls", "8",        LONG_NAME, "three",
                                    "n1/x.jpg", "again",    "n1/x.jpg", "dup",     NULL};

static void begin(void)
{
    report_watch(NULL);
    folder_make(&folder);
}

static void end(void)
{
    index_close(set);
    index_close(walk);
    set = walk = NULL;
    folder_remove(&folder);
    report_stop();
}

/* The text for members of a plain tar, a line a member: `shift` is added to the offset, `grow` to
 * the size, of member number `odd`. */
static void write_idx(const char *name, const char *const *members, size_t odd, int shift, int grow)
{
    char text[4096] = "v1.2 7\n";
    uint64_t at = 512;

    for (size_t i = 0; members[2 * i]; i++) {
        uint64_t size = strlen(members[2 * i + 1]);
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "jpg %llu %llu %s\n",
                 (unsigned long long)(at + (i == odd ? (uint64_t)(int64_t)shift : 0)),
                 (unsigned long long)(size + (i == odd ? (uint64_t)(int64_t)grow : 0)),
                 members[2 * i]);
        at += (size + 511) / 512 * 512 + 512;
    }
    folder_add_bytes(&folder, name, text, strlen(text));
    /* It is no shard. */
    free(folder.shards.paths[--folder.shards.count]);
}

static bool same(void)
{
    return set->sample_count == walk->sample_count && set->member_count == walk->member_count &&
           set->bytes == walk->bytes && set->key_bytes == walk->key_bytes &&
           memcmp(set->members, walk->members, walk->member_count * sizeof *walk->members) == 0 &&
           memcmp(set->first, walk->first, walk->sample_count * sizeof *walk->first) == 0 &&
           memcmp(set->keys, walk->keys, walk->key_bytes) == 0 &&
           memcmp(set->problems, walk->problems, sizeof walk->problems) == 0 &&
           set->shards[0].hash == walk->shards[0].hash;
}

/* Opens with the index file that is there now, and says whether it was used. */
static bool used(void)
{
    index_close(set);
    set = NULL;
    cr_assert_eq(index_open(&set, &folder.shards, 0, "none"), 0);
    cr_assert(same());
    return set->shards[0].listed;
}

static void walk_alone(void)
{
    cr_assert_eq(index_open(&walk, &folder.shards, 0, "none"), 0);
    cr_assert(!walk->shards[0].listed);
}

Test(listing, a_right_one_spares_the_walk_and_gives_the_same)
{
    begin();
    folder_add_tar(&folder, "a.tar", "ustar", plain);
    walk_alone();
    write_idx("a.idx", plain, 99, 0, 0);
    cr_assert(used());
    end();
}

Test(listing, a_wrong_one_is_found_out)
{
    begin();
    folder_add_tar(&folder, "a.tar", "ustar", plain);
    walk_alone();
    for (size_t odd = 0; odd < 7; odd++) {
        write_idx("a.idx", plain, odd, 512, 0);
        cr_assert(!used(), "offset of member %zu", odd);
        write_idx("a.idx", plain, odd, 0, 1);
        cr_assert(!used(), "size of member %zu", odd);
    }
    /* A name that is another member's, a member too few, one too many. */
    write_idx("a.idx", LIST("n1/x.jpg", "one", "n1/z.cls", "7"), 99, 0, 0);
    cr_assert(!used());
    write_idx("a.idx", LIST("n1/x.jpg", "one", "n1/x.cls", "7"), 99, 0, 0);
    cr_assert(!used());
    write_idx("a.idx",
              LIST("n1/x.jpg", "one", "n1/x.cls", "7", "n1/y.jpg", "", "n1/y.cls", "8", LONG_NAME,
                   "three", "n1/x.jpg", "again", "n1/x.jpg", "dup", "z.z", ""),
              99, 0, 0);
    cr_assert(!used());
    end();
}

Test(listing, what_it_does_not_name_is_not_lost)
{
    static const char *const odd[] = {"d/", "", "n1/x.jpg", "one", "._n1.jpg", "l", NULL};

    begin();
    folder_add_tar(&folder, "a.tar", "ustar", odd);
    walk_alone();
    write_idx("a.idx", LIST("n1/x.jpg", "one"), 0, 512, 0);
    cr_assert(!used());
    cr_assert_eq(set->problems[INDEX_LITTER], 1);
    end();
}

Test(listing, headers_that_say_more_than_one_block_are_walked)
{
    begin();
    folder_add_tar(&folder, "a.tar", "pax", LIST("n1/\xc3\xa4.jpg", "one", "n1/\xc3\xa4.cls", "7"));
    walk_alone();
    write_idx("a.idx", LIST("n1/\xc3\xa4.jpg", "one", "n1/\xc3\xa4.cls", "7"), 99, 0, 0);
    used();
    end();
}

Test(listing, a_cut_shard_is_walked)
{
    size_t size;
    char *bytes;

    begin();
    folder_add_tar(&folder, "b.tar", "ustar", plain);
    bytes = folder_read(&folder, "b.tar", &size);
    free(folder.shards.paths[--folder.shards.count]);
    folder_add_bytes(&folder, "a.tar", bytes, 13 * 512 + 3);
    free(bytes);
    walk_alone();
    write_idx("a.idx", plain, 99, 0, 0);
    cr_assert(!used());
    end();
}

Test(listing, only_the_form_with_names_is_read)
{
    static const char *const texts[] = {"",
                                        "v1.2",
                                        "v1.2 1\n",
                                        "v1.1 1\njpg 512 3\n",
                                        "v1.3 1\njpg 512 3 n1/x.jpg\n",
                                        "v1.2 1\njpg 512 3 n1/x.jpg cls",
                                        "v1.2 1\njpg 512x 3 n1/x.jpg\n",
                                        "v1.2 1\njpg 512 9999999999999999999 n1/x.jpg\n"};
    static const char good[] = "v1.2 2\njpg 512 3 b.jpg cls 1536 1 b.cls\njpg 2560 4 c.jpg";
    struct listing listing = {0};
    char *text = malloc(sizeof good);

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *copy = malloc(strlen(texts[i]) + 1);
        cr_assert(copy);
        memcpy(copy, texts[i], strlen(texts[i]));
        cr_assert_eq(listing_parse(&listing, copy, strlen(texts[i])), 0, "%s", texts[i]);
        listing_close(&listing);
    }
    cr_assert(text);
    memcpy(text, good, sizeof good - 1);
    cr_assert_eq(listing_parse(&listing, text, sizeof good - 1), 1);
    cr_assert(listing.count == 3 && listing.members[2].offset == 2560 &&
              listing.members[1].size == 1 && strcmp(listing.members[1].name, "b.cls") == 0 &&
              strcmp(listing.members[2].name, "c.jpg") == 0);
    listing_close(&listing);
}
