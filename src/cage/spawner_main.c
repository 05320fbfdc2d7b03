/*
 * kaged-spawner: one process, one thread, that alone starts and reaps cages. It keeps a cell for
 * each; a cell is over when its bwrap is reaped and no process of it is left. As a subreaper it
 * inherits what a dead bwrap leaves behind: any child of ours that is not a living bwrap is killed.
 * When the daemon is gone, every cell goes, and the spawner with them.
 *
 * usage: kaged-spawner SOCKET DAEMON-PID OWNER-UID OWNER-GID[,GROUP...] LOG-FORMAT UID-BASE UIDS
 *        kaged-spawner try
 */
#include "cage/cgroup.h"
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define KILL_AGAIN_MS    100
#define LAST_WORD_MS     3000 /* for the cells to end when the daemon is gone */
#define AWAIT_US         1000
#define BUILD_MS         10000 /* for bwrap to tell who is in the cage, where that is waited for */
#define NETWORK_MS       5000  /* for the network to be made from then on */
#define STATUS_MAX_BYTES 4096
#define OWN_POLLS        3 /* fds that are waited for, besides those of cells */
#define CELL_POLLS       (3 + CAGE_GROUP_POLLS)
#define RECORDS_A_TURN   64      /* of the kernel's log, which others fill too */
#define BWRAP_PROCESSES  2       /* of a cage, besides the plugin's: the monitor and the reaper */
#define PREPARE_MS       5       /* after a start: its plugin has the processors first */
#define WATCH_END_MS     3000    /* for kaged-watch to say the rest when its cage is gone */
#define DAEMON_DIED      SIGUSR2 /* asked of the kernel as our parent-death signal */

struct cell {
    struct cell *next;
    uint32_t id;
    struct cage_launched at;       /* fds that are ours: status_fd, ran_fd */
    struct cage_group *group;      /* owned; NULL without cgroups */
    unsigned cpu_shares;           /* to be given to it once the cage stands; then 0 */
    pid_t pid1;                    /* of the cage, as we see it, or 0 */
    int pid1_fd;                   /* pidfd of it, or -1 */
    char status[STATUS_MAX_BYTES]; /* what bwrap reported */
    size_t status_length;
    char ran[2]; /* what the shim reported: a letter before the command, and one if that failed */
    size_t ran_length;
    char *name;                     /* owned; for messages */
    struct cage_network network;    /* to be made once pid1 is known; then empty */
    struct cage_netns netns;        /* the making of it */
    uint64_t network_deadline_ms;   /* 0: it is made, or there is none */
    uint64_t domain;                /* Landlock's, once the kernel told of it */
    pid_t watcher;                  /* kaged-watch, our child; 0: it is not watched, or no more */
    uint64_t watcher_deadline_ms;   /* 0 while the cage lives */
    char error[KG_ERR_MESSAGE_MAX]; /* why we killed it, or "" */
    bool over;                      /* bwrap is reaped */
    int wait_status;                /* of bwrap */
};

struct spawner {
    int socket;
    int signals;
    int shim;                   /* to execute in each cage */
    int watcher;                /* to execute beside those that are watched; -1: not installed */
    int kernel_log;             /* -1: the kernel does not tell us */
    struct cage_denial denial;  /* of a domain whose process is told next; path NULL: none */
    struct cage_owner owner;    /* whom the daemon runs as */
    struct cage_stage *stage;   /* NULL if not root */
    struct cage_uid_pool *uids; /* whom cages run as, if we are root */
    struct cage_uid_record *fixed_uids;
    struct cage_cgroups *cgroups; /* NULL if there are none for us */
    struct cell *cells;
    struct cage_ready *ready; /* a bwrap for the next cage; NULL: none */
    char *bwrap;              /* owned; of the last cage; NULL: there was none */
    bool cannot_go_ahead;     /* only bwrap may make namespaces on this machine */
    uint64_t prepare_at_ms;   /* when to make one ready; 0: not before the next start */
    bool daemon_gone;
};

/* -- telling the daemon ------------------------------------------------------------------------ */

static int spawner_main_tell(struct spawner *spawner, const struct cage_event *event,
                             const int *fds, size_t fd_count)
{
    int result = cage_message_send(spawner->socket, event, sizeof(*event), fds, fd_count);
    if (result == -EPIPE || result == -ECONNRESET)
        spawner->daemon_gone = true;
    else if (result < 0)
        kg_log(KG_ERROR_LEVEL, "spawner: tell the daemon: %s", strerror(-result));
    return result;
}

/* bwrap passes an exit code on, and a signal n as 128 + n. */
static void tell_exited(struct spawner *spawner, const struct cell *cell)
{
    int status = cell->wait_status;
    struct cage_event event = {.kind = CAGE_TELL_EXITED, .child = cell->id, .exit_code = -1};
    event.built = cell->ran_length == 1 && cell->ran[0] == CAGE_RAN;
    if (WIFSIGNALED(status))
        event.signal = WTERMSIG(status);
    else if (WEXITSTATUS(status) > 128 && WEXITSTATUS(status) <= 128 + SIGRTMAX)
        event.signal = WEXITSTATUS(status) - 128;
    else
        event.exit_code = WEXITSTATUS(status);
    snprintf(event.error, sizeof(event.error), "%s", cell->error);
    if (cell->group != NULL) {
        uint32_t counts[2];
        cage_group_read(cell->group, counts);
        event.memory_kills = counts[CAGE_LIMIT_MEMORY];
        event.fork_refusals = counts[CAGE_LIMIT_PROCESSES];
    }
    spawner_main_tell(spawner, &event, NULL, 0);
}

static void tell_limits(struct spawner *spawner, struct cell *cell,
                        const struct pollfd polls[CAGE_GROUP_POLLS], uint64_t now_ms)
{
    uint32_t counts[2];
    unsigned rose = cage_group_look(cell->group, polls, now_ms, counts);
    for (uint32_t limit = 0; limit < KG_COUNT(counts); limit++) {
        struct cage_event event = {.kind = CAGE_TELL_LIMIT, .child = cell->id, .number = limit};
        event.count = counts[limit];
        if ((rose & (1u << limit)) != 0)
            spawner_main_tell(spawner, &event, NULL, 0);
    }
}

static void spawner_main_tell_failed(struct spawner *spawner, uint32_t id, const char *message)
{
    struct cage_event event = {.kind = CAGE_TELL_EXITED, .child = id, .exit_code = -1};
    snprintf(event.error, sizeof(event.error), "%s", message);
    spawner_main_tell(spawner, &event, NULL, 0);
}

/* -- cells ------------------------------------------------------------------------------------- */

static void cell_free(struct spawner *spawner, struct cell *cell)
{
    cage_launched_settle(&cell->at);
    cage_uid_give(spawner->uids, cell->at.uid);
    cage_group_end(spawner->cgroups, cell->group);
    kg_close(&cell->at.status_fd);
    kg_close(&cell->at.ran_fd);
    kg_close(&cell->at.block_fd);
    kg_close(&cell->at.watch_fd);
    kg_close(&cell->pid1_fd);
    kg_close(&cell->netns.socket);
    cage_network_free(&cell->network);
    free(cell->name);
    free(cell);
}

static struct cell *find_cell(struct spawner *spawner, uint32_t id)
{
    struct cell *cell = spawner->cells;
    while (cell != NULL && cell->id != id)
        cell = cell->next;
    return cell;
}

/* Nothing more is expected of the maker of its network, who is reaped like any child. */
static void end_network(struct cell *cell)
{
    if (cell->netns.pid > 0)
        kill(cell->netns.pid, SIGKILL);
    kg_close(&cell->netns.socket);
    cage_network_free(&cell->network);
    cell->network_deadline_ms = 0;
}

static void kill_cell(struct cell *cell)
{
    end_network(cell);
    if (cell->pid1_fd >= 0)
        pidfd_send_signal(cell->pid1_fd, SIGKILL, NULL, 0);
    if (!cell->over)
        kill(cell->at.pid, SIGKILL);
}

/*
 * pid 1 of a cage ignores signals, so the plugin itself is asked. While there is none yet, or none
 * any more, nothing is lost by ending the cage.
 */
static void ask_cell_to_end(struct cell *cell, int number)
{
    pid_t plugin = cell->pid1 > 0 ? cage_first_child(cell->pid1) : 0;
    kg_auto(kg_close) int fd = plugin > 0 ? pidfd_open(plugin, 0) : -1;
    if (fd >= 0 && cage_parent_of(plugin) == cell->pid1)
        pidfd_send_signal(fd, number, NULL, 0);
    else
        kill_cell(cell);
}

/* -- a bwrap for the next cage ----------------------------------------------------------------- */

static int spawner_main_make_ready(struct spawner *spawner, const char *bwrap, bool ahead,
                                   struct cage_user user, struct kg_err *err)
{
    struct cage_group *group = NULL;
    if (spawner->cgroups == NULL || (group = cage_group_new(spawner->cgroups, err)) != NULL)
        spawner->ready =
            cage_ready_new(bwrap, spawner->shim, ahead, spawner->stage, user, group, err);
    if (spawner->ready != NULL)
        return 0;
    cage_uid_give(spawner->uids, user.uid);
    if (group != NULL)
        cage_group_end(spawner->cgroups, group);
    return -EINVAL;
}

/* As a user whom no other cage has. */
static int make_ready_as_new(struct spawner *spawner, const char *bwrap, bool ahead,
                             struct kg_err *err)
{
    struct cage_user user = {0};
    int result = cage_uid_take(spawner->uids, &user.uid, err);
    return result < 0 ? result : spawner_main_make_ready(spawner, bwrap, ahead, user, err);
}

/* False for one that was refused its namespaces: bwrap may be allowed what we are not. */
static bool has_namespaces(struct spawner *spawner)
{
    int ahead = cage_ready_ahead(spawner->ready);
    if (ahead == -EPERM)
        spawner->cannot_go_ahead = true;
    return ahead >= 0;
}

static void end_ready(struct spawner *spawner, struct cage_ready *ready)
{
    if (ready == NULL)
        return;
    struct cage_group *group = cage_ready_group(ready);
    cage_uid_give(spawner->uids, cage_ready_user(ready).uid);
    cage_ready_free(ready);
    cage_group_end(spawner->cgroups, group);
}

static void drop_ready(struct spawner *spawner)
{
    end_ready(spawner, kg_steal(&spawner->ready));
}

/* After a start, once things are quiet. What goes wrong here is told by the start that finds none.
 */
static void spawner_main_prepare(struct spawner *spawner)
{
    if (spawner->prepare_at_ms == 0 || kg_monotonic_ms() < spawner->prepare_at_ms)
        return;
    spawner->prepare_at_ms = 0;
    if (spawner->ready == NULL && spawner->bwrap != NULL &&
        make_ready_as_new(spawner, spawner->bwrap, !spawner->cannot_go_ahead, NULL) == 0)
        cage_stage_make_maps(spawner->stage, cage_ready_user(spawner->ready).uid);
}

/* -- the network of a cell --------------------------------------------------------------------- */

/* True if the cage is over by itself; bwrap's stderr says why. */
static bool is_past(const struct cell *cell)
{
    struct pollfd pid1 = {.fd = cell->pid1_fd, .events = POLLIN};
    siginfo_t bwrap = {0};
    if (cell->pid1_fd >= 0 && poll(&pid1, 1, 0) > 0)
        return true;
    return cell->over ||
           (waitid(P_PID, (id_t)cell->at.pid, &bwrap, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            bwrap.si_pid != 0);
}

static void fail_network(struct cell *cell, const char *why)
{
    if (!is_past(cell))
        snprintf(cell->error, sizeof(cell->error), "plugin %s: %s", cell->name, why);
    kill_cell(cell);
}

/* Of a process that is in it. */
static void start_network(struct cell *cell, pid_t pid, int pid_fd)
{
    struct kg_err err = {0};
    if (cell->network_deadline_ms == 0)
        return;
    if (cage_netns_start(&cell->network, pid, pid_fd, cell->at.uid, &cell->netns, &err) < 0)
        fail_network(cell, err.message);
    else
        cell->network_deadline_ms = kg_monotonic_ms() + NETWORK_MS;
}

/* A network that was made ahead is furnished while bwrap builds the rest. */
static void start_network_ahead(struct cell *cell)
{
    if (!cell->at.ahead || cell->network_deadline_ms == 0)
        return;
    kg_auto(kg_close) int fd = pidfd_open(cell->at.pid, 0);
    if (fd >= 0)
        start_network(cell, cell->at.pid, fd);
    else
        fail_network(cell, "network: kaged-spawner has no file descriptors left");
}

/* The daemon has every socket before the plugin's first instruction. */
static void complete_network(struct cell *cell)
{
    static const char go_on = 1;
    end_network(cell);
    if (kg_write_all(cell->at.block_fd, &go_on, sizeof(go_on)) < 0)
        kill_cell(cell); /* bwrap gave up; its stderr says why */
    kg_close(&cell->at.block_fd);
}

static void spawner_main_read_network(struct spawner *spawner, struct cell *cell)
{
    while (cell->netns.socket >= 0) {
        struct kg_err err = {0};
        struct cage_event event = {.kind = CAGE_TELL_SOCKET, .child = cell->id};
        kg_auto(kg_close) int fd = -1;
        int result = cage_netns_receive(&cell->netns, &event.number, &fd, &err);
        if (result == -EAGAIN)
            return;
        if (result == 0)
            complete_network(cell);
        else if (result < 0)
            fail_network(cell, err.message);
        else if (spawner_main_tell(spawner, &event, &fd, 1) < 0)
            fail_network(cell, "network: the daemon did not take a socket");
    }
}

static void check_deadlines(struct spawner *spawner)
{
    uint64_t now = kg_monotonic_ms();
    for (struct cell *cell = spawner->cells; cell != NULL; cell = cell->next)
        if (cell->network_deadline_ms != 0 && cell->network_deadline_ms <= now)
            fail_network(cell, "network: it was not made in time");
}

/* -- the watcher of a cell --------------------------------------------------------------------- */

#define WATCHER_SOCKET 3
#define WATCHER_REPORT 4
#define WATCHER_NICE   5 /* a cage that keeps it busy holds up itself */

/* As the cage's user, and with nothing of ours but its two sockets. */
__attribute__((noreturn)) static void become_watcher(int program, uid_t uid, int socket, int report,
                                                     pid_t spawner)
{
    static char *const argv[] = {"kaged-watch", "3", "4", NULL};
    static char *const environment[] = {
#ifdef __SANITIZE_ADDRESS__
        "ASAN_OPTIONS=detect_leaks=0", /* nobody is there to read of them */
#endif
        NULL};
    int fds[] = {socket, report, program};
    sigset_t none;
    sigemptyset(&none);
    (void)setpriority(PRIO_PROCESS, 0, WATCHER_NICE);
    for (size_t i = 0; i < KG_COUNT(fds); i++)
        if ((fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, CAGE_FDS)) < 0)
            _exit(126);
    if (dup2(fds[0], WATCHER_SOCKET) < 0 || dup2(fds[1], WATCHER_REPORT) < 0 ||
        !cage_become_user(uid) || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != spawner ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || sigprocmask(SIG_SETMASK, &none, NULL) < 0)
        _exit(126);
    close_range(WATCHER_REPORT + 1, CAGE_FDS - 1, 0);
    syscall(SYS_execveat, fds[2], "", argv, environment, AT_EMPTY_PATH);
    _exit(127);
}

static void fail_watcher(struct cell *cell, const char *why)
{
    if (cell->error[0] == '\0')
        snprintf(cell->error, sizeof(cell->error), "plugin %s: kaged-watch: %s", cell->name, why);
    kill_cell(cell);
}

/* Not in the cage's group, whose limits are the plugin's; it is small, and waits for others. */
static void start_watcher(struct spawner *spawner, struct cell *cell)
{
    struct cage_event event = {
        .kind = CAGE_TELL_SOCKET, .child = cell->id, .number = CAGE_SOCKET_TRIED};
    int ends[2];
    if (spawner->watcher < 0) {
        fail_watcher(cell, "it is not installed; install all of kaged: make install");
        return;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        fail_watcher(cell, strerror(errno));
        return;
    }
    pid_t self = getpid();
    pid_t pid = fork();
    int errnum = errno;
    if (pid == 0)
        become_watcher(spawner->watcher, cell->at.uid, cell->at.watch_fd, ends[1], self);
    cell->watcher = pid > 0 ? pid : 0;
    close(ends[1]);
    kg_close(&cell->at.watch_fd);
    if (pid < 0)
        fail_watcher(cell, strerror(errnum));
    else if (spawner_main_tell(spawner, &event, &ends[0], 1) < 0)
        fail_watcher(cell, "the daemon did not take its socket");
    close(ends[0]);
}

/*
 * It ends by itself when nobody is left in its cage. Before, what is tried there would fail for no
 * reason.
 */
static void reap_watcher(struct cell *cell, int status)
{
    cell->watcher = 0;
    if (cell->over || is_past(cell) || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return;
    if (WIFSIGNALED(status))
        fail_watcher(cell, "it was killed, so its cage was ended");
    else if (WEXITSTATUS(status) == CAGE_WATCH_UNHEARD)
        fail_watcher(cell, "nothing listens to it, so its cage was ended");
    else
        fail_watcher(cell, "it failed, so its cage was ended");
}

/* True once it is gone, which it is soon after its cage. */
static bool watcher_has_ended(struct cell *cell)
{
    uint64_t now = kg_monotonic_ms();
    if (cell->watcher == 0)
        return true;
    if (cell->watcher_deadline_ms == 0)
        cell->watcher_deadline_ms = now + WATCH_END_MS;
    if (now >= cell->watcher_deadline_ms)
        kill(cell->watcher, SIGKILL);
    return false;
}

/* -- what a cell reports ----------------------------------------------------------------------- */

/* The pid may be used again by now: it is the cage's only if bwrap, or we, are its parent. */
static void meet_pid1(struct spawner *spawner, struct cell *cell, pid_t pid)
{
    int fd = pidfd_open(pid, 0);
    pid_t parent = cage_parent_of(pid);
    if (fd >= 0 && parent != cell->at.pid && parent != getpid())
        kg_close(&fd);
    if (fd < 0)
        return;
    cell->pid1 = pid;
    cell->pid1_fd = fd;
    struct cage_event event = {.kind = CAGE_TELL_CHILD, .child = cell->id, .pid = pid};
    spawner_main_tell(spawner, &event, NULL, 0);
    if (!cell->at.ahead)
        start_network(cell, pid, fd);
}

/*
 * Whoever runs the shim is its parent, and bwrap's only child; else bwrap itself tells. Once it is
 * reaped its number may be another's, whose children are none of ours.
 */
static void read_pid1(struct spawner *spawner, struct cell *cell)
{
    static const char key[] = "\"child-pid\":";
    bool is_there = cell->at.ahead && cell->ran_length > 0 && !cell->over;
    pid_t child = is_there ? cage_first_child(cell->at.pid) : 0;
    if (child > 0)
        meet_pid1(spawner, cell, child);
    cell->status[cell->status_length] = '\0';
    const char *found = strstr(cell->status, key);
    char *end;
    long pid = found ? strtol(found + sizeof(key) - 1, &end, 10) : 0;
    if (pid > 0 && *end != '\0')
        meet_pid1(spawner, cell, (pid_t)pid);
}

/* Reads what is there, up to max bytes in all; at the end of file the fd is closed. */
static void read_report(int *fd, char *text, size_t *length, size_t max)
{
    while (*fd >= 0) {
        ssize_t got = *length == max ? 0 : read(*fd, text + *length, max - *length);
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0)
            kg_close(fd);
        else
            *length += (size_t)got;
    }
}

/*
 * Once the shim runs, the cage has its own mounts, and what was staged for it can go; not before:
 * to remove a mount point takes the mount away in every namespace.
 */
static void read_reports(struct spawner *spawner, struct cell *cell)
{
    read_report(&cell->at.status_fd, cell->status, &cell->status_length, STATUS_MAX_BYTES - 1);
    read_report(&cell->at.ran_fd, cell->ran, &cell->ran_length, sizeof(cell->ran));
    if (cell->pid1 == 0)
        read_pid1(spawner, cell);
    if (cell->ran_length == 0)
        return;
    cage_launched_settle(&cell->at);
    if (cell->group != NULL)
        cage_group_share(cell->group, cell->cpu_shares);
    cell->cpu_shares = 0;
    if (spawner->ready == NULL && spawner->prepare_at_ms == 0)
        spawner->prepare_at_ms = kg_monotonic_ms() + PREPARE_MS;
}

/* -- what the kernel tells --------------------------------------------------------------------- */

static struct cell *cell_of_domain(struct spawner *spawner, uint64_t domain)
{
    struct cell *cell = spawner->cells;
    while (cell != NULL && cell->domain != domain)
        cell = cell->next;
    return cell;
}

/* The shim of a cage entered the domain; it is the plugin's first process by now. */
static void meet_domain(struct spawner *spawner, const struct cage_denial *told)
{
    pid_t parent = cage_parent_of(told->pid);
    for (struct cell *cell = spawner->cells; cell != NULL && parent > 0; cell = cell->next)
        if (cell->pid1 == parent)
            cell->domain = told->domain;
}

static void tell_denial(struct spawner *spawner, struct cage_denial *denial)
{
    struct cell *cell = denial->path ? cell_of_domain(spawner, denial->domain) : NULL;
    struct cage_event event = {.kind = CAGE_TELL_DENIED, .number = denial->access};
    if (cell != NULL) {
        event.child = cell->id;
        snprintf(event.error, sizeof(event.error), "%s", denial->path);
        spawner_main_tell(spawner, &event, NULL, 0);
    }
    kg_free(&denial->path);
}

/* The first refusal of a domain is told before the process that it began with. */
static void read_kernel_log(struct spawner *spawner)
{
    for (unsigned i = 0; i < RECORDS_A_TURN; i++) {
        struct cage_denial told;
        int result = cage_kernel_log_read(spawner->kernel_log, &told);
        if (result < 0)
            return;
        if (result == 0)
            continue;
        if (told.pid != 0) {
            meet_domain(spawner, &told);
            tell_denial(spawner, &spawner->denial);
        } else if (cell_of_domain(spawner, told.domain) != NULL) {
            tell_denial(spawner, &told);
        } else {
            kg_free(&spawner->denial.path);
            spawner->denial = told;
        }
    }
}

/* -- reaping ----------------------------------------------------------------------------------- */

/* Perhaps memory was short; then the next start makes one itself. */
static void replace_ready(struct spawner *spawner)
{
    bool could = !spawner->cannot_go_ahead;
    (void)has_namespaces(spawner);
    drop_ready(spawner);
    if (could && spawner->cannot_go_ahead)
        spawner->prepare_at_ms = kg_monotonic_ms() + PREPARE_MS;
}

static void reap(struct spawner *spawner)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (spawner->ready != NULL && cage_ready_reaped(spawner->ready, pid))
            replace_ready(spawner);
        for (struct cell *cell = spawner->cells; cell != NULL; cell = cell->next) {
            if (cell->netns.pid == pid)
                cell->netns.pid = 0;
            if (cell->watcher == pid)
                reap_watcher(cell, status);
            if (cell->over || cell->at.pid != pid)
                continue;
            cell->over = true;
            cell->wait_status = status;
            read_reports(spawner, cell);
            end_network(cell);
        }
    }
}

static bool spawner_main_is_ours(const struct spawner *spawner, pid_t pid)
{
    if (spawner->ready != NULL && cage_ready_pid(spawner->ready) == pid)
        return true;
    for (const struct cell *cell = spawner->cells; cell != NULL; cell = cell->next)
        if (cell->watcher == pid ||
            (!cell->over && (cell->at.pid == pid || cell->netns.pid == pid)))
            return true;
    return false;
}

/* Our children that we did not start, or whose bwrap is gone, were left behind: they are killed. */
static size_t kill_strays(const struct spawner *spawner, pid_t **ret_strays)
{
    size_t count, stray_count = 0;
    pid_t *children = cage_children_of(getpid(), &count);
    for (size_t i = 0; i < count; i++) {
        if (spawner_main_is_ours(spawner, children[i]))
            continue;
        kill(children[i], SIGKILL);
        children[stray_count++] = children[i];
    }
    *ret_strays = children;
    return stray_count;
}

static bool is_empty(const struct cell *cell, const pid_t *strays, size_t stray_count)
{
    if (cell->pid1 == 0)
        return stray_count == 0;
    for (size_t i = 0; i < stray_count; i++)
        if (strays[i] == cell->pid1)
            return false;
    return true;
}

/* True if some cell is over and not yet empty: then this has to be done again soon. */
static bool end_cells(struct spawner *spawner)
{
    bool any_over = false, lingers = false;
    for (const struct cell *cell = spawner->cells; cell != NULL; cell = cell->next)
        any_over = any_over || cell->over;
    if (!any_over)
        return false;
    kg_auto(kg_free) pid_t *strays = NULL;
    size_t stray_count = kill_strays(spawner, &strays);
    for (struct cell **at = &spawner->cells; *at != NULL;) {
        struct cell *cell = *at;
        if (!cell->over || !is_empty(cell, strays, stray_count) || !watcher_has_ended(cell)) {
            lingers = lingers || cell->over;
            at = &cell->next;
            continue;
        }
        *at = cell->next;
        tell_exited(spawner, cell);
        cell_free(spawner, cell);
    }
    return lingers;
}

/* -- requests ---------------------------------------------------------------------------------- */

static struct cage_plan *read_plan(int fd, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    struct stat status;
    if (fstat(fd, &status) < 0 || status.st_size > (off_t)CAGE_PLAN_MAX_BYTES) {
        kg_fail(err, KG_E_CAGE, "read cage plan: there is none, or it is too large");
        return NULL;
    }
    kg_buf_reserve(&bytes, (size_t)status.st_size + 1);
    ssize_t got = pread(fd, bytes.data, (size_t)status.st_size, 0);
    if (got < 0) {
        kg_fail_errno(err, errno, "read cage plan");
        return NULL;
    }
    bytes.length = (size_t)got;
    return cage_plan_decode(kg_buf_view(&bytes), err);
}

static void keep_cell(struct spawner *spawner, uint32_t id, struct cage_launched *at,
                      struct cage_plan *plan, struct cage_group *group)
{
    struct cell *cell = kg_alloc(sizeof(*cell));
    cell->id = id;
    cell->at = *at;
    cell->group = group;
    cell->cpu_shares = plan->cpu_shares;
    cell->pid1_fd = -1;
    cell->netns.socket = -1;
    cell->name = kg_steal(&plan->name);
    cell->network_deadline_ms = cage_plan_has_network(plan) ? kg_monotonic_ms() + BUILD_MS : 0;
    cell->network = plan->network;
    plan->network = (struct cage_network){0};
    if (cell->network_deadline_ms == 0)
        kg_close(&cell->at.block_fd);
    cell->next = spawner->cells;
    spawner->cells = cell;

    const int fds[] = {at->in_fd, at->out_fd, at->err_fd};
    struct cage_event event = {.kind = CAGE_TELL_SPAWNED, .child = id, .pid = at->pid};
    if (spawner_main_tell(spawner, &event, fds, KG_COUNT(fds)) < 0)
        kill_cell(cell);
    for (size_t i = 0; i < KG_COUNT(fds); i++)
        close(fds[i]);
    if (plan->watched)
        start_watcher(spawner, cell);
    else
        kg_close(&cell->at.watch_fd);
    start_network_ahead(cell);
}

/* What builds the cages is the system's, whatever a plan says that came from another user. */
static int spawner_main_check_tools(const struct spawner *spawner, const struct cage_plan *plan,
                                    struct kg_err *err)
{
    const char *nft = plan->network.nft;
    if (spawner->stage == NULL || spawner->owner.uid == 0)
        return 0;
    if (!cage_tool_is(plan->bwrap, "bwrap"))
        return kg_fail(err, KG_E_REFUSED, "plugin %s: %s is not the system's bwrap", plan->name,
                       plan->bwrap);
    if (nft[0] != '\0' && !cage_tool_is(nft, "nft"))
        return kg_fail(err, KG_E_REFUSED, "plugin %s: %s is not the system's nft", plan->name, nft);
    return 0;
}

static size_t count_polls(const struct spawner *spawner)
{
    size_t count = OWN_POLLS;
    for (const struct cell *cell = spawner->cells; cell != NULL; cell = cell->next)
        count += CELL_POLLS;
    return count;
}

/* The kernel polls for no more than it lets us have files, and we would hear of nothing any more.
 */
static int spawner_main_check_room(const struct spawner *spawner, const struct cage_plan *plan,
                                   struct kg_err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return kg_fail_errno(err, errno, "plugin %s: read limits", plan->name);
    if (count_polls(spawner) + CELL_POLLS <= limit.rlim_cur)
        return 0;
    return kg_fail(err, KG_E_CAGE,
                   "plugin %s: kaged may have %llu open files, too few for one more cage",
                   plan->name, (unsigned long long)limit.rlim_cur);
}

/* A cage that cannot be limited is not started. */
static int spawner_main_limit(struct cage_group *group, const struct cage_plan *plan,
                              struct kg_err *err)
{
    const struct cage_group_limits limits = {
        .memory_bytes = plan->memory_bytes,
        .processes = plan->processes_max + BWRAP_PROCESSES,
    };
    int result = group != NULL ? cage_group_limit(group, &limits, err) : 0;
    return result < 0 ? kg_wrap(err, result, "plugin %s", plan->name) : 0;
}

/*
 * The one that waits, if it is of this program and got what it was to have, or one that is made
 * now. That one leaves the namespaces to bwrap: we would have to wait for them.
 */
static struct cage_ready *spawner_main_take_ready(struct spawner *spawner, const char *bwrap,
                                                  struct kg_err *err)
{
    if (spawner->ready != NULL &&
        (!cage_ready_is_of(spawner->ready, bwrap) || !has_namespaces(spawner)))
        drop_ready(spawner);
    if (spawner->ready == NULL && make_ready_as_new(spawner, bwrap, false, err) < 0)
        return NULL;
    return kg_steal(&spawner->ready);
}

/* One that runs as the plugin does each time: what it may have cannot be shown as another's. */
static struct cage_ready *make_fixed(struct spawner *spawner, const struct cage_plan *plan,
                                     struct kg_err *err)
{
    struct cage_user user = {.fixed = true};
    if (cage_uid_fixed(spawner->fixed_uids, &spawner->owner, plan->name, &user.uid, err) < 0 ||
        spawner_main_make_ready(spawner, plan->bwrap, false, user, err) < 0)
        return NULL;
    return kg_steal(&spawner->ready);
}

static int launch_ready(struct spawner *spawner, uint32_t id, struct cage_plan *plan,
                        struct cage_ready *ready, struct kg_err *err)
{
    struct cage_launched launched;
    if (ready == NULL)
        return kg_wrap(err, -EINVAL, "plugin %s", plan->name);
    struct cage_group *group = cage_ready_group(ready);
    int result = spawner_main_limit(group, plan, err);
    if (result == 0)
        result = cage_launch(plan, spawner->stage, ready, &launched, err);
    if (result < 0) {
        end_ready(spawner, ready);
        return result;
    }
    free(spawner->bwrap);
    spawner->bwrap = kg_strdup(plan->bwrap);
    keep_cell(spawner, id, &launched, plan, group);
    return 0;
}

static int spawner_main_launch(struct spawner *spawner, uint32_t id, struct cage_plan *plan,
                               struct kg_err *err)
{
    int result =
        launch_ready(spawner, id, plan, spawner_main_take_ready(spawner, plan->bwrap, err), err);
    if (result == -ENOTSUP)
        result = launch_ready(spawner, id, plan, make_fixed(spawner, plan, err), err);
    return result;
}

static void spawner_main_spawn(struct spawner *spawner, uint32_t id, int plan_fd)
{
    struct kg_err err = {0};
    struct cage_plan *plan = read_plan(plan_fd, &err);
    if (plan == NULL || spawner_main_check_tools(spawner, plan, &err) < 0 ||
        spawner_main_check_room(spawner, plan, &err) < 0 ||
        spawner_main_launch(spawner, id, plan, &err) < 0)
        spawner_main_tell_failed(spawner, id, err.message);
    cage_plan_free(plan);
}

static void deliver_signal(struct spawner *spawner, uint32_t id, int number)
{
    struct cell *cell = find_cell(spawner, id);
    if (cell == NULL)
        return;
    read_reports(spawner, cell);
    if (number == SIGKILL)
        kill_cell(cell);
    else
        ask_cell_to_end(cell, number);
}

static void read_request(struct spawner *spawner)
{
    struct cage_request request;
    int fds[CAGE_MESSAGE_FDS];
    int result = cage_message_receive(spawner->socket, &request, sizeof(request), fds);
    if (result <= 0) {
        spawner->daemon_gone = true;
        return;
    }
    if (request.kind == CAGE_ASK_SPAWN)
        spawner_main_spawn(spawner, request.child, fds[0]);
    else if (request.kind == CAGE_ASK_SIGNAL)
        deliver_signal(spawner, request.child, request.signal);
    for (size_t i = 0; i < CAGE_MESSAGE_FDS; i++)
        kg_close(&fds[i]);
}

/* -- the loop ---------------------------------------------------------------------------------- */

static void read_signals(struct spawner *spawner)
{
    struct signalfd_siginfo info;
    while (read(spawner->signals, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == DAEMON_DIED)
            spawner->daemon_gone = true;
    }
    reap(spawner);
}

/* The shorter of two waits; -1 is for ever. */
static int shorter(int a_ms, int b_ms)
{
    return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* Waits for anything to happen: the socket, a signal, a report from some cage, a limit. */
static void spawner_main_turn(struct spawner *spawner, struct pollfd *polls, int timeout_ms)
{
    size_t count = 0;
    uint64_t now_ms = kg_monotonic_ms();
    polls[count++] = (struct pollfd){.fd = spawner->signals, .events = POLLIN};
    polls[count++] =
        (struct pollfd){.fd = spawner->daemon_gone ? -1 : spawner->socket, .events = POLLIN};
    polls[count++] = (struct pollfd){.fd = spawner->kernel_log, .events = POLLIN};
    for (const struct cell *cell = spawner->cells; cell != NULL; cell = cell->next) {
        polls[count++] = (struct pollfd){.fd = cell->at.status_fd, .events = POLLIN};
        polls[count++] = (struct pollfd){.fd = cell->at.ran_fd, .events = POLLIN};
        polls[count++] = (struct pollfd){.fd = cell->netns.socket, .events = POLLIN};
        cage_group_polls(cell->group, &polls[count]);
        count += CAGE_GROUP_POLLS;
        timeout_ms = shorter(timeout_ms, cage_group_wait_ms(cell->group, now_ms));
    }
    if (poll(polls, count, timeout_ms) < 0)
        return;
    size_t at = OWN_POLLS;
    now_ms = kg_monotonic_ms();
    for (struct cell *cell = spawner->cells; cell != NULL; cell = cell->next, at += CELL_POLLS) {
        if (polls[at + 2].revents != 0)
            spawner_main_read_network(spawner, cell);
        if (polls[at].revents != 0 || polls[at + 1].revents != 0)
            read_reports(spawner, cell);
        tell_limits(spawner, cell, &polls[at + 3], now_ms);
    }
    if (polls[2].revents != 0)
        read_kernel_log(spawner);
    if (polls[0].revents != 0)
        read_signals(spawner);
    if (polls[1].revents != 0)
        read_request(spawner);
}

static struct pollfd *room_for_polls(const struct spawner *spawner, struct pollfd *old)
{
    return kg_realloc(old, count_polls(spawner) * sizeof(*old));
}

/* Until the next thing is due, or for ever. */
static int next_timeout(const struct spawner *spawner, bool lingers)
{
    int64_t least = lingers ? KILL_AGAIN_MS : -1;
    int64_t now = (int64_t)kg_monotonic_ms();
    if (spawner->prepare_at_ms != 0)
        least = (int64_t)spawner->prepare_at_ms > now ? (int64_t)spawner->prepare_at_ms - now : 0;
    for (const struct cell *cell = spawner->cells; cell != NULL; cell = cell->next) {
        int64_t left = (int64_t)cell->network_deadline_ms - now;
        if (cell->network_deadline_ms != 0 && (least < 0 || left < least))
            least = left > 0 ? left : 0;
    }
    return (int)least;
}

/* Of one that was killed: nobody is to find it once we are gone. */
static void await_end(pid_t pid, uint64_t deadline_ms)
{
    while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0 && kg_monotonic_ms() < deadline_ms)
        usleep(AWAIT_US);
}

static void spawner_main_serve(struct spawner *spawner)
{
    struct pollfd *polls = NULL;
    bool lingers = false;
    while (!spawner->daemon_gone) {
        polls = room_for_polls(spawner, polls);
        spawner_main_turn(spawner, polls, next_timeout(spawner, lingers));
        check_deadlines(spawner);
        spawner_main_prepare(spawner);
        lingers = end_cells(spawner);
        lingers = (spawner->cgroups != NULL && cage_cgroups_tidy(spawner->cgroups)) || lingers;
    }
    pid_t ready = spawner->ready != NULL ? cage_ready_pid(spawner->ready) : 0;
    drop_ready(spawner);
    uint64_t deadline = kg_monotonic_ms() + LAST_WORD_MS;
    await_end(ready, deadline);
    while (spawner->cells != NULL && kg_monotonic_ms() < deadline) {
        for (struct cell *cell = spawner->cells; cell != NULL; cell = cell->next)
            kill_cell(cell);
        polls = room_for_polls(spawner, polls);
        spawner_main_turn(spawner, polls, KILL_AGAIN_MS);
        end_cells(spawner);
    }
    free(polls);
    while (spawner->cells != NULL) {
        struct cell *cell = spawner->cells;
        spawner->cells = cell->next;
        cell_free(spawner, cell);
    }
}

/* -- confinement of the spawner itself --------------------------------------------------------- */

/*
 * The terminal's Ctrl-C, and a service manager's SIGTERM to the whole group, are for the daemon: it
 * stops the plugins in good order, and then us.
 */
static int take_signals(void)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
    for (size_t i = 0; i < KG_COUNT(ignored); i++)
        signal(ignored[i], SIG_IGN);
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGCHLD);
    sigaddset(&taken, DAEMON_DIED);
    if (sigprocmask(SIG_SETMASK, &taken, NULL) < 0)
        return -1;
    return signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int spawner_main_start(struct spawner *spawner, const char *socket, const char *daemon_pid,
                              struct cage_limits *ret_limits, struct kg_err *err)
{
    setsid();
    if (chdir("/") < 0)
        return kg_fail_errno(err, errno, "spawner: chdir /");
    spawner->socket = atoi(socket);
    spawner->signals = take_signals();
    if (spawner->signals < 0)
        return kg_fail_errno(err, errno, "spawner: take signals");
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_PDEATHSIG, DAEMON_DIED) < 0)
        return kg_fail_errno(err, errno, "spawner: prctl");
    if (getppid() != atoi(daemon_pid))
        return kg_fail(err, KG_E_CAGE, "spawner: the daemon is gone");
    if (fcntl(spawner->socket, F_SETFD, FD_CLOEXEC) < 0)
        return kg_fail_errno(err, errno, "spawner: socket %s", socket);
    spawner->shim = cage_program_open("kaged-cage-init", err);
    if (spawner->shim < 0)
        return spawner->shim;
    spawner->watcher = cage_program_open("kaged-watch", NULL);
    const struct cage_cgroup_asker asker = {"/proc", atoi(daemon_pid), geteuid() == 0};
    spawner->cgroups = cage_cgroups_new(&asker, ret_limits);
    if (geteuid() != 0)
        return 0;
    (void)cage_kernel_log_open(&spawner->kernel_log);
    spawner->stage = cage_stage_new(&spawner->owner, err);
    /* Only a stage knows the owner: without one, root would open what he may not. */
    if (spawner->stage == NULL && spawner->owner.uid != 0)
        return -EINVAL;
    if (spawner->stage == NULL) {
        kg_log(KG_WARN, "%s; plugins see only what any user may read", err->message);
        err->message[0] = '\0';
    }
    return 0;
}

/* -- the doctor asks --------------------------------------------------------------------------- */

/*
 * Becomes bwrap, which makes namespaces as for a cage and shows its version. What this program is
 * allowed and others are not, by AppArmor, nobody gets by it: bwrap and its arguments are fixed.
 */
static int try_namespaces(void)
{
    kg_auto(kg_free) char *bwrap = cage_tool_path("bwrap");
    const char *const argv[] = {bwrap,
                                "--unshare-all",
                                "--unshare-user",
                                "--disable-userns",
                                "--ro-bind",
                                "/",
                                "/",
                                "--proc",
                                "/proc",
                                "--dev",
                                "/dev",
                                "--",
                                bwrap,
                                "--version",
                                NULL};
    static char *const no_environment[] = {NULL};
    if (bwrap == NULL || !cage_become_user(CAGE_UID))
        return 126;
    execve(bwrap, (char *const *)argv, no_environment);
    fprintf(stderr, "%s\n", strerror(errno));
    return 127;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], CAGE_SPAWNER_TRY) == 0)
        return try_namespaces();
    struct spawner spawner = {
        .socket = -1, .signals = -1, .shim = -1, .watcher = -1, .kernel_log = -1};
    if (argc != 9 || !cage_owner_parse(argv[3], argv[4], &spawner.owner)) {
        fprintf(stderr, "kaged-spawner is started by kaged\n");
        return 2;
    }
    kg_log_set(KG_INFO, strcmp(argv[5], "json") == 0 ? KG_LOG_JSON : KG_LOG_TEXT);
    spawner.owner.uids =
        (struct cage_uids){(uid_t)strtoul(argv[6], NULL, 10), (uint32_t)strtoul(argv[7], NULL, 10),
                           argv[8][0] != '\0' ? argv[8] : NULL};
    spawner.uids = cage_uid_pool_new(spawner.owner.uids);
    spawner.fixed_uids =
        cage_uid_record_new(cage_uids_fixed(spawner.owner.uids), spawner.owner.uids.file);
    struct kg_err err = {0};
    struct cage_limits limits = {.mode = CAGE_LIMITS_NONE};
    struct cage_event ready = {.kind = CAGE_TELL_READY};
    ready.built = spawner_main_start(&spawner, argv[1], argv[2], &limits, &err) == 0;
    ready.number = limits.mode;
    ready.count = spawner.kernel_log >= 0;
    snprintf(ready.error, sizeof(ready.error), "%s", ready.built ? limits.words : err.message);
    if (spawner_main_tell(&spawner, &ready, NULL, 0) == 0 && ready.built)
        spawner_main_serve(&spawner);
    cage_stage_free(spawner.stage);
    cage_uid_pool_free(spawner.uids);
    cage_uid_record_free(spawner.fixed_uids);
    cage_cgroups_free(spawner.cgroups);
    kg_free(&spawner.denial.path);
    free(spawner.bwrap);
    return ready.built ? 0 : 1;
}
