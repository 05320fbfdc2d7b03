/*
 * A bwrap that was started before there is a plan for it. It has all that is the same for every
 * cage: its group, its user, its pipes and a filter; the fds that it has are listed, nothing
 * else of ours is in it. Where the machine lets us, it is also in the namespaces of its cage, but
 * for those of users, processes and mounts, which bwrap makes in them. It waits at a gate, which is
 * a pipe that it reads to the end before its options. What it is to do lies in files of memory that
 * are written before the gate is opened. If we die instead, there are no orders in them, and the
 * shim runs nothing.
 */
#include "cage/cgroup.h"
#include "cage/internal.h"
#include "seccomp-filters.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
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
#define AHEAD_MS          5000  /* for its namespaces; they take one */

struct cage_ready {
    pid_t pid;
    char *bwrap;              /* owned; the program, */
    struct stat program;      /* as it was */
    struct cage_group *group; /* borrowed; NULL: none */
    struct cage_user user;
    bool ahead;              /* it was asked for namespaces of its own */
    int room;                /* its mounts, or -1: they are ours */
    int gate;                /* our end */
    int fds[CAGE_FDS];       /* fds[n] is fd n of bwrap; after the fork only the files of memory */
    struct cage_launched to; /* our ends of the other pipes */
};

static const struct cage_launched nothing = {.in_fd = -1,
                                             .out_fd = -1,
                                             .err_fd = -1,
                                             .status_fd = -1,
                                             .ran_fd = -1,
                                             .block_fd = -1,
                                             .watch_fd = -1};

/* -- before the fork --------------------------------------------------------------------------- */

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

/*
 * A root spawner's pipes are root's, and the plugin, which is not, could not open /dev/stdout or
 * /dev/stderr. Without the right to give them away it still has them as fds.
 */
static void give_stdio(const struct cage_ready *ready)
{
    static const int given[] = {CAGE_FD_IN, CAGE_FD_OUT, STDERR_FILENO};
    for (size_t i = 0; i < KG_COUNT(given) && geteuid() == 0; i++)
        (void)!fchown(ready->fds[given[i]], ready->user.uid, CAGE_GID);
}

static int make_pipes(struct cage_ready *ready, struct kg_err *err)
{
    struct cage_launched *to = &ready->to;
    const struct {
        int fd, bytes;
        enum end end;
        int *ours;
    } pipes[] = {
        {CAGE_FD_GATE, STATUS_PIPE_BYTES, CHILD_READS, &ready->gate},
        {CAGE_FD_IN, STDIO_PIPE_BYTES, CHILD_READS, &to->in_fd},
        {CAGE_FD_OUT, STDIO_PIPE_BYTES, CHILD_WRITES, &to->out_fd},
        {STDERR_FILENO, STDERR_PIPE_BYTES, CHILD_WRITES, &to->err_fd},
        {CAGE_FD_STATUS, STATUS_PIPE_BYTES, CHILD_WRITES, &to->status_fd},
        {CAGE_FD_RAN, STATUS_PIPE_BYTES, CHILD_WRITES, &to->ran_fd},
        {CAGE_FD_BLOCK, STATUS_PIPE_BYTES, CHILD_READS, &to->block_fd},
    };
    for (size_t i = 0; i < KG_COUNT(pipes); i++) {
        int result =
            make_pipe(pipes[i].bytes, pipes[i].end, &ready->fds[pipes[i].fd], pipes[i].ours, err);
        if (result < 0)
            return result;
    }
    give_stdio(ready);
    return 0;
}

/* bwrap reads each to its end, so each start needs its own. Those that depend on the plan are
 * empty. */
static int make_files(struct cage_ready *ready, struct kg_err *err)
{
    const struct {
        int fd;
        const void *data;
        size_t length;
    } files[] = {
        {CAGE_FD_ARGS, "", 0},
        {CAGE_FD_ORDERS, "", 0},
        {CAGE_FD_CALLS, "", 0},
        {CAGE_FD_ARGUMENTS, cage_filter_arguments, sizeof(cage_filter_arguments)},
    };
    for (size_t i = 0; i < KG_COUNT(files); i++) {
        int fd = cage_memory_file("cage", files[i].data, files[i].length, err);
        if (fd < 0)
            return fd;
        ready->fds[files[i].fd] = fd;
    }
    for (int at = CAGE_FD_FILES; at < CAGE_FDS; at++) {
        int fd = cage_memory_file("file", "", 0, err);
        if (fd < 0)
            return fd;
        ready->fds[at] = fd;
    }
    return 0;
}

struct kg_str cage_calls_filter(const struct cage_plan *plan)
{
    return plan->watched
               ? (struct kg_str){(const char *)cage_filter_calls_watched,
                                 sizeof(cage_filter_calls_watched)}
               : (struct kg_str){(const char *)cage_filter_calls, sizeof(cage_filter_calls)};
}

static int make_watch_socket(struct cage_ready *ready, struct kg_err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return kg_fail_errno(err, errno, "socketpair");
    ready->fds[CAGE_FD_WATCH] = ends[0];
    ready->to.watch_fd = ends[1];
    return 0;
}

static int ready_take_others(struct cage_ready *ready, int shim, struct kg_err *err)
{
    for (int fd = STDIN_FILENO; fd <= STDOUT_FILENO; fd++)
        if ((ready->fds[fd] = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
            return kg_fail_errno(err, errno, "open /dev/null");
    int fd = ready->fds[CAGE_FD_INIT] = fcntl(shim, F_DUPFD_CLOEXEC, 0);
    return fd < 0 ? kg_fail_errno(err, errno, "take the shim") : 0;
}

/* -- in the child ------------------------------------------------------------------------------ */

__attribute__((noreturn)) static void ready_give_up(const char *what)
{
    int errnum = errno;
    dprintf(STDERR_FILENO, "kaged: cannot build the cage: %s: %s\n", what, strerror(errnum));
    _exit(127);
}

static void ready_set_limits(void)
{
    struct rlimit limit = {CORE_BYTES, CORE_BYTES};
    /* Refused only where it is 0 already, and may not be raised. */
    setrlimit(RLIMIT_CORE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        ready_give_up("read limits");
    limit.rlim_max = limit.rlim_max < FILES_HARD ? limit.rlim_max : FILES_HARD;
    limit.rlim_cur = limit.rlim_max < FILES_SOFT ? limit.rlim_max : FILES_SOFT;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        ready_give_up("set limits");
    umask(022);
}

static void ready_reset_signals(void)
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

/* Numbers 0 to CAGE_FDS - 1 are the child's, all above are closed. */
static void place_fds(int fds[CAGE_FDS])
{
    for (int i = 0; i < CAGE_FDS; i++)
        if (fds[i] < CAGE_FDS && (fds[i] = fcntl(fds[i], F_DUPFD, CAGE_FDS)) < 0)
            ready_give_up("move fds");
    for (int i = 0; i < CAGE_FDS; i++)
        if (dup2(fds[i], i) < 0)
            ready_give_up("place fds");
    if (close_range(CAGE_FDS, ~0u, 0) < 0)
        ready_give_up("close fds");
}

/* Ahead of bwrap comes the shim, which is not a file that a path leads to. */
static void execute(const struct cage_ready *ready, char *const *argv)
{
    static char *const no_environment[] = {NULL};
    if (ready->ahead)
        syscall(SYS_execveat, CAGE_FD_INIT, "", argv, no_environment, AT_EMPTY_PATH);
    else
        execve(ready->bwrap, argv, no_environment);
}

__attribute__((noreturn)) static void become_bwrap(struct cage_ready *ready, char *const *argv,
                                                   pid_t spawner, int join)
{
    place_fds(ready->fds);
    errno = -join;
    if (join < 0)
        ready_give_up("join its group");
    raise_oom_score();
    if (!cage_become_user(ready->user.uid))
        ready_give_up("drop root for good");
    /* Only now: a change of user clears it. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != spawner)
        ready_give_up("die with the spawner");
    /* A setuid bwrap would take the caller's rights for its own. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        ready_give_up("refuse new privileges");
    ready_set_limits();
    ready_reset_signals();
    execute(ready, argv);
    ready_give_up("run bwrap");
}

/* -- the whole --------------------------------------------------------------------------------- */

static void free_pipes(struct cage_launched *to)
{
    int *const ours[] = {&to->in_fd,  &to->out_fd,   &to->err_fd,  &to->status_fd,
                         &to->ran_fd, &to->block_fd, &to->watch_fd};
    for (size_t i = 0; i < KG_COUNT(ours); i++)
        kg_close(ours[i]);
}

/* What the child has is not ours to keep: a stream ends when nobody holds its other end. */
static void close_childs(struct cage_ready *ready, bool files)
{
    for (int fd = 0; fd < CAGE_FDS; fd++) {
        bool is_ours = fd == CAGE_FD_ARGS || fd == CAGE_FD_CALLS || fd == CAGE_FD_ORDERS ||
                       fd >= CAGE_FD_FILES;
        if (files || !is_ours)
            kg_close(&ready->fds[fd]);
    }
}

static int ready_start(struct cage_ready *ready, const struct cage_stage *stage, struct kg_err *err)
{
    struct cage_words argv = {0};
    if (ready->ahead)
        cage_argv_ahead(ready->bwrap, &argv);
    else
        cage_argv_command(&argv);
    pid_t spawner = getpid();
    int join;
    ready->room = cage_stage_enter_room(stage);
    ready->pid = cage_group_fork(ready->group, &join);
    int errnum = errno;
    if (ready->pid == 0)
        become_bwrap(ready, argv.items, spawner, join);
    cage_stage_leave_room(stage, ready->room);
    cage_words_free(&argv);
    close_childs(ready, false);
    return ready->pid < 0 ? kg_fail_errno(err, errnum, "fork") : 0;
}

struct cage_ready *cage_ready_new(const char *bwrap, int shim, bool ahead,
                                  const struct cage_stage *stage, struct cage_user user,
                                  struct cage_group *group, struct kg_err *err)
{
    struct cage_ready *ready = kg_alloc(sizeof(*ready));
    *ready = (struct cage_ready){.bwrap = kg_strdup(bwrap),
                                 .group = group,
                                 .user = user,
                                 .ahead = ahead,
                                 .room = -1,
                                 .gate = -1,
                                 .to = nothing};
    (void)stat(bwrap, &ready->program); /* who cannot find it cannot run it either */
    for (int fd = 0; fd < CAGE_FDS; fd++)
        ready->fds[fd] = -1;
    int result = make_pipes(ready, err);
    if (result == 0)
        result = make_files(ready, err);
    if (result == 0)
        result = make_watch_socket(ready, err);
    if (result == 0)
        result = ready_take_others(ready, shim, err);
    if (result == 0)
        result = ready_start(ready, stage, err);
    if (result == 0)
        return ready;
    cage_ready_free(ready);
    return NULL;
}

pid_t cage_ready_pid(const struct cage_ready *ready)
{
    return ready->pid;
}

int cage_ready_ahead(struct cage_ready *ready)
{
    char word = 0;
    struct pollfd told = {.fd = ready->to.ran_fd, .events = POLLIN};
    if (!ready->ahead || ready->to.ahead)
        return ready->ahead;
    if (poll(&told, 1, AHEAD_MS) > 0 && read(told.fd, &word, sizeof(word)) < 0)
        return -EIO;
    ready->to.ahead = word == CAGE_AHEAD;
    return word == CAGE_AHEAD ? 1 : word == CAGE_FAILED ? -EPERM : -EIO;
}

bool cage_ready_is_of(const struct cage_ready *ready, const char *bwrap)
{
    struct stat now;
    const struct stat *then = &ready->program;
    return strcmp(ready->bwrap, bwrap) == 0 && stat(bwrap, &now) == 0 &&
           now.st_dev == then->st_dev && now.st_ino == then->st_ino &&
           now.st_ctim.tv_sec == then->st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == then->st_ctim.tv_nsec;
}

struct cage_user cage_ready_user(const struct cage_ready *ready)
{
    return ready->user;
}

struct cage_group *cage_ready_group(const struct cage_ready *ready)
{
    return ready->group;
}

int cage_ready_room(const struct cage_ready *ready)
{
    return ready->room;
}

/* The reader's place in the file is ours too, so it is left where it is. */
int cage_ready_write(struct cage_ready *ready, int file, struct kg_str text, struct kg_err *err)
{
    for (size_t done = 0; done < text.length;) {
        ssize_t count = pwrite(ready->fds[file], text.data + done, text.length - done, (off_t)done);
        if (count < 0 && errno != EINTR)
            return kg_fail_errno(err, errno, "write memfd");
        done += count > 0 ? (size_t)count : 0;
    }
    return 0;
}

int cage_ready_copy(struct cage_ready *ready, int file, int source, struct kg_err *err)
{
    ssize_t count, done = 0;
    while ((count = sendfile(ready->fds[file], source, NULL, COPY_MAX_BYTES)) > 0)
        if ((done += count) >= COPY_MAX_BYTES)
            return kg_fail(err, KG_E_REFUSED, "copy: it is too large");
    if (count < 0 || lseek(ready->fds[file], 0, SEEK_SET) < 0)
        return kg_fail_errno(err, errno, "copy");
    return 0;
}

struct cage_launched cage_ready_go(struct cage_ready *ready)
{
    struct cage_launched launched = ready->to;
    launched.pid = ready->pid;
    launched.uid = ready->user.uid;
    ready->to = nothing;
    ready->pid = 0;
    kg_close(&ready->gate);
    cage_ready_free(ready);
    return launched;
}

bool cage_ready_reaped(struct cage_ready *ready, pid_t pid)
{
    if (ready->pid != pid)
        return false;
    ready->pid = 0;
    return true;
}

void cage_ready_free(struct cage_ready *ready)
{
    if (ready == NULL)
        return;
    if (ready->pid > 0)
        kill(ready->pid, SIGKILL); /* before the gate: it must not go on */
    kg_close(&ready->gate);
    kg_close(&ready->room);
    close_childs(ready, true);
    free_pipes(&ready->to);
    free(ready->bwrap);
    free(ready);
}
