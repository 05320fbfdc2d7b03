/*
 * From a plan to a running bwrap. All that can fail with a message happens before the fork; the
 * child gives up root, every fd but the listed ones and the environment, and becomes bwrap.
 */
#include "cage/cgroup.h"
#include "cage/internal.h"
#include "seccomp-filters.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STDIO_PIPE_BYTES  65536
#define STDERR_PIPE_BYTES 16384
#define STATUS_PIPE_BYTES 4096
#define FILES_SOFT        1024
#define FILES_HARD        4096 /* the kernel's own default: all cages share what the host has */
#define CORE_BYTES        1    /* see keep_core_limit in seccomp-gen.c */
#define COPY_MAX_BYTES    (16 << 20)
#define OOM_SCORE         "500" /* when memory is short, a plugin goes before the daemon */

/* What one launch owns until bwrap runs. fds[n] becomes fd n of bwrap. */
struct launch {
    const struct cage_plan *plan;
    struct cage_group *group; /* borrowed; NULL: none */
    char **staged;            /* a path for each step, or NULL; see cage_argv_options */
    int *fds;                 /* the child's; stdio first */
    size_t fd_count;
    struct cage_words argv;
    struct cage_launched to; /* our ends, handed over at the end */
};

static const struct cage_launched nothing = {
    .in_fd = -1, .out_fd = -1, .err_fd = -1, .status_fd = -1, .ran_fd = -1, .block_fd = -1};

static void launch_free(struct launch *launch)
{
    for (size_t i = 0; i < launch->plan->steps.count; i++)
        free(launch->staged[i]);
    free(launch->staged);
    for (size_t i = 0; i < launch->fd_count; i++)
        kg_close(&launch->fds[i]);
    free(launch->fds);
    cage_words_free(&launch->argv);
    for (size_t i = 0; i < launch->to.staged.count; i++)
        cage_stage_remove(launch->to.staged.items[i]);
    cage_words_free(&launch->to.staged);
    int *const ours[] = {&launch->to.in_fd,     &launch->to.out_fd, &launch->to.err_fd,
                         &launch->to.status_fd, &launch->to.ran_fd, &launch->to.block_fd};
    for (size_t i = 0; i < KG_COUNT(ours); i++)
        kg_close(ours[i]);
}

/* -- before the fork --------------------------------------------------------------------------- */

int cage_shim_open(struct kg_err *err)
{
    kg_auto(kg_free) char *path = cage_helper_path("kaged-cage-init");
    if (path == NULL)
        return kg_fail(err, KG_E_CAGE, "kaged-cage-init is neither beside this program nor in %s",
                       KAGED_LIBEXEC);
    int fd = open(path, O_PATH | O_CLOEXEC);
    return fd < 0 ? kg_fail_errno(err, errno, "open %s", path) : fd;
}

static int open_source(const struct cage_step *step, struct kg_err *err)
{
    const char *path = step->source;
    bool reads = step->kind == CAGE_STEP_COPY;
    struct open_how how = {.flags = (reads ? O_RDONLY | O_NONBLOCK : O_PATH) | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    kg_auto(kg_close) int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
    if (fd < 0 && errno == ELOOP)
        return kg_fail(err, KG_E_REFUSED, "open %s: there is a link in this path", path);
    if (fd < 0)
        return kg_fail_errno(err, errno, "open %s", path);
    struct stat status;
    if (fstat(fd, &status) < 0)
        return kg_fail_errno(err, errno, "stat %s", path);
    if (!S_ISREG(status.st_mode) && (reads || !S_ISDIR(status.st_mode)))
        return kg_fail(err, KG_E_REFUSED, "open %s: neither a folder nor a file", path);
    if (reads && status.st_size > COPY_MAX_BYTES)
        return kg_fail(err, KG_E_REFUSED, "copy %s: it is too large", path);
    return kg_steal_fd(&fd);
}

/*
 * Another folder may have taken the place of the one that was planned for. A daemon that is not
 * root's is held to its own user's rights instead.
 */
static int check_not_roots(const struct cage_step *step, const struct cage_stage *stage, int source,
                           struct kg_err *err)
{
    struct stat status;
    if (step->kind != CAGE_STEP_WRITE || step->roots || geteuid() != 0 ||
        (stage != NULL && cage_stage_owner(stage)->uid != 0))
        return 0;
    if (fstat(source, &status) < 0)
        return kg_fail_errno(err, errno, "stat %s", step->source);
    if (status.st_uid != 0)
        return 0;
    return kg_fail(err, KG_E_REFUSED, "write %s: it is root's own", step->source);
}

/* O_PATH asks for no right to the thing itself; a cage of it would. */
static int check_owner_may(int fd, bool write)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    int rights = R_OK | (write ? W_OK : 0) | (S_ISDIR(status.st_mode) ? X_OK : 0);
    return faccessat(fd, "", rights, AT_EMPTY_PATH | AT_EACCESS) < 0 ? -errno : 0;
}

/* A daemon that is not root's gets nothing into a cage that its own user may not have. */
static int open_for_owner(const struct cage_stage *stage, const struct cage_step *step,
                          struct kg_err *err)
{
    const struct cage_owner *owner = stage != NULL ? cage_stage_owner(stage) : NULL;
    if (owner == NULL || owner->uid == 0)
        return open_source(step, err);
    int result = cage_owner_enter(owner, err);
    if (result < 0)
        return result;
    kg_auto(kg_close) int fd = open_source(step, err);
    int allowed = fd < 0 ? 0 : check_owner_may(fd, step->kind == CAGE_STEP_WRITE);
    cage_owner_leave();
    if (allowed < 0)
        return kg_fail_errno(err, -allowed, "open %s as uid %u", step->source,
                             (unsigned)owner->uid);
    return fd < 0 ? -EACCES : kg_steal_fd(&fd);
}

static int prepare_source(struct launch *launch, size_t at, struct cage_stage *stage,
                          struct kg_err *err)
{
    const struct cage_step *step = &launch->plan->steps.items[at];
    kg_auto(kg_close) int fd = open_for_owner(stage, step, err);
    if (fd < 0)
        return fd;
    int result = check_not_roots(step, stage, fd, err);
    if (result < 0)
        return result;
    if (stage != NULL && step->kind != CAGE_STEP_COPY) {
        result = cage_stage_add(stage, fd, step->kind == CAGE_STEP_WRITE, &launch->staged[at], err);
        if (result == 0)
            cage_words_add(&launch->to.staged, launch->staged[at]);
        return kg_wrap(err, result, "%s", step->source);
    }
    if (launch->plan->bind_fd || step->kind == CAGE_STEP_COPY)
        launch->fds[launch->fd_count++] = kg_steal_fd(&fd);
    else
        launch->staged[at] = kg_strdup(step->source);
    return 0;
}

/* bwrap reads such a file to its end, so each start needs its own. */
static int make_file(const char *name, const void *data, size_t length, int *ret_fd,
                     struct kg_err *err)
{
    kg_auto(kg_close) int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return kg_fail_errno(err, errno, "memfd_create %s", name);
    int result = kg_write_all(fd, data, length);
    if (result == 0 && lseek(fd, 0, SEEK_SET) < 0)
        result = -errno;
    if (result < 0)
        return kg_fail_errno(err, -result, "write memfd %s", name);
    *ret_fd = kg_steal_fd(&fd);
    return 0;
}

static int prepare_text(struct launch *launch, const struct cage_step *step, struct kg_err *err)
{
    int result =
        make_file("text", step->source, strlen(step->source), &launch->fds[launch->fd_count], err);
    launch->fd_count += result == 0;
    return result;
}

static int prepare_sources(struct launch *launch, struct cage_stage *stage, struct kg_err *err)
{
    const struct cage_steps *steps = &launch->plan->steps;
    for (size_t i = 0; i < steps->count; i++) {
        const struct cage_step *step = &steps->items[i];
        int result = 0;
        if (step->kind == CAGE_STEP_BIND || step->kind == CAGE_STEP_WRITE ||
            step->kind == CAGE_STEP_COPY)
            result = prepare_source(launch, i, stage, err);
        else if (step->kind == CAGE_STEP_TEXT)
            result = prepare_text(launch, step, err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* Which end of a pipe the child gets. */
enum end { CHILD_READS, CHILD_WRITES };

static int make_pipe(int bytes, enum end end, int *ret_child, int *ret_ours, struct kg_err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return kg_fail_errno(err, errno, "pipe");
    *ret_child = ends[end == CHILD_READS ? 0 : 1];
    *ret_ours = ends[end == CHILD_READS ? 1 : 0];
    /* A user may have used up his share of pipe memory: then the kernel's size has to do. */
    fcntl(*ret_ours, F_SETPIPE_SZ, bytes);
    if (fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0)
        return kg_fail_errno(err, errno, "pipe: set non-blocking");
    return 0;
}

static int make_pipes(struct launch *launch, struct kg_err *err)
{
    struct cage_launched *to = &launch->to;
    const struct {
        int fd, bytes;
        enum end end;
        int *ours;
    } pipes[] = {
        {CAGE_FD_IN, STDIO_PIPE_BYTES, CHILD_READS, &to->in_fd},
        {CAGE_FD_OUT, STDIO_PIPE_BYTES, CHILD_WRITES, &to->out_fd},
        {STDERR_FILENO, STDERR_PIPE_BYTES, CHILD_WRITES, &to->err_fd},
        {CAGE_FD_STATUS, STATUS_PIPE_BYTES, CHILD_WRITES, &to->status_fd},
        {CAGE_FD_RAN, STATUS_PIPE_BYTES, CHILD_WRITES, &to->ran_fd},
        {CAGE_FD_BLOCK, STATUS_PIPE_BYTES, CHILD_READS, &to->block_fd},
    };
    for (size_t i = 0; i < KG_COUNT(pipes); i++) {
        int result =
            make_pipe(pipes[i].bytes, pipes[i].end, &launch->fds[pipes[i].fd], pipes[i].ours, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int take_shim(struct launch *launch, int shim, struct kg_err *err)
{
    int fd = launch->fds[CAGE_FD_INIT] = fcntl(shim, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? kg_fail_errno(err, errno, "take the shim") : 0;
}

static int open_null(struct launch *launch, struct kg_err *err)
{
    for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++)
        if ((launch->fds[fd] = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
            return kg_fail_errno(err, errno, "open /dev/null");
    return 0;
}

static int make_files(struct launch *launch, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf options = {0};
    cage_argv_options(launch->plan, (const char *const *)launch->staged, &options);
    cage_argv_command(launch->plan, launch->group != NULL, &launch->argv);
    kg_auto(kg_buf_free) struct kg_buf rules = {0};
    cage_argv_rules(launch->plan, &rules);
    const struct {
        const char *name;
        int fd;
        const void *data;
        size_t length;
    } files[] = {
        {"args", CAGE_FD_ARGS, options.data, options.length},
        {"calls", CAGE_FD_CALLS, cage_filter_calls, sizeof(cage_filter_calls)},
        {"arguments", CAGE_FD_ARGUMENTS, cage_filter_arguments, sizeof(cage_filter_arguments)},
        {"rules", CAGE_FD_RULES, rules.data, rules.length},
    };
    for (size_t i = 0; i < KG_COUNT(files); i++) {
        int result = make_file(files[i].name, files[i].data, files[i].length,
                               &launch->fds[files[i].fd], err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* -- in the child ------------------------------------------------------------------------------ */

__attribute__((noreturn)) static void give_up(const char *what)
{
    int errnum = errno;
    dprintf(STDERR_FILENO, "kaged: cannot build the cage: %s: %s\n", what, strerror(errnum));
    _exit(127);
}

static void set_limits(void)
{
    struct rlimit limit = {CORE_BYTES, CORE_BYTES};
    /* Refused only where it is 0 already, and may not be raised. */
    setrlimit(RLIMIT_CORE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        give_up("read limits");
    limit.rlim_max = limit.rlim_max < FILES_HARD ? limit.rlim_max : FILES_HARD;
    limit.rlim_cur = limit.rlim_max < FILES_SOFT ? limit.rlim_max : FILES_SOFT;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        give_up("set limits");
    umask(022);
}

static void reset_signals(void)
{
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void raise_oom_score(void)
{
    kg_auto(kg_close) int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        kg_write_all(fd, OOM_SCORE, sizeof(OOM_SCORE) - 1);
}

/* Numbers 0 to fd_count - 1 are the child's, all above are closed. */
static void place_fds(struct launch *launch)
{
    int top = (int)launch->fd_count;
    for (int i = 0; i < top; i++)
        if (launch->fds[i] < top && (launch->fds[i] = fcntl(launch->fds[i], F_DUPFD, top)) < 0)
            give_up("move fds");
    for (int i = 0; i < top; i++)
        if (dup2(launch->fds[i], i) < 0)
            give_up("place fds");
    if (close_range((unsigned)top, ~0u, 0) < 0)
        give_up("close fds");
}

__attribute__((noreturn)) static void become_bwrap(struct launch *launch, pid_t spawner, int join)
{
    static char *const no_environment[] = {NULL};
    place_fds(launch);
    errno = -join;
    if (join < 0)
        give_up("join its group");
    raise_oom_score();
    if (!cage_become_user())
        give_up("drop root for good");
    /* Only now: a change of user clears it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != spawner)
        give_up("die with the spawner");
    /* A setuid bwrap would take the caller's rights for its own. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        give_up("refuse new privileges");
    set_limits();
    reset_signals();
    execve(launch->plan->bwrap, launch->argv.items, no_environment);
    give_up("run bwrap");
}

/* -- the whole --------------------------------------------------------------------------------- */

static int prepare(struct launch *launch, struct cage_stage *stage, int shim, struct kg_err *err)
{
    int result = prepare_sources(launch, stage, err);
    if (result == 0)
        result = take_shim(launch, shim, err);
    if (result == 0)
        result = open_null(launch, err);
    if (result == 0)
        result = make_pipes(launch, err);
    return result < 0 ? result : make_files(launch, err);
}

int cage_launch(const struct cage_plan *plan, struct cage_stage *stage, struct cage_group *group,
                int shim, struct cage_launched *ret_launched, struct kg_err *err)
{
    kg_auto(launch_free) struct launch launch = {
        .plan = plan,
        .group = group,
        .staged = kg_alloc_array(plan->steps.count + 1, sizeof(char *)),
        .fds = kg_alloc_array(CAGE_FD_SOURCES + plan->steps.count, sizeof(int)),
        .fd_count = CAGE_FD_SOURCES,
        .to = nothing,
    };
    for (size_t i = 0; i < launch.fd_count; i++)
        launch.fds[i] = -1;
    int result = prepare(&launch, stage, shim, err);
    if (result < 0)
        return kg_wrap(err, result, "plugin %s", plan->name);
    pid_t spawner = getpid();
    int join;
    launch.to.pid = cage_group_fork(group, &join);
    if (launch.to.pid < 0)
        return kg_fail_errno(err, errno, "plugin %s: fork", plan->name);
    if (launch.to.pid == 0)
        become_bwrap(&launch, spawner, join);
    *ret_launched = launch.to;
    launch.to = nothing;
    return 0;
}
