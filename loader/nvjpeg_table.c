/* Finding nvJPEG, and its texts. */
#include "nvjpeg_table.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of these the prototypes were compared. */
enum { MAJOR_LEAST = 12, MAJOR_MOST = 13 };

static _Atomic(const struct nvjpeg_table *) replacement;

static const struct {
    const char *name;
    size_t at;
} functions[] = {
    {"nvjpegGetProperty", offsetof(struct nvjpeg_table, property)},
    {"nvjpegCreateExV2", offsetof(struct nvjpeg_table, create)},
    {"nvjpegDestroy", offsetof(struct nvjpeg_table, destroy)},
    {"nvjpegJpegStateCreate", offsetof(struct nvjpeg_table, state_make)},
    {"nvjpegJpegStateDestroy", offsetof(struct nvjpeg_table, state_end)},
    {"nvjpegJpegStreamCreate", offsetof(struct nvjpeg_table, header_make)},
    {"nvjpegJpegStreamDestroy", offsetof(struct nvjpeg_table, header_end)},
    {"nvjpegJpegStreamParseHeader", offsetof(struct nvjpeg_table, header_read)},
    {"nvjpegDecodeBatchedSupported", offsetof(struct nvjpeg_table, supported)},
    {"nvjpegDecodeBatchedInitialize", offsetof(struct nvjpeg_table, batched_begin)},
    {"nvjpegDecodeBatched", offsetof(struct nvjpeg_table, batched)},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static void *open_library(const char **name, const struct nvjpeg_linker *linker,
                          struct fault *fault)
{
    static const char *const names[2] = {"libnvjpeg.so.13", "libnvjpeg.so.12"};
    void *library = NULL;
    const char *error;

    if (*name) {
        library = linker->open(*name);
    } else {
        for (size_t i = 0; i < 2 && !library; i++) {
            *name = names[i];
            library = linker->open(names[i]);
        }
    }
    if (library)
        return library;
    error = linker->error();
    fault_set(fault, 0, "%s%.300s", *name == names[1] ? "no libnvjpeg.so.13, and " : "",
              error ? error : "it cannot be opened");
    return NULL;
}

int nvjpeg_load(struct nvjpeg_table *table, const char *name, const struct nvjpeg_linker *linker,
                struct fault *fault)
{
    void *library = open_library(&name, linker, fault);
    int major = 0, error = 0;

    if (!library)
        return -ENOENT;
    for (size_t i = 0; i < FUNCTIONS && !error; i++) {
        void *address = linker->symbol(library, functions[i].name);

        if (!address)
            error = fault_set(fault, -ENOTSUP, "%.200s has no %s", name, functions[i].name);
        memcpy((char *)table + functions[i].at, &address, sizeof address);
    }
    if (!error && table->property(0, &major))
        error = fault_set(fault, -ENOTSUP, "%.200s does not say its version", name);
    if (!error && (major < MAJOR_LEAST || major > MAJOR_MOST))
        error = fault_set(fault, -ENOTSUP, "%.200s is nvJPEG %d, where %d or %d is needed", name,
                          major, MAJOR_LEAST, MAJOR_MOST);
    if (error)
        linker->close(library);
    return error;
}

static void *link_open(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

static const char *link_error(void)
{
    return dlerror();
}

static void link_close(void *library)
{
    (void)dlclose(library);
}

/* Found once a process; its own end comes with the process's. */
static struct {
    pthread_once_t once;
    int error;
    struct fault why;
    struct nvjpeg_table table;
} found = {.once = PTHREAD_ONCE_INIT};

static void find(void)
{
    static const struct nvjpeg_linker linker = {link_open, dlsym, link_error, link_close};
    const char *name = secure_getenv("SHUFFLELOAD_NVJPEG");

    found.error = nvjpeg_load(&found.table, name && *name ? name : NULL, &linker, &found.why);
}

const struct nvjpeg_table *nvjpeg_table(struct fault *why)
{
    const struct nvjpeg_table *other = atomic_load(&replacement);

    if (other)
        return other;
    pthread_once(&found.once, find);
    if (!found.error)
        return &found.table;
    *why = found.why;
    return NULL;
}

void nvjpeg_table_replace(const struct nvjpeg_table *table)
{
    atomic_store(&replacement, table);
}

void nvjpeg_status_text(int status, char *text, size_t size)
{
    static const char *const names[] = {"SUCCESS",
                                        "NOT_INITIALIZED",
                                        "INVALID_PARAMETER",
                                        "BAD_JPEG",
                                        "JPEG_NOT_SUPPORTED",
                                        "ALLOCATOR_FAILURE",
                                        "EXECUTION_FAILED",
                                        "ARCH_MISMATCH",
                                        "INTERNAL_ERROR",
                                        "IMPLEMENTATION_NOT_SUPPORTED",
                                        "INCOMPLETE_BITSTREAM"};
    bool known = status >= 0 && (size_t)status < sizeof names / sizeof *names;

    snprintf(text, size, "NVJPEG_STATUS_%s (%d)", known ? names[status] : "of its own", status);
}
