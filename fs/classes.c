/* Folders of classes. Owns the table of labels where it needs one, and each shelf's positions. */
#include "classes.h"

#include "../core/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* LOOKUPs in one class after which a reader is taken to go class by class, and for how many of them
 * one in another class counts. A reader in order, also with several workers, comes to another class
 * more often, but where one class has nearly all samples. */
#define SAME_ENOUGH 32
#define SAME_MOST   64
#define OTHER_TAKES 16
/* Going class by class, one comes to an earlier class with a later position once a pass, to a later
 * class with an earlier position again and again. What the former counts against the latter, when
 * it is enough, and the most that is kept of it. */
#define BACK_COUNTS 4
#define BACK_ENOUGH 8
#define BACK_MOST   64
#define FORTH_MOST  64

struct classes {
    const struct labels *labels;
    uint32_t count;
    int width;        /* digits of a number */
    bool by_text;     /* else by number */
    int64_t *present; /* labels by folder; NULL: a folder's number is its label. Owned */
    pthread_mutex_t
        lock;           /* guards all below, and what each shelf says; held for arithmetic alone */
    struct shelf *full; /* those that have their positions, the one used last first */
    unsigned full_count;
    size_t bytes;
};

/* A class's text as a name. Returns its length; differs: the text is another. */
static size_t safe_name(const char *text, char *name, bool *differs)
{
    size_t length = strlen(text);

    *differs = length > CLASSES_NAME_BYTES;
    if (length > CLASSES_NAME_BYTES)
        for (length = CLASSES_NAME_BYTES; length && (text[length] & 0xc0) == 0x80; length--)
            ; /* not within a character of UTF-8 */
    for (size_t i = 0; i < length; i++) {
        bool bad = text[i] == '/' || (unsigned char)text[i] < ' ' || text[i] == 0x7f;
        name[i] = (char)(bad ? '_' : text[i]);
        *differs |= bad;
    }
    name[length] = '\0';
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        memset(name, '_', length);
        *differs = true;
    }
    return length;
}

/* Whether all texts are names as they stand or made safe, each another one, in the same order. */
static bool texts_are_names(const struct labels *labels, uint64_t *culprit)
{
    char names[2][CLASSES_NAME_BYTES + 1];
    bool differs, differed = false;

    for (uint64_t i = 0; i < labels->class_count; i++) {
        safe_name(labels_class_name(labels, i), names[i % 2], &differs);
        if (i && (differs || differed) && strcmp(names[(i - 1) % 2], names[i % 2]) >= 0) {
            *culprit = differs ? i : i - 1;
            return false;
        }
        differed = differs;
    }
    return true;
}

static int digits(uint64_t number)
{
    int count = 1;

    while (number /= 10)
        count++;
    return count;
}

static uint64_t magnitude(int64_t label)
{
    return label < 0 ? -(uint64_t)label : (uint64_t)label;
}

/* As their names are: negative ones first, each sort by its digits. */
static int by_name(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    uint64_t m = magnitude(x), n = magnitude(y);

    if ((x < 0) != (y < 0))
        return x < 0 ? -1 : 1;
    return (m > n) - (m < n);
}

static int gather_present(struct classes *classes, uint64_t samples)
{
    const int64_t *of = classes->labels->of;
    uint64_t count = 0;
    int64_t *smaller;

    classes->present = malloc(samples * sizeof *classes->present + 1);
    if (!classes->present)
        return -ENOMEM;
    for (uint64_t s = 0; s < samples; s++)
        if (of[s] != LABELS_MISSING)
            classes->present[count++] = of[s];
    qsort(classes->present, count, sizeof *classes->present, by_name);
    classes->count = 0;
    for (uint64_t i = 0; i < count; i++)
        if (i == 0 || classes->present[i] != classes->present[i - 1])
            classes->present[classes->count++] = classes->present[i];
    smaller = realloc(classes->present, classes->count * sizeof *smaller + 1);
    classes->present = smaller ? smaller : classes->present;
    return 0;
}

static int open_numbers(struct classes *classes, uint64_t samples)
{
    const struct labels *labels = classes->labels;
    uint64_t below = magnitude(labels->least), above = magnitude(labels->most);
    uint64_t bound = labels->class_count * CLASSES_SPREAD_TIMES + CLASSES_SPREAD_MORE;

    classes->width = digits(below > above ? below : above);
    if (labels->least >= 0 && above <= bound && above < CLASSES_NONE - 1) {
        classes->count = (uint32_t)above + 1;
        return 0;
    }
    report_warning("rank-R.classes: %llu classes with labels from %lld to %lld: only those that "
                   "exist have a folder, so a folder's place is not its label",
                   (unsigned long long)labels->class_count, (long long)labels->least,
                   (long long)labels->most);
    return gather_present(classes, samples);
}

static void open_texts(struct classes *classes)
{
    const struct labels *labels = classes->labels;
    uint64_t culprit = 0;

    if (labels->names && texts_are_names(labels, &culprit)) {
        classes->by_text = true;
        return;
    }
    if (labels->names)
        report_warning("rank-R.classes: class '%s' cannot be a folder's name in its place, so the "
                       "folders have the classes' numbers",
                       labels_class_name(labels, culprit));
    else
        report_warning("rank-R.classes: %llu classes are too many to keep their names, so the "
                       "folders have the classes' numbers",
                       (unsigned long long)labels->class_count);
}

int classes_open(struct classes **out, const struct labels *labels, uint64_t samples)
{
    struct classes *classes;
    int fault = 0;

    *out = NULL;
    if (!labels->of)
        return 0;
    classes = calloc(1, sizeof *classes);
    if (!classes)
        return -ENOMEM;
    classes->labels = labels;
    pthread_mutex_init(&classes->lock, NULL);
    if (labels->named) {
        classes->count = (uint32_t)labels->class_count;
        classes->width = digits(labels->class_count - 1);
        open_texts(classes);
    } else {
        fault = open_numbers(classes, samples);
    }
    if (fault)
        classes_close(classes);
    else
        *out = classes;
    return fault;
}

void classes_close(struct classes *classes)
{
    if (!classes)
        return;
    pthread_mutex_destroy(&classes->lock);
    free(classes->present);
    free(classes);
}

uint32_t classes_count(const struct classes *classes)
{
    return classes->count;
}

int64_t classes_label(const struct classes *classes, uint32_t folder)
{
    return classes->present ? classes->present[folder] : (int64_t)folder;
}

void classes_name(const struct classes *classes, uint32_t folder, char *name)
{
    int64_t label = classes_label(classes, folder);
    bool differs;

    if (classes->by_text)
        safe_name(labels_class_name(classes->labels, folder), name, &differs);
    else
        snprintf(name, CLASSES_NAME_BYTES + 1, "%s%0*llu", label < 0 ? "-" : "", classes->width,
                 (unsigned long long)magnitude(label));
}

/* Names stand in byte order. */
bool classes_find(const struct classes *classes, const char *name, uint32_t *folder)
{
    uint32_t low = 0, high = classes->count;
    char other[CLASSES_NAME_BYTES + 1];

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order;
        classes_name(classes, middle, other);
        order = strcmp(name, other);
        if (order == 0) {
            *folder = middle;
            return true;
        }
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

uint32_t classes_of(const struct classes *classes, uint64_t sample)
{
    int64_t label = classes->labels->of[sample];
    const int64_t *found;

    if (label == LABELS_MISSING)
        return CLASSES_NONE;
    if (!classes->present)
        return (uint32_t)label;
    found = bsearch(&label, classes->present, classes->count, sizeof label, by_name);
    return found ? (uint32_t)(found - classes->present) : CLASSES_NONE;
}

/* A rank's samples by class. */

/* What was worked out for one. */
struct content {
    uint64_t *starts;    /* folder -> its first place in `positions`; one more for the end */
    uint32_t *positions; /* by folder, ascending in each */
    size_t bytes;
};

struct shelf {
    struct classes *classes;
    pthread_mutex_t making; /* held by who works the content out; before classes->lock */
    /* Guarded by classes->lock. The content is read without it while there are users. */
    struct content content;
    unsigned users;
    struct shelf *before, *after; /* in the list of those that have one */
    /* Of the last LOOKUP, and how often it was in the same class, less the other times. Threads
     * that come at once may miscount: nothing but read-ahead hangs on it. */
    _Atomic uint64_t position;
    _Atomic uint32_t folder;
    atomic_int same, back;
};

int shelf_open(struct shelf **out, struct classes *classes)
{
    struct shelf *shelf = calloc(1, sizeof *shelf);

    if (!shelf)
        return -ENOMEM;
    shelf->classes = classes;
    pthread_mutex_init(&shelf->making, NULL);
    atomic_init(&shelf->folder, CLASSES_NONE);
    /* One class by the other is the epoch's order where there is but one. */
    atomic_init(&shelf->back, classes->count == 1 ? BACK_ENOUGH : 0);
    *out = shelf;
    return 0;
}

static void free_content(struct content *content)
{
    free(content->starts);
    free(content->positions);
    *content = (struct content){0};
}

/* The list: the lock is held. */

static void unlink_shelf(struct classes *classes, struct shelf *shelf)
{
    *(shelf->before ? &shelf->before->after : &classes->full) = shelf->after;
    if (shelf->after)
        shelf->after->before = shelf->before;
    shelf->before = shelf->after = NULL;
}

static void link_first(struct classes *classes, struct shelf *shelf)
{
    shelf->after = classes->full;
    if (shelf->after)
        shelf->after->before = shelf;
    classes->full = shelf;
}

static void empty(struct classes *classes, struct shelf *shelf)
{
    unlink_shelf(classes, shelf);
    classes->full_count--;
    classes->bytes -= shelf->content.bytes;
    free_content(&shelf->content);
}

/* The ones used longest ago go, until the others are within the bound. */
static void empty_old(struct classes *classes)
{
    struct shelf *shelf = classes->full, *before;

    while (shelf && shelf->after)
        shelf = shelf->after;
    for (; shelf && classes->full_count > 2 && classes->bytes > CLASSES_KEPT_BYTES;
         shelf = before) {
        before = shelf->before;
        if (shelf->users == 0)
            empty(classes, shelf);
    }
}

void shelf_close(struct shelf *shelf)
{
    if (!shelf)
        return;
    pthread_mutex_lock(&shelf->classes->lock);
    if (shelf->content.starts)
        empty(shelf->classes, shelf);
    pthread_mutex_unlock(&shelf->classes->lock);
    pthread_mutex_destroy(&shelf->making);
    free(shelf);
}

size_t classes_kept_bytes(struct classes *classes)
{
    size_t bytes;

    pthread_mutex_lock(&classes->lock);
    bytes = classes->bytes;
    pthread_mutex_unlock(&classes->lock);
    return bytes;
}

/* A counting sort: how many each class has, then each position to its place. */
static void sort(struct content *content, uint32_t folders, const uint32_t *folder_of,
                 uint64_t length)
{
    uint64_t *starts = content->starts, at = 0;

    for (uint64_t p = 0; p < length; p++)
        if (folder_of[p] != CLASSES_NONE)
            starts[folder_of[p]]++;
    for (uint32_t f = 0; f <= folders; f++) {
        uint64_t count = starts[f];
        starts[f] = at;
        at += count;
    }
    for (uint64_t p = 0; p < length; p++)
        if (folder_of[p] != CLASSES_NONE)
            content->positions[starts[folder_of[p]]++] = (uint32_t)p;
    /* Each start has come to where the next one was. */
    memmove(starts + 1, starts, folders * sizeof *starts);
    starts[0] = 0;
}

static int make(struct content *content, const struct classes *classes, const struct order *order,
                const struct plan *plan)
{
    size_t starts = ((size_t)classes->count + 1) * sizeof *content->starts;
    size_t positions = plan->length * sizeof *content->positions;
    uint32_t *folder_of;

    if (plan->length > UINT32_MAX)
        return -EFBIG;
    folder_of = malloc(plan->length * sizeof *folder_of + 1);
    *content = (struct content){calloc(1, starts), malloc(positions + 1), starts + positions};
    if (!folder_of || !content->starts || !content->positions) {
        free(folder_of);
        free_content(content);
        return -ENOMEM;
    }
    for (uint64_t p = 0; p < plan->length; p++)
        folder_of[p] = classes_of(classes, order_sample(order, plan_global(plan, p)));
    sort(content, classes->count, folder_of, plan->length);
    free(folder_of);
    return 0;
}

/* Whether it has its content, which then stays. */
static bool hold(struct shelf *shelf)
{
    struct classes *classes = shelf->classes;
    bool full;

    pthread_mutex_lock(&classes->lock);
    full = shelf->content.starts != NULL;
    if (full) {
        shelf->users++;
        unlink_shelf(classes, shelf);
        link_first(classes, shelf);
    }
    pthread_mutex_unlock(&classes->lock);
    return full;
}

static void fill(struct shelf *shelf, const struct content *content)
{
    struct classes *classes = shelf->classes;

    pthread_mutex_lock(&classes->lock);
    shelf->content = *content;
    shelf->users++;
    link_first(classes, shelf);
    classes->full_count++;
    classes->bytes += content->bytes;
    empty_old(classes);
    pthread_mutex_unlock(&classes->lock);
}

int shelf_take(struct shelf *shelf, const struct order *order, const struct plan *plan,
               uint32_t folder, const uint32_t **positions, uint32_t *count)
{
    struct content content;
    int fault = 0;

    if (!hold(shelf)) {
        pthread_mutex_lock(&shelf->making);
        if (!hold(shelf)) {
            fault = make(&content, shelf->classes, order, plan);
            if (!fault)
                fill(shelf, &content);
        }
        pthread_mutex_unlock(&shelf->making);
    }
    if (fault)
        return fault;
    *positions = shelf->content.positions + shelf->content.starts[folder];
    *count = (uint32_t)(shelf->content.starts[folder + 1] - shelf->content.starts[folder]);
    return 0;
}

void shelf_done(struct shelf *shelf)
{
    pthread_mutex_lock(&shelf->classes->lock);
    shelf->users--;
    pthread_mutex_unlock(&shelf->classes->lock);
}

static void note_back(struct shelf *shelf, bool back)
{
    int was = atomic_load_explicit(&shelf->back, memory_order_relaxed);
    int now = was + (back ? BACK_COUNTS : -1);

    if (now <= BACK_MOST && now >= -FORTH_MOST)
        atomic_store_explicit(&shelf->back, now, memory_order_relaxed);
}

bool shelf_is_in_order(const struct shelf *shelf)
{
    return atomic_load_explicit(&shelf->back, memory_order_relaxed) >= BACK_ENOUGH;
}

enum shelf_way shelf_looked(struct shelf *shelf, uint32_t folder, uint64_t position)
{
    uint64_t before = atomic_exchange_explicit(&shelf->position, position, memory_order_relaxed);
    uint32_t other = atomic_exchange_explicit(&shelf->folder, folder, memory_order_relaxed);
    int was = atomic_load_explicit(&shelf->same, memory_order_relaxed), same = was;

    if (other != CLASSES_NONE && (folder < other) == (position > before) && folder != other &&
        position != before)
        note_back(shelf, folder < other);
    if (folder != other)
        same = was > OTHER_TAKES ? was - OTHER_TAKES : 0;
    else if (position > before + 1 && was < SAME_MOST)
        same++;
    if (same != was)
        atomic_store_explicit(&shelf->same, same, memory_order_relaxed);
    if (same < SAME_ENOUGH)
        return SHELF_IN_ORDER;
    return was < SAME_ENOUGH ? SHELF_TURNED : SHELF_CLASS_BY_CLASS;
}
