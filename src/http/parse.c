/*
 * What comes in becomes a request: llhttp finds its parts, its route is looked up before its body
 * is read, and what a client can make us hold of it is bounded.
 */
#include "http/connection.h"

/* Set aside for a body on a client's word alone. */
#define BODY_RESERVE_MAX ((uint64_t)256 * 1024)
/* Bytes of framing granted to each byte of a chunked body. */
#define CHUNK_OVERHEAD 16

/* -- what the parser finds -----------------------------------------------------------------------
 */

static struct http_request *http_parse_request_of(llhttp_t *parser)
{
    struct http_connection *connection = parser->data;
    return connection->request;
}

/* The parser gives a long part in pieces; in the head they are side by side. */
static void http_parse_extend(struct http_request *request, struct http_span *span, const char *at,
                              size_t length)
{
    if (span->length == 0)
        span->at = (uint32_t)(at - request->head.data);
    span->length += (uint32_t)length;
}

static int on_url(llhttp_t *parser, const char *at, size_t length)
{
    struct http_request *request = http_parse_request_of(parser);
    http_parse_extend(request, &request->url, at, length);
    if (request->url.length <= HTTP_URL_MAX)
        return 0;
    kg_fail(http_request_refuse(request, 414), KG_E_TOO_LARGE, "url: longer than %zu bytes",
            HTTP_URL_MAX);
    return -1;
}

static bool continues(const struct http_request *request, const struct http_field *field,
                      const char *at)
{
    size_t offset = (size_t)(at - request->head.data);
    return field->name.at + field->name.length == offset;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t length)
{
    struct http_request *request = http_parse_request_of(parser);
    if (request->head_done)
        return 0; /* a trailer: read, and not used */
    struct http_field *last =
        request->field_count ? &request->fields[request->field_count - 1] : NULL;
    if (last != NULL && continues(request, last, at)) {
        http_parse_extend(request, &last->name, at, length);
        return 0;
    }
    if (request->field_count == HTTP_HEADERS_MAX) {
        kg_fail(http_request_refuse(request, 431), KG_E_TOO_LARGE, "more than %d headers",
                HTTP_HEADERS_MAX);
        return -1;
    }
    http_parse_extend(request, &http_request_add_field(request)->name, at, length);
    return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t length)
{
    struct http_request *request = http_parse_request_of(parser);
    if (!request->head_done && request->field_count > 0)
        http_parse_extend(request, &request->fields[request->field_count - 1].value, at, length);
    return 0;
}

/* -- what the route allows -----------------------------------------------------------------------
 */

static int refuse_body(struct http_request *request)
{
    const struct http_route *route = request->route;
    if (request->body_max == 0)
        return kg_fail(http_request_refuse(request, 0), KG_E_USAGE, "%s %s takes no body",
                       route->method, route->pattern);
    return kg_fail(http_request_refuse(request, 0), KG_E_TOO_LARGE,
                   "%s %s: the body is larger than %zu bytes", route->method, route->pattern,
                   request->body_max);
}

static int check_route(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    int routed = http_request_decode_url(request);
    if (routed == 0)
        routed = http_router_find(connection->server, request);
    /* A stranger is not told what is wrong with his request. */
    int result = http_auth_check(connection->server, &connection->source, request);
    if (result < 0 || routed < 0)
        return result < 0 ? result : routed;
    uint64_t announced = connection->parser.content_length;
    if (http_header_count(request, "content-length") == 0)
        announced = 0;
    if (announced > request->body_max)
        return refuse_body(request);
    if (request->route->streams)
        return 0;
    uint64_t reserve = announced < BODY_RESERVE_MAX ? announced : BODY_RESERVE_MAX;
    result = http_request_hold(request, connection->server, reserve);
    if (result == 0)
        kg_buf_reserve(&request->body, reserve);
    return result;
}

/* Ends the request's reading unless its body, if it has one, is wanted. */
static int on_headers_complete(llhttp_t *parser)
{
    struct http_connection *connection = parser->data;
    struct http_request *request = connection->request;
    request->head_done = true;
    request->method = (enum llhttp_method)llhttp_get_method(parser);
    request->http_1_0 = llhttp_get_http_minor(parser) == 0;
    parser->upgrade = 0; /* no other protocol is spoken here: the offer is passed over */
    if (http_head_check(request) < 0)
        return -1;
    http_request_identify(request);
    if (check_route(connection) < 0 && http_request_has_body(request))
        return -1;
    request->streams =
        request->refusal == NULL && request->route->streams && http_request_has_body(request);
    return request->streams ? HPE_PAUSED : 0;
}

static int http_parse_on_body(llhttp_t *parser, const char *at, size_t length)
{
    struct http_connection *connection = parser->data;
    struct http_request *request = connection->request;
    if (length > request->body_max - request->body_bytes) {
        refuse_body(request);
        return -1;
    }
    request->body_bytes += length;
    if (request->streams && length > 0) {
        connection->piece = (struct kg_str){at, length};
        return HPE_PAUSED; /* its handler may answer, and so end the request, at each piece */
    }
    if (http_request_hold(request, connection->server, request->body_bytes) < 0)
        return -1;
    kg_buf_append(&request->body, at, length);
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct http_request *request = http_parse_request_of(parser);
    request->keep_alive = llhttp_should_keep_alive(parser);
    request->body_done = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t parser_settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = http_parse_on_body,
    .on_message_complete = on_message_complete,
};

/* -- whether it can be trusted -------------------------------------------------------------------
 */

/* Where a chunk ends two readers must agree, or what is a body to one is a request to the other. */
int http_parser_check(struct kg_err *err)
{
    static const char *const bodies[] = {
        "2\r\n{}XX0\r\n\r\n",  "2\r\n{}\n0\r\n\r\n",         "2\n{}\r\n0\r\n\r\n",
        "2\rX{}\r\n0\r\n\r\n", "2;a\rX{}\r\n0\r\n\r\n",      "2 \r\n{}\r\n0\r\n\r\n",
        "2\r\n{}\r\n0\r\n\rX", "2\r\n{}\r\n0\r\nA: b\n\r\n",
    };
    for (size_t i = 0; i < KG_COUNT(bodies); i++) {
        kg_auto(kg_free) char *text =
            kg_format("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n%s", bodies[i]);
        static const llhttp_settings_t no_settings = {0};
        llhttp_t parser;
        llhttp_init(&parser, HTTP_REQUEST, &no_settings);
        if (llhttp_execute(&parser, text, strlen(text)) == HPE_OK) {
            kg_fail(err, KG_E_INTERNAL, "libllhttp %d.%d takes malformed chunks for whole ones",
                    LLHTTP_VERSION_MAJOR, LLHTTP_VERSION_MINOR);
            kg_hint(err, "use version 9 or newer, or one compiled with LLHTTP_STRICT_MODE");
            return -EPROTO;
        }
    }
    return 0;
}

/* -- feeding it ----------------------------------------------------------------------------------
 */

void http_parse_begin(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    connection->request = http_request_new(connection, server->host, connection->operator_id);
    connection->request->sessions = server->sessions;
    if (http_auth_mode(server->auth) == HTTP_AUTH_INSECURE)
        http_add_header(connection->request, "X-Kaged-Warning",
                        "insecure: everybody on this machine may use this daemon");
    llhttp_init(&connection->parser, HTTP_REQUEST, &parser_settings);
    connection->parser.data = connection;
    http_connection_start_timer(connection, server->limits.idle_ms);
}

/* The request has a refusal; what is left of it will not be read. */
void http_parse_refuse(struct http_connection *connection)
{
    connection->request->keep_alive = false;
    connection->request->body_done = true;
    connection->unread = true;
    if (connection->phase == READING)
        connection->phase = READY;
}

/* Returns how many bytes were of this request. */
static size_t http_parse_parse(struct http_connection *connection, const char *bytes, size_t length)
{
    llhttp_errno_t result = llhttp_execute(&connection->parser, bytes, length);
    if (result == HPE_OK)
        return length;
    if (result == HPE_PAUSED) {
        size_t used = (size_t)(llhttp_get_error_pos(&connection->parser) - bytes);
        llhttp_resume(&connection->parser);
        if (connection->phase == READING)
            connection->phase = READY;
        return used;
    }
    if (connection->request->refusal == NULL)
        http_head_fault(connection->request, llhttp_get_error_reason(&connection->parser));
    http_parse_refuse(connection);
    return length;
}

static int check_head_size(struct http_connection *connection, size_t more)
{
    struct http_request *request = connection->request;
    size_t max = connection->server->limits.header_bytes;
    if (request->head.length + more <= max)
        return 0;
    bool in_url = request->scan.lines == 0;
    return kg_fail(http_request_refuse(request, in_url ? 414 : 431), KG_E_TOO_LARGE,
                   "the request's %s longer than %zu bytes", in_url ? "line is" : "headers are",
                   max);
}

static size_t feed_head(struct http_connection *connection, const char *bytes, size_t length)
{
    struct http_request *request = connection->request;
    const char *wrong = NULL;
    size_t used = http_head_scan(&request->scan, bytes, length, &wrong);
    int result = wrong ? http_head_fault(request, wrong) : check_head_size(connection, used);
    if (result < 0) {
        http_parse_refuse(connection);
        return length;
    }
    size_t start = request->head.length;
    kg_buf_append(&request->head, bytes, used);
    size_t parsed = http_parse_parse(connection, request->head.data + start, used);
    if (request->refusal == NULL && (parsed != used || request->head_done != request->scan.done)) {
        http_head_fault(request, "it is not clear where the headers end");
        http_parse_refuse(connection);
    }
    return used;
}

/* Chunks of one byte are allowed, endless extensions, leading zeros and trailers are not. */
static size_t feed_body(struct http_connection *connection, const char *bytes, size_t length)
{
    struct http_request *request = connection->request;
    size_t used = http_parse_parse(connection, bytes, length);
    request->body_wire_bytes += used;
    uint64_t granted =
        connection->server->limits.header_bytes + request->body_bytes * CHUNK_OVERHEAD;
    if (request->refusal == NULL && request->body_wire_bytes > granted) {
        kg_fail(http_request_refuse(request, 0), KG_E_TOO_LARGE,
                "the body has too many bytes of chunk framing");
        http_parse_refuse(connection);
    }
    return used;
}

/* If the socket takes no more, the client gets to send its body unasked, as it may. */
void http_parse_continue(struct http_connection *connection)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    uv_buf_t buffer = uv_buf_init((char *)text, sizeof(text) - 1);
    connection->request->expects_continue = false;
    int sent = uv_try_write(http_connection_stream(connection), &buffer, 1);
    if (sent != UV_EAGAIN && sent != (int)buffer.len)
        http_connection_close(connection);
}

/* Takes bytes up to the end of one request; returns how many. */
size_t http_parse_feed(struct http_connection *connection, const char *bytes, size_t length)
{
    if (connection->request == NULL)
        http_parse_begin(connection);
    struct http_request *request = connection->request;
    size_t used = request->head_done ? 0 : feed_head(connection, bytes, length);
    if (connection->phase == READING && request->head_done && used < length)
        used += feed_body(connection, bytes + used, length - used);
    if (connection->phase == READING && request->expects_continue && used == length)
        http_parse_continue(connection);
    return used;
}

/* The parser pauses at each piece, the last included, and is asked once more for what ends there.
 */
void http_parse_stream(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    const char *bytes = connection->waiting.data + connection->waiting_used;
    connection->piece = KG_STR_NULL;
    size_t used = feed_body(connection, bytes, http_connection_waiting(connection));
    connection->waiting_used += used;
    if (http_connection_waiting(connection) == 0 && !request->body_done)
        http_parse_parse(connection, bytes + used, 0);
    if (connection->piece.length > 0)
        request->body_ops->on_piece(request->body_data, connection->piece);
}
