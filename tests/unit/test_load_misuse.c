/* The loader in the hands of programs that are wrong, and on data that changes under it: an error
 * that says what is wrong, never a crash, a hang or a lost sample. */
#include "unit.h"

#include "load.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

enum { PICTURES = 40 };

/* A forked child's copy of its parent's loader is never freed: nothing of it is lost all the same,
 * as long as somebody knows it. */
static struct sl_loader *parents;

static struct load_folder folder;

static void begin(void)
{
    load_folder_make(&folder);
    load_write_pictures(&folder, "p/%03u.jpg", PICTURES);
}

static void end(void)
{
    load_folder_remove(&folder);
}

static struct sl_config config_of(const char *name)
{
    return load_config(load_path(&folder, name));
}

static void told(struct sl_loader *loader, int status, int code, const char *part)
{
    cr_assert_eq(status, code, "%d: %s", status, sl_error(loader));
    cr_assert(strstr(sl_error(loader), part) != NULL, "%s", sl_error(loader));
}

static void refused(const struct sl_config *config, int code, const char *part)
{
    struct sl_loader *loader;

    told(NULL, sl_open(&loader, config), code, part);
    cr_assert(loader == NULL);
}

static void start_anew(struct sl_loader *loader)
{
    cr_assert_eq(sl_set_epoch(loader, 1), 0, "%s", sl_error(loader));
}

Test(load_misuse, a_size_that_was_never_set_is_refused_and_nothing_is_written)
{
    struct {
        struct sl_stats stats;
        uint64_t beyond;
    } stats;
    struct {
        struct sl_position position;
        uint64_t beyond;
    } position;
    struct sl_config config;
    struct sl_loader *loader;
    static const size_t wrong[] = {0, 1, sizeof(size_t), 1 << 20, SIZE_MAX};

    begin();
    config = config_of("p");
    config.size = SIZE_MAX / 2;
    refused(&config, -EINVAL, "config.size");
    config.size = sizeof config;
    loader = load_open(&config);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memset(&stats, 0x5a, sizeof stats);
        memset(&position, 0x5a, sizeof position);
        stats.stats.size = position.position.size = wrong[i];
        told(loader, sl_stats(loader, &stats.stats), -EINVAL, "stats.size");
        told(loader, sl_position(loader, &position.position), -EINVAL, "position.size");
        cr_assert_eq(stats.beyond, 0x5a5a5a5a5a5a5a5au);
        cr_assert_eq(position.position.epoch, 0x5a5a5a5a5a5a5a5au);
    }
    /* An older program's shorter struct is filled as far as it goes. */
    memset(&stats, 0x5a, sizeof stats);
    stats.stats.size = offsetof(struct sl_stats, batches);
    cr_assert_eq(sl_stats(loader, &stats.stats), 0);
    cr_assert_eq(stats.stats.workers, 2);
    cr_assert_eq(stats.stats.batches, 0x5a5a5a5a5a5a5a5au);
    sl_close(loader);
    end();
}

Test(load_misuse, null_pointers_are_named_and_harm_nothing)
{
    struct sl_config config;
    struct sl_loader *loader;
    uint64_t whole;

    begin();
    config = config_of("p");
    whole = load_once(&config);
    loader = load_open(&config);
    told(loader, sl_next(loader, NULL, -1), -EINVAL, "sl_next()");
    told(loader, sl_release(loader, NULL), -EINVAL, "sl_release()");
    told(loader, sl_stats(loader, NULL), -EINVAL, "sl_stats()");
    told(loader, sl_position(loader, NULL), -EINVAL, "sl_position()");
    sl_config_init(NULL, 100);
    cr_assert_eq(load_epoch(loader, 0), whole);
    sl_close(loader);
    end();
}

Test(load_misuse, asking_on_after_the_end_says_the_end)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;
    uint64_t first;

    begin();
    config = config_of("p");
    loader = load_open(&config);
    first = load_epoch(loader, 3);
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(sl_next(loader, &batch, i % 3 - 1), SL_END);
        cr_assert(batch == NULL);
    }
    cr_assert_eq(load_epoch(loader, 3), first);
    sl_close(loader);
    end();
}

static void *release(void *argument)
{
    void **what = argument;

    return (void *)(intptr_t)sl_release(what[0], what[1]);
}

Test(load_misuse, a_batch_is_released_once_by_any_thread_and_to_its_own_loader)
{
    struct sl_config config;
    struct sl_loader *loader, *other;
    struct sl_batch *batch, *second, invented;
    pthread_t thread;
    void *result, *what[2];

    begin();
    config = config_of("p");
    config.hold = 2;
    loader = load_open(&config);
    other = load_open(&config);
    cr_assert_eq(sl_next(loader, &batch, -1), 0);
    cr_assert_eq(sl_next(loader, &second, -1), 0);
    what[0] = loader;
    what[1] = batch;
    told(other, sl_release(other, batch), -EINVAL, "not held");
    memset(&invented, 0, sizeof invented);
    told(loader, sl_release(loader, &invented), -EINVAL, "not held");
    cr_assert_eq(pthread_create(&thread, NULL, release, what), 0);
    cr_assert_eq(pthread_join(thread, &result), 0);
    cr_assert_eq((intptr_t)result, 0);
    told(loader, sl_release(loader, batch), -EINVAL, "not held");
    cr_assert_eq(sl_next(loader, &batch, -1), 0);
    cr_assert_eq(batch->number, 2);
    cr_assert_eq(second->number, 1);
    sl_close(other);
    sl_close(loader); /* with both held */
    end();
}

struct caller {
    struct sl_loader *loader;
    unsigned number;
};

static void *call_at_random(void *argument)
{
    struct caller *caller = argument;
    struct sl_stats stats = {.size = sizeof stats};
    struct sl_position position = {.size = sizeof position};
    int64_t wrong = 0;

    for (unsigned i = 0; i < 60; i++) {
        if (caller->number < 2)
            wrong |= sl_set_epoch(caller->loader, (i + caller->number) % 3);
        else if (caller->number == 2)
            sl_cancel(caller->loader);
        wrong |= sl_stats(caller->loader, &stats) | sl_position(caller->loader, &position);
        wrong |= position.epoch > 2 || position.taken != 0;
        if (sl_error(caller->loader) == NULL)
            wrong = 1;
    }
    return (void *)(intptr_t)wrong;
}

Test(load_misuse, all_but_next_and_close_is_called_by_any_thread_at_any_time)
{
    enum { CALLERS = 4 };

    begin();
    load_write_tar(&folder, "s.tar", PICTURES, UINT32_MAX);
    for (int source = 0; source < 2; source++) {
        struct sl_config config = config_of(source ? "s.tar" : "p");
        uint64_t expected = load_once(&config);
        struct sl_loader *loader = load_open(&config);
        struct caller callers[CALLERS];
        pthread_t threads[CALLERS];

        for (unsigned i = 0; i < CALLERS; i++) {
            callers[i] = (struct caller){loader, i};
            cr_assert_eq(pthread_create(&threads[i], NULL, call_at_random, &callers[i]), 0);
        }
        for (int i = 0; i < CALLERS; i++) {
            void *wrong;

            cr_assert_eq(pthread_join(threads[i], &wrong), 0);
            cr_assert(wrong == NULL);
        }
        cr_assert_eq(load_epoch(loader, 0), expected);
        sl_close(loader);
    }
    end();
}

Test(load_misuse, more_memory_than_there_is_is_refused_with_how_much_it_would_be)
{
    struct sl_config config;

    if (SANITIZED)
        cr_skip_test("a sanitizer's mmap() ends the process where memory is missing");
    begin();
    config = config_of("p");
    config.batch_size = 65536;
    config.width = config.height = 16384;
    refused(&config, -ENOMEM, "rows");
    config.width = config.height = 224;
    config.output = SL_FLOAT32_NCHW;
    config.prefetch = 4096;
    refused(&config, -ENOMEM, "MiB");
    config.output = SL_BYTES;
    config.length_most = (uint64_t)1 << 40;
    refused(&config, -ENOMEM, "rows");
    end();
}

/* In a child, as a limit stays. */
Test(load_misuse, what_opening_cannot_get_is_told_and_given_back)
{
    struct sl_config config;
    pid_t child;
    int status;

    if (SANITIZED || RUNNING_ON_VALGRIND)
        cr_skip_test("a sanitizer or valgrind needs the address space that is limited here");
    begin();
    config = config_of("p");
    config.workers = 1024;
    child = fork();
    if (child == 0) {
        struct rlimit limit = {(rlim_t)4 << 30, (rlim_t)4 << 30};
        struct sl_loader *loader;
        int fine = setrlimit(RLIMIT_AS, &limit) == 0;

        for (int i = 0; fine && i < 3; i++)
            fine = sl_open(&loader, &config) < 0 && *sl_error(NULL);
        config.workers = 2;
        fine = fine && sl_open(&loader, &config) == 0;
        if (fine)
            sl_close(loader);
        _exit(fine ? 0 : 1);
    }
    cr_assert(child > 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    end();
}

Test(load_misuse, a_field_with_a_dot_or_none_is_refused)
{
    static const char *const wrong[] = {"", "/", ".jpg", "jpg//png", "jpg/.png", "jpg/"};
    struct sl_config config;

    begin();
    config = config_of("p");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        config.field = wrong[i];
        refused(&config, -EINVAL, "config.field");
    }
    config.field = "txt";
    refused(&config, -ENODATA, "none of its 40 files");
    end();
}

Test(load_misuse, a_place_past_the_end_is_an_error_with_the_number_of_samples)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;

    begin();
    config = config_of("p");
    config.world = 2;
    config.start = 4;
    loader = load_open(&config);
    for (int i = 0; i < 2; i++) {
        /* 4 and 2 * 40: the end; the next place is the end of a rank with one sample more. */
        for (unsigned after = 84; after <= 86; after += 2) {
            cr_assert_eq(sl_seek(loader, 0, after), 0);
            cr_assert_eq(sl_next(loader, &batch, -1), SL_END);
        }
        told(loader, sl_seek(loader, 0, 88), -EINVAL, "after sample 88");
        told(loader, sl_next(loader, &batch, -1), -EINVAL,
             "p has 40 samples, and is one of 2 ranks");
        told(loader, sl_seek(loader, 0, 85), -EINVAL, "multiples of its world, 2");
    }
    start_anew(loader);
    cr_assert_eq(sl_next(loader, &batch, -1), 0);
    sl_close(loader);
    config.after = 1000;
    refused(&config, -EINVAL, "40 samples");
    end();
}

Test(load_misuse, a_place_past_the_end_of_a_tar_shows_at_its_end)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;

    begin();
    load_write_tar(&folder, "s.tar", PICTURES, UINT32_MAX);
    config = config_of("s.tar");
    config.after = 41;
    loader = load_open(&config);
    for (int i = 0; i < 2; i++) {
        told(loader, sl_next(loader, &batch, -1), -EINVAL, "after sample 41");
        told(loader, sl_next(loader, &batch, -1), -EINVAL, "s.tar has 40 samples");
        cr_assert_eq(sl_seek(loader, 0, 40), 0);
        cr_assert_eq(sl_next(loader, &batch, -1), SL_END);
        cr_assert_eq(sl_seek(loader, 0, 41), 0);
    }
    sl_close(loader);
    end();
}

Test(load_misuse, places_past_all_numbers_are_errors)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;

    begin();
    config = config_of("p");
    loader = load_open(&config);
    told(loader, sl_seek(loader, 0, UINT64_MAX), -EINVAL, "18446744073709551615");
    told(loader, sl_next(loader, &batch, -1), -EINVAL, "18446744073709551615");
    start_anew(loader);
    cr_assert_eq(sl_next(loader, &batch, -1), 0);
    sl_release(loader, batch);
    cr_assert_eq(sl_set_epoch(loader, UINT64_MAX), 0);
    cr_assert_eq(sl_next(loader, &batch, -1), 0);
    sl_close(loader);
    config.after = UINT64_MAX;
    refused(&config, -EINVAL, "after");
    end();
}

Test(load_misuse, an_empty_folder_and_one_that_goes_are_errors_with_its_name)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;

    begin();
    cr_assert_eq(mkdir(load_path(&folder, "empty"), 0755), 0);
    config = config_of("empty");
    refused(&config, -ENODATA, "empty has no sample");
    load_write_pictures(&folder, "gone/%03u.jpg", 1);
    config = config_of("gone");
    loader = load_open(&config);
    cr_assert_eq(unlink(load_path(&folder, "gone/000.jpg")), 0);
    told(loader, sl_set_epoch(loader, 1), -ENODATA, "gone");
    cr_assert_eq(rmdir(load_path(&folder, "gone")), 0);
    told(loader, sl_set_epoch(loader, 2), -ENOENT, "gone");
    told(loader, sl_next(loader, &batch, -1), -ENOENT, "gone");
    load_write_pictures(&folder, "gone/%03u.jpg", 2);
    start_anew(loader);
    cr_assert_eq(sl_next(loader, &batch, -1), SL_PARTIAL);
    cr_assert_eq(batch->count, 2);
    sl_close(loader);
    end();
}

Test(load_misuse, a_folder_that_leads_to_itself_is_an_error_that_says_so)
{
    struct sl_config config;

    begin();
    cr_assert_eq(symlink(".", load_path(&folder, "p/round")), 0);
    cr_assert_eq(symlink(".", load_path(&folder, "p/and-round")), 0);
    config = config_of("p");
    refused(&config, -ELOOP, "Too many levels of symbolic links");
    end();
}

/* What was listed is asked for, and each place is told of, whatever became of its file. */
Test(load_misuse, files_that_vanish_shrink_or_turn_to_folders_are_told_of_one_by_one)
{
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;
    struct sl_stats stats = {.size = sizeof stats};
    uint64_t asked = 0, good = 0, bad = 0;
    char name[32];
    int status;

    begin();
    config = config_of("p");
    config.bad = SL_BAD_SKIP;
    config.batch_size = 7;
    loader = load_open(&config);
    cr_assert_eq(sl_set_epoch(loader, 1), 0);
    /* Three batches are made ahead at most: of those that come later, each third goes. */
    for (unsigned i = 28; i < PICTURES; i++) {
        const char *path;

        snprintf(name, sizeof name, "p/%03u.jpg", i);
        path = load_path(&folder, name);
        if (i % 3 == 0) {
            cr_assert_eq(unlink(path), 0);
        } else if (i % 3 == 1) {
            cr_assert_eq(truncate(path, i % 2 ? 0 : 5), 0);
        } else {
            cr_assert_eq(unlink(path), 0);
            cr_assert_eq(mkdir(path, 0755), 0);
        }
    }
    while ((status = sl_next(loader, &batch, 60000)) >= 0 && status != SL_END) {
        for (uint64_t i = batch->count; i < batch->asked; i++) {
            unsigned number = (unsigned)strtoul(batch->names[i], NULL, 10);

            cr_assert_eq(batch->statuses[i], number % 3 == 0   ? -ENOENT
                                             : number % 3 == 2 ? -EISDIR
                                                               : batch->statuses[i]);
            cr_assert(batch->statuses[i] < 0);
            cr_assert_eq(batch->positions[i], number);
        }
        asked += batch->asked;
        good += batch->count;
        sl_release(loader, batch);
    }
    cr_assert_eq(status, SL_END, "%s", sl_error(loader));
    cr_assert_eq(sl_stats(loader, &stats), 0);
    bad = stats.bad;
    cr_assert_eq(asked, PICTURES);
    cr_assert_eq(good, 28);
    cr_assert_eq(bad, PICTURES - 28);
    cr_assert_eq(stats.skipped, bad);
    sl_close(loader);
    end();
}

Test(load_misuse, a_list_s_bad_lines_are_named_by_their_number_or_their_path)
{
    static const struct {
        const char *text;
        size_t size;
        const char *part;
        int code;
    } lists[] = {
        {"p/000.jpg 1\np/001.jpg 2\n   7\n", 0, "line 3", -EBADMSG},
        {"p/000.jpg 1\np/001\0.jpg 2\n", 26, "line 2", -EBADMSG},
        {"\n\n# nothing\n", 0, "empty", -ENODATA},
        {"p/none.jpg 3\n", 0, "p/none.jpg", -ENOENT},
        {"p/000.jpg +4\n", 0, "p/000.jpg +4", -ENOENT},
        {"p/000.jpg 99999999999999999999\n", 0, "99999999999999999999", -ENOENT},
    };
    struct sl_config config;
    struct sl_loader *loader;
    struct sl_batch *batch;

    begin();
    config = config_of("l.list");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        size_t size = lists[i].size ? lists[i].size : strlen(lists[i].text);

        load_write(&folder, "l.list", lists[i].text, size);
        config.bad = SL_BAD_FAIL;
        if (lists[i].code != -ENOENT) {
            refused(&config, lists[i].code, lists[i].part);
            cr_assert(strstr(sl_error(NULL), "l.list") != NULL, "%s", sl_error(NULL));
            continue;
        }
        loader = load_open(&config);
        told(loader, sl_next(loader, &batch, -1), lists[i].code, lists[i].part);
        sl_close(loader);
    }
    end();
}

/* Counts samples up to the end or the error. */
static uint64_t count_samples(const struct sl_config *config, int *status)
{
    struct sl_loader *loader = load_open(config);
    struct sl_batch *batch;
    uint64_t count = 0;

    while ((*status = sl_next(loader, &batch, 60000)) == 0 || *status == SL_PARTIAL) {
        for (uint64_t i = 0; i < batch->count; i++)
            cr_assert_eq(batch->positions[i], count + i);
        count += batch->count;
        sl_release(loader, batch);
    }
    /* A cut between two members looks like the end of a tar without its mark. */
    if (*status != SL_END) {
        cr_assert_eq(*status, -EBADMSG);
        cr_assert(strstr(sl_error(loader), "s.tar") != NULL, "%s", sl_error(loader));
        cr_assert(strstr(sl_error(loader), "byte ") || strstr(sl_error(loader), "no tar"), "%s",
                  sl_error(loader));
    }
    sl_close(loader);
    return count;
}

/* In a last, partial batch; then comes the error, which names the tar and the byte. */
Test(load_misuse, a_tar_cut_at_any_place_gives_every_sample_before_it)
{
    struct sl_config config, large, dropping;
    struct stat whole;

    begin();
    load_write_tar(&folder, "s.tar", PICTURES, UINT32_MAX);
    config = large = dropping = config_of("s.tar");
    config.batch_size = 1;
    large.batch_size = dropping.batch_size = 7;
    dropping.drop_last = 1;
    cr_assert_eq(stat(config.path, &whole), 0);
    for (off_t size = whole.st_size - 10240 - 700; size > 0; size -= 4096 + 77) {
        uint64_t count;
        int status, other;

        cr_assert_eq(truncate(config.path, size), 0);
        count = count_samples(&config, &status);
        cr_assert(count + 3 >= (uint64_t)(size / (whole.st_size / PICTURES)), "%d of %ld bytes",
                  (int)count, (long)size);
        cr_assert_eq(count_samples(&large, &other), count);
        cr_assert_eq(other, status);
        cr_assert_eq(count_samples(&dropping, &other), count / 7 * 7);
        cr_assert_eq(other, status);
    }
    end();
}

Test(load_misuse, a_forked_child_opens_a_loader_of_its_own)
{
    struct sl_config config;
    struct sl_loader *own;
    uint64_t expected;
    pid_t child;
    int status;

#ifdef __SANITIZE_THREAD__
    cr_skip_test("TSan ends a child that starts threads after a fork beside others");
#endif
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("a fork beside threads may leave a lock of ASan's allocator taken (gcc 12)");
#endif
    begin();
    config = config_of("p");
    expected = load_once(&config);
    parents = load_open(&config);
    child = fork();
    if (child == 0) {
        struct sl_batch *batch;
        int fine = sl_next(parents, &batch, -1) == -EOWNERDEAD && sl_open(&own, &config) == 0;

        fine = fine && load_epoch(own, 0) == expected;
        sl_close(own);
        sl_close(parents);
        _exit(fine ? 0 : 1);
    }
    cr_assert(child > 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    cr_assert_eq(load_epoch(parents, 0), expected);
    sl_close(parents);
    end();
}
