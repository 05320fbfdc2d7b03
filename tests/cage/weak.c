/*
 * The launcher of the weak cages. What kaged itself decides, the plan and bwrap's arguments, comes
 * from kaged's own functions and is edited here; the rest follows the spawner step by step. It
 * stages nothing: as root, what is bound has to be readable by the user of the cages.
 */
#include "weak.h"
#include "seccomp-filters.h"
#include "world.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define FILES_SOFT       1024
#define FILES_HARD       4096
#define MOUNTS_MAX_BYTES (1 << 20)
#define MANY             100000

/* -- the plan ---------------------------------------------------------------------------------- */

static const struct {
    unsigned without;
    enum cage_step_kind kind;
    const char *path;
} step_edits[] = {
    {WITHOUT_PROC_1_MASK, CAGE_STEP_TMPFS, "/proc/1"},
    {WITHOUT_PROC_1_MASK, CAGE_STEP_READ_ONLY, "/proc/1"},
    {WITHOUT_ROOT_READ_ONLY, CAGE_STEP_READ_ONLY, "/"},
    {WITHOUT_PROC_MASKS, CAGE_STEP_SYSTEM, "/proc/keys"},
    {WITHOUT_PROC_MASKS, CAGE_STEP_SYSTEM, "/proc/cmdline"},
    {WITHOUT_PROC_READ_ONLY, CAGE_STEP_READ_ONLY, "/proc"},
};

static bool is_taken_away(const struct cage_step *step, unsigned without)
{
    bool is_device = step->kind == CAGE_STEP_DEVICE || step->kind == CAGE_STEP_LINK;
    if ((without & WITHOUT_FEW_DEVICES) != 0 && is_device && kg_path_within(step->path, "/dev"))
        return true;
    if ((without & WITHOUT_PARTS) != 0 && step->part && step->kind == CAGE_STEP_WRITE)
        return true;
    for (size_t i = 0; i < KG_COUNT(step_edits); i++)
        if ((without & step_edits[i].without) != 0 && step->kind == step_edits[i].kind &&
            strcmp(step->path, step_edits[i].path) == 0)
            return true;
    return false;
}

/* What is shown comes right before the plugin's folder: over /tmp, and before the root is closed.
 */
static void edit_steps(struct cage_plan *plan, const struct weak_cage *weak)
{
    struct cage_steps old = plan->steps;
    plan->steps = (struct cage_steps){0};
    for (size_t i = 0; i < old.count; i++) {
        const struct cage_step *step = &old.items[i];
        enum cage_step_kind kind = step->kind;
        if (is_taken_away(step, weak->without))
            continue;
        if (weak->shown != NULL && kind == CAGE_STEP_BIND && strcmp(step->path, plan->folder) == 0)
            cage_steps_add(&plan->steps, CAGE_STEP_SYSTEM, weak->shown, weak->shown, 0);
        if (kind == CAGE_STEP_BIND && (weak->without & WITHOUT_READ_ONLY_BINDS) != 0)
            kind = CAGE_STEP_WRITE;
        if ((weak->without & WITHOUT_OPEN_SOURCE) != 0)
            kind = kind == CAGE_STEP_BIND    ? CAGE_STEP_SYSTEM
                   : kind == CAGE_STEP_WRITE ? CAGE_STEP_DEVICE
                                             : kind;
        cage_steps_add(&plan->steps, kind, step->path, step->source, step->bytes);
    }
    cage_steps_free(&old);
}

static struct cage_plan *edited_plan(const struct cage_plan *plan, const struct weak_cage *weak)
{
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    cage_plan_encode(plan, &bytes);
    struct kg_err err;
    struct cage_plan *edited = cage_plan_decode(kg_buf_view(&bytes), &err);
    if (edited == NULL)
        fail_msg("%s", err.message);
    edit_steps(edited, weak);
    edited->landlock = edited->landlock && (weak->without & WITHOUT_LANDLOCK) == 0;
    if ((weak->without & WITHOUT_PROCESS_LIMIT) != 0)
        edited->processes_max = MANY;
    return edited;
}

/* -- bwrap's options --------------------------------------------------------------------------- */

static const struct {
    unsigned without;
    const char *option;
    unsigned values;
    int value; /* the only one that is meant, or 0 */
} option_edits[] = {
    {WITHOUT_CALL_FILTER, "--add-seccomp-fd", 1, CAGE_FD_CALLS},
    {WITHOUT_ARGUMENT_FILTER, "--add-seccomp-fd", 1, CAGE_FD_ARGUMENTS},
    {WITHOUT_PID_NAMESPACE, "--unshare-pid", 0, 0},
    {WITHOUT_NET_NAMESPACE, "--unshare-net", 0, 0},
    {WITHOUT_IPC_NAMESPACE, "--unshare-ipc", 0, 0},
    {WITHOUT_CGROUP_NAMESPACE, "--unshare-cgroup-try", 0, 0},
    {WITHOUT_UTS_NAMESPACE, "--unshare-uts", 0, 0},
    {WITHOUT_UTS_NAMESPACE, "--hostname", 1, 0},
    {WITHOUT_USERNS_DISABLED, "--disable-userns", 0, 0},
    {WITHOUT_NEW_SESSION, "--new-session", 0, 0},
    {WITHOUT_DIE_WITH_PARENT, "--die-with-parent", 0, 0},
    {WITHOUT_CAP_DROP, "--cap-drop", 1, 0},
    {WITHOUT_SIZES, "--size", 1, 0},
};

static const char *after(const char *word)
{
    return word + strlen(word) + 1;
}

/* How many words to leave out at this one. */
static unsigned words_to_drop(const char *word, unsigned without)
{
    for (size_t i = 0; i < KG_COUNT(option_edits); i++) {
        if ((without & option_edits[i].without) == 0 || strcmp(word, option_edits[i].option) != 0)
            continue;
        if (option_edits[i].value == 0 || atoi(after(word)) == option_edits[i].value)
            return option_edits[i].values + 1;
    }
    return 0;
}

static void edit_options(const struct kg_buf *options, unsigned without, struct cage_words *words)
{
    for (const char *word = options->data; word < options->data + options->length;) {
        unsigned drop = words_to_drop(word, without);
        if (strcmp(word, "--proc") == 0 && (without & WITHOUT_FEW_DEVICES) != 0) {
            cage_words_add(words, "--dev");
            cage_words_add(words, "/dev");
        }
        if (drop == 0)
            cage_words_add(words, word);
        for (unsigned i = 0; i < (drop > 0 ? drop : 1); i++)
            word = after(word);
    }
}

/* bwrap, its options or where they are, the shim unless it is taken away, the command. */
static void make_argv(const struct cage_plan *plan, const struct cage_words *options,
                      unsigned without, struct cage_words *argv)
{
    struct cage_words all = {0};
    cage_argv_command(&all);
    size_t at = 0;
    while (strcmp(all.items[at], "--") != 0)
        at++;
    cage_words_add(argv, all.items[0]);
    if ((without & WITHOUT_ARGS_FD) != 0) {
        for (size_t i = 0; i < options->count; i++)
            cage_words_add(argv, options->items[i]);
    } else {
        for (size_t i = 1; i < at; i++)
            cage_words_add(argv, all.items[i]);
    }
    if ((without & WITHOUT_SHIM) == 0) {
        for (; at < all.count; at++)
            cage_words_add(argv, all.items[at]);
    } else {
        cage_words_add(argv, "--");
        for (size_t i = 0; i < plan->command.count; i++)
            cage_words_add(argv, plan->command.items[i]);
    }
    cage_words_free(&all);
}

/* -- in the child, as in the spawner ----------------------------------------------------------- */

struct launch {
    const struct weak_cage *weak;
    struct cage_plan *plan;
    struct cage_words argv;
    int fds[CAGE_FDS]; /* fds[n] becomes fd n of bwrap */
    int out_fd, err_fd, block_fd;
};

__attribute__((noreturn)) static void give_up(const char *what)
{
    dprintf(STDERR_FILENO, "weak cage: %s: %s\n", what, strerror(errno));
    _exit(127);
}

static int memory_file(const void *data, size_t length)
{
    int fd = memfd_create("weak", MFD_CLOEXEC);
    if (fd < 0 || kg_write_all(fd, data, length) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        give_up("memfd");
    return fd;
}

static int open_source(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    if (fd < 0)
        give_up(path);
    return fd;
}

static int open_or_give_up(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        give_up(path);
    return fd;
}

static int open_shim(void)
{
    kg_auto(kg_free) char *path = cage_helper_path("kaged-cage-init");
    return open_or_give_up(path != NULL ? path : "kaged-cage-init", O_PATH);
}

static void identify(const char *path, struct cage_source *source)
{
    struct stat status;
    source->fd = open_source(path);
    if (fstat(source->fd, &status) < 0)
        give_up(path);
    source->major = major(status.st_dev);
    source->minor = minor(status.st_dev);
    source->inode = status.st_ino;
}

static struct cage_source *prepare_sources(struct launch *launch)
{
    const struct cage_steps *steps = &launch->plan->steps;
    struct cage_source *sources = kg_alloc_array(steps->count + 1, sizeof(*sources));
    int next_file = CAGE_FD_FILES;
    for (size_t i = 0; i < steps->count; i++) {
        const struct cage_step *step = &steps->items[i];
        if (step->kind == CAGE_STEP_TEXT)
            launch->fds[next_file++] = memory_file(step->source, strlen(step->source));
        else if (step->kind == CAGE_STEP_COPY)
            launch->fds[next_file++] = open_or_give_up(step->source, O_RDONLY);
        else if (step->kind == CAGE_STEP_BIND || step->kind == CAGE_STEP_WRITE)
            identify(step->source, &sources[i]);
    }
    return sources;
}

static void prepare_stdio(struct launch *launch)
{
    const struct weak_cage *weak = launch->weak;
    bool is_shim = (weak->without & WITHOUT_SHIM) == 0;
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (size_t i = 0; i < CAGE_FDS; i++)
        launch->fds[i] = nothing;
    launch->fds[is_shim ? CAGE_FD_OUT : STDOUT_FILENO] = launch->out_fd;
    launch->fds[STDERR_FILENO] = launch->err_fd;
    if ((weak->without & WITHOUT_PIPES) != 0)
        launch->fds[STDERR_FILENO] = open(weak->log, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (nothing < 0 || launch->fds[STDERR_FILENO] < 0)
        give_up("stdio");
}

static void prepare(struct launch *launch)
{
    unsigned without = launch->weak->without;
    prepare_stdio(launch);
    struct kg_buf options = {0}, edited = {0};
    struct cage_words words = {0};
    const struct cage_source *sources = prepare_sources(launch);
    cage_argv_options(launch->plan, sources, false, &options);
    edit_options(&options, without, &words);
    if (launch->weak->bound != NULL) {
        cage_words_add(&words, "--block-fd");
        cage_words_add(&words, kg_format("%d", CAGE_FD_BLOCK));
    }
    for (size_t i = 0; i < words.count; i++)
        kg_buf_append(&edited, words.items[i], strlen(words.items[i]) + 1);
    make_argv(launch->plan, &words, without, &launch->argv);
    launch->fds[CAGE_FD_ARGS] = memory_file(edited.data, edited.length);
    launch->fds[CAGE_FD_CALLS] = memory_file(cage_filter_calls, sizeof(cage_filter_calls));
    launch->fds[CAGE_FD_ARGUMENTS] =
        memory_file(cage_filter_arguments, sizeof(cage_filter_arguments));
    struct kg_buf orders = {0};
    cage_argv_orders(launch->plan, sources, false, &orders);
    launch->fds[CAGE_FD_BLOCK] = launch->block_fd;
    launch->fds[CAGE_FD_INIT] = open_shim();
    launch->fds[CAGE_FD_ORDERS] = memory_file(orders.data, orders.length);
}

/* Above every fd that the test may have left open, so that none of those is overwritten. */
static void place_fds(struct launch *launch, bool close_others)
{
    int top = CAGE_FDS;
    for (int i = 0; i < top; i++)
        if ((launch->fds[i] = fcntl(launch->fds[i], F_DUPFD_CLOEXEC, FILES_SOFT / 2)) < 0)
            give_up("move fds");
    for (int i = 0; i < top; i++)
        if (dup2(launch->fds[i], i) < 0)
            give_up("place fds");
    if (close_others && close_range((unsigned)top, ~0u, 0) < 0)
        give_up("close fds");
}

static void set_limits(bool limited)
{
    struct rlimit core = {limited ? 1 : RLIM_INFINITY, limited ? 1 : RLIM_INFINITY};
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max < FILES_SOFT ? files.rlim_max : FILES_SOFT;
    files.rlim_max = limited && files.rlim_max > FILES_HARD ? FILES_HARD : files.rlim_max;
    setrlimit(RLIMIT_CORE, &core);
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        give_up("set limits");
}

/* As if the daemon had been started from this terminal. */
static void enter_session(const struct weak_cage *weak)
{
    if (setsid() < 0)
        give_up("setsid");
    if ((weak->without & WITHOUT_OWN_SESSION) == 0)
        return;
    int terminal = open(weak->terminal, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || ioctl(terminal, TIOCSCTTY, 0) < 0)
        give_up("terminal");
}

/* -- a network that stands for the host's ------------------------------------------------------ */

static void write_text(const char *path, const char *text)
{
    kg_auto(kg_close) int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || kg_write_all(fd, text, strlen(text)) < 0)
        give_up(path);
}

/* An ordinary user needs a namespace in which the network is his. */
static void unshare_network(void)
{
    char user[64], group[64];
    bool is_root = geteuid() == 0;
    snprintf(user, sizeof(user), "%u %u 1", geteuid(), geteuid());
    snprintf(group, sizeof(group), "%u %u 1", getegid(), getegid());
    if (unshare(CLONE_NEWNET | (is_root ? 0 : CLONE_NEWUSER)) < 0)
        give_up("unshare network");
    if (is_root)
        return;
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/uid_map", user);
    write_text("/proc/self/gid_map", group);
}

static void add_address(const char *address)
{
    struct ifreq request = {.ifr_name = "lo"};
    struct sockaddr_in *at = (struct sockaddr_in *)&request.ifr_addr;
    at->sin_family = AF_INET;
    inet_pton(AF_INET, address, &at->sin_addr);
    kg_auto(kg_close) int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFADDR, &request) < 0)
        give_up("add address");
    request.ifr_flags = IFF_UP;
    if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
        give_up("raise lo");
}

static void drop_root(void)
{
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(CAGE_GID, CAGE_GID, CAGE_GID) < 0 ||
                           setresuid(CAGE_UID, CAGE_UID, CAGE_UID) < 0))
        give_up("drop root");
}

/* Keeps a listener until the one that becomes bwrap is gone; he must be allowed to signal us. */
static void keep_until_gone(pid_t parent)
{
    drop_root();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        pause();
    _exit(0);
}

static void make_network(const char *address)
{
    unshare_network();
    add_address(address);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(80)};
    inet_pton(AF_INET, address, &at.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, 8) < 0)
        give_up("listen");
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        keep_until_gone(parent);
    if (pid < 0)
        give_up("fork");
}

/* -- the whole --------------------------------------------------------------------------------- */

__attribute__((noreturn)) static void become_bwrap(struct launch *launch, pid_t parent)
{
    static char *const no_environment[] = {NULL};
    unsigned without = launch->weak->without;
    enter_session(launch->weak);
    if (launch->weak->address != NULL)
        make_network(launch->weak->address);
    prepare(launch);
    if (launch->weak->between != NULL)
        launch->weak->between();
    place_fds(launch, (without & WITHOUT_CLOSE_RANGE) == 0);
    if ((without & WITHOUT_DROP_ROOT) == 0)
        drop_root();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
        give_up("die with the test");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        give_up("refuse new privileges");
    set_limits((without & WITHOUT_LIMITS) == 0);
    execve(launch->plan->bwrap, launch->argv.items,
           (without & WITHOUT_EMPTY_ENVIRONMENT) != 0 ? environ : no_environment);
    give_up("run bwrap");
}

/* The plugin's folder is bound last, and has its own path once the host's root is gone. */
static bool is_bound(pid_t bwrap, const char *folder)
{
    kg_auto(kg_buf_free) struct kg_buf mounts = {0};
    kg_auto(kg_free) char *path = kg_format("/proc/%d/mountinfo", (int)cage_first_child(bwrap));
    kg_auto(kg_free) char *mount = kg_format(" %s ", folder);
    return kg_read_file(path, MOUNTS_MAX_BYTES, &mounts, NULL) == 0 &&
           strstr(kg_buf_terminate(&mounts), mount) != NULL;
}

/* Or until it has given up. */
static void wait_until_bound(pid_t bwrap, const char *folder)
{
    siginfo_t end = {0};
    uint64_t deadline = kg_monotonic_ms() + WORLD_WAIT_MS;
    while (!is_bound(bwrap, folder) && end.si_pid == 0) {
        assert_int_equal(waitid(P_PID, (id_t)bwrap, &end, WEXITED | WNOHANG | WNOWAIT), 0);
        assert_true(kg_monotonic_ms() < deadline);
        usleep(1000);
    }
}

struct weak_run *weak_start(const struct cage_plan *given, const struct weak_cage *weak)
{
    struct cage_plan unwatched = *given; /* nobody would answer there */
    const struct cage_plan *plan = &unwatched;
    unwatched.watched = false;
    struct launch *launch = kg_alloc(sizeof(*launch));
    struct weak_run *run = kg_alloc(sizeof(*run));
    int out[2], err[2], block[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    assert_int_equal(pipe2(err, O_CLOEXEC), 0);
    assert_int_equal(pipe2(block, O_CLOEXEC), 0);
    launch->weak = weak;
    launch->plan = edited_plan(plan, weak);
    launch->out_fd = out[1];
    launch->err_fd = err[1];
    launch->block_fd = block[0];
    pid_t parent = getpid();
    run->bwrap = fork();
    if (run->bwrap == 0)
        become_bwrap(launch, parent);
    assert_true(run->bwrap > 0);
    close(out[1]);
    close(err[1]);
    close(block[0]);
    if (weak->bound != NULL) {
        wait_until_bound(run->bwrap, plan->folder);
        weak->bound();
    }
    close(block[1]);
    run->out_fd = out[0];
    run->err_fd = err[0];
    cage_plan_free(launch->plan);
    free(launch);
    return run;
}

/* Reads what is there; closes the fd at its end. */
static void read_some(int *fd, struct kg_buf *text)
{
    kg_buf_reserve(text, 4096);
    ssize_t got = read(*fd, text->data + text->length, 4096);
    if (got > 0)
        text->length += (size_t)got;
    else
        kg_close(fd);
}

void weak_wait(struct weak_run *run)
{
    uint64_t deadline = kg_monotonic_ms() + WORLD_WAIT_MS;
    while (run->out_fd >= 0 || run->err_fd >= 0) {
        struct pollfd polls[] = {{.fd = run->out_fd, .events = POLLIN},
                                 {.fd = run->err_fd, .events = POLLIN}};
        uint64_t now = kg_monotonic_ms();
        if (now >= deadline || poll(polls, 2, (int)(deadline - now)) == 0) {
            kill(run->bwrap, SIGKILL);
            waitpid(run->bwrap, NULL, 0);
            fail_msg("it did not end: out \"%s\", err \"%s\"", kg_buf_terminate(&run->out),
                     kg_buf_terminate(&run->err));
        }
        if (polls[0].revents != 0)
            read_some(&run->out_fd, &run->out);
        if (polls[1].revents != 0)
            read_some(&run->err_fd, &run->err);
    }
    assert_int_equal(waitpid(run->bwrap, &run->status, 0), run->bwrap);
}

const char *weak_line(struct weak_run *run)
{
    weak_wait(run);
    char *text = kg_buf_terminate(&run->out);
    if (run->err.length > 0 || strchr(text, '\n') == NULL)
        fail_msg("weak cage: out \"%s\", err \"%s\", status %d", text, kg_buf_terminate(&run->err),
                 run->status);
    text[strcspn(text, "\n")] = '\0';
    return text;
}

void weak_free(struct weak_run *run)
{
    kg_close(&run->out_fd);
    kg_close(&run->err_fd);
    kg_buf_free(&run->out);
    kg_buf_free(&run->err);
    free(run);
}
