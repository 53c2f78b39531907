/* What a loader has of a GPU: the device itself, a stream, each slot's memory there and its events;
 * opened and closed here, and the first fault that CUDA reports, which ends it. What becomes of a
 * batch in it is in backend_cuda.c. All but opening and closing may be called by any thread. */
#ifndef SHUFFLELOAD_CUDA_STATE_H
#define SHUFFLELOAD_CUDA_STATE_H

#include "backend.h"
#include "cuda_table.h"
#include "nvjpeg.h"

#include <pthread.h>
#include <stdatomic.h>

/* A stream that has to do with a batch. */
struct cuda_user {
    void *stream;
    void *event;   /* kept for the slot's later batches; NULL: not made yet */
    bool recorded; /* behind all that uses the batch */
};

struct cuda_slot {
    atomic_bool busy;             /* its last batch may still be read, on either side */
    void *copied;                 /* events: the pinned half was read; */
    void *ready;                  /* all is there */
    uint8_t *data, *bytes, *mask; /* bytes: what the kernel reads; NULL: there is none */
    int64_t *labels, *lengths;

    pthread_mutex_t lock; /* guards what follows; held while a worker waits for the users */
    struct cuda_user *users;
    size_t user_count, user_room;
};

struct cuda {
    const struct cuda_table *table;
    const struct settings *settings;
    int device;
    void *context; /* the device's; NULL: not taken */
    void *stream;
    void *memory;
    bool quiet;            /* all work was waited for; while it is closed */
    struct pixels_job job; /* what is the same in all of them */
    size_t row_bytes;      /* of a row in pinned memory */
    size_t slot_count;
    struct cuda_slot *slots;
    struct nvjpeg *nvjpeg;  /* NULL: pictures are decoded on the host, */
    struct fault no_nvjpeg; /* why, where they should not be */

    atomic_int broken;    /* an errno, once CUDA has reported a fault */
    pthread_mutex_t lock; /* guards its text */
    struct fault fault;
};

/* 0, or what a call of the table's gave, as an errno with its text; it is kept, and ends the
 * loader's use of the device. */
int cuda_check(struct cuda *cuda, const char *call, int error, struct fault *fault);

/* The first fault, as an errno with its text; 0: none so far. */
int cuda_check_broken(struct cuda *cuda, struct fault *fault);

/* At the end a fault has nobody else to be told to: standard error, unless there was one before. */
void cuda_complain(const struct cuda *cuda, const char *call, int error);

/* Makes that fault one of the loader's own. The first one stays. Returns its code. */
int cuda_give_up(struct cuda *cuda, int code, const struct fault *fault);

/* -ECANCELED, with its text: the process exits. */
int cuda_say_exiting(struct fault *fault);

/* Every function that calls CUDA begins and ends with these two: they make the loader's device the
 * thread's, to which a default stream's number belongs too, and give the thread back what it had.
 * enter fails where CUDA may not be called any more; then leave is not called. leave gives `error`,
 * or what went wrong with itself. */
int cuda_enter(struct cuda *cuda, struct fault *fault);
int cuda_leave(struct cuda *cuda, int error, struct fault *fault);

/* As of struct backend. */
int cuda_state_open(void **state, const struct settings *settings, struct fault *fault);
void cuda_state_close(void *state);
void *cuda_state_memory_take(void *state, size_t bytes, struct fault *fault);
void cuda_state_memory_give(void *state, void *memory, size_t bytes);

#endif
