/*
 * Each connection is made or accepted here, and handed to kaged-link with one end of a pair of
 * sockets; until that says who is there, nobody has the other end. What is handed over is
 * kaged-link's alone, so it ends with it: then it is started again, and whoever needs a connection
 * makes another.
 */
#include "cluster/link_wire.h"

#include "base/url.h"
#include "helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM         "kaged-link"
#define BACKLOG         64
#define CAME_MAX        64 /* that are not known yet */
#define ACCEPTS_A_TURN  16
#define CONNECT_MS      6000 /* with the handshake, which kaged-link gives up sooner */
#define AGAIN_MS        500  /* before it is started again */
#define SILENCE_MS      10000
#define PROBE_AFTER_SEC 5
#define PROBE_EVERY_SEC 2
#define REFUSALS_A_SEC  1

union link_place {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct link {
    struct loop *loop;
    char *node, *address; /* owned */
    struct kg_buf pem;    /* owned, and overwritten: what kaged-link is given first */
    struct link_options told;
    struct loop_fd listener;
    struct loop_fd control; /* fd -1: it does not run */
    pid_t pid;
    struct loop_timer again;
    struct link_call *calls;
    size_t came;
    uint32_t last_id;
    struct kg_rate refusals;
    char problem[LINK_WORDS]; /* why it does not run */
};

/* A connection until it is known who is there. */
struct link_call {
    struct link_call *next;
    struct link *link;
    uint32_t id;
    bool came;                   /* it was accepted, and nobody here waits for it */
    char *node, *host, *address; /* owned; whom to reach */
    uint16_t port;
    uv_getaddrinfo_t *looks;   /* whose data is the call; NULL: it is not being looked up */
    struct loop_fd connecting; /* while it is */
    int plain;                 /* our end of the pair; -1: there is none yet */
    struct loop_timer late;
    struct loop_task failing;
    struct kg_err err;
    link_connected_fn *on_connected;
    void *data;
};

/* -- calls ------------------------------------------------------------------------------------- */

static void link_call_free(struct link_call *call)
{
    struct link *link = call->link;
    KG_UNLINK(link->calls, call);
    link->came -= call->came;
    loop_timer_stop(link->loop, &call->late);
    loop_undefer(link->loop, &call->failing);
    loop_fd_end(&call->connecting);
    kg_close(&call->plain);
    if (call->looks != NULL) {
        call->looks->data = NULL; /* it is freed when it comes back */
        uv_cancel((uv_req_t *)call->looks);
    }
    free(call->node);
    free(call->host);
    free(call->address);
    free(call);
}

static void link_refuse(struct link *link, const struct link_call *call, const char *words)
{
    uint32_t more = 0;
    if (kg_rate_pass(&link->refusals, REFUSALS_A_SEC, loop_now_ms(link->loop), &more))
        link->told.on_refused(link->told.data, call->address, words);
}

/* Of one that came nobody waits for the end. */
static void link_call_fail(struct link_call *call, const char *words)
{
    struct kg_err err;
    if (call->came) {
        link_refuse(call->link, call, words);
        link_call_free(call);
        return;
    }
    kg_fail(&err, KG_E_NODE_AWAY, "the node %s cannot be reached at %s: %s", call->node,
            call->address, words);
    kg_hint(&err, "kaged doctor tries it; kaged cluster status shows which nodes there are");
    link_connected_fn *on_connected = call->on_connected;
    void *data = call->data;
    link_call_free(call);
    on_connected(data, -1, &err);
}

static void link_on_late(struct loop_timer *timer)
{
    link_call_fail(KG_CONTAINER(timer, struct link_call, late), "it does not answer");
}

static void link_on_failing(struct loop_task *task)
{
    struct link_call *call = KG_CONTAINER(task, struct link_call, failing);
    kg_auto(kg_free) char *words = kg_strdup(call->err.message);
    link_call_fail(call, words);
}

/* Never before who asked has returned. */
static void link_call_fail_soon(struct link_call *call, const char *words)
{
    kg_fail(&call->err, KG_E_NODE_AWAY, "%s", words);
    call->failing.run = link_on_failing;
    loop_defer(call->link->loop, &call->failing);
}

static struct link_call *link_call_new(struct link *link)
{
    struct link_call *call = kg_alloc(sizeof(*call));
    call->link = link;
    call->id = ++link->last_id;
    call->plain = call->connecting.fd = -1;
    call->next = link->calls;
    link->calls = call;
    loop_timer_start(link->loop, &call->late, CONNECT_MS, link_on_late);
    return call;
}

/* -- handing over ------------------------------------------------------------------------------ */

/* A peer that says nothing, nor acknowledges, is gone after a while. */
static void link_tune(int fd)
{
    const struct {
        int level, name, value;
    } rows[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, PROBE_AFTER_SEC},
        {IPPROTO_TCP, TCP_KEEPINTVL, PROBE_EVERY_SEC},
        {IPPROTO_TCP, TCP_KEEPCNT, 2},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, SILENCE_MS},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++)
        (void)setsockopt(fd, rows[i].level, rows[i].name, &rows[i].value, sizeof(rows[i].value));
}

/* False: it cannot be now. */
static bool link_hand_over(struct link_call *call, int net)
{
    struct link *link = call->link;
    struct link_message order = {.kind = call->came ? LINK_ACCEPT : LINK_CONNECT, .id = call->id};
    int ends[2];
    link_tune(net);
    if (link->control.fd < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return false;
    if (call->node != NULL)
        kg_str_copy(kg_str(call->node), order.node, sizeof(order.node));
    const int fds[] = {net, ends[1]};
    call->plain = ends[0];
    int result = cage_message_send(link->control.fd, &order, sizeof(order), fds, KG_COUNT(fds));
    close(ends[1]);
    return result == 0;
}

static struct link_call *link_call_find(const struct link *link, uint32_t id)
{
    struct link_call *call = link->calls;
    while (call != NULL && call->id != id)
        call = call->next;
    return call;
}

static void link_take_open(struct link_call *call, const char *node)
{
    struct link *link = call->link;
    link_connected_fn *on_connected = call->on_connected;
    void *data = call->data;
    bool came = call->came;
    int fd = kg_steal_fd(&call->plain);
    link_call_free(call);
    if (came)
        link->told.on_came(link->told.data, fd, node);
    else
        on_connected(data, fd, NULL);
}

/* -- kaged-link -------------------------------------------------------------------------------- */

static void link_start(struct link *link);

static void link_on_again(struct loop_timer *timer)
{
    link_start(KG_CONTAINER(timer, struct link, again));
}

static void link_reap(struct link *link)
{
    if (link->pid <= 0)
        return;
    kill(link->pid, SIGKILL);
    while (waitpid(link->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    link->pid = 0;
}

static void link_lose(struct link *link)
{
    loop_fd_end(&link->control);
    link_reap(link);
    if (link->problem[0] == '\0')
        snprintf(link->problem, sizeof(link->problem), PROGRAM " ended");
    kg_log(KG_WARN, "cluster: %s; it is started again", link->problem);
    loop_timer_start(link->loop, &link->again, AGAIN_MS, link_on_again);
    while (link->calls != NULL) /* what fails now may ask again: then it fails soon */
        if (link->calls->failing.queued)
            break;
        else
            link_call_fail(link->calls, link->problem);
}

static void link_take(struct link *link, struct link_message *message)
{
    message->node[LINK_NODE_MAX] = message->words[LINK_WORDS - 1] = '\0';
    struct link_call *call = link_call_find(link, message->id);
    if (message->kind == LINK_READY)
        memcpy(link->problem, message->words, sizeof(link->problem));
    else if (call != NULL && message->kind == LINK_OPEN)
        link_take_open(call, message->node);
    else if (call != NULL && message->kind == LINK_FAILED)
        link_call_fail(call, message->words);
}

static void link_on_said(uv_poll_t *poll, int status, int events)
{
    struct link *link = KG_CONTAINER(poll->data, struct link, control);
    (void)status, (void)events;
    while (link->control.fd >= 0) {
        struct link_message message;
        int fds[CAGE_MESSAGE_FDS];
        int result = cage_message_receive(link->control.fd, &message, sizeof(message), fds);
        if (result == -EAGAIN)
            return;
        if (result <= 0) {
            link_lose(link);
            return;
        }
        link_take(link, &message);
    }
}

static int link_spawn(struct link *link, int control, struct kg_err *err)
{
    kg_auto(kg_free) char *program = helper_program(PROGRAM, err);
    char *const words[] = {(char *)PROGRAM, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    if (program == NULL)
        return -ENOENT;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, control, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    int errnum = posix_spawn(&link->pid, program, &files, &attributes, words,
                             (char *const *)helper_environment);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    return errnum == 0 ? 0 : kg_fail_errno(err, errnum, "run %s", program);
}

static int link_give_keys(struct link *link, int control, struct kg_err *err)
{
    const struct link_message message = {.kind = LINK_KEYS};
    kg_auto(kg_close) int keys = cage_memory_file("keys", link->pem.data, link->pem.length, err);
    if (keys < 0)
        return keys;
    int result = cage_message_send(control, &message, sizeof(message), &keys, 1);
    return result < 0 ? kg_fail_errno(err, -result, "give " PROGRAM " its keys") : 0;
}

static int link_try_start(struct link *link, struct kg_err *err)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return kg_fail_errno(err, errno, "start " PROGRAM ": socketpair");
    link->problem[0] = '\0';
    int result = link_give_keys(link, ends[0], err);
    if (result == 0)
        result = link_spawn(link, ends[1], err);
    close(ends[1]);
    if (result < 0) {
        close(ends[0]);
        return result;
    }
    loop_fd_begin(link->loop, &link->control, ends[0]);
    if (link->control.poll != NULL)
        uv_poll_start(link->control.poll, UV_READABLE, link_on_said);
    return 0;
}

static void link_start(struct link *link)
{
    struct kg_err err;
    if (link_try_start(link, &err) == 0)
        return;
    snprintf(link->problem, sizeof(link->problem), "%.*s", LINK_WORDS - 1, err.message);
    kg_log(KG_ERROR_LEVEL, "cluster: %s", err.message);
    loop_timer_start(link->loop, &link->again, AGAIN_MS, link_on_again);
}

/* -- those that come --------------------------------------------------------------------------- */

static char *link_place_text(const union link_place *place)
{
    char host[INET6_ADDRSTRLEN] = "";
    bool v6 = place->any.sa_family == AF_INET6;
    if (v6)
        uv_ip6_name(&place->v6, host, sizeof(host));
    else
        uv_ip4_name(&place->v4, host, sizeof(host));
    return kg_format(v6 ? "[%s]:%u" : "%s:%u", host,
                     ntohs(v6 ? place->v6.sin6_port : place->v4.sin_port));
}

static void link_on_knock(uv_poll_t *poll, int status, int events)
{
    struct link *link = KG_CONTAINER(poll->data, struct link, listener);
    (void)status, (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        union link_place place = {0};
        socklen_t length = sizeof(place);
        kg_auto(kg_close) int net =
            accept4(link->listener.fd, &place.any, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (net < 0)
            return;
        if (link->came >= CAME_MAX)
            continue; /* those that are here have a few seconds to say who they are */
        struct link_call *call = link_call_new(link);
        call->came = true;
        link->came++;
        call->address = link_place_text(&place);
        if (!link_hand_over(call, net))
            link_call_free(call);
    }
}

static int link_read_place(const char *text, union link_place *ret_place, struct kg_err *err)
{
    kg_auto(kg_free) char *host = NULL;
    uint16_t port = 0;
    *ret_place = (union link_place){0};
    if (kg_address_split(text, &host, &port) && (uv_ip4_addr(host, port, &ret_place->v4) == 0 ||
                                                 uv_ip6_addr(host, port, &ret_place->v6) == 0))
        return 0;
    kg_fail(err, KG_E_INVALID_CONFIG,
            "cluster.listen is \"%s\", which is not an address and a port", text);
    return kg_hint(err, "write 10.0.0.1:7800 or [fd00::1]:7800");
}

static int link_listen(struct link *link, const char *text, struct kg_err *err)
{
    union link_place place;
    int yes = 1;
    int result = link_read_place(text, &place, err);
    if (result < 0)
        return result;
    kg_auto(kg_close) int fd =
        socket(place.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length =
        place.any.sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
        bind(fd, &place.any, length) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, &place.any, &length) < 0) {
        kg_fail_errno(err, errno, "listen on %s for other nodes", text);
        return kg_hint(err, "set cluster.listen to an address of this machine and a free port");
    }
    link->address = link_place_text(&place);
    loop_fd_begin(link->loop, &link->listener, kg_steal_fd(&fd));
    if (link->listener.poll != NULL)
        uv_poll_start(link->listener.poll, UV_READABLE, link_on_knock);
    return 0;
}

/* -- those that we make ------------------------------------------------------------------------ */

static void link_on_connected(uv_poll_t *poll, int status, int events)
{
    struct link_call *call = KG_CONTAINER(poll->data, struct link_call, connecting);
    int errnum = 0;
    socklen_t length = sizeof(errnum);
    (void)status, (void)events;
    if (getsockopt(call->connecting.fd, SOL_SOCKET, SO_ERROR, &errnum, &length) < 0)
        errnum = errno;
    if (errnum != 0) {
        link_call_fail(call, strerror(errnum));
        return;
    }
    bool done = link_hand_over(call, call->connecting.fd);
    loop_fd_end(&call->connecting);
    if (!done)
        link_call_fail(call, PROGRAM " cannot take it");
}

/* False: it cannot be reached that way, for errno. */
static bool link_connect_to(struct link_call *call, const struct sockaddr *place)
{
    int fd = socket(place->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t length =
        place->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (fd < 0)
        return false;
    if (connect(fd, place, length) < 0 && errno != EINPROGRESS) {
        int errnum = errno;
        close(fd);
        errno = errnum;
        return false;
    }
    loop_fd_begin(call->link->loop, &call->connecting, fd);
    if (call->connecting.poll != NULL)
        uv_poll_start(call->connecting.poll, UV_WRITABLE, link_on_connected);
    return true;
}

static void link_on_looked_up(uv_getaddrinfo_t *looks, int status, struct addrinfo *found)
{
    struct link_call *call = looks->data;
    free(looks);
    if (call != NULL) {
        call->looks = NULL;
        if (status < 0)
            link_call_fail(call, uv_strerror(status));
        else if (!link_connect_to(call, found->ai_addr))
            link_call_fail(call, strerror(errno));
    }
    uv_freeaddrinfo(found);
}

static void link_look_up(struct link_call *call)
{
    char port[8];
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    uv_getaddrinfo_t *looks = kg_alloc(sizeof(*looks));
    looks->data = call;
    call->looks = looks;
    snprintf(port, sizeof(port), "%u", call->port);
    int result = uv_getaddrinfo(loop_uv(call->link->loop), looks, link_on_looked_up, call->host,
                                port, &wanted);
    if (result == 0)
        return;
    call->looks = NULL;
    free(looks);
    link_call_fail_soon(call, uv_strerror(result));
}

static void link_begin(struct link_call *call)
{
    union link_place place = {0};
    if (call->link->control.fd < 0)
        link_call_fail_soon(call, call->link->problem);
    else if (!kg_address_split(call->address, &call->host, &call->port))
        link_call_fail_soon(call, "that is not an address and a port");
    else if (uv_ip4_addr(call->host, call->port, &place.v4) != 0 &&
             uv_ip6_addr(call->host, call->port, &place.v6) != 0)
        link_look_up(call);
    else if (!link_connect_to(call, &place.any))
        link_call_fail_soon(call, strerror(errno));
}

struct link_call *link_connect(struct link *link, const char *node, const char *address,
                               link_connected_fn *on_connected, void *data)
{
    struct link_call *call = link_call_new(link);
    call->node = kg_strdup(node);
    call->address = kg_strdup(address);
    call->on_connected = on_connected;
    call->data = data;
    link_begin(call);
    return call;
}

void link_withdraw(struct link_call *call)
{
    link_call_free(call);
}

/* -- life -------------------------------------------------------------------------------------- */

struct link *link_new(const struct link_options *options, struct kg_err *err)
{
    const struct link_keys *keys = options->keys;
    struct link *link = kg_alloc(sizeof(*link));
    link->loop = options->loop;
    link->told = *options;
    link->node = kg_strdup(options->node);
    link->listener.fd = link->control.fd = -1;
    kg_buf_str(&link->pem, kg_buf_view(&keys->certificate));
    kg_buf_str(&link->pem, kg_buf_view(&keys->authority));
    kg_buf_str(&link->pem, kg_buf_view(&keys->key));
    if (link_try_start(link, err) == 0 && link_listen(link, options->listen, err) == 0)
        return link;
    link_free(link);
    return NULL;
}

void link_free(struct link *link)
{
    if (link == NULL)
        return;
    while (link->calls != NULL)
        link_call_free(link->calls);
    loop_timer_stop(link->loop, &link->again);
    loop_fd_end(&link->listener);
    loop_fd_end(&link->control);
    link_reap(link);
    explicit_bzero(link->pem.data, link->pem.length);
    kg_buf_free(&link->pem);
    free(link->node);
    free(link->address);
    free(link);
}

const char *link_address(const struct link *link)
{
    return link->address;
}
