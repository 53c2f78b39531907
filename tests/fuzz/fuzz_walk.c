/* libFuzzer's entry: any bytes as a shard, walked as for a mount, and by libarchive alone: both
 * ways give the same. The first byte chooses whether headers' checksums are put right first:
 * without that, nothing but the checksums would be tried. With FUZZ_SEEDS=DIR the tars to begin
 * from are written there.
 *
 * Whatever the bytes are: each member lies within the file, behind a header that is there; keys
 * and fields are what core/index.h says; counts agree with each other and with what the observer
 * was told. */
#include "../../core/report.h"
#include "../../core/walk.h"
#include "tar_bytes.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { AS_IT_IS = 1, SEED_MOST = 32768 };

static int file; /* in memory: the shard */
static char path[64];
static unsigned lines; /* reported */

static void count_line(const char *line, void *context)
{
    (void)context;
    lines += *line != '\0';
}

static void need(int condition)
{
    if (!condition)
        abort();
}

/* What the observer was told. */
struct told {
    const struct harvest *harvest;
    uint64_t problems[INDEX_PROBLEM_KINDS], members, size;
    unsigned walked;
};

static void tell_problem(void *context, size_t shard, enum index_problem problem,
                         const char *member, uint64_t offset)
{
    struct told *told = context;

    need(shard == 7 && problem < INDEX_PROBLEM_KINDS);
    need(!member || *member || problem == INDEX_CORRUPT_HEADER || problem == INDEX_NO_EXTENSION ||
         problem == INDEX_LINK || problem == INDEX_NOT_A_FILE || problem == INDEX_SPARSE ||
         problem == INDEX_TRUNCATED);
    /* Of a member that is not there the data would begin at the end. */
    need(offset <= told->size + BLOCK);
    told->problems[problem]++;
}

static void tell_member(void *context, size_t shard, uint64_t sample, const char *member,
                        const struct index_member *place)
{
    struct told *told = context;

    need(shard == 7 && *member && sample + 1 >= 1 && place->offset >= BLOCK);
    told->members++;
}

static void tell_end(void *context, size_t shard)
{
    struct told *told = context;

    need(shard == 7);
    told->walked++;
}

static void check_key(const char *key)
{
    const char *base = strrchr(key, '/') ? strrchr(key, '/') + 1 : key;

    need(*base && !strchr(base, '.'));
    for (const char *part = key; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        size_t length = strcspn(part, "/");
        need(length > 0 && !(length == 1 && part[0] == '.') &&
             !(length == 2 && part[0] == '.' && part[1] == '.'));
    }
}

static void check_field(const char *field)
{
    size_t length = strlen(field);

    need(length >= 1 && length <= INDEX_FIELD_MAX && field[length - 1] != '.' &&
         !strchr(field, '/'));
    for (const char *c = field; *c; c++)
        need(*c < 'A' || *c > 'Z');
}

static void check_members(const struct harvest *harvest, const uint8_t *tar, size_t size)
{
    uint64_t bytes = 0;

    for (size_t m = 0; m < harvest->member_count; m++) {
        const struct index_member *member = &harvest->members[m];
        need(member->offset >= BLOCK && member->offset <= size &&
             member->size <= size - member->offset);
        need(member->header == index_header_check(tar + member->offset - BLOCK));
        need(member->field < harvest->field_count);
        bytes += member->size;
    }
    need(bytes == harvest->bytes);
}

static void check_samples(const struct harvest *harvest)
{
    const char *key = harvest->keys;

    need(harvest->sample_count == 0 || harvest->first[0] == 0);
    for (size_t s = 0; s < harvest->sample_count; s++) {
        size_t from = harvest->first[s];
        size_t to = s + 1 < harvest->sample_count ? harvest->first[s + 1] : harvest->member_count;
        need(from < to && to <= harvest->member_count);
        for (size_t a = from; a < to; a++)
            for (size_t b = from; b < a; b++)
                need(harvest->members[a].field != harvest->members[b].field);
        check_key(key);
        key += strlen(key) + 1;
    }
    need(!key || key == harvest->keys + harvest->key_bytes);
    for (size_t f = 0; f < harvest->field_count; f++)
        check_field(harvest->fields[f]);
}

typedef int walk_function(struct harvest *harvest, struct index_shard *shard, size_t number,
                          const struct index_observer *observer);

static void walk(struct harvest *harvest, struct index_shard *shard, const uint8_t *tar,
                 size_t size, walk_function *function)
{
    struct told told = {.harvest = harvest, .size = size};
    const struct index_observer observer = {&told, tell_problem, tell_member, tell_end};

    *harvest = (struct harvest){0};
    *shard = (struct index_shard){.path = path};
    lines = 0;
    need(function(harvest, shard, 7, &observer) == 0);
    need(lines == 0 && told.walked == 1 && shard->size == size);
    need(told.members == harvest->member_count);
    for (int p = 0; p < INDEX_PROBLEM_KINDS; p++)
        need(told.problems[p] == harvest->problems[p]);
    need(!shard->complaint ==
         !(harvest->problems[INDEX_COMPRESSED] + harvest->problems[INDEX_NOT_A_TAR]));
    need(!shard->complaint || harvest->sample_count == 0);
    check_members(harvest, tar, size);
    check_samples(harvest);
}

static bool alike(const void *a, const void *b, size_t size)
{
    return size == 0 || memcmp(a, b, size) == 0;
}

/* Plain headers read by our own eyes, and all by libarchive: the same in every respect. */
static void walk_both_ways(const uint8_t *tar, size_t size)
{
    struct harvest ours, theirs;
    struct index_shard shard, judge;

    walk(&ours, &shard, tar, size, walk_shard);
    walk(&theirs, &judge, tar, size, walk_shard_by_libarchive);
    need(shard.hash == judge.hash && ours.bytes == theirs.bytes &&
         ours.member_count == theirs.member_count && ours.sample_count == theirs.sample_count &&
         ours.key_bytes == theirs.key_bytes && ours.text_bytes == theirs.text_bytes &&
         ours.field_count == theirs.field_count);
    need(alike(ours.members, theirs.members, ours.member_count * sizeof *ours.members) &&
         alike(ours.first, theirs.first, ours.sample_count * sizeof *ours.first) &&
         alike(ours.keys, theirs.keys, ours.key_bytes) &&
         alike(ours.texts, theirs.texts, ours.text_bytes) &&
         alike(ours.problems, theirs.problems, sizeof ours.problems));
    for (size_t f = 0; f < ours.field_count; f++)
        need(strcmp(ours.fields[f], theirs.fields[f]) == 0);
    need(strcmp(ours.first_problem ?: "", theirs.first_problem ?: "") == 0 &&
         strcmp(shard.complaint ?: "", judge.complaint ?: "") == 0);
    harvest_close(&ours);
    harvest_close(&theirs);
    free(shard.complaint);
    free(judge.complaint);
}

static void write_seed(const char *folder, int number)
{
    static const int formats[] = {ARCHIVE_FORMAT_TAR_USTAR, ARCHIVE_FORMAT_TAR_PAX_INTERCHANGE,
                                  ARCHIVE_FORMAT_TAR_GNUTAR, ARCHIVE_FORMAT_TAR};
    int format = formats[number % 4];
    uint8_t seed[SEED_MOST + 1];
    char long_name[300];
    struct archive *archive = archive_write_new();
    size_t used = 0;

    memset(long_name, 'n', sizeof long_name);
    snprintf(long_name + 280, 20, "/a.jpg");
    archive_write_set_format(archive, format);
    archive_write_set_bytes_per_block(archive, BLOCK);
    archive_write_set_bytes_in_last_block(archive, 1);
    if (archive_write_open_memory(archive, seed + 1, SEED_MOST, &used) != ARCHIVE_OK)
        abort();
    tar_add(archive, "0/a.jpg", "picture", AE_IFREG);
    tar_add(archive, "0/a.cls", " 3\n", AE_IFREG);
    if (number / 4 % 2)
        tar_add(archive, "1/a.jpg", "0/a.jpg", 0);
    if (number / 8 % 2 && format != ARCHIVE_FORMAT_TAR_USTAR)
        tar_add(archive, long_name, "far away", AE_IFREG);
    if (number / 8 % 2) {
        tar_add(archive, "soft.jpg", "0/a.jpg", AE_IFLNK);
        tar_add(archive, "folder/", "", AE_IFDIR);
        tar_add(archive, "._x.jpg", "litter", AE_IFREG);
        tar_add(archive, "../0/a.TXT", "", AE_IFREG);
    }
    archive_write_close(archive);
    archive_write_free(archive);
    seed[0] = number / 16 % 2 ? AS_IT_IS : 0;
    seed_write(folder, "walk", (size_t)number, seed, used + 1);
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    const char *folder = getenv("FUZZ_SEEDS");

    (void)count;
    (void)arguments;
    for (int i = 0; folder && i < 32; i++)
        write_seed(folder, i);
    file = memfd_create("shard", MFD_CLOEXEC);
    need(file >= 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    report_to_sink(count_line, NULL);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *tar;

    if (!size)
        return 0;
    tar = malloc(size);
    need(tar != NULL);
    memcpy(tar, data + 1, size - 1);
    if (!(data[0] & AS_IT_IS))
        mend_checksums(tar, size - 1);
    need(ftruncate(file, (off_t)size - 1) == 0);
    need(pwrite(file, tar, size - 1, 0) == (ssize_t)size - 1);
    walk_both_ways(tar, size - 1);
    free(tar);
    return 0;
}
