/* libFuzzer's entry: any bytes as a saved index. What passes its checks must be safe to use: every
 * key, member and field of it is looked at, as a part of it and as a whole. Checksums count as
 * right (FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION). With FUZZ_SEEDS=DIR some good ones are written
 * there. */
#include "../../core/saved.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Three shards: two of one and two samples, one that is left out. */
static void write_seed(const char *path, bool texts)
{
    static char jpg[] = "jpg", png[] = "png", first[] = "/d/a.tar", last[] = "/d/b.tar",
                bad[] = "/d/c.tar", complaint[] = "not a tar";
    char *fields[] = {jpg, png};
    struct index_shard shards[] = {
        {.path = first, .size = 4096},
        {.path = last, .first_sample = 1, .size = 8192},
        {.path = bad, .first_sample = 3, .size = 9, .complaint = complaint},
        {.first_sample = 3},
    };
    struct index_member members[] = {
        {.offset = 512, .size = 100, .field = 0},
        {.offset = 1536, .size = 9, .field = 1},
        {.offset = 512, .size = 5, .field = 0},
        {.offset = 1536, .size = 0, .field = 1},
    };
    uint32_t starts[] = {0, 2, 3, 4};
    char keys[] = "n1/x\0n1/y\0z", words[] = "7\0\0cat";
    struct index index = {
        .shards = shards,
        .shard_count = 3,
        .members = members,
        .member_count = 4,
        .first = starts,
        .sample_count = 3,
        .fields = fields,
        .field_count = 2,
        .keys = keys,
        .key_bytes = sizeof keys,
        .class_texts = texts ? words : NULL,
    };
    struct saved_shard parts[] = {
        {0},
        {.first_sample = 1, .first_member = 2, .key_at = 5, .text_at = texts ? 2 : 0},
        {.first_sample = 3, .first_member = 4, .key_at = 12, .text_at = texts ? 7 : 0},
        {.first_sample = 3, .first_member = 4, .key_at = 12, .text_at = texts ? 7 : 0},
    };
    const char *const remarks[] = {NULL, "/d/b.tar: offset 1: empty", "/d/c.tar: left out"};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0 || saved_write(fd, &index, parts, remarks))
        perror(path);
    if (fd >= 0)
        close(fd);
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    const char *folder = getenv("FUZZ_SEEDS");

    (void)count;
    (void)arguments;
    for (int i = 0; folder && i < 2; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/index-%d", folder, i);
        write_seed(path, i == 1);
    }
    return 0;
}

static volatile size_t seen;

static void use_part(const struct saved *saved, size_t number, const uint64_t *marks)
{
    const struct saved_shard *part = &saved->shards[number];
    struct index_shard shard = {.path = strdup("/d/x.tar"), .size = part->size};
    struct harvest harvest = {0};

    for (uint64_t s = part->first_sample; s < part[1].first_sample; s++)
        if (s % INDEX_KEY_STEP == 0)
            seen += strlen(saved->keys + marks[s / INDEX_KEY_STEP]);
    if (shard.path && saved_copy_part(saved, number, &shard, &harvest) == 0)
        for (size_t m = 0; m < harvest.member_count; m++)
            seen += strlen(harvest.fields[harvest.members[m].field]);
    harvest_close(&harvest);
    free(shard.path);
    free(shard.complaint);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *block = malloc(size ? size : 1);
    struct saved *saved;
    uint64_t *marks;

    if (!block)
        abort();
    memcpy(block, data, size);
    /* How long the file says it is, is soon right: that is not what is looked for. */
    if (size >= sizeof(struct saved_header))
        ((struct saved_header *)block)->file_bytes = size;
    if (saved_take(&saved, block, size))
        return 0;
    marks = calloc(saved->header->sample_count / INDEX_KEY_STEP + 1, sizeof *marks);
    for (size_t i = 0; marks && i < saved->header->shard_count; i++)
        if (saved_check_part(saved, i, marks))
            use_part(saved, i, marks);
    free(marks);
    saved_close(saved);
    return 0;
}
