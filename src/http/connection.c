/*
 * A connection reads one request at a time and answers in order. What a client can make us hold is
 * bounded: the head, the body, the bytes of requests that wait their turn, the time that each
 * takes. The head is scanned line by line before llhttp sees it, so that both agree on where it
 * ends and nothing that only a lenient reader would take gets through.
 *
 *   READING -> READY -> RUNNING -> (WRITING ->) READING ...
 *      |                 |            |
 *      |                 +--> UPGRADED --> CLOSED: another protocol has it
 *      +--- refused: READY ---------->+--> LINGERING -> CLOSED
 *
 * The body of a route that streams is read while its request is RUNNING, piece by piece, as fast as
 * its handler wants it.
 */
#include "http/internal.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>

/* Bytes held of requests that wait for the answer to one before them. */
#define WAITING_MAX ((size_t)64 * 1024)
/* For a refused client to read why. */
#define LINGER_MS 1000
/* Set aside for a body on a client's word alone. */
#define BODY_RESERVE_MAX ((uint64_t)256 * 1024)
/* Bytes of framing granted to each byte of a chunked body. */
#define CHUNK_OVERHEAD 16
/* What a streamed body brings at least in each limits.http_idle_ms. */
#define STREAM_MIN_BYTES      4096
#define REFUSALS_TOLD_PER_SEC 1
/* How often it is looked whether a client that is not read from is still there. */
#define LOOK_MS 500

enum phase {
    READING,   /* waits for a request or is in the middle of one */
    READY,     /* a request is whole or refused, and not handed on yet */
    RUNNING,   /* a handler has it */
    WRITING,   /* the answer does not fit the socket's buffer */
    UPGRADED,  /* another protocol reads and writes */
    LINGERING, /* answered for the last time; what still comes in is thrown away */
    CLOSED,
};

struct http_connection {
    struct http_connection *next, *previous;
    struct http_server *server;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_pipe_t pipe;
        uv_tcp_t tcp;
    } socket;
    struct http_source source;
    enum phase phase;
    bool reading;     /* libuv reads for us */
    bool input_ended; /* the client sends no more, but may still listen */
    bool advancing;   /* `advance` is on the stack */
    bool last;        /* the answer on its way is the last one */
    bool unread;      /* the request was refused before all of it was read */
    bool broken;      /* to be closed once nobody is in the middle of it */
    struct loop_timer timer;
    struct loop_timer look; /* runs while nothing is read that would tell of its end */
    struct loop_task task;
    llhttp_t parser;
    struct http_request *request; /* from its first byte to its answer */
    struct kg_buf waiting;
    size_t waiting_used;
    size_t unsent;                        /* bytes of the answer when the timer was started */
    uint64_t streamed;                    /* the same for a body that streams in */
    struct kg_str piece;                  /* what the parser has just found of one */
    const struct http_takeover *takeover; /* of an UPGRADED one */
    void *takeover_data;
    char operator_id[HTTP_OPERATOR_MAX];
};

/* What the socket's buffer did not take of an answer. */
struct rest {
    uv_write_t write;
    struct http_connection *connection;
    char data[];
};

static uv_stream_t *stream_of(struct http_connection *connection)
{
    return &connection->socket.stream;
}

static size_t waiting_bytes(const struct http_connection *connection)
{
    return connection->waiting.length - connection->waiting_used;
}

/* -- the head, line by line -------------------------------------------------------------------- */

/* Why a byte cannot stand where it does, or NULL. */
static const char *scan_byte(struct http_scan *scan, unsigned char c)
{
    if (scan->after_cr) {
        if (c != '\n')
            return "a CR without LF";
        scan->after_cr = false;
        scan->done = scan->line_length == 0 && scan->lines > 0;
        scan->lines += scan->line_length > 0; /* empty lines before the first are skipped */
        scan->line_length = 0;
        return NULL;
    }
    if (c == '\r') {
        scan->after_cr = true;
        return NULL;
    }
    if (c == '\n')
        return "an LF without CR";
    if ((c < 0x20 && c != '\t') || c == 0x7F)
        return "a control character";
    if (scan->line_length == 0 && scan->lines > 0 && (c == ' ' || c == '\t'))
        return "a folded header line";
    if (scan->line_length == 0 && scan->lines > 0 && c == ':')
        return "a header without a name";
    scan->line_length++;
    return NULL;
}

/* Bytes that may stand anywhere in a line but at its start. */
static size_t plain_run(const char *bytes, size_t length)
{
    size_t i = 0;
    while (i < length && (unsigned char)bytes[i] >= 0x20 && bytes[i] != 0x7F)
        i++;
    return i;
}

/* Returns how many of the bytes belong to the head. */
static size_t scan_head(struct http_scan *scan, const char *bytes, size_t length,
                        const char **ret_fault)
{
    size_t i = 0;
    while (i < length && !scan->done) {
        *ret_fault = scan_byte(scan, (unsigned char)bytes[i++]);
        if (*ret_fault != NULL)
            break;
        if (scan->line_length > 0 && !scan->after_cr) {
            size_t plain = plain_run(bytes + i, length - i);
            scan->line_length += plain;
            i += plain;
        }
    }
    return i;
}

/* -- what the parser finds --------------------------------------------------------------------- */

static struct http_request *request_of(llhttp_t *parser)
{
    struct http_connection *connection = parser->data;
    return connection->request;
}

/* The parser gives a long part in pieces; in the head they are side by side. */
static void extend(struct http_request *request, struct http_span *span, const char *at,
                   size_t length)
{
    if (span->length == 0)
        span->at = (uint32_t)(at - request->head.data);
    span->length += (uint32_t)length;
}

static int on_url(llhttp_t *parser, const char *at, size_t length)
{
    struct http_request *request = request_of(parser);
    extend(request, &request->url, at, length);
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
    struct http_request *request = request_of(parser);
    if (request->head_done)
        return 0; /* a trailer: read, and not used */
    struct http_field *last =
        request->field_count ? &request->fields[request->field_count - 1] : NULL;
    if (last != NULL && continues(request, last, at)) {
        extend(request, &last->name, at, length);
        return 0;
    }
    if (request->field_count == HTTP_HEADERS_MAX) {
        kg_fail(http_request_refuse(request, 431), KG_E_TOO_LARGE, "more than %d headers",
                HTTP_HEADERS_MAX);
        return -1;
    }
    extend(request, &http_request_add_field(request)->name, at, length);
    return 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t length)
{
    struct http_request *request = request_of(parser);
    if (!request->head_done && request->field_count > 0)
        extend(request, &request->fields[request->field_count - 1].value, at, length);
    return 0;
}

/* -- what a whole head must be like ------------------------------------------------------------ */

static int fault(struct http_request *request, const char *what)
{
    return kg_fail(http_request_refuse(request, 0), KG_E_USAGE, "malformed request: %s", what);
}

static bool head_has(const struct http_request *request, size_t at, const char *text)
{
    size_t length = strlen(text);
    return at + length <= request->head.length &&
           memcmp(request->head.data + at, text, length) == 0;
}

/* One space on each side of the url, nothing else. */
static int check_request_line(struct http_request *request)
{
    const char *method = http_request_method(request);
    size_t before = strlen(method) + 1;
    size_t end = request->url.at + request->url.length;
    if (request->url.at < before || !head_has(request, request->url.at - before, method) ||
        request->head.data[request->url.at - 1] != ' ')
        return fault(request, "the request line is not METHOD URL HTTP/1.1");
    size_t start = request->url.at - before;
    if (start > 0 && request->head.data[start - 1] != '\n')
        return fault(request, "something stands before the method");
    if (!head_has(request, end, " HTTP/1.1\r\n") && !head_has(request, end, " HTTP/1.0\r\n"))
        return fault(request, "the version is neither HTTP/1.1 nor HTTP/1.0");
    return 0;
}

static int check_url(struct http_request *request)
{
    struct kg_str url = http_request_text(request, request->url);
    bool star = request->method == HTTP_OPTIONS && kg_str_is(url, "*");
    if (!star && !kg_str_starts(url, "/"))
        return fault(request, "the url is not a path");
    for (size_t i = 0; i < url.length; i++)
        if (url.data[i] < 0x21 || url.data[i] > 0x7E || url.data[i] == '#' || url.data[i] == '\\')
            return fault(request, "a character in the url that must be escaped");
    return 0;
}

static bool is_token(struct kg_str name)
{
    static const char separators[128] = {
        ['"'] = 1, ['('] = 1,  [')'] = 1, [','] = 1, ['/'] = 1, [':'] = 1,
        [';'] = 1, ['<'] = 1,  ['='] = 1, ['>'] = 1, ['?'] = 1, ['@'] = 1,
        ['['] = 1, ['\\'] = 1, [']'] = 1, ['{'] = 1, ['}'] = 1};
    for (size_t i = 0; i < name.length; i++) {
        unsigned char c = (unsigned char)name.data[i];
        if (c < 0x21 || c > 0x7E || separators[c])
            return false;
    }
    return name.length > 0;
}

static void trim(const struct http_request *request, struct http_span *value)
{
    const char *data = request->head.data + value->at;
    while (value->length > 0 && (data[value->length - 1] == ' ' || data[value->length - 1] == '\t'))
        value->length--;
}

static int check_fields(struct http_request *request)
{
    for (size_t i = 0; i < request->field_count; i++) {
        struct http_field *field = &request->fields[i];
        if (!is_token(http_request_text(request, field->name)) ||
            !head_has(request, field->name.at + field->name.length, ":"))
            return fault(request, "a header's name is not a token right before its colon");
        trim(request, &field->value);
    }
    return 0;
}

static size_t span_of(struct kg_str text, size_t at, const char *characters)
{
    size_t length = 0;
    while (at + length < text.length && strchr(characters, text.data[at + length]) != NULL)
        length++;
    return length;
}

/* A name or an address, and perhaps a port; neither user nor path nor list. */
static bool is_host(struct kg_str host)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    bool bracket = kg_str_starts(host, "[");
    size_t at = bracket ? 1 : 0;
    size_t length = span_of(host, at, bracket ? "0123456789abcdefABCDEF:." : name);
    if (length == 0)
        return false;
    at += length;
    if (bracket && (at == host.length || host.data[at++] != ']'))
        return false;
    if (at < host.length && host.data[at] == ':')
        at += 1 + span_of(host, at + 1, "0123456789");
    return at == host.length;
}

static int check_host(struct http_request *request)
{
    size_t count = http_header_count(request, "host");
    if (count > 1)
        return fault(request, "more than one Host");
    if (count == 0)
        return request->http_1_0 ? 0 : fault(request, "no Host");
    return is_host(http_header(request, "host")) ? 0 : fault(request, "Host is not a host");
}

/* One way to tell the length of the body, or none; of two, each reader would take another. */
static int check_lengths(struct http_request *request)
{
    size_t encodings = http_header_count(request, "transfer-encoding");
    size_t lengths = http_header_count(request, "content-length");
    if (encodings + lengths > 1)
        return fault(request, "the length of the body is given more than once");
    if (encodings == 0)
        return 0;
    struct kg_str encoding = http_header(request, "transfer-encoding");
    if (encoding.length != 7 || strncasecmp(encoding.data, "chunked", 7) != 0)
        return fault(request, "a transfer encoding other than chunked");
    return request->http_1_0 ? fault(request, "a transfer encoding in HTTP/1.0") : 0;
}

static int check_expectation(struct http_request *request)
{
    struct kg_str expect = http_header(request, "expect");
    if (expect.data == NULL || request->http_1_0)
        return 0;
    if (expect.length != 12 || strncasecmp(expect.data, "100-continue", 12) != 0)
        return kg_fail(http_request_refuse(request, 417), KG_E_USAGE,
                       "Expect: only 100-continue can be met");
    request->expects_continue = http_request_has_body(request);
    return 0;
}

static int (*const head_checks[])(struct http_request *request) = {
    check_request_line, check_url, check_fields, check_host, check_lengths, check_expectation,
};

/* -- what the route allows --------------------------------------------------------------------- */

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
    if (!request->route->streams)
        kg_buf_reserve(&request->body, announced < BODY_RESERVE_MAX ? announced : BODY_RESERVE_MAX);
    return 0;
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
    for (size_t i = 0; i < KG_COUNT(head_checks); i++)
        if (head_checks[i](request) < 0)
            return -1;
    http_request_identify(request);
    if (check_route(connection) < 0 && http_request_has_body(request))
        return -1;
    request->streams =
        request->refusal == NULL && request->route->streams && http_request_has_body(request);
    return request->streams ? HPE_PAUSED : 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t length)
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
    kg_buf_append(&request->body, at, length);
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    struct http_request *request = request_of(parser);
    request->keep_alive = llhttp_should_keep_alive(parser);
    request->body_done = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t parser_settings = {
    .on_url = on_url,
    .on_header_field = on_header_field,
    .on_header_value = on_header_value,
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* -- reading ----------------------------------------------------------------------------------- */

static void on_due(struct loop_timer *timer);

static void start_timer(struct http_connection *connection, uint64_t delay_ms)
{
    loop_timer_start(connection->server->loop, &connection->timer, delay_ms, on_due);
}

static void begin_request(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    connection->request = http_request_new(connection, server->host, connection->operator_id);
    connection->request->sessions = server->sessions;
    if (http_auth_mode(server->auth) == HTTP_AUTH_INSECURE)
        http_add_header(connection->request, "X-Kaged-Warning",
                        "insecure: everybody on this machine may use this daemon");
    llhttp_init(&connection->parser, HTTP_REQUEST, &parser_settings);
    connection->parser.data = connection;
    start_timer(connection, server->limits.idle_ms);
}

/* The request has a refusal; what is left of it will not be read. */
static void end_refused(struct http_connection *connection)
{
    connection->request->keep_alive = false;
    connection->request->body_done = true;
    connection->unread = true;
    if (connection->phase == READING)
        connection->phase = READY;
}

/* Returns how many bytes were of this request. */
static size_t parse(struct http_connection *connection, const char *bytes, size_t length)
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
        fault(connection->request, llhttp_get_error_reason(&connection->parser));
    end_refused(connection);
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
    size_t used = scan_head(&request->scan, bytes, length, &wrong);
    int result = wrong ? fault(request, wrong) : check_head_size(connection, used);
    if (result < 0) {
        end_refused(connection);
        return length;
    }
    size_t start = request->head.length;
    kg_buf_append(&request->head, bytes, used);
    size_t parsed = parse(connection, request->head.data + start, used);
    if (request->refusal == NULL && (parsed != used || request->head_done != request->scan.done)) {
        fault(request, "it is not clear where the headers end");
        end_refused(connection);
    }
    return used;
}

/* Chunks of one byte are allowed, endless extensions, leading zeros and trailers are not. */
static size_t feed_body(struct http_connection *connection, const char *bytes, size_t length)
{
    struct http_request *request = connection->request;
    size_t used = parse(connection, bytes, length);
    request->body_wire_bytes += used;
    uint64_t granted =
        connection->server->limits.header_bytes + request->body_bytes * CHUNK_OVERHEAD;
    if (request->refusal == NULL && request->body_wire_bytes > granted) {
        kg_fail(http_request_refuse(request, 0), KG_E_TOO_LARGE,
                "the body has too many bytes of chunk framing");
        end_refused(connection);
    }
    return used;
}

/* If the socket takes no more, the client gets to send its body unasked, as it may. */
static void send_continue(struct http_connection *connection)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    uv_buf_t buffer = uv_buf_init((char *)text, sizeof(text) - 1);
    connection->request->expects_continue = false;
    int sent = uv_try_write(stream_of(connection), &buffer, 1);
    if (sent != UV_EAGAIN && sent != (int)buffer.len)
        http_connection_close(connection);
}

/* Takes bytes up to the end of one request; returns how many. */
static size_t feed(struct http_connection *connection, const char *bytes, size_t length)
{
    if (connection->request == NULL)
        begin_request(connection);
    struct http_request *request = connection->request;
    size_t used = request->head_done ? 0 : feed_head(connection, bytes, length);
    if (connection->phase == READING && request->head_done && used < length)
        used += feed_body(connection, bytes + used, length - used);
    if (connection->phase == READING && request->expects_continue && used == length)
        send_continue(connection);
    return used;
}

/* -- writing ----------------------------------------------------------------------------------- */

static int fd_of(const struct http_connection *connection)
{
    uv_os_fd_t fd = -1;
    uv_fileno(&connection->socket.handle, &fd);
    return fd;
}

/* Closing at once would take the answer from a client that is still sending. */
static void finish(struct http_connection *connection)
{
    if (!connection->unread || connection->input_ended ||
        shutdown(fd_of(connection), SHUT_WR) < 0) {
        http_connection_close(connection);
        return;
    }
    connection->phase = LINGERING;
    kg_buf_free(&connection->waiting);
    connection->waiting_used = 0;
    start_timer(connection, LINGER_MS);
}

static void on_answered(struct http_connection *connection)
{
    connection->phase = READING;
    if (connection->last)
        finish(connection);
    if (connection->phase != CLOSED && !connection->advancing)
        loop_defer(connection->server->loop, &connection->task);
}

static size_t unsent_bytes(struct http_connection *connection)
{
    return uv_stream_get_write_queue_size(stream_of(connection));
}

/* All that was written is taken. */
static void on_drained(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    if (connection->phase == WRITING) {
        on_answered(connection);
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
    else if (unsent_bytes(connection) == 0)
        on_drained(connection);
}

static void watch_writing(struct http_connection *connection)
{
    connection->unsent = unsent_bytes(connection);
    start_timer(connection, connection->server->limits.idle_ms);
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
    int result = uv_write(&rest->write, stream_of(connection), &buffer, 1, on_rest_written);
    if (result < 0)
        free(rest);
    return result;
}

/* 0: all is taken; 1: on_drained follows; negative: the connection is of no use any more. */
static int put(struct http_connection *connection, const uv_buf_t *buffers, size_t count)
{
    size_t length = 0;
    for (size_t i = 0; i < count; i++)
        length += buffers[i].len;
    int sent = uv_try_write(stream_of(connection), buffers, (unsigned)count);
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
    if (unsent_bytes(connection) == 0) {
        on_answered(connection);
    } else {
        connection->phase = WRITING;
        watch_writing(connection);
    }
}

void http_connection_send(struct http_connection *connection, struct kg_str head,
                          struct kg_str body, bool keep_alive)
{
    const uv_buf_t buffers[2] = {buffer_of(head), buffer_of(body)};
    if (put(connection, buffers, body.length > 0 ? 2 : 1) >= 0) {
        http_connection_finish(connection, keep_alive);
    } else {
        connection->request = NULL; /* it is answered, if to nobody */
        http_connection_close(connection);
    }
}

/* Closing at once would take what is being used from under somebody's feet. */
static void close_later(struct http_connection *connection)
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
    int result = connection->broken ? 1 : put(connection, buffers, count);
    if (result < 0)
        close_later(connection);
    else if (result > 0 && connection->phase == RUNNING && !loop_timer_running(&connection->timer))
        watch_writing(connection);
    return result == 0;
}

bool http_connection_stays(const struct http_connection *connection)
{
    bool more = !connection->input_ended || waiting_bytes(connection) > 0;
    return more && !connection->server->stopped;
}

/* -- one request after the other --------------------------------------------------------------- */

static void dispatch(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    assert(request != NULL); /* only a read one makes a connection READY */
    loop_timer_stop(connection->server->loop, &connection->timer);
    connection->phase = RUNNING;
    if (request->request_id[0] == '\0')
        http_request_identify(request);
    if (request->refusal != NULL || http_body_check(connection->server, request) < 0)
        http_reply_error(request, &request->refusal->err);
    else
        request->route->handle(request);
}

/* -- a body that streams ----------------------------------------------------------------------- */

/* Whether its handler wants more of it than has come. */
static bool wants_body(const struct http_connection *connection)
{
    const struct http_request *request = connection->request;
    return connection->phase == RUNNING && request != NULL && request->body_ops != NULL &&
           !request->body_paused && !request->body_done;
}

static void tell_end(struct http_request *request)
{
    const struct http_body_ops *ops = kg_steal(&request->body_ops);
    ops->on_end(request->body_data, request->refusal ? &request->refusal->err : NULL);
}

/* The parser pauses at each piece, the last included, and is asked once more for what ends there.
 */
static void feed_stream(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    const char *bytes = connection->waiting.data + connection->waiting_used;
    connection->piece = KG_STR_NULL;
    size_t used = feed_body(connection, bytes, waiting_bytes(connection));
    connection->waiting_used += used;
    if (waiting_bytes(connection) == 0 && !request->body_done)
        parse(connection, bytes + used, 0);
    if (connection->piece.length > 0)
        request->body_ops->on_piece(request->body_data, connection->piece);
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
        tell_end(request);
        return true;
    }
    if (waiting_bytes(connection) > 0) {
        feed_stream(connection);
        return true;
    }
    if (request->expects_continue && !request->answering) /* else it has its answer */
        send_continue(connection);
    return false;
}

static void watch_body(struct http_connection *connection)
{
    connection->streamed = connection->request->body_wire_bytes;
    start_timer(connection, connection->server->limits.idle_ms);
}

void http_connection_wake(struct http_connection *connection)
{
    if (!connection->advancing)
        loop_defer(connection->server->loop, &connection->task);
}

/* -- reading, once more ------------------------------------------------------------------------ */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer)
{
    (void)suggested;
    struct http_connection *connection = handle->data;
    size_t room = WAITING_MAX - waiting_bytes(connection);
    if (room > LOOP_SCRATCH_BYTES)
        room = LOOP_SCRATCH_BYTES;
    *ret_buffer = uv_buf_init(loop_scratch(connection->server->loop), (unsigned)room);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer);

/*
 * A client that only ends its sending still wants its answers. Over TCP that looks the same as one
 * that left, which is what nearly all do; only an answer on its way is then still written.
 */
static bool has_hung_up(const struct http_connection *connection)
{
    bool tcp = connection->source.tcp;
    struct pollfd poller = {.fd = fd_of(connection), .events = tcp ? POLLRDHUP : 0};
    return (!tcp || connection->phase == RUNNING) && poll(&poller, 1, 0) != 0;
}

/* Without reading nobody tells that the client left. */
static void on_look(struct loop_timer *timer)
{
    struct http_connection *connection = KG_CONTAINER(timer, struct http_connection, look);
    if (has_hung_up(connection))
        http_connection_close(connection);
    else
        loop_timer_start(connection->server->loop, timer, LOOK_MS, on_look);
}

/* Reading goes on while a request runs, up to a bound: it tells at once that the client left. */
static void update_reading(struct http_connection *connection)
{
    bool wanted = !connection->input_ended && waiting_bytes(connection) < WAITING_MAX;
    if (wanted == connection->reading)
        return;
    connection->reading = wanted;
    loop_timer_stop(connection->server->loop, &connection->look);
    if (!wanted) {
        uv_read_stop(stream_of(connection));
        loop_timer_start(connection->server->loop, &connection->look, LOOK_MS, on_look);
    } else if (uv_read_start(stream_of(connection), on_alloc, on_read) < 0) {
        http_connection_close(connection);
    }
}

/* What is to be done once no step can be taken at once. */
static void settle(struct http_connection *connection)
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
        start_timer(connection, connection->server->limits.idle_ms);
    else if (wants_body(connection) && !loop_timer_running(&connection->timer))
        watch_body(connection);
    update_reading(connection);
}

/* Hands what came in to whoever reads now; false: nobody does, or there is nothing. */
static bool step(struct http_connection *connection)
{
    if (connection->phase == READY) {
        dispatch(connection);
        return true;
    }
    if (step_body(connection))
        return true;
    if (waiting_bytes(connection) == 0)
        return false;
    const char *bytes = connection->waiting.data + connection->waiting_used;
    size_t length = waiting_bytes(connection);
    if (connection->phase == READING) {
        connection->waiting_used += feed(connection, bytes, length);
        return true;
    }
    if (connection->takeover != NULL) {
        connection->waiting_used += length;
        connection->takeover->on_bytes(connection->takeover_data, bytes, length);
    }
    return false;
}

/* A loop and not a recursion, however many requests wait and are answered at once. */
static void advance(struct http_connection *connection)
{
    connection->advancing = true;
    while (!connection->broken && connection->phase != CLOSED && step(connection))
        ;
    connection->advancing = false;
    if (connection->broken)
        http_connection_close(connection);
    else if (connection->phase != CLOSED)
        settle(connection);
}

static void on_task(struct loop_task *task)
{
    advance(KG_CONTAINER(task, struct http_connection, task));
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
        loop_timer_start(connection->server->loop, &connection->look, LOOK_MS, on_look);
    http_connection_wake(connection); /* the rest of a body will not come */
}

/* Bytes after the request are set aside before a handler runs: the scratch may be used anew. */
static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    struct http_connection *connection = stream->data;
    if (length < 0) {
        on_input_end(connection, (int)length);
        return;
    }
    if (length == 0 || connection->phase == LINGERING || connection->broken)
        return;
    if (connection->takeover != NULL && waiting_bytes(connection) == 0) {
        connection->takeover->on_bytes(connection->takeover_data, buffer->base, (size_t)length);
        return;
    }
    size_t used = 0;
    if (connection->phase == READING && waiting_bytes(connection) == 0)
        used = feed(connection, buffer->base, (size_t)length);
    if (connection->phase == CLOSED)
        return;
    kg_buf_append(&connection->waiting, buffer->base + used, (size_t)length - used);
    advance(connection);
}

static void refuse_slow(struct http_connection *connection, const char *what)
{
    kg_fail(http_request_refuse(connection->request, 0), KG_E_REQUEST_TIMEOUT, "%s within %llu ms",
            what, (unsigned long long)connection->server->limits.idle_ms);
    end_refused(connection);
    advance(connection);
}

static void on_due(struct loop_timer *timer)
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
    else if (writes && unsent_bytes(connection) < connection->unsent)
        watch_writing(connection);
    else if (connection->phase != RUNNING || unsent_bytes(connection) > 0)
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
    (void)setsockopt(fd_of(connection), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    http_connection_put(connection, &head, 1);
    http_connection_wake(connection);
    return connection;
}

void http_connection_end(struct http_connection *connection, bool abrupt)
{
    connection->takeover = NULL;
    if (abrupt || connection->input_ended || shutdown(fd_of(connection), SHUT_WR) < 0) {
        close_later(connection);
        return;
    }
    connection->phase = LINGERING;
    start_timer(connection, LINGER_MS);
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

static void link_connection(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    connection->next = server->connections;
    if (connection->next != NULL)
        connection->next->previous = connection;
    server->connections = connection;
    server->connection_count++;
    server->tcp_count += connection->source.tcp;
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
}

static void on_closed(uv_handle_t *handle)
{
    struct http_connection *connection = handle->data;
    struct http_server *server = connection->server;
    free(connection);
    http_server_handle_closed(server);
}

void http_connection_close(struct http_connection *connection)
{
    if (connection->phase == CLOSED)
        return;
    bool running = connection->phase == RUNNING;
    const struct http_takeover *takeover = kg_steal(&connection->takeover);
    connection->phase = CLOSED;
    loop_timer_stop(connection->server->loop, &connection->timer);
    loop_timer_stop(connection->server->loop, &connection->look);
    loop_undefer(connection->server->loop, &connection->task);
    kg_buf_free(&connection->waiting);
    connection->waiting_used = 0;
    unlink_connection(connection);
    uv_close(&connection->socket.handle, on_closed);
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

/* It is told why and left at once: not a byte of it is read, nor is it kept for a moment longer. */
static void refuse_client(struct http_connection *connection, int status, const struct kg_err *err)
{
    begin_request(connection);
    *http_request_refuse(connection->request, status) = *err;
    end_refused(connection);
    connection->unread = false;
    advance(connection);
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
    int fd = fd_of(connection);
    int result = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0)
        result = kg_fail(err, KG_E_REFUSED, "read the peer's credentials: %s", strerror(errno));
    if (result == 0)
        result = http_server_check_peer(server, fd, &peer, connection->operator_id, err);
    if (result < 0)
        report_refused(server, &peer, err);
    return result;
}

const struct http_source *http_connection_source(const struct http_connection *connection)
{
    return &connection->source;
}

/* Clients over TCP can use up their own connections, and never those of the unix socket. */
static bool is_one_too_many(const struct http_connection *connection)
{
    const struct http_server *server = connection->server;
    size_t of_kind =
        connection->source.tcp ? server->tcp_count : server->connection_count - server->tcp_count;
    return of_kind > server->limits.connections;
}

static int find_source(struct http_connection *connection)
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

void http_connection_accept(struct http_server *server, uv_stream_t *listener)
{
    struct http_connection *connection = kg_alloc(sizeof(*connection));
    connection->server = server;
    connection->task.run = on_task;
    connection->source.tcp = listener->type == UV_TCP;
    if (connection->source.tcp)
        uv_tcp_init(loop_uv(server->loop), &connection->socket.tcp);
    else
        uv_pipe_init(loop_uv(server->loop), &connection->socket.pipe, 0);
    connection->socket.handle.data = connection;
    server->open_handles++;
    link_connection(connection);
    if (uv_accept(listener, stream_of(connection)) < 0 ||
        (connection->source.tcp && find_source(connection) < 0)) {
        http_connection_close(connection);
        return;
    }
    struct kg_err err;
    if (!connection->source.tcp && check_peer(connection, &err) < 0) {
        refuse_client(connection, 0, &err);
    } else if (is_one_too_many(connection)) {
        kg_fail(&err, KG_E_BUSY, "there are %zu connections already", server->limits.connections);
        refuse_client(connection, 503, &err);
    } else {
        settle(connection);
    }
}
