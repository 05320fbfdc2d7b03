/*
 * The HTTP server as a client sees it: raw bytes into a socket, bytes out. Client and server share
 * one loop, so a test says when each of them moves, and waits for what it expects to see.
 */
#include "http/http.h"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS     60000 /* how long a test waits for what it expects */
#define LARGE_BYTES ((size_t)4 * 1024 * 1024)
#define UPLOAD_MAX  ((size_t)64 * 1024 * 1024)
#define HEAD        "Host: localhost\r\n\r\n"

/* -- the routes that the tests call ------------------------------------------------------------ */

static struct {
    struct http_request *request; /* of /slow, not answered yet */
    int gone;
    bool answer_when_gone;
} slow;

static char *large;

static void say_ok(struct http_request *request)
{
    http_reply(request, 200, KG_STR("{\"ok\":true}"));
}

static void echo(struct http_request *request)
{
    http_reply_text(request, 200, "text/plain", http_body(request));
}

static void say_name(struct http_request *request)
{
    http_reply_text(request, 200, "text/plain", http_path_parameter(request, "name"));
}

static void say_method(struct http_request *request)
{
    http_reply_text(request, 200, "text/plain", http_path_parameter(request, "method"));
}

static void say_operator(struct http_request *request)
{
    assert_null(http_host(request));
    http_reply_text(request, 200, "text/plain", kg_str(http_operator(request)));
}

static void say_header(struct http_request *request)
{
    http_reply_text(request, 200, "text/plain", http_header(request, "x-test"));
}

static void say_query(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_str name, value;
    for (size_t at = 0; http_query_next(request, &at, &name, &value);)
        kg_buf_printf(&text, "%.*s=%.*s;", KG_STR_ARG(name), KG_STR_ARG(value));
    http_reply_text(request, 200, "text/plain", kg_buf_view(&text));
}

static void say_large(struct http_request *request)
{
    http_reply_text(request, 200, "text/plain", (struct kg_str){large, LARGE_BYTES});
}

/* What the handler of a checked body can rely on. */
static void say_token(struct http_request *request)
{
    kg_auto(kg_free) char *name = http_body_text(request, "name");
    kg_auto(kg_free) char *expires = http_body_text(request, "expires");
    http_reply_text(request, 200, "text/plain", kg_str(expires ? expires : name));
}

static void say_numbers(struct http_request *request)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_printf(&text, "%lld", (long long)http_body_int(request, "keep_recent", -1));
    http_reply_text(request, 200, "text/plain", kg_buf_view(&text));
}

static void fail_with_hint(struct http_request *request)
{
    struct kg_err err;
    kg_fail(&err, KG_E_PLUGIN_DOWN, "plugin git: it is \"down\"");
    kg_hint(&err, "enable it");
    http_reply_error(request, &err);
}

static void on_slow_gone(void *data)
{
    assert_ptr_equal(data, &slow);
    slow.gone++;
    if (slow.answer_when_gone)
        http_reply(kg_steal(&slow.request), 200, KG_STR("{}"));
}

static void hold(struct http_request *request)
{
    slow.request = request;
    http_on_gone(request, on_slow_gone, &slow);
}

/* An upload, read in pieces. */
static struct {
    struct http_request *request; /* NULL: none, or it is answered */
    size_t bytes, pieces;
    uint64_t sum; /* of its bytes, each by its place */
    bool read_later, answer_early;
    int gone;
} upload;

static void on_upload_piece(void *data, struct kg_str piece)
{
    assert_ptr_equal(data, &upload);
    for (size_t i = 0; i < piece.length; i++)
        upload.sum += (upload.bytes + i) * (unsigned char)piece.data[i];
    upload.bytes += piece.length;
    upload.pieces++;
    if (upload.answer_early)
        http_reply(kg_steal(&upload.request), 403, KG_STR("\"early\""));
}

static void on_upload_end(void *data, const struct kg_err *err_or_null)
{
    kg_auto(kg_free) char *json = kg_format("%zu", upload.bytes);
    assert_ptr_equal(data, &upload);
    if (err_or_null != NULL)
        http_reply_error(kg_steal(&upload.request), err_or_null);
    else
        http_reply(kg_steal(&upload.request), 200, kg_str(json));
}

static const struct http_body_ops upload_ops = {.on_piece = on_upload_piece,
                                                .on_end = on_upload_end};

static void on_uploader_gone(void *data)
{
    (void)data;
    upload.gone++;
    http_reply(kg_steal(&upload.request), 499, KG_STR("{}"));
}

static void take_upload(struct http_request *request)
{
    upload.request = request;
    http_on_gone(request, on_uploader_gone, NULL);
    if (!upload.read_later)
        http_read_body(request, &upload_ops, &upload);
}

/* An answer in pieces, as fast as the client reads. */
static struct {
    struct http_request *request; /* NULL: none, or it is answered */
    size_t left;                  /* pieces to come */
    size_t waits;                 /* times that there was no room */
    int gone;
} pieces;

static void send_pieces(void *data)
{
    (void)data;
    while (pieces.left > 0) {
        pieces.left--;
        if (!http_reply_piece(pieces.request, (struct kg_str){large, 10007})) {
            pieces.waits++;
            return;
        }
    }
    http_reply_end(kg_steal(&pieces.request));
}

static void on_listener_gone(void *data)
{
    (void)data;
    pieces.gone++;
    http_reply_end(kg_steal(&pieces.request));
}

static void say_pieces(struct http_request *request)
{
    int64_t count = 0;
    kg_str_to_int(http_path_parameter(request, "count"), &count);
    pieces.request = request;
    pieces.left = (size_t)count;
    http_on_gone(request, on_listener_gone, NULL);
    http_on_room(request, send_pieces, NULL);
    http_reply_begin(request, 200, "text/plain");
    send_pieces(NULL);
}

/* An answer of what comes in, while it comes in. */
static void on_mirror_piece(void *data, struct kg_str piece)
{
    http_reply_piece(data, piece);
}

static void on_mirror_end(void *data, const struct kg_err *err_or_null)
{
    (void)err_or_null;
    http_reply_end(data);
}

static void on_mirror_gone(void *data)
{
    http_reply_end(data);
}

static void mirror(struct http_request *request)
{
    static const struct http_body_ops ops = {.on_piece = on_mirror_piece, .on_end = on_mirror_end};
    http_on_gone(request, on_mirror_gone, request);
    http_reply_begin(request, 200, "text/plain");
    http_read_body(request, &ops, request);
}

static const struct http_parameter list_query[] = {
    {"limit", "integer", "How many."}, {"since", "string", "From when."}, {NULL, NULL, NULL}};

static const struct http_route routes[] = {
    {"GET", "/", "admin", 0, NULL, say_ok, ""},
    {"POST", "/", "admin", SIZE_MAX, NULL, echo, ""},
    {"GET", "/echo", "admin", 0, NULL, say_ok, ""},
    {"POST", "/echo", "admin", SIZE_MAX, NULL, echo, ""},
    {"GET", "/items/{name}", "admin", 0, NULL, say_name, ""},
    {"POST", "/items/{name}/call/{method}", "admin", 16, NULL, say_method, ""},
    {"GET", "/list", "admin", 0, list_query, say_query, ""},
    {"GET", "/free", "admin", 0, NULL, say_query, "", .any_query = true},
    {"GET", "/operator", "admin", 0, NULL, say_operator, ""},
    {"GET", "/header", "admin", 0, NULL, say_header, ""},
    {"GET", "/slow", "admin", 0, NULL, hold, ""},
    {"GET", "/large", "admin", 0, NULL, say_large, ""},
    {"GET", "/broken", "admin", 0, NULL, fail_with_hint, ""},
    {"POST", "/upload", "admin", UPLOAD_MAX, NULL, take_upload, "", .streams = true},
    {"POST", "/mirror", "admin", UPLOAD_MAX, NULL, mirror, "", .streams = true},
    {"GET", "/pieces/{count}", "admin", 0, NULL, say_pieces, ""},
    {"POST", "/token", "admin", 4096, NULL, say_token, "", .body = "TokenWanted"},
    {"POST", "/numbers", "admin", 4096, NULL, say_numbers, "", .body = "SessionCompact"},
    {"POST", "/bytes", "admin", 4096, NULL, echo, "", .body = "TokenWanted", .passes_body = true},
};

/* -- a server and its folder ------------------------------------------------------------------- */

struct fixture {
    struct loop *loop;
    struct http_server *server;
    struct http_limits limits;
    uv_timer_t ticker; /* wakes the loop for what happens outside of it */
    char *dir, *path;
    bool freed;
};

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static int setup(void **state)
{
    struct fixture *fixture = kg_alloc(sizeof(*fixture));
    fixture->loop = loop_new();
    fixture->limits =
        (struct http_limits){65536, LARGE_BYTES, 16, 60000, 4, 65536, 60000, LARGE_BYTES * 4};
    fixture->server =
        http_server_new(fixture->loop, NULL, &fixture->limits, routes, KG_COUNT(routes));
    fixture->dir = kg_strdup("/tmp/kaged-http-XXXXXX");
    assert_non_null(mkdtemp(fixture->dir));
    fixture->path = kg_format("%s/kaged.sock", fixture->dir);
    struct kg_err err;
    if (http_server_listen(fixture->server, fixture->path, &err) < 0)
        fail_msg("%s", err.message);
    uv_timer_init(loop_uv(fixture->loop), &fixture->ticker);
    uv_timer_start(&fixture->ticker, on_tick, 5, 5);
    memset(&slow, 0, sizeof(slow));
    memset(&upload, 0, sizeof(upload));
    memset(&pieces, 0, sizeof(pieces));
    *state = fixture;
    return 0;
}

static void on_freed(void *data)
{
    *(bool *)data = true;
}

static bool is_true(void *data)
{
    return *(bool *)data;
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;
    if (fixture->server != NULL)
        http_server_free(fixture->server, on_freed, &fixture->freed);
    assert_true(loop_run_until(fixture->loop, is_true, &fixture->freed, WAIT_MS));
    if (slow.request != NULL)
        http_reply(slow.request, 200, KG_STR("{}")); /* nobody listens, and nothing breaks */
    uv_close((uv_handle_t *)&fixture->ticker, NULL);
    loop_free(fixture->loop);
    rmdir(fixture->dir);
    free(fixture->dir);
    free(fixture->path);
    free(fixture);
    return 0;
}

static void set_idle_ms(struct fixture *fixture, uint64_t idle_ms)
{
    fixture->limits.idle_ms = idle_ms;
    http_server_set_limits(fixture->server, &fixture->limits);
}

static void turn(struct fixture *fixture)
{
    uv_run(loop_uv(fixture->loop), UV_RUN_NOWAIT);
}

static bool has_slow(void *data)
{
    (void)data;
    return slow.request != NULL;
}

static bool slow_is_gone(void *data)
{
    (void)data;
    return slow.gone > 0;
}

/* -- a client ---------------------------------------------------------------------------------- */

struct client {
    struct fixture *fixture;
    int fd;
    struct kg_buf in;
    bool ended;
    /* the answer that was read last: */
    int status;
    struct kg_str head, body;
    size_t found; /* its bytes */
    size_t taken; /* the same once a test has it: dropped before the next */
};

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        int failed = errno;
        kg_close(&fd);
        return -failed;
    }
    return fd;
}

static struct client client_open(struct fixture *fixture)
{
    struct client client = {.fixture = fixture, .fd = connect_to(fixture->path)};
    assert_true(client.fd >= 0);
    fcntl(client.fd, F_SETFL, O_NONBLOCK);
    return client;
}

static void client_free(struct client *client)
{
    kg_close(&client->fd);
    kg_buf_free(&client->in);
}

static void client_pull(struct client *client)
{
    char bytes[65536];
    ssize_t got;
    while ((got = read(client->fd, bytes, sizeof(bytes))) > 0)
        kg_buf_append(&client->in, bytes, (size_t)got);
    client->ended |= got == 0 || (got < 0 && errno != EAGAIN);
}

/* Moves the server on while the socket is full; what the server no longer takes is dropped. */
static void client_send(struct client *client, struct kg_str text)
{
    while (text.length > 0) {
        ssize_t sent = send(client->fd, text.data, text.length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return;
        if (sent > 0) {
            text.data += sent;
            text.length -= (size_t)sent;
        }
        turn(client->fixture);
    }
}

static size_t content_length(struct kg_str head)
{
    const char *at = memmem(head.data, head.length, "Content-Length: ", 16);
    return at ? strtoul(at + 16, NULL, 10) : 0;
}

/* Finds a whole answer at the start of what came in. */
static bool find_answer(struct client *client, bool has_body)
{
    const char *end =
        client->in.length ? memmem(client->in.data, client->in.length, "\r\n\r\n", 4) : NULL;
    if (end == NULL)
        return false;
    client->head = (struct kg_str){client->in.data, (size_t)(end + 4 - client->in.data)};
    size_t length = has_body ? content_length(client->head) : 0;
    if (client->in.length < client->head.length + length)
        return false;
    client->body = (struct kg_str){client->in.data + client->head.length, length};
    client->found = client->head.length + length;
    int64_t status = 0;
    kg_str_to_int((struct kg_str){client->in.data + strlen("HTTP/1.1 "), 3}, &status);
    client->status = (int)status;
    return true;
}

static bool has_answer(void *data)
{
    struct client *client = data;
    client_pull(client);
    return find_answer(client, true) || client->ended;
}

static bool has_ended(void *data)
{
    struct client *client = data;
    client_pull(client);
    return client->ended;
}

/* Waits for the next answer; its status, or 0 if the connection ended without one. */
static int client_answer(struct client *client)
{
    kg_buf_consume(&client->in, client->taken);
    client->taken = 0;
    client->status = 0;
    if (!loop_run_until(client->fixture->loop, has_answer, client, WAIT_MS))
        fail_msg("no answer within %d ms", WAIT_MS);
    if (client->status != 0)
        client->taken = client->found;
    return client->status;
}

static bool client_ends(struct client *client)
{
    return loop_run_until(client->fixture->loop, has_ended, client, WAIT_MS);
}

static int client_ask(struct client *client, const char *text)
{
    client_send(client, kg_str(text));
    return client_answer(client);
}

/* The status of the answer to one request on a connection of its own. */
static int ask(struct fixture *fixture, const char *text)
{
    kg_auto(client_free) struct client client = client_open(fixture);
    return client_ask(&client, text);
}

static void assert_has(struct kg_str text, const char *part)
{
    if (memmem(text.data, text.length, part, strlen(part)) == NULL)
        fail_msg("\"%s\" is not in \"%.*s\"", part, KG_STR_ARG(text));
}

static void assert_has_not(struct kg_str text, const char *part)
{
    if (memmem(text.data, text.length, part, strlen(part)) != NULL)
        fail_msg("\"%s\" is in \"%.*s\"", part, KG_STR_ARG(text));
}

static void assert_body(const struct client *client, const char *expected)
{
    if (!kg_str_is(client->body, expected))
        fail_msg("the body is \"%.*s\", not \"%s\"", KG_STR_ARG(client->body), expected);
}

/* -- the socket -------------------------------------------------------------------------------- */

static void socket_is_for_its_owner_only(void **state)
{
    struct fixture *fixture = *state;
    struct stat status;
    assert_int_equal(lstat(fixture->path, &status), 0);
    assert_true(S_ISSOCK(status.st_mode));
    assert_int_equal(status.st_mode & 0777, 0600);
}

static struct http_server *second_server(struct fixture *fixture)
{
    return http_server_new(fixture->loop, NULL, &fixture->limits, routes, KG_COUNT(routes));
}

static void free_second(struct fixture *fixture, struct http_server *server)
{
    bool freed = false;
    http_server_free(server, on_freed, &freed);
    assert_false(freed);
    assert_true(loop_run_until(fixture->loop, is_true, &freed, WAIT_MS));
}

static void socket_of_a_living_daemon_is_left_alone(void **state)
{
    struct fixture *fixture = *state;
    struct http_server *second = second_server(fixture);
    struct kg_err err;
    assert_true(http_server_listen(second, fixture->path, &err) < 0);
    assert_int_equal(err.code, KG_E_CONFLICT);
    assert_has(kg_str(err.message), "a daemon answers there");
    free_second(fixture, second);
    assert_int_equal(ask(fixture, "GET / HTTP/1.1\r\n" HEAD), 200);
}

static void stale_socket_is_replaced(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(kg_free) char *path = kg_format("%s/stale.sock", fixture->dir);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    kg_auto(kg_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    kg_close(&fd);
    struct http_server *second = second_server(fixture);
    assert_int_equal(http_server_listen(second, path, NULL), 0);
    free_second(fixture, second);
    assert_int_equal(access(path, F_OK), -1);
}

static void file_in_the_way_is_not_removed(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(kg_free) char *path = kg_format("%s/file", fixture->dir);
    kg_auto(kg_close) int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    struct http_server *second = second_server(fixture);
    struct kg_err err;
    assert_true(http_server_listen(second, path, &err) < 0);
    assert_has(kg_str(err.message), "another kind of file");
    free_second(fixture, second);
    assert_int_equal(unlink(path), 0);
}

static void path_that_is_too_long_is_explained(void **state)
{
    struct fixture *fixture = *state;
    char path[200] = "/tmp/";
    memset(path + 5, 'x', sizeof(path) - 6);
    struct http_server *second = second_server(fixture);
    struct kg_err err;
    assert_true(http_server_listen(second, path, &err) < 0);
    assert_has(kg_str(err.message), "199 bytes");
    assert_has(kg_str(err.message), "at most 107");
    assert_has(kg_str(err.hint), "shorter KAGED_HOME");
    free_second(fixture, second);
}

/* -- who may use it ---------------------------------------------------------------------------- */

static bool has_exited(void *data)
{
    int status;
    pid_t *child = data;
    if (*child > 0 && waitpid(*child, &status, WNOHANG) == *child)
        *child = -WEXITSTATUS(status);
    return *child <= 0;
}

/* In a child: asks, and exits with 1 for a 403, 2 for another answer. */
static void ask_as_child(const char *path)
{
    char text[64] = {0};
    int fd = connect_to(path);
    if (fd < 0)
        _exit(3);
    /* Who is refused may be left before he has said anything; the answer is there all the same. */
    if (send(fd, "GET / HTTP/1.1\r\n" HEAD, 35, MSG_NOSIGNAL) < 0 && errno != EPIPE)
        _exit(4);
    ssize_t got = recv(fd, text, sizeof(text) - 1, MSG_WAITALL);
    _exit(got > 12 && strncmp(text, "HTTP/1.1 403", 12) == 0 ? 1 : 2);
}

static int exit_of(struct fixture *fixture, pid_t child)
{
    assert_true(child > 0);
    assert_true(loop_run_until(fixture->loop, has_exited, &child, WAIT_MS));
    return -child;
}

/* Something that this machine or user lacks; on the machine that decides it must not. */
static void skip_test(const char *test, const char *reason)
{
    const char *ci = getenv("CI");
    if (ci != NULL && strcmp(ci, "true") == 0)
        fail_msg("%s", reason);
    printf("SKIP %s: %s\n", test, reason);
}

static void client_in_another_user_namespace_is_refused(void **state)
{
    struct fixture *fixture = *state;
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWUSER) < 0)
            _exit(9);
        ask_as_child(fixture->path);
    }
    int code = exit_of(fixture, child);
    if (code == 9)
        skip_test(__func__, "user namespaces cannot be made here");
    else
        assert_int_equal(code, 1);
}

struct refused {
    unsigned count;
    uid_t uid;
    pid_t pid;
    char reason[256];
};

static void on_refused(void *data, uid_t uid, pid_t pid, const char *reason)
{
    struct refused *refused = data;
    refused->count++;
    refused->uid = uid;
    refused->pid = pid;
    snprintf(refused->reason, sizeof(refused->reason), "%s", reason);
}

static bool was_refused(void *data)
{
    return ((struct refused *)data)->count > 0;
}

/* Its number may be another's by the time that one looks: so nobody answers for it. */
static void client_that_is_gone_is_refused_and_reported(void **state)
{
    struct fixture *fixture = *state;
    struct refused refused = {0};
    int status;
    http_server_on_refused(fixture->server, on_refused, &refused);
    pid_t child = fork();
    if (child == 0) {
        int fd = connect_to(fixture->path);
        _exit(fd >= 0 && send(fd, "GET / HTTP/1.1\r\n" HEAD, 35, MSG_NOSIGNAL) == 35 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(loop_run_until(fixture->loop, was_refused, &refused, WAIT_MS));
    assert_int_equal(refused.pid, child);
    assert_int_equal(refused.uid, geteuid());
    assert_non_null(strstr(refused.reason, "user namespace"));
}

static void refusals_are_reported_once_a_second(void **state)
{
    struct fixture *fixture = *state;
    struct refused refused = {0};
    http_server_on_refused(fixture->server, on_refused, &refused);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(connect_to(fixture->path) < 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
    }
    assert_true(loop_run_until(fixture->loop, was_refused, &refused, WAIT_MS));
    assert_true(refused.count < 20);
}

static void client_of_another_user_is_refused(void **state)
{
    struct fixture *fixture = *state;
    if (geteuid() != 0) {
        skip_test(__func__, "only root can be another user");
        return;
    }
    /* The mode of socket and folder is one wall; this is the other. */
    assert_int_equal(chmod(fixture->dir, 0755) | chmod(fixture->path, 0666), 0);
    pid_t child = fork();
    if (child == 0) {
        if (setresuid(65534, 65534, 65534) < 0)
            _exit(9);
        ask_as_child(fixture->path);
    }
    assert_int_equal(exit_of(fixture, child), 1);
}

static void operator_is_the_name_of_the_peers_user(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    assert_int_equal(client_ask(&client, "GET /operator HTTP/1.1\r\n" HEAD), 200);
    const struct passwd *user = getpwuid(geteuid());
    kg_auto(kg_free) char *digits = kg_format("%u", (unsigned)geteuid());
    assert_body(&client, user ? user->pw_name : digits);
}

/* -- answers ----------------------------------------------------------------------------------- */

static void answer_has_the_headers_of_every_answer(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "GET / HTTP/1.1\r\n" HEAD), 200);
    assert_body(&client, "{\"ok\":true}");
    assert_has(client.head, "HTTP/1.1 200 OK\r\n");
    assert_has(client.head, "Content-Type: application/json\r\n");
    assert_has(client.head, "Content-Length: 11\r\n");
    assert_has(client.head, "Cache-Control: no-store\r\n");
    assert_has(client.head, "X-Content-Type-Options: nosniff\r\n");
    assert_has(client.head, "X-Request-Id: req_");
    assert_has_not(client.head, "Connection:");
}

static void connection_serves_one_request_after_the_other(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    for (int i = 0; i < 3; i++)
        assert_int_equal(client_ask(&client, "GET / HTTP/1.1\r\n" HEAD), 200);
}

static void connection_close_is_obeyed(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "GET / HTTP/1.1\r\nConnection: close\r\n" HEAD), 200);
    assert_has(client.head, "Connection: close\r\n");
    assert_true(client_ends(&client));
}

static void http_1_0_closes_unless_asked_to_stay(void **state)
{
    kg_auto(client_free) struct client closes = client_open(*state);
    assert_int_equal(client_ask(&closes, "GET / HTTP/1.0\r\n\r\n"), 200);
    assert_true(client_ends(&closes));
    kg_auto(client_free) struct client stays = client_open(*state);
    for (int i = 0; i < 2; i++)
        assert_int_equal(client_ask(&stays, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
                         200);
    assert_has(stays.head, "Connection: keep-alive\r\n");
}

static void head_is_answered_like_get_without_body(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    client_send(&client, kg_str("HEAD / HTTP/1.1\r\n" HEAD "GET /items/x HTTP/1.1\r\n" HEAD));
    while (!find_answer(&client, false)) {
        turn(client.fixture);
        client_pull(&client);
    }
    client.taken = client.found;
    assert_int_equal(client.status, 200);
    assert_has(client.head, "Content-Length: 11\r\n");
    assert_int_equal(client_answer(&client), 200);
    assert_body(&client, "x");
}

static void options_lists_the_methods(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "OPTIONS / HTTP/1.1\r\n" HEAD), 204);
    assert_has(client.head, "Allow: GET, HEAD, POST, OPTIONS\r\n");
    assert_has_not(client.head, "Content-Length");
    assert_int_equal(client_ask(&client, "OPTIONS * HTTP/1.1\r\n" HEAD), 204);
}

static void error_has_code_message_hint_and_request_id(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "GET /broken HTTP/1.1\r\nX-Request-Id: abc.1_-\r\n" HEAD),
                     502);
    assert_body(&client, "{\"error\":{\"code\":\"plugin_down\",\"message\":\"plugin git: it is "
                         "\\\"down\\\"\",\"hint\":\"enable it\",\"request_id\":\"abc.1_-\"}}");
    assert_has(client.head, "X-Request-Id: abc.1_-\r\n");
}

static void error_without_hint_omits_it(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "GET /none HTTP/1.1\r\n" HEAD), 404);
    assert_has_not(client.body, "hint");
}

static void request_id_that_is_not_plain_is_replaced(void **state)
{
    static const char *const ids[] = {
        "a b", "", "a\"b", "\xc3\xa9",
        "0123456789012345678901234567890123456789012345678901234567890"
        "1234"};
    for (size_t i = 0; i < KG_COUNT(ids); i++) {
        kg_auto(client_free) struct client client = client_open(*state);
        kg_auto(kg_free) char *text =
            kg_format("GET / HTTP/1.1\r\nX-Request-Id: %s\r\n" HEAD, ids[i]);
        assert_int_equal(client_ask(&client, text), 200);
        assert_has(client.head, "X-Request-Id: req_");
    }
}

static void large_answer_arrives_whole(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "GET /large HTTP/1.1\r\n" HEAD), 200);
    assert_int_equal(client.body.length, LARGE_BYTES);
    assert_memory_equal(client.body.data, large, LARGE_BYTES);
    assert_int_equal(client_ask(&client, "GET / HTTP/1.1\r\n" HEAD), 200);
}

/* -- routes ------------------------------------------------------------------------------------ */

static void unknown_path_is_named(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "GET /api/none?x=1 HTTP/1.1\r\n" HEAD), 404);
    assert_has(client.body, "\"not_found\"");
    assert_has(client.body, "no route /api/none\"");
    assert_int_equal(client_ask(&client, "GET /echo/ HTTP/1.1\r\n" HEAD), 404);
    assert_int_equal(client_ask(&client, "GET /items/ HTTP/1.1\r\n" HEAD), 404);
    assert_int_equal(
        client_ask(&client, "GET /1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7/8 HTTP/1.1\r\n" HEAD), 404);
}

static void known_path_with_another_method_says_which(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "DELETE / HTTP/1.1\r\n" HEAD), 405);
    assert_has(client.head, "Allow: GET, HEAD, POST, OPTIONS\r\n");
    assert_has(client.body, "\"method_not_allowed\"");
    assert_int_equal(client_ask(&client, "GET / HTTP/1.1\r\n" HEAD), 200);
    assert_has_not(client.head, "Allow");
}

static void path_parameter_is_decoded_and_its_slash_is_data(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "GET /items/a%2Fb%20c+%c3%A9 HTTP/1.1\r\n" HEAD), 200);
    assert_body(&client, "a/b c+\xc3\xa9");
    assert_int_equal(client_ask(&client, "POST /items/x/call/m.n HTTP/1.1\r\n" HEAD), 200);
    assert_body(&client, "m.n");
}

static void bad_escapes_are_refused(void **state)
{
    static const char *const urls[] = {"/items/%",    "/items/%4",     "/items/%zz", "/items/%00",
                                       "/items/%ff",  "/items/%c0%af", "/free?a=%",  "/free?a=%00",
                                       "/free?a=%e2", "/free?=b",      "/items/a#b", "/items/a\\b"};
    for (size_t i = 0; i < KG_COUNT(urls); i++) {
        kg_auto(kg_free) char *text = kg_format("GET %s HTTP/1.1\r\n" HEAD, urls[i]);
        assert_int_equal(ask(*state, text), 400);
    }
}

static void only_paths_are_urls(void **state)
{
    assert_int_equal(ask(*state, "GET http://localhost/ HTTP/1.1\r\n" HEAD), 400);
    assert_int_equal(ask(*state, "GET * HTTP/1.1\r\n" HEAD), 400);
    assert_int_equal(ask(*state, "CONNECT localhost:80 HTTP/1.1\r\n" HEAD), 400);
}

static void query_is_decoded(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "GET /free?a=1+2&b%3d=%26&&c&d= HTTP/1.1\r\n" HEAD), 200);
    assert_body(&client, "a=1 2;b==&;c=;d=;");
    assert_int_equal(client_ask(&client, "GET /list?limit=-5&since=x HTTP/1.1\r\n" HEAD), 200);
    assert_body(&client, "limit=-5;since=x;");
}

static void unknown_query_parameter_is_named_with_the_known_ones(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "GET /list?limt=5 HTTP/1.1\r\n" HEAD), 400);
    assert_has(client.body, "unknown query parameter limt: GET /list takes limit, since");
    assert_has(client.body, "did you mean limit?");
    assert_int_equal(client_ask(&client, "GET /?x=5 HTTP/1.1\r\n" HEAD), 400);
    assert_has(client.body, "GET / takes none");
}

static void query_parameter_of_the_wrong_type_is_refused(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "GET /list?limit=5x HTTP/1.1\r\n" HEAD), 400);
    assert_has(client.body, "query parameter limit: \\\"5x\\\" is not an integer");
    assert_int_equal(client_ask(&client, "GET /list?limit=1&limit=2 HTTP/1.1\r\n" HEAD), 400);
    assert_has(client.body, "given twice");
}

static void query_of_very_many_parameters_is_refused(void **state)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_buf_text(&text, "GET /free?");
    for (int i = 0; i < 300; i++)
        kg_buf_printf(&text, "%d=&", i);
    kg_buf_text(&text, " HTTP/1.1\r\n" HEAD);
    assert_int_equal(ask(*state, kg_buf_terminate(&text)), 400);
}

/* -- bodies ------------------------------------------------------------------------------------ */

static void body_with_a_length_arrives(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "POST / HTTP/1.1\r\nContent-Length: 5\r\n" HEAD "hello"),
                     200);
    assert_body(&client, "hello");
}

static void chunked_body_arrives(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client,
                                "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD
                                "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nHost: evil\r\n\r\n"),
                     200);
    assert_body(&client, "hello world");
    assert_int_equal(client_ask(&client, "GET / HTTP/1.1\r\n" HEAD), 200);
}

static void large_body_arrives_whole(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    kg_auto(kg_free) char *head =
        kg_format("POST / HTTP/1.1\r\nContent-Length: %zu\r\n" HEAD, LARGE_BYTES);
    client_send(&client, kg_str(head));
    client_send(&client, (struct kg_str){large, LARGE_BYTES});
    assert_int_equal(client_answer(&client), 200);
    assert_int_equal(client.body.length, LARGE_BYTES);
    assert_memory_equal(client.body.data, large, LARGE_BYTES);
}

static void client_is_told_to_continue(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    const char *head = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n" HEAD;
    assert_int_equal(client_ask(&client, head), 100);
    assert_int_equal(client_ask(&client, "ok"), 200);
    assert_body(&client, "ok");
}

static void client_is_not_told_to_continue_with_a_body_that_is_refused(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    const char *head =
        "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 99999999\r\n" HEAD;
    assert_int_equal(client_ask(&client, head), 413);
    assert_true(client_ends(&client));
    assert_int_equal(ask(*state, "GET / HTTP/1.1\r\nExpect: miracles\r\n" HEAD), 417);
}

/* It has gone before it could be told to continue, in the middle of what waited its turn. */
static void client_that_cannot_be_told_to_continue_is_left(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /slow HTTP/1.1\r\n" HEAD "POST / HTTP/1.1\r\n"
                                "Expect: 100-continue\r\nContent-Length: 2\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_slow, NULL, WAIT_MS));
    http_reply(kg_steal(&slow.request), 200, KG_STR("{}"));
    shutdown(client.fd, SHUT_RD);
    turn(fixture);
    assert_int_equal(ask(fixture, "GET / HTTP/1.1\r\n" HEAD), 200);
}

static void body_where_none_is_taken_is_refused(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(
        client_ask(&client, "GET /list HTTP/1.1\r\nContent-Length: 5\r\n" HEAD "hello"), 400);
    assert_has(client.body, "GET /list takes no body");
    assert_int_equal(
        ask(*state, "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD "1\r\nx\r\n0\r\n\r\n"),
        400);
}

static void body_over_the_routes_bound_is_refused(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client,
                                "POST /items/x/call/m HTTP/1.1\r\nContent-Length: 17\r\n" HEAD
                                "12345678901234567"),
                     413);
    assert_has(client.body, "larger than 16 bytes");
    assert_int_equal(ask(*state,
                         "POST /items/x/call/m HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD
                         "10\r\n1234567890123456\r\n1\r\nx\r\n0\r\n\r\n"),
                     413);
    assert_int_equal(ask(*state, "POST / HTTP/1.1\r\nContent-Length: 1073741824\r\n" HEAD), 413);
}

/* Each may send its body, and nobody bounded what they take together. */
static void bodies_of_many_connections_are_bounded_in_sum(void **state)
{
    enum { CLIENTS = 12, BODY = 16384, FIT = 4 };
    struct fixture *fixture = *state;
    struct client clients[CLIENTS];
    fixture->limits.bodies_bytes = (size_t)FIT * BODY;
    http_server_set_limits(fixture->server, &fixture->limits);
    kg_auto(kg_free) char *head =
        kg_format("POST / HTTP/1.1\r\nContent-Length: %d\r\n" HEAD "x", BODY);
    for (size_t i = 0; i < CLIENTS; i++) {
        clients[i] = client_open(fixture);
        client_send(&clients[i], kg_str(head));
        if (i < FIT)
            continue;
        assert_int_equal(client_answer(&clients[i]), 503);
        assert_has(clients[i].head, "Retry-After: 1\r\n");
        assert_has(clients[i].body, "limits.http_bodies_bytes");
    }
    assert_int_equal(ask(fixture, "GET / HTTP/1.1\r\n" HEAD), 200); /* without a body */
    for (size_t i = 0; i < FIT; i++) {
        client_send(&clients[i], (struct kg_str){large, BODY - 1});
        assert_int_equal(client_answer(&clients[i]), 200);
    }
    kg_auto(client_free) struct client after = client_open(fixture);
    client_send(&after, kg_str(head));
    client_send(&after, (struct kg_str){large, BODY - 1});
    assert_int_equal(client_answer(&after), 200);
    for (size_t i = 0; i < CLIENTS; i++)
        client_free(&clients[i]);
}

/* Chunks announce nothing: they are counted as they come. A body alone is always taken. */
static void chunked_bodies_are_bounded_in_sum(void **state)
{
    static const char head[] = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD;
    struct fixture *fixture = *state;
    fixture->limits.bodies_bytes = 8;
    http_server_set_limits(fixture->server, &fixture->limits);
    kg_auto(client_free) struct client first = client_open(fixture), second = client_open(fixture);
    client_send(&first, kg_str(head));
    client_send(&first, kg_str("A\r\n1234567890\r\n"));
    turn(fixture);
    client_send(&second, kg_str(head));
    client_send(&second, kg_str("1\r\nx\r\n"));
    assert_int_equal(client_answer(&second), 503);
    client_send(&first, kg_str("0\r\n\r\n"));
    assert_int_equal(client_answer(&first), 200);
    assert_body(&first, "1234567890");
}

static int post(struct client *client, const char *path, const char *body)
{
    kg_auto(kg_free) char *text = kg_format("POST %s HTTP/1.1\r\nContent-Length: %zu\r\n" HEAD "%s",
                                            path, strlen(body), body);
    return client_ask(client, text);
}

static void body_that_fits_its_schema_is_handed_on_as_a_tree(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(post(&client, "/token", "{\"name\":\"a\",\"expires\":null}"), 200);
    assert_body(&client, "a");
    assert_int_equal(post(&client, "/token", "{\"name\":\"a\",\"expires\":\"2h\"}"), 200);
    assert_body(&client, "2h");
    assert_int_equal(post(&client, "/numbers", "{\"keep_recent\":3}"), 200);
    assert_body(&client, "3");
    assert_int_equal(post(&client, "/numbers", "{\"keep_recent\":3.0}"), 200);
    assert_body(&client, "3");
    assert_int_equal(post(&client, "/numbers", ""), 200); /* no body is an empty object */
    assert_body(&client, "-1");
}

static void body_with_an_unknown_key_is_refused_with_its_name(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(post(&client, "/token", "{\"name\":\"a\",\"scope\":[]}"), 400);
    assert_has(client.body, "POST /token: the body has the unknown property \\\"scope\\\"; did you "
                            "mean \\\"scopes\\\"?");
    assert_has(client.body, "it may have name, scopes, user, expires");
    assert_has(client.body, "\"code\":\"usage\"");
}

static void body_that_does_not_fit_says_where_and_what_it_has_to_be(void **state)
{
    static const struct {
        const char *body, *message, *hint;
    } rows[] = {
        {"{\"name\":7}", "the body: name must be a string, not number", "1 to 64 letters"},
        {"{\"name\":\"tok_a\"}", "the body: name must match the pattern", "with tok_"},
        {"{}", "the body is missing the property \\\"name\\\"", "it may have name, scopes"},
        {"{\"name\":\"a\",\"scopes\":[\"plugin:read\"]}", "scopes/0 must be one of",
         "read and call"},
        {"{\"name\":\"a\",\"expires\":\"a\\u0000b\"}", "expires must match", "30d"},
        {"[1]", "the body must be an object, not array", "it may have"},
        {"{\"name\":", "POST /token: the body: 1:9", ""},
        {"{\"name\":\"a\",\"name\":\"b\"}", "POST /token: the body: 1:13", ""},
    };
    kg_auto(client_free) struct client client = client_open(*state);
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        assert_int_equal(post(&client, "/token", rows[i].body), 400);
        assert_has(client.body, rows[i].message);
        assert_has(client.body, rows[i].hint);
    }
}

static void body_that_is_passed_on_is_not_looked_at(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(post(&client, "/bytes", "{\"scope\": nonsense"), 200);
    assert_body(&client, "{\"scope\": nonsense");
}

static void client_that_sends_on_after_a_refusal_gets_it(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    client_send(&client, kg_str("POST / HTTP/1.1\r\nContent-Length: 1073741824\r\n" HEAD));
    client_send(&client, (struct kg_str){large, LARGE_BYTES});
    assert_int_equal(client_answer(&client), 413);
    assert_has(client.head, "Connection: close\r\n");
}

static void endless_chunk_framing_is_refused(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    client_send(&client, kg_str("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD "1;a="));
    for (size_t i = 0; i < 3; i++)
        client_send(&client, (struct kg_str){large, 65536});
    int status = client_answer(&client);
    assert_true(status == 413 || status == 400);
}

/* -- bodies that stream ------------------------------------------------------------------------ */

static bool has_upload(void *data)
{
    (void)data;
    return upload.request != NULL;
}

static bool upload_is_gone(void *data)
{
    (void)data;
    return upload.gone > 0;
}

static uint64_t sum_of_large(size_t times)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < times * LARGE_BYTES; i++)
        sum += i * (unsigned char)large[i % LARGE_BYTES];
    return sum;
}

static void handler_has_the_request_before_its_body(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("POST /upload HTTP/1.1\r\nContent-Length: 5\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_upload, NULL, WAIT_MS));
    assert_int_equal(upload.bytes, 0);
    client_send(&client, KG_STR("he"));
    assert_int_equal(client_ask(&client, "llo"), 200);
    assert_body(&client, "5");
    assert_true(upload.pieces >= 2);
}

static void streamed_body_larger_than_any_bound_on_memory_arrives(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    kg_auto(kg_free) char *head =
        kg_format("POST /upload HTTP/1.1\r\nContent-Length: %zu\r\n" HEAD, 4 * LARGE_BYTES);
    client_send(&client, kg_str(head));
    for (int i = 0; i < 4; i++)
        client_send(&client, (struct kg_str){large, LARGE_BYTES});
    assert_int_equal(client_answer(&client), 200);
    assert_true(upload.bytes == 4 * LARGE_BYTES && upload.sum == sum_of_large(4));
}

static void streamed_chunks_arrive_and_the_connection_goes_on(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client,
                                "POST /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD
                                "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n"
                                "GET /items/next HTTP/1.1\r\n" HEAD),
                     200);
    assert_body(&client, "11");
    assert_int_equal(client_answer(&client), 200);
    assert_body(&client, "next");
}

static void streamed_chunks_may_come_byte_by_byte(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    const char *text = "POST /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD
                       "5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nX-A: b\r\n\r\n";
    for (const char *at = text; *at != '\0'; at++)
        client_send(&client, (struct kg_str){at, 1});
    assert_int_equal(client_answer(&client), 200);
    assert_body(&client, "11");
}

static void streamed_body_may_be_empty(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    assert_int_equal(client_ask(&client, "POST /upload HTTP/1.1\r\n" HEAD), 200);
    assert_int_equal(client_ask(&client, "POST /upload HTTP/1.1\r\nContent-Length: 0\r\n" HEAD),
                     200);
    assert_int_equal(client_ask(&client,
                                "POST /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD
                                "0\r\n\r\n"),
                     200);
    assert_body(&client, "0");
}

static void client_waits_while_its_body_is_paused(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    upload.read_later = true;
    client_send(&client, kg_str("POST /upload HTTP/1.1\r\nContent-Length: 4194304\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_upload, NULL, WAIT_MS));
    size_t sent = 0, refused = 0;
    while (refused < 100) {
        ssize_t more = send(client.fd, large + sent, LARGE_BYTES - sent, MSG_NOSIGNAL);
        sent += more > 0 ? (size_t)more : 0;
        refused = more > 0 ? 0 : refused + 1;
        turn(fixture);
    }
    assert_true(sent < LARGE_BYTES && upload.bytes == 0);
    http_read_body(upload.request, &upload_ops, &upload);
    client_send(&client, (struct kg_str){large + sent, LARGE_BYTES - sent});
    assert_int_equal(client_answer(&client), 200);
    assert_true(upload.bytes == LARGE_BYTES && upload.sum == sum_of_large(1));
}

static void upload_may_be_answered_before_its_end(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    upload.answer_early = true;
    client_send(&client, kg_str("POST /upload HTTP/1.1\r\nContent-Length: 9999999\r\n" HEAD));
    client_send(&client, (struct kg_str){large, LARGE_BYTES});
    assert_int_equal(client_answer(&client), 403);
    assert_body(&client, "\"early\"");
    assert_has(client.head, "Connection: close\r\n");
    assert_int_equal(upload.pieces, 1);
}

static void uploader_is_told_to_continue_once_its_body_is_wanted(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    upload.read_later = true;
    client_send(&client, kg_str("POST /upload HTTP/1.1\r\nExpect: 100-continue\r\n"
                                "Content-Length: 2\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_upload, NULL, WAIT_MS));
    client_pull(&client);
    assert_int_equal(client.in.length, 0);
    http_read_body(upload.request, &upload_ops, &upload);
    assert_int_equal(client_answer(&client), 100);
    assert_int_equal(client_ask(&client, "ok"), 200);
}

static bool has_mirrored(void *data)
{
    struct client *client = data;
    client_pull(client);
    return client->in.length > 0 && memmem(client->in.data, client->in.length, "0\r\n\r\n", 5);
}

static void nobody_is_told_to_continue_in_the_middle_of_an_answer(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    client_send(&client, kg_str("POST /mirror HTTP/1.1\r\nExpect: 100-continue\r\n"
                                "Content-Length: 2\r\n" HEAD));
    assert_int_equal(client_answer(&client), 200);
    client_send(&client, KG_STR("ok"));
    assert_true(loop_run_until(client.fixture->loop, has_mirrored, &client, WAIT_MS));
    assert_has_not(kg_buf_view(&client.in), "100 Continue");
}

static void streamed_body_that_does_not_fit_is_refused(void **state)
{
    static const struct {
        const char *rest;
        int status;
    } rows[] = {
        {"Content-Length: 1073741824\r\n" HEAD "abc", 413},
        {"Transfer-Encoding: chunked\r\n" HEAD "1\r\nx\r\n40000000\r\nabc", 413},
        {"Transfer-Encoding: chunked\r\n" HEAD "1\r\nx\r\n-1\r\n", 400},
        {"Transfer-Encoding: chunked\r\n" HEAD "1\r\nxy\r\n", 400},
    };
    for (size_t i = 0; i < KG_COUNT(rows); i++) {
        kg_auto(client_free) struct client client = client_open(*state);
        kg_auto(kg_free) char *text = kg_format("POST /upload HTTP/1.1\r\n%s", rows[i].rest);
        client_send(&client, kg_str(text));
        for (size_t sent = 0; rows[i].status == 413 && sent <= UPLOAD_MAX && !has_answer(&client);
             sent += LARGE_BYTES)
            client_send(&client, (struct kg_str){large, LARGE_BYTES});
        assert_int_equal(client_answer(&client), rows[i].status);
        assert_null(upload.request);
    }
}

static void streamed_body_that_hardly_comes_times_out(void **state)
{
    struct fixture *fixture = *state;
    set_idle_ms(fixture, 50);
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("POST /upload HTTP/1.1\r\nContent-Length: 9999\r\n" HEAD));
    for (int i = 0; i < 1000 && !has_answer(&client); i++) {
        client_send(&client, KG_STR("x"));
        uv_run(loop_uv(fixture->loop), UV_RUN_ONCE);
    }
    assert_int_equal(client_answer(&client), 408);
    assert_true(client_ends(&client));
}

/* The time for a body goes on after an answer, which did not fit the socket, was read. */
static void body_that_stops_while_it_is_answered_times_out(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    set_idle_ms(fixture, 300);
    kg_auto(kg_free) char *head =
        kg_format("POST /mirror HTTP/1.1\r\nContent-Length: %zu\r\n" HEAD, LARGE_BYTES);
    client_send(&client, kg_str(head));
    client_send(&client, (struct kg_str){large, LARGE_BYTES / 2});
    assert_true(client_ends(&client));
}

static void uploader_that_leaves_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    for (int half = 0; half < 2; half++) {
        kg_auto(client_free) struct client client = client_open(fixture);
        upload.gone = 0;
        client_send(&client, kg_str("POST /upload HTTP/1.1\r\nContent-Length: 9\r\n" HEAD "abc"));
        assert_true(loop_run_until(fixture->loop, has_upload, NULL, WAIT_MS));
        if (half)
            shutdown(client.fd, SHUT_WR); /* the rest can never come */
        else
            client_free(&client);
        assert_true(loop_run_until(fixture->loop, upload_is_gone, NULL, WAIT_MS));
    }
}

/* -- answers in pieces ------------------------------------------------------------------------- */

/* Takes the chunks off the start of what came in; SIZE_MAX: the last one is not there yet. */
static size_t count_chunked(struct kg_str text)
{
    size_t bytes = 0;
    for (;;) {
        const char *end = text.length ? memmem(text.data, text.length, "\r\n", 2) : NULL;
        if (end == NULL)
            return SIZE_MAX;
        size_t line = (size_t)(end + 2 - text.data);
        size_t length = strtoul(text.data, NULL, 16);
        if (text.length < line + length + 2)
            return SIZE_MAX;
        assert_memory_equal(text.data + line + length, "\r\n", 2);
        assert_memory_equal(text.data + line, large, length);
        text = (struct kg_str){text.data + line + length + 2, text.length - line - length - 2};
        if (length == 0)
            return bytes;
        bytes += length;
    }
}

static struct kg_str after_head(const struct client *client)
{
    const char *end =
        client->in.length ? memmem(client->in.data, client->in.length, "\r\n\r\n", 4) : NULL;
    if (end == NULL)
        return KG_STR_NULL;
    size_t head = (size_t)(end + 4 - client->in.data);
    return (struct kg_str){client->in.data + head, client->in.length - head};
}

static bool has_all_chunks(void *data)
{
    struct client *client = data;
    client_pull(client);
    return count_chunked(after_head(client)) != SIZE_MAX;
}

static void answer_of_unknown_length_comes_in_chunks(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /pieces/500 HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_all_chunks, &client, WAIT_MS));
    assert_has(kg_buf_view(&client.in), "Transfer-Encoding: chunked\r\n");
    assert_int_equal(count_chunked(after_head(&client)), 500 * 10007);
    assert_true(pieces.waits > 0); /* the socket's buffer takes less than that */
    kg_buf_free(&client.in);
    assert_int_equal(client_ask(&client, "GET /items/x HTTP/1.1\r\n" HEAD), 200);
}

static void empty_answer_of_unknown_length_has_an_end(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /pieces/0 HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_all_chunks, &client, WAIT_MS));
    assert_int_equal(count_chunked(after_head(&client)), 0);
}

static void http_1_0_gets_an_answer_of_unknown_length_up_to_the_end(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    client_send(&client, kg_str("GET /pieces/3 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    assert_true(client_ends(&client));
    assert_has_not(kg_buf_view(&client.in), "chunked");
    assert_int_equal(after_head(&client).length, 3 * 10007);
}

static bool has_empty_rest(void *data)
{
    client_pull(data);
    return after_head(data).data != NULL;
}

static void head_of_an_answer_of_unknown_length_has_no_body(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("HEAD /pieces/3 HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_empty_rest, &client, WAIT_MS));
    assert_int_equal(after_head(&client).length, 0);
    kg_buf_free(&client.in);
    assert_int_equal(client_ask(&client, "GET /items/x HTTP/1.1\r\n" HEAD), 200);
}

static bool listener_is_gone(void *data)
{
    (void)data;
    return pieces.gone > 0;
}

static void answer_in_pieces_ends_with_its_client(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /pieces/100000 HTTP/1.1\r\n" HEAD));
    client_free(&client);
    assert_true(loop_run_until(fixture->loop, listener_is_gone, NULL, WAIT_MS));
    assert_true(pieces.left > 0);
}

static void client_that_does_not_read_its_pieces_is_cut(void **state)
{
    struct fixture *fixture = *state;
    set_idle_ms(fixture, 50);
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /pieces/100000 HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, listener_is_gone, NULL, WAIT_MS));
}

/* -- in pieces, and many at once --------------------------------------------------------------- */

static void request_may_come_byte_by_byte(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    const char *text =
        "\r\nPOST /echo HTTP/1.1\r\nX-A:\r\nX-B: \t b \r\nTransfer-Encoding: chunked\r\n" HEAD
        "5\r\nhello\r\n0\r\n\r\nGET /header HTTP/1.1\r\nX-TEST:  v 1 \r\n" HEAD;
    for (const char *at = text; *at != '\0'; at++) {
        client_send(&client, (struct kg_str){at, 1});
        turn(client.fixture);
    }
    assert_int_equal(client_answer(&client), 200);
    assert_body(&client, "hello");
    assert_int_equal(client_answer(&client), 200);
    assert_body(&client, "v 1");
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    for (int i = 0; i < 5000; i++)
        kg_buf_printf(&text, "GET /items/%d HTTP/1.1\r\n" HEAD, i);
    for (size_t sent = 0; sent < text.length; client_pull(&client)) {
        ssize_t more = send(client.fd, text.data + sent, text.length - sent, MSG_NOSIGNAL);
        sent += more > 0 ? (size_t)more : 0;
        turn(client.fixture);
    }
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(client_answer(&client), 200);
        char expected[16];
        snprintf(expected, sizeof(expected), "%d", i);
        assert_body(&client, expected);
    }
}

static void pipelined_request_waits_for_the_one_before(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /slow HTTP/1.1\r\n" HEAD "GET /items/x HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_slow, NULL, WAIT_MS));
    client_pull(&client);
    assert_int_equal(client.in.length, 0);
    http_reply(kg_steal(&slow.request), 200, KG_STR("\"slow\""));
    assert_int_equal(client_answer(&client), 200);
    assert_body(&client, "\"slow\"");
    assert_int_equal(client_answer(&client), 200);
    assert_body(&client, "x");
    assert_int_equal(slow.gone, 0);
}

static void bytes_held_behind_a_running_request_are_bounded(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /slow HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_slow, NULL, WAIT_MS));
    size_t taken = 0, refused = 0;
    while (refused < 100) {
        ssize_t sent = send(client.fd, large, 4096, MSG_NOSIGNAL);
        taken += sent > 0 ? (size_t)sent : 0;
        refused = sent > 0 ? 0 : refused + 1;
        turn(fixture);
    }
    assert_true(taken < (size_t)2 * 1024 * 1024); /* the kernel's buffer and ours */
    http_reply(kg_steal(&slow.request), 200, KG_STR("{}"));
    assert_int_equal(client_answer(&client), 200);
    assert_int_equal(client_answer(&client), 400);
}

/* -- time and number --------------------------------------------------------------------------- */

static void request_that_trickles_in_times_out(void **state)
{
    struct fixture *fixture = *state;
    set_idle_ms(fixture, 50);
    kg_auto(client_free) struct client client = client_open(fixture);
    const char *text =
        "GET / HTTP/1.1\r\nX-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    uint64_t begun_ms = kg_monotonic_ms();
    for (size_t i = 0; text[i] != '\0' && !has_answer(&client); i++) {
        client_send(&client, (struct kg_str){text + i, 1});
        uv_run(loop_uv(fixture->loop), UV_RUN_ONCE); /* at least a tick */
    }
    assert_int_equal(client_answer(&client), 408);
    assert_has(client.body, "request_timeout");
    assert_true(kg_monotonic_ms() - begun_ms >= 45);
    assert_true(client_ends(&client));
}

static void body_that_does_not_come_times_out(void **state)
{
    set_idle_ms(*state, 30);
    assert_int_equal(ask(*state, "POST / HTTP/1.1\r\nContent-Length: 5\r\n" HEAD "he"), 408);
}

static void idle_connection_is_closed_silently(void **state)
{
    set_idle_ms(*state, 30);
    kg_auto(client_free) struct client fresh = client_open(*state);
    assert_true(client_ends(&fresh));
    assert_int_equal(fresh.in.length, 0);
    kg_auto(client_free) struct client used = client_open(*state);
    assert_int_equal(client_ask(&used, "GET / HTTP/1.1\r\n" HEAD), 200);
    assert_true(client_ends(&used));
    assert_int_equal(used.in.length, used.taken);
}

static void request_that_runs_long_is_not_idle(void **state)
{
    struct fixture *fixture = *state;
    set_idle_ms(fixture, 20);
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /slow HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_slow, NULL, WAIT_MS));
    assert_false(loop_run_until(fixture->loop, slow_is_gone, NULL, 100));
    http_reply(kg_steal(&slow.request), 200, KG_STR("{}"));
    assert_int_equal(client_answer(&client), 200);
}

static bool is_cut_off(void *data)
{
    const struct client *client = data;
    return send(client->fd, "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE;
}

static void client_that_never_reads_is_cut(void **state)
{
    struct fixture *fixture = *state;
    set_idle_ms(fixture, 50);
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /large HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, is_cut_off, &client, WAIT_MS));
}

static void client_that_reads_slowly_is_served(void **state)
{
    struct fixture *fixture = *state;
    set_idle_ms(fixture, 200);
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /large HTTP/1.1\r\n" HEAD));
    uint64_t begun_ms = kg_monotonic_ms();
    while (!find_answer(&client, true) && !client.ended) {
        char bytes[65536];
        ssize_t got = read(client.fd, bytes, sizeof(bytes));
        if (got > 0)
            kg_buf_append(&client.in, bytes, (size_t)got);
        client.ended = got == 0;
        for (int i = 0; i < 2; i++)
            uv_run(loop_uv(fixture->loop), UV_RUN_ONCE);
    }
    assert_int_equal(client.status, 200);
    assert_int_equal(client.body.length, LARGE_BYTES);
    assert_true(kg_monotonic_ms() - begun_ms > 200);
}

static void connection_over_the_bound_is_turned_away(void **state)
{
    struct fixture *fixture = *state;
    fixture->limits.connections = 2;
    http_server_set_limits(fixture->server, &fixture->limits);
    kg_auto(client_free) struct client first = client_open(fixture);
    kg_auto(client_free) struct client second = client_open(fixture);
    assert_int_equal(client_ask(&first, "GET / HTTP/1.1\r\n" HEAD), 200);
    assert_int_equal(client_ask(&second, "GET / HTTP/1.1\r\n" HEAD), 200);
    kg_auto(client_free) struct client third = client_open(fixture);
    assert_int_equal(client_answer(&third), 503);
    assert_has(third.body, "2 connections");
    assert_true(client_ends(&third));
    client_free(&first);
    for (int i = 0; i < 3; i++)
        turn(fixture);
    assert_int_equal(ask(fixture, "GET / HTTP/1.1\r\n" HEAD), 200);
}

static void huge_headers_are_refused(void **state)
{
    kg_auto(client_free) struct client one = client_open(*state);
    client_send(&one, kg_str("GET / HTTP/1.1\r\nX-Long: "));
    client_send(&one, (struct kg_str){large, 100000});
    assert_int_equal(client_answer(&one), 431);
    kg_auto(kg_buf_free) struct kg_buf many = {0};
    kg_buf_text(&many, "GET / HTTP/1.1\r\n");
    for (int i = 0; i < 200; i++)
        kg_buf_printf(&many, "X-%d: y\r\n", i);
    kg_buf_text(&many, HEAD);
    assert_int_equal(ask(*state, kg_buf_terminate(&many)), 431);
}

static void url_over_16_kib_is_refused(void **state)
{
    kg_auto(kg_free) char *fits = kg_format("GET /items/%.*s HTTP/1.1\r\n" HEAD, 16000, large);
    assert_int_equal(ask(*state, fits), 200);
    kg_auto(kg_free) char *longer = kg_format("GET /items/%.*s HTTP/1.1\r\n" HEAD, 16400, large);
    assert_int_equal(ask(*state, longer), 414);
    kg_auto(kg_free) char *endless = kg_format("GET /items/%.*s", 100000, large);
    assert_int_equal(ask(*state, endless), 414);
}

/* -- clients that leave ------------------------------------------------------------------------ */

static void client_that_leaves_is_noticed_at_once(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /slow HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_slow, NULL, WAIT_MS));
    assert_int_equal(slow.gone, 0);
    client_free(&client);
    assert_true(loop_run_until(fixture->loop, slow_is_gone, NULL, WAIT_MS));
    assert_int_equal(slow.gone, 1);
    assert_non_null(http_operator(slow.request));
    http_reply(kg_steal(&slow.request), 200, KG_STR("{}"));
}

/* Its last bytes are not read while a request of it runs: so much waits already. */
static void client_that_leaves_is_noticed_behind_what_it_sent(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /slow HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_slow, NULL, WAIT_MS));
    client_send(&client, (struct kg_str){large, 100000});
    client_free(&client);
    assert_true(loop_run_until(fixture->loop, slow_is_gone, NULL, WAIT_MS));
}

static void request_may_be_answered_while_told_that_its_client_left(void **state)
{
    struct fixture *fixture = *state;
    slow.answer_when_gone = true;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /slow HTTP/1.1\r\n" HEAD "GET / HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_slow, NULL, WAIT_MS));
    client_free(&client);
    assert_true(loop_run_until(fixture->loop, slow_is_gone, NULL, WAIT_MS));
    assert_null(slow.request);
}

static void client_that_only_ends_its_sending_is_answered(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /slow HTTP/1.1\r\n" HEAD "GET /items/x HTTP/1.1\r\n" HEAD));
    shutdown(client.fd, SHUT_WR);
    assert_true(loop_run_until(fixture->loop, has_slow, NULL, WAIT_MS));
    for (int i = 0; i < 3; i++)
        turn(fixture);
    assert_int_equal(slow.gone, 0);
    http_reply(kg_steal(&slow.request), 200, KG_STR("{}"));
    assert_int_equal(client_answer(&client), 200);
    assert_int_equal(client_answer(&client), 200);
    assert_body(&client, "x");
    assert_true(client_ends(&client));
}

static void client_that_ends_its_sending_and_then_leaves_is_noticed(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /slow HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_slow, NULL, WAIT_MS));
    shutdown(client.fd, SHUT_WR);
    turn(fixture);
    assert_int_equal(slow.gone, 0);
    client_free(&client);
    assert_true(loop_run_until(fixture->loop, slow_is_gone, NULL, WAIT_MS));
}

static void client_that_leaves_in_the_middle_harms_nobody(void **state)
{
    static const char *const parts[] = {"",
                                        "G",
                                        "GET / HTTP/1.1\r\nHo",
                                        "POST / HTTP/1.1\r\nContent-Length: 9\r\n" HEAD "abc",
                                        "GET /large HTTP/1.1\r\n" HEAD,
                                        "\r\n"};
    for (size_t i = 0; i < KG_COUNT(parts); i++) {
        kg_auto(client_free) struct client client = client_open(*state);
        client_send(&client, kg_str(parts[i]));
        turn(*state);
    }
    assert_int_equal(ask(*state, "GET / HTTP/1.1\r\n" HEAD), 200);
}

/* -- the end ----------------------------------------------------------------------------------- */

static void stopping_closes_idle_connections_and_answers_the_rest(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client idle = client_open(fixture);
    kg_auto(client_free) struct client busy = client_open(fixture);
    assert_int_equal(client_ask(&idle, "GET / HTTP/1.1\r\n" HEAD), 200);
    client_send(&busy, kg_str("GET /slow HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_slow, NULL, WAIT_MS));
    http_server_stop(fixture->server);
    assert_true(client_ends(&idle));
    assert_int_equal(access(fixture->path, F_OK), -1);
    assert_int_equal(connect_to(fixture->path), -ENOENT);
    http_reply(kg_steal(&slow.request), 200, KG_STR("{}"));
    assert_int_equal(client_answer(&busy), 200);
    assert_has(busy.head, "Connection: close\r\n");
    assert_true(client_ends(&busy));
}

static void freeing_tells_running_requests_that_their_client_is_gone(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_str("GET /slow HTTP/1.1\r\n" HEAD));
    assert_true(loop_run_until(fixture->loop, has_slow, NULL, WAIT_MS));
    http_server_free(fixture->server, on_freed, &fixture->freed);
    fixture->server = NULL;
    assert_int_equal(slow.gone, 1);
    assert_true(loop_run_until(fixture->loop, is_true, &fixture->freed, WAIT_MS));
    http_reply(kg_steal(&slow.request), 200, KG_STR("{}"));
    assert_true(client_ends(&client));
}

/* -- requests that two readers would read differently ------------------------------------------ */

static void ambiguous_requests_are_refused(void **state)
{
    static const char *const texts[] = {
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n" HEAD "0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n" HEAD "0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n" HEAD "hello",
        "POST / HTTP/1.1\r\nContent-Length: 5, 5\r\n" HEAD "hello",
        "POST / HTTP/1.1\r\nContent-Length: +5\r\n" HEAD "hello",
        "POST / HTTP/1.1\r\nContent-Length: \r\n" HEAD,
        "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n" HEAD,
        "POST / HTTP/1.1\r\nTransfer-Encoding: \r\nContent-Length: 5\r\n" HEAD "hello",
        "POST / HTTP/1.1\r\nTransfer-Encoding: \r\n" HEAD,
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n" HEAD,
        "POST / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n" HEAD,
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n" HEAD,
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n" HEAD "0\r\n\r\n",
        "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n" HEAD "0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding : chunked\r\n" HEAD "0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n" HEAD "0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD "0x1\r\nx\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD "-1\r\nx\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD "1\r\nxy\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD "fffffffffffffffff\r\n",
        "GET / HTTP/1.1\r\nX-A: b\r\n c\r\n" HEAD,
        "GET / HTTP/1.1\r\nX-A : b\r\n" HEAD,
        "GET / HTTP/1.1\r\n: b\r\n" HEAD,
        "GET / HTTP/1.1\r\n X-A: b\r\n" HEAD,
        "GET / HTTP/1.1\r\nX A: b\r\n" HEAD,
        "GET / HTTP/1.1\r\nX-A\r\n" HEAD,
        "GET / HTTP/1.1\r\nX-A: b\nX-B: c\r\n" HEAD,
        "GET / HTTP/1.1\r\nX-A: b\rX-B: c\r\n" HEAD,
        "GET / HTTP/1.1\nHost: localhost\n\n",
        "GET / HTTP/1.1\r\nX-A: \x01\r\n" HEAD,
        "GET  / HTTP/1.1\r\n" HEAD,
        "GET /  HTTP/1.1\r\n" HEAD,
        "GET / x HTTP/1.1\r\n" HEAD,
        "GET / HTTP/1.1 \r\n" HEAD,
        "GET / HTTP/2.0\r\n" HEAD,
        "GET / HTTP/0.9\r\n" HEAD,
        "GET / RTSP/1.0\r\n" HEAD,
        "GET /\r\n\r\n",
        "get / HTTP/1.1\r\n" HEAD,
        "HTTP/1.1 200 OK\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\x16\x03\x01\x02\x01\x01",
    };
    for (size_t i = 0; i < KG_COUNT(texts); i++) {
        kg_auto(client_free) struct client client = client_open(*state);
        client_send(&client, kg_str(texts[i]));
        if (client_answer(&client) != 400)
            fail_msg("%d for %s", client.status, texts[i]);
        assert_has(client.head, "Connection: close\r\n");
        assert_true(client_ends(&client));
        assert_int_equal(client.in.length, client.taken); /* one answer, not two */
    }
}

/* Two bytes of any kind passed for the CRLF after a chunk, and what followed was served. */
static void malformed_chunk_does_not_let_the_next_request_through(void **state)
{
    static const char *const bodies[] = {
        "2\r\n{}XX0\r\n\r\n",       "2\r\n{}\n0\r\n\r\n",    "2\r\n{}\r\r0\r\n\r\n",
        "2\rX{}\r\n0\r\n\r\n",      "2;a\rX{}\r\n0\r\n\r\n", "2 \r\n{}\r\n0\r\n\r\n",
        "2\r\n{}\r\n0\r\n\rX",      "2\r\n{}\r\n0XX\r\n",    "2\r\n{}\r\n0\r\nA : b\r\n\r\n",
        "2\r\n{}\r\n0\r\nA: b\n\n",
    };
    for (size_t i = 0; i < KG_COUNT(bodies); i++) {
        kg_auto(kg_free) char *text =
            kg_format("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" HEAD
                      "%sGET /list HTTP/1.1\r\n" HEAD,
                      bodies[i]);
        kg_auto(client_free) struct client client = client_open(*state);
        client_send(&client, kg_str(text));
        if (client_answer(&client) != 400)
            fail_msg("%d for %s", client.status, bodies[i]);
        assert_true(client_ends(&client));
        assert_int_equal(client.in.length, client.taken); /* one answer, not two */
    }
}

static void parser_that_takes_malformed_chunks_is_found_at_start(void **state)
{
    (void)state;
    struct kg_err err = {0};
    assert_int_equal(http_parser_check(&err), 0);
}

static void nul_is_refused_wherever_it_stands(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nX-Test: ab\r\n" HEAD;
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        char broken[sizeof(text) - 1];
        memcpy(broken, text, sizeof(broken));
        broken[i] = '\0';
        kg_auto(client_free) struct client client = client_open(*state);
        client_send(&client, (struct kg_str){broken, sizeof(broken)});
        assert_int_equal(client_answer(&client), 400);
    }
}

static void host_must_be_one_host(void **state)
{
    static const char *const bad[] = {"",
                                      "Host: a\r\nHost: a\r\n",
                                      "Host: \r\n",
                                      "Host: a, b\r\n",
                                      "Host: u@a\r\n",
                                      "Host: a/b\r\n",
                                      "Host: a b\r\n",
                                      "Host: [::1\r\n",
                                      "Host: a:x\r\n"};
    static const char *const good[] = {"Host: a\r\n", "Host: a:80\r\n", "hOST: [::1]:7777\r\n",
                                       "Host:127.0.0.1\r\n"};
    for (size_t i = 0; i < KG_COUNT(bad); i++) {
        kg_auto(kg_free) char *text = kg_format("GET / HTTP/1.1\r\n%s\r\n", bad[i]);
        assert_int_equal(ask(*state, text), 400);
    }
    for (size_t i = 0; i < KG_COUNT(good); i++) {
        kg_auto(kg_free) char *text = kg_format("GET / HTTP/1.1\r\n%s\r\n", good[i]);
        assert_int_equal(ask(*state, text), 200);
    }
}

static void upgrade_is_passed_over(void **state)
{
    kg_auto(client_free) struct client client = client_open(*state);
    const char *text = "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" HEAD;
    for (int i = 0; i < 2; i++)
        assert_int_equal(client_ask(&client, text), 200);
}

/* -- http11probe ------------------------------------------------------------------------------- */

static void append_base64(struct kg_buf *out, struct kg_str text)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0;
    unsigned count = 0;
    for (size_t i = 0; i < text.length && text.data[i] != '='; i++) {
        bits = bits << 6 | (uint32_t)(strchr(digits, text.data[i]) - digits);
        count += 6;
        if (count >= 8) {
            count -= 8;
            kg_buf_char(out, (char)(bits >> count));
        }
    }
}

static void append_with_host(struct kg_buf *out, struct kg_str text)
{
    static const char mark[] = "@@HOST@@";
    for (;;) {
        const char *at = text.length ? memmem(text.data, text.length, mark, strlen(mark)) : NULL;
        size_t before = at ? (size_t)(at - text.data) : text.length;
        kg_buf_append(out, text.data, before);
        if (at == NULL)
            return;
        kg_buf_text(out, "localhost");
        text.data += before + strlen(mark);
        text.length -= before + strlen(mark);
    }
}

/* The status of the answer, or 0 if there was none; a hang fails. */
static int probe(struct fixture *fixture, struct kg_str encoded)
{
    kg_auto(kg_buf_free) struct kg_buf plain = {0}, text = {0};
    append_base64(&plain, encoded);
    append_with_host(&text, kg_buf_view(&plain));
    kg_auto(client_free) struct client client = client_open(fixture);
    client_send(&client, kg_buf_view(&text));
    return client_answer(&client);
}

/* With no answer, close_ok says whether closing the connection was right as well. */
static bool is_expected(const struct kg_node *test, int status)
{
    const struct kg_node *range = kg_node_get(test, "status");
    int64_t low, high;
    if (!kg_node_int(&range->items[0], &low) || !kg_node_int(&range->items[1], &high))
        fail_msg("a status that is no range");
    return status == 0 ? kg_node_get(test, "close_ok")->boolean : status >= low && status <= high;
}

static void http11probe_is_survived(void **state)
{
    struct fixture *fixture = *state;
    kg_auto(kg_free) char *path = suite_path("http11probe/cases.json");
    if (path == NULL) {
        suite_skip(__func__, "http11probe");
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    assert_int_equal(kg_read_file(path, LARGE_BYTES, &text, NULL), 0);
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&text), NULL);
    assert_non_null(doc);
    set_idle_ms(fixture, 100);
    int judged = 0, expected = 0;
    for (uint32_t i = 0; i < doc->root->count; i++) {
        const struct kg_node *test = &doc->root->items[i];
        const struct kg_node *encoded = kg_node_get(test, "request_b64");
        if (encoded == NULL)
            continue; /* what it sends is made by a program */
        int status = probe(fixture, encoded->text);
        if (kg_node_get(test, "status") == NULL)
            continue; /* judged by a program: only survived here */
        judged++;
        expected += is_expected(test, status);
        if (!is_expected(test, status))
            printf("# http11probe: %.*s: %d\n", KG_STR_ARG(kg_node_get(test, "id")->text), status);
    }
    printf("# http11probe: %d of %d as expected\n", expected, judged);
    assert_true(judged > 0);
    assert_int_equal(ask(fixture, "GET / HTTP/1.1\r\n" HEAD), 200);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(socket_is_for_its_owner_only),
        TEST(socket_of_a_living_daemon_is_left_alone),
        TEST(stale_socket_is_replaced),
        TEST(file_in_the_way_is_not_removed),
        TEST(path_that_is_too_long_is_explained),
        TEST(client_in_another_user_namespace_is_refused),
        TEST(client_that_is_gone_is_refused_and_reported),
        TEST(refusals_are_reported_once_a_second),
        TEST(client_of_another_user_is_refused),
        TEST(operator_is_the_name_of_the_peers_user),
        TEST(answer_has_the_headers_of_every_answer),
        TEST(connection_serves_one_request_after_the_other),
        TEST(connection_close_is_obeyed),
        TEST(http_1_0_closes_unless_asked_to_stay),
        TEST(head_is_answered_like_get_without_body),
        TEST(options_lists_the_methods),
        TEST(error_has_code_message_hint_and_request_id),
        TEST(error_without_hint_omits_it),
        TEST(request_id_that_is_not_plain_is_replaced),
        TEST(large_answer_arrives_whole),
        TEST(unknown_path_is_named),
        TEST(known_path_with_another_method_says_which),
        TEST(path_parameter_is_decoded_and_its_slash_is_data),
        TEST(bad_escapes_are_refused),
        TEST(only_paths_are_urls),
        TEST(query_is_decoded),
        TEST(unknown_query_parameter_is_named_with_the_known_ones),
        TEST(query_parameter_of_the_wrong_type_is_refused),
        TEST(query_of_very_many_parameters_is_refused),
        TEST(body_with_a_length_arrives),
        TEST(chunked_body_arrives),
        TEST(large_body_arrives_whole),
        TEST(client_is_told_to_continue),
        TEST(client_is_not_told_to_continue_with_a_body_that_is_refused),
        TEST(client_that_cannot_be_told_to_continue_is_left),
        TEST(body_where_none_is_taken_is_refused),
        TEST(body_over_the_routes_bound_is_refused),
        TEST(bodies_of_many_connections_are_bounded_in_sum),
        TEST(chunked_bodies_are_bounded_in_sum),
        TEST(body_that_fits_its_schema_is_handed_on_as_a_tree),
        TEST(body_with_an_unknown_key_is_refused_with_its_name),
        TEST(body_that_does_not_fit_says_where_and_what_it_has_to_be),
        TEST(body_that_is_passed_on_is_not_looked_at),
        TEST(client_that_sends_on_after_a_refusal_gets_it),
        TEST(endless_chunk_framing_is_refused),
        TEST(handler_has_the_request_before_its_body),
        TEST(streamed_body_larger_than_any_bound_on_memory_arrives),
        TEST(streamed_chunks_arrive_and_the_connection_goes_on),
        TEST(streamed_chunks_may_come_byte_by_byte),
        TEST(streamed_body_may_be_empty),
        TEST(client_waits_while_its_body_is_paused),
        TEST(upload_may_be_answered_before_its_end),
        TEST(uploader_is_told_to_continue_once_its_body_is_wanted),
        TEST(nobody_is_told_to_continue_in_the_middle_of_an_answer),
        TEST(streamed_body_that_does_not_fit_is_refused),
        TEST(streamed_body_that_hardly_comes_times_out),
        TEST(body_that_stops_while_it_is_answered_times_out),
        TEST(uploader_that_leaves_is_noticed),
        TEST(answer_of_unknown_length_comes_in_chunks),
        TEST(empty_answer_of_unknown_length_has_an_end),
        TEST(http_1_0_gets_an_answer_of_unknown_length_up_to_the_end),
        TEST(head_of_an_answer_of_unknown_length_has_no_body),
        TEST(answer_in_pieces_ends_with_its_client),
        TEST(client_that_does_not_read_its_pieces_is_cut),
        TEST(request_may_come_byte_by_byte),
        TEST(pipelined_requests_are_answered_in_order),
        TEST(pipelined_request_waits_for_the_one_before),
        TEST(bytes_held_behind_a_running_request_are_bounded),
        TEST(request_that_trickles_in_times_out),
        TEST(body_that_does_not_come_times_out),
        TEST(idle_connection_is_closed_silently),
        TEST(request_that_runs_long_is_not_idle),
        TEST(client_that_never_reads_is_cut),
        TEST(client_that_reads_slowly_is_served),
        TEST(connection_over_the_bound_is_turned_away),
        TEST(huge_headers_are_refused),
        TEST(url_over_16_kib_is_refused),
        TEST(client_that_leaves_is_noticed_at_once),
        TEST(client_that_leaves_is_noticed_behind_what_it_sent),
        TEST(request_may_be_answered_while_told_that_its_client_left),
        TEST(client_that_only_ends_its_sending_is_answered),
        TEST(client_that_ends_its_sending_and_then_leaves_is_noticed),
        TEST(client_that_leaves_in_the_middle_harms_nobody),
        TEST(stopping_closes_idle_connections_and_answers_the_rest),
        TEST(freeing_tells_running_requests_that_their_client_is_gone),
        TEST(ambiguous_requests_are_refused),
        TEST(malformed_chunk_does_not_let_the_next_request_through),
        TEST(parser_that_takes_malformed_chunks_is_found_at_start),
        TEST(nul_is_refused_wherever_it_stands),
        TEST(host_must_be_one_host),
        TEST(upgrade_is_passed_over),
        TEST(http11probe_is_survived),
    };
    signal(SIGPIPE, SIG_IGN);
    large = malloc(LARGE_BYTES);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        large[i] = (char)('a' + i % 23);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(large);
    return failed;
}
