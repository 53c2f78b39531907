/* libFuzzer's entry: any bytes as a path in the mount, and as what is written to a control file. A
 * name that is found must be the only spelling of what it is: stat shows it, and a file's name is
 * the one that a listing gives; a share's name is read as the same share again when it is spelled
 * from what it was found to be. With FUZZ_SEEDS=DIR some paths are written there. */
#include "../../core/report.h"
#include "../../fs/control.h"
#include "../../fs/view.h"
#include "seeds.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *count, char ***arguments);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SAMPLES = 12, PATH_MOST = 1024, DEPTH_MOST = 8 };

static const char *const seeds[] = {
    "current/rank-0/00000003.jpg",
    "epoch-7/rank-1.keys/00000002_d_k4_x.jpg",
    "epoch-0/rank-0-of-3/00000001.cls",
    "current/rank-1-of-2.list",
    "epoch-1/rank-0.classes/3/00000001_d_k3_x.jpg",
    "current/rank-1-of-4.classes/9",
    "epoch-9223372036854775807/rank-0.tar",
    ".control/status",
    ".control/epoch",
    ".control/rank-1.epoch",
    ".control/rank-2-of-5.epoch",
    ".control/fingerprint",
    "current/rank-1.part-0-of-2/00000001.cls",
    "epoch-3/rank-0.after-5/00000002.x.jpg",
    "epoch-3/rank-2-of-5.after-12.part-1-of-3.by-2.list",
    "epoch-1/rank-0.after-0.part-3-of-4.by-2147483648.tar",
    "current/rank-1.part-4294967295-of-4294967296.by-32.keys",
    "7",
    "7 after 5\n",
    "9223372036854775807 after 12",
};

static struct config config;
static struct dataset set;
static struct epochs *epochs;
static struct view *view;

static void ignore(const char *line, void *context)
{
    (void)line;
    (void)context;
}

/* A tar of SAMPLES samples with a jpg and a cls each; its headers need no more than libarchive asks
 * for. */
static void write_tar(int fd)
{
    char block[512];

    for (int i = 0; i < 2 * SAMPLES; i++) {
        unsigned sum = 0;
        memset(block, 0, sizeof block);
        snprintf(block, 100, "d/k%d.%s", i / 2, i % 2 ? "cls" : "x.jpg");
        memcpy(block + 100, "0000644", 8);
        memcpy(block + 108, "0000000", 8);
        memcpy(block + 116, "0000000", 8);
        memcpy(block + 124, "00000000001", 12);
        memcpy(block + 136, "00000000000", 12);
        memset(block + 148, ' ', 8);
        block[156] = '0';
        memcpy(block + 257, "ustar\00000", 8);
        for (int j = 0; j < 512; j++)
            sum += (unsigned char)block[j];
        snprintf(block + 148, 8, "%06o", sum);
        if (write(fd, block, sizeof block) != sizeof block)
            abort();
        memset(block, 0, sizeof block);
        block[0] = (char)('0' + i / 2 % 10);
        if (write(fd, block, sizeof block) != sizeof block)
            abort();
    }
    memset(block, 0, sizeof block);
    if (write(fd, block, sizeof block) != sizeof block ||
        write(fd, block, sizeof block) != sizeof block)
        abort();
}

static char *no_text(void *context, const char *name, enum view_kind kind, uint64_t rank,
                     uint64_t world, size_t *bytes)
{
    (void)context;
    (void)name;
    (void)kind;
    if (rank >= world && kind == VIEW_RANK_FILE)
        abort();
    *bytes = 2;
    return strdup("0\n");
}

int LLVMFuzzerInitialize(int *count, char ***arguments)
{
    const char *folder = getenv("FUZZ_SEEDS");
    char tar[] = "/tmp/fuzz-view-XXXXXX";
    int fd = mkstemp(tar);

    (void)count;
    (void)arguments;
    report_to_sink(ignore, NULL);
    if (fd < 0)
        abort();
    write_tar(fd);
    close(fd);
    config_init(&config);
    if (config_set_options(&config, "world=2,index=none", "/") ||
        shards_add(&config.shards, tar, "/") || dataset_open(&set, &config) ||
        epochs_open(&epochs, &config.order, &set.basis.order, 0) ||
        view_open(&view, &set, epochs, no_text, NULL))
        abort();
    unlink(tar);
    for (size_t i = 0; folder && i < sizeof seeds / sizeof *seeds; i++)
        seed_write(folder, "view", i, seeds[i], strlen(seeds[i]));
    return 0;
}

/* A found file's name is made anew from what it was found to be. */
static void check_spelling(const struct view_node *folder, const char *name, uint64_t inode)
{
    const struct grammar *grammar = view_grammar(view);
    enum grammar_view kind = folder->kind == VIEW_RANK ? GRAMMAR_PLAIN : GRAMMAR_KEYS;
    uint64_t member, sample = 0, position = 0;
    const char *field = "cls";
    char made[GRAMMAR_NAME_BYTES + 1];

    if (view_is_member(view, inode, &member)) {
        sample = index_sample_of(set.index, member);
        field = set.index->fields[set.index->members[member].field];
    } else if (!view_is_label(view, inode, &sample)) {
        return;
    }
    if (!grammar_parse_position(grammar, name, &position))
        abort();
    grammar_file_name(grammar, kind, position, sample, field, made);
    if (strcmp(made, name) != 0)
        abort();
}

static bool are_equal(const struct plan_share *a, const struct plan_share *b)
{
    return a->rank == b->rank && a->world == b->world && a->after == b->after &&
           a->part == b->part && a->parts == b->parts && a->run == b->run;
}

/* The shortest spelling, and the one that a list uses, of a share that was found. */
static void check_share(const struct view_node *folder, const char *name, uint64_t inode)
{
    const struct grammar *grammar = view_grammar(view);
    const struct view_node *node = view_node(view, inode);
    char made[GRAMMAR_SHARE_BYTES], resumed[GRAMMAR_SHARE_BYTES];
    struct plan_share share;
    const char *rest;

    if (!node || node->kind < VIEW_RANK || node->kind > VIEW_STREAM)
        return;
    rest = grammar_parse_share(grammar, name, folder->kind == VIEW_EPOCH, &share);
    if (!rest || !are_equal(&share, &node->plan.share))
        abort();
    if (grammar_share_name(grammar, &share, made) > (size_t)(rest - name))
        abort();
    rest = grammar_parse_share(grammar, made, true, &share);
    if (!rest || *rest || !are_equal(&share, &node->plan.share))
        abort();
    if (grammar_resumed_name(name, 9, resumed, sizeof resumed) >= sizeof resumed)
        abort();
    rest = grammar_parse_share(grammar, resumed, true, &share);
    if (!rest || share.after != 9)
        abort();
    share.after = node->plan.share.after;
    if (!are_equal(&share, &node->plan.share))
        abort();
}

/* A text that is taken is what a control file shows then, or it spells `after 0`. */
static void check_control(const char *text, size_t size)
{
    struct epochs_at at;
    char shown[64];
    int length;

    if (control_parse(&set, "epoch", text, size, &at))
        return;
    if (at.epoch > ORDER_EPOCH_MAX || at.after > SAMPLES)
        abort();
    size -= text[size - 1] == '\n';
    length = snprintf(shown, sizeof shown, "%llu after %llu", (unsigned long long)at.epoch,
                      (unsigned long long)at.after);
    if (size == (size_t)length && memcmp(text, shown, size) == 0)
        return;
    length = snprintf(shown, sizeof shown, "%llu", (unsigned long long)at.epoch);
    if (at.after || size != (size_t)length || memcmp(text, shown, size) != 0)
        abort();
}

static void walk(char *path)
{
    uint64_t met[DEPTH_MOST], inode = VIEW_ROOT_INODE;
    int depth = 0;
    char *name;

    while ((name = strsep(&path, "/")) && depth < DEPTH_MOST) {
        struct view_node *node = view_node(view, inode);
        struct stat status;
        int fault = node ? view_lookup(view, node, name, &inode) : -1;
        if (fault)
            break;
        met[depth++] = inode;
        check_spelling(node, name, inode);
        check_share(node, name, inode);
        if (view_stat(view, inode, &status) && view_node(view, inode))
            abort();
    }
    /* As the kernel does: what lies deeper first. */
    while (depth--)
        if (view_node(view, met[depth]))
            view_forget(view, met[depth], 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[PATH_MOST];

    if (size >= sizeof path)
        return 0;
    check_control((const char *)data, size);
    memcpy(path, data, size);
    path[size] = '\0';
    walk(path);
    return 0;
}
