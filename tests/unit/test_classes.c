/* Folders of classes: which there are, which positions are in each, and who goes how through them.
 */
#include "unit.h"

#include "shard.h"

#include "../../fs/classes.h"

#include "../../core/order.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Labels as core/labels.c makes them. */
static struct labels labels_of_numbers(int64_t *of, uint64_t samples, uint64_t classes)
{
    struct labels labels = {
        .of = of, .class_count = classes, .least = INT64_MAX, .most = INT64_MIN};

    for (uint64_t s = 0; s < samples; s++) {
        if (of[s] == LABELS_MISSING)
            continue;
        labels.least = of[s] < labels.least ? of[s] : labels.least;
        labels.most = of[s] > labels.most ? of[s] : labels.most;
    }
    return labels;
}

/* One sample a class; `texts` in byte order, a NUL after each. */
struct named {
    struct labels labels;
    int64_t of[32];
    uint64_t at[32];
};

static struct labels *named_labels(struct named *named, char *texts, uint64_t count)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < count; i++) {
        named->of[i] = (int64_t)i;
        named->at[i] = at;
        at += strlen(texts + at) + 1;
    }
    named->labels = (struct labels){.of = named->of,
                                    .named = true,
                                    .class_count = count,
                                    .most = (int64_t)count - 1,
                                    .names = texts,
                                    .name_at = named->at};
    return &named->labels;
}

/* All names, with blanks between; each is found again, and stands after the one before. */
static const char *names_of(const struct classes *classes)
{
    static char all[8192];
    char name[CLASSES_NAME_BYTES + 1], before[CLASSES_NAME_BYTES + 1] = "";

    all[0] = '\0';
    for (uint32_t f = 0; f < classes_count(classes); f++) {
        uint32_t found;
        classes_name(classes, f, name);
        cr_assert(strcmp(before, name) < 0, "%s %s", before, name);
        cr_assert(classes_find(classes, name, &found) && found == f, "%s", name);
        snprintf(before, sizeof before, "%s", name);
        if (strlen(all) + strlen(name) + 2 < sizeof all)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", f ? " " : "", name);
    }
    return all;
}

static void numbers_are(int64_t *of, uint64_t samples, uint64_t count, const char *names, bool told)
{
    struct labels labels = labels_of_numbers(of, samples, count);
    struct classes *classes;

    report_watch(NULL);
    cr_assert_eq(classes_open(&classes, &labels, samples), 0);
    cr_assert_str_eq(names_of(classes), names);
    cr_assert_eq(report_watch("only those that exist have a folder") != NULL, told);
    for (uint64_t s = 0; s < samples; s++) {
        uint32_t folder = classes_of(classes, s);
        cr_assert(of[s] == LABELS_MISSING ? folder == CLASSES_NONE
                                          : classes_label(classes, folder) == of[s]);
    }
    classes_close(classes);
    report_stop();
}

Test(classes, a_folder_for_each_number_from_0_to_the_largest_else_for_those_that_exist)
{
    char all[8192] = "";

    numbers_are((int64_t[]){3, 0, LABELS_MISSING, 3}, 4, 2, "0 1 2 3", false);
    numbers_are((int64_t[]){10, 0}, 2, 2, "00 01 02 03 04 05 06 07 08 09 10", false);
    numbers_are((int64_t[]){-1, 5}, 2, 2, "-1 5", true);
    numbers_are((int64_t[]){-1, -20, 5, 100, -100, 5}, 6, 5, "-001 -020 -100 005 100", true);
    numbers_are((int64_t[]){INT64_MAX, INT64_MIN + 1, 0}, 3, 3,
                "-9223372036854775807 0000000000000000000 9223372036854775807", true);
    /* 10 times as many as there are classes, and 1,000 more. */
    for (int i = 0; i <= 1010; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%04d", i ? " " : "", i);
    numbers_are((int64_t[]){1010}, 1, 1, all, false);
    numbers_are((int64_t[]){1011}, 1, 1, "1011", true);
}

static void texts_are(char *texts, uint64_t count, const char *names, bool told)
{
    struct named named;
    struct classes *classes;

    report_watch(NULL);
    cr_assert_eq(classes_open(&classes, named_labels(&named, texts, count), count), 0);
    cr_assert_str_eq(names_of(classes), names);
    cr_assert_eq(report_watch("so the folders have the classes' numbers") != NULL, told);
    classes_close(classes);
    report_stop();
}

Test(classes, texts_are_names_unless_that_would_change_their_order_or_make_two_one)
{
    char plain[] = "Yak\0ant\0wild cat", safe[] = "a/b\0b\nc\0c", one[] = "a/b\0a_b\0c",
         order[] = "a/c\0aZ", dot[] = ".\0x", dots[] = "..\0Z";
    char eleven[] = "..\0"
                    "Z0\0Z1\0Z2\0Z3\0Z4\0Z5\0Z6\0Z7\0Z8\0Z9";
    char longer[600], name[256];

    texts_are(plain, 3, "Yak ant wild cat", false);
    texts_are(safe, 3, "a_b b_c c", false);
    texts_are(one, 3, "0 1 2", true);
    texts_are(order, 2, "0 1", true);
    texts_are(dot, 2, "_ x", false);
    texts_are(dots, 2, "0 1", true);
    texts_are(eleven, 11, "00 01 02 03 04 05 06 07 08 09 10", true);
    /* Cut to 255 bytes, not within a character. */
    memset(longer, 'x', 254);
    snprintf(longer + 254, sizeof longer - 254, "\xc3\xa9yyy");
    memset(name, 'x', 254);
    name[254] = '\0';
    texts_are(longer, 1, name, false);
    /* Two that are alike so far. */
    memset(longer, 'x', 300);
    longer[300] = '\0';
    memset(longer + 301, 'x', 298);
    longer[598] = 'y';
    longer[599] = '\0';
    longer[300] = '\0';
    texts_are(longer, 2, "0 1", true);
}

Test(classes, without_labels_there_are_none)
{
    struct classes *classes;
    struct labels none = {.source = CONFIG_LABEL_NONE};

    cr_assert_eq(classes_open(&classes, &none, 3), 0);
    cr_assert(classes == NULL);
    classes_close(classes);
}

enum { SAMPLES = 5000, CLASSES = 37, TAKERS = 6 };

struct taking {
    struct shelf *shelf;
    struct order *order;
    const struct plan *plan;
    const int64_t *of;
    bool right;
};

/* Each class's positions are those of its samples, in ascending order, and all classes' together
 * are all. */
static void *take_all(void *context)
{
    struct taking *taking = context;
    uint64_t all = 0, labelled = 0;

    taking->right = true;
    for (uint32_t f = 0; f < CLASSES; f++) {
        const uint32_t *positions;
        uint32_t count;
        if (shelf_take(taking->shelf, taking->order, taking->plan, f, &positions, &count)) {
            taking->right = false;
            break;
        }
        for (uint32_t i = 0; taking->right && i < count; i++) {
            uint64_t sample = order_sample(taking->order, plan_global(taking->plan, positions[i]));
            taking->right = taking->of[sample] == (int64_t)f &&
                            (i == 0 || positions[i - 1] < positions[i]);
        }
        shelf_done(taking->shelf);
        all += count;
    }
    for (uint64_t p = 0; p < taking->plan->length; p++)
        labelled += taking->of[order_sample(taking->order, plan_global(taking->plan, p))] !=
                    LABELS_MISSING;
    taking->right = taking->right && all == labelled;
    return NULL;
}

Test(classes, each_holds_its_positions_in_order_whoever_asks_first)
{
    static int64_t of[SAMPLES];
    struct order_basis basis = {.samples = SAMPLES};
    struct order_spec spec = {.kind = ORDER_TORCH};
    struct plan_deal deal = {.remainder = PLAN_PAD};
    struct classes *classes;
    struct labels labels;

    for (int i = 0; i < SAMPLES; i++)
        of[i] = i % 11 == 5 ? LABELS_MISSING : i * 7919 % CLASSES;
    labels = labels_of_numbers(of, SAMPLES, CLASSES);
    cr_assert_eq(classes_open(&classes, &labels, SAMPLES), 0);
    for (uint64_t world = 1; world < 9; world += 3) {
        struct taking taking[TAKERS];
        pthread_t threads[TAKERS];
        struct order *order;
        struct shelf *shelf;
        struct plan plan;
        cr_assert(plan_open(&plan, SAMPLES, &(struct plan_share){.rank = world - 1, .world = world},
                            &deal));
        cr_assert_eq(order_open(&order, &spec, &basis, world), 0);
        cr_assert_eq(shelf_open(&shelf, classes), 0);
        for (int i = 0; i < TAKERS; i++) {
            taking[i] = (struct taking){shelf, order, &plan, of, false};
            cr_assert_eq(pthread_create(&threads[i], NULL, take_all, &taking[i]), 0);
        }
        for (int i = 0; i < TAKERS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < TAKERS; i++)
            cr_assert(taking[i].right, "thread %d", i);
        shelf_close(shelf);
        order_close(order);
    }
    classes_close(classes);
}

/* Epochs come and go, and the kernel remembers the folders of all. */
Test(classes, no_more_is_kept_than_the_bound_but_what_is_in_use)
{
    enum { MANY = 3000000, SHELVES = 6 };
    int64_t *of = malloc(MANY * sizeof *of);
    struct order_basis basis = {.samples = MANY};
    struct order_spec spec = {.kind = ORDER_SEQUENTIAL};
    struct plan_deal deal = {.remainder = PLAN_PAD};
    struct shelf *shelves[SHELVES];
    const uint32_t *held, *positions;
    uint32_t held_count, count;
    struct classes *classes;
    struct labels labels;
    struct order *order;
    struct plan plan;

    for (int i = 0; i < MANY; i++)
        of[i] = i % CLASSES;
    labels = labels_of_numbers(of, MANY, CLASSES);
    cr_assert_eq(classes_open(&classes, &labels, MANY), 0);
    cr_assert(plan_open(&plan, MANY, &(struct plan_share){.world = 1}, &deal));
    cr_assert_eq(order_open(&order, &spec, &basis, 0), 0);
    for (int i = 0; i < SHELVES; i++)
        cr_assert_eq(shelf_open(&shelves[i], classes), 0);
    cr_assert_eq(shelf_take(shelves[0], order, &plan, 5, &held, &held_count), 0);
    for (int i = 1; i < SHELVES; i++) {
        cr_assert_eq(shelf_take(shelves[i], order, &plan, 6, &positions, &count), 0);
        cr_assert_eq(positions[count - 1] % CLASSES, 6U);
        shelf_done(shelves[i]);
        cr_assert(classes_kept_bytes(classes) <= CLASSES_KEPT_BYTES);
    }
    cr_assert_eq(held_count, (MANY - 5 + CLASSES - 1) / (uint32_t)CLASSES);
    for (uint32_t i = 0; i < held_count; i++)
        cr_assert_eq(held[i], 5 + i * CLASSES);
    shelf_done(shelves[0]);
    /* What went is made again. */
    cr_assert_eq(shelf_take(shelves[1], order, &plan, 7, &positions, &count), 0);
    cr_assert_eq(positions[1], 7U + CLASSES);
    shelf_done(shelves[1]);
    for (int i = 0; i < SHELVES; i++)
        shelf_close(shelves[i]);
    cr_assert_eq(classes_kept_bytes(classes), 0U);
    order_close(order);
    classes_close(classes);
    free(of);
}

/* Readers go through N positions of which p's class is its hash. */
enum { N = 4000 };

static uint32_t class_of(uint64_t position, uint32_t classes)
{
    return (uint32_t)((position * 2654435761u + 12345) % 4294967291u >> 7) % classes;
}

/* LOOKUPs that were taken for those of a reader class by class, of `workers` that read batches of
 * `batch` side by side, in the epoch's order. */
static unsigned taken_wrong(struct shelf *shelf, uint32_t classes, unsigned workers, unsigned batch)
{
    unsigned wrong = 0;

    for (uint64_t round = 0; round < N; round += (uint64_t)workers * batch)
        for (uint64_t i = 0; i < batch; i++)
            for (uint64_t w = 0; w < workers; w++) {
                uint64_t position = round + w * batch + i;
                wrong += shelf_looked(shelf, class_of(position, classes), position) !=
                         SHELF_IN_ORDER;
            }
    return wrong;
}

static unsigned taken_right(struct shelf *shelf, uint32_t classes)
{
    unsigned right = 0;

    for (uint32_t class = 0; class < classes; class ++)
        for (uint64_t p = 0; p < N; p++)
            if (class_of(p, classes) == class)
                right += shelf_looked(shelf, class, p) != SHELF_IN_ORDER;
    return right;
}

Test(classes, readers_in_the_epochs_order_are_told_from_those_class_by_class)
{
    static const uint32_t counts[] = {2, 3, 10, 100};
    int64_t of[] = {0, 1};
    struct labels labels = labels_of_numbers(of, 2, 2);
    struct classes *two;
    struct shelf *shelf;

    cr_assert_eq(classes_open(&two, &labels, 2), 0);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        for (unsigned workers = 1; workers <= 8; workers *= 8) {
            cr_assert_eq(shelf_open(&shelf, two), 0);
            cr_assert(!shelf_is_in_order(shelf));
            cr_assert_eq(taken_wrong(shelf, counts[i], workers, 16), 0U);
            cr_assert(shelf_is_in_order(shelf), "%u classes", counts[i]);
            shelf_close(shelf);
        }
        cr_assert_eq(shelf_open(&shelf, two), 0);
        for (int pass = 0; pass < 3; pass++) {
            cr_assert(taken_right(shelf, counts[i]) > N / 4, "%u classes", counts[i]);
            cr_assert(!shelf_is_in_order(shelf), "%u classes", counts[i]);
        }
        shelf_close(shelf);
    }
    classes_close(two);
}
