/* rank-R.tar, made while it is read. Owns nothing; every block is worked out from index, order and
 * position. */
#include "stream.h"

#include "marks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK        512
#define END_BYTES    (2 * BLOCK)
#define NAME_BYTES   100
#define PREFIX_BYTES 155
/* 2000-01-01: the same bytes on every node, whatever the shards' times, and no date that tars warn
 * of. */
#define MEMBER_TIME    946684800ull
#define USTAR_SIZE_MAX 077777777777ull

/* One member of the stream. */
struct part {
    uint64_t sample;
    int64_t member; /* -1: the made cls */
    const char *key, *field;
    size_t key_bytes;
    uint64_t size;
};

/* A part's name, POSITION/KEY.FIELD, without being put together. */
static size_t name_length(const struct view *view, const struct part *part)
{
    return (size_t)view_grammar(view)->position_digits + 1 + part->key_bytes + 1 +
           strlen(part->field);
}

static void put_name(const struct view *view, const struct part *part, uint64_t position, char *to)
{
    sprintf(to, "%0*llu/%s.%s", view_grammar(view)->position_digits, (unsigned long long)position,
            part->key, part->field);
}

/* Where ustar splits a name into prefix and name, as an offset of the '/'; 0: it need not; -1: it
 * cannot. `name` may be looked at only where '/' may be. */
static long split_at(const char *name, size_t length)
{
    if (length <= NAME_BYTES)
        return 0;
    for (size_t i = length - NAME_BYTES - 1; i <= PREFIX_BYTES && i + 1 < length; i++)
        if (name[i] == '/')
            return (long)i;
    return -1;
}

static bool is_utf8(const char *text)
{
    const unsigned char *c = (const unsigned char *)text;

    while (*c) {
        unsigned more = *c < 0x80                 ? 0
                        : *c >= 0xc2 && *c < 0xe0 ? 1
                        : *c >= 0xe0 && *c < 0xf0 ? 2
                        : *c >= 0xf0 && *c < 0xf5 ? 3
                                                  : 4;
        if (more == 4)
            return false;
        for (c++; more; more--, c++)
            if ((*c & 0xc0) != 0x80)
                return false;
    }
    return true;
}

/* The length of a PAX record `LENGTH KEY=VALUE\n`, which counts its own digits. */
static size_t record_length(size_t key, size_t value)
{
    size_t rest = key + value + 3, length = rest + 1;

    for (;;) {
        size_t digits = (size_t)snprintf(NULL, 0, "%zu", length);
        if (rest + digits == length)
            return length;
        length = rest + digits;
    }
}

static size_t put_record(char *to, const char *key, const char *value)
{
    return (size_t)sprintf(to, "%zu %s=%s\n", record_length(strlen(key), strlen(value)), key,
                           value);
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + BLOCK - 1) / BLOCK * BLOCK;
}

/* The bytes of a PAX header's records; 0: none is needed. */
static size_t pax_length(const char *name, size_t length, uint64_t size)
{
    char digits[24];
    size_t bytes = 0;

    if (split_at(name, length) < 0) {
        if (!is_utf8(name))
            bytes += record_length(strlen("hdrcharset"), strlen("BINARY"));
        bytes += record_length(strlen("path"), length);
    }
    if (size > USTAR_SIZE_MAX)
        bytes += record_length(strlen("size"),
                               (size_t)sprintf(digits, "%llu", (unsigned long long)size));
    return bytes;
}

/* One ustar header block. */
static void put_header(char *block, const char *name, long split, char type, uint64_t size)
{
    size_t length = strlen(name);
    unsigned sum = 0;

    memset(block, 0, BLOCK);
    if (split > 0) {
        memcpy(block + 345, name, (size_t)split);
        /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a full field has no NUL */
        memcpy(block, name + split + 1, length - (size_t)split - 1);
    } else {
        memcpy(block, name, length < NAME_BYTES ? length : NAME_BYTES);
    }
    memcpy(block + 100, "0000444", 8);
    memcpy(block + 108, "0000000", 8);
    memcpy(block + 116, "0000000", 8);
    snprintf(block + 124, 12, "%011llo", (unsigned long long)(size > USTAR_SIZE_MAX ? 0 : size));
    snprintf(block + 136, 12, "%011llo", MEMBER_TIME);
    memset(block + 148, ' ', 8);
    block[156] = type;
    memcpy(block + 257, "ustar", 6);
    memcpy(block + 263, "00", 2); /* NOLINT(bugprone-not-null-terminated-result): nor here */
    for (int i = 0; i < BLOCK; i++)
        sum += (unsigned char)block[i];
    snprintf(block + 148, 8, "%06o", sum);
    block[155] = ' ';
}

/* All header blocks of a part: `bytes` long, as header_length() says. */
static void put_headers(const char *name, size_t bytes, uint64_t size, char *to)
{
    size_t pax = bytes > BLOCK ? pax_length(name, strlen(name), size) : 0;
    char digits[24];
    size_t used = 0;

    if (pax) {
        put_header(to, "././@PaxHeader", 0, 'x', pax);
        to += BLOCK;
        memset(to, 0, round_up(pax));
        if (split_at(name, strlen(name)) < 0) {
            if (!is_utf8(name))
                used += put_record(to + used, "hdrcharset", "BINARY");
            used += put_record(to + used, "path", name);
        }
        if (size > USTAR_SIZE_MAX) {
            sprintf(digits, "%llu", (unsigned long long)size);
            put_record(to + used, "size", digits);
        }
        to += round_up(pax);
    }
    put_header(to, name, split_at(name, strlen(name)), '0', size);
}

static size_t header_length(const struct view *view, const struct part *part, uint64_t position)
{
    size_t length = name_length(view, part);
    size_t pax = 0;

    /* Nearly all names are short: these need not be put together. */
    if (length > NAME_BYTES) {
        char *name = malloc(length + 1);
        if (!name)
            return 0;
        put_name(view, part, position, name);
        pax = pax_length(name, length, part->size);
        free(name);
    } else if (part->size > USTAR_SIZE_MAX) {
        pax = pax_length("", 0, part->size);
    }
    return BLOCK + (pax ? BLOCK + round_up(pax) : 0);
}

/* The parts of one sample, in archive order. */

#define PARTS_AT_HAND 16

struct parts {
    struct part *list;
    size_t count;
    struct part at_hand[PARTS_AT_HAND];
};

static int by_offset(const void *a, const void *b, void *context)
{
    const struct index *index = context;
    int64_t x = ((const struct part *)a)->member, y = ((const struct part *)b)->member;

    if (x < 0 || y < 0)
        return (x < 0) - (y < 0);
    return (index->members[x].offset > index->members[y].offset) -
           (index->members[x].offset < index->members[y].offset);
}

static bool open_parts(struct view *view, const struct view_node *node, const struct order *order,
                       uint64_t position, struct parts *parts)
{
    const struct dataset *dataset = view_dataset(view);
    struct index *index = dataset->index;
    uint64_t sample = order_sample(order, plan_global(&node->plan, position));
    size_t most = index->first[sample + 1] - index->first[sample] + 1;
    struct part part = {.sample = sample};
    char label[24];

    part.key = index_key(index, sample);
    part.key_bytes = strlen(part.key);
    parts->list = most <= PARTS_AT_HAND ? parts->at_hand : malloc(most * sizeof *parts->list);
    parts->count = 0;
    if (!parts->list)
        return false;
    while (dataset_field(dataset, sample, (unsigned)parts->count, &part.field, &part.member)) {
        part.size = part.member < 0 ? dataset_label_text(dataset, sample, label)
                                    : index->members[part.member].size;
        parts->list[parts->count++] = part;
    }
    if (parts->count > 1)
        qsort_r(parts->list, parts->count, sizeof *parts->list, by_offset, index);
    return true;
}

static void close_parts(struct parts *parts)
{
    if (parts->list != parts->at_hand)
        free(parts->list);
}

static uint64_t sample_bytes(const struct view *view, const struct parts *parts, uint64_t position)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < parts->count; i++)
        bytes += header_length(view, &parts->list[i], position) + round_up(parts->list[i].size);
    return bytes;
}

static uint64_t measure(struct view *view, const struct view_node *node, const struct order *order,
                        uint64_t position)
{
    struct parts parts;
    uint64_t bytes;

    if (!open_parts(view, node, order, position, &parts))
        return 0;
    bytes = sample_bytes(view, &parts, position);
    close_parts(&parts);
    return bytes;
}

int stream_prepare(struct view *view, struct view_node *node)
{
    return marks_prepare(view, node, measure, END_BYTES);
}

/* A read under way: `at` is where in the stream the next piece stands. */
struct cursor {
    char *buffer;
    uint64_t at, from, end; /* [from, end) is wanted */
    char *scratch;          /* of a read ahead; else NULL */
    size_t room;
    struct batch *batch;
    bool is_read; /* the sample's own bytes are in the buffer */
};

/* Passes a piece of `size` bytes; the part of it that is wanted: from *skip on, `*take` bytes, to
 * the place returned. NULL: none is. */
static char *pass(struct cursor *cursor, uint64_t size, uint64_t *skip, size_t *take)
{
    uint64_t start = cursor->at, end = start + size;
    uint64_t first = start > cursor->from ? start : cursor->from;
    uint64_t last = end < cursor->end ? end : cursor->end;

    cursor->at = end;
    if (first >= last)
        return NULL;
    *skip = first - start;
    *take = (size_t)(last - first);
    return cursor->buffer + (first - cursor->from);
}

static int pass_headers(struct view *view, struct cursor *cursor, const struct part *part,
                        uint64_t position)
{
    size_t bytes = header_length(view, part, position), take;
    uint64_t skip;
    char *to = pass(cursor, bytes, &skip, &take), *name, *headers;

    if (!to)
        return 0;
    name = malloc(name_length(view, part) + 1 + bytes);
    if (!name)
        return -ENOMEM;
    headers = name + name_length(view, part) + 1;
    put_name(view, part, position, name);
    put_headers(name, bytes, part->size, headers);
    memcpy(to, headers + skip, take);
    free(name);
    return 0;
}

/* `size` bytes of a member. */
static int read_data(struct reader *reader, const struct cursor *cursor, uint64_t member, char *to,
                     size_t size, uint64_t from)
{
    while (cursor->scratch && size) {
        char *data;
        ssize_t got = reader_read_ahead(reader, member, cursor->scratch, cursor->room, from, size,
                                        &data);
        if (got <= 0)
            return -EIO;
        memcpy(to, data, (size_t)got);
        to += got;
        size -= (size_t)got;
        from += (uint64_t)got;
    }
    return size == 0 || reader_read(reader, member, to, size, from) == (ssize_t)size ? 0 : -EIO;
}

static int pass_data(struct view *view, struct reader *reader, struct cursor *cursor,
                     const struct part *part)
{
    uint64_t skip;
    size_t take;
    char *to = pass(cursor, part->size, &skip, &take), label[24];

    if (to && part->member < 0) {
        dataset_label_text(view_dataset(view), part->sample, label);
        memcpy(to, label + skip, take);
    } else if (to && !cursor->is_read &&
               read_data(reader, cursor, (uint64_t)part->member, to, take, skip)) {
        return -EIO;
    }
    to = pass(cursor, round_up(part->size) - part->size, &skip, &take);
    if (to)
        memset(to, 0, take);
    return 0;
}

/* Samples of a read ahead are asked for so many at once. */
#define GROUP 8

struct group {
    size_t count;
    struct parts parts[GROUP];
    bool is_read[GROUP];
};

static void close_group(struct group *group)
{
    for (size_t i = 0; i < group->count; i++)
        close_parts(&group->parts[i]);
    group->count = 0;
}

/* The samples from `position` on that are wanted: all that fit, or a single one. */
static int open_group(struct view *view, const struct view_node *node, const struct order *order,
                      const struct cursor *cursor, uint64_t position, struct group *group)
{
    uint64_t at = cursor->at;
    size_t most = cursor->scratch ? GROUP : 1;

    group->count = 0;
    while (group->count < most && position < node->plan.length && at < cursor->end) {
        struct parts *parts = &group->parts[group->count];
        if (!open_parts(view, node, order, position, parts)) {
            close_group(group);
            return -ENOMEM;
        }
        at += sample_bytes(view, parts, position++);
        group->is_read[group->count++] = false;
    }
    return 0;
}

/* Whether the first `count` parts lie in the shard as they do in the stream, block by block, so
 * that all of them are one read; *shift: what is to be added to a place in the stream. */
static bool lies_alike(struct view *view, const struct parts *parts, size_t count,
                       uint64_t position, uint64_t at, uint64_t *shift)
{
    const struct index_member *members = view_dataset(view)->index->members;

    for (size_t i = 0; i < count; i++) {
        const struct part *part = &parts->list[i];
        uint64_t here = members[part->member].offset - BLOCK - at;
        if (header_length(view, part, position) != BLOCK || (i && here != *shift))
            return false;
        *shift = here;
        at += BLOCK + round_up(part->size);
    }
    return true;
}

/* What is wanted of a sample as one read straight to its place, the headers still those of the
 * shard; a made cls, which is last, apart. False: this cannot be done. */
static bool is_piece(struct view *view, const struct cursor *cursor, const struct parts *parts,
                     uint64_t position, uint64_t start, uint64_t *members,
                     struct reader_piece *piece)
{
    uint64_t end = start, shift = 0;
    size_t count = 0;

    while (count < parts->count && count < PARTS_AT_HAND && parts->list[count].member >= 0) {
        members[count] = (uint64_t)parts->list[count].member;
        end += BLOCK + round_up(parts->list[count].size);
        count++;
    }
    if (count == PARTS_AT_HAND || !lies_alike(view, parts, count, position, start, &shift))
        return false;
    if (start < cursor->from)
        start = cursor->from;
    if (end > cursor->end)
        end = cursor->end;
    if (start >= end)
        return false;
    *piece = (struct reader_piece){.members = members,
                                   .count = count,
                                   .buffer = cursor->buffer + (start - cursor->from),
                                   .from = start + shift,
                                   .size = (size_t)(end - start)};
    return true;
}

/* Brings in what can be read straight to its place. */
static int read_group(struct view *view, struct reader *reader, const struct cursor *cursor,
                      uint64_t position, struct group *group)
{
    uint64_t members[GROUP][PARTS_AT_HAND], at = cursor->at;
    struct reader_piece pieces[GROUP];
    size_t count = 0, of[GROUP];

    for (size_t i = 0; i < group->count; i++) {
        of[count] = i;
        count += is_piece(view, cursor, &group->parts[i], position + i, at, members[i],
                          &pieces[count]);
        at += sample_bytes(view, &group->parts[i], position + i);
    }
    reader_read_pieces(reader, cursor->batch, pieces, count);
    for (size_t i = 0; i < count; i++) {
        if (pieces[i].fault && pieces[i].fault != -EINVAL)
            return pieces[i].fault;
        group->is_read[of[i]] = !pieces[i].fault;
    }
    return 0;
}

static int pass_sample(struct view *view, struct reader *reader, const struct parts *parts,
                       uint64_t position, struct cursor *cursor)
{
    int fault = 0;

    for (size_t i = 0; !fault && i < parts->count && cursor->at < cursor->end; i++) {
        fault = pass_headers(view, cursor, &parts->list[i], position);
        if (!fault)
            fault = pass_data(view, reader, cursor, &parts->list[i]);
    }
    return fault;
}

static int pass_group(struct view *view, struct reader *reader, const struct view_node *node,
                      const struct order *order, uint64_t *position, struct cursor *cursor)
{
    struct group group;
    int fault = open_group(view, node, order, cursor, *position, &group);

    if (!fault && cursor->scratch)
        fault = read_group(view, reader, cursor, *position, &group);
    for (size_t i = 0; !fault && i < group.count; i++) {
        cursor->is_read = group.is_read[i];
        fault = pass_sample(view, reader, &group.parts[i], (*position)++, cursor);
    }
    close_group(&group);
    return fault;
}

static ssize_t give(struct view *view, struct reader *reader, const struct view_node *node,
                    struct cursor cursor)
{
    uint64_t from = cursor.from;
    struct order *order;
    uint64_t position, skip;
    size_t take;
    char *to;
    int fault = 0;

    if (from >= node->made_bytes)
        return 0;
    if (cursor.end > node->made_bytes)
        cursor.end = node->made_bytes;
    order = epochs_get(view_epochs(view), node->epoch);
    if (!order)
        return -ENOMEM;
    position = marks_seek(node, from, &cursor.at);
    while (!fault && position < node->plan.length && cursor.at < cursor.end)
        fault = pass_group(view, reader, node, order, &position, &cursor);
    epochs_put(view_epochs(view), order);
    if (fault)
        return fault;
    to = pass(&cursor, END_BYTES, &skip, &take);
    if (to)
        memset(to, 0, take);
    return (ssize_t)(cursor.end - from);
}

ssize_t stream_read(struct view *view, struct reader *reader, const struct view_node *node,
                    char *buffer, size_t size, uint64_t from)
{
    return give(view, reader, node,
                (struct cursor){.buffer = buffer, .from = from, .end = from + size});
}

ssize_t stream_read_ahead(struct view *view, struct reader *reader, const struct view_node *node,
                          struct stream_room room, size_t size, uint64_t from)
{
    return give(view, reader, node,
                (struct cursor){.buffer = room.buffer,
                                .from = from,
                                .end = from + size,
                                .scratch = room.scratch,
                                .room = room.scratch_bytes,
                                .batch = room.batch});
}
