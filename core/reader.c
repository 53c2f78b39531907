/* Members' bytes, and whether they still are the ones that were indexed. Owns what is known of each
 * shard; core/handles.c has it open. Caches no byte but blocks (core/block_cache.c has these): that
 * is the page cache's job. */
#include "reader.h"

#include "block_cache.h"
#include "clock.h"
#include "handles.h"
#include "report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE_BYTES 4096
/* The least read-ahead of a device that is common. */
#define ADVISED_BYTES ((uint64_t)128 << 10)
/* A read ahead that takes longer, on average, comes from storage even where cachestat cannot tell.
 * Nanoseconds. */
#define SLOW_READ_NS 300000

/* A shard whose inode changes under a read so often, one time after the other, is given up. */
#define CHANGES_MOST 8
/* A shard that fails and recovers again and again gives no more than one line in this time. */
#define COMPLAIN_AGAIN_NS ((uint64_t)10 * 1000000000)

#define HEADER_CHANGED "the member's header changed since it was indexed"

struct shard_state {
    atomic_ullong errors;
    atomic_ullong complained; /* when, in ns; 0: not, or it was read well since */
    atomic_bool no_direct;    /* its file system has no O_DIRECT */
};

struct reader {
    const struct index *index;
    enum reader_direct direct;
    struct handles *handles;
    struct shard_state *shards;
    struct block_cache *blocks; /* NULL: samples are read one by one */
    atomic_bool no_cachestat;
    atomic_ullong reads, bytes, direct_reads, failed, ns;
    atomic_ullong ahead_ns; /* a moving average of what a read takes */
    atomic_uint coldness;   /* a moving average of reads that found nothing in the cache; of 1024 */
};

int reader_open(struct reader **out, const struct index *index, size_t most_open,
                enum reader_direct direct)
{
    struct reader *reader = calloc(1, sizeof *reader);

    if (!reader)
        return -ENOMEM;
    reader->index = index;
    reader->direct = direct;
    reader->shards = calloc(index->shard_count + 1, sizeof *reader->shards);
    if (!reader->shards || handles_open(&reader->handles, index, most_open)) {
        reader_close(reader);
        return -ENOMEM;
    }
    *out = reader;
    return 0;
}

int reader_keep_blocks(struct reader *reader, const struct blocks *blocks, uint64_t block_bytes,
                       uint64_t bytes)
{
    return block_cache_open(&reader->blocks, reader->index, blocks, block_bytes, bytes);
}

void reader_close(struct reader *reader)
{
    if (!reader)
        return;
    block_cache_close(reader->blocks);
    handles_close(reader->handles);
    free(reader->shards);
    free(reader);
}

static ssize_t fail(struct reader *reader, size_t shard, uint64_t offset, const char *why)
{
    const struct index_shard *at = &reader->index->shards[shard];
    struct shard_state *state = &reader->shards[shard];
    unsigned long long none = 0;

    atomic_fetch_add(&state->errors, 1);
    if (atomic_compare_exchange_strong(&state->complained, &none, clock_now_ns()))
        report_error("%s: %s%s%soffset %llu: %s; its samples answer EIO", at->path,
                     at->file ? "its unpacked copy " : "", at->file ? at->file : "",
                     at->file ? ": " : "", (unsigned long long)offset, why);
    return -EIO;
}

/* A shard of which some reads fail and others do not is complained of once in a while. */
static void succeed(struct reader *reader, size_t shard)
{
    struct shard_state *state = &reader->shards[shard];
    unsigned long long since = atomic_load_explicit(&state->complained, memory_order_relaxed);

    if (since && clock_now_ns() - since > COMPLAIN_AGAIN_NS &&
        atomic_compare_exchange_strong(&state->complained, &since, 0))
        report_info("%s: samples can be read again", reader->index->shards[shard].path);
}

/* NULL, or why the file is not the one that was indexed. */
static const char *look(const struct index_shard *shard, int fd, struct stat *status)
{
    if (fstat(fd, status))
        return strerror(errno);
    if ((uint64_t)status->st_size != shard->size)
        return "the shard's size changed since it was indexed";
    if (status->st_mtim.tv_sec != shard->modified.tv_sec ||
        status->st_mtim.tv_nsec != shard->modified.tv_nsec)
        return "the shard was modified since it was indexed";
    return NULL;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Fills `parts` from `offset` on. NULL, or why not. */
static const char *read_all(int fd, struct iovec *parts, int count, uint64_t offset)
{
    while (count) {
        ssize_t got = preadv(fd, parts, count, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return strerror(errno);
        if (got == 0)
            return "the shard ends early";
        offset += (uint64_t)got;
        while (count && (size_t)got >= parts->iov_len) {
            got -= (ssize_t)parts->iov_len;
            parts++;
            count--;
        }
        if (count) {
            parts->iov_base = (char *)parts->iov_base + got;
            parts->iov_len -= (size_t)got;
        }
    }
    return NULL;
}

/* How much of a range of a file is in the page cache; CACHED: at least half. */
enum cached { NOT_CACHED, PARTLY_CACHED, CACHED, UNKNOWN };

static enum cached look_in_cache(struct reader *reader, int fd, uint64_t offset, uint64_t size)
{
    /* struct cachestat_range and struct cachestat of linux/mman.h, Linux 6.5 */
    uint64_t range[2] = {offset, size};
    struct {
        uint64_t cached, dirty, writeback, evicted, recently_evicted;
    } pages;
    uint64_t count = (offset + size + PAGE_BYTES - 1) / PAGE_BYTES - offset / PAGE_BYTES;

    if (atomic_load_explicit(&reader->no_cachestat, memory_order_relaxed))
        return UNKNOWN;
    if (syscall(451 /* cachestat */, fd, range, &pages, 0)) {
        /* EPERM is about one file's owner; the others are about the kernel. */
        if (errno != EPERM)
            atomic_store(&reader->no_cachestat, true);
        return UNKNOWN;
    }
    return pages.cached == 0 ? NOT_CACHED : pages.cached * 2 < count ? PARTLY_CACHED : CACHED;
}

static bool goes_around(struct reader *reader, size_t shard, int fd, uint64_t offset, uint64_t size)
{
    if (reader->direct == READER_DIRECT_NEVER || atomic_load(&reader->shards[shard].no_direct))
        return false;
    switch (look_in_cache(reader, fd, offset, size)) {
    case UNKNOWN:
        return reader->direct == READER_DIRECT_ALWAYS;
    case CACHED:
        return false;
    case NOT_CACHED:
    case PARTLY_CACHED:
        break;
    }
    return true;
}

static void count(struct reader *reader, uint64_t bytes, bool direct, uint64_t since)
{
    atomic_fetch_add_explicit(&reader->reads, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&reader->bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&reader->direct_reads, direct, memory_order_relaxed);
    atomic_fetch_add_explicit(&reader->ns, clock_now_ns() - since, memory_order_relaxed);
}

static void learn(struct reader *reader, bool around, uint64_t took)
{
    uint64_t average = atomic_load_explicit(&reader->ahead_ns, memory_order_relaxed);
    unsigned cold = atomic_load_explicit(&reader->coldness, memory_order_relaxed);

    atomic_store_explicit(&reader->ahead_ns, average - average / 16 + took / 16,
                          memory_order_relaxed);
    atomic_store_explicit(&reader->coldness, cold - cold / 16 + (around ? 64 : 0),
                          memory_order_relaxed);
}

/* One range of a shard; `data` is where in the buffer its first byte is. */
struct range {
    size_t shard;
    uint64_t offset;
    size_t size;
    char *buffer, *data;
    /* Of which the range is a later part, so that its header is not in it; NULL: it is. */
    const struct index_member *part_of;
    char *header; /* where the header before the offset goes, which is read too; NULL: nowhere */
};

/* Reads a range through the cache. */
static const char *read_through(struct range *range, int fd)
{
    struct iovec parts[2] = {{range->header, INDEX_HEADER_BYTES}, {range->buffer, range->size}};

    range->data = range->buffer;
    if (!range->header)
        return read_all(fd, parts + 1, 1, range->offset);
    return read_all(fd, parts, 2, range->offset - INDEX_HEADER_BYTES);
}

/* Reads a range around the cache. False: it has to be read through the cache after all. */
static bool read_around(struct reader *reader, struct range *range, const struct handle *through)
{
    uint64_t start = range->offset / READER_ALIGN * READER_ALIGN;
    uint64_t end = (range->offset + range->size + READER_ALIGN - 1) / READER_ALIGN * READER_ALIGN;
    struct handle *handle;
    bool good;
    ssize_t got;
    int fault = handles_take_around(reader->handles, range->shard, through, &handle);

    if (fault) {
        if (fault == -EINVAL)
            atomic_store(&reader->shards[range->shard].no_direct, true);
        return false;
    }
    range->data = range->buffer + (range->offset - start);
    got = pread(handle->fd, range->buffer, (size_t)(end - start), (off_t)start);
    if (got < 0 && errno == EINVAL)
        atomic_store(&reader->shards[range->shard].no_direct, true);
    good = got >= 0 && (uint64_t)got >= range->offset + range->size - start;
    handles_release(reader->handles, range->shard, handle, !good);
    return good;
}

/* The header of a member of which a later part is read. It was checked when the first part was; but
 * a file whose inode has changed since it was indexed, though not its size and time, may have been
 * written to and its time set back. */
static const char *check_header(const struct index_member *member, int fd)
{
    char header[INDEX_HEADER_BYTES];
    struct iovec part = {header, sizeof header};
    const char *why = read_all(fd, &part, 1, member->offset - sizeof header);

    return why || index_header_check(header) == member->header ? why : HEADER_CHANGED;
}

/* Reads a range between two looks at the file, which must show the same file, and unchanged: what
 * is written meanwhile shows in one of its times, whatever the writer sets back, as nobody can set
 * back when an inode changed. Where that alone is another time (a new name, another mode, a time
 * that was set back), it is read again. */
static const char *read_range(struct reader *reader, struct range *range,
                              const struct handle *through, bool *around)
{
    const struct index_shard *shard = &reader->index->shards[range->shard];
    struct stat before, after;

    for (int changes = 0; changes < CHANGES_MOST; changes++) {
        const char *why = look(shard, through->fd, &before);
        if (why)
            return why;
        *around = *around && read_around(reader, range, through);
        if (!*around)
            why = read_through(range, through->fd);
        if (!why && range->part_of && !same_time(&before.st_ctim, &shard->changed))
            why = check_header(range->part_of, through->fd);
        if (!why)
            why = look(shard, through->fd, &after);
        if (why || same_time(&before.st_ctim, &after.st_ctim))
            return why;
    }
    return "the shard keeps changing";
}

/* Blocks. */

static bool read_block(struct reader *reader, struct held_block *held)
{
    struct range range = {.shard = held->shard,
                          .offset = held->from,
                          .size = (size_t)(held->to - held->from),
                          .buffer = held->memory};
    uint64_t since = clock_now_ns();
    bool fresh, around = true;
    struct handle *handle;
    const char *why;

    if (handles_take(reader->handles, range.shard, &handle, &fresh))
        return false;
    why = read_range(reader, &range, handle, &around);
    handles_release(reader->handles, range.shard, handle, why != NULL);
    if (why)
        return false;
    held->data = range.data;
    learn(reader, true, clock_now_ns() - since);
    count(reader, range.size, around, since);
    return true;
}

/* Starts to read a range into the page cache. Of one call the kernel takes no more than the
 * device's read-ahead, and forgets the rest (force_page_cache_ra in mm/readahead.c). */
static void bring_in(int fd, uint64_t from, uint64_t to)
{
    for (; from < to; from += ADVISED_BYTES)
        posix_fadvise(fd, (off_t)from,
                      (off_t)(to - from < ADVISED_BYTES ? to - from : ADVISED_BYTES),
                      POSIX_FADV_WILLNEED);
}

/* What to do about a block that is not in memory. Where it is to come through the page cache, the
 * kernel is told. */
static enum block_cache_answer claim_block(struct reader *reader, const struct range *range,
                                           uint64_t sample, struct held_block **held)
{
    enum block_cache_answer answer = BLOCK_ALONE;
    uint64_t from, to;
    struct handle *handle;
    bool fresh;

    if (!block_cache_extent(reader->blocks, sample, &from, &to) ||
        handles_take(reader->handles, range->shard, &handle, &fresh))
        return BLOCK_ALONE;
    if (look_in_cache(reader, handle->fd, range->offset, range->size) == CACHED)
        block_cache_pass(reader->blocks, sample);
    else
        answer = block_cache_claim(reader->blocks, sample,
                                   goes_around(reader, range->shard, handle->fd, from, to - from),
                                   held);
    if (answer == BLOCK_BESIDE)
        bring_in(handle->fd, from, to);
    handles_release(reader->handles, range->shard, handle, false);
    return answer;
}

/* The block of `sample`, in memory; NULL: it is not, and the sample is to be read by itself. */
static struct held_block *hold_block(struct reader *reader, const struct range *range,
                                     uint64_t sample)
{
    struct held_block *held = block_cache_find(reader->blocks, sample);
    bool good;

    if (held)
        return held;
    switch (claim_block(reader, range, sample, &held)) {
    case BLOCK_HELD:
        return held;
    case BLOCK_TO_READ:
        good = read_block(reader, held);
        block_cache_landed(reader->blocks, held, good);
        return good ? held : NULL;
    case BLOCK_BESIDE:
    case BLOCK_ALONE:
        break;
    }
    return NULL;
}

/* Takes a range out of the block of `member`, which is read for it if need be. False: it is to be
 * read by itself, which also says what is wrong with it. */
static bool take_from_block(struct reader *reader, struct range *range, uint64_t member)
{
    struct held_block *held;
    uint64_t sample, since;
    const char *bytes;
    bool good;

    if (!reader->blocks)
        return false;
    sample = index_sample_of(reader->index, member);
    held = hold_block(reader, range, sample);
    if (!held)
        return false;
    since = clock_now_ns();
    bytes = held->data + (range->offset - held->from);
    good = !range->part_of ||
           index_header_check(held->data + (range->part_of->offset - INDEX_HEADER_BYTES -
                                            held->from)) == range->part_of->header;
    if (range->header)
        memcpy(range->header, bytes - INDEX_HEADER_BYTES, INDEX_HEADER_BYTES);
    memcpy(range->buffer, bytes, range->size);
    range->data = range->buffer;
    block_cache_release(reader->blocks, held, member, range->size);
    learn(reader, false, clock_now_ns() - since);
    return good;
}

/* Reads that somebody waits for. */

/* One try, with the shard as it is open, or opened for it (*fresh). NULL, or why not. */
static const char *try_read(struct reader *reader, struct range *range,
                            const struct index_member *member, bool *fresh, bool *cold)
{
    bool around = false;
    struct handle *handle;
    int fault = handles_take(reader->handles, range->shard, &handle, fresh);
    const char *why;

    if (fault) {
        *fresh = true;
        return strerror(-fault);
    }
    *cold = range->size >= PAGE_BYTES && reader->direct != READER_DIRECT_NEVER &&
            look_in_cache(reader, handle->fd, range->offset, range->size) == NOT_CACHED;
    why = read_range(reader, range, handle, &around);
    if (!why && range->header && index_header_check(range->header) != member->header)
        why = HEADER_CHANGED;
    /* Whole pages alone go: those at the ends may hold a neighbour, which is often read next. */
    if (!why && *cold)
        posix_fadvise(handle->fd, (off_t)range->offset, (off_t)range->size, POSIX_FADV_DONTNEED);
    handles_release(reader->handles, range->shard, handle, why != NULL);
    return why;
}

ssize_t reader_read(struct reader *reader, uint64_t member, void *buffer, size_t size,
                    uint64_t from)
{
    const struct index_member *at = &reader->index->members[member];
    uint64_t length = at->size, since;
    char header[INDEX_HEADER_BYTES];
    /* With a member's first byte comes its header. */
    struct range range = {.shard = index_shard_of_member(reader->index, member),
                          .offset = at->offset + from,
                          .buffer = buffer,
                          .part_of = from ? at : NULL,
                          .header = from ? NULL : header};
    bool fresh, cold = false;
    const char *why;

    if (from >= length)
        return 0;
    range.size = size < length - from ? size : (size_t)(length - from);
    if (take_from_block(reader, &range, member) &&
        (from || index_header_check(header) == at->header))
        return (ssize_t)range.size;
    since = clock_now_ns();
    why = try_read(reader, &range, at, &fresh, &cold);
    /* What was open is not the shard any more: what has its name now may be. */
    if (why && !fresh)
        why = try_read(reader, &range, at, &fresh, &cold);
    if (why)
        return fail(reader, range.shard, range.offset, why);
    count(reader, range.size, false, since);
    learn(reader, cold, clock_now_ns() - since);
    succeed(reader, range.shard);
    return (ssize_t)range.size;
}

/* Reads ahead. */

static int read_range_ahead(struct reader *reader, struct range *range, uint64_t member)
{
    uint64_t since, took;
    struct handle *handle;
    bool fresh, around = false;
    const char *why;

    if (take_from_block(reader, range, member))
        return 0;
    since = clock_now_ns();
    why = handles_take(reader->handles, range->shard, &handle, &fresh) ? "cannot be opened" : NULL;
    if (!why) {
        around = goes_around(reader, range->shard, handle->fd, range->offset, range->size);
        why = read_range(reader, range, handle, &around);
        handles_release(reader->handles, range->shard, handle, why != NULL);
    }
    if (why) {
        atomic_fetch_add_explicit(&reader->failed, 1, memory_order_relaxed);
        return -EIO;
    }
    took = clock_now_ns() - since;
    learn(reader, around, took);
    count(reader, range->size, around, since);
    return 0;
}

/* Read well, but of a member that is not the one that was indexed. */
static int fail_ahead(struct reader *reader)
{
    atomic_fetch_add_explicit(&reader->failed, 1, memory_order_relaxed);
    return -EIO;
}

ssize_t reader_read_ahead(struct reader *reader, uint64_t member, char *buffer, size_t room,
                          uint64_t from, size_t size, char **data)
{
    const struct index_member *at = &reader->index->members[member];
    size_t before = from == 0 ? INDEX_HEADER_BYTES : 0;
    struct range range = {.shard = index_shard_of_member(reader->index, member), .buffer = buffer};
    int fault;

    if (from >= at->size)
        return 0;
    if (size > at->size - from)
        size = (size_t)(at->size - from);
    if (size > room - READER_SLACK)
        size = room - READER_SLACK;
    range.offset = at->offset + from - before;
    range.size = size + before;
    range.part_of = before ? NULL : at;
    fault = read_range_ahead(reader, &range, member);
    if (fault)
        return fault;
    if (before && index_header_check(range.data) != at->header)
        return fail_ahead(reader);
    *data = range.data + before;
    return (ssize_t)size;
}

int reader_read_members(struct reader *reader, const uint64_t *members, size_t count, char *buffer,
                        size_t room, char **data)
{
    const struct index_member *all = reader->index->members;
    struct range range = {.buffer = buffer, .offset = UINT64_MAX};
    uint64_t end = 0;
    int fault;

    for (size_t i = 0; i < count; i++) {
        const struct index_member *at = &all[members[i]];
        if (at->offset - INDEX_HEADER_BYTES < range.offset)
            range.offset = at->offset - INDEX_HEADER_BYTES;
        if (at->offset + at->size > end)
            end = at->offset + at->size;
    }
    if (count == 0 || end - range.offset > room - READER_SLACK)
        return count ? -E2BIG : 0;
    range.shard = index_shard_of_member(reader->index, members[0]);
    range.size = (size_t)(end - range.offset);
    fault = read_range_ahead(reader, &range, members[0]);
    if (fault)
        return fault;
    for (size_t i = 0; i < count; i++) {
        const struct index_member *at = &all[members[i]];
        data[i] = range.data + (at->offset - range.offset);
        if (index_header_check(data[i] - INDEX_HEADER_BYTES) != at->header)
            return fail_ahead(reader);
    }
    return 0;
}

uint64_t reader_errors(const struct reader *reader, size_t shard)
{
    return atomic_load(&reader->shards[shard].errors);
}

struct reader_figures reader_figures(const struct reader *reader)
{
    struct block_cache_figures blocks = {0};

    if (reader->blocks)
        blocks = block_cache_figures(reader->blocks);
    return (struct reader_figures){
        .reads = atomic_load(&reader->reads),
        .bytes = atomic_load(&reader->bytes),
        .direct_reads = atomic_load(&reader->direct_reads),
        .failed = atomic_load(&reader->failed),
        .ns = atomic_load(&reader->ns),
        .blocks_read = blocks.read,
        .blocks_beside = blocks.beside,
        .block_bytes = blocks.bytes,
        .block_limit = blocks.limit,
    };
}

struct reader_mood reader_mood(const struct reader *reader)
{
    uint64_t ns = atomic_load_explicit(&reader->ahead_ns, memory_order_relaxed);
    unsigned coldness = atomic_load_explicit(&reader->coldness, memory_order_relaxed);

    return (struct reader_mood){.cold = coldness > 256 || ns > SLOW_READ_NS, .ns = ns};
}
