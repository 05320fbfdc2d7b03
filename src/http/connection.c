/*
 * A connection reads one request at a time and answers in order. What a client can make us hold is
 * bounded: the head, the body, the bytes of requests that wait their turn, the time that each
 * takes. accept.c lets it in, parse.c and head.c read, write.c writes; this file says whose turn it
 * is, and when it is over.
 *
 *   READING -> READY -> RUNNING -> (WRITING ->) READING ...
 *      |                 |            |
 *      |                 +--> UPGRADED --> CLOSED: another protocol has it
 *      +--- refused: READY ---------->+--> LINGERING -> CLOSED
 *
 * The body of a route that streams is read while its request is RUNNING, piece by piece, as fast as
 * its handler wants it.
 */
#include "http/connection.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Bytes held of requests that wait for the answer to one before them. */
#define WAITING_MAX ((size_t)64 * 1024)
/* What a streamed body brings at least in each limits.http_idle_ms. */
#define STREAM_MIN_BYTES 4096
/* How often it is looked whether a client that is not read from is still there. */
#define LOOK_MS 500

static void connection_on_due(struct loop_timer *timer);

void http_connection_start_timer(struct http_connection *connection, uint64_t delay_ms)
{
    loop_timer_start(connection->server->loop, &connection->timer, delay_ms, connection_on_due);
}

/* -- one request after the other --------------------------------------------------------------- */

/* What it does at once is of this request in the audit log. */
void http_handle(struct http_request *request)
{
    struct host *host = http_host(request);
    struct audit *audit = host != NULL ? host_audit(host) : NULL;
    struct audit_request own = {0};
    if (audit == NULL) {
        request->route->handle(request);
        return;
    }
    kg_str_copy(kg_str(request->request_id), own.id, sizeof(own.id));
    memcpy(own.traceparent, request->traceparent, sizeof(own.traceparent));
    struct audit_request before = audit_swap_request(audit, own);
    request->route->handle(request); /* which may free it */
    audit_swap_request(audit, before);
}

static void connection_dispatch(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    assert(request != NULL); /* only a read one makes a connection READY */
    loop_timer_stop(connection->server->loop, &connection->timer);
    connection->phase = RUNNING;
    if (request->request_id[0] == '\0')
        http_request_identify(request);
    if (request->refusal != NULL || http_body_check(connection->server, request) < 0)
        http_reply_error(request, &request->refusal->err);
    else if (!http_nodes_take(request) && !http_hold(request))
        http_handle(request);
}

/* -- a body that streams ----------------------------------------------------------------------- */

/* Whether its handler wants more of it than has come. */
static bool wants_body(const struct http_connection *connection)
{
    const struct http_request *request = connection->request;
    return connection->phase == RUNNING && request != NULL && request->body_ops != NULL &&
           !request->body_paused && !request->body_done;
}

static void connection_tell_end(struct http_request *request)
{
    const struct http_body_ops *ops = kg_steal(&request->body_ops);
    ops->on_end(request->body_data, request->refusal ? &request->refusal->err : NULL);
}

/* Takes one step with a body; false: there is none to be taken now. */
static bool step_body(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    if (connection->phase != RUNNING || request == NULL || request->body_ops == NULL ||
        request->body_paused)
        return false;
    if (request->body_done) {
        loop_timer_stop(connection->server->loop, &connection->timer);
        connection_tell_end(request);
        return true;
    }
    if (http_connection_waiting(connection) > 0) {
        http_parse_stream(connection);
        return true;
    }
    if (request->expects_continue && !request->answering) /* else it has its answer */
        http_parse_continue(connection);
    return false;
}

static void watch_body(struct http_connection *connection)
{
    connection->streamed = connection->request->body_wire_bytes;
    http_connection_start_timer(connection, connection->server->limits.idle_ms);
}

void http_connection_wake(struct http_connection *connection)
{
    if (!connection->advancing)
        loop_defer(connection->server->loop, &connection->task);
}

/* -- reading -------------------------------------------------------------------------------------
 */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    (void)suggested;
    struct http_connection *connection = handle->data;
    size_t room = WAITING_MAX - http_connection_waiting(connection);
    if (room > LOOP_SCRATCH_BYTES)
        room = LOOP_SCRATCH_BYTES;
    *ret_buffer = uv_buf_init(loop_scratch(connection->server->loop), (unsigned)room);
}

static void connection_on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer);

/*
 * A client that only ends its sending still wants its answers. Over TCP that looks the same as one
 * that left, which is what nearly all do; only an answer on its way is then still written.
 */
static bool has_hung_up(const struct http_connection *connection)
{
    bool tcp = connection->source.tcp;
    struct pollfd poller = {.fd = http_connection_fd(connection), .events = tcp ? POLLRDHUP : 0};
    return (!tcp || connection->phase == RUNNING) && poll(&poller, 1, 0) != 0;
}

/* Without reading nobody tells that the client left. */
static void connection_on_look(struct loop_timer *timer)
{
    struct http_connection *connection = KG_CONTAINER(timer, struct http_connection, look);
    if (has_hung_up(connection))
        http_connection_close(connection);
    else
        loop_timer_start(connection->server->loop, timer, LOOK_MS, connection_on_look);
}

/* Reading goes on while a request runs, up to a bound: it tells at once that the client left. */
static void connection_update_reading(struct http_connection *connection)
{
    bool wanted = !connection->input_ended && http_connection_waiting(connection) < WAITING_MAX;
    if (wanted == connection->reading)
        return;
    connection->reading = wanted;
    loop_timer_stop(connection->server->loop, &connection->look);
    if (!wanted) {
        uv_read_stop(http_connection_stream(connection));
        loop_timer_start(connection->server->loop, &connection->look, LOOK_MS, connection_on_look);
    } else if (uv_read_start(http_connection_stream(connection), on_alloc, connection_on_read) <
               0) {
        http_connection_close(connection);
    }
}

/* What is to be done once no step can be taken at once. */
void http_connection_settle(struct http_connection *connection)
{
    kg_buf_consume(&connection->waiting, connection->waiting_used);
    connection->waiting_used = 0;
    if (connection->waiting.length == 0)
        kg_buf_free(&connection->waiting);
    bool between = connection->phase == READING && connection->request == NULL;
    bool no_more = connection->phase == READING || wants_body(connection);
    if ((no_more && connection->input_ended) || (between && connection->server->stopped)) {
        http_connection_close(connection);
        return;
    }
    if (between)
        http_connection_start_timer(connection, connection->server->limits.idle_ms);
    else if (wants_body(connection) && !loop_timer_running(&connection->timer))
        watch_body(connection);
    connection_update_reading(connection);
}

/* Hands what came in to whoever reads now; false: nobody does, or there is nothing. */
static bool connection_step(struct http_connection *connection)
{
    if (connection->phase == READY) {
        connection_dispatch(connection);
        return true;
    }
    if (step_body(connection))
        return true;
    if (http_connection_waiting(connection) == 0)
        return false;
    const char *bytes = connection->waiting.data + connection->waiting_used;
    size_t length = http_connection_waiting(connection);
    if (connection->phase == READING) {
        connection->waiting_used += http_parse_feed(connection, bytes, length);
        return true;
    }
    if (connection->takeover != NULL) {
        connection->waiting_used += length;
        connection->takeover->on_bytes(connection->takeover_data, bytes, length);
    }
    return false;
}

/* A loop and not a recursion, however many requests wait and are answered at once. */
void http_connection_advance(struct http_connection *connection)
{
    connection->advancing = true;
    while (!connection->broken && connection->phase != CLOSED && connection_step(connection))
        ;
    connection->advancing = false;
    if (connection->broken)
        http_connection_close(connection);
    else if (connection->phase != CLOSED)
        http_connection_settle(connection);
}

static void connection_on_task(struct loop_task *task)
{
    http_connection_advance(KG_CONTAINER(task, struct http_connection, task));
}

static void on_input_end(struct http_connection *connection, int reason)
{
    bool waits = connection->phase == RUNNING || connection->phase == WRITING;
    connection->reading = false;
    if (reason != UV_EOF || !waits || has_hung_up(connection)) {
        http_connection_close(connection);
        return;
    }
    connection->input_ended = true;
    if (!connection->source.tcp)
        loop_timer_start(connection->server->loop, &connection->look, LOOK_MS, connection_on_look);
    http_connection_wake(connection); /* the rest of a body will not come */
}

/* Bytes after the request are set aside before a handler runs: the scratch may be used anew. */
static void connection_on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    struct http_connection *connection = stream->data;
    if (length < 0) {
        on_input_end(connection, (int)length);
        return;
    }
    if (length == 0 || connection->phase == LINGERING || connection->broken)
        return;
    if (connection->takeover != NULL && http_connection_waiting(connection) == 0) {
        connection->takeover->on_bytes(connection->takeover_data, buffer->base, (size_t)length);
        return;
    }
    size_t used = 0;
    if (connection->phase == READING && http_connection_waiting(connection) == 0)
        used = http_parse_feed(connection, buffer->base, (size_t)length);
    if (connection->phase == CLOSED)
        return;
    kg_buf_append(&connection->waiting, buffer->base + used, (size_t)length - used);
    http_connection_advance(connection);
}

static void refuse_slow(struct http_connection *connection, const char *what)
{
    kg_fail(http_request_refuse(connection->request, 0), KG_E_REQUEST_TIMEOUT, "%s within %llu ms",
            what, (unsigned long long)connection->server->limits.idle_ms);
    http_parse_refuse(connection);
    http_connection_advance(connection);
}

static void connection_on_due(struct loop_timer *timer)
{
    struct http_connection *connection = KG_CONTAINER(timer, struct http_connection, timer);
    bool writes = connection->phase == WRITING || connection->phase == RUNNING;
    if (connection->phase == READING && connection->request != NULL)
        refuse_slow(connection, "the request did not arrive whole");
    else if (wants_body(connection) &&
             connection->request->body_wire_bytes < connection->streamed + STREAM_MIN_BYTES)
        refuse_slow(connection, "hardly anything came of the request's body");
    else if (wants_body(connection))
        watch_body(connection);
    else if (writes && http_write_left(connection) < connection->unsent)
        http_write_watch(connection);
    else if (connection->phase != RUNNING || http_write_left(connection) > 0)
        http_connection_close(connection);
}

/* -- another protocol -------------------------------------------------------------------------- */

struct http_connection *http_connection_take(struct http_request *request, struct kg_str head,
                                             const struct http_takeover *takeover, void *data)
{
    struct http_connection *connection = request->connection;
    connection->request = NULL;
    connection->phase = UPGRADED;
    connection->takeover = takeover;
    connection->takeover_data = data;
    loop_timer_stop(connection->server->loop, &connection->timer);
    http_request_free(request);
    /* Small messages leave at once; a unix socket knows no such thing, and needs none. */
    int yes = 1;
    (void)setsockopt(http_connection_fd(connection), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    http_connection_put(connection, &head, 1);
    http_connection_wake(connection);
    return connection;
}

void http_connection_end(struct http_connection *connection, bool abrupt)
{
    connection->takeover = NULL;
    if (abrupt || connection->input_ended ||
        shutdown(http_connection_fd(connection), SHUT_WR) < 0) {
        http_connection_close_later(connection);
        return;
    }
    connection->phase = LINGERING;
    http_connection_start_timer(connection, LINGER_MS);
}

struct http_server *http_connection_server(const struct http_connection *connection)
{
    return connection->server;
}

/* -- life -------------------------------------------------------------------------------------- */

void http_connection_stop(struct http_connection *connection)
{
    if (connection->phase == READING && connection->request == NULL)
        http_connection_close(connection);
    else if (connection->takeover != NULL)
        connection->takeover->on_stop(connection->takeover_data);
}

void http_connection_doubt(struct http_connection *connection)
{
    const struct http_request *request = connection->request;
    if (connection->takeover != NULL)
        connection->takeover->on_doubt(connection->takeover_data);
    else if (request != NULL && request->answering &&
             !http_auth_still_counts(connection->server->auth, request->via,
                                     &request->credential_id))
        http_connection_close(connection);
}

struct http_connection *http_connection_next(const struct http_connection *connection)
{
    return connection->next;
}

const struct http_source *http_connection_source(const struct http_connection *connection)
{
    return &connection->source;
}

static void link_connection(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    connection->next = server->connections;
    if (connection->next != NULL)
        connection->next->previous = connection;
    server->connections = connection;
    server->connection_count++;
    server->tcp_count += connection->source.tcp;
    server->node_count += connection->source.is_node;
}

struct http_connection *http_connection_new(struct http_server *server, struct http_source source)
{
    struct http_connection *connection = kg_alloc(sizeof(*connection));
    connection->server = server;
    connection->task.run = connection_on_task;
    connection->source = source;
    if (connection->source.tcp)
        uv_tcp_init(loop_uv(server->loop), &connection->socket.tcp);
    else
        uv_pipe_init(loop_uv(server->loop), &connection->socket.pipe, 0);
    connection->socket.handle.data = connection;
    server->open_handles++;
    link_connection(connection);
    return connection;
}

void http_connection_set_apart(struct http_connection *connection, bool apart)
{
    struct http_server *server = connection->server;
    if (connection->apart == apart || connection->source.is_node)
        return;
    connection->apart = apart;
    server->apart_count += apart ? 1 : (size_t)-1;
    if (connection->source.tcp)
        server->tcp_apart_count += apart ? 1 : (size_t)-1;
}

static void unlink_connection(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    if (connection->next != NULL)
        connection->next->previous = connection->previous;
    if (connection->previous != NULL)
        connection->previous->next = connection->next;
    else
        server->connections = connection->next;
    server->connection_count--;
    server->tcp_count -= connection->source.tcp;
    server->node_count -= connection->source.is_node;
    http_connection_set_apart(connection, false);
}

static void connection_on_closed(uv_handle_t *handle)
{
    struct http_connection *connection = handle->data;
    struct http_server *server = connection->server;
    free(connection);
    http_server_handle_closed(server);
}

void http_connection_tell(const struct http_connection *connection, enum native_hook hook)
{
    const struct http_source *source = &connection->source;
    native_tell(connection->server->native, hook, AUDIT_V_TEXT(http_transport(source)),
                AUDIT_V_TEXT(source->tcp ? source->text : NULL));
}

void http_connection_close(struct http_connection *connection)
{
    if (connection->phase == CLOSED)
        return;
    if (connection->let_in)
        http_connection_tell(connection, NATIVE_TRANSPORT_CLOSED);
    bool running = connection->phase == RUNNING;
    const struct http_takeover *takeover = kg_steal(&connection->takeover);
    connection->phase = CLOSED;
    loop_timer_stop(connection->server->loop, &connection->timer);
    loop_timer_stop(connection->server->loop, &connection->look);
    loop_undefer(connection->server->loop, &connection->task);
    kg_buf_free(&connection->waiting);
    connection->waiting_used = 0;
    unlink_connection(connection);
    uv_close(&connection->socket.handle, connection_on_closed);
    if (takeover != NULL)
        takeover->on_gone(connection->takeover_data);
    struct http_request *request = kg_steal(&connection->request);
    if (request == NULL)
        return;
    request->connection = NULL;
    if (!running)
        http_request_free(request);
    else if (request->on_gone != NULL)
        request->on_gone(request->on_gone_data);
}
