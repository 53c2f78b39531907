/* An index as a file. Owns the block that it is read into; knows no place, no lock and no
 * shard's file. */
#include "saved.h"

#include "cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define ALIGNMENT       64
#define BYTE_ORDER_MARK 0x01020304u
/* Far more than fits any file, and far from overflow when a few are added up. */
#define COUNT_MOST ((uint64_t)1 << 48)

static const char magic[16] = "shufflefs index";

/* Where the sections stand: it follows from the counts. */
struct layout {
    uint64_t shards, names, members, first, keys, texts, end;
};

/* A fuzzer would never get past a checksum; and its blocks are allocated, so that ASan sees their
 * ends. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
static bool same_sum(uint64_t a, uint64_t b)
{
    (void)a;
    (void)b;
    return true;
}

static void release_block(char *block, size_t bytes)
{
    (void)bytes;
    free(block);
}
#else
static bool same_sum(uint64_t a, uint64_t b)
{
    return a == b;
}

static void release_block(char *block, size_t bytes)
{
    munmap(block, bytes);
}
#endif

static uint64_t aligned(uint64_t offset)
{
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static struct layout lay_out(const struct saved_header *header)
{
    struct layout at;

    at.shards = sizeof *header;
    at.names = at.shards + (header->shard_count + 1) * sizeof(struct saved_shard);
    at.members = aligned(at.names + header->name_bytes);
    at.first = at.members + header->member_count * sizeof(struct index_member);
    at.keys = at.first + (header->sample_count + 1) * sizeof(uint32_t);
    at.texts = at.keys + header->key_bytes;
    at.end = at.texts + header->text_bytes;
    return at;
}

/* 0; -EINVAL: it is none of ours. A header of zeros is what a power cut leaves of one. */
static int judge_magic(const char start[sizeof magic])
{
    static const char zeros[sizeof magic];

    if (memcmp(start, magic, sizeof magic) == 0)
        return 0;
    return memcmp(start, zeros, sizeof zeros) == 0 ? -EBADMSG : -EINVAL;
}

/* Anything but an index is told by its first bytes alone, however long it is. */
static int look_at_start(int fd, size_t *bytes)
{
    struct saved_header header;
    struct stat status;

    if (fstat(fd, &status))
        return -errno;
    if (!S_ISREG(status.st_mode))
        return -EINVAL;
    *bytes = (size_t)status.st_size;
    if (*bytes < sizeof header)
        return *bytes ? -EINVAL : -EBADMSG;
    return cache_read(fd, &header, sizeof header, 0) ?: judge_magic(header.magic);
}

/* Read, not mapped: whoever writes to the file where it stands would write into the tables of every
 * mount, or take the pages away from under it. */
static int open_block(int fd, char **block, size_t *bytes)
{
    int fault = look_at_start(fd, bytes);
    void *at;

    if (fault)
        return fault;
    at = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return -errno;
    madvise(at, *bytes, MADV_HUGEPAGE); /* fewer faults; nothing hangs on it */
    fault = cache_read(fd, at, *bytes, 0);
    if (fault)
        munmap(at, *bytes);
    *block = at;
    return fault;
}

int saved_open(struct saved **out, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    size_t bytes = 0;
    char *block = NULL;
    int fault;

    if (fd < 0)
        return -errno;
    fault = open_block(fd, &block, &bytes);
    close(fd);
    return fault ? fault : saved_take(out, block, bytes);
}

/* Of header, shards and texts, as if the header's own were 0. */
static uint64_t checksum_of_head(const struct saved_header *header, const void *shards,
                                 const void *names)
{
    struct saved_header without = *header;
    XXH3_state_t *state = XXH3_createState();
    uint64_t sum;

    if (!state)
        return 0;
    without.checksum = 0;
    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, &without, sizeof without);
    XXH3_64bits_update(state, shards, (header->shard_count + 1) * sizeof(struct saved_shard));
    XXH3_64bits_update(state, names, header->name_bytes);
    sum = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return sum;
}

static bool counts_fit(const struct saved_header *header, size_t bytes)
{
    return header->shard_count <= SHARDS_MAX && header->sample_count <= header->member_count &&
           header->member_count <= INDEX_MEMBERS_MAX && header->field_count <= UINT16_MAX &&
           header->name_bytes < COUNT_MOST && header->key_bytes < COUNT_MOST &&
           header->text_bytes < COUNT_MOST && header->file_bytes == bytes &&
           lay_out(header).end == bytes;
}

/* The next text up to `end`; NULL: none ends before it. */
static const char *next_word(const char **at, const char *end)
{
    const char *word = *at;
    const char *stop = memchr(word, '\0', (size_t)(end - word));

    if (!stop)
        return NULL;
    *at = stop + 1;
    return word;
}

static int take_words(struct saved *saved, const char *names)
{
    const struct saved_header *header = saved->header;
    const char *end = names + header->name_bytes;

    saved->fields = calloc(header->field_count + 1, sizeof *saved->fields);
    saved->words = calloc(header->shard_count + 1, sizeof *saved->words);
    if (!saved->fields || !saved->words)
        return -ENOMEM;
    for (uint64_t f = 0; f < header->field_count; f++) {
        saved->fields[f] = next_word(&names, end);
        if (!saved->fields[f] || strlen(saved->fields[f]) > INDEX_FIELD_MAX ||
            (f && strcmp(saved->fields[f - 1], saved->fields[f]) >= 0))
            return -EBADMSG;
    }
    for (uint64_t i = 0; i < header->shard_count; i++) {
        struct saved_words *words = &saved->words[i];
        words->name = next_word(&names, end);
        words->complaint = words->name ? next_word(&names, end) : NULL;
        words->remark = words->complaint ? next_word(&names, end) : NULL;
        if (!words->remark)
            return -EBADMSG;
    }
    return names == end ? 0 : -EBADMSG;
}

/* Each shard's things begin where the last one's end, and the last one's where the sections do. */
static bool starts_fit(const struct saved *saved)
{
    const struct saved_header *header = saved->header;
    const struct saved_shard *shards = saved->shards, *last = &shards[header->shard_count];

    for (uint64_t i = 0; i < header->shard_count; i++)
        if (shards[i].first_sample > shards[i + 1].first_sample ||
            shards[i].first_member > shards[i + 1].first_member ||
            shards[i].key_at > shards[i + 1].key_at || shards[i].text_at > shards[i + 1].text_at)
            return false;
    return shards[0].first_sample == 0 && shards[0].first_member == 0 && shards[0].key_at == 0 &&
           shards[0].text_at == 0 && last->first_sample == header->sample_count &&
           last->first_member == header->member_count && last->key_at == header->key_bytes &&
           last->text_at == header->text_bytes;
}

static int take(struct saved *saved)
{
    const struct saved_header *header = saved->header = (const void *)saved->block;
    struct layout at;
    int fault;

    if (!header || saved->bytes < sizeof *header)
        return saved->bytes ? -EINVAL : -EBADMSG;
    fault = judge_magic(header->magic);
    if (fault)
        return fault;
    if (header->version != SAVED_VERSION || header->byte_order != BYTE_ORDER_MARK)
        return -EPROTONOSUPPORT;
    if (!counts_fit(header, saved->bytes))
        return -EBADMSG;
    at = lay_out(header);
    saved->shards = (const void *)(saved->block + at.shards);
    if (!same_sum(checksum_of_head(header, saved->shards, saved->block + at.names),
                  header->checksum))
        return -EBADMSG;
    fault = take_words(saved, saved->block + at.names);
    if (fault)
        return fault;
    saved->members = (void *)(saved->block + at.members);
    saved->first = (void *)(saved->block + at.first);
    saved->keys = saved->block + at.keys;
    saved->texts = header->text_bytes ? saved->block + at.texts : NULL;
    return starts_fit(saved) ? 0 : -EBADMSG;
}

int saved_take(struct saved **out, char *block, size_t bytes)
{
    struct saved *saved = calloc(1, sizeof *saved);
    int fault;

    if (!saved) {
        release_block(block, bytes);
        return -ENOMEM;
    }
    saved->block = block;
    saved->bytes = bytes;
    fault = take(saved);
    if (fault)
        saved_close(saved);
    else
        *out = saved;
    return fault;
}

void saved_close(struct saved *saved)
{
    if (!saved)
        return;
    if (saved->block)
        release_block(saved->block, saved->bytes);
    free(saved->words);
    free(saved->fields);
    free(saved);
}

static uint64_t checksum_of_part(const struct saved_shard *shard,
                                 const struct index_member *members, const uint32_t *first,
                                 const char *keys, const char *texts)
{
    const struct saved_shard *next = shard + 1;
    uint64_t sums[4];

    sums[0] = XXH3_64bits(members + shard->first_member,
                          (next->first_member - shard->first_member) * sizeof *members);
    sums[1] = XXH3_64bits(first + shard->first_sample,
                          (next->first_sample - shard->first_sample) * sizeof *first);
    sums[2] = XXH3_64bits(keys + shard->key_at, next->key_at - shard->key_at);
    sums[3] = texts ? XXH3_64bits(texts + shard->text_at, next->text_at - shard->text_at) : 0;
    return XXH3_64bits(sums, sizeof sums);
}

/* `count` texts, each with its NUL, fill the bytes between just. Marks as in saved_check_part(). */
static bool texts_fit(const char *texts, uint64_t from, uint64_t to, uint64_t sample,
                      uint64_t end_sample, uint64_t *marks)
{
    for (; sample < end_sample; sample++) {
        const char *stop = from < to ? memchr(texts + from, '\0', to - from) : NULL;
        if (!stop)
            return false;
        if (marks && sample % INDEX_KEY_STEP == 0)
            marks[sample / INDEX_KEY_STEP] = from;
        from = (uint64_t)(stop - texts) + 1;
    }
    return from == to;
}

static bool members_fit(const struct saved *saved, const struct saved_shard *shard)
{
    uint64_t end = shard[1].first_sample;

    for (uint64_t s = shard->first_sample; s < end; s++) {
        uint64_t from = saved->first[s],
                 to = s + 1 < end ? saved->first[s + 1] : shard[1].first_member;
        if (from >= to || to > shard[1].first_member ||
            (s == shard->first_sample && from != shard->first_member))
            return false;
        for (uint64_t m = from; m < to; m++) {
            const struct index_member *member = &saved->members[m];
            if (member->field >= saved->header->field_count ||
                (m > from && member->field <= member[-1].field) ||
                member->offset < INDEX_HEADER_BYTES || member->size > shard->size ||
                member->offset > shard->size - member->size)
                return false;
        }
    }
    return shard->first_sample < end || shard->first_member == shard[1].first_member;
}

bool saved_check_part(const struct saved *saved, size_t number, uint64_t *key_marks)
{
    const struct saved_shard *shard = &saved->shards[number];

    return same_sum(
               checksum_of_part(shard, saved->members, saved->first, saved->keys, saved->texts),
               shard->checksum) &&
           members_fit(saved, shard) &&
           texts_fit(saved->keys, shard->key_at, shard[1].key_at, shard->first_sample,
                     shard[1].first_sample, key_marks) &&
           (!saved->texts || texts_fit(saved->texts, shard->text_at, shard[1].text_at,
                                       shard->first_sample, shard[1].first_sample, NULL));
}

/* The names of the fields that this part has, numbered anew. */
static int copy_fields(const struct saved *saved, struct harvest *harvest)
{
    uint16_t *numbers = calloc(saved->header->field_count + 1, sizeof *numbers);
    int fault = numbers ? 0 : -ENOMEM;

    for (size_t m = 0; !fault && m < harvest->member_count; m++) {
        uint16_t field = harvest->members[m].field;
        if (!numbers[field]) {
            if (harvest_grow(&harvest->fields, &harvest->field_room, harvest->field_count + 1,
                             sizeof *harvest->fields)) {
                fault = -ENOMEM;
                break;
            }
            harvest->fields[harvest->field_count] = strdup(saved->fields[field]);
            if (!harvest->fields[harvest->field_count++]) {
                harvest->field_count--;
                fault = -ENOMEM;
                break;
            }
            numbers[field] = (uint16_t)harvest->field_count;
        }
        harvest->members[m].field = (uint16_t)(numbers[field] - 1);
    }
    free(numbers);
    return fault;
}

int saved_copy_part(const struct saved *saved, size_t number, struct index_shard *shard,
                    struct harvest *harvest)
{
    const struct saved_shard *from = &saved->shards[number], *next = from + 1;
    const struct saved_words *words = &saved->words[number];

    shard->hash = from->hash;
    if (*words->complaint && !(shard->complaint = strdup(words->complaint)))
        return -ENOMEM;
    harvest->member_count = next->first_member - from->first_member;
    harvest->sample_count = next->first_sample - from->first_sample;
    harvest->key_bytes = next->key_at - from->key_at;
    harvest->bytes = from->bytes;
    memcpy(harvest->problems, from->problems, sizeof harvest->problems);
    /* A shard without any text has a NUL a sample where others have texts. */
    harvest->any_text = saved->texts && next->text_at - from->text_at > harvest->sample_count;
    harvest->text_bytes = harvest->any_text ? next->text_at - from->text_at : 0;
    if (harvest_copy(&harvest->members, saved->members + from->first_member,
                     harvest->member_count * sizeof *harvest->members) ||
        harvest_copy(&harvest->first, saved->first + from->first_sample,
                     harvest->sample_count * sizeof *harvest->first) ||
        harvest_copy(&harvest->keys, saved->keys + from->key_at, harvest->key_bytes) ||
        (harvest->any_text &&
         harvest_copy(&harvest->texts, saved->texts + from->text_at, harvest->text_bytes)))
        return -ENOMEM;
    for (size_t s = 0; s < harvest->sample_count; s++)
        harvest->first[s] -= (uint32_t)from->first_member;
    if (*words->remark &&
        asprintf(&harvest->first_problem, "%s: %s", shard->path, words->remark) < 0) {
        harvest->first_problem = NULL;
        return -ENOMEM;
    }
    return copy_fields(saved, harvest);
}

/* The texts of the header's part: a memory stream, which grows by itself. */
static int write_words(FILE *to, const struct index *index, const char *const *remarks)
{
    for (size_t f = 0; f < index->field_count; f++)
        fwrite(index->fields[f], 1, strlen(index->fields[f]) + 1, to);
    for (size_t i = 0; i < index->shard_count; i++) {
        const struct index_shard *shard = &index->shards[i];
        const char *name = basename(shard->path), *remark = remarks[i] ? remarks[i] : "";
        size_t path = strlen(shard->path);
        /* A remark starts with the path, which may be another one the next time. */
        if (strncmp(remark, shard->path, path) == 0 && strncmp(remark + path, ": ", 2) == 0)
            remark += path + 2;
        fwrite(name, 1, strlen(name) + 1, to);
        fwrite(shard->complaint ? shard->complaint : "", 1,
               (shard->complaint ? strlen(shard->complaint) : 0) + 1, to);
        fwrite(remark, 1, strlen(remark) + 1, to);
    }
    return ferror(to) ? -ENOMEM : 0;
}

static int write_all(int fd, const void *bytes, uint64_t size, uint64_t at)
{
    const char *from = bytes;

    while (size) {
        ssize_t put = pwrite(fd, from, size, (off_t)at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? -errno : -EIO;
        from += put;
        at += (uint64_t)put;
        size -= (uint64_t)put;
    }
    return 0;
}

static int write_file(int fd, const struct index *index, struct saved_shard *shards,
                      const char *names, size_t name_bytes)
{
    struct saved_header header = {
        .version = SAVED_VERSION,
        .byte_order = BYTE_ORDER_MARK,
        .shard_count = index->shard_count,
        .sample_count = index->sample_count,
        .member_count = index->member_count,
        .field_count = index->field_count,
        .name_bytes = name_bytes,
        .key_bytes = index->key_bytes,
        .text_bytes = shards[index->shard_count].text_at,
    };
    struct layout at = lay_out(&header);
    int fault;

    memcpy(header.magic, magic, sizeof magic);
    header.file_bytes = at.end;
    header.checksum = checksum_of_head(&header, shards, names);
    if (ftruncate(fd, (off_t)at.end))
        return -errno;
    fault = write_all(fd, shards, (index->shard_count + 1) * sizeof *shards, at.shards);
    if (!fault)
        fault = write_all(fd, names, name_bytes, at.names);
    if (!fault)
        fault = write_all(fd, index->members, at.first - at.members, at.members);
    if (!fault)
        fault = write_all(fd, index->first, at.keys - at.first, at.first);
    if (!fault)
        fault = write_all(fd, index->keys, at.texts - at.keys, at.keys);
    if (!fault && index->class_texts)
        fault = write_all(fd, index->class_texts, at.end - at.texts, at.texts);
    return fault ? fault : write_all(fd, &header, sizeof header, 0);
}

int saved_write(int fd, const struct index *index, struct saved_shard *shards,
                const char *const *remarks)
{
    char *names = NULL;
    size_t name_bytes = 0;
    FILE *stream = open_memstream(&names, &name_bytes);
    int fault = stream ? write_words(stream, index, remarks) : -ENOMEM;

    if (stream && fclose(stream))
        fault = -ENOMEM;
    for (size_t i = 0; !fault && i < index->shard_count; i++) {
        shards[i].size = index->shards[i].size;
        shards[i].modified_s = index->shards[i].modified.tv_sec;
        shards[i].modified_ns = (uint64_t)index->shards[i].modified.tv_nsec;
        shards[i].changed_s = index->shards[i].changed.tv_sec;
        shards[i].changed_ns = (uint64_t)index->shards[i].changed.tv_nsec;
        shards[i].hash = index->shards[i].hash;
        shards[i].checksum = checksum_of_part(&shards[i], index->members, index->first, index->keys,
                                              index->class_texts);
    }
    if (!fault)
        fault = write_file(fd, index, shards, names, name_bytes);
    free(names);
    return fault;
}
