/*
 * A WebSocket (RFC 6455) on which the daemon speaks and the client only listens. What is held for a
 * client is bounded: one piece of what it is being sent, the last ping that it sent. A client that
 * does not answer our pings, that sends anything but control frames, or breaks the rules is let go
 * with the code for it. libwslay takes frames apart and puts them together.
 */
#include "http/internal.h"

#include "base/base64.h"

#include <nettle/sha1.h>
#include <stdlib.h>
#include <strings.h>
#include <wslay/wslay.h>

#define KEY_TEXT      24 /* of which the last two are padding */
#define CONTROL_MAX   125
#define REASON_MAX    (CONTROL_MAX - 2)
#define FRAGMENT_MAX  ((size_t)16 * 1024) /* so that pings are not stuck behind a long message */
#define NOT_ANY_MORE  "the credentials are no longer valid"
#define OUT_MAX       ((size_t)64 * 1024)
#define OUT_KEPT      ((size_t)8 * 1024)
#define CLOSE_WAIT_MS 2000 /* for our farewell to be read, and answered */

struct control {
    uint8_t data[CONTROL_MAX];
    size_t length;
    bool due;
};

struct http_websocket {
    struct http_connection *connection;
    struct http_server *server;
    enum http_via via; /* how it was let in */
    struct kg_id credential_id;
    const struct http_websocket_ops *ops;
    void *data;
    wslay_frame_context_ptr frames; /* owned */
    struct loop_timer timer;        /* to the next ping; once there is a farewell: to the end */
    struct loop_task task;

    struct kg_str in;   /* what has come and is not taken apart yet */
    struct control got; /* of the control frame that is being read */
    bool heard;         /* something came since the last ping */

    struct kg_buf out; /* for the socket, at most a little over OUT_MAX */
    bool writing;      /* the socket has not taken all of it yet */
    struct kg_str text;
    size_t text_sent; /* of it */
    struct control ping, pong, farewell;
    bool close_sent, close_received;
    bool faulty; /* the client broke the rules: its farewell is not waited for */
};

/* -- the handshake ----------------------------------------------------------------------------- */

/* Whether a list of tokens has the given one. */
static bool websocket_has_token(struct kg_str list, const char *token)
{
    size_t length = strlen(token);
    while (list.length > 0) {
        struct kg_str part = kg_str_cut(&list, ',');
        size_t start = 0, end = part.length;
        while (start < end && strchr(" \t", part.data[start]) != NULL)
            start++;
        while (end > start && strchr(" \t", part.data[end - 1]) != NULL)
            end--;
        if (end - start == length && strncasecmp(part.data + start, token, length) == 0)
            return true;
    }
    return false;
}

static bool is_key(struct kg_str key)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t plain = 0;
    while (plain < key.length && key.data[plain] != '\0' && strchr(digits, key.data[plain]) != NULL)
        plain++;
    return key.length == KEY_TEXT && plain == KEY_TEXT - 2 && key.data[plain] == '=' &&
           key.data[plain + 1] == '=';
}

static int check_handshake(struct http_request *request)
{
    struct kg_str version = http_header(request, "sec-websocket-version");
    if (!websocket_has_token(http_header(request, "upgrade"), "websocket") || request->http_1_0 ||
        request->method != HTTP_GET) {
        kg_fail(http_request_refuse(request, 426), KG_E_USAGE, "this route speaks WebSocket only");
        kg_hint(&request->refusal->err, "ask with Connection: Upgrade and Upgrade: websocket");
        return -1;
    }
    if (!websocket_has_token(http_header(request, "connection"), "upgrade"))
        return kg_fail(http_request_refuse(request, 0), KG_E_USAGE,
                       "WebSocket: Connection does not contain upgrade");
    if (!kg_str_is(version, "13"))
        return kg_fail(http_request_refuse(request, 426), KG_E_USAGE,
                       "WebSocket: the version is not 13");
    if (!is_key(http_header(request, "sec-websocket-key")))
        return kg_fail(http_request_refuse(request, 0), KG_E_USAGE,
                       "WebSocket: Sec-WebSocket-Key is not 16 bytes in base64");
    return 0;
}

static int websocket_check_count(struct http_request *request)
{
    const struct http_server *server = http_connection_server(request->connection);
    if (server->stopped)
        return kg_fail(http_request_refuse(request, 0), KG_E_STOPPING, "the daemon is stopping");
    if (server->websocket_count >= server->limits.websockets)
        return kg_fail(http_request_refuse(request, 503), KG_E_BUSY,
                       "there are already %zu WebSockets", server->limits.websockets);
    return 0;
}

/* RFC 6455, 4.2.2: shows that the request was read by one who knows the protocol. */
static void write_accept(struct kg_str key, struct kg_buf *head)
{
    static const char magic[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    struct sha1_ctx both;
    uint8_t digest[SHA1_DIGEST_SIZE];
    sha1_init(&both);
    sha1_update(&both, KEY_TEXT, (const uint8_t *)key.data);
    sha1_update(&both, sizeof(magic) - 1, (const uint8_t *)magic);
    sha1_digest(&both, sizeof(digest), digest);
    kg_buf_text(head, "Sec-WebSocket-Accept: ");
    kg_base64_put(head, (struct kg_str){(const char *)digest, sizeof(digest)});
    kg_buf_text(head, "\r\n");
}

static void write_handshake(const struct http_request *request, struct kg_buf *head)
{
    kg_buf_text(head, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                      "Connection: Upgrade\r\n");
    write_accept(http_header(request, "sec-websocket-key"), head);
    kg_buf_str(head, kg_buf_view(&request->answer_headers));
    kg_buf_printf(head, "X-Request-Id: %s\r\n\r\n", request->request_id);
}

/* -- sending ----------------------------------------------------------------------------------- */

static ssize_t on_frame_bytes(const uint8_t *bytes, size_t length, int flags, void *data)
{
    struct http_websocket *socket = data;
    (void)flags;
    kg_buf_append(&socket->out, bytes, length);
    return (ssize_t)length;
}

static void put_frame(struct http_websocket *socket, uint8_t opcode, bool is_last,
                      const void *payload, size_t length)
{
    struct wslay_frame_iocb frame = {
        .fin = is_last,
        .opcode = opcode,
        .payload_length = length,
        .data = payload,
        .data_length = length,
    };
    wslay_frame_send(socket->frames, &frame); /* takes all: on_frame_bytes does */
}

static void put_control(struct http_websocket *socket, uint8_t opcode, struct control *control)
{
    control->due = false;
    put_frame(socket, opcode, true, control->data, control->length);
}

static void put_fragment(struct http_websocket *socket)
{
    size_t left = socket->text.length - socket->text_sent;
    size_t length = left < FRAGMENT_MAX ? left : FRAGMENT_MAX;
    put_frame(socket, socket->text_sent == 0 ? WSLAY_TEXT_FRAME : WSLAY_CONTINUATION_FRAME,
              length == left, socket->text.data + socket->text_sent, length);
    socket->text_sent += length;
}

/* Puts one frame into the buffer; false: there is none. */
static bool websocket_put_next(struct http_websocket *socket)
{
    if (socket->close_sent)
        return false;
    if (socket->pong.due) {
        put_control(socket, WSLAY_PONG, &socket->pong);
    } else if (socket->farewell.due) {
        put_control(socket, WSLAY_CONNECTION_CLOSE, &socket->farewell);
        socket->close_sent = true;
    } else if (socket->ping.due) {
        put_control(socket, WSLAY_PING, &socket->ping);
    } else {
        if (socket->text_sent == socket->text.length) {
            socket->text_sent = 0;
            if (!socket->ops->next(socket->data, &socket->text))
                socket->text = KG_STR_NULL;
        }
        if (socket->text.length == 0)
            return false;
        put_fragment(socket);
    }
    return true;
}

static void websocket_flush(struct http_websocket *socket)
{
    struct kg_str out = kg_buf_view(&socket->out);
    socket->writing = out.length > 0 && !http_connection_put(socket->connection, &out, 1);
    socket->out.length = 0;
    if (socket->out.capacity > OUT_KEPT)
        kg_buf_free(&socket->out);
}

static void websocket_on_due(struct loop_timer *timer);
static void socket_free(struct http_websocket *socket);

/* Nothing more is said; the client is left at once, or once it has read the farewell. */
static void websocket_leave(struct http_websocket *socket, bool abrupt)
{
    http_connection_end(socket->connection, abrupt);
    socket_free(socket);
}

/* Writes as much as the socket takes. */
static void websocket_write_out(struct http_websocket *socket)
{
    while (!socket->writing) {
        while (socket->out.length < OUT_MAX && websocket_put_next(socket))
            ;
        if (socket->out.length == 0)
            break;
        websocket_flush(socket);
    }
}

/* The last thing that a callback does: the socket may end. */
static void websocket_pump(struct http_websocket *socket)
{
    websocket_write_out(socket);
    if (socket->close_sent && !socket->writing && (socket->close_received || socket->faulty))
        websocket_leave(socket, socket->close_received);
}

static void websocket_on_task(struct loop_task *task)
{
    websocket_pump(KG_CONTAINER(task, struct http_websocket, task));
}

/* Later: many messages of one turn then go out in one write. */
void http_websocket_wake(struct http_websocket *socket)
{
    loop_defer(socket->server->loop, &socket->task);
}

static bool is_ending(const struct http_websocket *socket)
{
    return socket->close_sent || socket->farewell.due;
}

/* The end comes in time, also for a client that does not read what is before the farewell. */
static void begin_end(struct http_websocket *socket)
{
    socket->farewell.due = true;
    loop_timer_start(socket->server->loop, &socket->timer, CLOSE_WAIT_MS, websocket_on_due);
}

static void say_farewell(struct http_websocket *socket, unsigned code, const char *reason)
{
    size_t length = strlen(reason);
    if (is_ending(socket))
        return;
    if (length > REASON_MAX)
        length = REASON_MAX;
    begin_end(socket);
    socket->farewell.data[0] = (uint8_t)(code >> 8);
    socket->farewell.data[1] = (uint8_t)code;
    memcpy(socket->farewell.data + 2, reason, length);
    socket->farewell.length = 2 + length;
}

/* -- receiving --------------------------------------------------------------------------------- */

static ssize_t on_frame_wanted(uint8_t *to, size_t length, int flags, void *data)
{
    struct http_websocket *socket = data;
    (void)flags;
    if (length > socket->in.length)
        length = socket->in.length;
    if (length == 0)
        return -1;
    memcpy(to, socket->in.data, length);
    socket->in.data += length;
    socket->in.length -= length;
    return (ssize_t)length;
}

static void websocket_reject(struct http_websocket *socket, unsigned code, const char *reason)
{
    socket->faulty = true;
    say_farewell(socket, code, reason);
}

static bool is_close_code(unsigned code)
{
    return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
           (code >= 3000 && code <= 4999);
}

/* A farewell is answered with its own code. */
static void on_close_frame(struct http_websocket *socket)
{
    const struct control *got = &socket->got;
    unsigned code = got->length >= 2 ? (unsigned)got->data[0] << 8 | got->data[1] : 0;
    struct kg_str reason = {(const char *)got->data + 2, got->length >= 2 ? got->length - 2 : 0};
    if (got->length == 1 || (got->length >= 2 && !is_close_code(code))) {
        websocket_reject(socket, WSLAY_CODE_PROTOCOL_ERROR, "a close frame with a bad code");
        return;
    }
    if (kg_utf8_valid(reason) != reason.length) {
        websocket_reject(socket, WSLAY_CODE_INVALID_FRAME_PAYLOAD_DATA,
                         "a close frame that is not UTF-8");
        return;
    }
    socket->close_received = true;
    if (!is_ending(socket)) {
        socket->farewell = *got;
        socket->farewell.length = got->length >= 2 ? 2 : 0;
        begin_end(socket);
    }
}

static void on_control_frame(struct http_websocket *socket, uint8_t opcode)
{
    if (opcode == WSLAY_PING) {
        socket->pong = socket->got; /* RFC 6455, 5.5.3: of many pings the last one is answered */
        socket->pong.due = true;
    } else if (opcode == WSLAY_CONNECTION_CLOSE) {
        on_close_frame(socket);
    }
}

/* A frame, or a part of one. */
static void on_frame(struct http_websocket *socket, const struct wslay_frame_iocb *frame)
{
    if (frame->rsv != 0 || !frame->mask) {
        websocket_reject(socket, WSLAY_CODE_PROTOCOL_ERROR,
                         frame->mask ? "a reserved bit is set" : "a frame is not masked");
    } else if (frame->opcode == WSLAY_TEXT_FRAME) {
        websocket_reject(socket, WSLAY_CODE_POLICY_VIOLATION, "messages are not accepted here");
    } else if (frame->opcode == WSLAY_BINARY_FRAME) {
        websocket_reject(socket, WSLAY_CODE_UNSUPPORTED_DATA, "messages are not accepted here");
    } else if (frame->opcode < WSLAY_CONNECTION_CLOSE || frame->opcode > WSLAY_PONG) {
        websocket_reject(socket, WSLAY_CODE_PROTOCOL_ERROR, "a frame of an unknown kind");
    } else {
        memcpy(socket->got.data + socket->got.length, frame->data, frame->data_length);
        socket->got.length += frame->data_length;
        if (socket->got.length < frame->payload_length)
            return;
        on_control_frame(socket, frame->opcode);
        socket->got.length = 0;
    }
}

static void on_bytes(void *data, const char *bytes, size_t length)
{
    struct http_websocket *socket = data;
    socket->heard = true;
    socket->in = (struct kg_str){bytes, length};
    while (!socket->faulty && !socket->close_received) {
        struct wslay_frame_iocb frame = {0};
        ssize_t result = wslay_frame_recv(socket->frames, &frame);
        if (result == WSLAY_ERR_WANT_READ)
            break;
        if (result < 0)
            websocket_reject(socket, WSLAY_CODE_PROTOCOL_ERROR, "a frame that is not well formed");
        else
            on_frame(socket, &frame);
    }
    socket->in = KG_STR_NULL;
    websocket_pump(socket);
}

/* -- time -------------------------------------------------------------------------------------- */

static void start_pinging(struct http_websocket *socket)
{
    socket->heard = false;
    loop_timer_start(socket->server->loop, &socket->timer, socket->server->limits.websocket_ping_ms,
                     websocket_on_due);
}

static void websocket_on_due(struct loop_timer *timer)
{
    struct http_websocket *socket = KG_CONTAINER(timer, struct http_websocket, timer);
    if (is_ending(socket) || (!socket->heard && socket->writing)) {
        websocket_leave(socket, true); /* it does not even read */
        return;
    }
    if (!http_auth_still_counts(socket->server->auth, socket->via, &socket->credential_id)) {
        websocket_reject(socket, WSLAY_CODE_POLICY_VIOLATION, NOT_ANY_MORE);
    } else if (socket->heard) {
        socket->ping.due = true;
        start_pinging(socket);
    } else {
        websocket_reject(socket, WSLAY_CODE_INTERNAL_SERVER_ERROR, "no answer to a ping");
    }
    websocket_pump(socket);
}

/* -- life -------------------------------------------------------------------------------------- */

static void websocket_on_drained(void *data)
{
    struct http_websocket *socket = data;
    socket->writing = false;
    websocket_pump(socket);
}

/* What waits goes before the farewell, as far as the socket takes it. */
static void websocket_on_stop(void *data)
{
    struct http_websocket *socket = data;
    if (is_ending(socket))
        return;
    websocket_write_out(socket);
    say_farewell(socket, WSLAY_CODE_GOING_AWAY, "the daemon stops");
    websocket_pump(socket);
}

static void socket_free(struct http_websocket *socket)
{
    void *data = socket->data;
    void (*on_gone)(void *data) = socket->ops->on_gone;
    socket->server->websocket_count--;
    loop_timer_stop(socket->server->loop, &socket->timer);
    loop_undefer(socket->server->loop, &socket->task);
    wslay_frame_context_free(socket->frames);
    kg_buf_free(&socket->out);
    free(socket);
    on_gone(data);
}

static void on_doubt(void *data)
{
    struct http_websocket *socket = data;
    if (http_auth_still_counts(socket->server->auth, socket->via, &socket->credential_id))
        return;
    websocket_reject(socket, WSLAY_CODE_POLICY_VIOLATION, NOT_ANY_MORE);
    websocket_pump(socket);
}

static void on_connection_gone(void *data)
{
    socket_free(data);
}

static const struct http_takeover takeover = {
    .on_bytes = on_bytes,
    .on_drained = websocket_on_drained,
    .on_stop = websocket_on_stop,
    .on_doubt = on_doubt,
    .on_gone = on_connection_gone,
};

struct http_websocket *http_websocket_new(struct http_request *request,
                                          const struct http_websocket_ops *ops, void *data)
{
    static const struct wslay_frame_callbacks callbacks = {
        .send_callback = on_frame_bytes,
        .recv_callback = on_frame_wanted,
    };
    if (check_handshake(request) < 0 || websocket_check_count(request) < 0) {
        http_reply_error(request, &request->refusal->err);
        return NULL;
    }
    struct http_websocket *socket = kg_alloc(sizeof(*socket));
    kg_auto(kg_buf_free) struct kg_buf head = {0};
    write_handshake(request, &head);
    socket->server = http_connection_server(request->connection);
    socket->via = request->via;
    socket->credential_id = request->credential_id;
    socket->ops = ops;
    socket->data = data;
    socket->task.run = websocket_on_task;
    if (wslay_frame_context_init(&socket->frames, &callbacks, socket) != 0)
        abort(); /* fails only without memory */
    socket->server->websocket_count++;
    socket->connection = http_connection_take(request, kg_buf_view(&head), &takeover, socket);
    socket->heard = true;
    loop_timer_start(socket->server->loop, &socket->timer, socket->server->limits.websocket_ping_ms,
                     websocket_on_due);
    return socket;
}
