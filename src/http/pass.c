/*
 * A request that another node has to answer: it goes there as it came, with who asks in a signed
 * header in place of his credentials, and the answer comes back as it is made, at the pace of who
 * reads it. It is passed on once: who gets it so answers it, or says why not.
 *
 *   connect (or use again) -> send head and body -> answer's head -> pieces ... -> end
 *
 * Until the answer's head is there, the end of the connection is an answer of ours, 503. After
 * that the client's connection is broken off, so that nobody takes a part for the whole.
 */
#include "http/nodes.h"

#include <stdlib.h>
#include <strings.h>

#define ANSWER_HEAD_BYTES ((size_t)64 * 1024)
#define WHOLE_BYTES       ((size_t)64 * 1024) /* an answer up to this length is told at once */

struct http_pass {
    struct http_request *request;
    struct http_nodes *nodes;
    char *node, *address; /* owned */
    struct link_call *connecting;
    struct http_tunnel *tunnel;
    bool is_again;      /* the connection was used before: the other side may just have left it */
    bool heard;         /* something came back */
    bool streams;       /* its head is sent on */
    struct kg_buf head; /* of the request */
    llhttp_t parser;
    struct kg_buf names; /* the answer's header fields: name, NUL, value, NUL, each */
    char *content_type;  /* owned; NULL: none */
    struct kg_buf body;  /* of an answer that is told at once */
    bool whole;          /* the answer is at its end */
};

static void pass_free(struct http_pass *pass)
{
    if (pass->connecting != NULL)
        link_withdraw(pass->connecting);
    if (pass->tunnel != NULL)
        http_tunnel_close(pass->tunnel);
    kg_buf_free(&pass->head);
    kg_buf_free(&pass->names);
    kg_buf_free(&pass->body);
    free(pass->content_type);
    free(pass->node);
    free(pass->address);
    free(pass);
}

/* The request is its own again. */
static struct http_request *pass_let_go(struct http_pass *pass)
{
    struct http_request *request = pass->request;
    http_on_gone(request, NULL, NULL);
    http_on_room(request, NULL, NULL);
    pass_free(pass);
    return request;
}

/* -- what goes there --------------------------------------------------------------------------- */

/* What is between the client and us, and how he said who he is. */
static bool pass_keeps(struct kg_str name)
{
    static const char *const own[] = {
        "host",
        "connection",
        "keep-alive",
        "transfer-encoding",
        "content-length",
        "te",
        "upgrade",
        "expect",
        "trailer",
        "cookie",
        "authorization",
        "x-api-key",
        "x-kaged-csrf",
        "x-kaged-auth-nonce",
        "x-kaged-user-id",
        "x-kaged-identity",
        "x-request-id",
        "origin",
        "referer",
        "proxy-authorization",
    };
    for (size_t i = 0; i < KG_COUNT(own); i++)
        if (name.length == strlen(own[i]) && strncasecmp(name.data, own[i], name.length) == 0)
            return false;
    return true;
}

static void pass_put_identity(struct http_pass *pass)
{
    const struct http_request *request = pass->request;
    const struct identity identity = {
        .via = kg_str(http_via_names[request->via]),
        .operator_id = kg_str(request->operator_id),
        .principal = kg_str(request->principal),
        .profile = kg_str(request->profile),
        .credential_id = kg_str(request->credential_id.text),
        .scopes = request->scopes,
    };
    const struct identity_request asked = {
        .method = kg_str(http_request_method(request)),
        .target = http_request_text(request, request->url),
        .body_bytes = (int64_t)request->body.length,
    };
    kg_buf_text(&pass->head, IDENTITY_HEADER ": ");
    identity_sign(pass->nodes->identities, &identity, &asked, pass->node, &pass->head);
    kg_buf_text(&pass->head, "\r\n");
}

static void pass_write_head(struct http_pass *pass)
{
    const struct http_request *request = pass->request;
    pass->head.length = 0;
    kg_buf_printf(&pass->head, "%s %.*s HTTP/1.1\r\nHost: kaged\r\nX-Request-Id: %s\r\n",
                  http_request_method(request),
                  KG_STR_ARG(http_request_text(request, request->url)), request->request_id);
    for (size_t i = 0; i < request->field_count; i++) {
        struct kg_str name = http_request_text(request, request->fields[i].name);
        if (pass_keeps(name))
            kg_buf_printf(&pass->head, "%.*s: %.*s\r\n", KG_STR_ARG(name),
                          KG_STR_ARG(http_request_text(request, request->fields[i].value)));
    }
    pass_put_identity(pass);
    if (request->body.length > 0)
        kg_buf_printf(&pass->head, "Content-Length: %zu\r\n", request->body.length);
    kg_buf_text(&pass->head, "\r\n");
}

/* -- ends -------------------------------------------------------------------------------------- */

static void pass_fail(struct http_pass *pass, const struct kg_err *err)
{
    bool streams = pass->streams;
    struct kg_err copy = *err;
    struct http_request *request = pass_let_go(pass);
    if (!streams) {
        http_reply_error(request, &copy);
        return;
    }
    if (request->connection != NULL)
        http_connection_close(request->connection);
    http_reply_end(request);
}

static void pass_lose(struct http_pass *pass, const char *words)
{
    struct kg_err err;
    kg_fail(&err, KG_E_NODE_AWAY, "the node %s has it, and %s", pass->node, words);
    kg_hint(&err, "try again in a moment; kaged cluster status shows which nodes there are");
    pass_fail(pass, &err);
}

static void pass_finish(struct http_pass *pass)
{
    kg_auto(kg_buf_free) struct kg_buf body = pass->body;
    kg_auto(kg_free) char *type = kg_steal(&pass->content_type);
    int status = pass->parser.status_code;
    bool streams = pass->streams;
    pass->body = (struct kg_buf){0};
    if (llhttp_should_keep_alive(&pass->parser))
        http_tunnel_rest(kg_steal(&pass->tunnel));
    struct http_request *request = pass_let_go(pass);
    if (streams)
        http_reply_end(request);
    else
        http_reply_text(request, status, type, kg_buf_view(&body));
}

static void pass_on_gone(void *data)
{
    struct http_pass *pass = data;
    bool streams = pass->streams;
    struct http_request *request = pass_let_go(pass);
    if (streams)
        http_reply_end(request);
    else
        http_reply(request, kg_error_row(KG_E_CANCELLED)->http_status, KG_STR("{}"));
}

/* -- what comes back --------------------------------------------------------------------------- */

static int pass_on_name(llhttp_t *parser, const char *at, size_t length)
{
    struct http_pass *pass = parser->data;
    if (pass->names.length + length > ANSWER_HEAD_BYTES)
        return HPE_USER;
    kg_buf_append(&pass->names, at, length);
    return 0;
}

static int pass_on_part_end(llhttp_t *parser)
{
    struct http_pass *pass = parser->data;
    kg_buf_char(&pass->names, '\0');
    return 0;
}

/* Those that every answer of ours has are written anew. */
static void pass_take_header(struct http_pass *pass, const char *name, const char *value)
{
    static const char *const own[] = {
        "content-length", "transfer-encoding",      "connection", "keep-alive", "cache-control",
        "x-request-id",   "x-content-type-options", "set-cookie"};
    for (size_t i = 0; i < KG_COUNT(own); i++)
        if (strcasecmp(name, own[i]) == 0)
            return;
    if (strcasecmp(name, "content-type") == 0)
        kg_replace(&pass->content_type, value);
    else
        http_add_header(pass->request, name, value);
}

static int pass_on_head(llhttp_t *parser)
{
    struct http_pass *pass = parser->data;
    struct http_request *request = pass->request;
    const char *at = pass->names.data, *end = at + pass->names.length;
    if (parser->upgrade || parser->status_code < 200)
        return HPE_USER;
    while (at < end) {
        const char *value = at + strlen(at) + 1;
        if (value >= end)
            return HPE_USER;
        pass_take_header(pass, at, value);
        at = value + strlen(value) + 1;
    }
    bool is_known = (parser->flags & F_CONTENT_LENGTH) != 0;
    bool has_none = parser->status_code == 204 || parser->status_code == 304;
    if (has_none ||
        (is_known && parser->content_length <= WHOLE_BYTES && request->method != HTTP_HEAD))
        return 0;
    pass->streams = true;
    http_stream_apart(request);
    http_reply_begin(request, parser->status_code, pass->content_type);
    return request->method == HTTP_HEAD ? 1 : 0;
}

static void pass_on_room(void *data)
{
    struct http_pass *pass = data;
    http_tunnel_pause(pass->tunnel, false);
}

static int pass_on_body(llhttp_t *parser, const char *at, size_t length)
{
    struct http_pass *pass = parser->data;
    if (!pass->streams)
        kg_buf_append(&pass->body, at, length);
    else if (!http_reply_piece(pass->request, (struct kg_str){at, length}))
        http_tunnel_pause(pass->tunnel, true);
    return 0;
}

static int pass_on_end(llhttp_t *parser)
{
    struct http_pass *pass = parser->data;
    pass->whole = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t pass_settings = {
    .on_header_field = pass_on_name,
    .on_header_field_complete = pass_on_part_end,
    .on_header_value = pass_on_name,
    .on_header_value_complete = pass_on_part_end,
    .on_headers_complete = pass_on_head,
    .on_body = pass_on_body,
    .on_message_complete = pass_on_end,
};

static void pass_on_bytes(void *data, const char *bytes, size_t length)
{
    struct http_pass *pass = data;
    pass->heard = true;
    llhttp_errno_t result = llhttp_execute(&pass->parser, bytes, length);
    if (pass->whole)
        pass_finish(pass);
    else if (result != HPE_OK)
        pass_lose(pass, "it answers with what is not HTTP");
}

/* -- there ------------------------------------------------------------------------------------- */

static void pass_connect(struct http_pass *pass);

static void pass_on_sent(void *data)
{
    (void)data;
}

/* What only reads may be asked once more, if the connection had been left by the other side. */
static void pass_on_tunnel_gone(void *data)
{
    struct http_pass *pass = data;
    const struct http_request *request = pass->request;
    bool only_reads = request->method == HTTP_GET || request->method == HTTP_HEAD;
    pass->tunnel = NULL;
    if (pass->is_again && !pass->heard && only_reads)
        pass_connect(pass);
    else
        pass_lose(pass, "the connection to it was lost");
}

static void pass_send(struct http_pass *pass, struct http_tunnel *tunnel)
{
    static const struct http_tunnel_ops ops = {pass_on_bytes, pass_on_sent, pass_on_tunnel_gone};
    pass->tunnel = tunnel;
    http_tunnel_use(tunnel, &ops, pass);
    llhttp_init(&pass->parser, HTTP_RESPONSE, &pass_settings);
    pass->parser.data = pass;
    pass_write_head(pass);
    http_tunnel_send(tunnel, kg_buf_view(&pass->head), kg_buf_view(&pass->request->body));
}

static void pass_on_connected(void *data, int fd, const struct kg_err *err_or_null)
{
    struct http_pass *pass = data;
    struct http_tunnel *tunnel = fd >= 0 ? http_tunnel_new(pass->nodes, pass->node, fd) : NULL;
    pass->connecting = NULL;
    if (err_or_null != NULL)
        pass_fail(pass, err_or_null);
    else if (tunnel == NULL)
        pass_lose(pass, "the connection to it cannot be used");
    else
        pass_send(pass, tunnel);
}

static void pass_connect(struct http_pass *pass)
{
    pass->is_again = false;
    pass->connecting =
        link_connect(pass->nodes->link, pass->node, pass->address, pass_on_connected, pass);
}

void http_pass_to(struct http_request *request, const char *node, const char *address)
{
    struct http_nodes *nodes = http_server_of(request)->nodes;
    struct http_tunnel *tunnel = http_tunnel_idle(nodes, node);
    struct http_pass *pass = kg_alloc(sizeof(*pass));
    pass->request = request;
    pass->nodes = nodes;
    pass->node = kg_strdup(node);
    pass->address = kg_strdup(address);
    http_on_gone(request, pass_on_gone, pass);
    http_on_room(request, pass_on_room, pass);
    pass->is_again = tunnel != NULL;
    if (tunnel != NULL)
        pass_send(pass, tunnel);
    else
        pass_connect(pass);
}
