/*
 * kaged mcp serve: a bridge between a client that speaks MCP on stdio and /mcp of the daemon. It
 * knows of the protocol only what HTTP wants in headers: each line that comes in is one request on
 * a connection of its own, and what comes back, whole or in events, is written as lines. A daemon
 * that is not there is started, and stays; a session that a daemon lost is begun again. A client
 * that declares roots is asked for them: the first is the project, in place of the folder that we
 * were started in.
 */
#include "cli/cli.h"
#include "wire/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <llhttp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_MAX_BYTES   ((size_t)64 << 20)
#define LINKS_MAX        128 /* requests without an answer; more wait on stdin */
#define HEADER_MAX_BYTES 256
#define HEADER_TEXT_MAX  2048 /* of a name, as it is written in JSON */
#define ACCEPT           "Accept: application/json, text/event-stream\r\n"
#define META_VERSION     "io.modelcontextprotocol/protocolVersion"
#define NO_SESSION       (-32001)
#define DRAIN_MS         2000
#define AGAIN_MS         1000 /* before the stream of news is asked for again */
#define ROOTS_ID         "\"kaged-roots\""
#define ROOTS_MS         10000 /* that all waits for a client which was asked for them */

enum link_kind {
    LINK_MESSAGE,
    LINK_GREETING, /* initialize, which begins the session */
    LINK_AGAIN,    /* the same once more, for a session that was lost; nobody hears the answer */
    LINK_NEWS,     /* GET: what belongs to no request */
};

/* One request to the daemon, until its answer is whole. */
struct link {
    struct link *next;
    struct bridge *bridge;
    enum link_kind kind;
    int fd;
    llhttp_t parser;           /* its data is this link */
    struct kg_buf message, id; /* what was sent, and the id that it has, as written; or empty */
    struct kg_buf body;        /* the answer, or the line of a stream that is not whole */
    char field[HEADER_MAX_BYTES], value[HEADER_MAX_BYTES]; /* the header that is being read */
    bool is_stream, is_whole, is_answered;
    bool is_old; /* of a session that was ended: it is not asked again in another */
};

struct bridge {
    const struct cli *cli;
    struct kg_buf door;     /* "/mcp", with what was asked for by options */
    struct kg_buf project;  /* its id; empty: none */
    struct kg_buf target;   /* both: "/mcp?project=shop" */
    struct frame input;     /* lines of the client */
    struct kg_buf session;  /* terminated; empty: none, or the client is a modern one */
    struct kg_buf greeting; /* its initialize */
    struct link *links;
    size_t link_count;
    struct kg_buf
        waiting; /* lines that came while a session is begun again, or roots are asked for */
    bool is_greeting, is_lost;
    bool is_modern;
    uint64_t news_due_ms;  /* 0: not asked for, or there */
    bool has_roots;        /* the client has declared them, and may have a project */
    bool asks_roots;       /* it has not said them yet, */
    uint64_t roots_due_ms; /* and until then all waits for it; 0: nothing does */
    bool is_over;          /* nothing more comes from the client, or goes to it */
};

/* -- to the client ----------------------------------------------------------------------------- */

static void mcp_serve_say(struct bridge *bridge, struct kg_str message)
{
    kg_auto(kg_buf_free) struct kg_buf line = {0};
    kg_buf_str(&line, message);
    for (size_t i = 0; i < line.length; i++)
        if (line.data[i] == '\n' || line.data[i] == '\r')
            line.data[i] = ' ';
    kg_buf_char(&line, '\n');
    if (kg_write_all(STDOUT_FILENO, line.data, line.length) < 0)
        bridge->is_over = true;
}

static void say_error(struct bridge *bridge, struct kg_str id, const char *message)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    struct kg_json_writer json = kg_json_writer(&text);
    if (id.length == 0)
        return;
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "jsonrpc", "2.0");
    kg_json_named_raw(&json, "id", id);
    kg_json_named_begin(&json, "error", '{');
    kg_json_named_int(&json, "code", kg_error_row(KG_E_INTERNAL)->rpc_code);
    kg_json_named_text(&json, "message", message);
    kg_json_end(&json, '}');
    kg_json_end(&json, '}');
    mcp_serve_say(bridge, kg_buf_view(&text));
}

/* -- the daemon -------------------------------------------------------------------------------- */

/* In a process of its own, which leaves once the daemon answers. Nothing of it goes to stdout. */
static void start_daemon(const struct cli *cli)
{
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
    pid_t child = length > 0 ? fork() : -1;
    if (child == 0) {
        program[length] = '\0';
        int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(nothing, STDIN_FILENO);
        dup2(STDERR_FILENO, STDOUT_FILENO);
        if (cli->home != NULL)
            execl(program, "kaged", "--home", cli->home, "start", (char *)NULL);
        else
            execl(program, "kaged", cli->system ? "--system" : "start",
                  cli->system ? "start" : (char *)NULL, (char *)NULL);
        _exit(127);
    }
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* Starts a daemon if none answers; another bridge may do the same at this moment. */
static int reach(const struct cli *cli, const struct client_request *request, struct kg_err *err)
{
    for (int attempt = 0;; attempt++) {
        int fd = client_send(cli->paths.socket, request, err);
        if (fd >= 0 || err->code != KG_E_NO_DAEMON || attempt == 50)
            return fd;
        if (attempt % 10 == 0)
            start_daemon(cli);
        else
            cli_pause_ms(100);
    }
}

/* -- one request ------------------------------------------------------------------------------- */

static void link_free(struct link *link)
{
    KG_UNLINK(link->bridge->links, link);
    link->bridge->link_count--;
    close(link->fd);
    kg_buf_free(&link->message);
    kg_buf_free(&link->id);
    kg_buf_free(&link->body);
    free(link);
}

static const llhttp_settings_t settings;

static struct link *link_new(struct bridge *bridge, enum link_kind kind, int fd)
{
    struct link *link = kg_alloc(sizeof(*link));
    link->bridge = bridge;
    link->kind = kind;
    link->fd = fd;
    llhttp_init(&link->parser, HTTP_RESPONSE, &settings);
    link->parser.data = link;
    link->next = bridge->links;
    bridge->links = link;
    bridge->link_count++;
    return link;
}

/* A text between quotes. */
static void mcp_serve_put_header(struct kg_buf *headers, const char *name, struct kg_str raw)
{
    kg_auto(kg_buf_free) struct kg_buf text = {0};
    if (raw.length < 2 || raw.data[0] != '"' || raw.length > HEADER_TEXT_MAX)
        return;
    kg_buf_reserve(&text, raw.length);
    text.length = kg_json_unescape((struct kg_str){raw.data + 1, raw.length - 2}, text.data);
    kg_buf_printf(headers, "%s: ", name);
    header_put(headers, kg_buf_view(&text));
    kg_buf_text(headers, "\r\n");
}

/* What a modern request says in its body is repeated in its headers. */
static void mcp_serve_put_headers(struct bridge *bridge, const struct rpc_message *message,
                                  struct kg_buf *headers)
{
    struct kg_str meta, version, name;
    kg_buf_text(headers, ACCEPT);
    if (bridge->session.length > 0)
        kg_buf_printf(headers, "Mcp-Session-Id: %s\r\n", bridge->session.data);
    bool has_version = message->params.data != NULL &&
                       kg_json_member(message->params, "_meta", &meta) &&
                       kg_json_member(meta, META_VERSION, &version);
    if (has_version)
        mcp_serve_put_header(headers, "MCP-Protocol-Version", version);
    bridge->is_modern |= has_version;
    if (!has_version)
        return;
    kg_buf_printf(headers, "Mcp-Method: %s\r\n", message->method);
    if (kg_json_member(message->params, "name", &name) ||
        kg_json_member(message->params, "uri", &name))
        mcp_serve_put_header(headers, "Mcp-Name", name);
}

static bool mcp_serve_post(struct bridge *bridge, enum link_kind kind, struct kg_str line,
                           const struct rpc_message *message)
{
    kg_auto(kg_buf_free) struct kg_buf headers = {0};
    struct kg_err err = {0};
    mcp_serve_put_headers(bridge, message, &headers);
    const struct client_request request = {
        .method = "POST",
        .target = kg_buf_terminate(&bridge->target),
        .body = line,
        .headers = kg_buf_terminate(&headers),
    };
    bool wants_answer = message->method[0] != '\0' && message->id_text.data != NULL;
    int fd = reach(bridge->cli, &request, &err);
    if (fd < 0) {
        say_error(bridge, wants_answer ? message->id_text : KG_STR_NULL, err.message);
        return false;
    }
    struct link *link = link_new(bridge, kind, fd);
    kg_buf_str(&link->message, line);
    if (wants_answer)
        kg_buf_str(&link->id, message->id_text);
    return true;
}

static bool post_line(struct bridge *bridge, enum link_kind kind, struct kg_str line)
{
    struct rpc_message message;
    rpc_parse(line, &message);
    return mcp_serve_post(bridge, kind, line, &message);
}

/* -- the session ------------------------------------------------------------------------------- */

static void ask_for_news(struct bridge *bridge)
{
    kg_auto(kg_free) char *headers =
        kg_format("Accept: text/event-stream\r\nMcp-Session-Id: %s\r\n", bridge->session.data);
    struct kg_err err = {0};
    const struct client_request request = {
        .method = "GET", .target = kg_buf_terminate(&bridge->target), .headers = headers};
    int fd = client_send(bridge->cli->paths.socket, &request, &err);
    bridge->news_due_ms = fd < 0 ? kg_monotonic_ms() + AGAIN_MS : 0;
    if (fd < 0)
        return;
    (void)link_new(bridge, LINK_NEWS, fd);
}

/* What cannot be said yet waits until there is a session for it. */
static void mcp_serve_keep_waiting(struct bridge *bridge, struct kg_str line)
{
    kg_buf_str(&bridge->waiting, line);
    kg_buf_char(&bridge->waiting, '\n');
}

static void begin_anew(struct bridge *bridge)
{
    if (bridge->is_lost)
        return;
    bridge->is_lost = true;
    bridge->session.length = 0;
    if (!post_line(bridge, LINK_AGAIN, kg_buf_view(&bridge->greeting)))
        bridge->is_over = true; /* no daemon can be had */
}

static void mcp_serve_send_waiting(struct bridge *bridge)
{
    kg_auto(kg_buf_free) struct kg_buf lines = bridge->waiting;
    struct kg_str rest = kg_buf_view(&lines);
    bridge->waiting = (struct kg_buf){0};
    while (rest.length > 0)
        (void)post_line(bridge, LINK_MESSAGE, kg_str_cut(&rest, '\n'));
}

static void mcp_serve_end_session(struct bridge *bridge)
{
    struct kg_err err;
    kg_auto(kg_free) char *headers = kg_format("Mcp-Session-Id: %s\r\n", bridge->session.data);
    const struct client_request request = {
        .method = "DELETE", .target = kg_buf_terminate(&bridge->target), .headers = headers};
    kg_auto(kg_close) int fd = client_send(bridge->cli->paths.socket, &request, &err);
    char answer[64];
    if (fd >= 0)
        (void)!recv(fd, answer, sizeof(answer), 0); /* so that it is not left in mid-request */
}

/* -- answers ----------------------------------------------------------------------------------- */

static int on_field(llhttp_t *parser, const char *at, size_t length)
{
    struct link *link = parser->data;
    if (link->value[0] != '\0')
        link->field[0] = link->value[0] = '\0';
    size_t used = strlen(link->field);
    kg_str_copy((struct kg_str){at, length}, link->field + used, sizeof(link->field) - used);
    return HPE_OK;
}

static int on_value(llhttp_t *parser, const char *at, size_t length)
{
    struct link *link = parser->data;
    size_t used = strlen(link->value);
    kg_str_copy((struct kg_str){at, length}, link->value + used, sizeof(link->value) - used);
    if (strcasecmp(link->field, "content-type") == 0)
        link->is_stream = strncmp(link->value, "text/event-stream", 17) == 0;
    if (strcasecmp(link->field, "mcp-session-id") != 0)
        return HPE_OK;
    link->bridge->session.length = 0;
    kg_buf_text(&link->bridge->session, link->value);
    kg_buf_terminate(&link->bridge->session);
    return HPE_OK;
}

static void mcp_serve_tell(struct link *link, struct kg_str message)
{
    struct rpc_message parsed;
    rpc_parse(message, &parsed);
    link->is_answered |= parsed.kind == RPC_RESULT || parsed.kind == RPC_ERROR ||
                         parsed.kind == RPC_INVALID_RESPONSE;
    if (link->kind != LINK_AGAIN)
        mcp_serve_say(link->bridge, message);
}

/* Each event has its message on one line. */
static void tell_events(struct link *link)
{
    struct kg_buf *body = &link->body;
    size_t at = 0;
    for (const char *end;
         body->length > at && (end = memchr(body->data + at, '\n', body->length - at)) != NULL;) {
        struct kg_str line = {body->data + at, (size_t)(end - body->data) - at};
        at += line.length + 1;
        if (kg_str_starts(line, "data: ") && line.length > strlen("data: "))
            mcp_serve_tell(link, kg_str_from(line, strlen("data: ")));
    }
    kg_buf_consume(body, at);
}

static int mcp_serve_on_body(llhttp_t *parser, const char *at, size_t length)
{
    struct link *link = parser->data;
    if (length > LINE_MAX_BYTES - link->body.length)
        return HPE_USER;
    kg_buf_append(&link->body, at, length);
    if (link->is_stream)
        tell_events(link);
    return HPE_OK;
}

static int mcp_serve_on_whole(llhttp_t *parser)
{
    struct link *link = parser->data;
    link->is_whole = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_header_field = on_field,
    .on_header_value = on_value,
    .on_body = mcp_serve_on_body,
    .on_message_complete = mcp_serve_on_whole,
};

static bool mcp_serve_is_lost(const struct link *link)
{
    struct kg_str error, body = kg_buf_view(&link->body);
    return llhttp_get_status_code((llhttp_t *)&link->parser) == 404 &&
           kg_json_check(body, NULL) == KG_JSON_OK && kg_json_member(body, "error", &error) &&
           rpc_error_code(error) == NO_SESSION && link->bridge->greeting.length > 0;
}

/* What is not a message of the protocol is an error of the daemon's own, or of the way to it. */
static void tell_whole(struct link *link)
{
    struct kg_str version, error, words, body = kg_buf_view(&link->body);
    bool is_json = body.length > 0 && kg_json_check(body, NULL) == KG_JSON_OK;
    if (is_json && kg_json_member(body, "jsonrpc", &version)) {
        if (link->id.length > 0 || link->kind == LINK_AGAIN)
            mcp_serve_tell(link, body);
        return;
    }
    kg_auto(kg_buf_free) struct kg_buf message = {0};
    if (is_json && kg_json_member(body, "error", &error) &&
        kg_json_member(error, "message", &words) && words.data[0] == '"')
        kg_buf_str(&message, (struct kg_str){words.data + 1, words.length - 2});
    else
        kg_buf_text(&message, "the daemon went away before it had answered");
    if (!link->is_answered)
        say_error(link->bridge, kg_buf_view(&link->id), kg_buf_terminate(&message));
    link->is_answered = true;
}

/* The answer is whole, or will never be. */
static void end_link(struct link *link)
{
    struct bridge *bridge = link->bridge;
    enum link_kind kind = link->kind;
    bool lost = kind != LINK_AGAIN && kind != LINK_GREETING && !link->is_old && link->is_whole &&
                mcp_serve_is_lost(link);
    if (kind == LINK_NEWS)
        bridge->news_due_ms = bridge->session.length > 0 ? kg_monotonic_ms() + AGAIN_MS : 0;
    else if (lost)
        mcp_serve_keep_waiting(bridge, kg_buf_view(&link->message));
    else if (!link->is_answered)
        tell_whole(link);
    link_free(link);
    if (lost)
        begin_anew(bridge);
    if (kind == LINK_GREETING)
        bridge->is_greeting = false;
    if (kind == LINK_GREETING && bridge->session.length > 0)
        ask_for_news(bridge);
    if (kind == LINK_AGAIN) {
        bridge->is_lost = false;
        mcp_serve_send_waiting(bridge);
        ask_for_news(bridge);
    }
}

static void mcp_serve_read_link(struct link *link)
{
    char bytes[65536];
    ssize_t got = recv(link->fd, bytes, sizeof(bytes), 0);
    if (got < 0 && errno == EINTR)
        return;
    llhttp_errno_t fault =
        got > 0 ? llhttp_execute(&link->parser, bytes, (size_t)got) : llhttp_finish(&link->parser);
    if (link->is_whole || got <= 0 || fault != HPE_OK)
        end_link(link);
}

/* -- the project ------------------------------------------------------------------------------- */

static void make_target(struct bridge *bridge)
{
    bridge->target.length = 0;
    kg_buf_str(&bridge->target, kg_buf_view(&bridge->door));
    if (bridge->project.length > 0)
        client_put_query(&bridge->target, "project", kg_buf_view(&bridge->project));
}

/* A folder of the system's as a whole is none. */
static int mcp_serve_find_project(const struct cli *cli, const char *folder, struct kg_buf *ret_id)
{
    kg_auto(kg_buf_free) struct kg_buf body = {0};
    struct kg_json_writer json = kg_json_writer(&body);
    struct client_reply reply = {0};
    struct kg_err err = {0};
    kg_json_begin(&json, '{');
    kg_json_named_text(&json, "path", folder);
    kg_json_end(&json, '}');
    const struct client_request request = {
        .method = "POST", .target = "/api/v1/projects", .body = kg_buf_view(&body)};
    if (client_exchange(cli->paths.socket, &request, &reply, &err) < 0)
        return print_error(&err);
    kg_auto(kg_buf_free) struct kg_buf answer = reply.body;
    if (reply.status == kg_error_row(KG_E_REFUSED)->http_status) {
        fprintf(stderr, "kaged: %s is not used as a project\n", folder);
        return CLI_DONE;
    }
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(kg_buf_view(&answer), &err);
    if (doc == NULL || reply.status != 200) {
        struct kg_str words = doc ? cli_text(kg_node_get(doc->root, "error"), "message")
                                  : KG_STR("the daemon's answer cannot be read");
        return print_problem(CLI_FAILED, words, KG_STR_NULL);
    }
    kg_buf_str(ret_id, cli_text(doc->root, "id"));
    return CLI_DONE;
}

/* "file:///srv/shop" is /srv/shop. Owned; NULL: it names no file of this machine. */
static char *mcp_serve_path_of(struct kg_str uri)
{
    static const char scheme[] = "file://";
    kg_auto(kg_buf_free) struct kg_buf path = {0};
    if (!kg_str_starts(uri, "file:///"))
        return NULL;
    for (size_t i = strlen(scheme); i < uri.length; i++) {
        int high = uri.data[i] == '%' && i + 2 < uri.length ? kg_hex_digit(uri.data[i + 1]) : -1;
        int low = high >= 0 ? kg_hex_digit(uri.data[i + 2]) : -1;
        char character = low >= 0 ? (char)(high << 4 | low) : uri.data[i];
        i += low >= 0 ? 2 : 0;
        if (character == '\0')
            return NULL;
        kg_buf_char(&path, character);
    }
    return kg_str_dup(kg_buf_view(&path));
}

static bool declares_roots(const struct rpc_message *message)
{
    struct kg_str capabilities, roots;
    return message->params.data != NULL &&
           kg_json_member(message->params, "capabilities", &capabilities) &&
           kg_json_member(capabilities, "roots", &roots) && roots.data[0] == '{';
}

static void ask_for_roots(struct bridge *bridge)
{
    mcp_serve_say(bridge,
                  KG_STR("{\"jsonrpc\":\"2.0\",\"id\":" ROOTS_ID ",\"method\":\"roots/list\"}"));
    bridge->asks_roots = true;
    bridge->roots_due_ms = kg_monotonic_ms() + ROOTS_MS;
}

/* Another session takes its place; the client hears that its tools may be others. */
static void change_project(struct bridge *bridge, struct kg_buf *id)
{
    for (struct link *at = bridge->links, *next; at != NULL; at = next) {
        next = at->next;
        at->is_old = true;
        if (at->kind == LINK_NEWS)
            link_free(at);
    }
    bridge->news_due_ms = 0;
    mcp_serve_end_session(bridge);
    kg_buf_free(&bridge->project);
    bridge->project = *id;
    *id = (struct kg_buf){0};
    make_target(bridge);
    begin_anew(bridge);
    mcp_serve_say(bridge,
                  KG_STR("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}"));
}

/* The first that is a folder of this machine. A client that says none, or nothing, keeps what it
 * has. */
static void take_roots(struct bridge *bridge, struct kg_str answer)
{
    kg_auto(kg_doc_cleanup) struct kg_doc *doc = kg_json_read(answer, NULL);
    kg_auto(kg_buf_free) struct kg_buf id = {0};
    kg_auto(kg_free) char *folder = NULL;
    const struct kg_node *roots =
        kg_node_list(doc != NULL ? kg_node_get(doc->root, "result") : NULL, "roots");
    bridge->roots_due_ms = 0;
    for (uint32_t i = 0; folder == NULL && i < roots->count; i++)
        folder = mcp_serve_path_of(kg_node_text(&roots->items[i], "uri"));
    bool changes = folder != NULL && bridge->session.length > 0 &&
                   mcp_serve_find_project(bridge->cli, folder, &id) == CLI_DONE && id.length > 0 &&
                   !kg_str_equal(kg_buf_view(&id), kg_buf_view(&bridge->project));
    if (changes)
        change_project(bridge, &id);
    else if (!bridge->is_lost)
        mcp_serve_send_waiting(bridge);
}

static bool is_roots_answer(const struct bridge *bridge, const struct rpc_message *message)
{
    return bridge->has_roots && message->method[0] == '\0' && message->id_text.data != NULL &&
           kg_str_is(message->id_text, ROOTS_ID);
}

/* -- from the client --------------------------------------------------------------------------- */

/* Over HTTP a modern client cancels by leaving. */
static bool mcp_serve_cancel(struct bridge *bridge, const struct rpc_message *message)
{
    struct kg_str id;
    if (!bridge->is_modern || strcmp(message->method, "notifications/cancelled") != 0 ||
        message->params.data == NULL || !kg_json_member(message->params, "requestId", &id))
        return false;
    for (struct link *at = bridge->links, *next; at != NULL; at = next) {
        next = at->next;
        if (kg_str_equal(kg_buf_view(&at->id), id))
            link_free(at);
    }
    return true;
}

static bool tells_of_roots(const struct rpc_message *message)
{
    return strcmp(message->method, "notifications/initialized") == 0 ||
           strcmp(message->method, "notifications/roots/list_changed") == 0;
}

static bool mcp_serve_on_line(void *data, struct kg_str line)
{
    struct bridge *bridge = data;
    struct rpc_message message;
    rpc_parse(line, &message);
    bool greets = strcmp(message.method, "initialize") == 0;
    if (line.length == 0 || mcp_serve_cancel(bridge, &message))
        return true;
    if (greets) {
        bridge->greeting.length = bridge->session.length = 0;
        kg_buf_str(&bridge->greeting, line);
        bridge->has_roots = declares_roots(&message) && !cli_has(bridge->cli, "no-project");
        bridge->is_greeting = mcp_serve_post(bridge, LINK_GREETING, line, &message);
    } else if (is_roots_answer(bridge, &message)) {
        if (bridge->asks_roots)
            take_roots(bridge, line);
        bridge->asks_roots = false;
    } else if (bridge->is_lost || bridge->roots_due_ms != 0) {
        mcp_serve_keep_waiting(bridge, line);
    } else {
        (void)mcp_serve_post(bridge, LINK_MESSAGE, line, &message);
        if (bridge->has_roots && tells_of_roots(&message))
            ask_for_roots(bridge);
    }
    return true;
}

static void read_input(struct bridge *bridge)
{
    char scratch[65536];
    size_t size;
    char *space = frame_space(&bridge->input, scratch, sizeof(scratch), &size);
    ssize_t got = read(STDIN_FILENO, space, size);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0 ||
        frame_advance(&bridge->input, space, (size_t)got, mcp_serve_on_line, bridge) != FRAME_OK)
        bridge->is_over = true;
}

/* -- its life ---------------------------------------------------------------------------------- */

static volatile sig_atomic_t is_asked_to_leave;

static void mcp_serve_on_signal(int number)
{
    (void)number;
    is_asked_to_leave = 1;
}

static void catch_signals(void)
{
    const struct sigaction leave = {.sa_handler = mcp_serve_on_signal};
    sigaction(SIGTERM, &leave, NULL);
    sigaction(SIGINT, &leave, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static int mcp_serve_timeout_of(const struct bridge *bridge)
{
    uint64_t now_ms = kg_monotonic_ms(), due_ms = bridge->news_due_ms;
    if (bridge->roots_due_ms != 0 && (due_ms == 0 || bridge->roots_due_ms < due_ms))
        due_ms = bridge->roots_due_ms;
    if (due_ms == 0)
        return -1;
    return due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}

/* Stdin first, then the links in their order; a negative fd is passed over. */
static size_t list_fds(const struct bridge *bridge, struct pollfd *fds, struct link **links)
{
    bool takes_more = !bridge->is_greeting && !bridge->is_over && bridge->link_count < LINKS_MAX;
    size_t count = 1;
    fds[0] = (struct pollfd){.fd = takes_more ? STDIN_FILENO : -1, .events = POLLIN};
    for (struct link *at = bridge->links; at != NULL && count <= LINKS_MAX + 1; at = at->next) {
        links[count] = at;
        fds[count++] = (struct pollfd){.fd = at->fd, .events = POLLIN};
    }
    return count;
}

static bool has_link(const struct bridge *bridge, const struct link *link)
{
    const struct link *at = bridge->links;
    while (at != NULL && at != link)
        at = at->next;
    return at != NULL;
}

static void mcp_serve_turn(struct bridge *bridge)
{
    struct pollfd fds[LINKS_MAX + 2];
    struct link *links[LINKS_MAX + 2];
    size_t count = list_fds(bridge, fds, links);
    int ready = poll(fds, count, mcp_serve_timeout_of(bridge));
    if (!bridge->is_over && bridge->news_due_ms != 0 && kg_monotonic_ms() >= bridge->news_due_ms)
        ask_for_news(bridge);
    if (bridge->roots_due_ms != 0 && kg_monotonic_ms() >= bridge->roots_due_ms)
        take_roots(bridge, KG_STR("{}"));
    for (size_t i = 1; ready > 0 && i < count; i++)
        if (fds[i].revents != 0 && has_link(bridge, links[i]))
            mcp_serve_read_link(links[i]);
    if (ready > 0 && fds[0].revents != 0)
        read_input(bridge);
}

/* Answers that are on their way when the client has no more to say, as at the end of a pipe. */
static void mcp_serve_drain(struct bridge *bridge)
{
    uint64_t until_ms = kg_monotonic_ms() + DRAIN_MS;
    for (const struct link *at = bridge->links; at != NULL && kg_monotonic_ms() < until_ms;) {
        if (at->id.length == 0) {
            at = at->next;
            continue;
        }
        bridge->news_due_ms = until_ms;
        mcp_serve_turn(bridge);
        at = bridge->links;
    }
}

static void mcp_serve_leave(struct bridge *bridge)
{
    while (bridge->links != NULL)
        link_free(bridge->links);
    if (bridge->session.length > 0)
        mcp_serve_end_session(bridge);
    frame_free(&bridge->input);
    kg_buf_free(&bridge->door);
    kg_buf_free(&bridge->project);
    kg_buf_free(&bridge->target);
    kg_buf_free(&bridge->session);
    kg_buf_free(&bridge->greeting);
    kg_buf_free(&bridge->waiting);
}

/* Starts a daemon if there is none. */
static int wake_daemon(const struct cli *cli)
{
    struct kg_err err = {0};
    kg_auto(kg_close) int fd =
        reach(cli, &(struct client_request){.method = "GET", .target = "/healthz"}, &err);
    return fd < 0 ? print_error(&err) : CLI_DONE;
}

/* The folder that it was started in. */
static int mcp_serve_take_folder(struct bridge *bridge)
{
    kg_auto(kg_free) char *folder = getcwd(NULL, 0);
    return mcp_serve_find_project(bridge->cli, folder, &bridge->project);
}

int cli_mcp_serve(struct cli *cli)
{
    struct bridge bridge = {.cli = cli, .input.line_max = LINE_MAX_BYTES};
    const char *plugin = cli_option_value(cli, "plugin");
    bool searches;
    struct kg_err err;
    if (cli_mcp_searches(cli, &searches, &err) < 0)
        return print_error(&err);
    catch_signals();
    kg_buf_text(&bridge.door, "/mcp");
    if (plugin != NULL) {
        kg_buf_char(&bridge.door, '/');
        kg_buf_percent(&bridge.door, kg_str(plugin));
    }
    cli_put_option(&bridge.door, cli, "profile");
    if (cli_has(cli, "read-only"))
        client_put_query(&bridge.door, "read_only", KG_STR("true"));
    if (searches)
        client_put_query(&bridge.door, "search", KG_STR("true"));
    int code = wake_daemon(cli);
    if (code == CLI_DONE && !cli_has(cli, "no-project"))
        code = mcp_serve_take_folder(&bridge);
    make_target(&bridge);
    while (code == CLI_DONE && !bridge.is_over && !is_asked_to_leave)
        mcp_serve_turn(&bridge);
    if (!is_asked_to_leave)
        mcp_serve_drain(&bridge);
    mcp_serve_leave(&bridge);
    return code;
}
