/*
 * The spawner, seen from the daemon. Every child that was asked for is told of exactly once that it
 * ended, also when the spawner is lost: it dies with its children, and each is reported as killed.
 */
#include "cage/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_TIMEOUT_MS 10000
#define END_TIMEOUT_MS   5000
#define EVENTS_A_TURN    64

struct cage_child {
    struct cage_child *next;
    struct cage_spawner *spawner; /* borrowed */
    uint32_t id;
    pid_t pid1; /* of the cage, or 0 while unknown */
    const struct cage_child_ops *ops;
    void *data;
    const char *error; /* why it is being killed by us, or NULL */
};

/* A request that did not fit into the socket. */
struct waiting {
    struct waiting *next;
    struct cage_request request;
    int fd; /* owned, or -1 */
};

struct cage_spawner {
    pid_t pid;
    int socket;
    uv_poll_t *poll; /* owned by libuv from its close on */
    void (*on_lost)(void *data);
    void *data;
    struct cage_child *children; /* owned */
    struct waiting *waiting;     /* owned, oldest first */
    struct waiting **waiting_end;
    uint32_t last_id;
    struct cage_limits limits;
    bool lost;
    bool kernel_tells; /* what it refuses in cages */
};

/* -- children ---------------------------------------------------------------------------------- */

static struct cage_child **find_child(struct cage_spawner *spawner, uint32_t id)
{
    struct cage_child **at = &spawner->children;
    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static void spawner_end_child(struct cage_child **at, const struct cage_exit *how,
                              const char *error)
{
    struct cage_child *child = *at;
    *at = child->next;
    child->ops->on_exited(child->data, how, child->error ? child->error : error);
    free(child);
}

/* -- sending ----------------------------------------------------------------------------------- */

static void spawner_on_poll(uv_poll_t *poll, int status, int events);

static int spawner_send_request(struct cage_spawner *spawner, const struct cage_request *request,
                                int fd)
{
    return cage_message_send(spawner->socket, request, sizeof(*request), &fd, fd >= 0);
}

static void spawner_watch(struct cage_spawner *spawner)
{
    if (spawner->poll != NULL)
        uv_poll_start(spawner->poll, UV_READABLE | (spawner->waiting ? UV_WRITABLE : 0),
                      spawner_on_poll);
}

static void drop_waiting(struct cage_spawner *spawner)
{
    struct waiting *first = spawner->waiting;
    spawner->waiting = first->next;
    if (spawner->waiting == NULL)
        spawner->waiting_end = &spawner->waiting;
    kg_close(&first->fd);
    free(first);
}

static void spawner_send_waiting(struct cage_spawner *spawner)
{
    while (spawner->waiting != NULL) {
        if (spawner_send_request(spawner, &spawner->waiting->request, spawner->waiting->fd) ==
            -EAGAIN)
            return;
        drop_waiting(spawner);
    }
    spawner_watch(spawner);
}

/* Sends now, or when there is room. A dead spawner is noticed by the poll, too. */
static int spawner_ask(struct cage_spawner *spawner, const struct cage_request *request, int fd)
{
    int result = spawner->waiting == NULL ? spawner_send_request(spawner, request, fd) : -EAGAIN;
    if (result != -EAGAIN)
        return result;
    struct waiting *last = kg_alloc(sizeof(*last));
    last->request = *request;
    last->fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    *spawner->waiting_end = last;
    spawner->waiting_end = &last->next;
    spawner_watch(spawner);
    return 0;
}

/* -- receiving --------------------------------------------------------------------------------- */

static void take_spawned(struct cage_spawner *spawner, const struct cage_event *event,
                         int fds[CAGE_MESSAGE_FDS])
{
    struct cage_child *child = *find_child(spawner, event->child);
    bool whole = fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0;
    if (child != NULL && whole) {
        child->ops->on_spawned(child->data, event->pid, fds[0], fds[1], fds[2]);
        return;
    }
    for (size_t i = 0; i < CAGE_MESSAGE_FDS; i++)
        kg_close(&fds[i]);
    if (child == NULL)
        return;
    child->error = "spawn: the daemon has no file descriptors left";
    cage_signal(child, SIGKILL);
}

static void take_child(struct cage_spawner *spawner, const struct cage_event *event)
{
    struct cage_child *child = *find_child(spawner, event->child);
    if (child != NULL)
        child->pid1 = event->pid;
}

static void take_exited(struct cage_spawner *spawner, const struct cage_event *event)
{
    struct cage_child **at = find_child(spawner, event->child);
    struct cage_exit how = {
        .built = event->built != 0,
        .exit_code = event->exit_code,
        .signal = event->signal,
        .memory_kills = event->memory_kills,
        .fork_refusals = event->fork_refusals,
    };
    if (*at != NULL)
        spawner_end_child(at, &how, event->error[0] != '\0' ? event->error : NULL);
}

/* Whoever does not take sockets does not get them. */
static void take_socket(struct cage_spawner *spawner, const struct cage_event *event,
                        int fds[CAGE_MESSAGE_FDS])
{
    struct cage_child *child = *find_child(spawner, event->child);
    if (child != NULL && child->ops->on_socket != NULL && fds[0] >= 0)
        child->ops->on_socket(child->data, event->number, kg_steal_fd(&fds[0]));
    for (size_t i = 0; i < CAGE_MESSAGE_FDS; i++)
        kg_close(&fds[i]);
}

static void take_limit(struct cage_spawner *spawner, const struct cage_event *event)
{
    struct cage_child *child = *find_child(spawner, event->child);
    if (child != NULL && child->ops->on_limit != NULL)
        child->ops->on_limit(child->data, (enum cage_limit)event->number, event->count);
}

static void take_denied(struct cage_spawner *spawner, const struct cage_event *event)
{
    struct cage_child *child = *find_child(spawner, event->child);
    if (child != NULL && child->ops->on_denied != NULL)
        child->ops->on_denied(child->data, (enum cage_access)event->number, event->error);
}

static void spawner_take_event(struct cage_spawner *spawner, struct cage_event *event,
                               int fds[CAGE_MESSAGE_FDS])
{
    event->error[sizeof(event->error) - 1] = '\0';
    if (event->kind == CAGE_TELL_SPAWNED)
        take_spawned(spawner, event, fds);
    else if (event->kind == CAGE_TELL_CHILD)
        take_child(spawner, event);
    else if (event->kind == CAGE_TELL_SOCKET)
        take_socket(spawner, event, fds);
    else if (event->kind == CAGE_TELL_LIMIT)
        take_limit(spawner, event);
    else if (event->kind == CAGE_TELL_DENIED)
        take_denied(spawner, event);
    else if (event->kind == CAGE_TELL_EXITED)
        take_exited(spawner, event);
}

static void spawner_on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static void stop_polling(struct cage_spawner *spawner)
{
    if (spawner->poll != NULL)
        uv_close((uv_handle_t *)spawner->poll, spawner_on_poll_closed);
    spawner->poll = NULL;
}

static void lose(struct cage_spawner *spawner)
{
    const struct cage_exit killed = {.built = true, .exit_code = -1, .signal = SIGKILL};
    spawner->lost = true;
    stop_polling(spawner);
    while (spawner->children != NULL)
        spawner_end_child(&spawner->children, &killed,
                          "kaged-spawner is gone, and its cages with it");
    spawner->on_lost(spawner->data);
}

static void spawner_on_poll(uv_poll_t *poll, int status, int events)
{
    struct cage_spawner *spawner = poll->data;
    if (status == 0 && (events & UV_WRITABLE) != 0)
        spawner_send_waiting(spawner);
    for (unsigned i = 0; i < EVENTS_A_TURN; i++) {
        struct cage_event event;
        int fds[CAGE_MESSAGE_FDS];
        int result = cage_message_receive(spawner->socket, &event, sizeof(event), fds);
        if (result == -EAGAIN)
            return;
        if (result <= 0)
            return lose(spawner);
        spawner_take_event(spawner, &event, fds);
    }
}

/* -- start and end ----------------------------------------------------------------------------- */

__attribute__((noreturn)) static void become_spawner(const char *path, int socket, pid_t daemon,
                                                     const struct cage_owner *owner)
{
    char socket_text[16], daemon_text[16], uid_text[16], base_text[16], count_text[16];
    snprintf(socket_text, sizeof(socket_text), "%d", socket);
    snprintf(daemon_text, sizeof(daemon_text), "%d", daemon);
    snprintf(uid_text, sizeof(uid_text), "%u", (unsigned)owner->uid);
    snprintf(base_text, sizeof(base_text), "%u", (unsigned)owner->uids.base);
    snprintf(count_text, sizeof(count_text), "%u", (unsigned)owner->uids.count);
    fcntl(socket, F_SETFD, 0);
    execl(path, "kaged-spawner", socket_text, daemon_text, uid_text, cage_owner_groups_text(owner),
          kg_log_format() == KG_LOG_JSON ? "json" : "text", base_text, count_text,
          owner->uids.file != NULL ? owner->uids.file : "", (char *)NULL);
    _exit(127);
}

static int wait_until_ready(struct cage_spawner *spawner, struct kg_err *err)
{
    struct pollfd wait = {.fd = spawner->socket, .events = POLLIN};
    struct cage_event event = {0};
    int fds[CAGE_MESSAGE_FDS];
    int result = poll(&wait, 1, START_TIMEOUT_MS);
    if (result > 0)
        result = cage_message_receive(spawner->socket, &event, sizeof(event), fds);
    if (result <= 0 || event.kind != CAGE_TELL_READY)
        return kg_fail(err, KG_E_CAGE, "start kaged-spawner: it did not say that it is ready");
    event.error[sizeof(event.error) - 1] = '\0';
    if (event.built == 0)
        return kg_fail(err, KG_E_CAGE, "start kaged-spawner: %s", event.error);
    struct cage_limits *limits = &spawner->limits;
    limits->mode = event.number < CAGE_LIMITS_MODES ? event.number : CAGE_LIMITS_NONE;
    memcpy(limits->words, event.error, sizeof(limits->words));
    spawner->kernel_tells = event.count != 0;
    return 0;
}

struct cage_spawner *cage_spawner_start(struct kg_err *err)
{
    struct cage_owner self = cage_owner_self();
    return cage_spawner_start_for(&self, err);
}

struct cage_spawner *cage_spawner_start_for(const struct cage_owner *owner, struct kg_err *err)
{
    kg_auto(kg_free) char *path = cage_helper_path("kaged-spawner");
    if (path == NULL) {
        kg_fail(err, KG_E_CAGE, "kaged-spawner is neither beside this program nor in %s",
                KAGED_LIBEXEC);
        kg_hint(err, "install all of kaged: make install");
        return NULL;
    }
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
        kg_fail_errno(err, errno, "start kaged-spawner: socketpair");
        return NULL;
    }
    pid_t daemon = getpid();
    pid_t pid = fork();
    int errnum = errno;
    if (pid == 0)
        become_spawner(path, ends[1], daemon, owner);
    close(ends[1]);
    struct cage_spawner *spawner = kg_alloc(sizeof(*spawner));
    spawner->pid = pid;
    spawner->socket = ends[0];
    spawner->waiting_end = &spawner->waiting;
    int result = pid < 0 ? kg_fail_errno(err, errnum, "start kaged-spawner: fork")
                         : wait_until_ready(spawner, err);
    if (result == 0 && fcntl(spawner->socket, F_SETFL, O_NONBLOCK) == 0)
        return spawner;
    cage_spawner_free(spawner);
    return NULL;
}

const char *cage_spawner_knowledge(const struct cage_spawner *spawner)
{
    return spawner->kernel_tells
               ? "Refused hosts and ports are known from the gatekeeper, if the plugin has a "
                 "network at all; programs and writing from the kernel's audit log. What is not "
                 "in the cage is simply not there, and nobody sees the attempt, unless "
                 "sandbox.explain is set."
               : "Refused hosts and ports are known from the gatekeeper, if the plugin has a "
                 "network at all. Refused files and programs are not reported: the kernel's audit "
                 "log is off, or the spawner may not read it. With sandbox.explain they are.";
}

int cage_spawner_attach(struct cage_spawner *spawner, struct loop *loop,
                        void (*on_lost)(void *data), void *data, struct kg_err *err)
{
    uv_poll_t *poll = kg_alloc(sizeof(*poll));
    int result = uv_poll_init(loop_uv(loop), poll, spawner->socket);
    if (result < 0) {
        free(poll);
        return kg_fail_errno(err, -result, "attach kaged-spawner to the loop");
    }
    poll->data = spawner;
    spawner->poll = poll;
    spawner->on_lost = on_lost;
    spawner->data = data;
    spawner_watch(spawner);
    return 0;
}

const struct cage_limits *cage_spawner_limits(const struct cage_spawner *spawner)
{
    return &spawner->limits;
}

/* The end of its socket tells the spawner to end; one that does not is killed, and its cages by
 * that. */
static int spawner_wait_for_end(pid_t pid)
{
    int status = 0;
    kg_auto(kg_close) int fd = pidfd_open(pid, 0);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    /* A daemon that has given up root cannot kill root's spawner; that goes by itself, later. */
    if ((fd < 0 || poll(&wait, 1, END_TIMEOUT_MS) <= 0) && kill(pid, SIGKILL) < 0)
        return -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return status;
}

bool cage_spawner_is_idle(const struct cage_spawner *spawner)
{
    return spawner->children == NULL;
}

void cage_spawner_free(struct cage_spawner *spawner)
{
    if (spawner == NULL)
        return;
    stop_polling(spawner);
    kg_close(&spawner->socket);
    while (spawner->waiting != NULL)
        drop_waiting(spawner);
    int status = spawner->pid > 0 ? spawner_wait_for_end(spawner->pid) : 0;
    if (status != 0 && !spawner->lost)
        kg_log(KG_WARN, "kaged-spawner ended with status %#x", (unsigned)status);
    while (spawner->children != NULL) {
        struct cage_child *child = spawner->children;
        spawner->children = child->next;
        free(child);
    }
    free(spawner);
}

/* -- asking ------------------------------------------------------------------------------------ */

static int write_plan(const struct cage_plan *plan, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf bytes = {0};
    cage_plan_encode(plan, &bytes);
    int fd = cage_memory_file("cage-plan", bytes.data, bytes.length, err);
    return fd < 0 ? kg_wrap(err, fd, "plugin %s", plan->name) : fd;
}

struct cage_child *cage_spawn(struct cage_spawner *spawner, const struct cage_plan *plan,
                              const struct cage_child_ops *ops, void *data, struct kg_err *err)
{
    if (spawner->lost) {
        kg_fail(err, KG_E_CAGE, "plugin %s: spawn: kaged-spawner is gone", plan->name);
        return NULL;
    }
    kg_auto(kg_close) int fd = write_plan(plan, err);
    if (fd < 0)
        return NULL;
    struct cage_child *child = kg_alloc(sizeof(*child));
    child->spawner = spawner;
    child->id = ++spawner->last_id;
    child->ops = ops;
    child->data = data;
    child->next = spawner->children;
    spawner->children = child;
    int result = spawner_ask(
        spawner, &(struct cage_request){.kind = CAGE_ASK_SPAWN, .child = child->id}, fd);
    if (result == 0)
        return child;
    kg_fail_errno(err, -result, "plugin %s: spawn: ask kaged-spawner", plan->name);
    spawner->children = child->next;
    free(child);
    return NULL;
}

void cage_signal(struct cage_child *child, int signal)
{
    struct cage_request request = {.kind = CAGE_ASK_SIGNAL, .child = child->id, .signal = signal};
    (void)spawner_ask(child->spawner, &request, -1); /* it fails only when the spawner is gone */
}

pid_t cage_child_pid(const struct cage_child *child)
{
    return child->pid1 > 0 ? cage_first_child(child->pid1) : 0;
}

pid_t cage_child_root(const struct cage_child *child)
{
    return child->pid1 > 0 ? child->pid1 : 0;
}

uint64_t cage_child_memory(const struct cage_child *child)
{
    return child->pid1 > 0 ? cage_memory_of(child->pid1) + cage_files_memory(child->pid1) : 0;
}
