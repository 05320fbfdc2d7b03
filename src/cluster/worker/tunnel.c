/*
 * A tunnel carries bytes between a connection under TLS and a socket of the daemon's. It holds one
 * piece for each direction, and reads the next when that is written: who reads slowly slows the
 * other side, and nothing grows. The end of one direction is told by close_notify and by shutdown,
 * so that each side knows whether the other had said all.
 */
#include "cluster/worker/internal.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE_BYTES  16384
#define HANDSHAKE_MS 5000
#define EVENTS_MAX   64
#define STEPS_MAX    16 /* of one tunnel, while others wait */

/* One direction. */
struct flow {
    char bytes[PIECE_BYTES];
    size_t at, length;
    bool ended; /* nothing more comes */
    bool told;  /* and the other side knows */
};

struct end {
    struct tunnel *tunnel; /* NULL: the control socket's */
    int fd;
    uint32_t waits; /* what epoll looks for; 0: it does not have it */
    uint32_t wants; /* what it should look for next */
    bool hung_up;   /* epoll would say so again and again */
};

struct tunnel {
    struct tunnel *next;
    struct tunnels *all;
    uint32_t id;
    char node[LINK_NODE_MAX + 1]; /* who has to be there; of one that came, who is */
    bool is_client;
    bool open;  /* the handshake is done */
    bool again; /* there is more to do, which epoll does not know of */
    bool over;  /* to be freed when nobody looks at it */
    uint64_t deadline_ms;
    SSL *ssl;
    struct end net, plain;
    struct flow in, out; /* from the net, to the net */
};

struct tunnels {
    int epoll, control;
    const struct tls *tls;
    struct end told; /* the control socket */
    struct tunnel *first;
};

/* -- life -------------------------------------------------------------------------------------- */

struct tunnels *tunnels_new(int control, const struct tls *tls)
{
    struct tunnels *tunnels = kg_alloc(sizeof(*tunnels));
    tunnels->epoll = epoll_create1(EPOLL_CLOEXEC);
    tunnels->control = control;
    tunnels->tls = tls;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &tunnels->told};
    epoll_ctl(tunnels->epoll, EPOLL_CTL_ADD, control, &event);
    return tunnels;
}

static void tunnel_free(struct tunnel *tunnel)
{
    SSL_free(tunnel->ssl);
    kg_close(&tunnel->net.fd);
    kg_close(&tunnel->plain.fd);
    free(tunnel);
}

static void tunnel_tell(const struct tunnel *tunnel, enum link_kind kind, const char *words)
{
    struct link_message message = {.kind = kind, .id = tunnel->id};
    memcpy(message.node, tunnel->node, sizeof(message.node));
    snprintf(message.words, sizeof(message.words), "%s", words);
    cage_message_send(tunnel->all->control, &message, sizeof(message), NULL, 0);
}

static void tunnel_fail(struct tunnel *tunnel, const char *words)
{
    if (!tunnel->open && !tunnel->over)
        tunnel_tell(tunnel, LINK_FAILED, words);
    tunnel->over = true;
}

static void end_watch(const struct tunnels *tunnels, struct end *end)
{
    struct epoll_event event = {.events = end->wants, .data.ptr = end};
    if (end->hung_up || end->wants == end->waits)
        return;
    int act = end->waits == 0 ? EPOLL_CTL_ADD : end->wants == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    epoll_ctl(tunnels->epoll, act, end->fd, &event);
    end->waits = end->wants;
}

/* -- TLS --------------------------------------------------------------------------------------- */

/* What is to be waited for; false: it has failed. */
static bool tunnel_wait_for(struct tunnel *tunnel, int result)
{
    int error = SSL_get_error(tunnel->ssl, result);
    if (error == SSL_ERROR_WANT_READ)
        tunnel->net.wants |= EPOLLIN;
    else if (error == SSL_ERROR_WANT_WRITE)
        tunnel->net.wants |= EPOLLOUT;
    else
        return false;
    return true;
}

static void tunnel_explain(const struct tunnel *tunnel, char ret_words[LINK_WORDS])
{
    long verified = SSL_get_verify_result(tunnel->ssl);
    if (verified != X509_V_OK) {
        snprintf(ret_words, LINK_WORDS, "its certificate: %s",
                 X509_verify_cert_error_string(verified));
        ERR_clear_error();
    } else {
        tls_words("TLS", ret_words);
    }
}

static void tunnel_greet(struct tunnel *tunnel)
{
    char words[LINK_WORDS], node[LINK_NODE_MAX + 1];
    ERR_clear_error();
    int result = SSL_do_handshake(tunnel->ssl);
    if (result != 1) {
        if (tunnel_wait_for(tunnel, result))
            return;
        tunnel_explain(tunnel, words);
        tunnel_fail(tunnel, words);
        return;
    }
    if (tls_peer(tunnel->ssl, node) < 0 || (tunnel->is_client && strcmp(node, tunnel->node) != 0)) {
        snprintf(words, sizeof(words), "its certificate is of the node \"%s\"", node);
        tunnel_fail(tunnel, words);
        return;
    }
    memcpy(tunnel->node, node, sizeof(node));
    tunnel->open = tunnel->again = true;
    tunnel_tell(tunnel, LINK_OPEN, "");
}

/* -- bytes: each returns whether it got further ------------------------------------------------ */

static bool flow_sent(struct flow *flow, size_t count)
{
    flow->at += count;
    flow->length -= count;
    return true;
}

static bool tunnel_read_net(struct tunnel *tunnel)
{
    struct flow *flow = &tunnel->in;
    if (flow->length > 0 || flow->ended)
        return false;
    ERR_clear_error();
    int got = SSL_read(tunnel->ssl, flow->bytes, sizeof(flow->bytes));
    if (got > 0) {
        flow->at = 0;
        flow->length = (size_t)got;
        return true;
    }
    flow->ended = SSL_get_error(tunnel->ssl, got) == SSL_ERROR_ZERO_RETURN;
    if (!flow->ended && !tunnel_wait_for(tunnel, got))
        tunnel_fail(tunnel, "");
    return flow->ended;
}

static bool tunnel_write_plain(struct tunnel *tunnel)
{
    struct flow *flow = &tunnel->in;
    if (flow->length == 0)
        return false;
    ssize_t sent =
        send(tunnel->plain.fd, flow->bytes + flow->at, flow->length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0)
        return flow_sent(flow, (size_t)sent);
    if (errno == EAGAIN || errno == EINTR)
        tunnel->plain.wants |= EPOLLOUT;
    else
        tunnel_fail(tunnel, "");
    return false;
}

static bool tunnel_read_plain(struct tunnel *tunnel)
{
    struct flow *flow = &tunnel->out;
    if (flow->length > 0 || flow->ended)
        return false;
    ssize_t got = recv(tunnel->plain.fd, flow->bytes, sizeof(flow->bytes), MSG_DONTWAIT);
    if (got > 0) {
        flow->at = 0;
        flow->length = (size_t)got;
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        tunnel->plain.wants |= EPOLLIN;
        return false;
    } else if (got < 0) {
        tunnel_fail(tunnel, "");
        return false;
    }
    flow->ended = got == 0;
    return true;
}

static bool tunnel_write_net(struct tunnel *tunnel)
{
    struct flow *flow = &tunnel->out;
    if (flow->length == 0)
        return false;
    ERR_clear_error();
    int sent = SSL_write(tunnel->ssl, flow->bytes + flow->at, (int)flow->length);
    if (sent > 0)
        return flow_sent(flow, (size_t)sent);
    if (!tunnel_wait_for(tunnel, sent))
        tunnel_fail(tunnel, "");
    return false;
}

static void tunnel_tell_ends(struct tunnel *tunnel)
{
    struct flow *in = &tunnel->in, *out = &tunnel->out;
    if (in->ended && in->length == 0 && !in->told) {
        shutdown(tunnel->plain.fd, SHUT_WR);
        in->told = true;
    }
    if (out->ended && out->length == 0 && !out->told) {
        ERR_clear_error();
        int result = SSL_shutdown(tunnel->ssl);
        out->told = result >= 0;
        if (!out->told && !tunnel_wait_for(tunnel, result))
            tunnel_fail(tunnel, "");
    }
    /* Nobody is left who would read what comes, there or here. */
    if ((out->told && (in->told || tunnel->plain.hung_up)) || (in->told && tunnel->net.hung_up))
        tunnel->over = true;
}

static void tunnel_move(struct tunnel *tunnel)
{
    bool moved = true;
    for (int i = 0; i < STEPS_MAX && moved && !tunnel->over; i++) {
        tunnel->net.wants = tunnel->plain.wants = 0;
        moved = tunnel_read_net(tunnel);
        moved |= !tunnel->over && tunnel_write_plain(tunnel);
        moved |= !tunnel->over && tunnel_read_plain(tunnel);
        moved |= !tunnel->over && tunnel_write_net(tunnel);
        if (!tunnel->over)
            tunnel_tell_ends(tunnel);
    }
    tunnel->again = moved;
}

static void tunnel_run(struct tunnel *tunnel)
{
    tunnel->again = false;
    tunnel->net.wants = tunnel->plain.wants = 0;
    if (!tunnel->open)
        tunnel_greet(tunnel);
    if (tunnel->open && !tunnel->over)
        tunnel_move(tunnel);
    if (tunnel->over)
        return;
    if (tunnel->in.ended) /* who has said all, and then closes, has left */
        tunnel->net.wants |= EPOLLRDHUP;
    if (tunnel->out.ended) /* the same here, of which epoll tells by itself */
        tunnel->plain.wants |= EPOLLERR;
    end_watch(tunnel->all, &tunnel->net);
    end_watch(tunnel->all, &tunnel->plain);
}

/* -- all of them ------------------------------------------------------------------------------- */

void tunnels_add(struct tunnels *tunnels, const struct link_message *order, int net, int plain)
{
    struct tunnel *tunnel = kg_alloc(sizeof(*tunnel));
    tunnel->all = tunnels;
    tunnel->id = order->id;
    tunnel->is_client = order->kind == LINK_CONNECT;
    memcpy(tunnel->node, order->node, LINK_NODE_MAX);
    tunnel->net = (struct end){.tunnel = tunnel, .fd = net};
    tunnel->plain = (struct end){.tunnel = tunnel, .fd = plain};
    tunnel->deadline_ms = kg_monotonic_ms() + HANDSHAKE_MS;
    tunnel->ssl = SSL_new(tunnel->is_client ? tunnels->tls->client : tunnels->tls->server);
    tunnel->next = tunnels->first;
    tunnels->first = tunnel;
    if (net < 0 || plain < 0 || tunnel->ssl == NULL || SSL_set_fd(tunnel->ssl, net) != 1) {
        tunnel_fail(tunnel, "no memory for a connection");
        return;
    }
    if (tunnel->is_client)
        SSL_set_connect_state(tunnel->ssl);
    else
        SSL_set_accept_state(tunnel->ssl);
    tunnel_run(tunnel);
}

static void tunnels_sweep(struct tunnels *tunnels)
{
    for (struct tunnel **at = &tunnels->first; *at != NULL;) {
        struct tunnel *tunnel = *at;
        if (!tunnel->over) {
            at = &tunnel->next;
            continue;
        }
        *at = tunnel->next;
        tunnel_free(tunnel);
    }
}

/* How long nothing need be looked at, if nothing happens. */
static int tunnels_rest_ms(const struct tunnels *tunnels)
{
    uint64_t now_ms = kg_monotonic_ms(), rest_ms = UINT64_MAX;
    for (const struct tunnel *tunnel = tunnels->first; tunnel != NULL; tunnel = tunnel->next) {
        uint64_t due_ms = tunnel->again ? now_ms : tunnel->open ? UINT64_MAX : tunnel->deadline_ms;
        uint64_t left_ms = due_ms > now_ms ? due_ms - now_ms : 0;
        rest_ms = due_ms != UINT64_MAX && left_ms < rest_ms ? left_ms : rest_ms;
    }
    return rest_ms == UINT64_MAX ? -1 : (int)rest_ms;
}

static void tunnels_look(struct tunnels *tunnels)
{
    uint64_t now_ms = kg_monotonic_ms();
    for (struct tunnel *tunnel = tunnels->first; tunnel != NULL; tunnel = tunnel->next) {
        if (tunnel->again && !tunnel->over)
            tunnel_run(tunnel);
        if (!tunnel->open && !tunnel->over && now_ms >= tunnel->deadline_ms)
            tunnel_fail(tunnel, "TLS: it took too long");
    }
    tunnels_sweep(tunnels);
}

static void end_on_event(const struct tunnels *tunnels, struct end *end, uint32_t events)
{
    if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0 && !end->hung_up) {
        epoll_ctl(tunnels->epoll, EPOLL_CTL_DEL, end->fd, NULL);
        end->hung_up = true;
    }
    if (!end->tunnel->over)
        tunnel_run(end->tunnel);
}

int tunnels_turn(struct tunnels *tunnels)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(tunnels->epoll, events, EVENTS_MAX, tunnels_rest_ms(tunnels));
    bool told = false;
    for (int i = 0; i < count; i++) {
        struct end *end = events[i].data.ptr;
        if (end->tunnel == NULL)
            told = true;
        else
            end_on_event(tunnels, end, events[i].events);
    }
    tunnels_look(tunnels);
    return told ? -1 : 0;
}
