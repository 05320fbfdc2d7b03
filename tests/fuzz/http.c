/*
 * Bytes of a client, sent to the real server over a socket, in one piece or several. Whatever they
 * are, the server answers HTTP or nothing, and is rid of the connection once the client has ended
 * its sending. The first byte says how the rest is cut.
 */
#include "http/internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TURNS_MAX 10000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct loop *loop;
static struct http_server *server;
static char path[64];

/* -- routes ------------------------------------------------------------------------------------ */

static void echo(struct http_request *request)
{
    http_reply_text(request, 200, "text/plain", http_body(request));
}

static void say_query(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str name, value;
    kg_buf_str(&text, http_path_parameter(request, "name"));
    for (size_t at = 0; http_query_next(request, &at, &name, &value);)
        kg_buf_printf(&text, "%.*s=%.*s;", KG_STR_ARG(name), KG_STR_ARG(value));
    http_reply_text(request, 200, "text/plain", kg_buf_view(&text));
}

static void on_piece(void *request, struct kg_str piece)
{
    http_reply_piece(request, piece);
}

static void on_end(void *request, const struct kg_err *err_or_null)
{
    (void)err_or_null;
    http_reply_end(request);
}

static void on_gone(void *request)
{
    http_reply_end(request);
}

static void echo_in_pieces(struct http_request *request)
{
    static const struct http_body_ops ops = {.on_piece = on_piece, .on_end = on_end};
    http_on_gone(request, on_gone, request);
    http_reply_begin(request, 200, "text/plain");
    http_read_body(request, &ops, request);
}

static bool say_hello(void *data, struct kg_str *ret_text)
{
    int *said = data;
    *ret_text = KG_STR("{\"type\":\"hello\"}");
    return (*said)++ == 0;
}

static void on_socket_gone(void *data)
{
    free(data);
}

static void greet(struct http_request *request)
{
    static const struct http_websocket_ops ops = {.next = say_hello, .on_gone = on_socket_gone};
    int *said = kg_alloc(sizeof(*said));
    struct http_websocket *socket = http_websocket_new(request, &ops, said);
    if (socket == NULL)
        free(said);
    else
        http_websocket_wake(socket);
}

static const struct http_parameter list_query[] = {{"limit", "integer", ""}, {NULL, NULL, NULL}};
static const struct http_route routes[] = {
    {"GET", "/", "", 0, NULL, echo, ""},
    {"POST", "/", "", SIZE_MAX, NULL, echo, ""},
    {"GET", "/items/{name}", "", 0, NULL, say_query, "", .any_query = true},
    {"GET", "/list", "", 0, list_query, say_query, ""},
    {"POST", "/checked", "", 65536, NULL, echo, "", .body = "SessionMessages"},
    {"POST", "/stream", "", 65536, NULL, echo_in_pieces, "", .streams = true},
    {"GET", "/events", "", 0, NULL, greet, ""},
};

/* -- one client -------------------------------------------------------------------------------- */

static void clean_up(void)
{
    unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const struct http_limits limits = {4096, 65536, 4, 60000, 4, 65536, 60000, 65536};
    (void)argc;
    (void)argv;
    signal(SIGPIPE, SIG_IGN);
    kg_log_set(KG_ERROR_LEVEL, KG_LOG_TEXT);
    snprintf(path, sizeof(path), "/tmp/kaged-fuzz-%d.sock", (int)getpid());
    loop = loop_new();
    server = http_server_new(loop, NULL, &limits, routes, KG_COUNT(routes));
    if (http_server_listen(server, path, NULL) < 0)
        abort();
    atexit(clean_up);
    return 0;
}

static int open_client(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        abort();
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void turn(int fd, struct kg_buf *answers)
{
    char bytes[4096];
    ssize_t got;
    uv_run(loop_uv(loop), UV_RUN_NOWAIT);
    while ((got = read(fd, bytes, sizeof(bytes))) > 0)
        kg_buf_append(answers, bytes, (size_t)got);
}

static void send_all(int fd, const uint8_t *data, size_t size, size_t cut, struct kg_buf *answers)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size < cut ? size : cut, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return;
        data += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
        turn(fd, answers);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t cuts[] = {SIZE_MAX, 1, 7, 64};
    kg_auto(kg_buf_free) struct kg_buf answers = {0};
    if (size == 0)
        return 0;
    kg_auto(kg_close) int fd = open_client();
    turn(fd, &answers);
    send_all(fd, data + 1, size - 1, cuts[data[0] % KG_COUNT(cuts)], &answers);
    shutdown(fd, SHUT_WR);
    for (int turns = 0; server->open_handles > 1; turns++) {
        assert(turns < TURNS_MAX);
        turn(fd, &answers);
    }
    assert(answers.length == 0 || kg_str_starts(kg_buf_view(&answers), "HTTP/1.1 "));
    return 0;
}
