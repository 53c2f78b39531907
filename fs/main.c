/* shufflefs: arguments, the daemon's birth and end, signals. Owns the process; everything else is
 * opened here in order and closed in reverse. */
#include "control.h"
#include "guard.h"
#include "memory.h"
#include "mountpoint.h"
#include "names.h"
#include "serve.h"
#include "view.h"

#include "../core/clock.h"
#include "../core/command_line.h"
#include "../core/output.h"
#include "../core/report.h"
#include "../core/version.h"

#include <archive.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PRIME_PRIVILEGED     65536
#define PRIME_UNPRIVILEGED   262144
#define READ_AHEAD_KILOBYTES 1024
#define THREADS_MOST         256

enum { EXIT_FAULT = 1, EXIT_USAGE = 2 };

struct program {
    struct config config;
    struct dataset dataset;
    struct reader *reader;
    struct epochs *epochs;
    struct view *view;
    struct control control;
    struct serve serve;
    struct fuse_session *session;
    struct guard guard;
    char *mountpoint;
    const char *source; /* the first word of SHARDS as typed: mount(8) knows its line by it */
    bool foreground;
    int parent; /* where the shell's process waits for a byte; -1: nobody waits */
    pthread_t main_thread;
    atomic_bool loop_ended;
    atomic_bool answered; /* the mount answered once */
};

static const char usage[] =
    "usage: shufflefs [-f] [-o OPTION[=VALUE],...] SHARDS... MOUNTPOINT\n"
    "       shufflefs [-f] [-o ...] -c FILE [SHARDS...] MOUNTPOINT\n"
    "\n"
    "Mounts tar shards: epoch-E/rank-R/ is a folder whose file order is the epoch's distributed "
    "shuffle.\n"
    "SHARDS: tar files, folders of *.tar, patterns like 'train-{000000..000146}.tar', globs, "
    "@LIST.\n"
    "\n"
    "  -f           stay in the foreground\n"
    "  -c FILE      read options and shards from an ini file\n"
    "  -o LIST      options, separated by commas\n"
    "  -d           debug libfuse; stays in the foreground\n"
    "  -v           say what is done\n"
    "  -h, --help   this help        -V, --version   the version\n"
    "\n"
    "  world=W                     ranks that the epoch is dealt over (1)\n"
    "  seed=S, epoch=E             as DistributedSampler's seed; the epoch shown at the start (0, "
    "0)\n"
    "  order=NAME                  torch, sequential, contiguous, weighted, resampled, block, "
    "feistel, length (torch)\n"
    "  remainder=pad|drop|keep     when ranks do not divide the epoch (pad); drop_last = drop\n"
    "  epoch_samples=N             samples of an epoch (those of the data set)\n"
    "  weights=FILE|balanced       order=weighted: a weight a line, or all classes alike\n"
    "  lengths=FILE|size           order=length: a length a line, or bytes; bucket=B: the global "
    "batch\n"
    "  window=N                    order=contiguous: neighbours that stay together (1); block: "
    "blocks of a pool (64)\n"
    "  block=SIZE, streams=N       order=block: bytes of a block, streams (8M, 64)\n"
    "  fields=jpg/jpeg/png:cls     which fields appear, with alternatives (all)\n"
    "  label=auto|cls|dir|shard|json:KEY|none  where a sample's class comes from (auto)\n"
    "  readahead=SIZE              most bytes pushed but unread for one reader (256M); 0: none\n"
    "  readahead_total=SIZE        and for all readers (a quarter of memory)\n"
    "  direct=auto|always|never    read shards ahead around the page cache (auto: what is cold)\n"
    "  prime=N                     names that one listing instantiates (65536; 262144 without "
    "privilege)\n"
    "  index=PATH|none             where the index of the shards is saved (user's cache folder)\n"
    "  unpacked=DIR|none           where compressed shards are unpacked once (the user's cache "
    "folder)\n"
    "  unpacked_size=SIZE          most bytes there (half of what is free)\n"
    "  strict                      refuse shards with any problem\n"
    "  uid=, gid=, allow_other, log=FILE, debug, and the usual words of mount(8)\n"
    "\n"
    "Unmount with `umount MOUNTPOINT` or `fusermount3 -u MOUNTPOINT`.\n";

static void print_version(void)
{
    printf("shufflefs %s\nlibfuse %s, %s\n", SHUFFLEFS_VERSION, fuse_pkgversion(),
           archive_version_string());
}

static int fail_usage(const char *what)
{
    report_error("%s; `shufflefs --help` tells more", what);
    return EXIT_USAGE;
}

static int read_settings(struct program *program, const char *file, char **lists, size_t count,
                         const char *base)
{
    int fault = file ? config_read(&program->config, file, base) : 0;

    for (size_t i = 0; !fault && i < count; i++)
        fault = config_set_options(&program->config, lists[i], base);
    return fault ? fault : config_settle(&program->config);
}

static int add_shards(struct program *program, char **names, size_t count, const char *base)
{
    int fault = 0;

    for (size_t i = 0; !fault && i < count; i++)
        fault = shards_add(&program->config.shards, names[i], base);
    return fault ? fault : shards_check(&program->config.shards);
}

/* What is kept below the mount point would be out of sight from the moment that the mount answers.
 */
static bool keeps_below(const struct program *program)
{
    const struct config *config = &program->config;
    const char *const kept[][2] = {
        {"index", config->index}, {"unpacked", config->unpacked}, {"log", config->log}};

    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (kept[i][1] && mountpoint_hides(program->mountpoint, kept[i][1])) {
            report_error("%s=%s lies in the mount point, where the mount hides it", kept[i][0],
                         kept[i][1]);
            return true;
        }
    return false;
}

/* A file that cannot be read is a matter of usage, as what is wrong in it. */
static bool can_read(const char *file)
{
    struct stat status;
    int fault = stat(file, &status) || access(file, R_OK) ? errno
                : S_ISDIR(status.st_mode)                 ? EISDIR
                                                          : 0;

    if (fault)
        report_error("%s: %s", file, strerror(fault));
    return !fault;
}

/* Reads the command line. 0: mount; else the exit code plus one. */
static int read_arguments(struct program *program, int count, char **arguments, char **lists)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
    const char *file = NULL;
    char base[4096];
    size_t list_count = 0;
    int option, fault;

    while ((option = command_line_next(count, arguments, ":fc:o:dvhV", options)) != -1) {
        switch (option) {
        case 'f':
            program->foreground = true;
            break;
        case 'c':
            file = optarg;
            break;
        case 'o':
            lists[list_count++] = optarg;
            break;
        case 'd':
            program->config.debug = true;
            break;
        case 'v':
            report_verbose(true);
            break;
        case 'h':
            fputs(usage, stdout);
            return output_end() ? EXIT_FAULT + 1 : 1;
        case 'V':
            print_version();
            return output_end() ? EXIT_FAULT + 1 : 1;
        default:
            return EXIT_USAGE + 1; /* reported */
        }
    }
    if (!getcwd(base, sizeof base)) {
        report_error("the current folder: %s", strerror(errno));
        return EXIT_FAULT + 1;
    }
    if (optind == count)
        return fail_usage("no mount point given") + 1;
    if (!file && optind + 1 == count)
        return fail_usage("no shards, or no mount point, given") + 1;
    if (file && !can_read(file))
        return EXIT_USAGE + 1;
    fault = read_settings(program, file, lists, list_count, base);
    /* A wrong option is a matter of usage; a shard or a file that is not there is not. */
    if (fault)
        return (fault == -EINVAL ? EXIT_USAGE : EXIT_FAULT) + 1;
    program->source = optind + 1 < count ? arguments[optind] : file;
    if (add_shards(program, arguments + optind, (size_t)(count - optind - 1), base) ||
        mountpoint_prepare(arguments[count - 1], &program->mountpoint))
        return EXIT_FAULT + 1;
    return keeps_below(program) ? EXIT_USAGE + 1 : 0;
}

/* libfuse's own words, as one line of ours. */
static void on_fuse_log(enum fuse_log_level level, const char *format, va_list arguments)
{
    char text[512];
    size_t length;

    vsnprintf(text, sizeof text, format, arguments);
    length = strlen(text);
    while (length && text[length - 1] == '\n')
        text[--length] = '\0';
    if (level <= FUSE_LOG_ERR)
        report_error("%s", text);
    else if (level <= FUSE_LOG_WARNING)
        report_warning("%s", text);
    else
        fprintf(stderr, "%s\n", text); /* debug: only in the foreground */
}

/* A text as libfuse wants it written within its options. */
static void escape(const char *text, char *to, size_t room)
{
    size_t used = 0;

    for (; *text && used + 3 < room; text++) {
        if (*text == ',' || *text == '\\')
            to[used++] = '\\';
        to[used++] = *text;
    }
    to[used] = '\0';
}

static int open_session(struct program *program)
{
    const struct config *config = &program->config;
    char source[1024], *options = NULL;
    char *arguments[4] = {"shufflefs", "-o", NULL, NULL};
    struct fuse_args args = {.argc = 3, .argv = arguments};

    escape(program->source, source, sizeof source);
    /* default_permissions is what checks who may open what: with no OPEN, nobody asks here. */
    if (asprintf(&options, "fsname=%s,subtype=shufflefs,default_permissions%s%s%s%s", source,
                 config->allow_other ? ",allow_other" : "", config->debug ? ",debug" : "",
                 config->mount_options ? "," : "",
                 config->mount_options ? config->mount_options : "") < 0)
        return -ENOMEM;
    arguments[2] = options;
    fuse_set_log_func(on_fuse_log);
    program->session = fuse_session_new(&args, &serve_operations, sizeof serve_operations,
                                        &program->serve);
    fuse_opt_free_args(&args); /* libfuse took a copy of its own there */
    free(options);
    if (!program->session)
        return -EINVAL;
    if (fuse_session_mount(program->session, program->mountpoint)) {
        report_error("%s: cannot mount", program->mountpoint);
        fuse_session_destroy(program->session);
        program->session = NULL;
        return -EPERM;
    }
    return 0;
}

/* `prime=` counts names; a listing goes by positions, of which each has as many names as a sample
 * has fields. */
static uint64_t names_to_prime(const struct program *program)
{
    const struct index *index = program->dataset.index;
    uint64_t fields = index->member_count / index->sample_count + program->dataset.makes_cls;
    uint64_t names = program->config.prime;

    if (names == 0)
        names = geteuid() == 0 ? PRIME_PRIVILEGED : PRIME_UNPRIVILEGED;
    return names / (fields ? fields : 1);
}

/* A quarter of the memory, where nothing is said. */
static uint64_t readahead_total(const struct config *config)
{
    return config->readahead_total ? config->readahead_total : memory_limit() / 4;
}

/* Half of what may be read ahead is for blocks that wait in memory. */
static int prepare_blocks(struct program *program)
{
    const struct config *config = &program->config;
    const struct basis *basis = &program->dataset.basis;
    struct blocks_quality quality;
    int fault = reader_keep_blocks(program->reader, &basis->blocks, config->order.block,
                                   readahead_total(config) / 2);

    if (!fault)
        fault = blocks_window(basis, &program->dataset.labels, &config->order, &quality);
    if (!fault && blocks_warning(&quality, &config->order, program->serve.blocks_warning))
        report_warning("%s", program->serve.blocks_warning);
    return fault;
}

static int open_all(struct program *program)
{
    struct config *config = &program->config;
    int fault;

    if (config->uid == CONFIG_ID_UNSET)
        config->uid = getuid();
    if (config->gid == (gid_t)CONFIG_ID_UNSET)
        config->gid = getgid();
    fault = dataset_open(&program->dataset, config);
    if (fault)
        return fault;
    fault = reader_open(&program->reader, program->dataset.index, 0, config->direct);
    if (!fault && config->order.kind == ORDER_BLOCK)
        fault = prepare_blocks(program);
    if (!fault)
        fault = epochs_open(&program->epochs, &config->order, &program->dataset.basis.order,
                            config->epoch);
    program->control = (struct control){.dataset = &program->dataset,
                                        .epochs = program->epochs,
                                        .reader = program->reader,
                                        .serve = &program->serve,
                                        .started_s = clock_now_s()};
    if (!fault)
        fault = view_open(&program->view, &program->dataset, program->epochs, control_text,
                          &program->control);
    program->serve.view = program->view;
    program->serve.reader = program->reader;
    program->serve.prime = names_to_prime(program);
    if (fault)
        report_error("no memory for the mount");
    return fault;
}

static void close_all(struct program *program)
{
    view_close(program->view);
    epochs_close(program->epochs);
    reader_close(program->reader);
    dataset_close(&program->dataset);
    config_close(&program->config);
    free(program->mountpoint);
}

/* The mount answers: leave the terminal and tell the process that the shell waits for. */
static void announce(struct program *program)
{
    int null;

    if (program->config.log && report_to_file(program->config.log) != 0)
        report_warning("log=%s: going on without", program->config.log);
    report_info("%s: mounted, %llu sample%s, fingerprint %s", program->mountpoint,
                (unsigned long long)program->dataset.index->sample_count,
                program->dataset.index->sample_count == 1 ? "" : "s", program->dataset.fingerprint);
    if (program->parent < 0)
        return;
    if (!program->config.log)
        report_to_syslog();
    setsid();
    if (chdir("/"))
        report_warning("/: %s", strerror(errno));
    null = open("/dev/null", O_RDWR);
    for (int fd = 0; null >= 0 && fd <= 2; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
    if (write(program->parent, "", 1) != 1) {
        report_warning("%s: the process that asked for this mount is gone: ending",
                       program->mountpoint);
        kill(getpid(), SIGTERM);
    }
    close(program->parent);
    program->parent = -1;
}

static void do_nothing(int number)
{
    (void)number;
}

static void stop_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
    sigaddset(set, SIGCHLD);
}

/* Waits for a signal that ends the mount. The guard's end does not. */
static int wait_for_stop(struct program *program)
{
    sigset_t set;
    int number;

    stop_signals(&set);
    /* It may have ended while SIGCHLD was still ignored. */
    for (guard_renew(&program->guard);; guard_renew(&program->guard)) {
        while (sigwait(&set, &number) != 0)
            ;
        if (number != SIGCHLD)
            return number;
    }
}

/* Waits until the mount answers, then for a signal to end it. SIGUSR1 comes from main, when the
 * loop ended by itself. The names thread ends first, while there are handlers to answer it; then
 * libfuse's loop, whose main thread sleeps until a signal wakes it. */
static void *watch(void *context)
{
    struct program *program = context;
    const struct timespec pause = {.tv_nsec = 5000000};
    struct stat root;
    int number;

    if (stat(program->mountpoint, &root) == 0) {
        /* Another inode: somebody was quick to unmount it again, which is no fault. */
        if (root.st_ino == VIEW_ROOT_INODE) {
            mountpoint_read_ahead(&root, READ_AHEAD_KILOBYTES);
            guard_watch(&program->guard, root.st_dev);
        }
        atomic_store(&program->answered, true);
        announce(program);
    } else if (!atomic_load(&program->loop_ended)) {
        report_error("%s: mounted, but does not answer: %s", program->mountpoint, strerror(errno));
        kill(getpid(), SIGTERM);
    }
    number = wait_for_stop(program);
    readahead_stop(program->serve.readahead);
    names_stop(program->serve.names);
    if (number == SIGUSR1) {
        guard_release(&program->guard);
        return NULL;
    }
    report_info("%s: ending by signal %d", program->mountpoint, number);
    fuse_session_exit(program->session);
    while (!atomic_load(&program->loop_ended)) {
        pthread_kill(program->main_thread, SIGUSR2);
        nanosleep(&pause, NULL);
    }
    guard_release(&program->guard);
    return NULL;
}

static int loop(struct program *program)
{
    struct fuse_loop_config *config = fuse_loop_cfg_create();
    int result;

    if (!config)
        return -ENOMEM;
    fuse_loop_cfg_set_clone_fd(config, 1);
    fuse_loop_cfg_set_max_threads(config, THREADS_MOST);
    result = fuse_session_loop_mt(program->session, config);
    fuse_loop_cfg_destroy(config);
    return result < 0 ? result : 0;
}

static int serve_mount(struct program *program)
{
    struct sigaction wake = {.sa_handler = do_nothing};
    pthread_t watcher;
    sigset_t set;
    int fault;

    /* From here on it is announce() that notices when the parent is gone. The setting is the
     * thread's that made it. */
    prctl(PR_SET_PDEATHSIG, 0);
    /* Before any thread starts: all of them block these, so that sigwait() alone gets them. */
    stop_signals(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    sigaction(SIGUSR2, &wake, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_DFL); /* whoever started this may have ignored it */
    program->main_thread = pthread_self();
    fault = names_open(&program->serve.names, program->session, program->view, program->mountpoint);
    if (fault)
        return fault;
    fault = readahead_open(&program->serve.readahead, program->session, program->view,
                           program->reader, program->serve.names, program->config.readahead,
                           readahead_total(&program->config));
    if (fault) {
        names_stop(program->serve.names);
        names_close(program->serve.names);
        return fault;
    }
    fault = -pthread_create(&watcher, NULL, watch, program);
    if (!fault) {
        fault = loop(program);
        atomic_store(&program->loop_ended, true);
        /* Taken by the watcher if it still waits for a signal; pending, and harmless, if it does
         * not. */
        pthread_kill(watcher, SIGUSR1);
        pthread_join(watcher, NULL);
    } else {
        readahead_stop(program->serve.readahead);
        names_stop(program->serve.names);
    }
    readahead_close(program->serve.readahead);
    program->serve.readahead = NULL;
    names_close(program->serve.names);
    return fault;
}

static int run(struct program *program)
{
    int fault;

    guard_start(&program->guard, program->mountpoint);
    fault = open_all(program);
    if (!fault)
        fault = open_session(program);
    if (!fault) {
        fault = serve_mount(program);
        if (fault)
            report_error("%s: %s", program->mountpoint, strerror(-fault));
        report_info("%s: ended", program->mountpoint);
        guard_end(&program->guard);
        fuse_session_unmount(program->session);
        fuse_session_destroy(program->session);
        if (!atomic_load(&program->answered))
            fault = -EIO;
    }
    guard_end(&program->guard);
    close_all(program);
    return fault ? EXIT_FAULT : 0;
}

/* The shell's process: ends once the child's mount answers, or with the child's exit code. */
static int wait_for_child(int from, pid_t child)
{
    char byte;
    int status;

    for (;;) {
        ssize_t got = read(from, &byte, 1);
        if (got == 1)
            return 0;
        if (got == 0 || errno != EINTR)
            break;
    }
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return EXIT_FAULT;
    if (WIFSIGNALED(status))
        report_error("ended by signal %d before the mount answered", WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : EXIT_FAULT;
}

static int start(struct program *program)
{
    pid_t parent = getpid(), child;
    int pipes[2];

    if (program->foreground || program->config.debug)
        return run(program);
    if (pipe2(pipes, O_CLOEXEC) || (child = fork()) < 0) {
        report_error("cannot start the daemon: %s", strerror(errno));
        close_all(program);
        return EXIT_FAULT;
    }
    if (child) {
        close(pipes[1]);
        close_all(program);
        return wait_for_child(pipes[0], child);
    }
    close(pipes[0]);
    program->parent = pipes[1];
    /* Who ends the process that the shell waits for (Ctrl-C, kill, a time limit) does not want the
     * mount to come up later. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        return EXIT_FAULT;
    return run(program);
}

int main(int count, char **arguments)
{
    struct program program = {.parent = -1};
    char **lists = calloc((size_t)count + 1, sizeof *lists);
    int code;

    output_open();
    report_program("shufflefs");
    config_init(&program.config);
    code = lists ? read_arguments(&program, count, arguments, lists) : EXIT_FAULT + 1;
    free(lists);
    if (code) {
        close_all(&program);
        return code - 1;
    }
    return start(&program);
}
