/* Which back end. */
#include "backend.h"

#include "shuffleload.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

/* Whoever asked for a GPU if there is one, or for decoding on it, wants to know; but not from each
 * of many loaders. */
static void tell_once(atomic_flag *told, const struct fault *note)
{
    if (!atomic_flag_test_and_set(told))
        fprintf(stderr, "shuffleload: %s\n", note->text);
}

int backend_open(const struct backend **backend, void **state, const struct settings *settings,
                 struct fault *note, struct fault *fault)
{
    static atomic_flag told_host = ATOMIC_FLAG_INIT, told_decode = ATOMIC_FLAG_INIT;
    struct fault why = {""};
    int error;

    note->text[0] = '\0';
    if (settings->config.device != SL_DEVICE_HOST) {
        *backend = &backend_cuda;
        error = backend_cuda.open(state, settings, &why);
        if (error != -ENODEV || settings->config.device != SL_DEVICE_AUTO) {
            if (error) {
                *fault = why;
            } else if (settings->config.decode == SL_DECODE_DEVICE &&
                       !backend_cuda.decodes(*state, &why)) {
                fault_set(note, 0, "pictures are decoded on the host: nvJPEG cannot be used: %.*s",
                          400, why.text);
                tell_once(&told_decode, note);
            }
            return error;
        }
        fault_set(note, 0, "batches are made in the host's memory: no GPU can be used: %.*s", 400,
                  why.text);
        tell_once(&told_host, note);
    }
    *backend = &backend_host;
    return backend_host.open(state, settings, fault);
}
