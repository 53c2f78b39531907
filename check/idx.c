/* DALI's index files. Owns a shard's text while it is made. */
#include "idx.h"

#include "replace.h"

#include "../core/report.h"
#include "../core/walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION "v1.2"

/* One shard's lines. */
struct lines {
    FILE *to;
    char *text;
    size_t size;
    uint64_t samples;
    bool begun;      /* a line was begun, of sample number `samples` - 1 */
    char *odd;       /* the first member whose name breaks a line into other words; owned */
    uint64_t odd_at; /* its offset */
};

static void add_member(void *context, size_t shard, uint64_t sample, const char *member,
                       const struct index_member *place)
{
    struct lines *lines = context;
    const char *base = strrchr(member, '/') ? strrchr(member, '/') + 1 : member;

    (void)shard;
    if (strpbrk(member, " \t\r\n\v\f") && !lines->odd) {
        lines->odd = strdup(member);
        lines->odd_at = place->offset;
    }
    if (sample + 1 > lines->samples) {
        if (lines->begun)
            fputc('\n', lines->to);
        lines->samples = sample + 1;
    } else {
        fputc(' ', lines->to);
    }
    lines->begun = true;
    fprintf(lines->to, "%s %" PRIu64 " %" PRIu64 " %s", strchr(base, '.') + 1,
            (uint64_t)place->offset, (uint64_t)place->size, member);
}

/* Whether the file holds just these bytes. */
static bool is_equal(const char *path, const char *head, const char *text, size_t size)
{
    size_t before = strlen(head);
    FILE *file = fopen(path, "re");
    char *held = malloc(before + size + 1);
    bool equal = file && held && fread(held, 1, before + size + 1, file) == before + size &&
                 memcmp(held, head, before) == 0 && memcmp(held + before, text, size) == 0;

    free(held);
    if (file)
        fclose(file);
    return equal;
}

/* What a file holds: its first line, and the others. */
struct content {
    const char *head;
    const struct lines *lines;
};

static void fill(FILE *to, const void *context)
{
    const struct content *content = context;

    fputs(content->head, to);
    if (content->lines->size)
        fwrite(content->lines->text, 1, content->lines->size, to);
}

static const char *refusal(const struct harvest *harvest, const struct index_shard *shard)
{
    if (shard->complaint)
        return shard->complaint;
    if (harvest->problems[INDEX_TRUNCATED])
        return "the shard is cut short; an index would hide that";
    if (harvest->problems[INDEX_CORRUPT_HEADER])
        return "a header is broken, and what follows is lost; an index would hide that";
    if (harvest->sample_count == 0)
        return "there is no sample in it, which DALI refuses";
    return NULL;
}

static void refuse(struct check_problems *problems, struct check_idx *idx, size_t number,
                   const char *member, uint64_t offset, const char *why)
{
    idx->refused++;
    check_problems_add(problems, CHECK_NO_IDX, number, member, offset, why);
}

/* Where the index of `shard` stands, allocated: `train-0.idx` beside `train-0.tar`; other names get
 * the ending besides their own. NULL: no memory. */
static char *path_of(const char *shard)
{
    size_t length = strlen(shard);
    char *path;

    if (length > 4 && strcmp(shard + length - 4, ".tar") == 0)
        length -= 4;
    return asprintf(&path, "%.*s.idx", (int)length, shard) < 0 ? NULL : path;
}

static int save(const char *shard, size_t number, const struct lines *lines,
                struct check_problems *problems, struct check_idx *idx)
{
    char head[48], *path = path_of(shard), *why;
    const struct content content = {head, lines};
    int fault;

    if (!path)
        return -ENOMEM;
    snprintf(head, sizeof head, VERSION " %" PRIu64 "\n", lines->samples);
    if (is_equal(path, head, lines->text, lines->size)) {
        idx->equal++;
        free(path);
        return 0;
    }
    fault = check_replace(path, fill, &content);
    if (!fault)
        idx->written++;
    else if (asprintf(&why, "%s: %s", path, strerror(-fault)) >= 0) {
        refuse(problems, idx, number, NULL, 0, why);
        free(why);
    } else {
        refuse(problems, idx, number, NULL, 0, strerror(-fault));
    }
    free(path);
    return 0;
}

static int index_shard(const char *path, size_t number, struct harvest *harvest,
                       struct check_problems *problems, struct check_idx *idx)
{
    struct index_shard shard = {.path = (char *)path};
    struct lines lines = {.to = NULL};
    const struct index_observer observer = {.context = &lines, .member = add_member};
    const char *why;
    int fault = -ENOMEM;

    lines.to = open_memstream(&lines.text, &lines.size);
    if (lines.to) {
        fault = walk_shard(harvest, &shard, number, &observer);
        if (lines.begun)
            fputc('\n', lines.to);
        if (fclose(lines.to) && !fault)
            fault = -ENOMEM;
    }
    why = fault ? NULL : refusal(harvest, &shard);
    if (why)
        refuse(problems, idx, number, NULL, 0, why);
    else if (!fault && lines.odd)
        refuse(problems, idx, number, lines.odd, lines.odd_at,
               "a blank in a name, which parts words in DALI's index");
    else if (!fault)
        fault = save(path, number, &lines, problems, idx);
    free(lines.odd);
    free(lines.text);
    free(shard.complaint);
    harvest_clear(harvest);
    return fault;
}

int check_idx_write(const struct shard_list *shards, struct check_problems *problems,
                    struct check_idx *idx)
{
    struct harvest harvest = {0};
    int fault = 0;

    *idx = (struct check_idx){0};
    for (size_t i = 0; !fault && i < shards->count; i++)
        fault = index_shard(shards->paths[i], i, &harvest, problems, idx);
    harvest_close(&harvest);
    if (fault == -ENOMEM)
        report_error("no memory for DALI's index");
    return fault;
}
