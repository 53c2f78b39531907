/* Chooses how much of a shard is read. Owns nothing, not the descriptor either. */
#include "shard_read.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

/* What is read behind a jump: the headers of a member with a PAX header, or a member as small as a
 * class between its header and the next. */
#define JUMP_LEAST 1536
/* How much is on its way where reading ahead. The kernel caps what one call asks for by the
 * storage's own read-ahead, mostly this piece. */
#define WINDOW ((uint64_t)1 << 20)
#define PIECE  ((uint64_t)128 << 10)
/* A read that took longer was no copy out of the page cache. */
#define WAIT_LEAST_NS 50000
/* So many waits tell what a little read takes, or so long ones. */
#define WAITS_ENOUGH  8
#define WAITED_ENOUGH 10000000
/* Where storage answers sooner than this, little reads count as so much better than they were
 * measured, as other shards' windows slow them down; elsewhere reading ahead does, as there a wrong
 * choice costs most. */
#define SOON_NS 500000
#define BETTER  2
/* How much of the file is got past in the way chosen before both are tried again: less where a
 * wrong choice costs most. */
#define HOLD       ((uint64_t)256 << 20)
#define HOLD_DOUBT ((uint64_t)8 << 20)

static void begin(struct shard_read *read, enum shard_read_way way, uint64_t from)
{
    read->way = way;
    read->since = from;
    read->waited = 0;
    read->waits = read->reads = 0;
    read->asked = from;
}

static bool is_ahead_better(const struct shard_read *read, uint64_t past)
{
    double ahead = (double)read->waited / (double)past;

    return read->least < SOON_NS ? ahead * BETTER < read->little : ahead < read->little * BETTER;
}

/* Before the read of byte `from`: is it known now which way is better? */
static void decide(struct shard_read *read, uint64_t from)
{
    uint64_t past = from - read->since;

    /* The walk starts again, or looks at something once more. */
    if (from < read->since) {
        begin(read, SHARD_READ_UNDECIDED, from);
        return;
    }
    switch (read->way) {
    case SHARD_READ_UNDECIDED:
        if (past == 0 || (read->waits < WAITS_ENOUGH && read->waited < WAITED_ENOUGH))
            break;
        read->least = read->shortest;
        read->little = (double)read->least * read->waits / (double)past;
        /* Of what lies between large members, nothing would be of use. */
        begin(read, past / read->reads < WINDOW / 2 ? SHARD_READ_TRYING : SHARD_READ_LITTLE, from);
        break;
    case SHARD_READ_TRYING:
        if (past < WINDOW)
            break;
        /* Where nothing is cached, as on FUSE with direct_io, what is advised is read twice. */
        read->unadvised = read->waits == read->reads && read->shortest * 2 >= read->least;
        begin(read, is_ahead_better(read, past) ? SHARD_READ_AHEAD : SHARD_READ_LITTLE, from);
        break;
    case SHARD_READ_LITTLE:
    case SHARD_READ_AHEAD:
        if (past >= (read->way == SHARD_READ_LITTLE && read->least >= SOON_NS ? HOLD_DOUBT : HOLD))
            begin(read, SHARD_READ_UNDECIDED, from);
    }
}

/* Asks for what lies ahead, up to a window. Where a file system knows no such advice nothing comes
 * of it, which the clock sees. */
static void ask_ahead(struct shard_read *read, uint64_t from)
{
    uint64_t to = from + WINDOW < read->size ? from + WINDOW : read->size;
    uint64_t start;

    if (read->unadvised)
        return;
    if (read->asked < from)
        read->asked = from;
    if (read->asked >= from + WINDOW / 2)
        return;
    start = clock_now_ns();
    for (; read->asked < to; read->asked += PIECE)
        (void)posix_fadvise(read->fd, (off_t)read->asked, (off_t)PIECE, POSIX_FADV_WILLNEED);
    read->waited += clock_now_ns() - start;
}

/* Reads, and puts down what that had to wait. */
static ssize_t read_once(struct shard_read *read, struct iovec piece, uint64_t from)
{
    uint64_t start;
    ssize_t got;

    if (!read->unasked) {
        got = preadv2(read->fd, &piece, 1, (off_t)from, RWF_NOWAIT);
        if (got >= 0)
            return got;
        read->unasked = errno == EOPNOTSUPP;
    }
    start = clock_now_ns();
    do
        got = preadv2(read->fd, &piece, 1, (off_t)from, 0);
    while (got < 0 && errno == EINTR);
    start = clock_now_ns() - start;
    if (!read->unasked || start >= WAIT_LEAST_NS) {
        read->waited += start;
        read->waits++;
        if (read->waits == 1 || start < read->shortest)
            read->shortest = start;
    }
    return got;
}

ssize_t shard_read_some(struct shard_read *read, char *buffer, size_t room, uint64_t from)
{
    size_t length = from == read->after && read->length ? read->length * 2 : JUMP_LEAST;
    struct iovec piece = {buffer, length < room ? length : room};
    ssize_t got;

    decide(read, from);
    if (read->way == SHARD_READ_TRYING || read->way == SHARD_READ_AHEAD) {
        piece.iov_len = room;
        ask_ahead(read, from);
    }
    got = read_once(read, piece, from);
    read->reads++;
    read->length = piece.iov_len;
    read->after = from + (got > 0 ? (uint64_t)got : 0);
    return got;
}
