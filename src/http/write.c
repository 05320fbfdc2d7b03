/*
 * An answer is written at once, as far as the socket takes it; the rest is kept and written as soon
 * as it can be. A client that takes nothing of it for too long is cut.
 */
#include "http/connection.h"

#include <stdlib.h>

/* What the socket's buffer did not take of an answer. */
struct rest {
    uv_write_t write;
    struct http_connection *connection;
    char data[];
};

/* Closing at once would take the answer from a client that is still sending. */
static void http_write_finish(struct http_connection *connection)
{
    if (!connection->unread || connection->input_ended ||
        shutdown(http_connection_fd(connection), SHUT_WR) < 0) {
        http_connection_close(connection);
        return;
    }
    connection->phase = LINGERING;
    kg_buf_free(&connection->waiting);
    connection->waiting_used = 0;
    http_connection_start_timer(connection, LINGER_MS);
}

static void http_write_on_answered(struct http_connection *connection)
{
    connection->phase = READING;
    if (connection->last)
        http_write_finish(connection);
    if (connection->phase != CLOSED && !connection->advancing)
        loop_defer(connection->server->loop, &connection->task);
}

size_t http_write_left(struct http_connection *connection)
{
    return uv_stream_get_write_queue_size(http_connection_stream(connection));
}

/* All that was written is taken. */
static void http_write_on_drained(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    if (connection->phase == WRITING) {
        http_write_on_answered(connection);
    } else if (connection->takeover != NULL) {
        connection->takeover->on_drained(connection->takeover_data);
    } else if (connection->phase == RUNNING) {
        loop_timer_stop(connection->server->loop, &connection->timer);
        http_connection_wake(connection); /* the time of a body that is read goes on */
        if (request->on_room != NULL)
            request->on_room(request->on_room_data);
    }
}

static void on_rest_written(uv_write_t *write, int status)
{
    struct rest *rest = KG_CONTAINER(write, struct rest, write);
    struct http_connection *connection = rest->connection;
    free(rest);
    if (connection->phase == CLOSED)
        return;
    if (status < 0)
        http_connection_close(connection);
    else if (http_write_left(connection) == 0)
        http_write_on_drained(connection);
}

void http_write_watch(struct http_connection *connection)
{
    connection->unsent = http_write_left(connection);
    http_connection_start_timer(connection, connection->server->limits.idle_ms);
}

/* Keeps what the socket did not take, and writes it as soon as it does. */
static int write_rest(struct http_connection *connection, const uv_buf_t *buffers, size_t count,
                      size_t sent)
{
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += buffers[i].len;
    struct rest *rest = kg_realloc(NULL, sizeof(*rest) + length - sent);
    rest->connection = connection;
    char *to = rest->data;
    for (size_t i = 0; i < count; i++) {
        size_t skipped = sent < buffers[i].len ? sent : buffers[i].len;
        sent -= skipped;
        if (buffers[i].len > skipped)
            memcpy(to, buffers[i].base + skipped, buffers[i].len - skipped);
        to += buffers[i].len - skipped;
    }
    uv_buf_t buffer = uv_buf_init(rest->data, (unsigned)(to - rest->data));
    int result =
        uv_write(&rest->write, http_connection_stream(connection), &buffer, 1, on_rest_written);
    if (result < 0)
        free(rest);
    return result;
}

/* 0: all is taken; 1: http_write_on_drained follows; negative: the connection is of no use any
 * more. */
static int http_write_put(struct http_connection *connection, const uv_buf_t *buffers, size_t count)
{
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += buffers[i].len;
    int sent = uv_try_write(http_connection_stream(connection), buffers, (unsigned)count);
    if (sent == UV_EAGAIN)
        sent = 0;
    if (sent < 0 || (size_t)sent == length)
        return sent < 0 ? sent : 0;
    int result = write_rest(connection, buffers, count, (size_t)sent);
    return result < 0 ? result : 1;
}

static uv_buf_t buffer_of(struct kg_str text)
{
    return uv_buf_init((char *)text.data, (unsigned)text.length);
}

void http_connection_finish(struct http_connection *connection, bool keep_alive)
{
    connection->unread |= !connection->request->body_done;
    connection->request = NULL;
    connection->last = !keep_alive;
    if (http_write_left(connection) == 0) {
        http_write_on_answered(connection);
    } else {
        connection->phase = WRITING;
        http_write_watch(connection);
    }
}

void http_connection_send(struct http_connection *connection, struct kg_str head,
                          struct kg_str body, bool keep_alive)
{
    const uv_buf_t buffers[2] = {buffer_of(head), buffer_of(body)};
    if (http_write_put(connection, buffers, body.length > 0 ? 2 : 1) >= 0) {
        http_connection_finish(connection, keep_alive);
    } else {
        connection->request = NULL; /* it is answered, if to nobody */
        http_connection_close(connection);
    }
}

/* Closing at once would take what is being used from under somebody's feet. */
void http_connection_close_later(struct http_connection *connection)
{
    connection->broken = true;
    loop_defer(connection->server->loop, &connection->task);
}

bool http_connection_put(struct http_connection *connection, const struct kg_str *parts,
                         size_t count)
{
    uv_buf_t buffers[HTTP_PARTS_MAX];
    for (size_t i = 0; i < count; i++)
        buffers[i] = buffer_of(parts[i]);
    int result = connection->broken ? 1 : http_write_put(connection, buffers, count);
    if (result < 0)
        http_connection_close_later(connection);
    else if (result > 0 && connection->phase == RUNNING && !loop_timer_running(&connection->timer))
        http_write_watch(connection);
    return result == 0;
}

bool http_connection_stays(const struct http_connection *connection)
{
    bool more = !connection->input_ended || http_connection_waiting(connection) > 0;
    return more && !connection->server->stopped;
}
