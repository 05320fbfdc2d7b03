/*
 * A client of the daemon: one connection, one request, one answer. The answer is bounded in size,
 * of one that comes in lines each line is; a daemon that stays silent is given up, so that no
 * command waits for ever on a hung one.
 */
#include "cli/cli.h"

#include "base/problems.h"

#include <errno.h>
#include <llhttp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX_BYTES ((size_t)64 << 20)
#define LINE_MAX_BYTES   ((size_t)16 << 20)
#define SILENCE_MS       60000 /* past CLIENT_LONG_POLL_MS, and time to read a large audit log */

/* -- targets ----------------------------------------------------------------------------------- */

void client_put_target(struct kg_buf *target, const char *kind, const char *name, const char *rest)
{
    kg_buf_printf(target, "/api/v1/%s/", kind);
    kg_buf_percent(target, kg_str(name));
    kg_buf_text(target, rest);
}

void client_put_query(struct kg_buf *target, const char *name, struct kg_str value)
{
    bool first = memchr(target->data, '?', target->length) == NULL;
    kg_buf_printf(target, "%c%s=", first ? '?' : '&', name);
    kg_buf_percent(target, value);
}

void client_put_number(struct kg_buf *target, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    client_put_query(target, name, kg_str(text));
}

void cli_put_option(struct kg_buf *target, const struct cli *cli, const char *name)
{
    const char *value = cli_option_value(cli, name);
    if (value != NULL)
        client_put_query(target, name, kg_str(value));
}

/* -- the connection ---------------------------------------------------------------------------- */

static int connect_to(const char *path, struct kg_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path))
        return kg_fail(err, KG_E_USAGE, "socket %s: the path is longer than %zu bytes", path,
                       sizeof(address.sun_path) - 1);
    strcpy(address.sun_path, path);
    kg_auto(kg_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return kg_fail_errno(err, errno, "make a socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        int errnum = errno;
        int result = kg_fail_errno(err, errnum, "connect to %s", path);
        if (err != NULL && (errnum == ENOENT || errnum == ECONNREFUSED || errnum == ENOTDIR))
            err->code = KG_E_NO_DAEMON;
        else if (err != NULL && (errnum == EACCES || errnum == EPERM))
            err->code = KG_E_REFUSED;
        return result;
    }
    return kg_steal_fd(&fd);
}

static int send_all(int fd, struct kg_str text, struct kg_err *err)
{
    while (text.length > 0) {
        ssize_t sent = send(fd, text.data, text.length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        /* A daemon that refuses a request early answers and closes: the answer says why. */
        if (sent < 0 && (errno == EPIPE || errno == ECONNRESET))
            return 0;
        if (sent < 0 && errno == EAGAIN)
            return kg_fail(err, KG_E_IO, "the daemon did not read the request");
        if (sent < 0)
            return kg_fail_errno(err, errno, "send the request");
        text.data += sent;
        text.length -= (size_t)sent;
    }
    return 0;
}

static int cli_client_send_request(int fd, const struct client_request *request, struct kg_err *err)
{
    kg_auto(kg_buf_free) struct kg_buf head = {0};
    kg_buf_printf(&head, "%s %s HTTP/1.1\r\nHost: kaged\r\nConnection: close\r\n", request->method,
                  request->target);
    if (request->timeout_ms > 0)
        kg_buf_printf(&head, "Kaged-Timeout-Ms: %lld\r\n", (long long)request->timeout_ms);
    if (request->headers != NULL)
        kg_buf_text(&head, request->headers);
    if (request->body.length > 0)
        kg_buf_printf(&head, "Content-Type: %s\r\n",
                      request->content_type ? request->content_type : "application/json");
    if (request->body.length > 0 || strcmp(request->method, "POST") == 0)
        kg_buf_printf(&head, "Content-Length: %zu\r\n", request->body.length);
    kg_buf_text(&head, "\r\n");
    int result = send_all(fd, kg_buf_view(&head), err);
    return result < 0 ? result : send_all(fd, request->body, err);
}

/* -- the answer -------------------------------------------------------------------------------- */

struct answer {
    llhttp_t parser;                    /* its data is this answer */
    struct client_reply reply;          /* of lines: the one that has not ended yet */
    const struct client_stream *stream; /* NULL: it is wanted whole */
    bool whole;
};

/* What was refused is not a stream: its body says why. */
static bool comes_in_lines(struct answer *answer)
{
    return answer->stream != NULL && llhttp_get_status_code(&answer->parser) == 200;
}

static void tell_lines(struct answer *answer)
{
    struct kg_buf *body = &answer->reply.body;
    size_t at = 0;
    for (const char *end;
         body->length > at && (end = memchr(body->data + at, '\n', body->length - at)) != NULL;) {
        size_t length = (size_t)(end - body->data) - at;
        answer->stream->on_line(answer->stream->data, (struct kg_str){body->data + at, length});
        at += length + 1;
    }
    kg_buf_consume(body, at);
}

static int cli_client_on_body(llhttp_t *parser, const char *at, size_t length)
{
    struct answer *answer = parser->data;
    bool lines = comes_in_lines(answer);
    if (length > (lines ? LINE_MAX_BYTES : ANSWER_MAX_BYTES) - answer->reply.body.length)
        return HPE_USER;
    kg_buf_append(&answer->reply.body, at, length);
    if (lines && memchr(at, '\n', length) != NULL)
        tell_lines(answer);
    return HPE_OK;
}

static int cli_client_on_whole(llhttp_t *parser)
{
    struct answer *answer = parser->data;
    answer->reply.status = llhttp_get_status_code(parser);
    answer->whole = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {.on_body = cli_client_on_body,
                                           .on_message_complete = cli_client_on_whole};

static bool is_enough(const struct answer *answer)
{
    return answer->stream != NULL && answer->stream->leave != NULL && *answer->stream->leave;
}

/* A reader of lines hears of a Ctrl-C, once, and says how long to wait from then on. */
static bool heeds_interrupts(const struct answer *answer, int64_t silence_ms)
{
    return answer->stream != NULL && silence_ms == CLIENT_WAIT_FOREVER;
}

static int wait_for_bytes(int fd, const struct answer *answer, int64_t *silence_ms,
                          struct kg_err *err)
{
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    for (;;) {
        int64_t ms = *silence_ms > INT32_MAX ? INT32_MAX : *silence_ms;
        bool heeds = heeds_interrupts(answer, ms);
        int ready = heeds ? terminal_poll(&readable) : poll(&readable, 1, (int)ms);
        if (ready > 0)
            return 0;
        if (ready == 0)
            return kg_fail(err, KG_E_IO, "the daemon has not answered for %lld s",
                           (long long)ms / 1000);
        if (errno != EINTR)
            return kg_fail_errno(err, errno, "wait for the answer");
        if (heeds && terminal_was_interrupted())
            *silence_ms = answer->stream->on_interrupt(answer->stream->data);
        if (is_enough(answer))
            return 0;
    }
}

/* Feeds what came; none at all means that the daemon closed the connection. */
static int cli_client_take_bytes(struct answer *answer, struct kg_str bytes, struct kg_err *err)
{
    llhttp_errno_t fault = bytes.length > 0
                               ? llhttp_execute(&answer->parser, bytes.data, bytes.length)
                               : llhttp_finish(&answer->parser);
    if (answer->whole)
        return 0;
    if (fault == HPE_USER)
        return kg_fail(err, KG_E_TOO_LARGE, "the answer is larger than %zu MiB",
                       (comes_in_lines(answer) ? LINE_MAX_BYTES : ANSWER_MAX_BYTES) >> 20);
    if (bytes.length == 0)
        return kg_fail(err, KG_E_IO, "the daemon closed the connection before it had answered");
    if (fault != HPE_OK)
        return kg_fail(err, KG_E_IO, "the answer is not HTTP: %s",
                       llhttp_get_error_reason(&answer->parser));
    return 0;
}

static int receive(int fd, int64_t silence_ms, struct answer *answer, struct kg_err *err)
{
    llhttp_init(&answer->parser, HTTP_RESPONSE, &settings);
    answer->parser.data = answer;
    int result = 0;
    while (result == 0 && !answer->whole && !is_enough(answer)) {
        char bytes[65536];
        result = wait_for_bytes(fd, answer, &silence_ms, err);
        if (result < 0)
            break;
        if (is_enough(answer))
            break;
        ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno != ECONNRESET)
            return kg_fail_errno(err, errno, "receive the answer");
        result =
            cli_client_take_bytes(answer, (struct kg_str){bytes, got < 0 ? 0 : (size_t)got}, err);
    }
    if (result == 0 && !answer->whole) {
        answer->reply.status = 200;
        answer->reply.body.length = 0;
    }
    return result;
}

int client_send(const char *socket_path, const struct client_request *request, struct kg_err *err)
{
    kg_auto(kg_close) int fd = connect_to(socket_path, err);
    if (fd < 0)
        return err && err->errnum ? -err->errnum : -EIO;
    struct timeval patience = {.tv_sec = SILENCE_MS / 1000};
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    int result = cli_client_send_request(fd, request, err);
    return result < 0 ? result : kg_steal_fd(&fd);
}

int client_stream(const char *socket_path, const struct client_request *request,
                  const struct client_stream *stream, struct client_reply *ret_reply,
                  struct kg_err *err)
{
    kg_auto(kg_close) int fd = client_send(socket_path, request, err);
    if (fd < 0)
        return fd;
    struct answer answer = {.stream = stream};
    int result = receive(fd, request->silence_ms ? request->silence_ms : SILENCE_MS, &answer, err);
    if (result < 0)
        kg_buf_free(&answer.reply.body);
    else
        *ret_reply = answer.reply;
    return result;
}

int client_exchange(const char *socket_path, const struct client_request *request,
                    struct client_reply *ret_reply, struct kg_err *err)
{
    return client_stream(socket_path, request, NULL, ret_reply, err);
}

/* -- asking, for the commands ------------------------------------------------------------------ */

static int say_no_exchange(const struct cli *cli, struct kg_err *err)
{
    kg_auto(kg_free) char *self = cli_self(cli);
    const char *home = cli->paths.home ? cli->paths.home : cli->paths.run_dir;
    if (err->code == KG_E_NO_DAEMON) {
        kg_fail(err, KG_E_NO_DAEMON, "kaged is not running for %s", home);
        kg_hint(err, "start it with: %s start", self);
    } else if (err->code == KG_E_REFUSED) {
        kg_hint(err, "only the user who started this kaged, and root, may use it");
    }
    return print_error(err);
}

/* A member of an object that is a string, decoded into `out`; empty if it is none. */
static struct kg_str cli_client_take_text(struct kg_str object, const char *key, struct kg_buf *out)
{
    struct kg_str raw;
    if (!kg_json_member(object, key, &raw) || raw.data[0] != '"')
        return (struct kg_str){"", 0};
    raw.data++;
    raw.length -= 2;
    kg_buf_reserve(out, raw.length);
    out->length = kg_json_unescape(raw, out->data);
    return kg_buf_view(out);
}

/* Rows of the daemon's: it may be of another version than this program. */
struct listed {
    struct kg_problem_row row;
    char code[64];
};

static void take_problem(struct kg_problems *problems, struct listed *listed,
                         const struct kg_node *problem)
{
    kg_auto(kg_free) char *message = kg_str_dup(cli_text(problem, "message"));
    kg_auto(kg_free) char *hint = kg_str_dup(cli_text(problem, "hint"));
    bool is_warning = kg_str_is(cli_text(problem, "severity"), "warning");
    snprintf(listed->code, sizeof(listed->code), "%.*s",
             KG_STR_CUT(cli_text(problem, "code"), sizeof(listed->code) - 1));
    listed->row.code = listed->code;
    listed->row.severity = is_warning ? KG_SEVERITY_WARNING : KG_SEVERITY_ERROR;
    kg_problems_add(problems, &listed->row, (uint32_t)kg_node_number(problem, "line"),
                    (uint32_t)kg_node_number(problem, "column"), hint, "%s", message);
}

/* True if the error lists what is wrong with a file, which is said then. */
static bool say_problems(const char *file, struct kg_str error)
{
    struct kg_str list;
    if (file == NULL || !kg_json_member(error, "problems", &list))
        return false;
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(list, NULL);
    if (doc == NULL || doc->root->type != KG_ARRAY || doc->root->count == 0)
        return false;
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    kg_auto(kg_problems_free) struct kg_problems problems = {0};
    struct listed *listed = kg_alloc_array(doc->root->count, sizeof(*listed));
    for (uint32_t i = 0; i < doc->root->count; i++)
        take_problem(&problems, &listed[i], &doc->root->items[i]);
    print_checked(&text, file, &problems, NULL);
    fputs(kg_buf_terminate(&text), stderr);
    free(listed);
    return true;
}

/* {"code","message","details":{"error","hint"}}, as the catalog's routes have it. */
static int say_flat_error(struct kg_str body, struct kg_str details)
{
    kg_auto(kg_buf_free) struct kg_buf name = {0}, message = {0}, hint = {0};
    enum kg_code known = kg_code_from_name(cli_client_take_text(details, "error", &name));
    print_problem(kg_error_row(known)->exit_code, cli_client_take_text(body, "message", &message),
                  cli_client_take_text(details, "hint", &hint));
    return kg_error_row(known)->exit_code;
}

/*
 * {"error":{"code","message","hint","data"}}. A plugin's own "data" may be any JSON, also such as
 * the tree would refuse, so it is only scanned.
 */
static int say_api_error(const struct client_request *request, const struct client_reply *reply)
{
    struct kg_err err;
    kg_auto(kg_buf_free) struct kg_buf code = {0}, message = {0}, hint = {0}, line = {0};
    struct kg_str error, data, body = kg_buf_view(&reply->body);
    if (kg_json_check(body, NULL) == KG_JSON_OK && kg_json_member(body, "details", &error))
        return say_flat_error(body, error);
    if (kg_json_check(body, NULL) != KG_JSON_OK || !kg_json_member(body, "error", &error) ||
        cli_client_take_text(error, "message", &message).length == 0) {
        kg_fail(&err, KG_E_INTERNAL, "the daemon answered with HTTP status %d", reply->status);
        return print_error(&err);
    }
    enum kg_code known = kg_code_from_name(cli_client_take_text(error, "code", &code));
    int exit_code = kg_error_row(known)->exit_code;
    if (say_problems(request->file, error))
        return exit_code;
    print_problem(exit_code, kg_buf_view(&message), cli_client_take_text(error, "hint", &hint));
    if (kg_json_member(error, "data", &data) && !kg_str_is(data, "null")) {
        kg_buf_json_escaped(&line, data);
        fprintf(stderr, "data: %s\n", kg_buf_terminate(&line));
    }
    return exit_code;
}

int cli_ask_lines(const struct cli *cli, const struct client_request *request,
                  const struct client_stream *stream, struct kg_buf *ret_body)
{
    struct kg_err err;
    struct client_reply reply = {0};
    if (client_stream(cli->paths.socket, request, stream, &reply, &err) < 0)
        return say_no_exchange(cli, &err);
    if (reply.status < 200 || reply.status > 299) {
        int code = say_api_error(request, &reply);
        kg_buf_free(&reply.body);
        return code;
    }
    kg_buf_free(ret_body);
    *ret_body = reply.body;
    return CLI_DONE;
}

int cli_ask(const struct cli *cli, const struct client_request *request, struct kg_buf *ret_body)
{
    return cli_ask_lines(cli, request, NULL, ret_body);
}

int cli_ask_object(const struct cli *cli, const struct client_request *request,
                   struct kg_buf *ret_body, struct kg_doc **ret_doc)
{
    int code = cli_ask(cli, request, ret_body);
    if (code != CLI_DONE)
        return code;
    struct kg_err err;
    struct kg_doc *doc = kg_json_read(kg_buf_view(ret_body), &err);
    if (doc == NULL) {
        kg_wrap(&err, 0, "the daemon's answer");
        err.code = KG_E_INTERNAL;
        return print_error(&err);
    }
    kg_doc_free(*ret_doc);
    *ret_doc = doc;
    return CLI_DONE;
}

char *cli_self(const struct cli *cli)
{
    struct kg_buf text = {0};
    kg_buf_text(&text, cli->system ? "kaged --system" : "kaged");
    if (cli->home != NULL) {
        kg_buf_text(&text, " --home ");
        kg_buf_shell(&text, kg_str(cli->home));
    }
    return kg_buf_terminate(&text);
}

/* Whatever was printed is out already: followers flush before they wait. */
static void cli_client_leave(int signal)
{
    (void)signal;
    _exit(CLI_DONE);
}

void cli_follow(void)
{
    struct sigaction action = {.sa_handler = cli_client_leave};
    sigaction(SIGINT, &action, NULL);
}

void cli_pause_ms(long ms)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

/* -- members of an answer ---------------------------------------------------------------------- */

struct kg_str cli_text(const struct kg_node *object, const char *key)
{
    const struct kg_node *node = kg_node_get(object, key);
    if (node == NULL || (node->type != KG_STRING && node->type != KG_NUMBER))
        return (struct kg_str){"", 0};
    return node->text;
}

bool cli_time(const struct kg_node *object, const char *key, int64_t *ret_wall_ms)
{
    const struct kg_node *node = kg_node_get(object, key);
    if (node == NULL)
        return false;
    if (node->type == KG_STRING)
        return kg_time_parse(node->text, ret_wall_ms);
    return kg_node_int(node, ret_wall_ms) && *ret_wall_ms > 0;
}
