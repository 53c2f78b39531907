/* Reads that are under way. Owns the slots; the bytes are their threads'. */
#include "flights.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS_MOST 64

enum state { IDLE, IN_THE_AIR, LANDED, ENDING };

struct flight {
    enum state state;
    uint64_t first, end; /* members; both 0: a piece */
    uint64_t inode, from;
    size_t size;
    const uint64_t *members;
    char *const *data;
    const uint64_t *sizes;
    size_t count;
    const char *piece;
    unsigned copying; /* READs that copy its bytes */
    uint64_t taken;   /* bit by place: that member's bytes were all taken; bit 0: the piece's */
};

struct kept {
    uint64_t member;
    char *bytes; /* owned; NULL: none */
    size_t size;
};

struct flights {
    pthread_mutex_t lock; /* guards all below; never held over a copy */
    pthread_cond_t landed, copied;
    struct kept kept[FLIGHTS_KEPT];
    unsigned next_kept;
    unsigned count;
    struct flight slots[];
};

int flights_open(struct flights **out, unsigned slots)
{
    struct flights *flights = calloc(1, sizeof *flights + slots * sizeof(struct flight));

    if (!flights)
        return -ENOMEM;
    pthread_mutex_init(&flights->lock, NULL);
    pthread_cond_init(&flights->landed, NULL);
    pthread_cond_init(&flights->copied, NULL);
    flights->count = slots;
    *out = flights;
    return 0;
}

void flights_close(struct flights *flights)
{
    if (!flights)
        return;
    for (unsigned i = 0; i < FLIGHTS_KEPT; i++)
        free(flights->kept[i].bytes);
    pthread_mutex_destroy(&flights->lock);
    pthread_cond_destroy(&flights->landed);
    pthread_cond_destroy(&flights->copied);
    free(flights);
}

static void start(struct flights *flights, unsigned slot, struct flight flight)
{
    flight.state = IN_THE_AIR;
    pthread_mutex_lock(&flights->lock);
    flights->slots[slot] = flight;
    pthread_mutex_unlock(&flights->lock);
}

void flights_start_members(struct flights *flights, unsigned slot, uint64_t first, uint64_t end)
{
    start(flights, slot, (struct flight){.first = first, .end = end});
}

void flights_start_piece(struct flights *flights, unsigned slot, uint64_t inode, uint64_t from,
                         size_t size)
{
    start(flights, slot, (struct flight){.inode = inode, .from = from, .size = size});
}

void flights_land_members(struct flights *flights, unsigned slot, const uint64_t *members,
                          char *const *data, const uint64_t *sizes, size_t count)
{
    struct flight *flight = &flights->slots[slot];

    pthread_mutex_lock(&flights->lock);
    flight->members = members;
    flight->data = data;
    flight->sizes = sizes;
    flight->count = count < MEMBERS_MOST ? count : MEMBERS_MOST;
    flight->state = LANDED;
    pthread_cond_broadcast(&flights->landed);
    pthread_mutex_unlock(&flights->lock);
}

void flights_land_piece(struct flights *flights, unsigned slot, const char *data)
{
    struct flight *flight = &flights->slots[slot];

    pthread_mutex_lock(&flights->lock);
    flight->piece = data;
    flight->state = LANDED;
    pthread_cond_broadcast(&flights->landed);
    pthread_mutex_unlock(&flights->lock);
}

bool flights_took_member(struct flights *flights, unsigned slot, size_t which)
{
    bool taken;

    pthread_mutex_lock(&flights->lock);
    taken = which < MEMBERS_MOST && flights->slots[slot].taken >> which & 1;
    pthread_mutex_unlock(&flights->lock);
    return taken;
}

bool flights_took_piece(struct flights *flights, unsigned slot)
{
    return flights_took_member(flights, slot, 0);
}

void flights_end(struct flights *flights, unsigned slot)
{
    struct flight *flight = &flights->slots[slot];

    pthread_mutex_lock(&flights->lock);
    flight->state = ENDING;
    pthread_cond_broadcast(&flights->landed);
    while (flight->copying)
        pthread_cond_wait(&flights->copied, &flights->lock);
    flight->state = IDLE;
    pthread_mutex_unlock(&flights->lock);
}

/* Copies out of a landed flight, with the lock given up meanwhile. `all`: that is everything. */
static void copy(struct flights *flights, struct flight *flight, char *buffer, const char *from,
                 size_t size, size_t which, bool all)
{
    flight->copying++;
    if (all)
        flight->taken |= (uint64_t)1 << which;
    pthread_mutex_unlock(&flights->lock);
    memcpy(buffer, from, size);
    pthread_mutex_lock(&flights->lock);
    flight->copying--;
    pthread_cond_broadcast(&flights->copied);
}

/* The place of a member in a landed flight; -1: it was not read. */
static long place_of(const struct flight *flight, uint64_t member)
{
    for (size_t i = 0; i < flight->count; i++)
        if (flight->members[i] == member)
            return (long)i;
    return -1;
}

/* Whether the flight is in the air or landed with what is asked for. */
static bool carries(const struct flight *flight, uint64_t member, uint64_t inode, uint64_t from,
                    size_t size)
{
    if (flight->state != IN_THE_AIR && flight->state != LANDED)
        return false;
    if (inode == 0)
        return member >= flight->first && member < flight->end;
    return flight->inode == inode && from >= flight->from &&
           from + size <= flight->from + flight->size;
}

/* The landed flight with it, waited for; NULL: none. The lock is held. */
static struct flight *await(struct flights *flights, uint64_t member, uint64_t inode, uint64_t from,
                            size_t size)
{
    for (unsigned i = 0; i < flights->count; i++) {
        struct flight *flight = &flights->slots[i];
        while (carries(flight, member, inode, from, size)) {
            if (flight->state == LANDED)
                return flight;
            pthread_cond_wait(&flights->landed, &flights->lock);
        }
    }
    return NULL;
}

bool flights_keep(struct flights *flights, uint64_t member, const char *data, size_t size)
{
    struct kept kept = {member, malloc(size), size}, old;

    if (!kept.bytes)
        return false;
    memcpy(kept.bytes, data, size);
    pthread_mutex_lock(&flights->lock);
    old = flights->kept[flights->next_kept];
    flights->kept[flights->next_kept] = kept;
    flights->next_kept = (flights->next_kept + 1) % FLIGHTS_KEPT;
    pthread_mutex_unlock(&flights->lock);
    free(old.bytes);
    return true;
}

/* The lock is held, also over the copy: this happens once a pass. */
static ssize_t take_kept(const struct flights *flights, uint64_t member, char *buffer, size_t size,
                         uint64_t from)
{
    for (unsigned i = 0; i < FLIGHTS_KEPT; i++) {
        const struct kept *kept = &flights->kept[i];
        if (!kept->bytes || kept->member != member)
            continue;
        if (from >= kept->size)
            return 0;
        size = size < kept->size - from ? size : kept->size - (size_t)from;
        memcpy(buffer, kept->bytes + from, size);
        return (ssize_t)size;
    }
    return -1;
}

ssize_t flights_take_member(struct flights *flights, uint64_t member, char *buffer, size_t size,
                            uint64_t from)
{
    struct flight *flight;
    ssize_t got = -1;
    long place;

    pthread_mutex_lock(&flights->lock);
    got = take_kept(flights, member, buffer, size, from);
    flight = got < 0 ? await(flights, member, 0, 0, 0) : NULL;
    place = flight ? place_of(flight, member) : -1;
    if (place >= 0) {
        uint64_t left = from < flight->sizes[place] ? flight->sizes[place] - from : 0;
        size = size < left ? size : (size_t)left;
        copy(flights, flight, buffer, flight->data[place] + from, size, (size_t)place,
             from == 0 && size == flight->sizes[place]);
        got = (ssize_t)size;
    }
    pthread_mutex_unlock(&flights->lock);
    return got;
}

bool flights_take_piece(struct flights *flights, uint64_t inode, char *buffer, size_t size,
                        uint64_t from)
{
    struct flight *flight;

    pthread_mutex_lock(&flights->lock);
    flight = await(flights, 0, inode, from, size);
    if (flight)
        copy(flights, flight, buffer, flight->piece + (from - flight->from), size, 0,
             from == flight->from && size == flight->size);
    pthread_mutex_unlock(&flights->lock);
    return flight != NULL;
}
