/*
 * Who is let in: over the unix socket the processes that may use the API, over TCP all up to a
 * bound. Who is not is told why, and nobody can fill the logs by knocking.
 */
#include "http/connection.h"

#include <errno.h>

#define REFUSALS_TOLD_PER_SEC 1

/* It is told why and left at once: not a byte of it is read, nor is it kept for a moment longer. */
static void refuse_client(struct http_connection *connection, int status, const struct kg_err *err)
{
    http_parse_begin(connection);
    *http_request_refuse(connection->request, status) = *err;
    http_parse_refuse(connection);
    connection->unread = false;
    http_connection_advance(connection);
}

/* Nobody can fill the logs by knocking. */
static void report_refused(struct http_server *server, const struct ucred *peer,
                           const struct kg_err *err)
{
    uint32_t more = 0;
    if (!kg_rate_pass(&server->refusals, REFUSALS_TOLD_PER_SEC, loop_now_ms(server->loop), &more))
        return;
    kg_log(KG_WARN, "http: client refused: %s", err->message);
    if (more > 0)
        kg_log(KG_WARN, "http: %u more clients were refused", (unsigned)more);
    if (server->on_refused != NULL)
        server->on_refused(server->refused_data, peer->uid, peer->pid, err->message);
}

static int check_peer(struct http_connection *connection, struct kg_err *err)
{
    struct http_server *server = connection->server;
    struct ucred peer = {.uid = (uid_t)-1, .gid = (gid_t)-1};
    socklen_t length = sizeof(peer);
    int fd = http_connection_fd(connection);
    int result = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        result = kg_fail(err, KG_E_REFUSED, "read the peer's credentials: %s", strerror(errno));
    if (result == 0)
        result = http_server_check_peer(server, fd, &peer, connection->operator_id, err);
    if (result < 0)
        report_refused(server, &peer, err);
    return result;
}

/* Clients over TCP can use up their own connections, and never those of the unix socket. */
static bool is_one_too_many(const struct http_connection *connection)
{
    const struct http_server *server = connection->server;
    size_t tcp = server->tcp_count - server->tcp_apart_count;
    size_t all = server->connection_count - server->apart_count;
    size_t nodes = server->node_count;
    size_t of_kind = connection->source.is_node ? nodes
                     : connection->source.tcp   ? tcp
                                                : all - tcp - nodes;
    return of_kind > server->limits.connections;
}

static int accept_find_source(struct http_connection *connection)
{
    struct sockaddr_storage address;
    int length = sizeof(address);
    int result = uv_tcp_getpeername(&connection->socket.tcp, (struct sockaddr *)&address, &length);
    if (result < 0)
        return result;
    http_source_of((struct sockaddr *)&address, &connection->source);
    uv_tcp_nodelay(&connection->socket.tcp, 1); /* an answer never waits for the one before */
    return 0;
}

static void accept_let_in(struct http_connection *connection)
{
    struct kg_err err;
    if (is_one_too_many(connection)) {
        kg_fail(&err, KG_E_BUSY, "there are %zu connections already",
                connection->server->limits.connections);
        refuse_client(connection, 503, &err);
        return;
    }
    connection->let_in = true;
    http_connection_tell(connection, NATIVE_TRANSPORT_CONNECTED);
    http_connection_settle(connection);
}

void http_connection_accept(struct http_server *server, uv_stream_t *listener)
{
    const struct http_source source = {.tcp = listener->type == UV_TCP};
    struct http_connection *connection = http_connection_new(server, source);
    if (uv_accept(listener, http_connection_stream(connection)) < 0 ||
        (connection->source.tcp && accept_find_source(connection) < 0)) {
        http_connection_close(connection);
        return;
    }
    struct kg_err err;
    if (!connection->source.tcp && check_peer(connection, &err) < 0)
        refuse_client(connection, 0, &err);
    else
        accept_let_in(connection);
}

void http_connection_take_node(struct http_server *server, int fd, const char *node)
{
    struct http_source source = {.is_node = true};
    kg_str_copy(kg_str(node), source.node, sizeof(source.node));
    struct http_connection *connection = http_connection_new(server, source);
    if (!server->stopped && uv_pipe_open(&connection->socket.pipe, fd) == 0) {
        accept_let_in(connection);
        return;
    }
    kg_close(&fd);
    http_connection_close(connection);
}
