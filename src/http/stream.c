/*
 * Bodies and answers that nobody has to hold whole. A body comes as fast as its handler takes it;
 * an answer of unknown length goes out in chunks, or up to the end of the connection where the
 * client does not know chunks.
 */
#include "http/internal.h"

#include <assert.h>
#include <stdio.h>

/* -- a body ------------------------------------------------------------------------------------ */

void http_read_body(struct http_request *request, const struct http_body_ops *ops, void *data)
{
    request->body_ops = ops;
    request->body_data = data;
    if (request->connection != NULL)
        http_connection_wake(request->connection);
}

void http_pause_body(struct http_request *request, bool paused)
{
    request->body_paused = paused;
    if (request->connection != NULL)
        http_connection_wake(request->connection);
}

/* -- an answer --------------------------------------------------------------------------------- */

void http_on_room(struct http_request *request, void (*on_room)(void *data), void *data)
{
    request->on_room = on_room;
    request->on_room_data = data;
}

void http_stream_apart(struct http_request *request)
{
    if (request->connection != NULL)
        http_connection_set_apart(request->connection, true);
}

void http_reply_begin(struct http_request *request, int status, const char *content_type)
{
    struct http_connection *connection = request->connection;
    assert(!request->answering);
    request->answering = true;
    request->chunked = !request->http_1_0;
    request->keep_alive &= request->chunked;
    if (connection == NULL)
        return;
    request->keep_alive &= http_connection_stays(connection);
    http_request_tell(request, status);
    kg_auto(kg_buf_free) struct kg_buf head = {0};
    http_request_write_head(request, status, content_type, HTTP_LENGTH_UNKNOWN, &head);
    struct kg_str text = kg_buf_view(&head);
    http_connection_put(connection, &text, 1);
}

/* An empty chunk would be the end. */
bool http_reply_piece(struct http_request *request, struct kg_str piece)
{
    char size[24];
    if (request->connection == NULL || request->method == HTTP_HEAD || piece.length == 0)
        return true;
    if (!request->chunked)
        return http_connection_put(request->connection, &piece, 1);
    int length = snprintf(size, sizeof(size), "%zx\r\n", piece.length);
    const struct kg_str parts[] = {{size, (size_t)length}, piece, KG_STR("\r\n")};
    return http_connection_put(request->connection, parts, KG_COUNT(parts));
}

void http_reply_end(struct http_request *request)
{
    const struct kg_str end = KG_STR("0\r\n\r\n");
    struct http_connection *connection = request->connection;
    if (connection != NULL) {
        if (request->chunked && request->method != HTTP_HEAD)
            http_connection_put(connection, &end, 1);
        http_connection_set_apart(connection, false);
        http_connection_finish(connection, request->keep_alive);
    }
    http_request_free(request);
}
