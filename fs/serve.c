/* The file system's operations. Owns the per-listing counters and one buffer a thread; decides
 * nothing about names or orders (view.h, epochs.h do). */
#include "serve.h"

#include "answer.h"
#include "control.h"
#include "listing.h"
#include "refuse.h"
#include "xattrs.h"

#include "../core/report.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

/* Names and attributes never change under an inode; the kernel may keep them. Seconds. */
#define FOREVER             (365 * 86400.0)
#define BACKGROUND_REQUESTS 256
#define READ_BYTES_MOST     ((size_t)1 << 20)

static struct serve *serve_of(fuse_req_t request)
{
    return fuse_req_userdata(request);
}

/* A reply that cannot be sent means that the request was interrupted or the mount is gone: nobody
 * is left to tell. */
static void reply_error(fuse_req_t request, int fault)
{
    fuse_reply_err(request, fault < 0 ? -fault : fault);
}

static void on_init(void *context, struct fuse_conn_info *connection)
{
    struct serve *serve = context;

    /* No OPEN, FLUSH and RELEASE for each file: the kernel asks once and goes by ENOSYS. What that
     * needs: no O_TRUNC within OPEN, no cache dropped at OPEN. */
    serve->no_open = connection->capable & FUSE_CAP_NO_OPEN_SUPPORT;
    connection->want &= ~(unsigned)(FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_AUTO_INVAL_DATA |
                                    FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_WRITEBACK_CACHE |
                                    FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE |
                                    FUSE_CAP_SPLICE_MOVE | FUSE_CAP_HANDLE_KILLPRIV);
    connection->want |= connection->capable &
                        (FUSE_CAP_READDIRPLUS | FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS);
    connection->max_background = BACKGROUND_REQUESTS;
    connection->congestion_threshold = BACKGROUND_REQUESTS * 3 / 4;
    connection->time_gran = 1;
}

static int stat_inode(struct serve *serve, uint64_t inode, struct stat *status)
{
    struct view_node *node = view_node(serve->view, inode);
    int fault = node ? answer_prepare(serve, node) : 0;

    return fault ? fault : view_stat(serve->view, inode, status);
}

/* Control files are made anew at each LOOKUP: their names must be asked for each time. */
static bool is_frozen(const struct view_node *node)
{
    return node && node->parent == VIEW_CONTROL_INODE && node->inode >= VIEW_NODE_INODE;
}

static int fill_entry(struct serve *serve, uint64_t inode, struct fuse_entry_param *entry)
{
    *entry = (struct fuse_entry_param){
        .ino = inode,
        .attr_timeout = FOREVER,
        .entry_timeout = is_frozen(view_node(serve->view, inode)) ? 0 : FOREVER,
    };
    return stat_inode(serve, inode, &entry->attr);
}

static bool is_sample_folder(const struct view_node *node)
{
    return node->kind == VIEW_RANK || node->kind == VIEW_KEYS || node->kind == VIEW_CLASS;
}

/* Names of samples are good for ever, but some of them expire at once: their LOOKUPs tell where
 * readers are whose files are all in the page cache. */
static bool is_mark(const struct view_node *folder, uint64_t position)
{
    return position % FOLLOW_MARK_EVERY == 0 || position + 1 == folder->plan.length;
}

/* Who reads the classes' folders in the epoch's order is a reader of rank-R.classes. */
static void note_class(struct serve *serve, const struct view_node *folder, uint64_t position,
                       uint64_t inode)
{
    const struct view_node *all = view_node(serve->view, folder->parent);

    switch (shelf_looked(all->shelf, folder->class, position)) {
    case SHELF_IN_ORDER:
        readahead_looked(serve->readahead, all, position, inode);
        break;
    case SHELF_TURNED:
        readahead_left(serve->readahead, all->inode);
        break;
    case SHELF_CLASS_BY_CLASS:
        break;
    }
}

/* Before a LOOKUP in a folder of samples is answered. */
static void note_lookup(struct serve *serve, const struct view_node *folder, const char *name,
                        struct fuse_entry_param *entry)
{
    uint64_t position;

    if (!is_sample_folder(folder) ||
        !grammar_parse_position(view_grammar(serve->view), name, &position))
        return;
    if (is_mark(folder, position))
        entry->entry_timeout = 0;
    if (folder->kind == VIEW_CLASS)
        note_class(serve, folder, position, entry->ino);
    else
        readahead_looked(serve->readahead, folder, position, entry->ino);
}

static void on_lookup(fuse_req_t request, fuse_ino_t parent, const char *name)
{
    struct serve *serve = serve_of(request);
    struct view_node *folder = view_node(serve->view, parent);
    struct fuse_entry_param entry;
    uint64_t inode;
    int fault = folder ? view_lookup(serve->view, folder, name, &inode) : -ENOTDIR;

    if (!fault) {
        fault = fill_entry(serve, inode, &entry);
        if (fault)
            view_forget(serve->view, inode, 1);
        else
            note_lookup(serve, folder, name, &entry);
    }
    if (fault)
        reply_error(request, fault);
    else if (fuse_reply_entry(request, &entry))
        view_forget(serve->view, inode, 1);
}

static void forget(struct serve *serve, uint64_t inode, uint64_t count)
{
    uint64_t member;

    if (view_is_member(serve->view, inode, &member))
        names_forget(serve->names, member);
    else
        view_forget(serve->view, inode, count);
}

static void on_forget(fuse_req_t request, fuse_ino_t inode, uint64_t count)
{
    forget(serve_of(request), inode, count);
    fuse_reply_none(request);
}

static void on_forget_multi(fuse_req_t request, size_t count, struct fuse_forget_data *list)
{
    for (size_t i = 0; i < count; i++)
        forget(serve_of(request), list[i].ino, list[i].nlookup);
    fuse_reply_none(request);
}

static void on_getattr(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file)
{
    struct stat status;
    int fault = stat_inode(serve_of(request), inode, &status);

    (void)file;
    if (fault)
        reply_error(request, fault);
    else
        fuse_reply_attr(request, &status, FOREVER);
}

static bool is_control_file(const struct view_node *node)
{
    return node && (node->kind == VIEW_EPOCH_FILE || node->kind == VIEW_RANK_FILE);
}

/* `> .control/epoch` truncates first: taken, as the text is frozen anyway. All else that changes is
 * refused. */
static void on_setattr(fuse_req_t request, fuse_ino_t inode, struct stat *attributes, int to_set,
                       struct fuse_file_info *file)
{
    struct serve *serve = serve_of(request);
    struct view_node *node = view_node(serve->view, inode);
    struct stat status;
    int fault;

    (void)file;
    if (!is_control_file(node) || !(to_set & FUSE_SET_ATTR_SIZE) || attributes->st_size != 0 ||
        (to_set & (FUSE_SET_ATTR_MODE | FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))) {
        reply_error(request, EROFS);
        return;
    }
    fault = view_stat(serve->view, inode, &status);
    status.st_size = 0;
    if (fault)
        reply_error(request, fault);
    else
        fuse_reply_attr(request, &status, FOREVER);
}

static void on_open(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file)
{
    (void)inode;
    if (serve_of(request)->no_open) {
        reply_error(request, ENOSYS);
        return;
    }
    file->keep_cache = 1;
    fuse_reply_open(request, file);
}

/* One buffer a thread, kept: malloc and page faults for each READ would cost more than the READ. */
static pthread_key_t buffer_key;
static pthread_once_t buffer_once = PTHREAD_ONCE_INIT;

static void make_buffer_key(void)
{
    pthread_key_create(&buffer_key, free);
}

static char *thread_buffer(void)
{
    char *buffer;

    pthread_once(&buffer_once, make_buffer_key);
    buffer = pthread_getspecific(buffer_key);
    if (!buffer) {
        buffer = malloc(READ_BYTES_MOST);
        pthread_setspecific(buffer_key, buffer);
    }
    return buffer;
}

static void on_read(fuse_req_t request, fuse_ino_t inode, size_t size, off_t from,
                    struct fuse_file_info *file)
{
    char *buffer = thread_buffer();
    ssize_t got;

    (void)file;
    if (!buffer || size > READ_BYTES_MOST) {
        reply_error(request, buffer ? EINVAL : ENOMEM);
        return;
    }
    got = answer_read(serve_of(request), inode, buffer, size, (uint64_t)from);
    if (got < 0)
        reply_error(request, (int)got);
    else
        fuse_reply_buf(request, buffer, (size_t)got);
}

static void refuse_write(struct serve *serve, uint64_t inode, bool stored)
{
    atomic_fetch_add(&serve->counters.refused_writes, 1);
    if (!stored)
        return;
    /* Root opened the file for writing and stored through a shared mapping. The kernel now
     * writes the page back; it is refused, and what readers may have seen is taken out of the
     * cache. */
    atomic_fetch_add(&serve->counters.undone_stores, 1);
    report_warning("inode %llu: a store through a shared mapping was undone; samples are read-only",
                   (unsigned long long)inode);
    names_invalidate(serve->names, inode);
}

/* The start of the epoch that `current` moved to is read ahead: for those who read the one before,
 * else for the rank that was named. */
static void warm(struct serve *serve, const struct view_node *file, const struct view_left *left,
                 size_t count, struct epochs_at at)
{
    const struct dataset *dataset = view_dataset(serve->view);
    const struct config *config = dataset->config;
    bool of_all = file->kind == VIEW_EPOCH_FILE;
    struct plan_share share = {
        .rank = of_all ? 0 : file->plan.share.rank,
        .world = of_all ? config->world : file->plan.share.world,
    };
    char name[GRAMMAR_SHARE_BYTES];
    struct plan plan;
    bool known;

    grammar_share_name(view_grammar(serve->view), &share, name);
    share.after = at.after;
    known = !(of_all && share.world > 1) && dataset_plan(dataset, &share, &plan);
    readahead_moved(serve->readahead, left, count, known ? name : NULL, at, known ? &plan : NULL);
}

static void on_write(fuse_req_t request, fuse_ino_t inode, const char *text, size_t size,
                     off_t from, struct fuse_file_info *file)
{
    struct serve *serve = serve_of(request);
    struct view_node *node = view_node(serve->view, inode);
    bool stored = file->writepage;
    struct view_left *left;
    struct epochs_at at, before;
    size_t count;
    int fault;

    if (!is_control_file(node)) {
        reply_error(request, EROFS);
        refuse_write(serve, inode, stored);
        return;
    }
    /* At the start, or appended to the frozen text (`>>`): the text of one write is the whole
     * of what is asked. */
    if ((from != 0 && (size_t)from != node->text_bytes) ||
        control_parse(view_dataset(serve->view), node->name, text, size, &at) != 0) {
        reply_error(request, EINVAL);
        return;
    }
    before = node->kind == VIEW_EPOCH_FILE
                 ? epochs_of_all(view_epochs(serve->view))
                 : epochs_of_rank(view_epochs(serve->view), node->plan.share.rank,
                                  node->plan.share.world);
    fault = view_move(serve->view, node->kind == VIEW_EPOCH_FILE, node->plan.share.rank,
                      node->plan.share.world, at, &left, &count);
    if (fault) {
        free(left);
        reply_error(request, fault);
        return;
    }
    if (left || !epochs_are_same(before, at))
        warm(serve, node, left, count, at);
    if (left)
        atomic_fetch_add(&serve->counters.switches, 1);
    names_drop(serve->names, request, size, left, count);
}

/* Folders keep no state between OPENDIR and RELEASEDIR: an offset says it all. OPENDIR itself
 * stays, for it shows that a folder is listed. */
static void on_opendir(fuse_req_t request, fuse_ino_t inode, struct fuse_file_info *file)
{
    (void)inode;
    fuse_reply_open(request, file);
}

/* A READDIR or READDIRPLUS answer being filled. */
struct filling {
    fuse_req_t request;
    struct serve *serve;
    const struct view_node *node;
    char *buffer;
    size_t room, used;
    bool plus;
    uint64_t prime;  /* positions before it get their names instantiated */
    uint64_t primed; /* up to here they were */
};

/* An entry past `prime=`, or one whose node only a LOOKUP makes, is listed but not
 * instantiated: inode 0. Of what is instantiated here, only members and labels, the kernel's
 * count needs no keeping. */
static bool fill(void *context, const struct listing_entry *item)
{
    struct filling *filling = context;
    char *to = filling->buffer + filling->used;
    size_t room = filling->room - filling->used, need;
    struct fuse_entry_param entry = {
        .attr = {.st_ino = item->inode ? item->inode : UINT32_MAX, .st_mode = item->type}};
    bool primed = filling->plus && item->position < filling->prime;

    if (primed && fill_entry(filling->serve, item->inode, &entry))
        primed = false;
    if (primed && is_mark(filling->node, item->position))
        entry.entry_timeout = 0;
    need = filling->plus
               ? fuse_add_direntry_plus(filling->request, to, room, item->name, &entry, item->next)
               : fuse_add_direntry(filling->request, to, room, item->name, &entry.attr, item->next);
    if (need > room)
        return false;
    filling->used += need;
    if (primed)
        filling->primed = item->position;
    return true;
}

/* The keeper's folder: each member that waits for a name gets one, in whatever order. */
static void fill_keeper(struct filling *filling, off_t offset)
{
    struct fuse_entry_param entry;
    uint64_t from = (uint64_t)offset, member;
    char name[24];

    while (filling->used + 256 <= filling->room &&
           names_next(filling->serve->names, from, &member)) {
        snprintf(name, sizeof name, "%llu", (unsigned long long)member);
        if (fill_entry(filling->serve, VIEW_MEMBER_INODE + member, &entry))
            return;
        from = member + 1;
        filling->used += fuse_add_direntry_plus(filling->request, filling->buffer + filling->used,
                                                filling->room - filling->used, name, &entry,
                                                (off_t)from);
    }
}

static void list(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset,
                 struct fuse_file_info *file, bool plus)
{
    struct serve *serve = serve_of(request);
    struct view_node *node = view_node(serve->view, inode);
    struct filling filling = {
        .request = request,
        .serve = serve,
        .node = node,
        .prime = readahead_is_scout(serve->readahead, fuse_req_ctx(request)->pid) ? UINT64_MAX - 1
                                                                                  : serve->prime,
        .buffer = thread_buffer(),
        .room = size < READ_BYTES_MOST ? size : READ_BYTES_MOST,
        .plus = plus,
    };
    int fault = 0;

    (void)file;
    if (!node || !filling.buffer)
        fault = node ? ENOMEM : ENOTDIR;
    else if (node->kind == VIEW_KEEPER && plus)
        fill_keeper(&filling, offset);
    else
        fault = listing_give(serve->view, node, offset, fill, &filling);
    /* Names of a class are not those of neighbouring positions. */
    if (filling.primed && filling.prime == serve->prime && node->kind != VIEW_CLASS)
        readahead_listed(serve->readahead, node, filling.primed);
    if (fault)
        reply_error(request, fault);
    else
        fuse_reply_buf(request, filling.buffer, filling.used);
}

static void on_readdir(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset,
                       struct fuse_file_info *file)
{
    list(request, inode, size, offset, file, false);
}

static void on_readdirplus(fuse_req_t request, fuse_ino_t inode, size_t size, off_t offset,
                           struct fuse_file_info *file)
{
    list(request, inode, size, offset, file, true);
}

static void on_statfs(fuse_req_t request, fuse_ino_t inode)
{
    const struct index *index = view_dataset(serve_of(request)->view)->index;
    struct statvfs status = {
        .f_bsize = 4096,
        .f_frsize = 4096,
        .f_blocks = (index->bytes + 4095) / 4096,
        .f_files = index->member_count,
        .f_namemax = 255,
    };

    (void)inode;
    fuse_reply_statfs(request, &status);
}

/* write(2) copies into the page cache before the kernel asks us: other readers would see the bytes
 * until our EROFS arrives. But before it copies, the kernel asks whether the file has capabilities
 * that a write must remove (file_remove_privs in fs/inode.c, cap_inode_need_killpriv in
 * security/commoncap.c). So samples claim to have some; the kernel asks to have them removed, is
 * refused, and refuses the write before a byte was copied. Nothing lists or honours the claim: it
 * is no valid value, and samples are not executable. A store through a shared mapping does not pass
 * there. */
#define CAPABILITY "security.capability"

static bool is_read_only_file(struct serve *serve, uint64_t inode)
{
    struct view_node *node = view_node(serve->view, inode);
    uint64_t which;

    return view_is_member(serve->view, inode, &which) ||
           view_is_label(serve->view, inode, &which) ||
           (node && (node->kind == VIEW_LIST || node->kind == VIEW_STREAM));
}

static void on_getxattr(fuse_req_t request, fuse_ino_t inode, const char *name, size_t size)
{
    struct serve *serve = serve_of(request);
    char *value = NULL;
    ssize_t bytes;

    if (strcmp(name, CAPABILITY) == 0 && is_read_only_file(serve, inode)) {
        if (size == 0)
            fuse_reply_xattr(request, 1);
        else
            fuse_reply_buf(request, "", 1);
        return;
    }
    bytes = xattrs_get(serve->view, inode, name, &value);
    if (bytes < 0)
        reply_error(request, (int)bytes);
    else if (size == 0)
        fuse_reply_xattr(request, (size_t)bytes);
    else if ((size_t)bytes > size)
        reply_error(request, ERANGE);
    else
        fuse_reply_buf(request, value, (size_t)bytes);
    if (bytes >= 0)
        free(value);
}

static void on_removexattr(fuse_req_t request, fuse_ino_t inode, const char *name)
{
    struct serve *serve = serve_of(request);

    reply_error(request, EROFS);
    if (strcmp(name, CAPABILITY) == 0 && is_read_only_file(serve, inode))
        refuse_write(serve, inode, false);
}

static void on_listxattr(fuse_req_t request, fuse_ino_t inode, size_t size)
{
    const char *list;
    size_t bytes = xattrs_list(serve_of(request)->view, inode, &list);

    if (size == 0)
        fuse_reply_xattr(request, bytes);
    else if (bytes > size)
        reply_error(request, ERANGE);
    else
        fuse_reply_buf(request, list, bytes);
}

const struct fuse_lowlevel_ops serve_operations = {
    .init = on_init,
    .lookup = on_lookup,
    .forget = on_forget,
    .forget_multi = on_forget_multi,
    .getattr = on_getattr,
    .setattr = on_setattr,
    .open = on_open,
    .read = on_read,
    .write = on_write,
    .opendir = on_opendir,
    .readdir = on_readdir,
    .readdirplus = on_readdirplus,
    .statfs = on_statfs,
    .getxattr = on_getxattr,
    .listxattr = on_listxattr,
    .mknod = refuse_mknod,
    .mkdir = refuse_mkdir,
    .unlink = refuse_remove,
    .rmdir = refuse_remove,
    .symlink = refuse_symlink,
    .rename = refuse_rename,
    .link = refuse_link,
    .create = refuse_create,
    .setxattr = refuse_setxattr,
    .removexattr = on_removexattr,
    .fallocate = refuse_fallocate,
    .copy_file_range = refuse_copy_file_range,
};
