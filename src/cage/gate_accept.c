/*
 * At the door: whom an accepted connection is meant for, and whether the cage may have one more.
 * Out of file descriptors, or while the log of what happens is behind, a cage's listeners rest for
 * a moment.
 */
#include "cage/gate_internal.h"

#include <errno.h>
#include <linux/netfilter_ipv4.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define ORIGINAL_TARGET_6 80 /* IP6T_SO_ORIGINAL_DST; its header clashes with netinet/in.h */
#define ACCEPTS_PER_TURN  16
#define PAUSE_MS          100
#define OURS_PER_SEC      5000 /* connections of a program of ours: it does not spin */

static bool original_target(int fd, bool is_v6, union gate_address *ret_address)
{
    struct sockaddr_storage raw;
    socklen_t size = sizeof(raw);
    int failed = is_v6 ? getsockopt(fd, IPPROTO_IPV6, ORIGINAL_TARGET_6, &raw, &size)
                       : getsockopt(fd, IPPROTO_IP, SO_ORIGINAL_DST, &raw, &size);
    return failed == 0 && gate_address_take((struct sockaddr *)&raw, size, ret_address);
}

/* What was redirected: the kernel has kept where it was meant to go. */
static void find_redirected(const struct gate_socket *socket, int fd, struct gate_target *target)
{
    struct gate_cage *cage = socket->cage;
    union gate_address address;
    if (!original_target(fd, socket->index == CAGE_SOCKET_ALL_6, &address)) {
        target->host = "?";
        target->denied = "it was not redirected: its target is not known";
        return;
    }
    gate_address_print(&address, target->numeric);
    target->port = gate_address_port(&address);
    target->host = gate_cage_name_of(cage, &address, target->numeric);
    const struct gate_host *host = gate_cage_host(cage, &address, target->port);
    if (host != NULL) {
        target->host = host->host;
        target->trust = gate_trust_of(host->host);
    } else if (cage->any) {
        target->trust = GATE_TRUST_ANY;
        target->name = gate_names_find(cage->names, &address);
    } else if (cage->asks) {
        target->name = gate_names_find(cage->names, &address);
        gate_ask_about(cage, target);
    } else {
        target->denied = "it is not declared";
        target->declare = target->host;
    }
}

/* By its name, as it was asked for: another name of the same machine is another host. */
static void refuse_closed(const struct gate_cage *cage, struct gate_target *target)
{
    for (size_t i = 0; i < cage->closed_count && target->denied == NULL; i++) {
        const struct gate_host *closed = &cage->closed[i];
        if (strcasecmp(closed->host, target->host) != 0 ||
            (closed->port != 0 && closed->port != target->port))
            continue;
        target->denied = "the operator closed it";
        target->declare = target->host;
    }
}

static void gate_accept_find_target(const struct gate_socket *socket, int fd,
                                    struct gate_target *target)
{
    if (socket->index >= socket->cage->host_count) {
        find_redirected(socket, fd, target);
        refuse_closed(socket->cage, target);
        return;
    }
    const struct gate_host *host = &socket->cage->hosts[socket->index];
    target->host = host->host;
    target->port = host->port;
    target->trust = gate_trust_of(host->host);
}

static void gate_accept_check_limits(struct gate_cage *cage, struct gate_target *target)
{
    const struct gate_limits *limits = &cage->gate->limits;
    uint32_t per_sec = cage->is_ours ? OURS_PER_SEC : limits->connections_per_sec;
    if (target->denied != NULL)
        return;
    if (gate_hearing(cage) == GATE_HEARS_NOTHING)
        target->denied = "the audit log cannot be written";
    else if (cage->connection_count >= limits->connections_max)
        target->denied = "the plugin has too many connections: limits.net_connections";
    else if (cage->gate->connection_count >= cage->gate->connections_max)
        target->denied = "there are too many connections of all plugins: the daemon may open too "
                         "few files";
    else if (!kg_rate_pass(&cage->accepted, per_sec, kg_monotonic_ms(), NULL))
        target->denied = "the plugin makes too many connections a second: "
                         "limits.net_connections_per_sec";
    else if (gate_mailbox_is_full(cage->mailbox))
        target->denied = "too many events of the plugin wait to be told";
}

void gate_admit(struct gate_socket *socket, int fd)
{
    struct gate_target target = {0};
    gate_accept_find_target(socket, fd, &target);
    if (target.denied == NULL && target.asked != NULL) {
        gate_ask_wait(target.asked, socket, fd);
        return;
    }
    gate_accept_check_limits(socket->cage, &target);
    if (target.denied == NULL) {
        gate_connection_begin(socket->cage, fd, &target);
        return;
    }
    struct gate_event event = {.kind = GATE_DENIED,
                               .host = target.host,
                               .port = target.port,
                               .reason = target.denied,
                               .declare = target.declare};
    gate_tell_refusal(socket->cage, &event);
    gate_reset_on_close(fd);
    close(fd);
}

static void on_resume(struct loop_timer *timer)
{
    struct gate_cage *cage = KG_CONTAINER(timer, struct gate_cage, resume);
    cage->paused = false;
    for (struct gate_socket *at = cage->sockets; at != NULL; at = at->next)
        if (at->source.on_ready == gate_listener_ready)
            gate_watch(cage->gate, &at->source, EPOLLIN);
}

/* What waits would be told of again and again. */
static void pause_accepting(struct gate_cage *cage)
{
    if (cage->paused)
        return;
    cage->paused = true;
    for (struct gate_socket *at = cage->sockets; at != NULL; at = at->next)
        if (at->source.on_ready == gate_listener_ready)
            gate_watch(cage->gate, &at->source, 0);
    loop_timer_start(cage->gate->relay, &cage->resume, PAUSE_MS, on_resume);
}

void gate_listener_ready(struct gate_source *source, uint32_t events)
{
    (void)events;
    struct gate_socket *socket = KG_CONTAINER(source, struct gate_socket, source);
    if (gate_hearing(socket->cage) == GATE_HEARS_LATER)
        pause_accepting(socket->cage);
    for (int i = 0; i < ACCEPTS_PER_TURN && !socket->cage->paused; i++) {
        int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            gate_admit(socket, fd);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            pause_accepting(socket->cage);
        else if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}
