/* Which back end. */
#include "backend.h"

#include "shuffleload.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

/* Whoever asked for a GPU if there is one wants to know, but not from each of many loaders. */
static void tell_once(const struct fault *note)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&told))
        fprintf(stderr, "shuffleload: %s\n", note->text);
}

int backend_open(const struct backend **backend, void **state, const struct settings *settings,
                 struct fault *note, struct fault *fault)
{
    struct fault why = {""};
    int error;

    note->text[0] = '\0';
    if (settings->config.device != SL_DEVICE_HOST) {
        *backend = &backend_cuda;
        error = backend_cuda.open(state, settings, &why);
        if (error != -ENODEV || settings->config.device != SL_DEVICE_AUTO) {
            if (error)
                *fault = why;
            return error;
        }
        fault_set(note, 0, "batches are made in the host's memory: no GPU can be used: %.*s", 400,
                  why.text);
        tell_once(note);
    }
    *backend = &backend_host;
    return backend_host.open(state, settings, fault);
}
