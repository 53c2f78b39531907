/* Orders in use and ranks' epochs. Owns the cached orders; knows nothing of paths or inodes. */
#include "epochs.h"

#include <errno.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>

/* Orders kept that nobody holds: at least two (the epoch and the next), and as many as fit this
 * much memory. */
#define KEPT_LEAST 2
#define KEPT_BYTES ((size_t)32 << 20)
#define SLOTS      256

struct slot {
    uint64_t epoch;
    struct order *order; /* NULL while it is being worked out */
    unsigned users;
    uint64_t used;
    bool taken;
};

/* A rank with an epoch of its own. */
struct place {
    uint64_t rank, world;
    struct epochs_at at;
};

struct epochs {
    struct order_spec spec;
    const struct order_basis *basis;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t ready; /* an order was worked out, or could not be */
    struct slot slots[SLOTS];
    size_t last; /* the slot found last */
    uint64_t uses;
    struct epochs_at of_all;
    void *places; /* tsearch of struct place */
};

int epochs_open(struct epochs **out, const struct order_spec *spec, const struct order_basis *basis,
                uint64_t epoch)
{
    struct epochs *epochs = calloc(1, sizeof *epochs);

    if (!epochs)
        return -ENOMEM;
    epochs->spec = *spec;
    epochs->basis = basis;
    epochs->of_all.epoch = epoch;
    pthread_mutex_init(&epochs->lock, NULL);
    pthread_cond_init(&epochs->ready, NULL);
    *out = epochs;
    return 0;
}

void epochs_close(struct epochs *epochs)
{
    if (!epochs)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        order_close(epochs->slots[i].order);
    tdestroy(epochs->places, free);
    pthread_cond_destroy(&epochs->ready);
    pthread_mutex_destroy(&epochs->lock);
    free(epochs);
}

static struct slot *find(struct epochs *epochs, uint64_t epoch)
{
    struct slot *last = &epochs->slots[epochs->last];

    /* Readers stay in their epoch: mostly it is the one that was asked for last. */
    if (last->taken && last->epoch == epoch)
        return last;
    for (size_t i = 0; i < SLOTS; i++) {
        if (epochs->slots[i].taken && epochs->slots[i].epoch == epoch) {
            epochs->last = i;
            return &epochs->slots[i];
        }
    }
    return NULL;
}

/* An order to let go of: any that nobody holds, by chance, but for the two used last. Not the one
 * unused for longest: who goes through a few more epochs by turns than are kept would find none of
 * them, and finds most so. */
static struct slot *find_victim(struct epochs *epochs)
{
    struct slot *idle[SLOTS];
    uint64_t last = 0, before = 0, chance;
    size_t count = 0, older = 0;

    for (size_t i = 0; i < SLOTS; i++) {
        uint64_t used = epochs->slots[i].taken ? epochs->slots[i].used : 0;
        if (used > last) {
            before = last;
            last = used;
        } else if (used > before) {
            before = used;
        }
    }
    for (size_t i = 0; i < SLOTS; i++)
        if (epochs->slots[i].taken && epochs->slots[i].users == 0)
            idle[count++] = &epochs->slots[i];
    for (size_t i = 0; i < count; i++) {
        struct slot *slot = idle[i];
        if (slot->used < before) {
            idle[i] = idle[older];
            idle[older++] = slot;
        }
    }
    count = older ? older : count;
    /* Knuth's multiplier: the high bits are well mixed. */
    chance = epochs->uses * UINT64_C(6364136223846793005) + 1442695040888963407;
    return count ? idle[(chance >> 33) % count] : NULL;
}

/* Lets go of orders until the rest fits the bound. The lock is held. */
static void shrink(struct epochs *epochs)
{
    size_t kept = 0, bytes = 0;

    for (size_t i = 0; i < SLOTS; i++) {
        if (epochs->slots[i].order) {
            kept++;
            bytes += order_bytes(epochs->slots[i].order);
        }
    }
    while (kept > KEPT_LEAST && (bytes > KEPT_BYTES || kept > SLOTS / 2)) {
        struct slot *victim = find_victim(epochs);
        if (!victim)
            return;
        kept--;
        bytes -= order_bytes(victim->order);
        order_close(victim->order);
        *victim = (struct slot){0};
    }
}

/* A free slot; there always is one unless as many orders are in use at once as there are slots:
 * then wait for one. */
static struct slot *claim(struct epochs *epochs)
{
    for (;;) {
        struct slot *victim;
        for (size_t i = 0; i < SLOTS; i++)
            if (!epochs->slots[i].taken)
                return &epochs->slots[i];
        victim = find_victim(epochs);
        if (victim) {
            order_close(victim->order);
            return victim;
        }
        pthread_cond_wait(&epochs->ready, &epochs->lock);
    }
}

struct order *epochs_get(struct epochs *epochs, uint64_t epoch)
{
    struct slot *slot;
    struct order *order = NULL;
    int fault;

    pthread_mutex_lock(&epochs->lock);
    while ((slot = find(epochs, epoch)) && !slot->order)
        pthread_cond_wait(&epochs->ready, &epochs->lock);
    if (slot) {
        slot->users++;
        slot->used = ++epochs->uses;
        order = slot->order;
        pthread_mutex_unlock(&epochs->lock);
        return order;
    }
    slot = claim(epochs);
    *slot = (struct slot){.epoch = epoch, .users = 1, .used = ++epochs->uses, .taken = true};
    pthread_mutex_unlock(&epochs->lock);

    fault = order_open(&order, &epochs->spec, epochs->basis, epoch);

    pthread_mutex_lock(&epochs->lock);
    if (fault) {
        order = NULL;
        *slot = (struct slot){0};
    }
    slot->order = order;
    shrink(epochs);
    pthread_cond_broadcast(&epochs->ready);
    pthread_mutex_unlock(&epochs->lock);
    return order;
}

struct order *epochs_peek(struct epochs *epochs, uint64_t epoch)
{
    struct order *order = NULL;
    struct slot *slot;

    pthread_mutex_lock(&epochs->lock);
    slot = find(epochs, epoch);
    if (slot && slot->order) {
        slot->users++;
        order = slot->order;
    }
    pthread_mutex_unlock(&epochs->lock);
    return order;
}

void epochs_put(struct epochs *epochs, struct order *order)
{
    struct slot *slot;

    pthread_mutex_lock(&epochs->lock);
    slot = &epochs->slots[epochs->last];
    for (size_t i = 0; slot->order != order && i < SLOTS; i++)
        slot = &epochs->slots[i];
    slot->users--;
    pthread_cond_broadcast(&epochs->ready);
    pthread_mutex_unlock(&epochs->lock);
}

static int by_place(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->world != y->world)
        return x->world < y->world ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

struct epochs_at epochs_of_rank(struct epochs *epochs, uint64_t rank, uint64_t world)
{
    struct place wanted = {.rank = rank, .world = world};
    struct place **found;
    struct epochs_at at;

    pthread_mutex_lock(&epochs->lock);
    found = tfind(&wanted, &epochs->places, by_place);
    at = found ? (*found)->at : epochs->of_all;
    pthread_mutex_unlock(&epochs->lock);
    return at;
}

struct epochs_at epochs_of_all(struct epochs *epochs)
{
    struct epochs_at at;

    pthread_mutex_lock(&epochs->lock);
    at = epochs->of_all;
    pthread_mutex_unlock(&epochs->lock);
    return at;
}

int epochs_move_rank(struct epochs *epochs, uint64_t rank, uint64_t world, struct epochs_at at)
{
    struct place *place = malloc(sizeof *place), **found;

    if (!place)
        return -ENOMEM;
    *place = (struct place){.rank = rank, .world = world, .at = at};
    pthread_mutex_lock(&epochs->lock);
    found = tsearch(place, &epochs->places, by_place);
    if (found)
        (*found)->at = at;
    if (!found || *found != place)
        free(place);
    pthread_mutex_unlock(&epochs->lock);
    return found ? 0 : -ENOMEM;
}

void epochs_move_all(struct epochs *epochs, struct epochs_at at)
{
    pthread_mutex_lock(&epochs->lock);
    tdestroy(epochs->places, free);
    epochs->places = NULL;
    epochs->of_all = at;
    pthread_mutex_unlock(&epochs->lock);
}

struct listing {
    uint64_t *list;
    size_t count, room;
};

static void add(struct listing *listing, uint64_t epoch)
{
    size_t at = 0;

    while (at < listing->count && listing->list[at] < epoch)
        at++;
    if ((at < listing->count && listing->list[at] == epoch) || listing->count == listing->room)
        return;
    for (size_t i = listing->count; i > at; i--)
        listing->list[i] = listing->list[i - 1];
    listing->list[at] = epoch;
    listing->count++;
}

static void add_place(const void *node, VISIT visit, void *context)
{
    if (visit == postorder || visit == leaf)
        add(context, (*(struct place *const *)node)->at.epoch);
}

size_t epochs_list(struct epochs *epochs, uint64_t *list, size_t room)
{
    struct listing listing = {.list = list, .room = room};

    pthread_mutex_lock(&epochs->lock);
    add(&listing, epochs->of_all.epoch);
    twalk_r(epochs->places, add_place, &listing);
    pthread_mutex_unlock(&epochs->lock);
    return listing.count;
}
